//! Answers and events as readable text, and what every request to a provider must be.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::world::{Frame, uuid};
use crate::suite::harness::asked;

/// Without the times, which differ.
pub(super) fn timeless(mut value: Value) -> Value {
    match &mut value {
        Value::Array(items) => items.iter_mut().for_each(|item| *item = timeless(item.take())),
        Value::Object(fields) => {
            for (name, field) in fields {
                *field = match name.as_str() {
                    "created" if field.is_i64() => json!(0),
                    "created_at" | "updated_at" | "decided_at" => json!("<time>"),
                    _ => timeless(field.take()),
                };
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    value
}

/// Events, one a line, with their ids: without the times, and what the same request or tokens would repeat.
pub(super) fn lines(frames: &[Frame]) -> String {
    let line = |frame: &Frame| {
        let mut data = timeless(frame.data.clone());
        if frame.kind() != "Finish" {
            data.as_object_mut().unwrap().remove("token_state");
        }
        let data = data.to_string().replace(&uuid(0)[..35], "request-");
        format!("{} {data}\n", frame.id.as_deref().unwrap_or("-"))
    };
    frames.iter().map(line).collect()
}

/// Messages, one a line: who, then each item in short.
pub(super) fn said(conversation: &[Value]) -> String {
    let line = |message: &Value| {
        let items: Vec<_> = message["content"].as_array().unwrap().iter().map(Value::to_string).collect();
        format!("{}: {}\n", message["role"].as_str().unwrap(), items.join(" "))
    };
    conversation.iter().map(line).collect()
}

/// What the model was told in the last request of a script, one message a line.
#[track_caller]
pub(super) fn told(script: &str) -> String {
    let requests = asked(script);
    let last = requests.last().unwrap_or_else(|| panic!("{script} was not asked"));
    let line = |message: &Value| {
        let calls = message["tool_calls"].as_array().map_or(String::new(), |calls| {
            calls.iter().map(|call| format!(" {}{}", call["function"]["name"], call["function"]["arguments"])).collect()
        });
        format!("{}: {}{calls}\n", message["role"].as_str().unwrap(), message["content"])
    };
    last["messages"].as_array().unwrap().iter().map(line).collect()
}

/// Checks that providers would take every request of a script: every call has one result, right after it.
#[track_caller]
pub(super) fn check_requests(script: &str) {
    let requests = asked(script);
    assert!(!requests.is_empty(), "{script} was not asked");
    for request in requests {
        check_request(&request);
    }
}

#[track_caller]
fn check_request(request: &Value) {
    let messages = request["messages"].as_array().unwrap();
    let mut open = BTreeSet::new();
    for message in messages {
        let wrong = |what: &str| panic!("{what}: {message}\nin {messages:#?}");
        let role = message["role"].as_str().unwrap();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap();
            if !open.remove(id) {
                wrong("a result without a call");
            }
            continue;
        }
        if !open.is_empty() {
            wrong(&format!("{open:?} have no results before this"));
        }
        let content = &message["content"];
        let empty = content.is_null() || content == "" || content == &json!([]);
        match role {
            "assistant" => {
                for call in message["tool_calls"].as_array().into_iter().flatten() {
                    let arguments = call["function"]["arguments"].as_str().unwrap();
                    assert!(serde_json::from_str::<Value>(arguments).is_ok_and(|input| input.is_object()), "{call}");
                    if !open.insert(call["id"].as_str().unwrap()) {
                        wrong("two calls with one id");
                    }
                }
                if empty && open.is_empty() {
                    wrong("an empty answer");
                }
                if content.to_string().contains("image_url") {
                    wrong("an image of the assistant's");
                }
            }
            "user" if empty => wrong("an empty message"),
            "user" | "system" => {}
            _ => wrong("a role that is not known"),
        }
    }
    assert!(open.is_empty(), "{open:?} have no results: {messages:#?}");
    assert_eq!(messages.last().map(|last| last["role"] != "assistant"), Some(true), "{messages:#?}");
}
