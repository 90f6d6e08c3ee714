use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn compile(schema: &Value) -> Result<Schema, SchemaError> {
    SchemaCheck::default().compile(&Json::of(schema).unwrap())
}

#[track_caller]
fn refused(schema: &Value, expected: Expect) {
    expected.assert_eq(&compile(schema).unwrap_err().to_string());
}

#[track_caller]
fn check(schema: &Value, input: &Value, expected: Expect) {
    let outcome = compile(schema).unwrap().validate(&Json::of(input).unwrap());
    expected.assert_eq(&outcome.map_or_else(|message| message, |()| "fits".to_owned()));
}

#[test]
fn an_input_that_fits() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    check(&schema, &json!({"a": 1}), expect!["fits"]);
}

#[test]
fn every_error_is_told_with_its_place() {
    let schema = json!({
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 1},
            "unit": {"enum": ["km", "mi"]},
            "tags": {"type": "array", "items": {"type": "string"}}
        },
        "required": ["count", "name"],
        "additionalProperties": false
    });
    check(
        &schema,
        &json!({"count": 0, "unit": "m", "tags": ["a", 2], "colour": "red"}),
        expect![[r#"
        the input does not fit the tool's schema:
        - at the top: "name" is a required property
        - at /count: 0 is less than the minimum of 1
        - at /tags/1: 2 is not of type "string"
        - at /unit: "m" is not one of "km" or "mi"
        - at the top: Additional properties are not allowed ('colour' was unexpected)"#]],
    );
}

#[test]
fn errors_are_few_and_short() {
    let schema = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let input: Value = (0..100).map(|n| (format!("member{n:03}"), json!("é".repeat(5000)))).collect();
    let message = compile(&schema).unwrap().validate(&Json::of(&input).unwrap()).unwrap_err();
    assert!(message.len() < 2500, "{} bytes", message.len());
    assert!(message.ends_with("\n- and 95 more"), "{message}");
}

#[test]
fn schemas_that_are_none() {
    refused(
        &json!({"type": "object", "properties": 5}),
        expect![[r#"the schema is not valid at /properties: 5 is not of type "object""#]],
    );
    refused(
        &json!({"type": "object", "properties": {"a": {"type": "text"}}}),
        expect![[
            r#"the schema is not valid at /properties/a/type: "text" is not valid under any of the schemas listed in the 'anyOf' keyword"#
        ]],
    );
    refused(
        &json!({"properties": {"a": {"pattern": "("}}}),
        expect![[r#"the schema is not valid at /properties/a/pattern: "(" is not a "regex""#]],
    );
    refused(
        &json!({"type": "string"}),
        expect![[r#"the schema must be a JSON object that describes an object: {"type": "object", …}"#]],
    );
    refused(
        &json!(true),
        expect![[r#"the schema must be a JSON object that describes an object: {"type": "object", …}"#]],
    );
    refused(
        &json!({"$schema": "https://example.org/own"}),
        expect![
            "the schema is not valid at the top: Unknown meta-schema: 'https://example.org/own'. Custom meta-schemas must be registered in the registry before use"
        ],
    );
}

#[test]
fn nothing_outside_is_referred_to() {
    for reference in [
        "https://example.org/schema.json",
        "file:///etc/passwd",
        "other.json",
        "http://json-schema.org/draft-07/schema#",
        "#anchor",
        "#/$defs/missing",
        "#/%zz",
    ] {
        let schema = json!({"type": "object", "properties": {"a": {"$ref": reference}}});
        assert_eq!(compile(&schema).unwrap_err(), SchemaError::Reference { reference: reference.to_owned() });
    }
    refused(
        &json!({"properties": {"a": {"$dynamicRef": "#x"}}}),
        expect![[
            r##"the schema refers to "#x"; only references into the schema itself, such as "#/$defs/name", are followed"##
        ]],
    );
    refused(
        &json!({"properties": {"a": {"$id": "https://example.org/a"}}}),
        expect![[
            r##"the schema refers to "https://example.org/a"; only references into the schema itself, such as "#/$defs/name", are followed"##
        ]],
    );
    // Behind a reference, too.
    refused(
        &json!({"$ref": "#/x/y", "x": {"y": {"not": {"$ref": "https://example.org"}}}}),
        expect![[
            r##"the schema refers to "https://example.org"; only references into the schema itself, such as "#/$defs/name", are followed"##
        ]],
    );
}

#[test]
fn properties_may_be_called_like_keywords() {
    let schema = json!({"properties": {"$ref": {"type": "string"}, "$id": {"const": {"$ref": "x"}}}});
    check(&schema, &json!({"$ref": "https://example.org", "$id": {"$ref": "x"}}), expect!["fits"]);
}

#[test]
fn references_inside_are_followed() {
    let schema = json!({
        "$id": "https://example.org/root",
        "$ref": "#/$defs/a%20node",
        "$defs": {"a node": {
            "type": "object",
            "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/a%20node"}}},
            "additionalProperties": false
        }}
    });
    check(&schema, &json!({"children": [{"children": []}, {}]}), expect!["fits"]);
    check(
        &schema,
        &json!({"children": [{"children": [{"child": 1}]}]}),
        expect![[r#"
        the input does not fit the tool's schema:
        - at /children/0/children/0: Additional properties are not allowed ('child' was unexpected)"#]],
    );
}

#[test]
fn sizes_are_bounded() {
    refused(
        &json!({"description": "x".repeat(70_000)}),
        expect!["the schema has 70018 bytes, at most 65536 are allowed"],
    );
    let mut deep = json!({});
    for _ in 0..20 {
        deep = json!({"properties": {"a": deep}});
    }
    refused(&deep, expect!["the schema is nested more than 32 deep"]);
    let many: Value = (0..65).map(|n| (format!("a{n}"), json!({"pattern": "a"}))).collect();
    refused(&json!({"properties": many}), expect!["the schema has more than 64 regular expressions"]);
    refused(
        &json!({"properties": {"a": {"pattern": "(\\w{1000}){1000}"}}}),
        expect![[r#"the schema is not valid at /properties/a/pattern: "(\\w{1000}){1000}" is not a "regex""#]],
    );
}

#[test]
fn endless_references_are_refused() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
    ] {
        assert_eq!(compile(&schema).unwrap_err(), SchemaError::Endless, "{schema}");
    }
}

/// Each level applies the next one twice.
fn doubling(levels: usize) -> Value {
    let mut definitions: serde_json::Map<_, _> = (0..levels)
        .map(|level| {
            let next = json!({"$ref": format!("#/$defs/level{}", level + 1)});
            (format!("level{level}"), json!({"allOf": [next, next]}))
        })
        .collect();
    definitions.insert(format!("level{levels}"), json!({"type": "object"}));
    json!({"$ref": "#/$defs/level0", "$defs": definitions})
}

#[test]
fn references_that_multiply_are_refused() {
    check(&doubling(10), &json!({}), expect!["fits"]);
    refused(
        &doubling(50),
        expect!["the schema's references to itself multiply or never end, so that no input can be checked against it"],
    );
}

#[test]
fn references_that_multiply_with_the_depth_of_the_input_are_not_followed() {
    let twice = json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]});
    let schema = json!({"type": "object", "properties": {"a": twice}});
    let nested = |depth: usize| (0..depth).fold(json!({}), |inner, _| json!({"a": inner}));
    check(&schema, &nested(10), expect!["fits"]);
    check(
        &schema,
        &nested(60),
        expect!["the input is too large or nested too deeply to be checked against the tool's schema"],
    );
}

#[test]
fn the_deepest_chain_of_references_fits_the_stack() {
    let schema = json!({"type": "object", "properties": {"a": {"$ref": "#"}}});
    let nested = |depth: usize, core: Value| (0..depth).fold(core, |inner, _| json!({"a": inner}));
    check(&schema, &nested(120, json!({})), expect!["fits"]);
    let message = compile(&schema).unwrap().validate(&Json::of(&nested(120, json!(1))).unwrap()).unwrap_err();
    assert!(message.contains("1 is not of type \"object\""), "{message}");
}

#[test]
fn backtracking_is_bounded() {
    let schema = json!({"properties": {"a": {"pattern": "^(?=(a+)+b)\\1$"}}});
    let input = json!({"a": "a".repeat(5000)});
    let message = compile(&schema).unwrap().validate(&Json::of(&input).unwrap()).unwrap_err();
    assert!(message.starts_with("the input does not fit the tool's schema:\n- at /a: "), "{message}");
}

fn any_json() -> impl Strategy<Value = Value> {
    let keyword = prop::sample::select(vec![
        "type",
        "properties",
        "items",
        "allOf",
        "anyOf",
        "not",
        "$ref",
        "$defs",
        "a",
        "pattern",
        "required",
        "enum",
        "unevaluatedProperties",
        "additionalProperties",
        "if",
        "dependencies",
        "$schema",
        "$id",
        "minimum",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        prop::sample::select(vec!["object", "string", "#", "#/$defs/a", "#/properties/a", "(", "a*"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            4 => prop::collection::btree_map(keyword.clone(), inner, 0..6)
                .prop_map(|members| members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_schema_and_any_input_come_to_an_end(schema in any_json(), input in any_json()) {
        if let Ok(schema) = compile(&schema) {
            let _ = schema.validate(&Json::of(&input).unwrap());
        }
    }
}
