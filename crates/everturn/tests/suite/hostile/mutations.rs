//! Requests that were right before something happened to them.

use proptest::{
    prelude::*,
    sample::{Index, select},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::Value;

use crate::suite::harness::shared;

const REQUESTS: [&str; 5] = [
    r#"{"agent":{"name":"demo","tools":[{"name":"clock","trust":true}],"options":{"nickname":"Ann"}},"stream":"delta","messages":[{"role":"user","content":"I like tea"}]}"#,
    r#"{"agent":{"name":"demo"},"tools":[{"name":"t","description":"T","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}],"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"t"},{"type":"image","url":"data:image/png;base64,AAAA"}]}]}"#,
    r#"{"agent":{"name":"demo"},"stream":"message","messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"Hm"},{"type":"tool_use","toolCallId":"c","name":"f","input":{}}]},{"role":"tool","toolCallId":"c","content":"1"},{"role":"user","content":"why"}]}"#,
    r#"{"stream":"none","messages":[{"role":"user","content":"I like tea"}]}"#,
    r#"{"agent":{"options":{"language":"Japanese"}},"messages":[{"role":"tool","toolCallId":"c1","content":"1"},{"role":"tool_permission","toolCallId":"c2","granted":false,"reason":"no"}]}"#,
];

/// Something that happens to a request.
#[derive(Clone, Debug)]
enum Change {
    Byte(Index, u8),
    Insert(Index, &'static str),
    Remove(Index, Index),
    Repeat(Index, Index),
    Replace(Index, Value),
    Drop(Index),
}

fn changes() -> impl Strategy<Value = Change> {
    let pieces =
        ["\"", "{", "}", "[", "]", ",", ":", "\\", "\\u0000", "null", "1e999", "-", "\u{0}", "é", "\"agent\":{},"];
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Change::Byte(at, byte)),
        (any::<Index>(), select(pieces.to_vec())).prop_map(|(at, piece)| Change::Insert(at, piece)),
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Change::Remove(from, to)),
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Change::Repeat(from, to)),
        (any::<Index>(), values()).prop_map(|(at, value)| Change::Replace(at, value)),
        any::<Index>().prop_map(Change::Drop),
    ]
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        select(vec!["user", "tool", "tool_permission", "delta", "none", "clock", "text", "tool_use", "***"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z]{0,8}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn apply(change: &Change, body: Vec<u8>) -> Vec<u8> {
    let mut bytes = body;
    let span = |from: &Index, to: &Index, length: usize| {
        let (from, to) = (from.index(length), to.index(length));
        from.min(to)..from.max(to)
    };
    match change {
        Change::Byte(at, byte) if !bytes.is_empty() => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        Change::Insert(at, piece) => {
            let at = at.index(bytes.len() + 1);
            bytes.splice(at..at, piece.bytes());
        }
        Change::Remove(from, to) if !bytes.is_empty() => drop(bytes.drain(span(from, to, bytes.len()))),
        Change::Repeat(from, to) if !bytes.is_empty() => {
            let span = span(from, to, bytes.len());
            let piece = bytes[span.clone()].to_vec();
            bytes.splice(span.end..span.end, piece);
        }
        Change::Replace(at, value) => return edit(&bytes, at, |place| *place = value.clone()),
        Change::Drop(at) => {
            return edit(&bytes, at, |place| match place {
                Value::Array(items) => drop(items.pop()),
                Value::Object(fields) => drop(fields.keys().next().cloned().and_then(|name| fields.remove(&name))),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            });
        }
        Change::Byte(..) | Change::Remove(..) | Change::Repeat(..) => {}
    }
    bytes
}

/// Changes one of the values in a body that is JSON still.
fn edit(bytes: &[u8], at: &Index, change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<Value>(bytes) else { return bytes.to_vec() };
    let mut places = Vec::new();
    super::types::places(&value, String::new(), &mut places);
    let place = at.get(&places);
    change(value.pointer_mut(place).unwrap());
    value.to_string().into_bytes()
}

#[test]
fn never_a_fault_always_the_shape() {
    let shared = shared();
    let client = shared.client("fuzz");
    let made =
        client.send("PUT", "/session", r#"{"agent":{"name":"demo"},"messages":[{"role":"user","content":"tea"}]}"#);
    let path = format!("/session/{}", made.header("x-session-id"));
    let config = Config { cases: 400, failure_persistence: None, ..Config::default() };
    // The same cases every time.
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::default()));
    let requests = (select(REQUESTS.to_vec()), prop::collection::vec(changes(), 1..4));
    let outcome = runner.run(&requests, |(request, changes)| {
        let body = changes.iter().fold(request.as_bytes().to_vec(), |body, change| apply(change, body));
        let creates = request.starts_with(r#"{"agent":{"name""#);
        let (method, path) = if creates { ("PUT", "/session") } else { ("POST", path.as_str()) };
        let answer = client.send_with(method, path, &[("content-type", "application/json")], body);
        super::never_a_fault(&answer);
        if answer.status < 300 && answer.header("content-type") == "text/event-stream" {
            let last = answer.body.trim_end().lines().rev().nth(2);
            prop_assert_eq!(last, Some("event: turn_stop"), "{:?}", answer);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let answer = client.send("POST", &path, r#"{"messages":[{"role":"user","content":"stream 1"}]}"#);
    assert_eq!(answer.status, 200, "the server still answers: {answer:?}");
}
