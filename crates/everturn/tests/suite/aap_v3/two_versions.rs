//! One server, two versions: whoever made a session, both can go on with it.

use serde_json::json;

use super::{application::BASE, shape};
use crate::suite::harness::{Client, shared};

fn turn(client: &Client, path: &str, text: &str) -> String {
    let body = json!({ "stream": "delta", "messages": [{ "role": "user", "content": text }] });
    let answer = client.send("POST", path, &body.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

#[test]
fn a_session_of_the_first_in_the_third_and_back() {
    let shared = shared();
    let client = shared.client("acme");
    let tool = json!({ "name": "get_tide", "description": "", "inputSchema": { "type": "object" } });
    let new = json!({
        "agent": { "name": "demo" }, "tools": [tool], "stream": "delta",
        "messages": [{ "role": "user", "content": "stream 1" }],
    });
    let made = client.send("PUT", "/session", &new.to_string());
    assert!(made.body.starts_with("event: session_start\n"), "version 1 names the session: {}", made.body);
    let id = made.header("x-session-id").to_owned();
    let shown = client.send("GET", &format!("{BASE}/sessions/{id}"), "").json();
    shape::session(&shown, "session");
    assert_eq!(shown["tools"][0]["parameters"], json!({ "type": "object" }));
    let third = turn(&client, &format!("{BASE}/sessions/{id}/turns"), "stream 2");
    let first = turn(&client, &format!("/session/{id}"), "stream 2");
    assert!(third.starts_with("event: turn_start\n"));
    assert_eq!(third, first, "the same turn looks the same in both");
    let history = client.send("GET", &format!("{BASE}/sessions/{id}/history?type=full"), "").json();
    let session = client.send("GET", &format!("/session/{id}?history=full"), "").json();
    assert_eq!(history["history"], session["history"]);
    assert_eq!(session["tools"][0]["inputSchema"], json!({ "type": "object" }));
}

#[test]
fn a_session_of_the_third_in_the_first() {
    let shared = shared();
    let client = shared.client("acme");
    let new = r#"{"agent":{"name":"demo"},"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}"#;
    let made = client.send("POST", &format!("{BASE}/sessions"), new).json();
    let id = made["sessionId"].as_str().unwrap();
    let first = turn(&client, &format!("/aap/v1/session/{id}"), "stream 1");
    assert!(first.starts_with("event: turn_start\n"), "the session was there before: {first}");
    let session = client.send("GET", &format!("/session/{id}?history=full"), "").json();
    assert_eq!(session["history"]["full"].as_array().unwrap().len(), 4);
    let listed = client.send("GET", "/sessions", "").json();
    assert!(listed["sessions"].as_array().unwrap().contains(&json!(id)));
    assert_eq!(client.send("DELETE", &format!("/session/{id}"), "").status, 204);
    assert_eq!(client.send("GET", &format!("{BASE}/sessions/{id}"), "").status, 404);
}
