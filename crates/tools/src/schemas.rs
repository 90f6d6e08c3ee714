//! Compiled schemas, kept for those who send the same again, and made where they hold nobody up.
//!
//! To compile a large schema or to compare a large input takes milliseconds. So both happen on threads of their own, a few
//! at a time, and one at a time for each tenant: a tenant that sends many waits for its own. Schemas that came lately are
//! kept by their text, within bounds; tools that come with each request are compiled once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use everturn_core::Json;
use tokio::sync::{Mutex as Turns, Semaphore};

use crate::{
    Schema, SchemaCheck, SchemaError, form_answer,
    schema::{Listing, Misfit, Work},
};

/// Bytes of schemas that may come together, as the tools of one request.
const TOGETHER_BYTES: usize = 1024 * 1024;
/// Weight of the regular expressions of schemas that come together.
const TOGETHER_WEIGHT: u64 = 1_000_000;
/// Weight of the regular expressions of all tools of a tool server.
pub(crate) const SERVER_WEIGHT: u64 = 4_000_000;
/// Schemas that are kept.
const KEPT: usize = 1024;
/// Memory of the schemas that are kept, in bytes.
const KEPT_BYTES: usize = 64 * 1024 * 1024;
/// Largest schema that is compiled at once, between other work of a thread, in bytes.
const QUICK_SCHEMA: usize = 2 * 1024;
/// Weight of its regular expressions, at most.
const QUICK_WEIGHT: u64 = 1000;
/// Largest input that is read at once, between other work of a thread, in bytes.
const QUICK_BYTES: usize = 64 * 1024;
/// Threads that compile and compare at once, at most.
const MOST_AT_ONCE: usize = 4;
/// Tenants beyond which those who wait for nothing are forgotten.
const IDLE_TENANTS: usize = 64;

/// The schemas of a server. Clones share them.
#[derive(Clone, Debug)]
pub struct Schemas(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    check: SchemaCheck,
    kept: Mutex<Kept>,
    /// Whose turn it is, for each tenant that has work.
    turns: Mutex<HashMap<String, Weak<Turns<()>>>>,
    /// The threads that are free.
    free: Arc<Semaphore>,
}

/// One of several schemas that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedSchema {
    /// Which one, counted from 0.
    pub index: usize,
    /// Why.
    pub error: SchemaError,
}

impl Default for Schemas {
    fn default() -> Self {
        // Half of the machine is for everything else.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Inner {
            check: SchemaCheck::default(),
            kept: Mutex::default(),
            turns: Mutex::default(),
            free: Arc::new(Semaphore::new((cores / 2).clamp(1, MOST_AT_ONCE))),
        }))
    }
}

impl Schemas {
    /// Compiles a schema for a tenant, if that was not done lately.
    pub async fn compile(&self, tenant: &str, schema: &Json) -> Result<Arc<Schema>, SchemaError> {
        self.compile_within(tenant, schema, 0).await
    }

    /// Compiles schemas that come together, whose bytes and regular expressions have a bound together.
    pub async fn compile_all(&self, tenant: &str, schemas: &[&Json]) -> Result<(), RefusedSchema> {
        let (mut bytes, mut weight) = (0_usize, 0_u64);
        // Before anything is compiled.
        for (index, schema) in schemas.iter().enumerate() {
            bytes = bytes.saturating_add(schema.as_str().len());
            // One that is too long by itself is told so.
            if bytes > TOGETHER_BYTES && schema.as_str().len() <= self.0.check.max_bytes {
                return Err(RefusedSchema { index, error: SchemaError::TooLargeTogether { max: TOGETHER_BYTES } });
            }
        }
        for (index, schema) in schemas.iter().enumerate() {
            let refused = |error| RefusedSchema { index, error };
            let compiled = self.compile_within(tenant, schema, weight).await.map_err(refused)?;
            weight = heavier(weight, compiled.weight()).map_err(refused)?;
        }
        Ok(())
    }

    async fn compile_within(&self, tenant: &str, schema: &Json, weight: u64) -> Result<Arc<Schema>, SchemaError> {
        if let Some(compiled) = self.find(schema) {
            return Ok(compiled);
        }
        let bytes = schema.as_str().len();
        if bytes > self.0.check.max_bytes {
            return Err(SchemaError::TooLarge { bytes, max: self.0.check.max_bytes });
        }
        if is_quick(schema.as_str()) {
            let surveyed = self.0.check.look_through(schema)?;
            if surveyed.weight() <= QUICK_WEIGHT {
                heavier(weight, surveyed.weight())?;
                let compiled = self.keep(schema, surveyed.compile()?);
                // Many small ones must not keep the thread from everything else.
                tokio::task::yield_now().await;
                return Ok(compiled);
            }
        }
        let (schemas, schema) = (self.clone(), schema.clone());
        let compile = move || {
            // Another request of this tenant may have had the same.
            if let Some(compiled) = schemas.find(&schema) {
                return Ok(compiled);
            }
            let surveyed = schemas.0.check.look_through(&schema)?;
            heavier(weight, surveyed.weight())?;
            Ok(schemas.keep(&schema, surveyed.compile()?))
        };
        self.aside(tenant, compile).await.unwrap_or(Err(SchemaError::Crashed))
    }

    /// Whether an input fits. The message is for the model that made the input.
    pub async fn validate(&self, tenant: &str, schema: &Arc<Schema>, input: &Json) -> Result<(), String> {
        self.compare(tenant, schema, input, Listing::FOR_MODELS).await.map_err(Misfit::for_model)
    }

    /// Whether an answer fits the schema of its form. The problems are as those of [`crate::check_answer`].
    pub async fn check_answer(&self, tenant: &str, schema: &Json, answer: &Json) -> Result<(), Vec<String>> {
        let schema = self.compile(tenant, schema).await.map_err(|error| vec![error.to_string()])?;
        self.compare(tenant, &schema, answer, form_answer::LISTING).await.map_err(form_answer::problems)
    }

    async fn compare(&self, tenant: &str, schema: &Arc<Schema>, input: &Json, listing: Listing) -> Result<(), Misfit> {
        if input.as_str().len() <= QUICK_BYTES {
            match schema.compare(input, listing, Work::QUICK) {
                Err(Misfit::TooMuchWork(_)) => {}
                outcome => return outcome,
            }
        }
        let (schema, input) = (Arc::clone(schema), input.clone());
        let compare = move || schema.compare(&input, listing, Work::MOST);
        self.aside(tenant, compare).await.unwrap_or(Err(Misfit::Crashed))
    }

    /// Does work on another thread, when it is the tenant's turn and one is free. `None` if it panicked.
    async fn aside<T: Send + 'static>(&self, tenant: &str, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let turn = self.turns_of(tenant).lock_owned().await;
        let free = Arc::clone(&self.0.free).acquire_owned().await.ok()?;
        let work = move || {
            // Until it is done, also if nobody waits for it any more.
            let (_turn, _free) = (turn, free);
            work()
        };
        tokio::task::spawn_blocking(work).await.ok()
    }

    fn turns_of(&self, tenant: &str) -> Arc<Turns<()>> {
        let mut all = self.0.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = all.get(tenant).and_then(Weak::upgrade) {
            return turns;
        }
        if all.len() >= IDLE_TENANTS {
            all.retain(|_, turns| turns.strong_count() > 0);
        }
        let turns = Arc::default();
        all.insert(tenant.to_owned(), Arc::downgrade(&turns));
        turns
    }

    fn find(&self, schema: &Json) -> Option<Arc<Schema>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner).find(schema.as_str())
    }

    fn keep(&self, schema: &Json, compiled: Schema) -> Arc<Schema> {
        let compiled = Arc::new(compiled);
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner).keep(schema.as_str(), &compiled);
        compiled
    }
}

/// Whether a schema is short, and has nothing that multiplies, be it in other letters.
fn is_quick(schema: &str) -> bool {
    schema.len() <= QUICK_SCHEMA && !["$ref", "unevaluated", "\\u"].iter().any(|word| schema.contains(word))
}

/// The weight with that of one more schema, if there is room for it.
fn heavier(weight: u64, more: u64) -> Result<u64, SchemaError> {
    let weight = weight.saturating_add(more);
    if weight > TOGETHER_WEIGHT {
        return Err(SchemaError::HeavyTogether { weight, max: TOGETHER_WEIGHT });
    }
    Ok(weight)
}

/// The schemas that were used lately, by their text.
#[derive(Debug, Default)]
struct Kept {
    entries: HashMap<Box<str>, Entry>,
    bytes: usize,
    /// Rises with each use.
    uses: u64,
}

#[derive(Debug)]
struct Entry {
    schema: Arc<Schema>,
    bytes: usize,
    used: u64,
}

impl Kept {
    fn find(&mut self, text: &str) -> Option<Arc<Schema>> {
        let entry = self.entries.get_mut(text)?;
        self.uses += 1;
        entry.used = self.uses;
        Some(Arc::clone(&entry.schema))
    }

    fn keep(&mut self, text: &str, schema: &Arc<Schema>) {
        let bytes = schema.memory().saturating_add(text.len() * 4);
        if bytes > KEPT_BYTES || self.entries.contains_key(text) {
            return;
        }
        while self.entries.len() >= KEPT || self.bytes + bytes > KEPT_BYTES {
            // Few enough to look at each; this follows a compilation, which takes much longer.
            let Some(oldest) = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(text, _)| text.clone())
            else {
                break;
            };
            self.bytes -= self.entries.remove(&oldest).map_or(0, |entry| entry.bytes);
        }
        self.uses += 1;
        self.bytes += bytes;
        self.entries.insert(text.into(), Entry { schema: Arc::clone(schema), bytes, used: self.uses });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn json_of(value: &Value) -> Json {
        Json::of(value).unwrap()
    }

    /// A schema unlike the others, with this many states in its expressions.
    fn heavy(name: usize, weight: usize) -> Json {
        let pattern = format!("{name}a{{{}}}", weight / 2);
        json_of(&json!({ "properties": { "a": { "pattern": pattern } } }))
    }

    #[tokio::test]
    async fn what_came_before_is_not_compiled_again() {
        let schemas = Schemas::default();
        let schema = heavy(1, 2000);
        let first = schemas.compile("a", &schema).await.unwrap();
        assert!(Arc::ptr_eq(&first, &schemas.compile("b", &schema).await.unwrap()));
        assert!(!Arc::ptr_eq(&first, &schemas.compile("b", &heavy(2, 2000)).await.unwrap()));
    }

    #[tokio::test]
    async fn what_is_kept_has_a_bound() {
        let schemas = Schemas::default();
        let favourite = heavy(0, 2000);
        let first = schemas.compile("a", &favourite).await.unwrap();
        for name in 1..500 {
            schemas.compile("a", &heavy(name, 2000)).await.unwrap();
            schemas.compile("a", &favourite).await.unwrap();
        }
        let kept = schemas.0.kept.lock().unwrap();
        assert!(kept.bytes <= KEPT_BYTES && kept.bytes > KEPT_BYTES / 2, "{}", kept.bytes);
        assert_eq!(kept.bytes, kept.entries.values().map(|entry| entry.bytes).sum::<usize>());
        assert!(kept.entries.len() < 500, "what was used long ago is gone");
        assert!(Arc::ptr_eq(&first, &kept.entries[favourite.as_str()].schema), "what is used stays");
    }

    #[tokio::test]
    async fn schemas_that_come_together_have_a_bound_together() {
        let schemas = Schemas::default();
        let few: Vec<_> = (0..5).map(|name| heavy(name, 90_000)).collect();
        schemas.compile_all("a", &few.iter().collect::<Vec<_>>()).await.unwrap();
        // Also schemas that are known already.
        let many: Vec<_> = few.iter().cycle().take(30).collect();
        let RefusedSchema { index, error } = schemas.compile_all("a", &many).await.unwrap_err();
        assert!(matches!(error, SchemaError::HeavyTogether { max: TOGETHER_WEIGHT, .. }), "{error}");
        assert!((10..12).contains(&index), "{index}");
        let long = json_of(&json!({ "description": "x".repeat(60_000) }));
        let RefusedSchema { index, error } = schemas.compile_all("a", &[&long; 20]).await.unwrap_err();
        assert_eq!((index, error), (17, SchemaError::TooLargeTogether { max: TOGETHER_BYTES }));
    }

    #[tokio::test]
    async fn a_tenant_waits_for_its_own() {
        let schemas = Schemas::default();
        // One tenant's work is under way, and more of it waits.
        let under_way = schemas.turns_of("busy").lock_owned().await;
        let waiting: Vec<_> = (0..20)
            .map(|name| {
                let schemas = schemas.clone();
                tokio::spawn(async move { schemas.compile("busy", &heavy(name, 2000)).await.map(drop) })
            })
            .collect();
        tokio::task::yield_now().await;
        schemas.compile("other", &heavy(100, 2000)).await.unwrap();
        assert!(waiting.iter().all(|task| !task.is_finished()));
        drop(under_way);
        for task in waiting {
            task.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn tenants_without_work_are_forgotten() {
        let schemas = Schemas::default();
        for tenant in 0..10 * IDLE_TENANTS {
            drop(schemas.turns_of(&tenant.to_string()));
        }
        assert!(schemas.0.turns.lock().unwrap().len() <= IDLE_TENANTS);
    }
}
