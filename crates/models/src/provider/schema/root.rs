//! The root of a tool's schema as one object: vendors refuse alternatives there.

use std::collections::HashSet;

use super::{
    Rules,
    merge::{both, either},
    shape::types,
    tree::{Map, Node},
};

/// The most alternatives, and the most names of each, that a description lists.
const MAX_LISTED: usize = 8;

/// The root as one object that allows every alternative, or nothing if no object satisfies it. A tool without a schema
/// takes an empty object.
pub(super) fn object(root: Node, rules: Rules) -> Option<Map> {
    let mut map = flat(if root == Node::Null { Node::anything() } else { root })?;
    map.shift_remove("nullable");
    if rules == Rules::OpenAi {
        map.shift_remove("not");
    }
    Some(map)
}

fn flat(node: Node) -> Option<Map> {
    let mut map = match node {
        Node::Object(map) => map,
        Node::Bool(true) => Map::new(),
        Node::Null | Node::Bool(false) | Node::Number(_) | Node::Text(_) | Node::List(_) => return None,
    };
    if map.get("type").and_then(types).is_some_and(|types| !types.contains(&"object")) {
        return None;
    }
    for keyword in ["const", "enum"] {
        let values = match map.shift_remove(keyword) {
            Some(Node::List(values)) if keyword == "enum" => values,
            Some(value) if keyword == "const" => vec![value],
            Some(_) | None => continue,
        };
        if !values.is_empty() && values.iter().all(|value| value.as_object().is_none()) {
            return None;
        }
    }
    if let Some(Node::List(parts)) = map.shift_remove("allOf") {
        for part in parts {
            let part = flat(part)?;
            map = match both(Node::Object(part), Node::Object(map)) {
                Node::Object(map) => map,
                _ => return None,
            };
        }
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(Node::List(alternatives)) = map.shift_remove(keyword)
            && !alternatives.is_empty()
        {
            let forms: Vec<Map> = alternatives.into_iter().filter_map(flat).collect();
            if forms.is_empty() {
                return None;
            }
            map = with_forms(map, forms);
        }
    }
    match map.get_mut("type") {
        Some(kind) => *kind = Node::text("object"),
        None => {
            map.insert("type".to_owned(), Node::text("object"));
        }
    }
    Some(map)
}

/// An object that may take any of these forms: with the fields of all, of which only those are required that each form
/// requires.
fn with_forms(mut base: Map, forms: Vec<Map>) -> Map {
    let note = (forms.len() > 1).then(|| listed(&forms));
    let required = required_by_all(&forms);
    let is_closed = forms.iter().all(|form| {
        form.get("additionalProperties") == Some(&Node::Bool(false)) && !form.contains_key("patternProperties")
    });
    let mut variants: indexmap::IndexMap<String, Vec<Node>> = indexmap::IndexMap::new();
    for mut form in forms {
        if let Some(Node::Object(properties)) = form.shift_remove("properties") {
            for (key, schema) in properties {
                variants.entry(key).or_default().push(schema);
            }
        }
        for keyword in ["title", "description"] {
            if note.is_none()
                && !base.contains_key(keyword)
                && let Some(value) = form.shift_remove(keyword)
            {
                base.insert(keyword.to_owned(), value);
            }
        }
    }
    if !matches!(base.get("properties"), Some(Node::Object(_))) {
        base.insert("properties".to_owned(), Node::anything());
    }
    if let Some(Node::Object(properties)) = base.get_mut("properties") {
        for (key, variants) in variants {
            properties.entry(key).or_insert_with(|| either(variants));
        }
    }
    if !required.is_empty() {
        let required = Node::List(required.into_iter().map(Node::Text).collect());
        let added = Map::from_iter([("required".to_owned(), required)]);
        base = match both(Node::Object(base), Node::Object(added)) {
            Node::Object(map) => map,
            _ => Map::new(),
        };
    }
    if is_closed && !base.contains_key("additionalProperties") && !base.contains_key("patternProperties") {
        base.insert("additionalProperties".to_owned(), Node::Bool(false));
    }
    if let Some(note) = note {
        let description = match base.get("description").and_then(Node::as_text) {
            Some(text) if !text.is_empty() => format!("{text}\n{note}"),
            Some(_) | None => note,
        };
        base.insert("description".to_owned(), Node::Text(description));
    }
    base
}

/// What every form requires, in the first one's order.
fn required_by_all(forms: &[Map]) -> Vec<String> {
    let mut required: Vec<String> = forms.first().map(names_required).unwrap_or_default();
    for form in forms.iter().skip(1) {
        let names: HashSet<String> = names_required(form).into_iter().collect();
        required.retain(|name| names.contains(name));
    }
    required
}

fn names_required(form: &Map) -> Vec<String> {
    match form.get("required") {
        Some(Node::List(names)) => names.iter().filter_map(Node::as_text).map(str::to_owned).collect(),
        Some(_) | None => Vec::new(),
    }
}

/// Says which alternatives there are, by what each requires.
fn listed(forms: &[Map]) -> String {
    let mut names: Vec<String> = Vec::new();
    for form in forms {
        let mut fields = names_required(form);
        if fields.is_empty()
            && let Some(Node::Object(properties)) = form.get("properties")
        {
            fields = properties.keys().take(MAX_LISTED + 1).cloned().collect();
        }
        if fields.len() > MAX_LISTED {
            fields.truncate(MAX_LISTED);
            fields.push("…".to_owned());
        }
        let name = if fields.is_empty() { "no field in particular".to_owned() } else { fields.join(", ") };
        if !names.contains(&name) && names.len() <= MAX_LISTED {
            names.push(name);
        }
    }
    if names.len() > MAX_LISTED {
        names.truncate(MAX_LISTED);
        names.push("…".to_owned());
    }
    match names.as_slice() {
        [_] | [] => "There are alternative forms of this input.".to_owned(),
        names => format!("Give the fields of one of these alternatives: {}.", names.join("; ")),
    }
}
