//! The keywords of JSON Schema that hold schemas, by the values that these are for.

use serde_json::{Map, Value};

/// Keywords whose value is one schema, for the same value.
const SAME_VALUE: [&str; 4] = ["not", "if", "then", "else"];
/// Keywords whose value is a list of schemas, for the same value.
const SAME_VALUE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords whose value maps names to schemas, for the same value.
const SAME_VALUE_MAPS: [&str; 2] = ["dependentSchemas", "dependencies"];
/// Keywords whose value is a schema, for members of an object.
pub(super) const MEMBERS: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];
/// Keywords whose value is a schema or a list of schemas, for items of an array.
pub(super) const ITEMS: [&str; 5] = ["items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"];
/// Keywords whose value is compared with values or repeated in problems, and how much of it makes a step: comparisons of
/// values end at the first difference.
pub(super) const COMPARED: [(&str, u64); 8] = [
    ("enum", 8),
    ("const", 8),
    ("required", 1),
    ("dependentRequired", 1),
    ("pattern", 1),
    ("format", 1),
    ("contentEncoding", 1),
    ("contentMediaType", 1),
];

pub(super) fn has_unevaluated(keywords: &Map<String, Value>) -> bool {
    keywords.contains_key("unevaluatedProperties") || keywords.contains_key("unevaluatedItems")
}

/// The schemas right within a schema that are for the same value.
pub(super) fn same_value(keywords: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let single = SAME_VALUE.iter().filter_map(|keyword| keywords.get(*keyword));
    let listed = SAME_VALUE_LISTS.iter().filter_map(|keyword| keywords.get(*keyword)?.as_array()).flatten();
    let mapped = SAME_VALUE_MAPS.iter().filter_map(|keyword| keywords.get(*keyword)?.as_object()).flat_map(Map::values);
    single.chain(listed).chain(mapped)
}

/// The schemas right within a schema.
pub(super) fn subschemas(keywords: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let maps = ["properties", "patternProperties"].iter().chain(&SAME_VALUE_MAPS);
    let mapped = maps.filter_map(|keyword| keywords.get(*keyword)?.as_object()).flat_map(Map::values);
    let listed = SAME_VALUE_LISTS.iter().chain(&ITEMS).filter_map(|keyword| keywords.get(*keyword)?.as_array());
    let single = SAME_VALUE.iter().chain(&MEMBERS).chain(&ITEMS).chain(&["propertyNames"]);
    mapped.chain(listed.flatten()).chain(single.filter_map(|keyword| keywords.get(*keyword)))
}
