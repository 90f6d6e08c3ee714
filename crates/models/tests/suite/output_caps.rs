//! Caps on the answer that a provider refuses are lowered on every wire, and never left out where the API wants one.

use std::sync::Arc;

use everturn_core::{Message, ModelOptions};
use everturn_models::{Model, ModelRequest, OpenAiWire, Provider, ProviderConfig, ProviderKind};
use serde_json::{Value, json};

use super::{
    scripted::{Scripted, Seen, judged},
    transcript::answer,
};

const CHAT: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const ANTHROPIC: &str = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"ok\"}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n";
const GEMINI: &str =
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"ok\"}]},\"finishReason\":\"STOP\"}]}\n\n";
const RESPONSES: &str = "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"content_index\":0,\"delta\":\"ok\"}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[]}}\n\n";

const WIRES: [(ProviderKind, Option<OpenAiWire>, &str, &str); 4] = [
    (ProviderKind::OpenAi, Some(OpenAiWire::Chat), "/max_tokens", CHAT),
    (ProviderKind::Anthropic, None, "/max_tokens", ANTHROPIC),
    (ProviderKind::OpenAi, Some(OpenAiWire::Responses), "/max_output_tokens", RESPONSES),
    (ProviderKind::Gemini, None, "/generationConfig/maxOutputTokens", GEMINI),
];

/// A server that refuses caps above 8192 in these words, and requests without one on Anthropic's wire.
async fn server(
    (kind, wire, cap, ok): (ProviderKind, Option<OpenAiWire>, &'static str, &'static str),
    words: &'static str,
) -> (Scripted, Arc<dyn Model>) {
    let server = judged(move |seen: &Seen| {
        let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
        let refused = |message: &str| {
            let error = json!({ "type": "invalid_request_error", "message": message });
            ("400 Bad Request", json!({ "type": "error", "error": error }).to_string())
        };
        match body.pointer(cap).and_then(Value::as_u64) {
            Some(asked) if asked > 8192 => refused(words),
            None if kind == ProviderKind::Anthropic => refused("max_tokens: Field required"),
            Some(_) | None => ("200 OK", ok.to_owned()),
        }
    })
    .await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), wire, ..ProviderConfig::new(kind) };
    let model = Provider::new("test", config).unwrap().model("m");
    (server, model)
}

fn request() -> ModelRequest {
    ModelRequest {
        messages: [Message::user("hello")].into(),
        options: ModelOptions { max_output_tokens: Some(100_000), ..ModelOptions::default() },
        ..ModelRequest::default()
    }
}

fn caps(server: &Scripted, cap: &str) -> Vec<Option<u64>> {
    let bodies = server.seen().into_iter().map(|seen| serde_json::from_str::<Value>(&seen.body).unwrap());
    bodies.map(|body| body.pointer(cap).and_then(Value::as_u64)).collect()
}

/// DeepSeek, Qwen, Groq and Bedrock name the highest cap, each in words of its own.
#[tokio::test]
async fn a_cap_that_is_named_is_kept_to() {
    for words in [
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
        "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]",
        "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the \
         `context_window` for this model",
        "The maximum tokens you requested exceeds the model limit of 8192. Try again with a maximum tokens value that is \
         lower than 8192.",
    ] {
        for wire in WIRES {
            let (server, model) = server(wire, words).await;
            for _ in 0..2 {
                let shown = answer(&*model, request()).await;
                let notice = "notice: the answer has at most 8192 tokens, not 100000: m writes no more\ntext: ok";
                assert!(shown.starts_with(notice), "{}: {words}: {shown}", wire.0);
            }
            assert_eq!(caps(&server, wire.2), [Some(100_000), Some(8192), Some(8192)], "{}: {words}", wire.0);
        }
    }
}

/// Where no number is named, lower caps are tried. The one that is taken is known to other sessions.
#[tokio::test]
async fn a_cap_that_is_not_named_is_lowered_step_by_step() {
    for wire in WIRES {
        let (server, model) = server(wire, "Invalid max_tokens, max_output_tokens or maxOutputTokens: too large").await;
        let shown = answer(&*model, request()).await;
        assert!(shown.contains("text: ok") && !shown.contains("not sent"), "{}: {shown}", wire.0);
        assert_eq!(caps(&server, wire.2), [Some(100_000), Some(32_000), Some(8192)], "{}", wire.0);
        answer(&*model, request()).await;
        assert_eq!(caps(&server, wire.2)[3..], [Some(8192)], "{}", wire.0);
    }
}

/// Anthropic's wire has a cap in every request, whatever is said of it; nothing that fails is remembered.
#[tokio::test]
async fn a_cap_that_is_required_is_never_left_out() {
    let server = judged(|seen: &Seen| {
        let is_bad = seen.body.contains("bad");
        let message = json!({ "type": "error", "error": { "type": "invalid_request_error",
            "message": "max_tokens: Extra inputs are not permitted" } });
        if is_bad { ("400 Bad Request", message.to_string()) } else { ("200 OK", ANTHROPIC.to_owned()) }
    })
    .await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::Anthropic) };
    let model = Provider::new("test", config).unwrap().model("m");
    let plain = |text: &str| ModelRequest { messages: [Message::user(text)].into(), ..ModelRequest::default() };
    assert!(answer(&*model, plain("bad")).await.starts_with("Rejected: "));
    assert!(caps(&server, "/max_tokens").iter().all(Option::is_some), "{:?}", caps(&server, "/max_tokens"));
    assert_eq!(answer(&*model, plain("good")).await, "text: ok\nfinished: Stop ?");
    assert_eq!(caps(&server, "/max_tokens").last(), Some(&Some(32_000)));
}
