//! Windows: how dense a conversation is, and how long an answer there is room for.

use std::sync::Arc;

use everturn_core::{Json, Message};
use everturn_models::{Model, ModelRequest, Provider, ProviderConfig, ProviderKind};
use serde_json::{Value, json};

use super::{
    scripted::{Scripted, Seen, judged},
    transcript::answer,
};

/// A call of a conversation, with about so many tokens as we count them.
fn call(conversation: &str, tokens: usize) -> ModelRequest {
    let messages = [Message::user("four".repeat(tokens))];
    ModelRequest { messages: messages.into(), cache_key: Some(conversation.to_owned()), ..ModelRequest::default() }
}

/// The tokens of a request, at four bytes each.
fn tokens(body: &str) -> u64 {
    (body.matches("four").count()) as u64
}

fn chat(input: u64) -> String {
    let chunk = json!({
        "choices": [{ "delta": { "content": "ok" }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": input, "completion_tokens": 1, "total_tokens": input + 1 },
    });
    format!("data: {chunk}\n\ndata: [DONE]\n\n")
}

fn model(server: &Scripted, kind: ProviderKind, name: &str) -> Arc<dyn Model> {
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(kind) };
    Provider::new("test", config).unwrap().model(name)
}

/// What a provider counts in one conversation says how dense it is, and nothing about others.
#[tokio::test]
async fn a_conversation_is_as_dense_as_its_provider_counts() {
    let server = judged(|seen: &Seen| {
        let percent = if seen.body.contains("dense") { 250 } else { 90 };
        ("200 OK", chat(tokens(&seen.body) * percent / 100))
    })
    .await;
    let model = model(&server, ProviderKind::OpenAi, "m");
    assert_eq!(model.density(Some("one")), 100);
    let dense = ModelRequest { system: "dense".into(), ..call("one", 4000) };
    answer(&*model, dense.clone()).await;
    assert!((250..=260).contains(&model.density(Some("one"))), "{}", model.density(Some("one")));
    // Fewer tokens than ours make the window no larger.
    answer(&*model, call("two", 4000)).await;
    assert_eq!((model.density(Some("two")), model.density(Some("three"))), (100, 100));
    // A conversation that is clearly less dense by now, such as after a compaction, has its window back.
    answer(&*model, call("one", 4000)).await;
    assert_eq!(model.density(Some("one")), 100);
    // A short call says little.
    answer(&*model, ModelRequest { system: "dense".into(), ..call("one", 500) }).await;
    assert_eq!(model.density(Some("one")), 100);
}

/// A provider that names no numbers: what it has read before shows that a shorter conversation which overflows is denser.
#[tokio::test]
async fn an_overflow_without_numbers_is_compared_with_what_was_read() {
    let server = judged(|seen: &Seen| {
        let factor = if seen.body.contains("dense") { 3 } else { 1 };
        match tokens(&seen.body) * factor {
            counted if counted > 32_000 => {
                let message = "Your input exceeds the context window of this model.";
                ("400 Bad Request", json!({ "error": { "message": message } }).to_string())
            }
            counted => ("200 OK", chat(counted)),
        }
    })
    .await;
    let model = model(&server, ProviderKind::OpenAi, "m");
    answer(&*model, call("plain", 30_000)).await;
    let dense = |tokens| ModelRequest { system: "dense".into(), ..call("dense", tokens) };
    assert!(answer(&*model, dense(15_000)).await.starts_with("ContextOverflow: "));
    let room = |conversation| model.context_window().unwrap() * 100 / model.density(Some(conversation));
    assert!((14_000..=15_100).contains(&room("dense")), "{}", room("dense"));
    assert!(room("plain") >= 30_000, "{}", room("plain"));
    // Each further overflow leaves less room, until it fits.
    assert!(answer(&*model, dense(12_000)).await.starts_with("ContextOverflow: "));
    assert!(room("dense") <= 12_100, "{}", room("dense"));
    assert!(answer(&*model, dense(9000)).await.contains("text: ok"));
    assert!((9000..=11_000).contains(&room("dense")), "{}", room("dense"));
}

const ANTHROPIC: &str = "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":INPUT,\"output_tokens\":1}}}\n\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"ok\"}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"REASON\"},\"usage\":{\"output_tokens\":OUTPUT}}\n\ndata: {\"type\":\"message_stop\"}\n\n";

fn message(input: u64, reason: &str, output: u64) -> String {
    ANTHROPIC.replace("INPUT", &input.to_string()).replace("REASON", reason).replace("OUTPUT", &output.to_string())
}

/// A server whose window must hold the question and the cap on the answer, and which counts so much of a hundred of ours.
async fn strict(window: u64, percent: u64) -> Scripted {
    judged(move |seen: &Seen| {
        let body: Value = serde_json::from_str(&seen.body).unwrap();
        let (input, cap) = (tokens(&seen.body) * percent / 100, body["max_tokens"].as_u64().unwrap());
        if input + cap > window {
            let message = format!(
                "input length and `max_tokens` exceed context limit: {input} + {cap} > {window}, decrease input length or \
                 `max_tokens` and try again"
            );
            return (
                "400 Bad Request",
                json!({ "type": "error", "error": { "type": "invalid_request_error", "message": message } }).to_string(),
            );
        }
        ("200 OK", message(input, "end_turn", 5))
    })
    .await
}

/// No step is refused because of the cap, where the name of the model tells its window.
#[tokio::test]
async fn a_cap_leaves_room_for_the_question() {
    let server = strict(200_000, 105).await;
    let model = model(&server, ProviderKind::Anthropic, "claude-sonnet-4-20250514");
    for (step, tokens) in [140_000, 145_000, 150_000, 170_000].into_iter().enumerate() {
        let shown = answer(&*model, call("s", tokens)).await;
        assert!(shown.contains("text: ok"), "{shown}");
        assert_eq!(server.seen().len(), step + 1, "{tokens}");
    }
    let body: Value = serde_json::from_str(&server.last_body()).unwrap();
    let cap = body["max_tokens"].as_u64().unwrap();
    assert!((10_000..21_500).contains(&cap), "as much as there is room for: {cap}");
    answer(&*model, call("s", 1000)).await;
    let body: Value = serde_json::from_str(&server.last_body()).unwrap();
    assert_eq!(body["max_tokens"], 64_000, "a short question has all of it");
}

/// A model of which nothing is known is refused once, and knows better in all later steps.
#[tokio::test]
async fn a_cap_that_was_refused_is_not_asked_for_again() {
    let server = strict(60_000, 160).await;
    let model = model(&server, ProviderKind::Anthropic, "some-model");
    for (step, tokens) in [25_000, 25_500, 26_000, 27_000, 30_000].into_iter().enumerate() {
        let shown = answer(&*model, call("s", tokens)).await;
        assert!(shown.contains("text: ok"), "{shown}");
        assert_eq!(server.seen().len(), step + 2, "{tokens}");
    }
}

/// Newer models take any cap, and stop where the window is full. Question and answer together tell how large it is.
#[tokio::test]
async fn an_answer_that_fills_the_window_tells_its_size() {
    let server = judged(|seen: &Seen| {
        let input = tokens(&seen.body) * 2;
        ("200 OK", message(input, "model_context_window_exceeded", 150_000 - input))
    })
    .await;
    let model = model(&server, ProviderKind::Anthropic, "claude-opus-4-5");
    let shown = answer(&*model, call("s", 70_000)).await;
    assert!(shown.contains("error: ContextOverflow: "), "{shown}");
    assert_eq!(server.seen().len(), 1, "a shorter cap would not help");
    let body: Value = serde_json::from_str(&server.last_body()).unwrap();
    assert_eq!(body["max_tokens"], 64_000);
    assert_eq!(model.context_window(), Some(150_000));
    assert_eq!(model.density(Some("s")), 200);
}

/// Ollama is told one window: the one that the body asks for, which wins over ours.
#[tokio::test]
async fn a_window_in_the_body_is_the_window() {
    let server = judged(|_: &Seen| {
        ("200 OK", "{\"message\":{\"content\":\"ok\"},\"done\":true,\"done_reason\":\"stop\"}\n".to_owned())
    })
    .await;
    let body = |window: u64| Json::parse(&format!(r#"{{"options":{{"num_ctx":{window},"top_k":20}}}}"#)).unwrap();
    let config = ProviderConfig {
        base_url: Some(server.url.clone()),
        context_window: Some(4096),
        body: Some(body(20_000)),
        ..ProviderConfig::new(ProviderKind::Ollama)
    };
    let model = Provider::new("test", config).unwrap().model("m");
    assert_eq!(model.context_window(), Some(20_000));
    answer(&*model, call("s", 10)).await;
    let sent = |body: String| serde_json::from_str::<Value>(&body).unwrap()["options"]["num_ctx"].as_u64();
    assert_eq!(sent(server.last_body()), Some(20_000));
    // The agent's wins over the provider's.
    assert_eq!(model.window_of_body(&body(30_000)), Some(30_000));
    answer(&*model, ModelRequest { body: Some(body(30_000)), ..call("s", 10) }).await;
    assert_eq!(sent(server.last_body()), Some(30_000));
    // Other providers have windows of their own.
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    let model = Provider::new("test", config).unwrap().model("m");
    assert_eq!(model.window_of_body(&body(30_000)), None);
}

/// A window that is configured too large is corrected by the refusal that tells the real one.
#[tokio::test]
async fn a_refusal_corrects_what_is_configured() {
    let server = judged(|_: &Seen| {
        let words =
            "This model's maximum context length is 8000 tokens. However, your messages resulted in 9000 tokens.";
        ("400 Bad Request", json!({ "error": { "message": words, "code": "context_length_exceeded" } }).to_string())
    })
    .await;
    let config = ProviderConfig {
        base_url: Some(server.url.clone()),
        context_window: Some(32_000),
        ..ProviderConfig::new(ProviderKind::OpenAi)
    };
    let model = Provider::new("test", config).unwrap().model("m");
    assert_eq!((model.context_window(), model.refused_window()), (Some(32_000), None));
    assert!(answer(&*model, call("one", 9000)).await.starts_with("ContextOverflow: "));
    assert_eq!((model.context_window(), model.refused_window()), (Some(8000), Some(8000)));
}

/// A vLLM server that serves a model of a known name with a window of its own, and counts the cap on the answer.
async fn vllm(id: &'static str, window: u64) -> Scripted {
    judged(move |seen: &Seen| {
        if seen.line.contains("/models") {
            return ("200 OK", json!({ "data": [{ "id": id, "max_model_len": window }] }).to_string());
        }
        let body: Value = serde_json::from_str(&seen.body).unwrap();
        let input = tokens(&seen.body);
        let cap = ["max_tokens", "max_completion_tokens"].iter().find_map(|field| body[field].as_u64()).unwrap_or(0);
        if input + cap <= window {
            return ("200 OK", chat(input));
        }
        let message = format!(
            "This model's maximum context length is {window} tokens. However, you requested {cap} output tokens and your \
             prompt contains at least {input} input tokens."
        );
        ("400 Bad Request", json!({ "error": { "message": message, "type": "BadRequestError" } }).to_string())
    })
    .await
}

/// A name tells the window that a model was made for. A server of somebody else's may run it with less.
#[tokio::test]
async fn a_server_is_asked_for_the_window_of_a_known_name() {
    let server = vllm("openai/gpt-oss-120b", 32_768).await;
    let model = model(&server, ProviderKind::OpenAi, "openai/gpt-oss-120b");
    assert_eq!(model.context_window(), Some(131_072), "as the name tells");
    model.prepare(20_000).await;
    assert_eq!(model.context_window(), Some(32_768), "as the server tells");
    let mut request = call("s", 20_000);
    request.options.max_output_tokens = Some(30_000);
    assert!(answer(&*model, request).await.contains("text: ok"));
    let lines: Vec<String> = server.seen().into_iter().map(|seen| seen.line).collect();
    assert_eq!(lines, ["GET /v1/models", "POST /v1/chat/completions"], "no call was refused");
}

/// Some servers list what a model was made for at most, which a name may know better.
#[tokio::test]
async fn the_smaller_window_counts_until_more_was_read() {
    let server = vllm("deepseek-ai/DeepSeek-R1", 163_840).await;
    let model = model(&server, ProviderKind::OpenAi, "deepseek-ai/DeepSeek-R1");
    model.prepare(20_000).await;
    assert_eq!(model.context_window(), Some(65_536));
    assert!(answer(&*model, call("s", 90_000)).await.contains("text: ok"));
    assert_eq!(model.context_window(), Some(90_000), "what was answered fits");
}
