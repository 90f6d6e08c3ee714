//! The tokens of the short questions by which Everturn finds what a provider refuses.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use everturn_core::{Json, Message, ToolSpec};
use everturn_models::{ModelRequest, Provider, ProviderConfig, ProviderKind};
use serde_json::json;

use super::{
    scripted::{Seen, judged},
    transcript::answer,
};

/// A call with two tools.
fn call(text: &str) -> ModelRequest {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        title: None,
        description: "Does something.".into(),
        input_schema: Json::empty_object(),
    };
    ModelRequest {
        messages: [Message::user(text)].into(),
        tools: [tool("good"), tool("bad")].into(),
        ..Default::default()
    }
}

/// What a call shows at a server that refuses requests with `word` and counts 10 tokens of input and 2 of output for each
/// other one; and how many it has answered.
async fn shown(word: &'static str, text: &str) -> (String, u64) {
    let answered = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&answered);
    let server = judged(move |seen: &Seen| {
        if seen.body.contains(word) {
            return ("400 Bad Request", json!({ "error": { "message": "No." } }).to_string());
        }
        count.fetch_add(1, Ordering::Relaxed);
        let chunk = json!({ "choices": [{ "delta": { "content": "ok" }, "finish_reason": "stop" }] });
        let usage =
            json!({ "choices": [], "usage": { "prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12 } });
        ("200 OK", format!("data: {chunk}\n\ndata: {usage}\n\ndata: [DONE]\n\n"))
    })
    .await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    let model = Provider::new("test", config).unwrap().model("m");
    let shown = answer(&*model, call(text)).await;
    (shown, answered.load(Ordering::Relaxed))
}

#[tokio::test]
async fn the_tokens_of_trials_count_for_the_call() {
    let (shown, answered) = shown("bad", "Hello").await;
    assert!(answered > 1, "there were trials");
    let used = format!("finished: Stop {}+{}", answered * 10, answered * 2);
    assert!(shown.contains("text: ok") && shown.ends_with(&used), "{used}: {shown}");
}

#[tokio::test]
async fn the_tokens_of_trials_count_for_a_call_that_fails() {
    let (shown, answered) = shown("Hello", "Hello").await;
    assert!(answered > 0, "there were trials");
    let used = format!("used: {}+{}", answered * 10, answered * 2);
    assert!(shown.starts_with(&used) && shown.contains("error: Rejected"), "{used}: {shown}");
}
