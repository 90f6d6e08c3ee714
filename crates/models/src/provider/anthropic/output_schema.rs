//! JSON schemas in the part that Anthropic's structured outputs take.
//!
//! Objects must be closed, and limits on numbers, lengths and counts are refused. Such limits move into the description,
//! where the model reads them.

use std::fmt;

use everturn_core::Json;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

/// How deep a schema may nest.
const MAX_DEPTH: usize = 64;

const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

/// The schema as the API takes it. An error says, in words for people, why it cannot be expressed.
pub(super) fn output_schema(schema: &Json) -> Result<Box<RawValue>, String> {
    if is_recursive(&schema.to_value()) {
        return Err("it refers to itself".to_owned());
    }
    convert(schema.as_str(), 0)
}

/// An object whose fields keep their order: models write properties in the order in which the schema has them.
#[derive(Clone, Default)]
struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find_map(|(field, value)| (field == name).then_some(value.get()))
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn remove(&mut self, name: &str) -> Option<Box<RawValue>> {
        let at = self.0.iter().position(|(field, _)| field == name)?;
        Some(self.0.remove(at).1)
    }

    fn add(&mut self, name: &str, value: &impl Serialize) {
        // Our own types with string keys: writing them to memory cannot fail.
        if let Ok(value) = to_raw_value(value) {
            self.0.push((name.to_owned(), value));
        }
    }

    /// Moves a field to another object.
    fn give(&mut self, name: &str, to: &mut Self) {
        if let Some(value) = self.remove(name) {
            to.0.push((name.to_owned(), value));
        }
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::default();
                while let Some(field) = map.next_entry()? {
                    fields.0.push(field);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Option<T> {
    serde_json::from_str(json).ok()
}

fn convert(schema: &str, depth: usize) -> Result<Box<RawValue>, String> {
    if depth > MAX_DEPTH {
        return Err(format!("it nests more than {MAX_DEPTH} levels deep"));
    }
    let mut rest: Fields =
        parse(schema).ok_or_else(|| format!("{schema} stands where a schema of some type must be"))?;
    let mut taken = Fields::default();
    for name in ["$defs", "definitions"] {
        if let Some(definitions) = rest.remove(name).and_then(|definitions| parse(definitions.get())) {
            taken.add(name, &convert_all(definitions, depth)?);
        }
    }
    if let Some(target) = rest.get("$ref") {
        if !target.starts_with("\"#") {
            return Err(format!("it refers to {target}, which is outside of it"));
        }
        rest.give("$ref", &mut taken);
        return Ok(written(&taken));
    }
    rest.remove("$schema");
    rest.remove("$id");
    for name in ["title", "description", "default"] {
        rest.give(name, &mut taken);
    }
    let is_plain = |value: &Value| !value.is_object() && !value.is_array();
    if rest.get("enum").and_then(parse::<Vec<Value>>).is_some_and(|values| values.iter().all(is_plain)) {
        rest.give("enum", &mut taken);
    }
    if rest.get("const").and_then(parse::<Value>).is_some_and(|value| is_plain(&value)) {
        rest.give("const", &mut taken);
    }
    for (name, as_name) in [("anyOf", "anyOf"), ("oneOf", "anyOf"), ("allOf", "allOf")] {
        let variants = rest.remove(name);
        if let Some(variants) = variants.as_ref().and_then(|variants| parse::<Vec<&RawValue>>(variants.get())) {
            let variants = variants.into_iter().map(|variant| convert(variant.get(), depth + 1));
            taken.add(as_name, &variants.collect::<Result<Vec<_>, _>>()?);
        }
    }
    if rest.has("properties") && !rest.has("type") {
        rest.add("type", &"object");
    }
    let Some(types) = rest.remove("type") else {
        if !["anyOf", "allOf", "enum", "const"].iter().any(|name| taken.has(name)) {
            return Err("a part of it has no type".to_owned());
        }
        describe(&rest, &mut taken);
        return Ok(written(&taken));
    };
    // Several types are as many variants.
    if let Some(types) = parse::<Vec<String>>(types.get()) {
        let variants = types.iter().map(|one| {
            let mut variant = rest.clone();
            variant.add("type", one);
            convert(written(&variant).get(), depth + 1)
        });
        taken.add("anyOf", &variants.collect::<Result<Vec<_>, _>>()?);
        return Ok(written(&taken));
    }
    match parse::<&str>(types.get()) {
        Some("object") => close(&mut rest, &mut taken, depth)?,
        Some("array") => {
            if let Some(items) = rest.remove("items") {
                taken.add("items", &convert(items.get(), depth + 1)?);
            }
            if matches!(rest.get("minItems"), Some("0" | "1")) {
                rest.give("minItems", &mut taken);
            }
        }
        Some("string") => {
            if rest.get("format").and_then(parse::<&str>).is_some_and(|format| FORMATS.contains(&format)) {
                rest.give("format", &mut taken);
            }
        }
        Some("integer" | "number" | "boolean" | "null") => {}
        Some(_) | None => return Err(format!("{types} is no type of JSON")),
    }
    taken.0.insert(0, ("type".to_owned(), types));
    describe(&rest, &mut taken);
    Ok(written(&taken))
}

fn written(fields: &Fields) -> Box<RawValue> {
    // Fields hold valid JSON only.
    to_raw_value(fields).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn convert_all(schemas: Fields, depth: usize) -> Result<Fields, String> {
    let converted = schemas.0.into_iter().map(|(name, schema)| Ok((name, convert(schema.get(), depth + 1)?)));
    converted.collect::<Result<_, String>>().map(Fields)
}

/// An object with these properties and no others.
fn close(rest: &mut Fields, taken: &mut Fields, depth: usize) -> Result<(), String> {
    let properties = rest.remove("properties").and_then(|properties| parse(properties.get())).unwrap_or_default();
    let properties = convert_all(properties, depth)?;
    let is_open = rest.remove("additionalProperties").is_none_or(|more| more.get() != "false");
    if is_open && properties.0.is_empty() {
        return Err("an object in it may have any properties".to_owned());
    }
    taken.add("properties", &properties);
    rest.give("required", taken);
    taken.add("additionalProperties", &false);
    Ok(())
}

/// Keywords that are refused become words.
fn describe(rest: &Fields, taken: &mut Fields) {
    if rest.0.is_empty() {
        return;
    }
    let limits: Vec<String> = rest.0.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let limits = format!("({})", limits.join(", "));
    let description: Option<String> = taken.remove("description").and_then(|words| parse(words.get()));
    taken.add("description", &description.map_or_else(|| limits.clone(), |words| format!("{words} {limits}")));
}

/// Whether a reference leads back to where it stands. References to the whole schema always do.
fn is_recursive(schema: &Value) -> bool {
    fn targets<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                let inner = fields.iter().filter(|(name, _)| !matches!(name.as_str(), "$defs" | "definitions"));
                inner.for_each(|(_, value)| targets(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| targets(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    fn leads_back<'a>(root: &'a Value, target: &'a str, path: &mut Vec<&'a str>, done: &mut Vec<&'a str>) -> bool {
        // A chain of references that long is refused like one that never ends.
        if path.contains(&target) || path.len() > MAX_DEPTH {
            return true;
        }
        if done.contains(&target) {
            return false;
        }
        let Some(pointer) = target.strip_prefix('#') else { return false };
        let Some(schema) = root.pointer(pointer) else { return false };
        path.push(target);
        let mut next = Vec::new();
        targets(schema, &mut next);
        let is_back = pointer.is_empty() || next.into_iter().any(|target| leads_back(root, target, path, done));
        path.pop();
        done.push(target);
        is_back
    }
    let mut first = Vec::new();
    targets(schema, &mut first);
    let mut done = Vec::new();
    first.into_iter().any(|target| leads_back(schema, target, &mut Vec::new(), &mut done))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(schema: &str, expect: Expect) {
        let converted = output_schema(&Json::parse(schema).unwrap());
        expect.assert_eq(&converted.map_or_else(|reason| format!("refused: {reason}"), |schema| schema.to_string()));
    }

    #[test]
    fn objects_are_closed_and_limits_become_words() {
        check(
            r#"{"$schema":"x","type":"object","properties":{"n":{"type":"integer","minimum":1,"description":"How many."},
                "mail":{"type":"string","format":"email","maxLength":9},"sku":{"type":"string","format":"sku"},
                "list":{"type":"array","items":{"type":["string","null"]},"minItems":1,"maxItems":3}},"required":["n"]}"#,
            expect![[
                r#"{"type":"object","properties":{"n":{"type":"integer","description":"How many. (minimum: 1)"},"mail":{"type":"string","format":"email","description":"(maxLength: 9)"},"sku":{"type":"string","description":"(format: \"sku\")"},"list":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"null"}]},"minItems":1,"description":"(maxItems: 3)"}},"required":["n"],"additionalProperties":false}"#
            ]],
        );
        check(
            r##"{"$ref":"#/$defs/A","$defs":{"A":{"properties":{"b":{"$ref":"#/$defs/B"}}},"B":{"oneOf":[{"const":1},{"enum":["x",null]}]}}}"##,
            expect![[
                r##"{"$defs":{"A":{"type":"object","properties":{"b":{"$ref":"#/$defs/B"}},"additionalProperties":false},"B":{"anyOf":[{"const":1},{"enum":["x",null]}]}},"$ref":"#/$defs/A"}"##
            ]],
        );
    }

    #[test]
    fn what_cannot_be_expressed_says_why() {
        check(
            r##"{"$ref":"#/$defs/A","$defs":{"A":{"type":"array","items":{"$ref":"#/$defs/A"}}}}"##,
            expect!["refused: it refers to itself"],
        );
        check(
            r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
            expect!["refused: an object in it may have any properties"],
        );
        check(
            r#"{"type":"object","properties":{"a":true}}"#,
            expect!["refused: true stands where a schema of some type must be"],
        );
        check(r#"{"type":"array","items":{}}"#, expect!["refused: a part of it has no type"]);
        check(
            r#"{"$ref":"https://example.com/a"}"#,
            expect![[r#"refused: it refers to "https://example.com/a", which is outside of it"#]],
        );
        check(
            &format!("{}{}", r#"{"type":"array","items":"#.repeat(70), "{}".to_owned() + &"}".repeat(70)),
            expect!["refused: it nests more than 64 levels deep"],
        );
    }
}
