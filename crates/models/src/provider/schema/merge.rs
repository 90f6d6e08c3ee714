//! Two schemas in one. Where that cannot be expressed, the result allows more than both together, never less.

use std::collections::HashSet;

use super::tree::{Map, Node};

/// The most alternatives of one field that are told apart.
const MAX_VARIANTS: usize = 64;

/// A schema for what satisfies both. Titles, descriptions and the like are the second's where both have them.
pub(super) fn both(first: Node, second: Node) -> Node {
    match (first, second) {
        (Node::Object(first), Node::Object(second)) => Node::Object(both_maps(first, second)),
        (Node::Object(map), _) | (_, Node::Object(map)) => Node::Object(map),
        (first, _) => first,
    }
}

fn both_maps(mut first: Map, second: Map) -> Map {
    if second.is_empty() {
        return first;
    }
    let is_conditional = |map: &Map| ["if", "then", "else"].iter().any(|keyword| map.contains_key(*keyword));
    let skip_conditional = is_conditional(&first);
    for (keyword, other) in second {
        let is_conditional = matches!(keyword.as_str(), "if" | "then" | "else");
        match first.get_mut(&keyword) {
            _ if is_conditional && skip_conditional => {}
            None => {
                first.insert(keyword, other);
            }
            Some(own) if *own == other => {}
            Some(own) => match keyword.as_str() {
                "title" | "description" | "default" | "examples" | "example" | "deprecated" | "readOnly"
                | "writeOnly" => *own = other,
                "type" => both_types(own, other),
                "required" => both_required(own, other),
                "enum" => both_enums(own, &other),
                "properties" => both_properties(own, other),
                "items" => *own = both(std::mem::replace(own, Node::Null), other),
                "allOf" => {
                    if let (Node::List(own), Node::List(other)) = (own, other) {
                        own.extend(other);
                    }
                }
                "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => {
                    tighter(own, other, |own, other| other > own);
                }
                "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => {
                    tighter(own, other, |own, other| other < own);
                }
                // Each closes its own fields only; the fields are one set now.
                "additionalProperties" | "unevaluatedProperties" => {
                    first.shift_remove(&keyword);
                }
                _ => {}
            },
        }
    }
    first
}

fn both_types(own: &mut Node, other: Node) {
    let list = |node: &Node| match node {
        Node::List(list) => list.clone(),
        node => vec![node.clone()],
    };
    let others = list(&other);
    let (number, integer) = (Node::text("number"), Node::text("integer"));
    let mut common = Vec::new();
    for kind in list(own) {
        let is_narrowed = kind == number && !others.contains(&number) && others.contains(&integer);
        if others.contains(&kind) || (kind == integer && others.contains(&number)) {
            common.push(kind);
        } else if is_narrowed {
            common.push(integer.clone());
        }
    }
    match common.len() {
        0 => {}
        1 => *own = common.swap_remove(0),
        _ => *own = Node::List(common),
    }
}

fn both_required(own: &mut Node, other: Node) {
    match (own, other) {
        (Node::List(own), Node::List(other)) => {
            let known: HashSet<String> = own.iter().filter_map(Node::as_text).map(str::to_owned).collect();
            own.extend(other.into_iter().filter(|key| key.as_text().is_none_or(|key| !known.contains(key))));
        }
        // `required: true` is of an older draft and about the field, so it goes beside no list.
        (own @ Node::Bool(_), other) => *own = other,
        _ => {}
    }
}

fn both_enums(own: &mut Node, other: &Node) {
    if let (Node::List(own), Node::List(other)) = (own, other)
        && own.len().saturating_mul(other.len()) <= MAX_VARIANTS * MAX_VARIANTS
    {
        let common: Vec<Node> = own.iter().filter(|value| other.contains(value)).cloned().collect();
        if !common.is_empty() {
            *own = common;
        }
    }
}

fn both_properties(own: &mut Node, other: Node) {
    if let (Node::Object(own), Node::Object(other)) = (own, other) {
        for (key, schema) in other {
            match own.get_mut(&key) {
                Some(present) => *present = both(std::mem::replace(present, Node::Null), schema),
                None => {
                    own.insert(key, schema);
                }
            }
        }
    }
}

fn tighter(own: &mut Node, other: Node, is_tighter: fn(f64, f64) -> bool) {
    if let (Some(mine), Some(theirs)) = (own.as_number(), other.as_number())
        && is_tighter(mine, theirs)
    {
        *own = other;
    }
}

/// A schema for what satisfies one of these.
pub(super) fn either(variants: Vec<Node>) -> Node {
    let mut distinct: Vec<Node> = Vec::new();
    for variant in variants {
        if !distinct.contains(&variant) {
            distinct.push(variant);
        }
        if distinct.len() > MAX_VARIANTS {
            return Node::anything();
        }
    }
    if distinct.len() > 1
        && let Some(choice) = one_choice(&distinct)
    {
        return choice;
    }
    match distinct.len() {
        0 => Node::anything(),
        1 => distinct.swap_remove(0),
        _ => Node::Object(Map::from_iter([("anyOf".to_owned(), Node::List(distinct))])),
    }
}

/// Variants that each allow certain values of one type, such as the names of alternatives, as one list of values.
fn one_choice(variants: &[Node]) -> Option<Node> {
    let mut values: Vec<Node> = Vec::new();
    let kind = variants.first()?.as_object()?.get("type");
    let mut merged = Map::new();
    for variant in variants {
        let map = variant.as_object()?;
        let is_plain =
            |keyword: &String| matches!(keyword.as_str(), "type" | "const" | "enum" | "description" | "title");
        if map.get("type") != kind || !map.keys().all(is_plain) {
            return None;
        }
        let new = match (map.get("const"), map.get("enum")) {
            (Some(value), None) => std::slice::from_ref(value),
            (None, Some(Node::List(values))) => values.as_slice(),
            _ => return None,
        };
        if values.len() + new.len() > MAX_VARIANTS * 4 {
            return None;
        }
        let new: Vec<Node> = new.iter().filter(|value| !values.contains(value)).cloned().collect();
        values.extend(new);
    }
    if let Some(kind) = kind {
        merged.insert("type".to_owned(), kind.clone());
    }
    merged.insert("enum".to_owned(), Node::List(values));
    Some(Node::Object(merged))
}
