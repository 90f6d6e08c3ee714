//! Looks through a schema before anything is compiled, and foresees what a check will cost.
//!
//! A few lines of schema can ask for more work than a machine has: `$ref`s that fan out double it at every level. The
//! library that checks inputs knows no budget. So a check that may expand is rehearsed first, by a walk over the same
//! subschemas and values that compares nothing and stops when its budget is used up.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::SchemaError;

/// Regular expressions in one schema.
const MAX_PATTERNS: usize = 64;
/// Subschemas that one check may apply.
const MAX_STEPS: u32 = 200_000;
/// Subschemas within subschemas that one check may apply: it bounds the stack.
const MAX_NESTING: u32 = 256;

/// Keywords whose value is one schema, for the same value.
const SAME_VALUE: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords whose value is a list of schemas, for the same value.
const SAME_VALUE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords whose value maps names to schemas, for the same value.
const SAME_VALUE_MAPS: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Keywords whose value is a schema, for members of an object.
const MEMBERS: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];
/// Keywords whose value is a schema or a list of schemas, for items of an array.
const ITEMS: [&str; 5] = ["items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"];

/// What a schema holds.
pub(crate) struct Survey {
    /// Whether the cost of a check can exceed the product of the sizes of schema and input.
    pub(crate) may_expand: bool,
}

/// How deep objects and arrays nest.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Looks at every subschema that a check can reach.
pub(crate) fn survey(root: &Value) -> Result<Survey, SchemaError> {
    let id_keyword = match root.get("$schema").and_then(Value::as_str) {
        Some(draft) if draft.contains("draft-04") => "id",
        Some(_) | None => "$id",
    };
    let mut may_expand = false;
    let mut patterns = 0;
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
            may_expand = true;
            left.push(resolve(root, reference).ok_or_else(|| SchemaError::Reference { reference: reference.clone() })?);
        }
        may_expand |= has_unevaluated(keywords);
        patterns += usize::from(keywords.contains_key("pattern"));
        patterns += keywords.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len);
        left.extend(subschemas(keywords));
    }
    if patterns > MAX_PATTERNS {
        return Err(SchemaError::TooManyPatterns { max: MAX_PATTERNS });
    }
    // What recurs without descending recurs for every value.
    if may_expand && rehearse(root, &Value::Object(Map::new())).is_err() {
        return Err(SchemaError::Endless);
    }
    Ok(Survey { may_expand })
}

fn has_unevaluated(keywords: &Map<String, Value>) -> bool {
    keywords.contains_key("unevaluatedProperties") || keywords.contains_key("unevaluatedItems")
}

fn subschemas(keywords: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let maps = ["properties", "patternProperties"].iter().chain(&SAME_VALUE_MAPS);
    let mapped = maps.filter_map(|keyword| keywords.get(*keyword)?.as_object()).flat_map(Map::values);
    let listed = SAME_VALUE_LISTS.iter().chain(&ITEMS).filter_map(|keyword| keywords.get(*keyword)?.as_array());
    let single = SAME_VALUE.iter().chain(&MEMBERS).chain(&ITEMS).chain(&["propertyNames"]);
    mapped.chain(listed.flatten()).chain(single.filter_map(|keyword| keywords.get(*keyword)))
}

/// The part of the schema that `#` or `#/a/pointer` names. Anchors and other documents are not followed.
fn resolve<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
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

/// The check would cost more than its budget.
#[derive(Debug)]
pub(crate) struct TooMuchWork;

/// Walks as a check would, at its worst.
pub(crate) fn rehearse(root: &Value, input: &Value) -> Result<(), TooMuchWork> {
    Rehearsal { root, steps: 0 }.apply(root, input, 0)
}

struct Rehearsal<'s> {
    root: &'s Value,
    steps: u32,
}

impl Rehearsal<'_> {
    fn apply(&mut self, schema: &Value, value: &Value, nesting: u32) -> Result<(), TooMuchWork> {
        self.steps += 1;
        if self.steps > MAX_STEPS || nesting > MAX_NESTING {
            return Err(TooMuchWork);
        }
        let Value::Object(keywords) = schema else { return Ok(()) };
        let nesting = nesting + 1;
        // To know what was evaluated, the library asks the subschemas for the same value once more.
        for _ in 0..1 + u8::from(has_unevaluated(keywords)) {
            self.apply_to_same(keywords, value, nesting)?;
        }
        match value {
            Value::Object(members) => self.apply_to_members(keywords, members, nesting),
            Value::Array(items) => self.apply_to_items(keywords, items, nesting),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn apply_to_same(&mut self, keywords: &Map<String, Value>, value: &Value, nesting: u32) -> Result<(), TooMuchWork> {
        if let Some(Value::String(reference)) = keywords.get("$ref")
            && let Some(target) = resolve(self.root, reference)
        {
            self.apply(target, value, nesting)?;
        }
        let single = SAME_VALUE.iter().filter_map(|keyword| keywords.get(*keyword));
        let listed = SAME_VALUE_LISTS.iter().filter_map(|keyword| keywords.get(*keyword)?.as_array()).flatten();
        let mapped =
            SAME_VALUE_MAPS.iter().filter_map(|keyword| keywords.get(*keyword)?.as_object()).flat_map(Map::values);
        for schema in single.chain(listed).chain(mapped) {
            self.apply(schema, value, nesting)?;
        }
        Ok(())
    }

    fn apply_to_members(
        &mut self,
        keywords: &Map<String, Value>,
        members: &Map<String, Value>,
        nesting: u32,
    ) -> Result<(), TooMuchWork> {
        if let Some(Value::Object(properties)) = keywords.get("properties") {
            for (name, value) in members {
                if let Some(schema) = properties.get(name) {
                    self.apply(schema, value, nesting)?;
                }
            }
        }
        let patterns = keywords.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::values);
        for schema in patterns.chain(MEMBERS.iter().filter_map(|keyword| keywords.get(*keyword))) {
            for value in members.values() {
                self.apply(schema, value, nesting)?;
            }
        }
        if let Some(schema) = keywords.get("propertyNames") {
            for _ in members {
                // A name is a text, and no text has members or items.
                self.apply(schema, &Value::Null, nesting)?;
            }
        }
        Ok(())
    }

    fn apply_to_items(
        &mut self,
        keywords: &Map<String, Value>,
        items: &[Value],
        nesting: u32,
    ) -> Result<(), TooMuchWork> {
        for keyword in ITEMS {
            match keywords.get(keyword) {
                Some(Value::Array(schemas)) => {
                    for (schema, value) in schemas.iter().zip(items) {
                        self.apply(schema, value, nesting)?;
                    }
                }
                Some(schema) => {
                    for value in items {
                        self.apply(schema, value, nesting)?;
                    }
                }
                None => {}
            }
        }
        Ok(())
    }
}
