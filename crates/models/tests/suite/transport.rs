//! What connections do: break, stay open, redirect, and answer with something else.

use std::{sync::Arc, time::Duration};

use everturn_core::Message;
use everturn_models::{Model, ModelEvent, ModelRequest, Provider, ProviderConfig, ProviderKind};
use expect_test::{Expect, expect};
use futures_util::StreamExt;

use super::{
    raw_server::{Then, response, serve},
    transcript::answer,
};

const CHUNK: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\n";
const END: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const EVENTS: &str = "content-type: text/event-stream";

fn request() -> ModelRequest {
    ModelRequest { messages: [Message::user("hello")].into(), ..ModelRequest::default() }
}

fn model(kind: ProviderKind, url: String) -> Arc<dyn Model> {
    let config = ProviderConfig { base_url: Some(url), api_key: Some("hunter2".into()), ..ProviderConfig::new(kind) };
    Provider::new("test", config).unwrap().model("m")
}

async fn check(response: String, expect: Expect) {
    let server = serve(response, Then::Close).await;
    let shown = answer(&*model(ProviderKind::OpenAi, server.url.clone()), request()).await;
    expect.assert_eq(&shown.replace(&server.url, "URL"));
    server.task.await.unwrap();
}

#[tokio::test]
async fn cuts() {
    // By a server that closes where the body may end anywhere, and by one that had promised more.
    check(
        response("200 OK", &[EVENTS], &CHUNK.repeat(2)),
        expect![[r#"
        text: Hello|Hello
        error: Unavailable: test closed the stream before its answer was complete"#]],
    )
    .await;
    check(
        response("200 OK", &[EVENTS, "content-length: 9999"], CHUNK),
        expect![[r#"
        text: Hello
        error: Unavailable: test broke off in the middle of its answer: end of file before message length reached"#]],
    )
    .await;
    check(
        response("200 OK", &[EVENTS, "content-length: 9999"], &format!("{CHUNK}data: {{\"cho")),
        expect![[r#"
        text: Hello
        error: Unavailable: test broke off in the middle of its answer: end of file before message length reached"#]],
    )
    .await;
    check(
        response("200 OK", &[EVENTS, "transfer-encoding: chunked"], "5\r\ndata:"),
        expect![
            "error: Unavailable: test broke off in the middle of its answer: unexpected EOF during chunk size line"
        ],
    )
    .await;
    // The model had stopped: what was lost is not part of the answer.
    check(
        response("200 OK", &[EVENTS, "content-length: 9999"], &format!("{CHUNK}{END}")),
        expect![[r#"
        text: Hello
        finished: Stop ?"#]],
    )
    .await;
}

#[tokio::test]
async fn answers_that_are_none() {
    check(
        response("200 OK", &["content-type: text/html"], "<html>Welcome!</html>"),
        expect![
            "Denied: test answered with text/html that is no answer of a model; check base_url (the server's log has what it answered)"
        ],
    )
    .await;
    check(
        response("200 OK", &["content-type: application/json"], r#"{"error":{"message":"busy","code":503}}"#),
        expect!["error: Unavailable: test reports: busy"],
    )
    .await;
    check(
        response("200 OK", &["content-type: application/json"], r#"{"choices":[]}"#),
        expect![
            "error: Denied: test answered with application/json that is no answer of a model; check base_url (the server's log has what it answered)"
        ],
    )
    .await;
    check(
        response("302 Found", &["location: https://example.com/login"], ""),
        expect![
            "Denied: test answered 302: it redirects to another address; set base_url to that address, which is in the server's log"
        ],
    )
    .await;
    check(
        response("502 Bad Gateway", &[], "<html>\n<title>502</title>"),
        expect!["Unavailable: test answered 502: Bad Gateway"],
    )
    .await;
    check(response("500 Oops", &[], ""), expect!["Unavailable: test answered 500: Internal Server Error"]).await;
    check(
        "no HTTP at all\r\n\r\n".to_owned(),
        expect!["Unavailable: test cannot be reached: invalid HTTP version parsed"],
    )
    .await;
}

#[tokio::test]
async fn a_key_that_the_provider_repeats_is_not_shown() {
    check(
        response("401 Unauthorized", &[], r#"{"error":{"message":"wrong key: hunter2"}}"#),
        expect!["Denied: test answered 401: wrong key: [key]"],
    )
    .await;
}

#[tokio::test]
async fn waits_are_passed_on() {
    check(
        response("429 Too Many Requests", &["retry-after: 7"], ""),
        expect!["RateLimited: test answered 429: Too Many Requests, retry after 7s"],
    )
    .await;
    check(
        response("429 Too Many Requests", &["retry-after: Sun, 06 Nov 1994 08:49:37 GMT"], ""),
        expect!["RateLimited: test answered 429: Too Many Requests, retry after 0ns"],
    )
    .await;
}

#[tokio::test]
async fn error_bodies_are_read_to_a_limit() {
    let server = serve(response("404 Not Found", &[], &"x".repeat(10_000_000)), Then::StayOpen).await;
    let shown = answer(&*model(ProviderKind::OpenAi, server.url.clone()), request()).await;
    assert!(shown == "Denied: test answered 404: Not Found", "{}", shown.len());
    server.task.await.unwrap();
}

#[tokio::test]
async fn an_event_without_end_is_refused() {
    let endless = format!("data: {}", "x".repeat(17 * 1024 * 1024));
    check(
        response("200 OK", &[EVENTS], &endless),
        expect!["error: Rejected: test sent a single event of more than 16777216 bytes"],
    )
    .await;
}

#[tokio::test]
async fn nobody_there() {
    // Bound and dropped again: nothing listens there now.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let shown = answer(&*model(ProviderKind::Ollama, url.clone()), request()).await.replace(&url, "URL");
    expect!["Unavailable: test cannot be reached: Connection refused (os error 111)"].assert_eq(&shown);
}

#[tokio::test]
async fn the_end_is_seen_though_the_connection_stays_open() {
    let server = serve(response("200 OK", &[EVENTS], &format!("{CHUNK}{END}")), Then::StayOpen).await;
    let shown = answer(&*model(ProviderKind::OpenAi, server.url.clone()), request()).await;
    expect![[r#"
        text: Hello
        finished: Stop ?"#]]
    .assert_eq(&shown);
    server.task.await.unwrap();
}

#[tokio::test]
async fn dropping_the_stream_ends_the_call_at_the_provider() {
    let server = serve(response("200 OK", &[EVENTS], CHUNK), Then::StayOpen).await;
    let mut stream = model(ProviderKind::OpenAi, server.url.clone()).stream(request()).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), ModelEvent::Text("Hello".into()));
    assert!(!server.task.is_finished());
    drop(stream);
    tokio::time::timeout(Duration::from_secs(10), server.task).await.expect("the connection was not closed").unwrap();
}

#[tokio::test]
async fn dropping_the_call_ends_it_at_the_provider() {
    let server = serve("", Then::StayOpen).await;
    let call = tokio::spawn(model(ProviderKind::OpenAi, server.url.clone()).stream(request()));
    server.received.notified().await;
    assert!(!server.task.is_finished());
    call.abort();
    tokio::time::timeout(Duration::from_secs(10), server.task).await.expect("the connection was not closed").unwrap();
}
