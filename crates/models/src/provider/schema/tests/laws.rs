//! What holds for any JSON.

use std::borrow::Cow;

use everturn_core::Json;
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value, json};

use super::{ALL, Outcome, Rules, checks::check, tool_schema};

const KEYWORDS: [&str; 36] = [
    "type",
    "properties",
    "required",
    "items",
    "prefixItems",
    "additionalItems",
    "additionalProperties",
    "patternProperties",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "$ref",
    "$defs",
    "definitions",
    "enum",
    "const",
    "description",
    "title",
    "default",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "minLength",
    "nullable",
    "format",
    "pattern",
    "dependencies",
    "dependentRequired",
    "contains",
    "uniqueItems",
    "id",
    "propertyOrdering",
];

/// JSON that looks like schemas, and often is none.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..300).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(vec!["object", "array", "string", "null", "any", "Integer", "#", "#/$defs/a", "#/properties/a b", "x"])
            .prop_map(Value::from),
        ".{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 5, |inner| {
        let key = prop_oneof![
            4 => select(KEYWORDS.to_vec()).prop_map(str::to_owned),
            1 => select(vec!["a", "b", "a b", "", "größe"]).prop_map(str::to_owned),
        ];
        let object = vec((key, inner.clone()), 0..5).prop_map(|entries| Value::Object(Map::from_iter(entries)));
        prop_oneof![1 => vec(inner, 0..4).prop_map(Value::from), 3 => object]
    })
}

/// A schema of a value as servers write it, with all keywords in their place.
fn plain_schema() -> impl Strategy<Value = Value> + Clone {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!({"type": "string", "minLength": 2, "format": "date"})),
        Just(json!({"type": ["integer", "null"], "minimum": 1, "default": 5})),
        Just(json!({"type": "number", "exclusiveMinimum": 0, "maximum": 9.5, "multipleOf": 0.5})),
        Just(json!({"enum": ["x", null, true, 1], "description": "Some."})),
        Just(json!({"const": "x"})),
        Just(json!({"type": "array"})),
        Just(json!({"type": "object", "patternProperties": {"^x": {"type": "string"}}, "additionalProperties": false})),
        Just(json!({"$ref": "#/$defs/leaf", "description": "Referred to."})),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|items| json!({"type": "array", "items": items, "maxItems": 2})),
            vec(inner.clone(), 1..3).prop_map(|all| json!({"anyOf": all})),
            vec(inner.clone(), 1..3).prop_map(|all| json!({"oneOf": all})),
            vec(inner.clone(), 1..3).prop_map(|all| json!({"allOf": all})),
            inner.clone().prop_map(|not| json!({"not": not})),
            inner
                .clone()
                .prop_map(|inner| json!({"type": ["object", "string"], "anyOf": [{"required": ["a"]}, inner]})),
            (object(inner), any::<bool>()).prop_map(|(mut object, is_closed)| {
                if is_closed {
                    object["additionalProperties"] = json!(false);
                }
                object
            }),
        ]
    })
}

fn object(field: impl Strategy<Value = Value> + Clone) -> impl Strategy<Value = Value> {
    let required = select(vec![json!([]), json!(["a"]), json!(["b", "a"])]);
    (field.clone(), field, required)
        .prop_map(|(a, b, required)| json!({"type": "object", "properties": {"a": a, "b": b}, "required": required}))
}

fn instance() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1i64..12).prop_map(Value::from),
        select(vec!["x", "xy", "2020-01-01", ""]).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        let key = select(vec!["a", "b", "xa"]).prop_map(str::to_owned);
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((key, inner), 0..3).prop_map(|entries| Value::Object(Map::from_iter(entries))),
        ]
    })
}

fn rewritten(schema: &Value, rules: Rules) -> Result<Json, String> {
    let json = Json::of(schema).unwrap();
    match Outcome::of(json.as_str(), rules) {
        Outcome::Fits => Ok(json),
        Outcome::Rewritten { json, .. } => Ok(Json::clone(&json)),
        Outcome::Unfit(reason) => Err(reason.to_string()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_comes_out_is_taken_and_stays_as_it_is(schema in any_json(), is_object: bool) {
        let mut schema = schema;
        if is_object && let Some(map) = schema.as_object_mut() {
            map.insert("type".into(), "object".into());
            map.retain(|keyword, _| keyword != "enum" && keyword != "const" && keyword != "$ref");
        }
        for rules in ALL {
            if let Ok(json) = rewritten(&schema, rules) {
                check(&json, rules);
                let again = tool_schema(&json, rules);
                prop_assert!(matches!(again, Ok(Cow::Borrowed(_))), "{rules:?}: {json:?} became {again:?}");
            }
        }
    }

    #[test]
    fn valid_input_stays_valid(schema in object(plain_schema()), inputs in vec(instance(), 1..12)) {
        let mut schema = schema;
        schema["$defs"] = json!({"leaf": {"type": ["string", "boolean"]}});
        let before = jsonschema::draft202012::new(&schema).unwrap();
        for rules in ALL {
            let json = rewritten(&schema, rules).unwrap();
            check(&json, rules);
            let value = json.to_value();
            let after = jsonschema::draft202012::new(&value).unwrap();
            for input in &inputs {
                for input in [input.clone(), json!({"a": input, "b": input})] {
                    prop_assert!(!before.is_valid(&input) || after.is_valid(&input), "{rules:?}: {input} for {schema} and {value}");
                }
            }
        }
    }
}
