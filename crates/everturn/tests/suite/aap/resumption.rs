//! A client that remembers nothing but a session's id goes on from history.

use serde_json::{Value, json};

use crate::suite::harness::{Client, Reply, script, shared};

/// The calls of the last assistant message without a result, as the protocol tells clients to find them.
fn unresolved(session: &Value) -> Vec<Value> {
    let history = session["history"]["full"].as_array().unwrap();
    let last = history.iter().rposition(|message| message["role"] == "assistant").unwrap();
    let answered = |id: &Value| history.iter().any(|message| message["role"] == "tool" && message["toolCallId"] == *id);
    let blocks = history[last]["content"].as_array().cloned().unwrap_or_default();
    blocks.into_iter().filter(|block| block["type"] == "tool_use" && !answered(&block["toolCallId"])).collect()
}

fn resume(client: &Client, id: &str) -> Value {
    let session = client.send("GET", &format!("/session/{id}"), "").json();
    let mine = |name: &Value| session["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == *name);
    let answer = |call: &Value| {
        if mine(&call["name"]) {
            json!({ "role": "tool", "toolCallId": call["toolCallId"], "content": format!("result of {}", call["name"]) })
        } else {
            json!({ "role": "tool_permission", "toolCallId": call["toolCallId"], "granted": true })
        }
    };
    let messages: Vec<_> = unresolved(&session).iter().map(answer).collect();
    let body = json!({ "messages": messages }).to_string();
    client.send("POST", &format!("/session/{id}"), &body).json()
}

#[test]
fn from_history_alone() {
    let calls = Reply::new()
        .call("get_weather", r#"{"location":"Tokyo"}"#)
        .call("clock", "{}")
        .call("calculator", r#"{"expression":"1+1"}"#)
        .finish("tool_calls");
    script("resumption", [calls, Reply::says(&["Done."])]);
    let shared = shared();
    let client = shared.client("acme");
    let body = json!({
        "agent": { "name": "scripted", "tools": [{ "name": "clock", "trust": true }, { "name": "calculator" }] },
        "tools": [{ "name": "get_weather", "description": "", "inputSchema": { "type": "object" } }],
        "messages": [{ "role": "user", "content": "play resumption" }],
    });
    let made = client.send("PUT", "/session", &body.to_string()).json();
    let id = made["sessionId"].as_str().unwrap();
    let session = client.send("GET", &format!("/session/{id}"), "").json();
    let names: Vec<_> = unresolved(&session).iter().map(|call| call["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, ["get_weather", "calculator"], "the trusted one is resolved");
    let answer = resume(&client, id);
    assert_eq!(answer["stopReason"], "end_turn", "{answer}");
    let after = client.send("GET", &format!("/session/{id}"), "").json();
    assert_eq!(unresolved(&after), Vec::<Value>::new());
    let results: Vec<_> = after["history"]["full"].as_array().unwrap().iter().filter(|m| m["role"] == "tool").collect();
    assert_eq!(results.len(), 3, "each call is answered once: {after}");
    assert_eq!(results[0]["toolCallId"], session["history"]["full"][1]["content"][1]["toolCallId"], "shown before");
    assert_eq!(results[1]["content"], "result of \"get_weather\"");
    assert_eq!(results[2]["content"], "2");
}
