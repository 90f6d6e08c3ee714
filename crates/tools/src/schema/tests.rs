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

/// Tools that do not say which draft they mean may mean an older one.
#[test]
fn tuples_are_understood_as_older_drafts_write_them() {
    let pair = json!({"type": "array", "items": [{"type": "string"}, {"type": "number"}], "additionalItems": false});
    let schema = compile(&json!({"type": "object", "properties": {"pair": pair}})).unwrap();
    let fits = |input: &str| schema.validate(&Json::parse(input).unwrap()).is_ok();
    assert!(fits(r#"{"pair": ["a", 1]}"#));
    assert!(!fits(r#"{"pair": [1, "a"]}"#) && !fits(r#"{"pair": ["a", 1, 2]}"#));
    // One that names the draft of 2020 is held to it.
    let named = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {"pair": pair}});
    assert!(matches!(compile(&named), Err(SchemaError::Invalid { .. })));
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
    let long = json!({"properties": {"x".repeat(30_000): {"allOf": vec![json!({"minimum": 1}); 1500]}}});
    let error = compile(&long).unwrap_err();
    assert!(matches!(error, SchemaError::LongPaths { bytes, max: 4_194_304 } if bytes > 40_000_000), "{error}");
}

#[test]
fn patterns_are_bounded() {
    refused(
        &json!({"properties": {"a": {"pattern": "(\\w{1000}){1000}"}}}),
        expect![[
            r#"the schema's regular expression "(\\w{1000}){1000}" is too complex: its weight is 13003005, at most 100000 is allowed; repeat less, and fewer Unicode classes such as \p{L}"#
        ]],
    );
    refused(
        &json!({"patternProperties": {r"\p{L}{500}": {}}}),
        expect![[
            r#"the schema's regular expression "\\p{L}{500}" is too complex: its weight is 350501, at most 100000 is allowed; repeat less, and fewer Unicode classes such as \p{L}"#
        ]],
    );
    let heavy = |n: usize| (format!("a{n}"), json!({"pattern": format!(r"{n}\p{{L}}{{24}}")}));
    refused(
        &json!({"properties": (0..64).map(heavy).collect::<Value>()}),
        expect!["the schema's regular expressions are too complex: their weight is 1076918, at most 400000 is allowed"],
    );
    refused(
        &json!({"properties": {"a": {"pattern": "a".repeat(9000)}}}),
        expect!["the schema has a regular expression of 9000 bytes, at most 8192 are allowed"],
    );
    // Also where no check comes: the compiler may.
    refused(
        &json!({"$defs": {"a": {"pattern": r"\p{L}{500}"}}}),
        expect![[
            r#"the schema's regular expression "\\p{L}{500}" is too complex: its weight is 350501, at most 100000 is allowed; repeat less, and fewer Unicode classes such as \p{L}"#
        ]],
    );
    // One expression at many places is compiled once.
    let name = json!({"pattern": r"^\p{L}[\p{L}\p{M}' -]{0,63}$"});
    let names: Value = (0..64).map(|n| (format!("name{n}"), name.clone())).collect();
    check(&json!({"properties": names}), &json!({"name7": "Ada Müller"}), expect!["fits"]);
}

/// Each level has the next one twice, or once by a reference, and wants to know what that evaluated.
#[test]
fn what_multiplies_for_the_compiler_is_refused() {
    let within = |levels: usize| {
        (0..levels)
            .fold(json!({"type": "object"}), |inner, _| json!({"allOf": [inner], "unevaluatedProperties": false}))
    };
    check(&within(5), &json!({}), expect!["fits"]);
    refused(
        &within(15),
        expect![
            "the schema has unevaluatedProperties or unevaluatedItems within each other, so that more than 30000 subschemas would be compiled; use fewer of them, or additionalProperties"
        ],
    );
    let mut referring = doubling(14);
    for level in referring["$defs"].as_object_mut().unwrap().values_mut() {
        level["unevaluatedItems"] = json!(false);
        if let Some(twice) = level.get_mut("allOf") {
            twice.as_array_mut().unwrap().pop();
        }
    }
    assert!(matches!(compile(&referring), Err(SchemaError::Unevaluated { .. })));
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
        expect![
            "the input is too large or nested too deeply to be checked against the tool's schema: it would take more than 1000000 steps, which is the limit"
        ],
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

/// Whether an input is found to take too much, before any of the work is done.
#[track_caller]
fn too_much(schema: &Value, input: &Value) {
    let outcome = compile(schema).unwrap().compare(&Json::of(input).unwrap(), Listing::FOR_MODELS, Work::MOST);
    assert!(matches!(outcome, Err(Misfit::TooMuchWork(Work::MOST))), "{outcome:?}");
}

#[test]
fn every_comparison_has_a_budget() {
    let all_of = |schema: Value, count: usize| json!({"allOf": vec![schema; count]});
    let list = |items: Value| json!({"properties": {"list": items}});
    // Every item has every problem.
    let many = list(json!({"items": all_of(json!({"type": "null"}), 2500)}));
    too_much(&many, &json!({"list": vec![1; 10_000]}));
    check(&many, &json!({"list": vec![Value::Null; 100]}), expect!["fits"]);
    // Few problems, each with a long name in its path, in its words, or in its schema.
    let strict = json!({"additionalProperties": all_of(json!({"additionalProperties": false}), 1000)});
    too_much(&strict, &json!({"x".repeat(100_000): {"a": 1}}));
    too_much(&strict, &json!({"a": {"x".repeat(100_000): 1}}));
    too_much(&list(json!({"items": {"required": ["x".repeat(60_000)]}})), &json!({"list": vec![json!({}); 2000]}));
    too_much(&list(json!({"items": {"contentEncoding": "x".repeat(60_000)}})), &json!({"list": vec!["x"; 2000]}));
    // Long lists of values to compare with.
    let choices = list(json!({"items": {"enum": (0..10_000).collect::<Vec<_>>()}}));
    too_much(&choices, &json!({"list": vec![0.5; 5000]}));
    check(&choices, &json!({"list": vec![9999; 500]}), expect!["fits"]);
    // Numbers that no hash tells apart.
    let unique = list(json!({"uniqueItems": true}));
    let alike =
        |count: u64| (0..count).map(|n| json!([n % 2000 + (1 << 62), n / 2000 + (1 << 62)])).collect::<Vec<_>>();
    too_much(&unique, &json!({"list": alike(20_000)}));
    check(&unique, &json!({"list": (0..1000).map(|n| n.to_string()).collect::<Vec<_>>()}), expect!["fits"]);
    // Long texts against expressions with many positions, and many texts against expressions that backtrack.
    let overlapping = json!({"properties": {"a": {"pattern": "[ab]*a[ab]{3000}c"}}});
    too_much(&overlapping, &json!({"a": "ab".repeat(50_000)}));
    let going_back = list(json!({"items": {"pattern": "^(?=(a+)+b)"}}));
    too_much(&going_back, &json!({"list": (0..2000).map(|n| "a".repeat(n % 100)).collect::<Vec<_>>()}));
    check(&going_back, &json!({"list": vec!["aab"; 100]}), expect!["fits"]);
    let names = json!({"patternProperties": {"[ab]*a[ab]{3000}c": true}});
    too_much(&names, &json!({"ab".repeat(50_000): 1}));
}

#[test]
fn of_a_large_input_one_problem_is_told() {
    let schema = json!({"additionalProperties": {"items": {"type": "integer"}}});
    let input = json!({"a": vec!["é"; 50_000]});
    check(
        &schema,
        &input,
        expect![[r#"
        the input does not fit the tool's schema:
        - at /a/0: "é" is not of type "integer"
        - and perhaps more"#]],
    );
    let schema = json!({"anyOf": [schema]});
    check(
        &schema,
        &input,
        expect![[r#"
        the input does not fit the tool's schema:
        - at the top: it does not fit; it is too large to say where
        - and perhaps more"#]],
    );
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
        "patternProperties",
        "propertyNames",
        "oneOf",
        "prefixItems",
        "contains",
        "uniqueItems",
        "const",
        "dependentRequired",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        prop::sample::select(vec!["object", "string", "#", "#/$defs/a", "#/properties/a", "(", "a*", "(?=a)b"])
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

    #[test]
    fn a_rehearsal_foresees_every_problem(schema in any_json(), input in any_json()) {
        if let Ok(Schema { validator, root, survey }) = compile(&schema)
            && let Ok(Work(steps)) = work::rehearse(&root, &input, &survey.patterns, Work::MOST)
        {
            let problems = u64::try_from(validator.iter_errors(&input).count()).unwrap();
            prop_assert!(problems <= steps, "{problems} problems in {steps} steps");
        }
    }
}
