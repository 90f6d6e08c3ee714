//! Looks through a schema before anything is compiled: what it refers to, and what it would cost to compile.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{
    SchemaError,
    keywords::{has_unevaluated, same_value, subschemas},
    pattern_cost::PatternCost,
    work::{self, Work},
};

/// Regular expressions in one schema.
const MAX_PATTERNS: usize = 64;
/// Longest regular expression, in bytes.
const PATTERN_TEXT: usize = 8 * 1024;
/// Heaviest regular expression. One state takes about half a microsecond to compile.
pub(crate) const PATTERN_WEIGHT: u64 = 100_000;
/// Weight of all regular expressions of a schema.
const SCHEMA_WEIGHT: u64 = 400_000;
/// Subschemas that the compiler may go through. For `unevaluatedProperties` and `unevaluatedItems` it compiles what lies
/// below once more, so that their number doubles with each that lies within another.
const COMPILED: u32 = 30_000;
/// References within references that `unevaluatedProperties` may follow: it bounds the stack.
const MAX_REFERRED: usize = 64;
/// Bytes of the paths of all parts of a schema: the compiler keeps one for each keyword.
const PATH_BYTES: usize = 4 * 1024 * 1024;

/// The costs of a schema's regular expressions, by their text.
pub(crate) type Patterns = HashMap<String, PatternCost>;

/// What a schema holds.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Its regular expressions.
    pub(crate) patterns: Patterns,
    /// The weight of all of them.
    pub(crate) weight: u64,
    /// Whether a problem may consist of the problems of several alternatives.
    pub(crate) has_alternatives: bool,
    /// Bytes of the paths of all its parts.
    pub(crate) path_bytes: usize,
}

/// How deep objects and arrays nest.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Looks at the whole schema, whose depth is within bounds.
pub(crate) fn survey(root: &Value) -> Result<Survey, SchemaError> {
    let expands = follow_references(root)?;
    Compilation { root, left: COMPILED, referred: HashSet::new(), waiting: vec![root], within: Vec::new() }.walk()?;
    let mut survey = Survey::default();
    let mut places = 0;
    survey.look(root, 0, &mut places)?;
    if survey.path_bytes > PATH_BYTES {
        return Err(SchemaError::LongPaths { bytes: survey.path_bytes, max: PATH_BYTES });
    }
    if places > MAX_PATTERNS {
        return Err(SchemaError::TooManyPatterns { max: MAX_PATTERNS });
    }
    survey.weight = survey.patterns.values().fold(0, |sum, cost| cost.weight.saturating_add(sum));
    if survey.weight > SCHEMA_WEIGHT {
        return Err(SchemaError::HeavyPatterns { weight: survey.weight, max: SCHEMA_WEIGHT });
    }
    // What recurs without descending recurs for every value.
    if expands && work::rehearse(root, &Value::Object(Map::new()), &survey.patterns, Work::MOST).is_err() {
        return Err(SchemaError::Endless);
    }
    Ok(survey)
}

impl Survey {
    /// Counts what lies under a value. Also where no check comes: the compiler may.
    fn look(&mut self, value: &Value, path: usize, places: &mut usize) -> Result<(), SchemaError> {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    match (name.as_str(), value) {
                        ("pattern", Value::String(pattern)) => self.add(pattern, places)?,
                        ("patternProperties", Value::Object(patterns)) => {
                            patterns.keys().try_for_each(|pattern| self.add(pattern, places))?;
                        }
                        ("anyOf" | "oneOf", _) => self.has_alternatives = true,
                        _ => {}
                    }
                    let path = path + name.len() + 1;
                    self.path_bytes = self.path_bytes.saturating_add(path);
                    self.look(value, path, places)?;
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.path_bytes = self.path_bytes.saturating_add(path);
                    self.look(item, path + 4, places)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(())
    }

    fn add(&mut self, pattern: &str, places: &mut usize) -> Result<(), SchemaError> {
        *places += 1;
        if pattern.len() > PATTERN_TEXT {
            return Err(SchemaError::LongPattern { bytes: pattern.len(), max: PATTERN_TEXT });
        }
        if self.patterns.contains_key(pattern) {
            return Ok(());
        }
        let cost = PatternCost::of(pattern);
        if cost.weight > PATTERN_WEIGHT {
            let pattern = super::shortened(pattern.to_owned());
            return Err(SchemaError::HeavyPattern { pattern, weight: cost.weight, max: PATTERN_WEIGHT });
        }
        self.patterns.insert(pattern.to_owned(), cost);
        Ok(())
    }
}

/// Looks at every subschema that a check can reach. Tells whether a check may come to one of them more than once for one
/// value.
fn follow_references(root: &Value) -> Result<bool, SchemaError> {
    let id_keyword = match root.get("$schema").and_then(Value::as_str) {
        Some(draft) if draft.contains("draft-04") => "id",
        Some(_) | None => "$id",
    };
    let mut expands = false;
    let mut seen = HashSet::new();
    let mut left = vec![root];
    while let Some(schema) = left.pop() {
        // Subschemas are told apart by where they lie: equal ones at two places are two.
        let Some(keywords) = schema.as_object().filter(|_| seen.insert(std::ptr::from_ref(schema))) else {
            continue;
        };
        for keyword in ["$dynamicRef", "$recursiveRef"] {
            if let Some(reference) = keywords.get(keyword) {
                return Err(SchemaError::Reference { reference: reference.as_str().unwrap_or_default().to_owned() });
            }
        }
        if let Some(Value::String(id)) = keywords.get(id_keyword)
            && !std::ptr::eq(schema, root)
        {
            // It would change what the references below it mean.
            return Err(SchemaError::Reference { reference: id.clone() });
        }
        if let Some(Value::String(reference)) = keywords.get("$ref") {
            expands = true;
            left.push(resolve(root, reference).ok_or_else(|| SchemaError::Reference { reference: reference.clone() })?);
        }
        expands |= has_unevaluated(keywords);
        left.extend(subschemas(keywords));
    }
    Ok(expands)
}

/// Walks as the compiler does.
struct Compilation<'s> {
    root: &'s Value,
    /// How many subschemas it may still go through.
    left: u32,
    /// Subschemas that were referred to: each is compiled once.
    referred: HashSet<*const Value>,
    /// Subschemas that are not counted yet.
    waiting: Vec<&'s Value>,
    /// References that are being followed to what was evaluated.
    within: Vec<*const Value>,
}

impl<'s> Compilation<'s> {
    fn walk(mut self) -> Result<(), SchemaError> {
        while let Some(schema) = self.waiting.pop() {
            self.compile(schema)?;
        }
        Ok(())
    }

    fn charge(&mut self) -> Result<(), SchemaError> {
        self.left = self.left.checked_sub(1).ok_or(SchemaError::Unevaluated { max: COMPILED })?;
        Ok(())
    }

    fn compile(&mut self, schema: &'s Value) -> Result<(), SchemaError> {
        self.charge()?;
        let Value::Object(keywords) = schema else { return Ok(()) };
        if let Some(target) = self.target(keywords)
            && self.referred.insert(std::ptr::from_ref(target))
        {
            self.waiting.push(target);
        }
        subschemas(keywords).try_for_each(|schema| self.compile(schema))?;
        if has_unevaluated(keywords) { self.mark(keywords) } else { Ok(()) }
    }

    /// Goes through what may have evaluated a part of the same value.
    fn mark(&mut self, keywords: &'s Map<String, Value>) -> Result<(), SchemaError> {
        for schema in same_value(keywords) {
            self.compile(schema)?;
            if let Value::Object(keywords) = schema {
                self.mark(keywords)?;
            }
        }
        if let Some(target) = self.target(keywords)
            && let Value::Object(keywords) = target
            && !self.within.contains(&std::ptr::from_ref(target))
        {
            self.charge()?;
            if self.within.len() >= MAX_REFERRED {
                return Err(SchemaError::Unevaluated { max: COMPILED });
            }
            self.within.push(target);
            self.compile(target)?;
            self.mark(keywords)?;
            self.within.pop();
        }
        Ok(())
    }

    fn target(&self, keywords: &Map<String, Value>) -> Option<&'s Value> {
        resolve(self.root, keywords.get("$ref")?.as_str()?)
    }
}

/// The part of the schema that `#` or `#/a/pointer` names. Anchors and other documents are not followed.
pub(super) fn resolve<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    root.pointer(&percent_decoded(reference.strip_prefix('#')?)?)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}
