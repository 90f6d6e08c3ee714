//! Makes up tool input that fits a JSON Schema, for a model that cannot read a schema's meaning.
//!
//! Only what is required is filled. The values are dull on purpose: what the user wrote for the first text, the
//! property's name for the others, the user's number or 1, `true`, the first choice.

use serde_json::{Map, Value};

/// How deep schemas are followed.
const MAX_DEPTH: u32 = 8;

/// An input object for `schema`, with `words` from the user's message.
pub(super) fn fill(schema: &Value, words: &str) -> Map<String, Value> {
    let mut filler =
        Filler { root: schema, words: Some(words).filter(|words| !words.is_empty()), number: number(words) };
    match filler.object(schema, 0) {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

struct Filler<'a> {
    root: &'a Value,
    /// Given to the first text, once.
    words: Option<&'a str>,
    /// Given to the first number, once.
    number: Option<f64>,
}

impl<'a> Filler<'a> {
    fn object(&mut self, schema: &'a Value, depth: u32) -> Value {
        let mut object = Map::new();
        let required = schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for name in required.iter().filter_map(Value::as_str) {
            let property = schema.get("properties").and_then(|properties| properties.get(name)).unwrap_or(&Value::Null);
            object.insert(name.to_owned(), self.value(property, name, depth + 1));
        }
        Value::Object(object)
    }

    fn value(&mut self, schema: &'a Value, name: &str, depth: u32) -> Value {
        if depth > MAX_DEPTH {
            return Value::Null;
        }
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let target = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            return target.map_or(Value::Null, |target| self.value(target, name, depth + 1));
        }
        if let Some(value) = schema.get("const").or_else(|| schema.get("default")) {
            return value.clone();
        }
        if let Some(first) = schema.get("enum").and_then(|choices| choices.get(0)) {
            return first.clone();
        }
        for alternatives in ["anyOf", "oneOf", "allOf"] {
            if let Some(first) = schema.get(alternatives).and_then(|choices| choices.get(0)) {
                return self.value(first, name, depth + 1);
            }
        }
        match kind(schema) {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, name, depth),
            "integer" => self.number_in(schema, f64::floor),
            "number" => self.number_in(schema, |number| number),
            "boolean" => Value::Bool(true),
            "null" => Value::Null,
            _ => Value::String(self.words.take().unwrap_or(name).to_owned()),
        }
    }

    /// An empty array where that will do, else one with a single item.
    fn array(&mut self, schema: &'a Value, name: &str, depth: u32) -> Value {
        match (schema.get("minItems").and_then(Value::as_u64), schema.get("items")) {
            (Some(1..), Some(items)) => Value::Array(vec![self.value(items, name, depth + 1)]),
            _ => Value::Array(Vec::new()),
        }
    }

    fn number_in(&mut self, schema: &Value, round: fn(f64) -> f64) -> Value {
        let bound = |name| schema.get(name).and_then(Value::as_f64);
        let mut number = round(self.number.take().unwrap_or(1.0));
        if let Some(minimum) = bound("minimum") {
            number = number.max(minimum);
        }
        if let Some(maximum) = bound("maximum") {
            number = number.min(maximum);
        }
        if number.fract() == 0.0 && number.abs() < 9e15 { Value::from(number as i64) } else { Value::from(number) }
    }
}

/// The schema's type; the first that is not null where it names several.
fn kind(schema: &Value) -> &str {
    match schema.get("type") {
        Some(Value::String(kind)) => kind,
        Some(Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("null")
        }
        _ if schema.get("properties").is_some() => "object",
        _ => "string",
    }
}

/// The first number in a text.
fn number(text: &str) -> Option<f64> {
    text.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-')).find_map(|word| {
        let number: f64 = word.trim_end_matches('.').parse().ok()?;
        number.is_finite().then_some(number)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::fill;

    #[test]
    fn required_properties_are_filled() {
        for (schema, words, expected) in [
            (json!({}), "x", json!({})),
            (json!({"type": "object", "properties": {"a": {"type": "string"}}}), "x", json!({})),
            (
                json!({"required": ["city"], "properties": {"city": {"type": "string"}}}),
                "Tokyo",
                json!({"city": "Tokyo"}),
            ),
            (json!({"required": ["city"], "properties": {"city": {"type": "string"}}}), "", json!({"city": "city"})),
            (
                json!({"required": ["title", "body"], "properties": {"title": {"type": "string"}, "body": {}}}),
                "My list",
                json!({"title": "My list", "body": "body"}),
            ),
            (json!({"required": ["n"], "properties": {"n": {"type": "integer"}}}), "5 seconds", json!({"n": 5})),
            (json!({"required": ["n"], "properties": {"n": {"type": "number"}}}), "about 2.5.", json!({"n": 2.5})),
            (json!({"required": ["n"], "properties": {"n": {"type": "integer", "minimum": 3}}}), "", json!({"n": 3})),
            (json!({"required": ["on"], "properties": {"on": {"type": ["null", "boolean"]}}}), "", json!({"on": true})),
            (json!({"required": ["u"], "properties": {"u": {"enum": ["C", "F"]}}}), "", json!({"u": "C"})),
            (
                json!({"required": ["l"], "properties": {"l": {"type": "array", "minItems": 1, "items": {"type": "number"}}}}),
                "",
                json!({"l": [1]}),
            ),
            (
                json!({"required": ["p"], "properties": {"p": {"$ref": "#/$defs/p"}},
                    "$defs": {"p": {"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}}}}}),
                "here",
                json!({"p": {"x": "here"}}),
            ),
        ] {
            assert_eq!(serde_json::Value::Object(fill(&schema, words)), expected, "{schema}");
        }
    }

    #[test]
    fn a_schema_that_contains_itself_ends() {
        let schema = json!({"required": ["a"], "properties": {"a": {"$ref": "#"}}});
        assert!(fill(&schema, "").contains_key("a"));
        let schema = json!({"required": ["a"], "properties": {"a": {"$ref": "#/properties/a"}}});
        assert_eq!(fill(&schema, "").len(), 1);
    }
}
