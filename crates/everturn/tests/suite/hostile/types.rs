//! A value of the wrong type in every field.

use expect_test::expect;
use serde_json::{Value, json};

use crate::suite::harness::shared;

/// What is put into each field.
const VALUES: [&str; 8] = ["null", "true", "7", r#""x""#, "[]", "[null]", "{}", r#"{"x":1}"#];

/// Pointers to everything in a value, itself included.
pub(super) fn places(value: &Value, at: String, out: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| places(item, format!("{at}/{index}"), out));
        }
        Value::Object(fields) => fields.iter().for_each(|(name, field)| places(field, format!("{at}/{name}"), out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    out.push(at);
}

#[test]
fn a_creation() {
    let request = json!({
        "agent": {
            "name": "demo",
            "tools": [{ "name": "clock", "trust": false }],
            "options": { "nickname": "Ann", "language": "English", "token": "t" },
        },
        "stream": "none",
        "tools": [{ "name": "t", "title": "T", "description": "", "inputSchema": { "type": "object" } }],
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "Hm." },
                { "type": "text", "text": "Hm." },
                { "type": "tool_use", "toolCallId": "c", "name": "t", "input": { "a": 1 } },
            ]},
            { "role": "tool", "toolCallId": "c", "content": "1" },
            { "role": "user", "content": [{ "type": "image", "url": "https://example.com/a.png" }] },
        ],
    });
    let shared = shared();
    let client = shared.client("fuzz");
    let mut table = format!("{:34}{}\n", "", VALUES.map(|value| format!("{value:>8}")).concat());
    let mut fields = Vec::new();
    places(&request, String::new(), &mut fields);
    for field in fields {
        table += &format!("{field:34}");
        for value in VALUES {
            let mut wrong = request.clone();
            *wrong.pointer_mut(&field).unwrap() = serde_json::from_str(value).unwrap();
            let answer = client.send("PUT", "/session", &wrong.to_string());
            super::never_a_fault(&answer);
            table += &format!("{:>8}", answer.status);
        }
        table += "\n";
    }
    // Every 201 stands for a value that the schema allows there: `null` for what may be absent, a text for a text.
    expect![[r#"
                                              null    true       7     "x"      []  [null]      {} {"x":1}
        /agent/name                            400     400     400     400     400     400     400     400
        /agent/options/language                400     400     400     400     400     400     400     400
        /agent/options/nickname                400     400     400     201     400     400     400     400
        /agent/options/token                   400     400     400     201     400     400     400     400
        /agent/options                         201     400     400     400     400     400     201     400
        /agent/tools/0/name                    400     400     400     400     400     400     400     400
        /agent/tools/0/trust                   201     201     400     400     400     400     400     400
        /agent/tools/0                         400     400     400     400     400     400     400     400
        /agent/tools                           201     400     400     400     201     400     400     400
        /agent                                 400     400     400     400     400     400     400     400
        /messages/0/content                    400     400     400     201     400     400     400     400
        /messages/0/role                       400     400     400     400     400     400     400     400
        /messages/0                            400     400     400     400     400     400     400     400
        /messages/1/content/0/thinking         400     400     400     201     400     400     400     400
        /messages/1/content/0/type             400     400     400     400     400     400     400     400
        /messages/1/content/0                  400     400     400     400     400     400     400     400
        /messages/1/content/1/text             400     400     400     201     400     400     400     400
        /messages/1/content/1/type             400     400     400     400     400     400     400     400
        /messages/1/content/1                  400     400     400     400     400     400     400     400
        /messages/1/content/2/input/a          201     201     201     201     201     201     201     201
        /messages/1/content/2/input            400     400     400     400     400     400     201     201
        /messages/1/content/2/name             400     400     400     201     400     400     400     400
        /messages/1/content/2/toolCallId       400     400     400     201     400     400     400     400
        /messages/1/content/2/type             400     400     400     400     400     400     400     400
        /messages/1/content/2                  400     400     400     400     400     400     400     400
        /messages/1/content                    400     400     400     201     201     400     400     400
        /messages/1/role                       400     400     400     400     400     400     400     400
        /messages/1                            400     400     400     400     400     400     400     400
        /messages/2/content                    400     400     400     201     201     400     400     400
        /messages/2/role                       400     400     400     400     400     400     400     400
        /messages/2/toolCallId                 400     400     400     201     400     400     400     400
        /messages/2                            400     400     400     400     400     400     400     400
        /messages/3/content/0/type             400     400     400     400     400     400     400     400
        /messages/3/content/0/url              400     400     400     400     400     400     400     400
        /messages/3/content/0                  400     400     400     400     400     400     400     400
        /messages/3/content                    400     400     400     201     400     400     400     400
        /messages/3/role                       400     400     400     400     400     400     400     400
        /messages/3                            400     400     400     400     400     400     400     400
        /messages                              400     400     400     400     400     400     400     400
        /stream                                201     400     400     400     400     400     400     400
        /tools/0/description                   400     400     400     201     400     400     400     400
        /tools/0/inputSchema/type              400     400     400     400     400     400     400     400
        /tools/0/inputSchema                   400     400     400     400     400     400     201     201
        /tools/0/name                          400     400     400     201     400     400     400     400
        /tools/0/title                         201     400     400     201     400     400     400     400
        /tools/0                               400     400     400     400     400     400     400     400
        /tools                                 201     400     400     400     201     400     400     400
                                               400     400     400     400     400     400     400     400
    "#]]
    .assert_eq(&table);
}

#[test]
fn a_turn() {
    let shared = shared();
    let client = shared.client("fuzz");
    let create = json!({ "agent": { "name": "demo" }, "messages": [{ "role": "user", "content": "stream 1" }] });
    let path = format!("/session/{}", client.send("PUT", "/session", &create.to_string()).header("x-session-id"));
    let before = client.send("GET", &path, "").json();
    // No call waits, so that nothing of this can be accepted, whatever its types.
    let request = json!({
        "messages": [
            { "role": "tool", "toolCallId": "c1", "content": [{ "type": "text", "text": "1" }] },
            { "role": "tool_permission", "toolCallId": "c2", "granted": true, "reason": "why not" },
        ],
    });
    let mut fields = Vec::new();
    places(&request, String::new(), &mut fields);
    for field in fields {
        for value in VALUES {
            let mut wrong = request.clone();
            *wrong.pointer_mut(&field).unwrap() = serde_json::from_str(value).unwrap();
            let answer = client.send("POST", &path, &wrong.to_string());
            assert_eq!(answer.status, 400, "{field} {value}: {answer:?}");
            answer.error();
        }
    }
    assert_eq!(client.send("GET", &path, "").json(), before);
}

/// Arrays are no objects, even if they hold the fields in order.
#[test]
fn arrays_in_place_of_objects() {
    let shared = shared();
    let client = shared.client("fuzz");
    for body in [
        r#"[{"name":"demo"},null,[{"role":"user","content":"hi"}],null]"#,
        r#"{"agent":["demo",null,null],"messages":[{"role":"user","content":"hi"}]}"#,
        r#"{"agent":{"name":"demo"},"messages":[["user","hi",null,null,null]]}"#,
        r#"{"agent":{"name":"demo","tools":[["clock",true]]},"messages":[{"role":"user","content":"hi"}]}"#,
        r#"{"agent":{"name":"demo"},"tools":[["t",null,"",{}]],"messages":[{"role":"user","content":"hi"}]}"#,
        r#"{"agent":{"name":"demo"},"messages":[{"role":"user","content":[["text","hi",null,null,null,null,null]]}]}"#,
    ] {
        let answer = client.send("PUT", "/session", body);
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        assert!(answer.error().contains("expected an object"), "{answer:?}");
    }
}
