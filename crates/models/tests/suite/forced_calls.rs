//! Calls that cannot be forced are asked for in words, in the first request already.

use std::sync::Arc;

use everturn_core::{Json, Message, ModelOptions, ToolChoice, ToolSpec};
use everturn_models::{Model, ModelRequest, Provider, ProviderConfig, ProviderKind};
use serde_json::{Value, json};

use super::{
    scripted::{Scripted, Seen, judged},
    transcript::answer,
};

const CHAT: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const ANTHROPIC: &str = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"ok\"}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n";
const WISH: &str = "Answer with a call of the tool look, and with nothing else.";

/// A server that refuses a choice of tools, and its model.
async fn server(kind: ProviderKind, host: &str, name: &str) -> (Scripted, Arc<dyn Model>) {
    let server = judged(move |seen: &Seen| {
        let body: Value = serde_json::from_str(&seen.body).unwrap();
        let message = "tool_choice: forced tool use is not supported for this model.";
        let ok = if kind == ProviderKind::Anthropic { ANTHROPIC } else { CHAT };
        match body.get("tool_choice") {
            Some(_) => ("400 Bad Request", json!({ "error": { "message": message } }).to_string()),
            None => ("200 OK", ok.to_owned()),
        }
    })
    .await;
    let config = ProviderConfig {
        base_url: Some(server.url.clone()),
        rules_of: Some(host.to_owned()),
        ..ProviderConfig::new(kind)
    };
    let model = Provider::new("test", config).unwrap().model(name);
    (server, model)
}

fn request(tool_choice: Option<ToolChoice>) -> ModelRequest {
    let look =
        ToolSpec { name: "look".into(), title: None, description: "Looks.".into(), input_schema: Json::empty_object() };
    ModelRequest {
        system: "Be brief.".into(),
        messages: [Message::user("hello"), Message::assistant("hi"), Message::user("Bob is 30.")].into(),
        tools: [look].into(),
        options: ModelOptions { tool_choice, ..ModelOptions::default() },
        ..ModelRequest::default()
    }
}

/// The messages of a body, with the text of the last one apart.
fn messages(body: &str) -> (Vec<Value>, String) {
    let body: Value = serde_json::from_str(body).unwrap();
    let mut messages = body["messages"].as_array().unwrap().clone();
    let last = messages.pop().unwrap();
    (messages, last.to_string())
}

#[tokio::test]
async fn the_first_request_asks_for_the_call() {
    for (kind, host, name) in [
        (ProviderKind::Anthropic, "api.anthropic.com", "claude-sonnet-5-5"),
        (ProviderKind::OpenAi, "api.deepseek.com", "deepseek-flash"),
        (ProviderKind::OpenAi, "api.moonshot.ai", "kimi-k2.6"),
        (ProviderKind::OpenAi, "openrouter.ai", "anthropic/claude-sonnet-5.5"),
        // Its rules are learned from the refusal.
        (ProviderKind::OpenAi, "gateway.example.com", "anthropic/claude-sonnet-5.5"),
    ] {
        let (server, model) = server(kind, host, name).await;
        let shown = answer(&*model, request(Some(ToolChoice::Named("look".into())))).await;
        assert!(shown.contains("notice: ") && shown.contains("text: ok"), "{name}: {shown}");
        let expected = if host == "gateway.example.com" { 2 } else { 1 };
        assert_eq!(server.seen().len(), expected, "{name}");
        let (before, last) = messages(&server.last_body());
        assert!(last.contains("Bob is 30.") && last.contains(WISH), "{name}: {last}");
        // A request that forces nothing has the same beginning, and no wish.
        answer(&*model, request(None)).await;
        let (plain, last) = messages(&server.last_body());
        assert_eq!(before, plain, "{name}");
        assert!(!last.contains("Answer with"), "{name}: {last}");
        answer(&*model, request(Some(ToolChoice::Required))).await;
        assert!(server.last_body().contains("Answer with a call of one of your tools"), "{name}");
    }
}

/// The mark for the cache stands before the wish, which the next request does not have.
#[tokio::test]
async fn the_wish_is_not_marked_for_the_cache() {
    for (kind, host, name) in [
        (ProviderKind::Anthropic, "api.anthropic.com", "claude-sonnet-5-5"),
        (ProviderKind::OpenAi, "openrouter.ai", "anthropic/claude-sonnet-5.5"),
    ] {
        let (server, model) = server(kind, host, name).await;
        answer(&*model, request(Some(ToolChoice::Required))).await;
        let body: Value = serde_json::from_str(&server.last_body()).unwrap();
        let parts = body["messages"].as_array().unwrap().last().unwrap()["content"].as_array().unwrap().clone();
        let marks: Vec<bool> = parts.iter().map(|part| part.get("cache_control").is_some()).collect();
        assert_eq!(marks, [true, false], "{name}: {parts:?}");
    }
}

/// Anthropic's models behind OpenRouter have marks on the instructions and on the last two steps; no others do.
#[tokio::test]
async fn openrouter_is_told_what_to_cache() {
    let bodies = async |host: &str, name: &str| {
        let (server, model) = server(ProviderKind::OpenAi, host, name).await;
        answer(&*model, request(None)).await;
        server.last_body()
    };
    let body = bodies("openrouter.ai", "anthropic/claude-sonnet-5.5").await;
    let body: Value = serde_json::from_str(&body).unwrap();
    let mark = json!({ "type": "ephemeral" });
    let part = |text: &str| json!([{ "type": "text", "text": text, "cache_control": mark }]);
    assert_eq!(
        body["messages"],
        json!([
            { "role": "system", "content": part("Be brief.") },
            { "role": "user", "content": part("hello") },
            { "role": "assistant", "content": "hi" },
            { "role": "user", "content": part("Bob is 30.") },
        ])
    );
    for (host, name) in [
        ("openrouter.ai", "openai/gpt-6-sol"),
        ("openrouter.ai", "openrouter/auto"),
        ("gateway.example.com", "anthropic/claude-sonnet-5.5"),
    ] {
        assert!(!bodies(host, name).await.contains("cache_control"), "{host} {name}");
    }
}

fn tools(names: &[&str]) -> Arc<[ToolSpec]> {
    let tool = |name: &&str| ToolSpec {
        name: (*name).to_owned(),
        title: None,
        description: "A tool.".into(),
        input_schema: Json::empty_object(),
    };
    names.iter().map(tool).collect()
}

/// A forced tool is declared, also where the provider takes fewer tools than there are.
#[tokio::test]
async fn the_tool_of_a_forced_call_is_kept() {
    let server = judged(|seen: &Seen| {
        let body: Value = serde_json::from_str(&seen.body).unwrap();
        let message = "Invalid 'tools': array too long. Expected an array with maximum length 2, but got more.";
        match body["tools"].as_array().unwrap().len() {
            0..=2 => ("200 OK", CHAT.to_owned()),
            _ => ("400 Bad Request", json!({ "error": { "message": message, "param": "tools" } }).to_string()),
        }
    })
    .await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    let model = Provider::new("test", config).unwrap().model("m");
    let forced = |name: &str| ModelRequest {
        tools: tools(&["one", "two", "three", "four"]),
        ..request(Some(ToolChoice::Named(name.into())))
    };
    for (name, sent) in [("four", ["one", "four"]), ("two", ["one", "two"])] {
        let shown = answer(&*model, forced(name)).await;
        assert!(shown.contains("2 tools are left out") && shown.contains("text: ok"), "{shown}");
        let body: Value = serde_json::from_str(&server.last_body()).unwrap();
        let names: Vec<&str> =
            body["tools"].as_array().unwrap().iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, sent);
        assert_eq!(body["tool_choice"]["function"]["name"], name);
    }
}

/// Where its declaration is refused or cannot be written, the caller is told so: the model could not make the call.
#[tokio::test]
async fn a_forced_call_of_a_tool_that_cannot_be_declared_fails() {
    let server = judged(|seen: &Seen| match seen.body.contains("\"bad\"") {
        true => {
            let message = "Invalid schema for function 'bad': it is not good.";
            ("400 Bad Request", json!({ "error": { "message": message } }).to_string())
        }
        false => ("200 OK", CHAT.to_owned()),
    })
    .await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    let model = Provider::new("test", config).unwrap().model("m");
    let with = |names: &[&str], choice| ModelRequest { tools: tools(names), ..request(Some(choice)) };
    let named = ToolChoice::Named("bad".into());
    let expected = "Rejected: a call of the tool bad was asked for, which test/m cannot be given: its provider refuses the \
                    declaration";
    assert_eq!(answer(&*model, with(&["good", "bad"], named)).await, expected);
    let shown = answer(&*model, with(&["bad"], ToolChoice::Required)).await;
    assert_eq!(shown, "Rejected: a tool call was asked for, and test/m takes none of the tools");
    // Without the wish, or with another one, the call goes on without the tool.
    assert!(answer(&*model, with(&["good", "bad"], ToolChoice::Auto)).await.contains("text: ok"));
    assert!(answer(&*model, with(&["good", "bad"], ToolChoice::Named("good".into()))).await.contains("text: ok"));
    let absent = answer(&*model, with(&["good"], ToolChoice::Named("absent".into()))).await;
    assert!(absent.ends_with("it is not among the tools of the call"), "{absent}");
}
