//! Foresees what a check will cost, in time and memory.
//!
//! A few lines of schema can ask for more work than a machine has: `$ref`s that fan out double it at every level, lists of
//! subschemas multiply it by the items of the input. The library that checks inputs knows no budget, and collects every
//! problem. So each check is rehearsed first, by a walk over the same subschemas and values that compares nothing and
//! stops when its budget is used up.
//!
//! A step is about a tenth of a microsecond of the check, and at most [`STEP_BYTES`] of what it has to remember.

use serde_json::{Map, Value};

use super::{
    keywords::{COMPARED, ITEMS, MEMBERS, has_unevaluated, same_value},
    pattern_cost::PatternCost,
    survey::{Patterns, resolve},
};

/// Subschemas within subschemas that one check may apply: it bounds the stack.
const MAX_NESTING: u32 = 256;
/// Bytes of names, texts and paths that make a step.
const STEP_BYTES: usize = 64;
/// Products of a text's bytes and an expression's positions that make a step.
const STEP_MATCHES: u64 = 24;
/// Steps of a match that goes back as often as it may.
const BACKTRACKING: u64 = 4_000;
/// Steps for each byte of the text of such a match: the library keeps copies of texts whose match it gives up.
const BACKTRACKING_BYTE: u64 = 16;
/// How often the library repeats a check, at most, to find out whether the outcomes of matches that it gave up matter.
const RUNS: u64 = 64;

/// Work that a check takes, or may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Work(pub(crate) u64);

impl Work {
    /// The most that any check may take.
    pub(crate) const MOST: Self = Self(1_000_000);
    /// What is done at once, between other work of a thread.
    pub(crate) const QUICK: Self = Self(20_000);
    /// Up to here all problems are collected.
    pub(crate) const ALL_PROBLEMS: Self = Self(20_000);
}

/// The check would take more than its budget.
#[derive(Debug)]
pub(crate) struct TooMuchWork;

/// Walks as a check would, at its worst.
pub(crate) fn rehearse(root: &Value, input: &Value, patterns: &Patterns, most: Work) -> Result<Work, TooMuchWork> {
    let mut rehearsal = Rehearsal { root, patterns, most: most.0, steps: 0, matching: 0, unsure: 0 };
    rehearsal.apply(root, input, 0, 0)?;
    Ok(Work(rehearsal.total()))
}

struct Rehearsal<'s> {
    root: &'s Value,
    patterns: &'s Patterns,
    most: u64,
    /// Steps of one run.
    steps: u64,
    /// Steps of matches that may be given up, which are made once.
    matching: u64,
    /// How many such matches there are.
    unsure: u32,
}

impl Rehearsal<'_> {
    fn total(&self) -> u64 {
        let runs = if self.unsure == 0 { 1 } else { RUNS.min(2_u64.saturating_pow(self.unsure.saturating_add(1))) };
        self.steps.saturating_mul(runs).saturating_add(self.matching)
    }

    fn charge(&mut self, steps: u64) -> Result<(), TooMuchWork> {
        self.steps = self.steps.saturating_add(steps);
        if self.total() > self.most { Err(TooMuchWork) } else { Ok(()) }
    }

    /// `path` is how many bytes lead to the value and the schema: each problem has a copy.
    fn apply(&mut self, schema: &Value, value: &Value, nesting: u32, path: usize) -> Result<(), TooMuchWork> {
        self.charge(1 + bytes(path))?;
        if nesting > MAX_NESTING {
            return Err(TooMuchWork);
        }
        let Value::Object(keywords) = schema else { return Ok(()) };
        let nesting = nesting + 1;
        // Each keyword may have a problem.
        self.charge(length(keywords.len()))?;
        for (keyword, share) in COMPARED {
            if let Some(compared) = keywords.get(keyword) {
                self.charge(extent(compared) / share)?;
            }
        }
        // To know what was evaluated, the library asks the subschemas for the same value once more.
        for _ in 0..1 + u8::from(has_unevaluated(keywords)) {
            self.apply_to_same(keywords, value, nesting, path)?;
        }
        match value {
            Value::Object(members) => self.apply_to_members(keywords, members, nesting, path),
            Value::Array(items) => self.apply_to_items(keywords, items, nesting, path),
            Value::String(text) => self.apply_to_text(keywords, text),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    fn apply_to_same(
        &mut self,
        keywords: &Map<String, Value>,
        value: &Value,
        nesting: u32,
        path: usize,
    ) -> Result<(), TooMuchWork> {
        if let Some(Value::String(reference)) = keywords.get("$ref")
            && let Some(target) = resolve(self.root, reference)
        {
            self.apply(target, value, nesting, path + reference.len())?;
        }
        for schema in same_value(keywords) {
            if let Value::Array(names) = schema {
                self.charge(names.iter().map(extent).sum())?;
            }
            self.apply(schema, value, nesting, path)?;
        }
        Ok(())
    }

    fn apply_to_members(
        &mut self,
        keywords: &Map<String, Value>,
        members: &Map<String, Value>,
        nesting: u32,
        path: usize,
    ) -> Result<(), TooMuchWork> {
        if let Some(Value::Object(properties)) = keywords.get("properties") {
            // The library looks for each of the two in the other.
            self.charge(length(properties.len().min(members.len())))?;
            for (name, value) in members {
                if let Some(schema) = properties.get(name) {
                    self.apply(schema, value, nesting, path + name.len())?;
                }
            }
        }
        if let Some(Value::Object(patterns)) = keywords.get("patternProperties") {
            // Once for itself and once for what is additional or unevaluated.
            for pattern in patterns.keys().chain(patterns.keys()) {
                for name in members.keys() {
                    self.match_text(pattern, name)?;
                }
            }
        }
        let patterns = keywords.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::values);
        for schema in patterns.chain(MEMBERS.iter().filter_map(|keyword| keywords.get(*keyword))) {
            for (name, value) in members {
                // A problem names all that is too much.
                self.charge(bytes(name.len()))?;
                self.apply(schema, value, nesting, path + name.len())?;
            }
        }
        if let Some(schema) = keywords.get("propertyNames") {
            for name in members.keys() {
                // The problem of a name has the name.
                self.apply(schema, &Value::from(name.as_str()), nesting, path + name.len())?;
            }
        }
        Ok(())
    }

    fn apply_to_items(
        &mut self,
        keywords: &Map<String, Value>,
        items: &[Value],
        nesting: u32,
        path: usize,
    ) -> Result<(), TooMuchWork> {
        if keywords.get("uniqueItems") == Some(&Value::Bool(true)) {
            self.compare_items(items)?;
        }
        for keyword in ITEMS {
            match keywords.get(keyword) {
                Some(Value::Array(schemas)) => {
                    for (schema, value) in schemas.iter().zip(items) {
                        self.apply(schema, value, nesting, path + 4)?;
                    }
                }
                Some(schema) => {
                    for value in items {
                        self.apply(schema, value, nesting, path + 4)?;
                    }
                }
                None => {}
            }
        }
        Ok(())
    }

    /// A few items are compared each with each, more of them by hashes. Hashes of texts differ; those of large numbers and
    /// of what holds them can be made alike.
    fn compare_items(&mut self, items: &[Value]) -> Result<(), TooMuchWork> {
        const EACH_WITH_EACH: usize = 15;
        let few = length(items.len().min(EACH_WITH_EACH));
        for item in items {
            self.charge(extent(item).saturating_mul(few))?;
        }
        let alike = items.iter().filter(|item| item.is_object() || item.is_array() || item.is_number()).count();
        let alike = length(alike.saturating_sub(EACH_WITH_EACH));
        self.charge(alike.saturating_mul(alike) / 16)
    }

    fn apply_to_text(&mut self, keywords: &Map<String, Value>, text: &str) -> Result<(), TooMuchWork> {
        self.charge(bytes(text.len()))?;
        if let Some(Value::String(format)) = keywords.get("format") {
            // Names of hosts may be decoded, which takes the square of their length.
            let is_decoded = format.contains("idn") || format == "hostname";
            let rounds = if is_decoded { length(text.len() / 16) } else { 4 };
            self.charge(bytes(text.len()).saturating_mul(rounds))?;
        }
        match keywords.get("pattern") {
            Some(Value::String(pattern)) => self.match_text(pattern, text),
            Some(_) | None => Ok(()),
        }
    }

    fn match_text(&mut self, pattern: &str, text: &str) -> Result<(), TooMuchWork> {
        let PatternCost { positions, backtracks, .. } = self.patterns.get(pattern).copied().unwrap_or_default();
        let size = length(text.len());
        if backtracks {
            self.unsure = self.unsure.saturating_add(1);
            let steps = BACKTRACKING.saturating_add(size.saturating_mul(BACKTRACKING_BYTE));
            self.matching = self.matching.saturating_add(steps);
        }
        self.charge(1 + size.saturating_mul(positions) / STEP_MATCHES)
    }
}

/// Steps for so many bytes.
fn bytes(bytes: usize) -> u64 {
    length(bytes / STEP_BYTES)
}

fn length(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Steps to read or copy a whole value.
fn extent(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => 1 + bytes(text.len()),
        Value::Array(items) => items.iter().fold(1, |sum, item| extent(item).saturating_add(sum)),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| bytes(name.len()).saturating_add(extent(value));
            members.iter().map(member).fold(1, u64::saturating_add)
        }
    }
}
