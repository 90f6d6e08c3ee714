//! Keywords as a vendor takes them: kept, translated, or dropped with a note in the description.

use std::cell::RefCell;

use super::{
    Rules, Unfit,
    inline::Holds,
    kimi,
    merge::either,
    shape::{Required, is_names, is_well_formed, types},
    translate::{
        const_as_enum, correct_limits, correct_type, is_noteworthy, merged, noted, null_as_type, plain_enum,
        push_type_down,
    },
    tree::{Map, Node},
};

/// How many names of lost fields are told.
const MAX_LOST: usize = 20;

/// The longest name that an error repeats, in characters.
const MAX_NAMED: usize = 80;

/// The root of a tool's schema, which is an object already.
///
/// Gives the names of the optional fields with it that are gone because the vendor takes no such names.
pub(super) fn root(map: Map, rules: Rules) -> Result<(Node, Vec<String>), Unfit> {
    let rewriter = Rewriter { rules, lost: RefCell::default() };
    let mut map = rewriter.map(map)?;
    map.entry("properties".to_owned()).or_insert_with(Node::anything);
    Ok((Node::Object(map), rewriter.lost.into_inner()))
}

struct Rewriter {
    rules: Rules,
    lost: RefCell<Vec<String>>,
}

impl Rewriter {
    /// A schema where one must be; `true` and what is none allow everything.
    fn schema(&self, node: Node) -> Result<Node, Unfit> {
        match node {
            Node::Object(map) => self.map(map).map(Node::Object),
            Node::Null | Node::Bool(_) | Node::Number(_) | Node::Text(_) | Node::List(_) => {
                self.map(Map::new()).map(Node::Object)
            }
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
        if matches!(self.rules, Rules::OpenAi | Rules::Grammar | Rules::Kimi) {
            push_type_down(&mut map);
        }
        let mut map = self.children(map)?;
        self.reduce(&mut map);
        self.complete(&mut map);
        Ok(map)
    }

    /// Whether the vendor reads a few keywords only.
    fn is_reduced(&self) -> bool {
        matches!(self.rules, Rules::Gemini | Rules::Ollama | Rules::Grammar | Rules::Kimi)
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
            // Kimi wants a type in each schema; without one, anything is allowed too.
            value if self.rules == Rules::Kimi && matches!(&value, Node::Object(map) if map.is_empty()) => Ok(None),
            Node::Bool(true) if self.rules == Rules::Kimi => Ok(None),
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
                Err(unfit) if !required.names.contains(&key) => {
                    if let Unfit::Key(name) = unfit {
                        self.lose(name);
                    }
                }
                Err(unfit) => return Err(unfit),
            }
        }
        Ok(properties)
    }

    fn lose(&self, name: String) {
        let mut lost = self.lost.borrow_mut();
        if lost.len() < MAX_LOST && !lost.contains(&name) {
            lost.push(name);
        }
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
        let is_any = keyword == "oneOf"
            && (is_changed || failure.is_some() || matches!(self.rules, Rules::Ollama | Rules::Kimi));
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
        if matches!(self.rules, Rules::OpenAi | Rules::Ollama | Rules::Grammar | Rules::Kimi)
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
            Rules::Grammar => matches!(
                keyword,
                "type"
                    | "format"
                    | "title"
                    | "description"
                    | "default"
                    | "enum"
                    | "items"
                    | "minItems"
                    | "maxItems"
                    | "minLength"
                    | "maxLength"
                    | "minimum"
                    | "maximum"
                    | "exclusiveMinimum"
                    | "exclusiveMaximum"
                    | "anyOf"
                    | "oneOf"
                    | "properties"
                    | "additionalProperties"
                    | "required"
            ),
            Rules::Kimi => matches!(
                keyword,
                "type"
                    | "description"
                    | "enum"
                    | "items"
                    | "anyOf"
                    | "properties"
                    | "additionalProperties"
                    | "required"
            ),
        };
        if !self.is_reduced() {
            return;
        }
        // It is about the fields that no pattern matches.
        if map.contains_key("patternProperties") {
            map.shift_remove("additionalProperties");
        }
        let mut notes = Vec::new();
        if matches!(self.rules, Rules::Gemini | Rules::Kimi) {
            notes.extend(plain_enum(map));
        }
        map.retain(|keyword, value| {
            let is_kept = is_read(keyword) && !(self.rules == Rules::Grammar && is_long(keyword, value));
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
            && self.rules != Rules::Kimi
            && types.contains(&"array")
            && !map.contains_key("items")
            && !map.contains_key("prefixItems")
        {
            map.insert("items".to_owned(), Node::anything());
        }
        if matches!(self.rules, Rules::OpenAi | Rules::Grammar)
            && types.contains(&"object")
            && !map.contains_key("properties")
        {
            map.insert("properties".to_owned(), Node::anything());
        }
        if self.rules == Rules::Kimi {
            kimi::name_type(map);
        }
    }
}

/// Whether a limit on a length would make a grammar too large: grammars repeat what may come so often.
fn is_long(keyword: &str, value: &Node) -> bool {
    const MOST: f64 = 1000.0;
    matches!(keyword, "minItems" | "maxItems" | "minLength" | "maxLength")
        && value.as_number().is_some_and(|limit| limit > MOST)
}
