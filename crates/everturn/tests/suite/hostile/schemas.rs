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
        regex of size: 400 the input schema of tool "t" cannot be used: the schema's regular expression "(((a{1000}){1000}){1000})" is too complex: its weight is 2003003003, at most 100000 is allowed; repeat less, and fewer Unicode classes such as \p{L}
        no regex: 400 the input schema of tool "t" cannot be used: the schema is not valid at /properties/a/pattern: "(" is not a "regex"
        deep: 400 the body nests objects and arrays deeper than 64 levels, which is the limit
        1 MiB: 400 the input schema of tool "t" cannot be used: the schema has 1048610 bytes, at most 65536 are allowed
    "##]].assert_eq(&table);
    assert!(trap.accept().is_err(), "nothing is fetched");
}

/// Two such requests once kept everybody waiting for two minutes.
#[test]
fn schemas_that_take_long_to_compile_are_refused() {
    let shared = shared();
    let (attacker, other) = (shared.client("fuzz"), shared.client("bob"));
    let user = json!({ "role": "user", "content": "stream 1" });
    // No two expressions are alike: none of them is found compiled.
    let properties = |tool: usize, count: usize, class: &str| -> serde_json::Value {
        let pattern = |n: usize| json!({ "type": "string", "pattern": format!("{tool}x{n}{class}{{24}}") });
        json!({ "properties": (0..count).map(|n| (format!("p{n}"), pattern(n))).collect::<serde_json::Value>() })
    };
    let tools = |count: usize, patterns: usize| -> Vec<_> {
        let schema = |tool| properties(tool, patterns, r"\p{L}");
        (0..count).map(|n| json!({ "name": format!("t{n}"), "description": "", "inputSchema": schema(n) })).collect()
    };
    let aap =
        |tools: Vec<serde_json::Value>| json!({ "agent": { "name": "demo" }, "tools": tools, "messages": [user] });
    let functions: Vec<_> = (0..50)
        .map(|n| json!({ "type": "function", "function": { "name": format!("t{n}"), "parameters": properties(n, 1, r"\p{M}") } }))
        .collect();
    let format =
        json!({ "type": "json_schema", "json_schema": { "name": "n", "schema": properties(99, 22, r"\p{N}") } });
    let openai = json!({ "model": "demo", "messages": [user], "tools": functions, "response_format": format });
    let requests = [
        (
            "PUT",
            "/session",
            aap(tools(128, 64)),
            r#"the input schema of tool "t0" cannot be used: the schema's regular expressions are too complex: their weight is "#,
            "at most 400000",
        ),
        (
            "PUT",
            "/session",
            aap(tools(128, 8)),
            r#"the input schema of tool "t7" cannot be used: the regular expressions of the schemas that come together are too complex"#,
            "at most 1000000",
        ),
        ("POST", "/v1/chat/completions", openai, "response_format.json_schema.schema", "at most 1000000"),
    ];
    std::thread::scope(|scope| {
        let refused: Vec<_> = requests
            .iter()
            .flat_map(|request| [request, request])
            .map(|(method, path, body, words, limit)| {
                let attacker = &attacker;
                scope.spawn(move || {
                    let answer = attacker.send(method, path, &body.to_string());
                    assert_eq!(answer.status, 400, "{answer:?}");
                    assert!(
                        answer.body.replace("\\\"", "\"").contains(words) && answer.body.contains(limit),
                        "{answer:?}"
                    );
                })
            })
            .collect();
        // Somebody else is served meanwhile.
        while !refused.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            let answer = other.send("PUT", "/session", &aap(tools(1, 1)).to_string());
            assert_eq!(answer.status, 201, "{answer:?}");
        }
    });
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
