//! Listing, naming and deleting sessions.

use serde_json::json;

use super::harness::Server;

#[tokio::test]
async fn sessions_are_listed_newest_first() {
    let server = Server::start().await;
    let mut made = Vec::new();
    for message in ["one", "two", "three"] {
        made.push(server.turn(json!({ "message": message })).await.0);
    }
    let first = server.get("/api/v1/sessions?limit=2").await.json(200);
    let sessions = first["sessions"].as_array().unwrap();
    assert_eq!((&sessions[0]["session_id"], &sessions[1]["session_id"]), (&json!(made[2]), &json!(made[1])));
    assert_eq!((&sessions[0]["agent_id"], &sessions[0]["status"]), (&json!("demo"), &json!("idle")));
    assert!(sessions[0]["total_input_tokens"].as_u64().unwrap() > 0);
    let cursor = first["next_cursor"].as_str().unwrap();
    let last = server.get(&format!("/api/v1/sessions?limit=2&cursor={cursor}")).await.json(200);
    assert_eq!(last["sessions"][0]["session_id"], json!(made[0]));
    assert!(last.get("next_cursor").is_none());
    assert_eq!(server.get("/api/v1/sessions?limit=0").await.code(422), "VALIDATION_FAILED");
    assert_eq!(server.get("/api/v1/sessions?cursor=nonsense").await.code(400), "CURSOR_INVALID");
}

#[tokio::test]
async fn a_session_is_named_and_deleted() {
    let server = Server::start().await;
    let (session, message, _) = server.turn(json!({ "message": "hello" })).await;
    server.named(&session).await;
    let path = format!("/api/v1/sessions/{session}");
    let named = server.json("PATCH", &path, json!({ "title": " Tea " })).await.json(200);
    assert_eq!((&named["title"], &named["current"], &named["queue"]), (&json!("Tea"), &json!(null), &json!([])));
    assert_eq!(server.get(&path).await.json(200)["title"], "Tea");
    assert_eq!(server.json("PATCH", &path, json!({ "title": "" })).await.code(422), "VALIDATION_FAILED");
    assert_eq!(server.json("PATCH", &path, json!({})).await.code(422), "VALIDATION_FAILED");
    assert_eq!(
        server.json("PATCH", "/api/v1/sessions/no", json!({ "title": "x" })).await.code(404),
        "SESSION_NOT_FOUND"
    );

    let key = [("idempotency-key", "d1")];
    server.send("DELETE", &path, &key, "").await.is_empty(204);
    server.send("DELETE", &path, &key, "").await.is_empty(204);
    assert_eq!(server.bare("DELETE", &path).await.code(404), "SESSION_NOT_FOUND");
    assert_eq!(server.get(&path).await.code(404), "SESSION_NOT_FOUND");
    assert_eq!(server.get(&format!("{path}/messages/{message}")).await.code(404), "MESSAGE_NOT_FOUND");
    assert_eq!(server.spawn(json!({ "message": "x", "session_id": session })).await.code(404), "SESSION_NOT_FOUND");
}

#[tokio::test]
async fn a_token_opens_one_turn() {
    let server = Server::start().await;
    let (session, message, _) = server.turn(json!({ "message": "hello" })).await;
    let path = format!("/api/v1/sessions/{session}/messages/{message}/token");
    let answer = server.bare("POST", &path).await;
    let made = answer.json(201);
    assert_eq!(answer.header("cache-control"), "no-store");
    let token = made["token"].as_str().unwrap();
    assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)), "{token}");
    let (session_id, turn) = (session.parse().unwrap(), message.parse().unwrap());
    assert_eq!(server.engine.open_stream_token(token, &session_id, &turn).unwrap().tenant.as_str(), "local");
    assert_eq!(server.engine.open_stream_token(token, &session_id, &"turn_x".parse().unwrap()), None);

    let stream = format!("/api/v1/sessions/{session}/messages/{message}/stream");
    let opened = server.get(&format!("{stream}?token={token}")).await;
    assert_eq!(opened.header("content-type"), "text/event-stream");
    assert!(std::str::from_utf8(&opened.body).unwrap().contains("\"type\":\"complete\""));

    server.json("POST", &path, json!({ "ttl_seconds": 3600 })).await.json(201);
    assert_eq!(server.json("POST", &path, json!({ "ttl_seconds": 3601 })).await.code(422), "VALIDATION_FAILED");
    assert_eq!(server.json("POST", &path, json!({ "ttl_seconds": "1" })).await.code(422), "VALIDATION_FAILED");
    let other = format!("/api/v1/sessions/{session}/messages/turn_x/token");
    assert_eq!(server.bare("POST", &other).await.code(404), "MESSAGE_NOT_FOUND");
}
