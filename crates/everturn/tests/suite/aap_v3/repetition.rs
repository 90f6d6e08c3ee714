//! Requests that are sent again.

use serde_json::json;

use super::application::BASE;
use crate::suite::harness::{Reply, asked, script, shared};

#[test]
fn a_session_is_made_once() {
    let shared = shared();
    let client = shared.client("acme");
    let new = json!({ "agent": { "name": "demo" }, "messages": [{ "role": "user", "content": "hello" }] });
    let create = |name: &str, body: &str| {
        let headers = [("content-type", "application/json"), ("idempotency-key", name)];
        client.send_with("POST", &format!("{BASE}/sessions"), &headers, body.to_owned())
    };
    let first = create("v3-create", &new.to_string());
    let again = create("v3-create", &new.to_string());
    assert_eq!((first.status, again.status), (201, 201), "{again:?}");
    assert_eq!(first.body, again.body);
    assert_eq!(first.header("x-session-id"), first.json()["sessionId"].as_str().unwrap());
    assert_eq!(create("v3-create", r#"{"agent":{"name":"demo"}}"#).status, 409, "another request by that name");
    assert_eq!(create("not a name", &new.to_string()).status, 400);
    assert_ne!(create("v3-create-other", &new.to_string()).body, first.body);
    // Version 1 has doors of its own.
    let body = r#"{"agent":{"name":"demo"},"messages":[{"role":"user","content":"hello"}]}"#;
    let headers = [("content-type", "application/json"), ("idempotency-key", "v3-create")];
    assert_eq!(client.send_with("PUT", "/session", &headers, body).status, 409);
}

#[test]
fn a_turn_runs_once() {
    script("v3-once", [Reply::says(&["Once."]), Reply::says(&["Twice."])]);
    let shared = shared();
    let client = shared.client("acme");
    let new = r#"{"agent":{"name":"scripted"}}"#;
    let made = client.send("POST", &format!("{BASE}/sessions"), new).json();
    let session = made["sessionId"].as_str().unwrap();
    let path = format!("{BASE}/sessions/{session}/turns");
    let body = r#"{"stream":"delta","messages":[{"role":"user","content":"play v3-once"}]}"#;
    let turn = |body: &str| {
        let headers = [("content-type", "application/json"), ("idempotency-key", "v3-turn")];
        client.send_with("POST", &path, &headers, body.to_owned())
    };
    let (first, again) = (turn(body), turn(body));
    assert_eq!((first.status, again.status), (200, 200));
    assert_eq!((&first.body, first.header("x-message-id")), (&again.body, again.header("x-message-id")));
    assert!(first.body.contains("Once."));
    assert_eq!(turn(&body.replace("delta", "message")).status, 409);
    assert_eq!(asked("v3-once").len(), 1, "the model was asked once");
    let deleted =
        |name: &str| client.send_with("DELETE", path.trim_end_matches("/turns"), &[("idempotency-key", name)], "");
    assert_eq!([deleted("v3-del").status, deleted("v3-del").status, deleted("v3-del2").status], [204, 204, 404]);
}
