//! Files that are no sessions, or far too much of one.

use serde_json::{Value, json};

use super::world::World;
use crate::suite::harness::{Answer, Client};

fn import(client: &Client, body: impl Into<bytes::Bytes>) -> Answer {
    client.send_with("POST", "/goose/sessions/import", &[("content-type", "application/json")], body)
}

#[track_caller]
fn refused(answer: &Answer, statuses: &[u16], says: &str) {
    assert!(statuses.contains(&answer.status), "{statuses:?}: {answer:?}");
    let json = answer.json();
    assert_eq!(json.as_object().unwrap().len(), 1, "{answer:?}");
    let message = json["message"].as_str().unwrap();
    assert!(message.contains(says), "{says:?} is not in {message:?}");
    assert!(message.len() < 5000, "{} bytes", message.len());
}

#[test]
fn what_is_no_session() {
    let world = World::start();
    let client = world.client();
    let table = [
        ("", 400, ""),
        ("{", 400, ""),
        ("[]", 400, ""),
        ("null", 400, ""),
        ("7", 400, ""),
        ("\"a\"", 400, ""),
        ("{}", 422, "conversation is missing"),
        (r#"{"json":"{}"}"#, 422, "conversation is missing"),
        (r#"{"json":""}"#, 400, "no exported session"),
        (r#"{"json":"[]"}"#, 400, "no exported session"),
        (r#"{"json":{"conversation":[]}}"#, 400, ""),
        (r#"{"json":"{\"json\":\"{}\"}"}"#, 422, "conversation is missing"),
        (r#"{"conversation":7}"#, 400, ""),
        (r#"{"conversation":{}}"#, 400, ""),
        (r#"{"conversation":[7]}"#, 400, ""),
        (r#"{"conversation":[[]]}"#, 400, ""),
        (r#"{"conversation":[{}]}"#, 422, "conversation[0].role: is missing"),
        (r#"{"conversation":[{"role":"system","content":"x"}]}"#, 422, "conversation[0].role"),
        (r#"{"conversation":[{"role":"user"}]}"#, 422, "conversation[0].content: is missing"),
        (r#"{"conversation":[{"role":"user","content":7}]}"#, 400, ""),
        (r#"{"conversation":[{"role":"user","content":[{}]}]}"#, 400, "type"),
        (
            r#"{"conversation":[{"role":"user","content":[{"type":"video"}]}]}"#,
            422,
            "conversation[0].content[0]: type \"video\"",
        ),
        (r#"{"conversation":[{"role":"user","content":[{"type":"text"}]}]}"#, 422, "needs \"text\""),
        (
            r#"{"conversation":[{"role":"user","content":[{"type":"image","data":"!!","mimeType":"image/png"}]}]}"#,
            422,
            "not base64",
        ),
        (
            r#"{"conversation":[{"role":"user","content":[{"type":"image","data":"AAAA","mimeType":"text/html"}]}]}"#,
            422,
            "media type",
        ),
        (
            r#"{"conversation":[{"role":"user","content":[{"type":"image","source":{"url":"file:///etc/passwd"}}]}]}"#,
            422,
            "https://",
        ),
        (
            r#"{"conversation":[{"role":"assistant","content":[{"type":"toolRequest","id":"a"}]}]}"#,
            422,
            "conversation[0].content[0]",
        ),
        (
            r#"{"conversation":[{"role":"assistant","content":[{"type":"toolRequest","id":"","toolCall":{"value":{"name":"x"}}}]}]}"#,
            422,
            "id",
        ),
        (
            r#"{"conversation":[{"role":"assistant","content":[{"type":"toolRequest","id":"a","toolCall":{"value":{"name":"x","arguments":[1]}}}]}]}"#,
            422,
            "must be an object",
        ),
        (
            r#"{"conversation":[{"role":"user","content":[{"type":"toolRequest","id":"a","toolCall":{"value":{"name":"x"}}}]}]}"#,
            422,
            "cannot stand",
        ),
        (
            r#"{"conversation":[{"role":"user","content":[{"type":"toolResponse","id":"a","toolResult":{"status":"success"}}]}]}"#,
            422,
            "content: is missing",
        ),
        (
            r#"{"conversation":[{"role":"user","content":[{"type":"toolResponse","id":"a","toolResult":{"value":[{"type":"thinking"}]}}]}]}"#,
            422,
            "cannot stand",
        ),
        (r#"{"conversation":[{"role":"user","created":"yesterday","content":"x"}]}"#, 400, "seconds since 1970"),
        (r#"{"conversation":[],"name":7}"#, 400, ""),
        (r#"{"conversation":[],"working_dir":[]}"#, 400, ""),
        (r#"{"conversation":[],"user_recipe_values":7}"#, 400, ""),
    ];
    for (body, status, says) in table {
        println!("{body}");
        refused(&import(&client, body), &[status], says);
    }
    let none = client.send("GET", "/goose/sessions", "").json();
    assert_eq!(none, json!({ "sessions": [] }), "what was refused has left nothing");
    let bytes = import(&client, &b"{\"conversation\":[{\"role\":\"user\",\"content\":\"\xff\"}]}"[..]);
    refused(&bytes, &[400], "");
    let plain = client.send_with("POST", "/goose/sessions/import", &[("content-type", "text/plain")], "{}");
    refused(&plain, &[415], "");
}

/// What is odd, but can be taken.
#[test]
fn what_is_odd() {
    let world = World::start();
    let client = world.client();
    for odd in [
        json!({ "conversation": [], "name": "x".repeat(100_000) }),
        json!({ "conversation": [], "name": "", "agent": "nobody" }),
        json!({ "conversation": [], "recipe": 7 }),
        json!({ "conversation": [], "recipe": { "title": "no instructions" } }),
        json!({ "messages": [], "id": "../../etc/passwd", "created_at": "x" }),
        json!({ "conversation": [{ "role": "user", "content": "x", "created": i64::MAX }] }),
        json!({ "conversation": [{ "role": "user", "content": "x", "created": i64::MIN }] }),
        json!({ "conversation": [{ "role": "user", "content": "x", "created": -1.5e300 }] }),
        json!({ "conversation": [{ "role": "user", "content": "x\u{0}\u{ffff}", "id": "y".repeat(100_000) }] }),
    ] {
        let answer = import(&client, odd.to_string());
        assert_eq!(answer.status, 200, "{:.200} {answer:?}", odd.to_string());
        let id = answer.json()["id"].as_str().unwrap().to_owned();
        let shown = client.send("GET", &format!("/goose/sessions/{id}"), "");
        assert_eq!(shown.json(), answer.json());
    }
    assert_eq!(client.send("GET", "/goose/sessions", "").json()["sessions"].as_array().unwrap().len(), 9);
    let folder = json!({ "conversation": [], "working_dir": "/".repeat(1_000_000) });
    refused(&import(&client, folder.to_string()), &[422], "working_dir");
}

#[test]
fn what_is_too_much() {
    let world = World::start();
    let client = world.client();
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for depth in [200, 100_000] {
        let deep = deep(depth);
        for body in [
            format!(r#"{{"conversation":{deep}}}"#),
            format!(r#"{{"conversation":[],"extension_data":{deep}}}"#),
            json!({ "json": format!(r#"{{"conversation":[],"x":{deep}}}"#) }).to_string(),
        ] {
            refused(&import(&client, body), &[400], "");
        }
    }
    let message = json!({ "role": "user", "content": "x" });
    let many = |count: usize| json!({ "conversation": vec![message.clone(); count] }).to_string();
    refused(&import(&client, many(10_001)), &[422], "10000");
    let items = json!({ "conversation": [{ "role": "user", "content": vec![json!({ "type": "text", "text": "x" }); 10_001] }] });
    refused(&import(&client, items.to_string()), &[400], "10000");
    let id = json!({ "type": "toolRequest", "id": "x".repeat(257), "toolCall": { "value": { "name": "x" } } });
    let id = json!({ "conversation": [{ "role": "assistant", "content": [id] }] });
    refused(&import(&client, id.to_string()), &[422], "1 to 256 bytes");
    // Just what may be.
    let most = import(&client, many(10_000));
    assert_eq!((most.status, &most.json()["message_count"]), (200, &json!(10_000)));
}

#[test]
fn more_than_fifty_megabytes() {
    let world = World::start();
    let large = |bytes: usize| {
        let text = "x".repeat(bytes);
        json!({ "conversation": [{ "role": "user", "content": text }] }).to_string()
    };
    let body = large(51 * 1024 * 1024);
    let head = format!(
        "POST /goose/sessions/import HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        world.server.address,
        body.len()
    );
    let answer = world.server.raw(head.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 413"), "said at once, without the body: {answer}");
    let told: Value = serde_json::from_str(answer.rsplit("\r\n\r\n").next().unwrap()).unwrap();
    assert!(told["message"].as_str().unwrap().contains("52428800"), "{told}");
    let fine = import(&world.client(), large(21 * 1024 * 1024));
    assert_eq!(fine.status, 200, "{:.300}", fine.body);
    assert_eq!(world.client().send("GET", "/goose/status", "").body, "ok");
}
