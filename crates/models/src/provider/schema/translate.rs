//! Keywords under other names: of older drafts, and of a vendor's own.

use super::{
    merge::both,
    shape::{is_well_formed, types},
    tree::{Map, Node},
};

/// The longest value that a note in a description repeats, in bytes.
const MAX_NOTED: usize = 100;
/// The schema with the parts of `allOf` in it.
pub(super) fn merged(mut map: Map) -> Map {
    let Some(Node::List(parts)) = map.shift_remove("allOf") else { return map };
    for part in parts {
        let part = match part {
            Node::Object(part) => Node::Object(merged(part)),
            part => part,
        };
        if let Node::Object(both) = both(part, Node::Object(std::mem::take(&mut map))) {
            map = both;
        }
    }
    map.retain(|keyword, value| is_well_formed(keyword, value));
    map
}

pub(super) fn correct_type(map: &mut Map) {
    let Some(given) = map.get("type") else { return };
    let corrected = match (given, types(given)) {
        (_, None) => None,
        (Node::List(_), Some(types)) => Some(Node::List(types.into_iter().map(Node::text).collect())),
        (_, Some(types)) => types.first().copied().map(Node::text),
    };
    match corrected {
        Some(corrected) => {
            map.insert("type".to_owned(), corrected);
        }
        None => {
            map.shift_remove("type");
        }
    }
}

/// Limits that exclude themselves, which older drafts mark by `true` beside the limit.
pub(super) fn correct_limits(map: &mut Map) {
    for (exclusive, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        let Some(Node::Bool(is_exclusive)) = map.get(exclusive) else { continue };
        match (*is_exclusive, map.get(limit).cloned()) {
            (true, Some(value)) => {
                map.insert(exclusive.to_owned(), value);
                map.shift_remove(limit);
            }
            _ => {
                map.shift_remove(exclusive);
            }
        }
    }
}

/// OpenAPI's `nullable` in the words of JSON Schema.
pub(super) fn null_as_type(map: &mut Map) {
    if map.shift_remove("nullable") == Some(Node::Bool(true))
        && !map.contains_key("enum")
        && let Some(mut types) = map.get("type").and_then(types)
        && !types.contains(&"null")
    {
        types.push("null");
        map.insert("type".to_owned(), Node::List(types.into_iter().map(Node::text).collect()));
    }
}

/// Leaves texts and numbers in `enum`, which may stand beside `null`. Gives a note of other values, which Gemini does not
/// take.
pub(super) fn plain_enum(map: &mut Map) -> Option<String> {
    let Some(Node::List(values)) = map.get("enum") else { return None };
    let is_plain = |value: &Node| matches!(value, Node::Text(_) | Node::Number(_));
    if values.iter().all(is_plain) {
        return None;
    }
    let plain: Vec<Node> = values.iter().filter(|value| **value != Node::Null).cloned().collect();
    let is_free = !map.contains_key("anyOf") && !map.contains_key("oneOf");
    if !plain.is_empty() && plain.iter().all(is_plain) && is_free {
        let types = map.shift_remove("type").as_ref().and_then(types).unwrap_or_default();
        let types: Vec<Node> = types.into_iter().filter(|kind| *kind != "null").map(Node::text).collect();
        let mut choice = Map::new();
        match types.as_slice() {
            [] => {}
            [kind] => {
                choice.insert("type".to_owned(), kind.clone());
            }
            _ => {
                choice.insert("type".to_owned(), Node::List(types));
            }
        }
        choice.insert("enum".to_owned(), Node::List(plain));
        let null = Map::from_iter([("type".to_owned(), Node::text("null"))]);
        map.insert("anyOf".to_owned(), Node::List(vec![Node::Object(choice), Node::Object(null)]));
        map.shift_remove("enum");
        return None;
    }
    map.shift_remove("enum").and_then(|values| noted("one of", &values))
}

pub(super) fn const_as_enum(map: &mut Map) {
    if let Some(value) = map.shift_remove("const") {
        map.insert("enum".to_owned(), Node::List(vec![value]));
    }
}

/// Some compatible servers want the type within the alternatives rather than beside them.
pub(super) fn push_type_down(map: &mut Map) {
    let Some(kind) = map.get("type").cloned() else { return };
    let mut is_pushed = false;
    for keyword in ["anyOf", "oneOf"] {
        let Some(Node::List(alternatives)) = map.get_mut(keyword) else { continue };
        is_pushed = true;
        for alternative in alternatives {
            if *alternative == Node::Bool(true) {
                *alternative = Node::anything();
            }
            if let Node::Object(alternative) = alternative {
                alternative.entry("type".to_owned()).or_insert_with(|| kind.clone());
            }
        }
    }
    if is_pushed {
        map.shift_remove("type");
    }
}

/// Whether a model should know of a keyword that its vendor does not read.
pub(super) fn is_noteworthy(keyword: &str) -> bool {
    matches!(
        keyword,
        "format"
            | "pattern"
            | "default"
            | "minimum"
            | "maximum"
            | "exclusiveMinimum"
            | "exclusiveMaximum"
            | "multipleOf"
            | "minLength"
            | "maxLength"
            | "minItems"
            | "maxItems"
            | "uniqueItems"
    )
}

pub(super) fn noted(keyword: &str, value: &Node) -> Option<String> {
    let value = match value {
        Node::Null => return None,
        Node::Text(text) => text.clone(),
        value => serde_json::to_string(value).ok()?,
    };
    (value.len() <= MAX_NOTED && !value.is_empty()).then(|| format!("{keyword}: {value}"))
}
