//! What vendors say in words of their own: filters, calls that cannot be read, waits, names.

use everturn_core::{Block, CallId, Content, Json, Message, ToolUse};
use everturn_models::{Model, ModelErrorKind, ModelRequest, OpenAiWire, Provider, ProviderConfig, ProviderKind};
use serde_json::{Value, json};

use super::{
    scripted::{Scripted, Seen, judged},
    transcript::answer,
};

const CHAT: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const PNG: &str = "https://example.com/a.png";

async fn model(
    kind: ProviderKind,
    wire: Option<OpenAiWire>,
    judge: impl Fn(&Seen) -> (&'static str, String) + Send + Sync + 'static,
) -> (Scripted, std::sync::Arc<dyn Model>) {
    let server = judged(judge).await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), wire, ..ProviderConfig::new(kind) };
    let model = Provider::new("test", config).unwrap().model("m");
    (server, model)
}

fn plain(text: &str) -> ModelRequest {
    ModelRequest { messages: [Message::user(text)].into(), ..ModelRequest::default() }
}

fn with_image() -> ModelRequest {
    let content = Content::Blocks(vec![Block::Text("look".into()), Block::Image { url: PNG.into() }]);
    ModelRequest { messages: [Message::User { content }].into(), ..ModelRequest::default() }
}

/// The filters of DeepSeek, Qwen and OpenRouter decline, as those of others do, and nothing is left out to please them.
#[tokio::test]
async fn filters_decline() {
    for (status, body, words) in [
        (
            "400 Bad Request",
            json!({ "error": { "message": "Content Exists Risk", "code": "invalid_request_error" } }),
            "Content Exists Risk",
        ),
        (
            "400 Bad Request",
            json!({ "error": { "message": "Input data may contain inappropriate content.", "code": "data_inspection_failed" } }),
            "Input data may contain inappropriate content.",
        ),
        (
            "403 Forbidden",
            json!({ "error": { "message": "Your input was flagged for \"violence\".", "code": 403, "metadata": {
                "reasons": ["violence"], "flagged_input": "x" } } }),
            "Your input was flagged for \"violence\".",
        ),
    ] {
        let body = body.to_string();
        let (server, model) = model(ProviderKind::OpenAi, None, move |_| (status, body.clone())).await;
        assert_eq!(answer(&*model, with_image()).await, format!("text: {words}\nfinished: Refusal ?"));
        assert_eq!(server.seen().len(), 1);
    }
    let frame = json!({ "error": { "message": "Content Exists Risk" } });
    let (_server, model) = model(ProviderKind::OpenAi, None, move |_| ("200 OK", format!("data: {frame}\n\n"))).await;
    assert_eq!(answer(&*model, plain("hi")).await, "text: Content Exists Risk\nfinished: Refusal ?");
}

/// OpenAI's policies decline with a status or within the answer's stream, by one name each.
#[tokio::test]
async fn policies_decline() {
    let words = "This content was flagged for a possible risk.";
    for code in ["bio_policy", "cyber_policy", "misalignment_policy_violation"] {
        let error = json!({ "code": code, "message": words });
        let failed = json!({ "type": "response.failed", "response": { "status": "failed", "error": error } });
        for (status, body) in
            [("400 Bad Request", json!({ "error": error }).to_string()), ("200 OK", format!("data: {failed}\n\n"))]
        {
            for wire in [OpenAiWire::Chat, OpenAiWire::Responses] {
                if wire == OpenAiWire::Chat && status == "200 OK" {
                    continue;
                }
                let body = body.clone();
                let (server, model) = model(ProviderKind::OpenAi, Some(wire), move |_| (status, body.clone())).await;
                let refusal = format!("text: {words}\nfinished: Refusal ?");
                assert_eq!(answer(&*model, with_image()).await, refusal, "{code} {status}");
                assert_eq!(server.seen().len(), 1, "{code} {status}");
            }
        }
    }
}

/// What was shown before a filter or a policy stopped the answer stays, and the rest is declined: it is no failure.
#[tokio::test]
async fn an_answer_that_is_stopped_is_declined() {
    let words = "This content was flagged for a possible risk.";
    let delta = json!({ "type": "response.output_text.delta", "output_index": 0, "delta": "Mix " });
    let error = json!({ "code": "misalignment_policy_violation", "message": words });
    let failed = json!({ "type": "response.failed", "response": { "status": "failed", "error": error } });
    let chunk = json!({ "choices": [{ "delta": { "content": "Mix " } }] });
    let chat = json!({ "error": { "code": "cyber_policy", "message": words } });
    let start = json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "tool_use", "id": "c", "name": "clock", "input": {} } });
    let blocked = json!({ "type": "error", "error": { "type": "invalid_request_error", "message": "Output blocked by content filtering policy" } });
    for (kind, wire, frames, begun, words) in [
        (ProviderKind::OpenAi, Some(OpenAiWire::Responses), [delta, failed], "text: Mix \n", words),
        (ProviderKind::OpenAi, Some(OpenAiWire::Chat), [chunk, chat], "text: Mix \n", words),
        (
            ProviderKind::Anthropic,
            None,
            [start, blocked],
            "call 0 started: clock\n",
            "Output blocked by content filtering policy",
        ),
    ] {
        let body: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
        let (server, model) = model(kind, wire, move |_| ("200 OK", body.clone())).await;
        let shown = answer(&*model, plain("how?")).await;
        assert!(shown.starts_with(&format!("{begun}notice: the provider stopped the answer: {words}\n")), "{shown}");
        assert!(shown.ends_with("finished: Refusal ?"), "{shown}");
        assert_eq!(server.seen().len(), 1);
    }
}

/// Whoever writes the filter's words gets no refusal by it.
#[tokio::test]
async fn a_quoted_filter_is_none() {
    let body = json!({ "error": { "message": "cannot read: Content Exists Risk" } }).to_string();
    let (_server, model) = model(ProviderKind::OpenAi, None, move |_| ("400 Bad Request", body.clone())).await;
    assert!(answer(&*model, plain("Content Exists Risk")).await.starts_with("Rejected: "));
}

/// A model that is not there is told at once, whatever the status: nothing of the request is to blame.
#[tokio::test]
async fn a_model_that_is_not_there_is_denied_at_once() {
    for words in ["The provided model identifier is invalid.", "The model `m` does not exist", "model not found"] {
        let body = json!({ "error": { "message": words } }).to_string();
        let (server, model) = model(ProviderKind::OpenAi, None, move |_| ("400 Bad Request", body.clone())).await;
        let shown = answer(&*model, with_image()).await;
        assert_eq!(shown, format!("Denied: test answered 400: {words}"));
        assert_eq!(server.seen().len(), 1, "{words}");
    }
}

/// Anthropic pauses an answer whose own tools take long. It has reached no limit of tokens.
#[tokio::test]
async fn a_paused_answer_has_reached_no_limit() {
    let frames = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"I search.\"}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"pause_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n";
    let (_server, model) = model(ProviderKind::Anthropic, None, move |_| ("200 OK", frames.to_owned())).await;
    let expected = "text: I search.\nnotice: the answer is not complete: its provider paused it\nfinished: Stop ?";
    assert_eq!(answer(&*model, plain("hi")).await, expected);
}

/// Groq refuses a call that its model wrote wrongly: the model may write a better one.
#[tokio::test]
async fn a_call_that_cannot_be_read_is_asked_for_again() {
    let error = json!({ "error": { "message": "Failed to call a function.", "type": "invalid_request_error",
        "code": "tool_use_failed", "failed_generation": "<function=clock>", "status_code": 400 } });
    let frame = format!("data: {error}\n\n");
    let body = error.to_string();
    let (_server, refused) = model(ProviderKind::OpenAi, None, move |_| ("400 Bad Request", body.clone())).await;
    assert!(answer(&*refused, plain("hi")).await.starts_with("Unavailable: "));
    let (_server, streamed) = model(ProviderKind::OpenAi, None, move |_| ("200 OK", frame.clone())).await;
    assert!(answer(&*streamed, plain("hi")).await.starts_with("error: Unavailable: "));
}

/// Without a header, the words say how long to wait.
#[tokio::test]
async fn waits_in_words_count() {
    let words =
        "Rate limit reached on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 20s.";
    let error = json!({ "code": "rate_limit_exceeded", "message": words });
    let failed = json!({ "type": "response.failed", "response": { "status": "failed", "error": error } });
    let frame = format!("data: {failed}\n\n");
    let (_server, streamed) =
        model(ProviderKind::OpenAi, Some(OpenAiWire::Responses), move |_| ("200 OK", frame.clone())).await;
    let shown = answer(&*streamed, plain("hi")).await;
    assert!(shown.starts_with("error: RateLimited: ") && shown.ends_with("retry after 20s"), "{shown}");
    let body = json!({ "error": error }).to_string();
    let (_server, refused) = model(ProviderKind::OpenAi, None, move |_| ("429 Too Many Requests", body.clone())).await;
    let shown = answer(&*refused, plain("hi")).await;
    assert!(shown.starts_with("RateLimited: ") && shown.ends_with("retry after 20s"), "{shown}");
}

/// An image that is left out is told of by every call that lacks it, in every conversation.
#[tokio::test]
async fn a_model_that_sees_nothing_says_so_each_time() {
    let judge = |seen: &Seen| match seen.body.contains("image_url") {
        true => ("400 Bad Request", json!({ "message": "m is not a multimodal model" }).to_string()),
        false => ("200 OK", CHAT.to_owned()),
    };
    let (server, model) = model(ProviderKind::OpenAi, None, judge).await;
    for requests in [2, 3, 4] {
        let expected = "notice: images are left out: m reads none\ntext: ok\nfinished: Stop ?";
        assert_eq!(answer(&*model, with_image()).await, expected);
        assert_eq!(server.seen().len(), requests);
    }
    assert_eq!(answer(&*model, plain("hi")).await, "text: ok\nfinished: Stop ?");
}

/// What OpenRouter wraps is read: the call is made again without what the provider behind it refuses.
#[tokio::test]
async fn a_wrapped_refusal_is_mended() {
    let judge = |seen: &Seen| {
        if !seen.body.contains("\"temperature\"") {
            return ("200 OK", CHAT.to_owned());
        }
        let raw =
            json!({ "error": { "message": "Unsupported parameter: 'temperature' is not supported with this model." } });
        let error =
            json!({ "message": "Provider returned error", "code": 400, "metadata": { "raw": raw.to_string() } });
        ("400 Bad Request", json!({ "error": error }).to_string())
    };
    let (_server, model) = model(ProviderKind::OpenAi, None, judge).await;
    let options = everturn_core::ModelOptions { temperature: Some(200), ..Default::default() };
    let expected = "notice: temperature is not sent: m does not take it\ntext: ok\nfinished: Stop ?";
    assert_eq!(answer(&*model, ModelRequest { options, ..plain("hi") }).await, expected);
}

/// A name that a model made up stays in history, in the shape that vendors take.
#[tokio::test]
async fn names_in_history_are_corrected() {
    let call = |id: &str, name: &str| {
        let call = ToolUse { id: CallId::new(id), name: name.into(), input: Json::empty_object() };
        let result =
            Message::Tool { call_id: CallId::new(id), content: Content::Text("no such tool".into()), is_error: true };
        [Message::Assistant { content: Content::Blocks(vec![Block::ToolUse(call)]) }, result]
    };
    let long = "x".repeat(100);
    let mut messages = vec![Message::user("hi")];
    for (id, name) in [("a", "multi_tool_use.parallel"), ("b", ""), ("c", &long), ("d", "clock")] {
        messages.extend(call(id, name));
    }
    for (kind, wire) in [
        (ProviderKind::OpenAi, Some(OpenAiWire::Chat)),
        (ProviderKind::OpenAi, Some(OpenAiWire::Responses)),
        (ProviderKind::Anthropic, None),
        (ProviderKind::Gemini, None),
        (ProviderKind::Ollama, None),
    ] {
        let (server, model) = model(kind, wire, |_| ("500 Internal Server Error", String::new())).await;
        let request = ModelRequest { messages: messages.clone().into(), ..ModelRequest::default() };
        answer(&*model, request.clone()).await;
        let first = server.last_body();
        answer(&*model, request).await;
        assert_eq!(server.last_body(), first, "the same bytes");
        let mut names = Vec::new();
        names_in(&serde_json::from_str(&first).unwrap(), &mut names);
        let is_plain = |name: &String| {
            (1..=64).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
        };
        assert!(names.len() >= 4 && names.iter().all(is_plain), "{kind}: {names:?}");
        assert!(names.iter().any(|name| name == "multi_tool_use_parallel") && names.iter().any(|name| name == "clock"));
    }
}

fn names_in(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            let named = ["name", "tool_name"].iter().filter_map(|field| fields.get(*field)?.as_str());
            names.extend(named.map(str::to_owned));
            fields.values().for_each(|value| names_in(value, names));
        }
        Value::Array(values) => values.iter().for_each(|value| names_in(value, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// llama.cpp ends all of its slots when they fill the window together: a short conversation is not to blame. Groq says with 498 that
/// it has no room for cheap calls.
#[tokio::test]
async fn a_server_that_is_full_fails_and_refuses_nothing() {
    let full =
        json!({ "error": { "code": 500, "message": "Context size has been exceeded.", "type": "server_error" } });
    let flex = json!({ "error": { "message": "flex tier capacity exceeded", "code": "capacity_exceeded" } });
    for (status, body, is_busy) in [("500 Internal Server Error", full, false), ("498 Capacity Exceeded", flex, true)] {
        let server = judged(move |_: &Seen| (status, body.to_string())).await;
        let config = ProviderConfig {
            base_url: Some(server.url.clone()),
            context_window: Some(32_768),
            ..ProviderConfig::new(ProviderKind::OpenAi)
        };
        let model = Provider::new("test", config).unwrap().model("m");
        let error = model.stream(plain(&"several words ".repeat(1000))).await.err().unwrap();
        assert_eq!((error.kind, error.is_busy), (ModelErrorKind::Unavailable, is_busy), "{status}");
        assert_eq!(server.seen().len(), 1, "{status}");
        // Nor where nobody knows the window, and it need not be known.
        let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
        let model = Provider::new("other", config).unwrap().model("m");
        let error = model.stream(plain(&"several words ".repeat(600))).await.err().unwrap();
        assert_eq!(error.kind, ModelErrorKind::Unavailable, "{status}");
    }
}
