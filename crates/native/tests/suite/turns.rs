//! Spawning, and what the messages of a session then show.

use serde_json::json;

use super::harness::Server;

#[tokio::test]
async fn a_turn_is_spawned_and_its_answer_kept() {
    let server = Server::start().await;
    let accepted = server.spawn(json!({ "message": "I like tea" })).await;
    let body = accepted.json(202);
    assert_eq!(body["kind"], "new_turn");
    assert_eq!(accepted.header("x-session-id"), body["session_id"]);
    assert_eq!(accepted.header("x-message-id"), body["message_id"]);
    let (session, message) = (body["session_id"].as_str().unwrap(), body["message_id"].as_str().unwrap());
    let complete = server.rest_of(session, message).await;
    assert_eq!(complete["type"], "complete");

    let path = format!("/api/v1/sessions/{session}/messages/{message}");
    let shown = server.get(&path).await.json(200);
    assert_eq!(shown["status"], "completed");
    assert_eq!(shown["input"], "I like tea");
    assert_eq!(shown["response"], complete["final_response"]);
    assert_eq!(shown["total_output_tokens"], complete["total_output_tokens"]);
    assert_eq!(shown["messages"][0], json!({ "role": "user", "content": "I like tea" }));
    assert_eq!(shown["messages"][1]["content"], complete["final_response"]);
    assert!(shown["ended_at"].as_str().unwrap().ends_with('Z'));
    assert!(shown.get("error").is_none() && shown.get("wake").is_none());
    assert_eq!(server.get(&format!("/api/v1/sessions/{session}/messages/turn_x")).await.code(404), "MESSAGE_NOT_FOUND");
    assert_eq!(server.get("/api/v1/sessions/sess_x/messages").await.code(404), "SESSION_NOT_FOUND");
}

#[tokio::test]
async fn the_turns_of_a_session_are_paged() {
    let server = Server::start().await;
    let (session, ..) = server.turn(json!({ "message": "one" })).await;
    for message in ["two", "three"] {
        let (same, ..) = server.turn(json!({ "message": message, "session_id": session, "agent_id": "demo" })).await;
        assert_eq!(same, session);
    }
    let path = format!("/api/v1/sessions/{session}/messages");
    let first = server.get(&format!("{path}?limit=2")).await.json(200);
    let inputs = |page: &serde_json::Value| {
        page["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|turn| turn["input"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(inputs(&first), ["three", "two"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = server.get(&format!("{path}?limit=2&cursor={cursor}")).await.json(200);
    assert_eq!(inputs(&second), ["one"]);
    assert!(second.get("next_cursor").is_none());
    assert_eq!(server.get(&format!("/api/v1/sessions?cursor={cursor}")).await.code(400), "CURSOR_INVALID");
}

#[tokio::test]
async fn tool_calls_and_failures_are_shown() {
    let server = Server::start().await;
    let (session, message, complete) = server.turn(json!({ "message": "calculator 6*7" })).await;
    let path = format!("/api/v1/sessions/{session}/messages/{message}");
    let shown = server.get(&path).await.json(200);
    assert_eq!(shown["messages"][1]["tool_calls"][0]["tool_name"], "calculator");
    let result = &shown["messages"][2];
    assert_eq!((&result["role"], &result["success"]), (&json!("tool"), &json!(true)));
    assert_eq!(result["tool_call_id"], shown["messages"][1]["tool_calls"][0]["tool_call_id"]);
    assert_eq!(shown["response"], complete["final_response"]);

    let (session, message, error) = server.turn(json!({ "message": "fail" })).await;
    assert_eq!(error["type"], "error");
    let shown = server.get(&format!("/api/v1/sessions/{session}/messages/{message}")).await.json(200);
    assert_eq!(shown["status"], "failed");
    assert_eq!(shown["error"]["code"], error["code"]);
    assert_eq!(shown["response"], json!(null));
}

#[tokio::test]
async fn a_request_sent_twice_has_one_effect() {
    let server = Server::start().await;
    let headers = [("content-type", "application/json"), ("idempotency-key", "k1")];
    let send = async |body: &str| server.send("POST", "/api/v1/sessions/stream", &headers, body.to_owned()).await;
    let first = send(r#"{"message":"hello"}"#).await.json(202);
    assert_eq!(send(r#"{"message":"hello"}"#).await.json(202), first);
    assert_eq!(send(r#"{"message":"other"}"#).await.code(409), "IDEMPOTENCY_KEY_REUSED");
    let sessions = server.get("/api/v1/sessions").await.json(200);
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn trust_and_options_belong_to_the_session() {
    let server = Server::start().await;
    let options = json!({ "language": "French", "key": "secret" });
    let body =
        json!({ "message": "hello", "agent_options": options, "tools": [{ "name": "calculator", "trust": false }] });
    let (session, ..) = server.turn(body).await;
    let shown = server.get(&format!("/api/v1/sessions/{session}")).await.json(200);
    assert_eq!(shown["agent_options"], json!({ "key": "***", "language": "French" }));
    let tools = shown["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 6);
    let trust = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap()["trust"].clone();
    assert_eq!((trust("calculator"), trust("clock")), (json!(false), json!(true)));

    let wrong = |body| server.spawn(body);
    let answer = wrong(json!({ "message": "x", "tools": [{ "name": "rm", "trust": true }] })).await;
    assert_eq!(answer.code(422), "VALIDATION_FAILED");
    let answer = wrong(json!({ "message": "x", "agent_options": { "size": "1" } })).await;
    assert_eq!(answer.code(422), "VALIDATION_FAILED");
    let twice = json!([{ "name": "clock", "trust": true }, { "name": "clock", "trust": false }]);
    assert_eq!(wrong(json!({ "message": "x", "tools": twice })).await.code(422), "VALIDATION_FAILED");
}
