//! Tools of applications with schemas that nobody should use.

use std::net::TcpListener;

use expect_test::expect;
use serde_json::json;

use crate::suite::harness::shared;

#[test]
fn schemas_that_are_refused_or_harmless() {
    let shared = shared();
    let client = shared.client("fuzz");
    // Nobody must come here.
    let trap = TcpListener::bind("127.0.0.1:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    let address = trap.local_addr().unwrap();
    let mut deep = json!({ "type": "object" });
    for _ in 0..40 {
        deep = json!({ "properties": { "a": deep } });
    }
    let wide = json!({ "properties": { "a": { "enum": ["x".repeat(1024 * 1024)] } } });
    let doubling: serde_json::Map<_, _> = (0..40)
        .map(|n| (format!("d{n}"), json!({ "allOf": [{ "$ref": format!("#/$defs/d{}", n + 1) }, { "$ref": format!("#/$defs/d{}", n + 1) }] })))
        .chain([("d40".to_owned(), json!({ "type": "object" }))])
        .collect();
    let cases = [
        ("null", json!(null)),
        ("true", json!(true)),
        ("a number", json!(7)),
        ("an array", json!([])),
        ("anything", json!({})),
        ("type string", json!({ "type": "string" })),
        ("no type", json!({ "type": "thing" })),
        ("$ref http", json!({ "$ref": format!("http://{address}/schema.json") })),
        ("$ref http within", json!({ "properties": { "a": { "$ref": format!("http://{address}/schema.json") } } })),
        ("$ref file", json!({ "$ref": "file:///etc/passwd" })),
        ("$dynamicRef", json!({ "$dynamicRef": format!("http://{address}/schema.json") })),
        ("$schema", json!({ "$schema": format!("http://{address}/schema.json") })),
        ("$id", json!({ "$id": format!("http://{address}/"), "properties": { "a": { "$ref": "other.json" } } })),
        ("$ref to itself", json!({ "$ref": "#" })),
        ("$ref nowhere", json!({ "$ref": "#/$defs/nothing" })),
        ("recursive", json!({ "properties": { "a": { "$ref": "#" } } })),
        ("doubling", json!({ "$ref": "#/$defs/d0", "$defs": doubling })),
        ("regex bomb", json!({ "properties": { "a": { "pattern": "^(a+)+$" } } })),
        ("regex of size", json!({ "properties": { "a": { "pattern": "(((a{1000}){1000}){1000})" } } })),
        ("no regex", json!({ "properties": { "a": { "pattern": "(" } } })),
        ("deep", deep),
        ("1 MiB", wide),
    ];
    let mut table = String::new();
    for (name, schema) in cases {
        let body = json!({
            "agent": { "name": "demo" },
            "tools": [{ "name": "t", "description": "", "inputSchema": schema }],
            "messages": [{ "role": "user", "content": "stream 1" }],
        });
        let answer = client.send("PUT", "/session", &body.to_string());
        super::never_a_fault(&answer);
        let said = if answer.status < 400 { String::new() } else { answer.error() };
        table += &format!("{name}: {} {}\n", answer.status, said.replace(&address.to_string(), "<trap>"));
    }
    expect![[r##"
        null: 400 the input schema of tool "t" cannot be used: the schema must be a JSON object that describes an object: {"type": "object", …}
        true: 400 the input schema of tool "t" cannot be used: the schema must be a JSON object that describes an object: {"type": "object", …}
        a number: 400 the input schema of tool "t" cannot be used: the schema must be a JSON object that describes an object: {"type": "object", …}
        an array: 400 the input schema of tool "t" cannot be used: the schema must be a JSON object that describes an object: {"type": "object", …}
        anything: 201 
        type string: 400 the input schema of tool "t" cannot be used: the schema must be a JSON object that describes an object: {"type": "object", …}
        no type: 400 the input schema of tool "t" cannot be used: the schema must be a JSON object that describes an object: {"type": "object", …}
        $ref http: 400 the input schema of tool "t" cannot be used: the schema refers to "http://<trap>/schema.json"; only references into the schema itself, such as "#/$defs/name", are followed
        $ref http within: 400 the input schema of tool "t" cannot be used: the schema refers to "http://<trap>/schema.json"; only references into the schema itself, such as "#/$defs/name", are followed
        $ref file: 400 the input schema of tool "t" cannot be used: the schema refers to "file:///etc/passwd"; only references into the schema itself, such as "#/$defs/name", are followed
        $dynamicRef: 400 the input schema of tool "t" cannot be used: the schema refers to "http://<trap>/schema.json"; only references into the schema itself, such as "#/$defs/name", are followed
        $schema: 400 the input schema of tool "t" cannot be used: the schema is not valid at the top: Unknown meta-schema: 'http://<trap>/schema.json'. Custom meta-schemas must be registered in the registry before use
        $id: 400 the input schema of tool "t" cannot be used: the schema refers to "other.json"; only references into the schema itself, such as "#/$defs/name", are followed
        $ref to itself: 400 the input schema of tool "t" cannot be used: the schema's references to itself multiply or never end, so that no input can be checked against it
        $ref nowhere: 400 the input schema of tool "t" cannot be used: the schema refers to "#/$defs/nothing"; only references into the schema itself, such as "#/$defs/name", are followed
        recursive: 201 
        doubling: 400 the input schema of tool "t" cannot be used: the schema's references to itself multiply or never end, so that no input can be checked against it
        regex bomb: 201 
        regex of size: 400 the input schema of tool "t" cannot be used: the schema is not valid at /properties/a/pattern: "(((a{1000}){1000}){1000})" is not a "regex"
        no regex: 400 the input schema of tool "t" cannot be used: the schema is not valid at /properties/a/pattern: "(" is not a "regex"
        deep: 400 the body nests objects and arrays deeper than 64 levels, which is the limit
        1 MiB: 400 the input schema of tool "t" cannot be used: the schema has 1048610 bytes, at most 65536 are allowed
    "##]].assert_eq(&table);
    assert!(trap.accept().is_err(), "nothing is fetched");
}

#[test]
fn names_that_are_refused() {
    let shared = shared();
    let client = shared.client("fuzz");
    for name in ["", " ", "a b", "a.b", "ä", "a\n", "../x", &"x".repeat(65)] {
        let body = json!({
            "agent": { "name": "demo" },
            "tools": [{ "name": name, "description": "", "inputSchema": {} }],
            "messages": [{ "role": "user", "content": "hi" }],
        });
        let answer = client.send("PUT", "/session", &body.to_string());
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.error().contains("cannot be a tool's name"), "{answer:?}");
    }
}
