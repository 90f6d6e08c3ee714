//! Busy sessions: queues, and stopping what is under way.

use serde_json::json;

use super::harness::Server;

/// A turn that takes longer than any test.
const LONG: &str = "stream 100000 at 100/s";

#[tokio::test]
async fn messages_wait_their_turn() {
    let server = Server::start().await;
    let running = server.spawn(json!({ "message": LONG })).await.json(202);
    let (session, running) = (running["session_id"].as_str().unwrap(), running["message_id"].as_str().unwrap());
    let queued = server.spawn(json!({ "session_id": session, "message": "second" })).await.json(202);
    assert_eq!(queued["kind"], "queued");
    let third = server.spawn(json!({ "session_id": session, "message": "third" })).await.json(202);
    let busy = |on_busy: &str| server.spawn(json!({ "session_id": session, "message": "x", "on_busy": on_busy }));
    assert_eq!(busy("enqueue").await.code(409), "SESSION_QUEUE_FULL");
    assert_eq!(busy("reject").await.code(409), "SESSION_BUSY");

    let path = format!("/api/v1/sessions/{session}");
    let shown = server.get(&path).await.json(200);
    assert_eq!((&shown["status"], &shown["queued"]), (&json!("running"), &json!(2)));
    assert_eq!(shown["current"], json!({ "message_id": running, "status": "running" }));
    assert_eq!(
        (&shown["queue"][0]["message_id"], &shown["queue"][0]["preview"]),
        (&queued["message_id"], &json!("second"))
    );

    let third = third["message_id"].as_str().unwrap();
    server.bare("POST", &format!("{path}/messages/{third}/stop")).await.is_empty(204);
    let ended = server.get(&format!("{path}/messages/{third}")).await.json(200);
    assert_eq!((&ended["status"], &ended["reason"]), (&json!("cancelled"), &json!("user_stop")));

    // Without an answer in between, the next message would be read together with the one that was stopped.
    server.speaks(session, running).await;
    server.bare("POST", &format!("{path}/stop")).await.is_empty(204);
    let last = server.rest_of(session, running).await;
    assert_eq!((&last["type"], &last["reason"]), (&json!("cancelled"), &json!("user_stop")));
    let second = server.rest_of(session, queued["message_id"].as_str().unwrap()).await;
    assert_eq!(second["type"], "complete");
}

#[tokio::test]
async fn a_stop_sent_twice_stops_one_turn() {
    let server = Server::start().await;
    let first = server.spawn(json!({ "message": LONG })).await.json(202);
    let session = first["session_id"].as_str().unwrap();
    let path = format!("/api/v1/sessions/{session}/stop");
    let key = [("idempotency-key", "s1")];
    server.send("POST", &path, &key, "").await.is_empty(204);
    let second = server.spawn(json!({ "session_id": session, "message": LONG })).await.json(202);
    assert_eq!(second["kind"], "new_turn");
    server.send("POST", &path, &key, "").await.is_empty(204);
    let shown = server.get(&format!("/api/v1/sessions/{session}")).await.json(200);
    assert_eq!((&shown["status"], &shown["current"]["message_id"]), (&json!("running"), &second["message_id"]));
    // Always 204, and a key that was used for something else, or cannot be one, is no reason not to stop.
    let other = format!("/api/v1/sessions/{session}/messages/{}/stop", second["message_id"].as_str().unwrap());
    server.send("POST", &other, &key, "").await.is_empty(204);
    let shown = server.get(&format!("/api/v1/sessions/{session}")).await.json(200);
    assert_eq!(shown["status"], "idle");
    server.send("POST", &path, &[("idempotency-key", "not a key")], "").await.is_empty(204);
}

#[tokio::test]
async fn what_is_not_there_is_stopped_already() {
    let server = Server::start().await;
    for path in ["sess_x/stop", "a%20b/stop", "%FF/stop", "sess_x/messages/turn_x/stop", "%FF/messages/%FF/stop"] {
        server.bare("POST", &format!("/api/v1/sessions/{path}")).await.is_empty(204);
    }
}
