//! What the vendors check, as far as they say.

use everturn_core::Json;
use serde_json::{Map, Value};

use super::Rules;

/// Panics where a vendor would refuse the schema.
pub(super) fn check(schema: &Json, rules: Rules) {
    let value = schema.to_value();
    let root = value.as_object().expect("an object");
    assert_eq!(root.get("type"), Some(&Value::from("object")), "{value}");
    assert!(root.get("properties").is_some_and(Value::is_object), "{value}");
    for keyword in ["anyOf", "oneOf", "allOf", "enum", "const", "$schema", "$defs", "definitions"] {
        assert!(!root.contains_key(keyword), "{keyword} at the root of {value}");
    }
    if rules == Rules::OpenAi {
        assert!(!root.contains_key("not"), "{value}");
    }
    assert!(jsonschema::draft202012::meta::is_valid(&value), "no schema of draft 2020-12: {value}");
    check_schema(root, rules);
}

fn check_schema(schema: &Map<String, Value>, rules: Rules) {
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
        kind => kind.and_then(Value::as_str).into_iter().collect(),
    };
    assert!(!schema.contains_key("$ref"), "{schema:?}");
    match rules {
        Rules::OpenAi => {
            assert!(!types.contains(&"object") || schema.contains_key("properties"), "{schema:?}");
            assert!(!types.contains(&"array") || schema.get("items").is_some_and(Value::is_object), "{schema:?}");
            assert!(!(schema.contains_key("type") && schema.contains_key("anyOf")), "{schema:?}");
            assert!(!schema.contains_key("const") && !schema.contains_key("prefixItems"), "{schema:?}");
        }
        Rules::Anthropic => {
            for key in schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
                let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
                assert!(!key.is_empty() && key.len() <= 64 && key.chars().all(is_plain), "{key}");
            }
        }
        Rules::Gemini => {
            const READ: &str = "type format title description enum items prefixItems minItems maxItems minimum maximum \
                anyOf oneOf properties additionalProperties required propertyOrdering";
            assert!(schema.keys().all(|keyword| READ.split(' ').any(|read| read == keyword)), "{schema:?}");
            let values = schema.get("enum").and_then(Value::as_array);
            assert!(values.is_none_or(|values| values.iter().all(|v| v.is_string() || v.is_number())), "{schema:?}");
            for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
                assert!(schema["properties"].get(name.as_str().unwrap()).is_some(), "{schema:?}");
            }
        }
        Rules::Grammar | Rules::Kimi => {}
        Rules::Ollama => {
            const READ: &str = "type description enum items anyOf properties required";
            assert!(schema.keys().all(|keyword| READ.split(' ').any(|read| read == keyword)), "{schema:?}");
        }
    }
    if rules == Rules::Grammar {
        for keyword in ["pattern", "patternProperties", "propertyNames", "not", "if", "allOf", "const", "prefixItems"] {
            assert!(!schema.contains_key(keyword), "{schema:?}");
        }
    }
    if rules == Rules::Kimi {
        const READ: &str = "type description enum items anyOf properties additionalProperties required";
        assert!(schema.keys().all(|keyword| READ.split(' ').any(|read| read == keyword)), "{schema:?}");
        assert!(schema.get("type").is_some_and(Value::is_string) != schema.contains_key("anyOf"), "{schema:?}");
        let stands_alone = schema.keys().all(|keyword| keyword == "anyOf" || keyword == "description");
        assert!(!schema.contains_key("anyOf") || stands_alone, "{schema:?}");
        assert!(schema.get("anyOf").and_then(Value::as_array).is_none_or(|any| any.len() <= 10), "{schema:?}");
        assert!(
            schema.get("items").is_none_or(|items| items.as_object().is_some_and(|map| !map.is_empty())),
            "{schema:?}"
        );
    }
    for (keyword, value) in schema {
        match (keyword.as_str(), value) {
            ("properties" | "patternProperties" | "dependentSchemas", Value::Object(schemas)) => {
                schemas.values().for_each(|schema| check_schema(schema.as_object().expect("no boolean"), rules));
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                assert!(!schemas.is_empty());
                schemas.iter().for_each(|schema| check_schema(schema.as_object().expect("no boolean"), rules));
            }
            ("items" | "not" | "if" | "then" | "else" | "contains" | "propertyNames" | "additionalProperties", _) => {
                if let Value::Object(schema) = value {
                    check_schema(schema, rules);
                }
            }
            _ => {}
        }
    }
}
