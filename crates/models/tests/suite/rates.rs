//! Rates of tokens that one request exceeds by itself.

use everturn_core::{Message, ModelOptions};
use everturn_models::{ModelRequest, Provider, ProviderConfig, ProviderKind};
use serde_json::json;

use super::{
    scripted::{Seen, judged},
    transcript::answer,
};

const CHAT: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn too_large(limit: u64, requested: u64) -> String {
    let message = format!(
        "Request too large for model `m` on tokens per minute (TPM): Limit {limit}, Requested {requested}, please reduce \
         your message size and try again."
    );
    json!({ "error": { "message": message, "type": "tokens", "code": "rate_limit_exceeded" } }).to_string()
}

fn question(words: usize, answer: u64) -> ModelRequest {
    ModelRequest {
        messages: [Message::user("word ".repeat(words))].into(),
        options: ModelOptions { max_output_tokens: Some(answer), ..ModelOptions::default() },
        ..ModelRequest::default()
    }
}

/// The conversation is compacted to what a minute allows. Other models of the provider keep their windows.
#[tokio::test]
async fn a_question_that_no_minute_has_room_for_is_an_overflow() {
    for status in ["413 Payload Too Large", "429 Too Many Requests"] {
        let server = judged(move |_: &Seen| (status, too_large(8000, 12_345))).await;
        let config = ProviderConfig {
            base_url: Some(server.url.clone()),
            context_window: Some(100_000),
            ..ProviderConfig::new(ProviderKind::OpenAi)
        };
        let provider = Provider::new("test", config).unwrap();
        let shown = answer(&*provider.model("m"), question(9000, 1000)).await;
        assert!(shown.starts_with("ContextOverflow: "), "{shown}");
        assert_eq!(provider.model("m").context_window(), Some(8000));
        assert_eq!(provider.model("other").context_window(), Some(100_000));
        assert_eq!(server.seen().len(), 1);
    }
}

/// The answer that may be given counts too.
#[tokio::test]
async fn a_question_that_fits_gets_a_shorter_answer() {
    let server = judged(|seen: &Seen| {
        let body: serde_json::Value = serde_json::from_str(&seen.body).unwrap();
        let requested = 3000 + body["max_tokens"].as_u64().unwrap();
        if requested > 8000 {
            ("413 Payload Too Large", too_large(8000, requested))
        } else {
            ("200 OK", CHAT.to_owned())
        }
    })
    .await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    let model = Provider::new("test", config).unwrap().model("m");
    assert_eq!(answer(&*model, question(2000, 9000)).await, "text: ok\nfinished: Stop ?");
    assert_eq!(server.seen().len(), 2);
    assert_eq!(answer(&*model, question(2000, 9000)).await, "text: ok\nfinished: Stop ?");
    assert_eq!(server.seen().len(), 3);
}

/// The user cannot set the limit by writing about it.
#[tokio::test]
async fn a_limit_that_the_question_names_is_not_learned() {
    let server = judged(|_: &Seen| ("429 Too Many Requests", too_large(8000, 12_345))).await;
    let config = ProviderConfig { base_url: Some(server.url.clone()), ..ProviderConfig::new(ProviderKind::OpenAi) };
    let model = Provider::new("test", config).unwrap().model("m");
    let messages = [Message::user("Limit 8000, Requested 12345 ".repeat(2000))];
    answer(&*model, ModelRequest { messages: messages.into(), ..ModelRequest::default() }).await;
    assert_eq!(model.context_window(), None);
}
