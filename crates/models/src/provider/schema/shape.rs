//! The form of keywords, as draft 2020-12 has it.

use std::collections::HashSet;

use super::{
    Rules,
    inline::Holds,
    tree::{Map, Node},
};

/// The type that a name stands for, if any: some servers write those of their programming language.
pub(super) fn canonical_type(name: &str) -> Option<&'static str> {
    Some(match name.to_ascii_lowercase().as_str() {
        "string" | "str" => "string",
        "number" | "float" | "double" => "number",
        "integer" | "int" | "long" => "integer",
        "boolean" | "bool" => "boolean",
        "object" | "dict" | "map" => "object",
        "array" | "list" => "array",
        "null" | "none" => "null",
        _ => return None,
    })
}

/// The types that `type` allows; nothing where it says nothing that we know.
pub(super) fn types(node: &Node) -> Option<Vec<&'static str>> {
    let names = match node {
        Node::Text(_) => std::slice::from_ref(node),
        Node::List(names) => names.as_slice(),
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::Object(_) => return None,
    };
    let mut types = Vec::new();
    for name in names {
        let name = canonical_type(name.as_text()?)?;
        if !types.contains(&name) {
            types.push(name);
        }
    }
    (!types.is_empty()).then_some(types)
}

/// Whether a keyword's value is of the form that draft 2020-12 gives it, or one that is translated later.
pub(super) fn is_well_formed(keyword: &str, value: &Node) -> bool {
    match Holds::of(keyword) {
        Holds::Schema => return value.is_schema(),
        Holds::SchemaOrList => return value.is_schema() || matches!(value, Node::List(_)),
        Holds::List => return matches!(value, Node::List(list) if !list.is_empty()),
        Holds::Map | Holds::Dependencies => return matches!(value, Node::Object(_)),
        Holds::Value => {}
    }
    match keyword {
        "title" | "description" | "format" | "pattern" | "contentEncoding" | "contentMediaType" => {
            value.as_text().is_some()
        }
        "minimum" | "maximum" => value.as_number().is_some(),
        "exclusiveMinimum" | "exclusiveMaximum" => value.as_number().is_some() || matches!(value, Node::Bool(_)),
        "multipleOf" => value.as_number().is_some_and(|number| number > 0.0),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" | "minContains"
        | "maxContains" => value.as_number().is_some_and(|number| number >= 0.0 && number.fract() == 0.0),
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" | "nullable" => matches!(value, Node::Bool(_)),
        "examples" => matches!(value, Node::List(_)),
        "enum" => matches!(value, Node::List(values) if !values.is_empty()),
        "required" => matches!(value, Node::List(_)),
        "propertyOrdering" => is_names(value),
        "dependentRequired" => value.as_object().is_some_and(|map| map.values().all(is_names)),
        _ => true,
    }
}

/// Whether it is a list of different names.
pub(super) fn is_names(value: &Node) -> bool {
    let Node::List(list) = value else { return false };
    let mut seen = HashSet::new();
    list.iter().all(|name| name.as_text().is_some_and(|name| seen.insert(name)))
}

/// The names that an object requires.
pub(super) struct Required {
    /// In order.
    list: Vec<String>,
    pub(super) names: HashSet<String>,
}

impl Required {
    pub(super) fn of(map: &Map) -> Self {
        let mut required = Self { list: Vec::new(), names: HashSet::new() };
        if let Some(Node::List(names)) = map.get("required") {
            names.iter().filter_map(Node::as_text).for_each(|name| required.add(name));
        }
        required
    }

    pub(super) fn add(&mut self, name: &str) {
        if self.names.insert(name.to_owned()) {
            self.list.push(name.to_owned());
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.names.remove(name);
    }

    pub(super) fn write(self, map: &mut Map, rules: Rules) {
        let properties = map.get("properties").and_then(Node::as_object);
        let may_name_others = !matches!(rules, Rules::Gemini | Rules::Kimi);
        let is_known = |name: &str| may_name_others || properties.is_some_and(|map| map.contains_key(name));
        let names: Vec<Node> =
            self.list.into_iter().filter(|name| self.names.contains(name) && is_known(name)).map(Node::Text).collect();
        match (names.is_empty(), map.get_mut("required")) {
            (true, Some(Node::List(list))) if list.is_empty() => {}
            (true, _) => {
                map.shift_remove("required");
            }
            (false, _) => {
                map.insert("required".to_owned(), Node::List(names));
            }
        }
    }
}
