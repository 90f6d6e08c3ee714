//! Calls of history in the form that a server wants, and answers in the form that it can give: calls stay calls.

use everturn_core::{Block, CallId, Content, Json, Message, ToolSpec, ToolUse};
use everturn_models::{ModelRequest, OpenAiWire, Provider, ProviderConfig, ProviderKind};
use serde_json::json;

use super::{
    scripted::{Scripted, Seen, judged},
    transcript::answer,
};

const CHAT: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const GEMINI: &str =
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"ok\"}]},\"finishReason\":\"STOP\"}]}\n\n";

/// A conversation in which the model has called a tool without a word.
fn request() -> ModelRequest {
    let id = CallId::new("call_1");
    let call = ToolUse { id: id.clone(), name: "look".to_owned(), input: Json::empty_object() };
    let input_schema = Json::parse(r#"{"type":"object","properties":{}}"#).unwrap();
    let messages = [
        Message::user("What is there?"),
        Message::Assistant { content: Content::Blocks(vec![Block::ToolUse(call)]) },
        Message::Tool { call_id: id, content: Content::Text("A cat.".to_owned()), is_error: false },
    ];
    let tool = ToolSpec { name: "look".to_owned(), title: None, description: "Looks.".to_owned(), input_schema };
    ModelRequest { messages: messages.into(), tools: [tool].into(), ..ModelRequest::default() }
}

/// Asks a provider twice. It is refused `first` times at first, and never again.
async fn ask_twice(kind: ProviderKind, server: &Scripted, first: usize) -> String {
    let config = ProviderConfig {
        base_url: Some(server.url.clone()),
        api_key: Some("key".into()),
        wire: (kind == ProviderKind::OpenAi).then_some(OpenAiWire::Chat),
        ..ProviderConfig::new(kind)
    };
    let model = Provider::new("test", config).unwrap().model("m");
    for requests in [first + 1, first + 2] {
        let shown = answer(&*model, request()).await;
        assert!(shown.contains("text: ok") && !shown.contains("as text"), "{shown}");
        assert_eq!(server.seen().len(), requests, "{:?}", server.seen());
    }
    server.last_body()
}

#[tokio::test]
async fn a_server_that_wants_a_text_beside_calls_gets_an_empty_one() {
    let known = [
        ("500 Internal Server Error", "Expected 'content' to be a string or an array"),
        ("400 Bad Request", "'content' field must be a string or an array of objects"),
        ("400 Bad Request", "invalid message content type: <nil>"),
        ("422 Unprocessable Entity", "messages.1.content: Field required"),
    ];
    for (status, words) in known {
        let refusal = json!({ "error": { "message": words } }).to_string();
        let server = judged(move |seen: &Seen| match seen.body.contains("\"content\":null") {
            true => (status, refusal.clone()),
            false => ("200 OK", CHAT.to_owned()),
        })
        .await;
        let body = ask_twice(ProviderKind::OpenAi, &server, 1).await;
        assert!(body.contains("\"content\":\"\"") && body.contains("\"tool_calls\""), "{body}");
    }
}

/// In words that nobody knows, it is found by trials.
#[tokio::test]
async fn the_same_in_unknown_words() {
    let server = judged(|seen: &Seen| match seen.body.contains("\"content\":null") {
        true => ("400 Bad Request", json!({ "error": { "message": "the request is odd" } }).to_string()),
        false => ("200 OK", CHAT.to_owned()),
    })
    .await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    let model = Provider::new("test", config).unwrap().model("m");
    for _ in 0..2 {
        let shown = answer(&*model, request()).await;
        assert!(shown.contains("text: ok") && !shown.contains("as text"), "{shown}");
        let body = server.last_body();
        assert!(body.contains("\"content\":\"\"") && body.contains("\"tool_calls\""), "{body}");
    }
}

#[tokio::test]
async fn a_model_that_cannot_stream_keeps_its_tools() {
    let whole = json!({ "choices": [{ "message": { "content": "ok" }, "finish_reason": "stop" }] }).to_string();
    for words in [
        "The model is unsupported for streaming.",
        "This model doesn't support tool use in streaming mode.",
        "Streaming is not supported with tools for this model",
    ] {
        let (whole, refusal) = (whole.clone(), json!({ "error": { "message": words } }).to_string());
        let server = judged(move |seen: &Seen| match seen.body.contains("\"stream\":true") {
            true => ("400 Bad Request", refusal.clone()),
            false => ("200 OK", whole.clone()),
        })
        .await;
        let body = ask_twice(ProviderKind::OpenAi, &server, 1).await;
        assert!(body.contains("\"tools\":[") && body.contains("\"tool_calls\""), "{words}: {body}");
    }
}

/// Older models behind Vertex take no ids of calls.
#[tokio::test]
async fn calls_go_without_ids_where_they_are_refused() {
    let server = judged(|seen: &Seen| {
        let words = "Invalid JSON payload received. Unknown name \"id\" at 'contents[1].parts[0].function_call': Cannot find field.";
        let error = json!({ "error": { "code": 400, "status": "INVALID_ARGUMENT", "message": words } });
        match seen.body.contains("\"id\":") {
            true => ("400 Bad Request", error.to_string()),
            false => ("200 OK", GEMINI.to_owned()),
        }
    })
    .await;
    let body = ask_twice(ProviderKind::Gemini, &server, 1).await;
    assert!(body.contains("\"functionCall\"") && body.contains("\"functionResponse\""), "{body}");
}
