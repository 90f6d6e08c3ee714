//! Results that are sent again after their turn has failed.

use std::sync::Arc;

use everturn_core::{Message, TenantId};
use everturn_models::ModelErrorKind;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::harness::{Answer, Reply, Server, message, result, text, tool, user};

/// A request with a tool and these messages.
fn asks(messages: &[Value]) -> Value {
    json!({ "messages": messages, "tools": [tool("a")] })
}

/// A call of the application's tool, and one of the server's.
fn both() -> Reply {
    Reply::calls("", &[("a", json!({})), ("calculator", json!({ "expression": "6*7" }))])
}

fn call() -> Reply {
    Reply::calls("", &[("a", json!({}))])
}

fn failure() -> Reply {
    Reply::fails(ModelErrorKind::Rejected)
}

/// Asks, and gives the conversation with the call's result at its end; and the session.
async fn with_result(server: &Server) -> (Vec<Value>, Value) {
    let completion = server.chat(asks(&[user("go")])).await.json(200);
    (followed(&[user("go")], &completion), completion["session_id"].clone())
}

/// A conversation, with an answer and the result of its call.
fn followed(messages: &[Value], completion: &Value) -> Vec<Value> {
    let answer = message(completion).clone();
    let result = result(&answer["tool_calls"][0], "ok");
    [messages, &[answer, result]].concat()
}

/// What the model was given, and what it answered in the past.
fn given(server: &Server, at: usize) -> Vec<Message> {
    server.script.asked()[at].messages.to_vec()
}

/// The answer's text, session and turn.
#[track_caller]
fn told(answer: &Answer) -> (Value, Value, Value) {
    let completion = answer.json(200);
    let text = message(&completion)["content"].clone();
    (text, completion["session_id"].clone(), completion["message_id"].clone())
}

#[tokio::test]
async fn the_model_is_asked_again_and_nothing_else_runs_again() {
    let server = Server::start([both(), failure(), failure(), failure(), Reply::says(&["done"])]).await;
    let (messages, session) = with_result(&server).await;
    let mut turns = Vec::new();
    for _ in 0..3 {
        let failed = server.chat(asks(&messages)).await;
        assert_eq!(failed.refusal(502).0, "LLM_PROVIDER_ERROR");
        assert_eq!(failed.header("x-session-id"), session.as_str().unwrap());
        turns.push(failed.header("x-message-id").to_owned());
    }
    let done = told(&server.chat(asks(&messages)).await);
    assert_eq!((&done.0, &done.1), (&json!("done"), &session));
    turns.push(done.2.as_str().unwrap().to_owned());
    turns.dedup();
    assert_eq!(turns.len(), 4, "each try is a turn");
    // The calculator's result is there, and it was not run again.
    let first = given(&server, 1);
    assert!(
        matches!(&first[..], [_, _, Message::Tool { .. }, Message::Tool { content, .. }] if content.text() == "42")
    );
    assert!((2..5).all(|at| given(&server, at) == first));
    // An answer is shown again.
    assert_eq!(told(&server.chat(asks(&messages)).await), done);
    let mut named = asks(&messages);
    named["session_id"] = session.clone();
    assert_eq!(told(&server.chat(named).await), done);
    assert_eq!((server.script.asked().len(), server.sessions().await), (5, 1));
    let session = session.as_str().unwrap().parse().unwrap();
    let said = server.engine.conversation(&TenantId::local(), &session).await.unwrap();
    assert_eq!(said.len(), 5, "history has everything once: {said:?}");
}

#[tokio::test]
async fn a_session_can_be_named_and_the_answer_come_in_chunks() {
    let server = Server::start([call(), failure(), Reply::says(&["do", "ne"]), Reply::says(&["next"])]).await;
    let (messages, session) = with_result(&server).await;
    let mut body = asks(&messages);
    body["stream"] = json!(true);
    body["session_id"] = session.clone();
    let chunks = server.chat(body.clone()).await.chunks();
    assert_eq!(chunks.last().unwrap()["error"]["code"], "LLM_PROVIDER_ERROR");
    let chunks = server.chat(body).await.chunks();
    assert_eq!((text(&chunks), &chunks[0]["session_id"]), ("done".to_owned(), &session));
    let next = server.chat(json!({ "messages": [user("more")], "session_id": session })).await;
    assert_eq!(told(&next).0, "next");
    assert_eq!(given(&server, 3).len(), 5);
}

#[tokio::test]
async fn what_was_half_said_when_it_was_stopped_is_void() {
    let gate = Arc::new(Semaphore::new(0));
    // Half an answer, and a step after it that does not come.
    let half = Reply::calls("Well,", &[("calculator", json!({ "expression": "1+1" }))]);
    let server = Server::start([call(), half, Reply::says(&["never"]).behind(&gate), Reply::says(&["done"])]).await;
    let (messages, session) = with_result(&server).await;
    let (asking, body) = (server.clone(), asks(&messages));
    let asking = tokio::spawn(async move { asking.chat(body).await });
    while server.script.asked().len() < 3 {
        tokio::task::yield_now().await;
    }
    let id = session.as_str().unwrap().parse().unwrap();
    server.engine.stop(&TenantId::local(), &id, None, None).await.unwrap();
    assert_eq!(asking.await.unwrap().refusal(409).0, "turn_stopped");
    let done = told(&server.chat(asks(&messages)).await);
    assert_eq!((done.0, done.1), (json!("done"), session));
    assert_eq!(given(&server, 3), given(&server, 2), "with what was calculated");
}

#[tokio::test]
async fn those_who_try_at_once_share_a_turn() {
    let gate = Arc::new(Semaphore::new(0));
    let server = Server::start([call(), failure(), Reply::says(&["done"]).behind(&gate)]).await;
    let (messages, _) = with_result(&server).await;
    server.chat(asks(&messages)).await.refusal(502);
    let ask = || {
        let (server, body) = (server.clone(), asks(&messages));
        tokio::spawn(async move { told(&server.chat(body).await) })
    };
    let mut asking: Vec<_> = (0..8).map(|_| ask()).collect();
    while server.script.asked().len() < 3 {
        tokio::task::yield_now().await;
    }
    // And one who comes while the turn runs.
    asking.push(ask());
    gate.add_permits(1);
    let mut answers = Vec::new();
    for asked in asking {
        answers.push(asked.await.unwrap());
    }
    assert_eq!(answers[0].0, "done");
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!((server.script.asked().len(), server.sessions().await), (3, 1));
}

#[tokio::test]
async fn every_request_keeps_its_own_answer() {
    let server = Server::start([call(), failure(), call(), failure(), Reply::says(&["done"])]).await;
    let (first, _) = with_result(&server).await;
    server.chat(asks(&first)).await.refusal(502);
    let called = server.chat(asks(&first)).await.json(200);
    let second = followed(&first, &called);
    server.chat(asks(&second)).await.refusal(502);
    // The turn has failed, but not with these results.
    assert_eq!(server.chat(asks(&first)).await.json(200), called);
    let done = told(&server.chat(asks(&second)).await);
    assert_eq!(done.0, "done");
    assert_eq!(server.chat(asks(&first)).await.json(200), called);
    assert_eq!(told(&server.chat(asks(&second)).await), done);
    assert_eq!((server.script.asked().len(), server.sessions().await), (5, 1));
    // Others are still refused.
    let mut other = second.clone();
    other.last_mut().unwrap()["content"] = json!("other");
    assert_eq!(server.chat(asks(&other)).await.refusal(409).0, "tool_call_answered");
}

#[tokio::test]
async fn a_session_that_has_gone_on_is_left_alone() {
    let server = Server::start([call(), failure(), Reply::says(&["next"]), Reply::says(&["anew"])]).await;
    let (messages, session) = with_result(&server).await;
    server.chat(asks(&messages)).await.refusal(502);
    server.chat(json!({ "messages": [user("never mind")], "session_id": session })).await.json(200);
    let mut named = asks(&messages);
    named["session_id"] = session.clone();
    let refused = server.chat(named).await;
    assert_eq!(refused.refusal(409).0, "turn_superseded");
    assert_eq!(refused.header("x-should-retry"), "false");
    let anew = told(&server.chat(asks(&messages)).await);
    assert_eq!(anew.0, "anew");
    assert_ne!(anew.1, session);
}
