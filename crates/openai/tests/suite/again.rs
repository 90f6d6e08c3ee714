//! Requests that are sent again.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::Semaphore;

use super::harness::{Reply, Server, message, text, user};

#[tokio::test]
async fn a_key_has_one_effect() {
    let server = Server::start([Reply::says(&["one"]), Reply::says(&["two"])]).await;
    let body = json!({ "messages": [user("hi")] });
    let headers = [("idempotency-key", "k1")];
    let first = server.chat_with(&headers, body.clone()).await.json(200);
    assert_eq!(server.chat_with(&headers, body.clone()).await.json(200), first);
    let other = server.chat_with(&headers, json!({ "messages": [user("ho")] })).await;
    assert_eq!(other.refusal(409).0, "idempotency_key_reused");
    assert_eq!(other.header("x-should-retry"), "false");
    assert_eq!(message(&server.chat(body).await.json(200))["content"], "two");
    let bad = server.chat_with(&[("idempotency-key", "")], json!({ "messages": [user("hi")] })).await;
    assert_eq!(bad.refusal(400).1, "Idempotency-Key");
}

#[tokio::test]
async fn an_sdk_that_lost_its_answer_finds_the_turn() {
    let gate = Arc::new(Semaphore::new(0));
    let server = Server::start([Reply::says(&["one"]).behind(&gate), Reply::says(&["two"])]).await;
    let body = json!({ "messages": [user("hi")] });
    let (asking, asked) = (server.clone(), body.clone());
    let lost = tokio::spawn(async move { asking.chat_with(&[("x-stainless-retry-count", "0")], asked).await });
    while server.script.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    // The connection breaks: whoever serves it is dropped.
    lost.abort();
    assert!(lost.await.unwrap_err().is_cancelled());
    gate.add_permits(1);
    let again = [("x-stainless-retry-count", "1")];
    let found = server.chat_with(&again, body.clone()).await.json(200);
    assert_eq!(message(&found)["content"], "one");
    assert_eq!(server.sessions().await, 1);
    // It was answered, so the next one is another.
    assert_eq!(message(&server.chat_with(&again, body).await.json(200))["content"], "two");
}

#[tokio::test]
async fn a_stream_that_was_lost_is_found_too() {
    let server = Server::start([Reply::says(&["one"]), Reply::says(&["two"])]).await;
    let body = json!({ "messages": [user("hi")], "stream": true });
    let headers = [("content-type", "application/json"), ("x-stainless-retry-count", "0")];
    drop(server.open("POST", "/v1/chat/completions", &headers, body.to_string()).await);
    let again = [("x-stainless-retry-count", "1")];
    assert_eq!(text(&server.chat_with(&again, body.clone()).await.chunks()), "one");
    assert_eq!(text(&server.chat_with(&again, body).await.chunks()), "two");
}
