//! Turns that fail.

use everturn_models::ModelErrorKind;
use serde_json::{Value, json};

use super::harness::{Reply, Server, user};

#[tokio::test]
async fn failures_have_a_status() {
    for (kind, status, code) in [
        (ModelErrorKind::Rejected, 502, "LLM_PROVIDER_ERROR"),
        (ModelErrorKind::Unavailable, 503, "LLM_PROVIDER_UNAVAILABLE"),
        (ModelErrorKind::Timeout, 504, "LLM_REQUEST_TIMEOUT"),
        (ModelErrorKind::Denied, 502, "LLM_PROVIDER_ERROR"),
        (ModelErrorKind::RateLimited, 429, "LLM_RATE_LIMITED"),
    ] {
        let server = Server::start(vec![Reply::fails(kind); 10]).await;
        let answer = server.chat(json!({ "messages": [user("hi")] })).await;
        assert_eq!(answer.refusal(status).0, code);
        assert_eq!(answer.header("x-should-retry"), "false", "the server has tried again by itself");
        assert_eq!(!answer.header("retry-after").is_empty(), [429, 503].contains(&status));
        assert!(!answer.header("x-session-id").is_empty() && !answer.header("x-message-id").is_empty());
    }
}

/// The AI SDK sends every request again that ends with 5xx, also one whose turn has failed for good.
#[tokio::test]
async fn failures_have_a_status_that_the_ai_sdk_does_not_repeat() {
    for kind in [ModelErrorKind::Rejected, ModelErrorKind::Unavailable, ModelErrorKind::Timeout] {
        let server = Server::start(vec![Reply::fails(kind); 10]).await;
        let headers = [("user-agent", "ai/6.0.326 ai-sdk/openai/3.0.141")];
        let answer = server.chat_with(&headers, json!({ "messages": [user("hi")] })).await;
        assert!(answer.refusal(422).0.starts_with("LLM_"), "{kind:?}");
    }
}

#[tokio::test]
async fn failures_of_a_stream_are_its_last_frame() {
    let replies = [
        Reply::calls("Well.", &[("calculator", json!({ "expression": "1" }))]),
        Reply::fails(ModelErrorKind::Rejected),
    ];
    let server = Server::start(replies).await;
    let chunks = server.chat(json!({ "messages": [user("hi")], "stream": true })).await.chunks();
    let error = &chunks.last().unwrap()["error"];
    assert_eq!((&error["type"], &error["code"]), (&json!("invalid_request_error"), &json!("LLM_PROVIDER_ERROR")));
    assert!(chunks.iter().all(|chunk| chunk["choices"][0]["finish_reason"] == Value::Null));
}

#[tokio::test]
async fn a_turn_that_is_stopped() {
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let server = Server::start([Reply::says(&["never"]).behind(&gate)]).await;
    let asking = server.clone();
    let asking = tokio::spawn(async move { asking.chat(json!({ "messages": [user("hi")] })).await });
    let tenant = everturn_core::TenantId::local();
    while server.script.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    let session = server.engine.sessions(&tenant, None, 1).await.unwrap()[0].session.id.clone();
    server.engine.stop(&tenant, &session, None, None).await.unwrap();
    assert_eq!(asking.await.unwrap().refusal(409).0, "turn_stopped");
}
