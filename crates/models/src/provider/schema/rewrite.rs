//! Keywords as a vendor takes them: kept, translated, or dropped with a note in the description.

use std::collections::HashSet;

use super::{
    Rules, Unfit,
    inline::Holds,
    merge::{both, either},
    tree::{Map, Node},
};

/// The longest value that a note in a description repeats, in bytes.
const MAX_NOTED: usize = 100;
/// The longest name that an error repeats, in characters.
const MAX_NAMED: usize = 80;

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

/// The root of a tool's schema, which is an object already.
pub(super) fn root(map: Map, rules: Rules) -> Result<Node, Unfit> {
    let mut map = Rewriter { rules }.map(map)?;
    map.entry("properties".to_owned()).or_insert_with(Node::anything);
    Ok(Node::Object(map))
}

struct Rewriter {
    rules: Rules,
}

impl Rewriter {
    /// A schema where one must be; `true` and what is none allow everything.
    fn schema(&self, node: Node) -> Result<Node, Unfit> {
        match node {
            Node::Object(map) => self.map(map).map(Node::Object),
            Node::Null | Node::Bool(_) | Node::Number(_) | Node::Text(_) | Node::List(_) => Ok(Node::anything()),
        }
    }

    fn map(&self, mut map: Map) -> Result<Map, Unfit> {
        map.retain(|keyword, value| is_well_formed(keyword, value));
        if self.is_reduced() {
            map = merged(map);
        }
        correct_type(&mut map);
        correct_limits(&mut map);
        if self.is_reduced() {
            null_as_type(&mut map);
        }
        if self.rules != Rules::Anthropic {
            const_as_enum(&mut map);
        }
        self.tuples(&mut map);
        if self.rules == Rules::OpenAi {
            push_type_down(&mut map);
        }
        let mut map = self.children(map)?;
        self.reduce(&mut map);
        self.complete(&mut map);
        Ok(map)
    }

    /// Whether the vendor reads a few keywords only.
    fn is_reduced(&self) -> bool {
        matches!(self.rules, Rules::Gemini | Rules::Ollama)
    }

    /// Every schema within this one.
    fn children(&self, map: Map) -> Result<Map, Unfit> {
        let mut required = Required::of(&map);
        let is_tuple = map.contains_key("prefixItems");
        let mut rewritten = Map::with_capacity(map.len());
        for (keyword, value) in map {
            match (Holds::of(&keyword), value) {
                (Holds::Map, Node::Object(schemas)) if keyword == "properties" => {
                    let properties = self.properties(schemas, &mut required)?;
                    rewritten.insert(keyword, Node::Object(properties));
                }
                (Holds::Map | Holds::Dependencies, Node::Object(schemas)) => {
                    let schemas = self.optional_schemas(&keyword, schemas);
                    rewritten.insert(keyword, Node::Object(schemas));
                }
                (Holds::List, Node::List(schemas)) if keyword != "prefixItems" => {
                    self.alternatives(keyword, schemas, &mut rewritten)?;
                }
                (Holds::List | Holds::SchemaOrList, Node::List(schemas)) => {
                    let schemas: Vec<Node> =
                        schemas.into_iter().map(|node| self.schema(node)).collect::<Result<_, _>>()?;
                    rewritten.insert(keyword, Node::List(schemas));
                }
                (Holds::Schema | Holds::SchemaOrList, value) => {
                    if let Some(schema) = self.one(&keyword, value, is_tuple)? {
                        rewritten.insert(keyword, schema);
                    }
                }
                (_, value) => {
                    rewritten.insert(keyword, value);
                }
            }
        }
        // A condition without its consequence, or the other way round, says something else.
        if !rewritten.contains_key("if") {
            rewritten.shift_remove("then");
            rewritten.shift_remove("else");
        }
        required.write(&mut rewritten, self.rules);
        Ok(rewritten)
    }

    /// The one schema of a keyword; nothing where the keyword must go.
    fn one(&self, keyword: &str, value: Node, is_tuple: bool) -> Result<Option<Node>, Unfit> {
        let may_be_bool = match keyword {
            "additionalProperties" | "unevaluatedProperties" | "additionalItems" | "unevaluatedItems" => true,
            // Whether there may be more than the tuple.
            "items" => is_tuple,
            _ => false,
        };
        match value {
            Node::Bool(_) if may_be_bool => Ok(Some(value)),
            Node::Bool(false) if keyword != "items" => Ok(None),
            value => match (keyword, self.schema(value.clone())) {
                ("items", schema) => schema.map(Some),
                // More allowed within a negation is less allowed outside it.
                ("not" | "if", Ok(schema)) if schema != value => Ok(None),
                (_, schema) => Ok(schema.ok()),
            },
        }
    }

    fn properties(&self, schemas: Map, required: &mut Required) -> Result<Map, Unfit> {
        let mut properties = Map::with_capacity(schemas.len());
        for (key, mut schema) in schemas {
            if let Node::Object(map) = &mut schema
                && let Some(Node::Bool(is_required)) = map.get("required")
            {
                // Of an older draft, which marks fields rather than listing them.
                if *is_required {
                    required.add(&key);
                }
                map.shift_remove("required");
            }
            if schema == Node::Bool(false) {
                required.remove(&key);
                continue;
            }
            let outcome = if self.takes_key(&key) {
                self.schema(schema)
            } else {
                Err(Unfit::Key(key.chars().take(MAX_NAMED).collect()))
            };
            match outcome {
                Ok(schema) => {
                    properties.insert(key, schema);
                }
                // The model does without an optional field. Under another name, the tool would not find it.
                Err(_) if !required.names.contains(&key) => {}
                Err(unfit) => return Err(unfit),
            }
        }
        Ok(properties)
    }

    fn takes_key(&self, key: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        self.rules != Rules::Anthropic || ((1..=64).contains(&key.len()) && key.bytes().all(is_plain))
    }

    /// `patternProperties` and the like. What cannot be expressed is not constrained.
    fn optional_schemas(&self, keyword: &str, schemas: Map) -> Map {
        let schemas = schemas.into_iter().filter_map(|(key, value)| match value {
            Node::List(_) if keyword == "dependencies" => is_names(&value).then_some((key, value)),
            value => Some((key, self.schema(value).unwrap_or_else(|_| Node::anything()))),
        });
        schemas.collect()
    }

    fn alternatives(&self, keyword: String, schemas: Vec<Node>, rewritten: &mut Map) -> Result<(), Unfit> {
        let mut kept = Vec::with_capacity(schemas.len());
        let mut is_changed = false;
        let mut failure = None;
        for schema in schemas {
            if schema == Node::Bool(false) {
                is_changed = true;
                continue;
            }
            match self.schema(schema.clone()) {
                Ok(rewritten) => {
                    is_changed |= rewritten != schema;
                    kept.push(rewritten);
                }
                Err(unfit) => failure = Some(unfit),
            }
        }
        if kept.is_empty() || (keyword == "allOf" && failure.is_some()) {
            return failure.map_or(Ok(()), Err);
        }
        if self.is_reduced() && kept.contains(&Node::anything()) {
            return Ok(());
        }
        // Where alternatives allow more than before, more than one may match.
        let is_any = keyword == "oneOf" && (is_changed || failure.is_some() || self.rules == Rules::Ollama);
        match rewritten.get_mut("anyOf") {
            // Two sets of alternatives cannot be one.
            Some(_) if is_any => {}
            _ => {
                rewritten.insert(if is_any { "anyOf".to_owned() } else { keyword }, Node::List(kept));
            }
        }
        Ok(())
    }

    /// Lists of schemas for the places of an array.
    fn tuples(&self, map: &mut Map) {
        if let Some(Node::List(_)) = map.get("items") {
            let (items, rest) = (map.shift_remove("items"), map.shift_remove("additionalItems"));
            if let Some(items @ Node::List(_)) = items
                && !map.contains_key("prefixItems")
            {
                map.insert("prefixItems".to_owned(), items);
            }
            if let Some(rest) = rest {
                map.insert("items".to_owned(), rest);
            }
        }
        if map.get("prefixItems") == Some(&Node::List(Vec::new())) {
            map.shift_remove("prefixItems");
        }
        if matches!(self.rules, Rules::OpenAi | Rules::Ollama)
            && let Some(Node::List(mut variants)) = map.shift_remove("prefixItems")
        {
            let rest = map.shift_remove("items");
            variants.extend(rest.filter(|rest| rest.as_object().is_some_and(|map| !map.is_empty())));
            variants.retain(Node::is_schema);
            map.insert("items".to_owned(), either(variants));
        }
    }

    /// Drops keywords that the vendor does not read, and says in the description what the short ones meant.
    fn reduce(&self, map: &mut Map) {
        let is_read = |keyword: &str| match self.rules {
            Rules::OpenAi | Rules::Anthropic => true,
            Rules::Gemini => matches!(
                keyword,
                "type"
                    | "format"
                    | "title"
                    | "description"
                    | "enum"
                    | "items"
                    | "prefixItems"
                    | "minItems"
                    | "maxItems"
                    | "minimum"
                    | "maximum"
                    | "anyOf"
                    | "oneOf"
                    | "properties"
                    | "additionalProperties"
                    | "required"
                    | "propertyOrdering"
            ),
            Rules::Ollama => {
                matches!(keyword, "type" | "description" | "enum" | "items" | "anyOf" | "properties" | "required")
            }
        };
        if !self.is_reduced() {
            return;
        }
        // It is about the fields that no pattern matches.
        if map.contains_key("patternProperties") {
            map.shift_remove("additionalProperties");
        }
        let mut notes = Vec::new();
        if self.rules == Rules::Gemini {
            notes.extend(plain_enum(map));
        }
        map.retain(|keyword, value| {
            let is_kept = is_read(keyword);
            if !is_kept && is_noteworthy(keyword) {
                notes.extend(noted(keyword, value));
            }
            is_kept
        });
        if !notes.is_empty() {
            let notes = notes.join(", ");
            let description = match map.get("description").and_then(Node::as_text) {
                Some(text) if !text.is_empty() => format!("{text} ({notes})"),
                Some(_) | None => notes,
            };
            map.insert("description".to_owned(), Node::Text(description));
        }
    }

    /// Adds what the vendor misses.
    fn complete(&self, map: &mut Map) {
        let types = map.get("type").and_then(types).unwrap_or_default();
        if self.rules != Rules::Anthropic
            && types.contains(&"array")
            && !map.contains_key("items")
            && !map.contains_key("prefixItems")
        {
            map.insert("items".to_owned(), Node::anything());
        }
        if self.rules == Rules::OpenAi && types.contains(&"object") && !map.contains_key("properties") {
            map.insert("properties".to_owned(), Node::anything());
        }
    }
}

/// The names that an object requires.
struct Required {
    /// In order.
    list: Vec<String>,
    names: HashSet<String>,
}

impl Required {
    fn of(map: &Map) -> Self {
        let mut required = Self { list: Vec::new(), names: HashSet::new() };
        if let Some(Node::List(names)) = map.get("required") {
            names.iter().filter_map(Node::as_text).for_each(|name| required.add(name));
        }
        required
    }

    fn add(&mut self, name: &str) {
        if self.names.insert(name.to_owned()) {
            self.list.push(name.to_owned());
        }
    }

    fn remove(&mut self, name: &str) {
        self.names.remove(name);
    }

    fn write(self, map: &mut Map, rules: Rules) {
        let properties = map.get("properties").and_then(Node::as_object);
        let is_known = |name: &str| rules != Rules::Gemini || properties.is_some_and(|map| map.contains_key(name));
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

/// Whether a keyword's value is of the form that draft 2020-12 gives it, or one that is translated later.
fn is_well_formed(keyword: &str, value: &Node) -> bool {
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
fn is_names(value: &Node) -> bool {
    let Node::List(list) = value else { return false };
    let mut seen = HashSet::new();
    list.iter().all(|name| name.as_text().is_some_and(|name| seen.insert(name)))
}

/// The schema with the parts of `allOf` in it.
fn merged(mut map: Map) -> Map {
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

fn correct_type(map: &mut Map) {
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
fn correct_limits(map: &mut Map) {
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
fn null_as_type(map: &mut Map) {
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
fn plain_enum(map: &mut Map) -> Option<String> {
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

fn const_as_enum(map: &mut Map) {
    if let Some(value) = map.shift_remove("const") {
        map.insert("enum".to_owned(), Node::List(vec![value]));
    }
}

/// Some compatible servers want the type within the alternatives rather than beside them.
fn push_type_down(map: &mut Map) {
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
fn is_noteworthy(keyword: &str) -> bool {
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

fn noted(keyword: &str, value: &Node) -> Option<String> {
    let value = match value {
        Node::Null => return None,
        Node::Text(text) => text.clone(),
        value => serde_json::to_string(value).ok()?,
    };
    (value.len() <= MAX_NOTED && !value.is_empty()).then(|| format!("{keyword}: {value}"))
}
