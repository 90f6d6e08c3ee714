//! Types as Kimi wants them: each schema names exactly one, and alternatives of several types are an `anyOf`.

use super::{
    shape::types,
    tree::{Map, Node},
};

/// The most alternatives that Kimi takes. Where there are more, every value is allowed.
const MAX_ALTERNATIVES: usize = 10;

/// The types that JSON has.
const ALL: [&str; 6] = ["string", "number", "boolean", "object", "array", "null"];

/// Gives a schema exactly one type, or alternatives of one type each.
pub(super) fn name_type(map: &mut Map) {
    if let Some(Node::List(alternatives)) = map.shift_remove("anyOf") {
        let alternatives: Vec<Node> = alternatives.into_iter().flat_map(typed).collect();
        if alternatives.len() <= MAX_ALTERNATIVES {
            // Nothing else may stand beside them.
            map.retain(|keyword, _| keyword == "description");
            map.insert("anyOf".to_owned(), Node::List(alternatives));
            return;
        }
    }
    let named = map.get("type").and_then(types);
    let mut kinds: Vec<&str> = match &named {
        Some(kinds) if kinds.len() == 1 && !is_mixed(map) => return,
        Some(kinds) => kinds.clone(),
        None => ALL.to_vec(),
    };
    if let Some(Node::List(values)) = map.get("enum") {
        let has_value = |kind: &&str| values.iter().any(|value| is_of(value, kind));
        kinds.retain(has_value);
        // A type that no value has allows nothing; the values tell what was meant.
        if kinds.is_empty() {
            kinds = ALL.into_iter().filter(|kind| has_value(kind)).collect();
        }
    }
    let alternatives: Vec<Node> = kinds.iter().map(|kind| Node::Object(alternative(map, kind))).collect();
    map.retain(|keyword, _| keyword == "description");
    match alternatives.as_slice() {
        [Node::Object(only)] => map.extend(only.clone()),
        _ => {
            map.insert("anyOf".to_owned(), Node::List(alternatives));
        }
    }
}

/// An alternative with its type; alternatives within it, instead of it.
fn typed(alternative: Node) -> Vec<Node> {
    let Node::Object(mut map) = alternative else { return vec![alternative] };
    name_type(&mut map);
    if !map.keys().all(|keyword| matches!(keyword.as_str(), "anyOf" | "description")) {
        return vec![Node::Object(map)];
    }
    match map.shift_remove("anyOf") {
        Some(Node::List(inner)) => inner,
        Some(_) | None => vec![Node::Object(map)],
    }
}

/// Whether the values to choose from are of several types.
fn is_mixed(map: &Map) -> bool {
    let Some(Node::List(values)) = map.get("enum") else { return false };
    values.iter().any(|value| value.as_text().is_some()) && values.iter().any(|value| value.as_number().is_some())
}

/// What a schema says of values of one type.
fn alternative(map: &Map, kind: &str) -> Map {
    let mut alternative = Map::from_iter([("type".to_owned(), Node::text(kind))]);
    for (keyword, value) in map {
        let is_its = match keyword.as_str() {
            "properties" | "required" | "additionalProperties" => kind == "object",
            "items" => kind == "array",
            _ => false,
        };
        match (keyword.as_str(), value) {
            ("enum", Node::List(values)) => {
                let values = values.iter().filter(|value| is_of(value, kind)).cloned().collect();
                alternative.insert(keyword.clone(), Node::List(values));
            }
            _ if is_its => {
                alternative.insert(keyword.clone(), value.clone());
            }
            _ => {}
        }
    }
    alternative
}

fn is_of(value: &Node, kind: &str) -> bool {
    match value {
        Node::Null => kind == "null",
        Node::Bool(_) => kind == "boolean",
        Node::Number(number) => {
            kind == "number" || (kind == "integer" && number.as_f64().is_some_and(|n| n.fract() == 0.0))
        }
        Node::Text(_) => kind == "string",
        Node::List(_) => kind == "array",
        Node::Object(_) => kind == "object",
    }
}
