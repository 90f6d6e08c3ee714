//! Requests on OpenAI's two wires, by host and model: what each server takes, and the notices about the rest.

mod chat_history;
mod chat_options;
mod responses;
mod round_trip;

use std::{collections::HashMap, sync::Arc};

use everturn_core::{Block, CallId, Content, DocumentId, Json, Message, ModelOptions, ToolSpec, ToolUse};
use expect_test::{Expect, expect};
use serde_json::Value;

use super::{
    catalog,
    chat::Chat,
    learned::Learned,
    responses::Responses,
    wire::{Ask, Settings, Wire, Written},
};
use crate::model::{DocumentContent, ModelRequest};

/// A request as a wire writes it.
fn write(wire: &dyn Wire, host: &str, model: &str, request: &ModelRequest, without_proofs: bool) -> Written {
    let settings = Settings { host: host.to_owned(), ..Settings::default() };
    let from = format!("p/{model}");
    let ask = Ask {
        from: &from,
        model,
        settings: &settings,
        known: catalog::known(model),
        learned: &Learned::default(),
        request,
        without_proofs,
        ends_with_wish: false,
    };
    wire.write(&ask).unwrap()
}

/// The body that a wire writes, one field a line, then the notices. Fields that never change are left out.
fn written(wire: &dyn Wire, host: &str, model: &str, request: &ModelRequest, without_proofs: bool) -> Vec<String> {
    let written = write(wire, host, model, request, without_proofs);
    let body: Value = serde_json::from_slice(&written.body).unwrap();
    let mut lines = Vec::new();
    for (name, value) in body.as_object().unwrap() {
        match (name.as_str(), value) {
            ("model" | "stream" | "store", _) => {}
            ("messages" | "input", Value::Array(items)) => lines.extend(items.iter().map(Value::to_string)),
            ("tools", Value::Array(tools)) => lines.push(format!("tools: {}", tools.len())),
            ("stream_options", value) if value["include_usage"] == true || value["include_obfuscation"] == false => {}
            _ => lines.push(format!("{name}: {value}")),
        }
    }
    lines.extend(written.notices.into_iter().map(|notice| format!("notice: {notice}")));
    lines
}

fn hello(options: ModelOptions) -> ModelRequest {
    ModelRequest { messages: [Message::user("hello")].into(), options, ..ModelRequest::default() }
}

fn with_tool(request: ModelRequest) -> ModelRequest {
    let tool = ToolSpec {
        name: "clock".into(),
        title: None,
        description: "Tells the time.".into(),
        input_schema: Json::parse(r#"{"type":"object","properties":{}}"#).unwrap(),
    };
    ModelRequest { tools: [tool].into(), ..request }
}

/// What is written beside the conversation for the same request to several models.
fn check_options(wire: &dyn Wire, models: &[(&str, &str)], request: &ModelRequest, expect: Expect) {
    let mut shown = String::new();
    for (host, model) in models {
        let lines = written(wire, host, model, request, false);
        let lines: Vec<_> = lines.into_iter().filter(|line| !line.starts_with('{')).collect();
        shown.push_str(&format!("## {model}\n{}\n", lines.join("\n")));
    }
    expect.assert_eq(&shown);
}

fn check(wire: &dyn Wire, host: &str, model: &str, request: &ModelRequest, expect: Expect) {
    expect.assert_eq(&written(wire, host, model, request, false).join("\n"));
}

const OPENAI: &str = "api.openai.com";

fn call(id: &str) -> ToolUse {
    ToolUse { id: CallId::new(id), name: "clock".into(), input: Json::empty_object() }
}

/// A question, an answer with this record that made calls, their results, and another question.
fn conversation(record: &str, thinking: &str, text: &str, ids: &[&str]) -> ModelRequest {
    let calls = ids.iter().map(|id| call(id)).collect();
    let answer = Content::answer(thinking.into(), Some(record.into()), text.into(), calls);
    let mut messages = vec![Message::user("Time?"), Message::Assistant { content: answer }];
    messages.extend(ids.iter().map(|id| Message::tool(CallId::new(*id), "12:00")));
    messages.push(Message::user("And now?"));
    ModelRequest { messages: messages.into(), ..ModelRequest::default() }
}

/// A PDF file and a text from a user, then an image from a tool.
fn media() -> ModelRequest {
    let id = DocumentId::mint();
    let document = DocumentContent {
        name: "a.pdf".into(),
        media_type: "application/pdf".into(),
        text: "a.pdf: Hello.".into(),
        base64: Some("JVBE".into()),
    };
    let blocks = vec![Block::Document { id: id.clone(), name: "a.pdf".into() }, Block::Text("Read.".into())];
    let photo = vec![
        Block::Text("A photo.".into()),
        Block::Image { url: "data:image/png;base64,iVBO".into() },
        Block::Image { url: "data:image/svg+xml,<svg/>".into() },
    ];
    let messages = [
        Message::User { content: Content::Blocks(blocks) },
        Message::Assistant { content: Content::answer(String::new(), None, String::new(), vec![call("call_1")]) },
        Message::Tool { call_id: CallId::new("call_1"), content: Content::Blocks(photo), is_error: false },
    ];
    let documents = Arc::new(HashMap::from([(id, document)]));
    ModelRequest { messages: messages.into(), documents, ..ModelRequest::default() }
}

#[test]
fn documents_and_images() {
    check(
        &Responses,
        OPENAI,
        "gpt-4.1",
        &media(),
        expect![[r#"
        {"content":[{"file_data":"data:application/pdf;base64,JVBE","filename":"a.pdf","type":"input_file"},{"text":"Read.","type":"input_text"}],"role":"user","type":"message"}
        {"arguments":"{}","call_id":"call_1","name":"clock","type":"function_call"}
        {"call_id":"call_1","output":[{"text":"A photo.","type":"input_text"},{"detail":"auto","image_url":"data:image/png;base64,iVBO","type":"input_image"},{"text":"[An image was left out here: its data URL is not base64.]","type":"input_text"}],"type":"function_call_output"}"#]],
    );
    check(
        &Chat,
        OPENAI,
        "gpt-4.1",
        &media(),
        expect![[r#"
        {"content":[{"file":{"file_data":"data:application/pdf;base64,JVBE","filename":"a.pdf"},"type":"file"},{"text":"Read.","type":"text"}],"role":"user"}
        {"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"clock"},"id":"call_1","type":"function"}]}
        {"content":"A photo.","role":"tool","tool_call_id":"call_1"}
        {"content":[{"text":"The images of the tool results above:","type":"text"},{"image_url":{"url":"data:image/png;base64,iVBO"},"type":"image_url"},{"text":"[An image was left out here: its data URL is not base64.]","type":"text"}],"role":"user"}"#]],
    );
    check(
        &Chat,
        "api.mistral.ai",
        "mistral-large-latest",
        &media(),
        expect![[r#"
        {"content":"a.pdf: Hello.\n\nRead.","role":"user"}
        {"content":"","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"clock"},"id":"DVQBKJeG6","type":"function"}]}
        {"content":"A photo.","role":"tool","tool_call_id":"DVQBKJeG6"}
        {"content":"I have read the results.","role":"assistant"}
        {"content":[{"text":"The images of the tool results above:","type":"text"},{"image_url":{"url":"data:image/png;base64,iVBO"},"type":"image_url"},{"text":"[An image was left out here: its data URL is not base64.]","type":"text"}],"role":"user"}"#]],
    );
}

/// The next request of a conversation begins with all that the one before said.
#[test]
fn requests_only_grow() {
    let record = r#"responses:{"from":"p/gpt-5.6","pieces":[{"own":{"reasoning":{"id":"rs_1","summary":[],"encrypted_content":"A"}}},{"text":6},"call"]}"#;
    let whole = conversation(record, "Hm.", "A sec.", &["seed:1"]);
    let wires: [(&dyn Wire, &str, &str); 3] = [
        (&Responses, OPENAI, "gpt-5.6"),
        (&Chat, "api.mistral.ai", "mistral-large-latest"),
        (&Chat, "api.deepseek.com", "deepseek-flash"),
    ];
    for (wire, host, model) in wires {
        let items = |request: &ModelRequest| {
            let lines = written(wire, host, model, request, false);
            lines.into_iter().filter(|line| line.starts_with('{')).collect::<Vec<_>>()
        };
        let all = items(&whole);
        for length in 1..whole.messages.len() {
            let part = items(&ModelRequest {
                messages: whole.messages.iter().take(length).cloned().collect(),
                ..whole.clone()
            });
            assert!(all.starts_with(&part), "{model} with {length} messages: {part:?}");
        }
    }
}
