//! What no SDK shows: every answer here is held against the API document, and so is every request that is taken.

use serde_json::{Value, json};

use super::sdk::{World, user};
use crate::suite::harness::{Answer, Reply, asked, script};

fn ask(world: &World, messages: &Value) -> Answer {
    let body = json!({ "model": "scripted", "messages": messages });
    world.client("acme").send("POST", "/v1/chat/completions", &body.to_string())
}

/// Histories as other servers and other models leave them.
#[test]
fn what_others_have_said_is_taken() {
    let world = World::start();
    let name = "openai-others";
    script(name, [Reply::says(&["well"])]);
    let call = |name: &str, arguments: &str| {
        let function = json!({ "name": name, "arguments": arguments });
        json!({ "role": "assistant", "tool_calls": [{ "id": "call_0", "type": "function", "function": function }] })
    };
    let result = |text: &str| json!({ "role": "tool", "tool_call_id": "call_0", "content": text });
    let messages = json!([
        user("hello"), { "role": "assistant", "content": [{ "type": "refusal", "refusal": "no" }] },
        user("go"), call("f", "{\"x\":"), result("one"), call("g", "{}"), result("two"),
        { "role": "user", "content": [
            { "type": "text", "text": format!("play {name}") },
            { "type": "image_url", "image_url": { "url": "data:image/svg+xml;base64,AAAA" } },
        ] },
    ]);
    let answer = ask(&world, &messages);
    assert_eq!(answer.status, 200, "{answer:?}");
    let given = asked(name).remove(0)["messages"].as_array().unwrap().clone();
    let ids = |key: &str, message: &Value| message.pointer(key).and_then(Value::as_str).map(str::to_owned);
    let called: Vec<_> = given.iter().filter_map(|message| ids("/tool_calls/0/id", message)).collect();
    let answered: Vec<_> = given.iter().filter_map(|message| ids("/tool_call_id", message)).collect();
    assert_eq!(called, answered, "each call has its result: {given:?}");
    assert_ne!(called[0], called[1]);
}

/// Files become documents, once however often they are sent.
#[test]
fn files_are_documents() {
    let world = World::start();
    let name = "openai-files";
    script(name, [Reply::says(&["one"]), Reply::says(&["two"])]);
    let file = |data: &str| json!({ "type": "file", "file": { "filename": "notes.txt", "file_data": data } });
    let text = json!({ "type": "text", "text": format!("play {name}") });
    let said = |part: Value| json!([{ "role": "user", "content": [text, part] }]);
    // "The sky is green."
    let whole = said(file("data:text/plain;base64,VGhlIHNreSBpcyBncmVlbi4="));
    for _ in 0..2 {
        assert_eq!(ask(&world, &whole).status, 200);
    }
    assert!(asked(name)[0]["messages"].to_string().contains("The sky is green."), "{:?}", asked(name));
    let documents = world.client("acme").send("GET", "/api/v1/documents", "").json();
    let documents = documents["documents"].as_array().unwrap().clone();
    assert_eq!((documents.len(), &documents[0]["name"]), (1, &json!("notes.txt")));
    for (part, param) in [
        (file("%%%"), "messages[0].content[1].file.file_data"),
        (json!({ "type": "file", "file": {} }), "messages[0].content[1].file"),
        (json!({ "type": "file", "file": { "file_id": "doc_1" } }), "messages[0].content[1].file.file_id"),
    ] {
        let refused = ask(&world, &said(part));
        assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!(param)), "{refused:?}");
    }
}

#[test]
fn failures_are_as_in_the_document() {
    let world = World::start();
    let name = "openai-raw-failure";
    script(name, [Reply::status(400, &[], "no such thing")]);
    let answer = ask(&world, &json!([user(&format!("play {name}"))]));
    assert_eq!((answer.status, answer.header("x-should-retry")), (502, "false"), "{answer:?}");
    let exposed = answer.header("access-control-expose-headers").to_owned();
    for name in ["x-should-retry", "x-session-id", "x-message-id", "retry-after"] {
        assert!(exposed.split(", ").any(|exposed| exposed == name), "a page cannot see {name}: {exposed}");
    }
    let nothing = world.client("acme").send("GET", "/v1/", "");
    assert_eq!((nothing.status, &nothing.json()["error"]["code"]), (404, &json!("unknown_url")));
}
