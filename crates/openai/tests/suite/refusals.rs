//! What is not taken.

use serde_json::{Value, json};

use super::harness::{Answer, Server, tool, user};

#[tokio::test]
async fn keys_and_scopes() {
    let server = Server::locked([]).await;
    let body = json!({ "messages": [user("hi")] });
    let answer = server.chat(body.clone()).await;
    assert_eq!(answer.refusal(401).0, "invalid_api_key");
    assert_eq!(answer.json(401)["error"]["type"], "authentication_error");
    assert_eq!(answer.header("www-authenticate"), "Bearer");
    assert_eq!(server.by("wrong").chat(body.clone()).await.refusal(401).0, "invalid_api_key");
    assert_eq!(server.by("reader").chat(body).await.refusal(403).0, "permission_denied");
    assert_eq!(server.get("/v1/models").await.refusal(401).0, "invalid_api_key");
    server.by("reader").get("/v1/models").await.json(200);
}

#[tokio::test]
async fn bodies() {
    let server = Server::start([]).await;
    let post = async |kind: &str, body: &str| {
        server.send("POST", "/v1/chat/completions", &[("content-type", kind)], body.to_owned()).await
    };
    assert_eq!(post("text/plain", "{}").await.refusal(415).0, "unsupported_media_type");
    assert_eq!(post("application/json", &"x".repeat(200_000)).await.refusal(413).0, "request_too_large");
    assert_eq!(post("application/json", "{").await.refusal(400), ("invalid_value".into(), String::new()));
    assert_eq!(post("application/json", "[]").await.refusal(400).1, "");
    let deep = format!(r#"{{"x":{}{}}}"#, "[".repeat(30), "]".repeat(30));
    assert_eq!(post("application/json", &deep).await.refusal(400).0, "invalid_value");
    for (body, param) in [
        (json!({ "messages": "hi" }), "messages"),
        (json!({ "messages": [user("x")], "temperature": "hot" }), "temperature"),
        (json!({ "messages": [user("x")], "n": 3 }), "n"),
        (json!({ "messages": [{ "role": "user", "content": [{ "type": "file" }] }] }), "messages[0].content[0].file"),
        (json!({ "messages": [user("x")], "tools": [tool("no spaces")] }), "tools"),
        (
            json!({ "messages": [{ "role": "user", "content": [
                { "type": "image_url", "image_url": { "url": "data:image/png ;base64,AAAA" } } ] }] }),
            "messages[0].content[0].image_url.url",
        ),
        (
            json!({ "messages": [{ "role": "user", "content": [
                { "type": "image_url", "image_url": { "url": "https://example.com/a.png" } } ] }] }),
            "messages",
        ),
    ] {
        assert_eq!(server.chat(body.clone()).await.refusal(400).1, param, "{body}");
    }
    let many: Vec<Value> = vec![json!({ "role": "user", "content": "" }); 10_001];
    let server_body = json!({ "messages": many }).to_string();
    assert!(server_body.len() > 100_000, "bytes are bounded before messages are");
    assert_eq!(server.sessions().await, 0, "nothing was begun");
}

#[tokio::test]
async fn paths() {
    let server = Server::start([]).await;
    for path in ["/v1/embeddings", "/v1/", "/v1"] {
        assert_eq!(server.get(path).await.refusal(404).0, "unknown_url", "{path}");
    }
    assert_eq!(server.get("/v1/chat/completions").await.refusal(405).0, "method_not_allowed");
    let message = |answer: Answer| answer.json(404)["error"]["message"].as_str().unwrap().to_owned();
    let told = message(server.get("/v1/embeddings").await);
    for path in ["/v1/embeddings", "/v1/chat/completions", "/v1/models"] {
        assert!(told.contains(path), "{told}");
    }
    // What the AI SDK and OpenAI's Agents SDK call unless they are told otherwise.
    let body = json!({ "model": "demo", "input": "hi" }).to_string();
    let told = message(server.send("POST", "/v1/responses", &[("content-type", "application/json")], body).await);
    for advice in ["client.chat.completions", "openai.chat(model)", "OpenAIChatCompletionsModel"] {
        assert!(told.contains(advice), "{told}");
    }
    assert_eq!(message(server.get("/v1/responses/resp_1").await), told);
}
