//! Requests that an SDK sends again by itself, because the connection broke or took too long.
//!
//! The SDKs do not name their requests, but most count their attempts. So a turn whose answer was not delivered is kept in
//! mind, and the next attempt at the very same request is shown that turn instead of beginning another. A first attempt
//! is another request: the client that makes it has given up the ones before.
//!
//! A restart of the server forgets all that. So turns are named after what is asked and the minute of their first attempt:
//! an attempt that is not the first, and that this process knows nothing of, looks for the names of the minutes before the
//! start. A turn whose answer was delivered is passed over: its name is kept as delivered, a moment later.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use everturn_core::{KeyId, TenantId, Timestamp};
use everturn_engine::{Engine, SubmissionKey};
use everturn_http::{Caller, named_submission};
use everturn_store::StoreError;
use http::{HeaderMap, HeaderName};

use crate::retries::is_ai_sdk;

/// How many attempts the SDK made before this one.
const RETRY_COUNT: HeaderName = HeaderName::from_static("x-stainless-retry-count");
/// How many requests are kept in mind.
const MAX_KEPT: usize = 10_000;
/// For how long: longer than the SDKs wait for an answer.
const KEPT: Duration = Duration::from_secs(3600);
/// For how long after the connection was lost: the SDKs wait for 8 s at most before their next attempt.
const LOST: Duration = Duration::from_secs(15);
/// A connection is lost without our noticing only after the client has waited for so long at least.
const UNNOTICED: Duration = Duration::from_secs(5);
/// How many minutes before its start a server looks for turns: the SDKs wait for ten minutes for an answer.
const MINUTES_BEFORE: i64 = 12;
/// For how long after its start a server takes requests of the AI SDK, which does not count its attempts, for attempts that are
/// not the first: it makes three within about six seconds.
const UNCOUNTED: Duration = Duration::from_secs(30);
/// How many turns that ask the same and began in the same minute are told apart after a restart.
const SAME_MINUTE: u32 = 8;

/// The requests whose answers were not delivered yet.
#[derive(Clone, Debug)]
pub(crate) struct Attempts {
    kept: Arc<Mutex<Kept>>,
    /// The minute in which the server was started.
    start: i64,
    /// When the server was started.
    begun: Instant,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { kept: Arc::default(), start: minute(), begun: Instant::now() }
    }
}

/// Minutes since 1970.
fn minute() -> i64 {
    Timestamp::now().millis() / 60_000
}

/// The name of the turn of a request.
fn name(asked: &str, minute: i64, number: u32) -> String {
    format!("openai-attempt-{asked}-{minute}-{number}")
}

/// The name that says that the answer of a turn was delivered.
fn delivered(name: &str) -> String {
    format!("{name}-delivered")
}

#[derive(Debug, Default)]
struct Kept {
    /// By what is asked.
    requests: HashMap<String, Vec<Request>>,
    /// Oldest first; some may be gone.
    order: VecDeque<(Instant, String, String)>,
    /// How many first attempts asked the same in this minute.
    minute: i64,
    asked_in_minute: HashMap<String, u32>,
    /// The names that this process made in the minute of its start, and those of the process before it that it has found:
    /// each is one request's.
    taken: HashSet<String>,
}

#[derive(Debug)]
struct Request {
    name: String,
    /// When its last attempt was begun.
    begun: Instant,
    /// Since when nobody waits for its answer any more.
    lost: Option<Instant>,
}

impl Request {
    /// Whether nobody will ask for its answer any more.
    fn is_given_up(&self, now: Instant) -> bool {
        self.lost.is_some_and(|lost| now.saturating_duration_since(lost) > LOST)
    }
}

impl Attempts {
    /// An attempt at a request; `None` for clients that make one only, as far as we know.
    pub(crate) async fn begin(
        &self,
        engine: &Engine,
        caller: &Caller,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Option<Attempt>, StoreError> {
        let tenant = &caller.tenant;
        let count =
            headers.get(&RETRY_COUNT).and_then(|count| count.to_str().ok()).and_then(|count| count.parse().ok());
        let (count, may_be_again) = match count {
            Some(count) => (count, count > 0),
            None if is_ai_sdk(headers) => (0, self.begun.elapsed() < UNCOUNTED),
            None => return Ok(None),
        };
        // Another key is another client.
        let key = caller.account.key.as_ref().map_or("", KeyId::as_str);
        let asked = named_submission(String::new(), &format!("{tenant} {key}"), body).fingerprint;
        if let Some(name) = self.known(&asked, count, Seen::Lost) {
            return Ok(Some(self.attempt(engine, tenant, asked, name)));
        }
        // Before one whose connection seems to be open: two clients may have asked the same, and each has its turn.
        let before = if may_be_again { self.before_start(engine, tenant, &asked, count > 0).await? } else { None };
        if before.is_none()
            && let Some(name) = self.known(&asked, count, Seen::Open)
        {
            return Ok(Some(self.attempt(engine, tenant, asked, name)));
        }
        let name = match before {
            Some(name) => name,
            None => loop {
                let (minute, name) = self.new_name(&asked);
                // Only the process before this one may have used it.
                if minute > self.start || !engine.was_submitted(tenant, &name).await? {
                    break name;
                }
            },
        };
        if !self.keep(&asked, &name) {
            // Another attempt at the same request has found it in between.
            return Box::pin(self.begin(engine, caller, headers, body)).await;
        }
        Ok(Some(self.attempt(engine, tenant, asked, name)))
    }

    fn attempt(&self, engine: &Engine, tenant: &TenantId, asked: String, name: String) -> Attempt {
        let keeper = Some((engine.clone(), tenant.clone()));
        Attempt { attempts: self.clone(), keeper, asked, name, open: true }
    }

    /// The turn of an earlier attempt that this process has seen.
    fn known(&self, asked: &str, count: u32, seen: Seen) -> Option<String> {
        let now = Instant::now();
        let mut kept = self.lock();
        kept.forget_old();
        let requests = kept.requests.get_mut(asked)?;
        requests.retain(|request| if count == 0 { request.lost.is_none() } else { !request.is_given_up(now) });
        let is_it = |request: &Request| match seen {
            Seen::Lost => request.lost.is_some(),
            // Others may ask the same at the same moment. A client that noticed before us has waited for a while.
            Seen::Open => request.lost.is_none() && now.saturating_duration_since(request.begun) >= UNNOTICED,
        };
        let known = requests.iter().position(is_it).filter(|_| count > 0)?;
        (requests[known].lost, requests[known].begun) = (None, now);
        Some(requests[known].name.clone())
    }

    /// The newest turn that asked the same before the server was started, was not delivered, and that nobody has asked for
    /// since. One that was over by then counts only if it `may_be_over`: that it was delivered is kept a moment later.
    async fn before_start(
        &self,
        engine: &Engine,
        tenant: &TenantId,
        asked: &str,
        may_be_over: bool,
    ) -> Result<Option<String>, StoreError> {
        for minute in (minute() - MINUTES_BEFORE..=self.start).rev() {
            for number in (0..SAME_MINUTE).rev() {
                let name = name(asked, minute, number);
                if !self.lock().taken.contains(&name)
                    && engine.was_submitted(tenant, &name).await?
                    && !engine.was_submitted(tenant, &delivered(&name)).await?
                    && (may_be_over || !engine.was_over_at_start(tenant, &name).await?)
                    && self.take(&name)
                {
                    return Ok(Some(name));
                }
            }
        }
        Ok(None)
    }

    /// Takes a turn for a request. `false` if another request has it.
    fn take(&self, name: &str) -> bool {
        let mut kept = self.lock();
        if kept.taken.len() >= MAX_KEPT {
            kept.taken.clear();
        }
        kept.taken.insert(name.to_owned())
    }

    fn new_name(&self, asked: &str) -> (i64, String) {
        let minute = minute();
        let mut kept = self.lock();
        if kept.minute != minute || kept.asked_in_minute.len() >= MAX_KEPT {
            kept.minute = minute;
            kept.asked_in_minute.clear();
        }
        let number = kept.asked_in_minute.entry(asked.to_owned()).or_default();
        *number += 1;
        let name = name(asked, minute, *number - 1);
        if minute <= self.start && kept.taken.len() < MAX_KEPT {
            kept.taken.insert(name.clone());
        }
        (minute, name)
    }

    /// Keeps the turn of an attempt in mind. `false` if it is another attempt's.
    fn keep(&self, asked: &str, name: &str) -> bool {
        let mut kept = self.lock();
        let requests = kept.requests.entry(asked.to_owned()).or_default();
        if requests.iter().any(|request| request.name == name) {
            return false;
        }
        requests.push(Request { name: name.to_owned(), begun: Instant::now(), lost: None });
        kept.order.push_back((Instant::now(), asked.to_owned(), name.to_owned()));
        true
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// Nobody waits for its answer any more.
    Lost,
    /// Its connection is open, as far as we know.
    Open,
}

impl Kept {
    fn forget_old(&mut self) {
        while let Some((at, ..)) = self.order.front() {
            if self.order.len() <= MAX_KEPT && at.elapsed() < KEPT {
                return;
            }
            if let Some((_, asked, name)) = self.order.pop_front() {
                self.remove(&asked, &name);
            }
        }
    }

    fn remove(&mut self, asked: &str, name: &str) {
        if let Some(requests) = self.requests.get_mut(asked) {
            requests.retain(|request| request.name != name);
            if requests.is_empty() {
                self.requests.remove(asked);
            }
        }
    }
}

/// One attempt. Dropped before it is done with, it counts as lost.
#[derive(Debug)]
pub(crate) struct Attempt {
    attempts: Attempts,
    /// Who keeps that it was delivered, and for whom.
    keeper: Option<(Engine, TenantId)>,
    asked: String,
    name: String,
    open: bool,
}

impl Attempt {
    /// The key of what it submits.
    pub(crate) fn key(&self, operation: &str, body: &[u8]) -> SubmissionKey {
        named_submission(self.name.clone(), operation, body)
    }

    /// It began nothing: the same request is another one from now on.
    pub(crate) fn forget(&mut self) {
        self.open = false;
        self.attempts.lock().remove(&self.asked, &self.name);
    }

    /// Its answer was given: the same request is another one from now on, also after a restart.
    pub(crate) fn done(&mut self) {
        if !self.open {
            return;
        }
        self.forget();
        if let Some((engine, tenant)) = &self.keeper {
            engine.keep_name(tenant, delivered(&self.name));
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.open
            && let Some(requests) = self.attempts.lock().requests.get_mut(&self.asked)
        {
            let own = requests.iter_mut().filter(|request| request.name == self.name);
            own.for_each(|request| request.lost = Some(Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attempt, in a server that was started long ago.
    fn attempt(attempts: &Attempts, count: u32, asked: &str) -> Attempt {
        let known = attempts.known(asked, count, Seen::Lost).or_else(|| attempts.known(asked, count, Seen::Open));
        let name = known.unwrap_or_else(|| {
            let (_, name) = attempts.new_name(asked);
            attempts.keep(asked, &name);
            name
        });
        Attempt { attempts: attempts.clone(), keeper: None, asked: asked.to_owned(), name, open: true }
    }

    #[test]
    fn an_attempt_goes_on_where_the_last_one_was_lost() {
        let attempts = Attempts::default();
        let (first, other) = (attempt(&attempts, 0, "a"), attempt(&attempts, 0, "a"));
        assert_ne!(first.name, other.name, "two requests that ask the same are two");
        let name = other.name.clone();
        drop(other);
        let mut again = attempt(&attempts, 1, "a");
        assert_eq!(again.name, name, "the lost one, not the one under way");
        again.done();
        let mut third = attempt(&attempts, 1, "a");
        assert_ne!(third.name, first.name, "its connection is open, as far as we know");
        third.done();
        // One whose connection is gone without our noticing.
        for request in attempts.lock().requests.values_mut().flatten() {
            request.begun = request.begun.checked_sub(UNNOTICED).unwrap();
        }
        assert_eq!(attempt(&attempts, 1, "a").name, first.name);
        assert_ne!(attempt(&attempts, 1, "b").name, first.name, "it never came here");
    }

    #[test]
    fn what_was_delivered_is_over() {
        let attempts = Attempts::default();
        let mut first = attempt(&attempts, 0, "a");
        first.done();
        let name = first.name.clone();
        drop(first);
        assert_ne!(attempt(&attempts, 2, "a").name, name);
    }

    #[test]
    fn what_was_given_up_is_over() {
        let attempts = Attempts::default();
        let lost = |body: &str| {
            let attempt = attempt(&attempts, 0, body);
            attempt.name.clone()
        };
        // A first attempt is another request, whatever becomes of it.
        let name = lost("a");
        attempt(&attempts, 0, "a").done();
        assert_ne!(attempt(&attempts, 1, "a").name, name);
        // So is one that comes later than any SDK does.
        let name = lost("b");
        for request in attempts.lock().requests.values_mut().flatten() {
            request.lost = request.lost.and_then(|lost| lost.checked_sub(LOST + Duration::from_secs(1)));
        }
        assert_ne!(attempt(&attempts, 1, "b").name, name);
    }

    #[test]
    fn what_is_kept_in_mind_is_bounded() {
        let attempts = Attempts::default();
        for body in 0..MAX_KEPT + 10 {
            drop(attempt(&attempts, 0, &body.to_string()));
        }
        assert!(attempts.lock().requests.len() <= MAX_KEPT + 1);
    }
}
