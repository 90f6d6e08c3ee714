//! `session_id`: what is new goes on with the session.

use std::sync::Arc;

use everturn_core::Message;
use serde_json::json;
use tokio::sync::Semaphore;

use super::harness::{Reply, Server, message, user};

#[tokio::test]
async fn only_what_is_new_is_taken() {
    let server = Server::start([Reply::says(&["one"]), Reply::says(&["two"])]).await;
    let first = server.chat(json!({ "model": "second", "messages": [user("1")] })).await.json(200);
    let session = &first["session_id"];
    let messages = json!([{ "role": "system", "content": "not again" }, user("1"), message(&first), user("2")]);
    let second = server.chat(json!({ "model": "gpt-4o", "messages": messages, "session_id": session })).await.json(200);
    assert_eq!((&second["session_id"], &second["model"]), (session, &json!("second")));
    assert_ne!(second["message_id"], first["message_id"]);
    let asked = &server.script.asked()[1];
    assert_eq!(asked.system, "Be brief.");
    assert_eq!(asked.messages.to_vec(), [Message::user("1"), Message::assistant("one"), Message::user("2")]);
    let other = json!({ "model": "first", "messages": [user("3")], "session_id": session });
    assert_eq!(server.chat(other).await.refusal(400).1, "model");
}

#[tokio::test]
async fn sessions_that_are_not_there() {
    let server = Server::locked([Reply::says(&["one"])]).await;
    let first = server.by("chatter").chat(json!({ "messages": [user("1")] })).await.json(200);
    let session = first["session_id"].as_str().unwrap();
    for (key, session) in [("chatter", "sess_1"), ("chatter", "a/b"), ("stranger", session)] {
        let answer = server.by(key).chat(json!({ "messages": [user("2")], "session_id": session })).await;
        assert_eq!(answer.refusal(404), ("session_not_found".into(), "session_id".into()));
    }
}

#[tokio::test]
async fn one_turn_at_a_time() {
    let gate = Arc::new(Semaphore::new(0));
    let server = Server::start([Reply::says(&["one"]), Reply::says(&["two"]).behind(&gate)]).await;
    let first = server.chat(json!({ "messages": [user("1")] })).await.json(200);
    let body = json!({ "messages": [user("2")], "session_id": first["session_id"] });
    let (running, under_way) = (server.clone(), body.clone());
    let running = tokio::spawn(async move { running.chat(under_way).await });
    while server.script.asked().len() < 2 {
        tokio::task::yield_now().await;
    }
    let refused = server.chat(body).await;
    assert_eq!(refused.refusal(409).0, "session_busy");
    assert_eq!(refused.header("x-should-retry"), "", "the SDK may well try again");
    gate.add_permits(1);
    assert_eq!(message(&running.await.unwrap().json(200))["content"], "two");
}
