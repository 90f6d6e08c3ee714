//! Who may not, and what is not there.

use serde_json::json;

use super::harness::Server;

#[tokio::test]
async fn keys_allow_what_their_scopes_say() {
    let server = Server::locked().await;
    let missing = server.get("/api/v1/sessions").await;
    assert_eq!(missing.code(401), "AUTH_HEADER_MISSING");
    assert_eq!(missing.header("www-authenticate"), "Bearer");
    assert_eq!(server.by("wrong").get("/api/v1/sessions").await.code(401), "AUTH_TOKEN_INVALID");

    let reader = server.by("reader");
    reader.get("/api/v1/sessions").await.json(200);
    let denied = [
        ("POST", "/api/v1/sessions/stream"),
        ("PATCH", "/api/v1/sessions/x"),
        ("DELETE", "/api/v1/sessions/x"),
        ("POST", "/api/v1/sessions/x/stop"),
        ("POST", "/api/v1/sessions/%FF/stop"),
        ("POST", "/api/v1/sessions/x/messages/y/stop"),
        ("POST", "/api/v1/sessions/x/messages/y/token"),
        ("POST", "/api/v1/documents"),
        ("DELETE", "/api/v1/documents/x"),
    ];
    for (method, path) in denied {
        assert_eq!(reader.bare(method, path).await.code(403), "AUTH_PERMISSION_DENIED", "{method} {path}");
        assert_eq!(server.bare(method, path).await.code(401), "AUTH_HEADER_MISSING", "{method} {path}");
    }
    let agents = [("POST", "/api/v1/agents"), ("PATCH", "/api/v1/agents/x"), ("DELETE", "/api/v1/agents/x")];
    for (method, path) in agents {
        assert_eq!(
            server.by("chatter").bare(method, path).await.code(403),
            "AUTH_PERMISSION_DENIED",
            "{method} {path}"
        );
    }
}

#[tokio::test]
async fn nobody_sees_what_is_anothers() {
    let server = Server::locked().await;
    let (own, stranger) = (server.by("chatter"), server.by("stranger"));
    let (session, message, _) = own.turn(json!({ "message": "write a report about tea" })).await;
    let artifacts = own.get("/api/v1/artifacts").await.json(200);
    let artifact = artifacts["artifacts"][0]["artifact_id"].as_str().unwrap();
    let session = format!("/api/v1/sessions/{session}");
    assert_eq!(stranger.get("/api/v1/sessions").await.json(200), json!({ "sessions": [] }));
    assert_eq!(stranger.get(&session).await.code(404), "SESSION_NOT_FOUND");
    assert_eq!(stranger.get(&format!("{session}/messages")).await.code(404), "SESSION_NOT_FOUND");
    assert_eq!(stranger.get(&format!("{session}/messages/{message}")).await.code(404), "MESSAGE_NOT_FOUND");
    assert_eq!(
        stranger.bare("POST", &format!("{session}/messages/{message}/token")).await.code(404),
        "MESSAGE_NOT_FOUND"
    );
    assert_eq!(stranger.get(&format!("/api/v1/artifacts/{artifact}")).await.code(404), "ARTIFACT_NOT_FOUND");
    assert_eq!(stranger.bare("DELETE", &session).await.code(404), "SESSION_NOT_FOUND");
    stranger.bare("POST", &format!("{session}/stop")).await.is_empty(204);
    own.get(&session).await.json(200);
}

#[tokio::test]
async fn every_refusal_has_one_shape() {
    let server = Server::start().await;
    assert_eq!(server.get("/api/v1").await.code(404), "NOT_FOUND");
    assert_eq!(server.get("/api/v1/nothing").await.code(404), "NOT_FOUND");
    let wrong = server.bare("PUT", "/api/v1/sessions").await;
    assert_eq!(wrong.code(405), "METHOD_NOT_ALLOWED");
    assert_eq!(wrong.header("allow"), "GET,HEAD");
    assert_eq!(server.get("/api/v1/sessions/stream").await.code(405), "METHOD_NOT_ALLOWED");
    for (path, code) in [
        ("sessions/%FF", "SESSION_NOT_FOUND"),
        ("sessions/x/messages/%FF", "MESSAGE_NOT_FOUND"),
        ("forms/%FF", "FORM_NOT_FOUND"),
        ("artifacts/%FF", "ARTIFACT_NOT_FOUND"),
        ("documents/%FF/content", "DOCUMENT_NOT_FOUND"),
        ("agents/%FF", "AGENT_NOT_FOUND"),
    ] {
        assert_eq!(server.get(&format!("/api/v1/{path}")).await.code(404), code);
    }
    let path = "/api/v1/sessions/stream";
    let json = [("content-type", "application/json")];
    assert_eq!(server.send("POST", path, &[], "{}").await.code(415), "MEDIA_TYPE_UNSUPPORTED");
    assert_eq!(server.send("POST", path, &json, "{").await.code(422), "VALIDATION_FAILED");
    assert_eq!(server.send("POST", path, &json, "[]").await.code(422), "VALIDATION_FAILED");
    assert_eq!(server.send("POST", path, &json, vec![b' '; 100_001]).await.code(413), "BODY_TOO_LARGE");
    let keyed = [json[0], ("idempotency-key", "a b")];
    assert_eq!(server.send("POST", path, &keyed, r#"{"message":"x"}"#).await.code(422), "VALIDATION_FAILED");
    assert_eq!(server.spawn(json!({ "message": "x", "agent_id": "nobody" })).await.code(404), "AGENT_NOT_FOUND");
    server.engine.shutdown(std::time::Duration::ZERO).await;
    let closing = server.spawn(json!({ "message": "x" })).await;
    assert_eq!(closing.code(503), "SHUTTING_DOWN");
    assert_eq!(closing.header("retry-after"), "2");
}
