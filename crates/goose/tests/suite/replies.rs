//! `/reply` in both forms.

use serde_json::{Value, json};

use super::harness::Server;

fn says(session: &str, text: &str) -> Value {
    json!({ "session_id": session, "user_message": { "role": "user", "content": [{ "type": "text", "text": text }] } })
}

#[tokio::test]
async fn a_session_is_made_by_its_first_message_and_shared_by_both_doors() {
    let server = Server::start().await;
    let first = server.post("/reply", says("session-abc123", "what is 2*3?")).await;
    assert_eq!(first.headers["x-session-id"], "session-abc123");
    let (text, reason) = first.said();
    assert!(text.ends_with("`calculator` says “6”."), "{text}");
    assert_eq!(reason, "stop");
    assert_eq!(first.events()[0], json!({ "type": "Ping" }));
    let second = server.post("/goose/reply", says("session-abc123", "what is 2*4?")).await;
    let (_, second) = (second.said(), second.events());
    let session = server.get("/goose/sessions/session-abc123").await.json(200);
    assert_eq!(session["message_count"], 8);
    let used = &second.last().unwrap()["token_state"];
    assert_eq!(session["accumulated_total_tokens"], used["accumulatedTotalTokens"]);
    let ids: Vec<_> = session["conversation"].as_array().unwrap().iter().map(|message| &message["id"]).collect();
    // What was streamed has the same names as what is kept.
    for event in second.iter().filter(|event| event["type"] == "Message") {
        assert!(ids.contains(&&event["message"]["id"]), "{event}");
    }
}

#[tokio::test]
async fn the_same_message_again_is_the_same_turn() {
    let server = Server::start().await;
    let mut message = says("s", "hello");
    message["user_message"]["id"] = json!("k3j9x0ab");
    let first = server.post("/reply", message.clone()).await;
    let again = server.post("/goose/reply", message.clone()).await;
    assert_eq!(first.headers["x-message-id"], again.headers["x-message-id"]);
    assert_eq!(first.said(), again.said());
    message["user_message"]["content"] = json!("other");
    let refused = server.post("/reply", message).await.message(409);
    assert!(refused.contains("k3j9x0ab"), "{refused}");
}

/// Desktops make up ids at random, scripts count: two people without a session may well choose the same.
#[tokio::test]
async fn an_id_without_a_session_is_not_shared() {
    let server = Server::start().await;
    let message = json!({ "user_message": { "id": "1", "role": "user", "content": "hello" } });
    let mut seen = std::collections::BTreeSet::new();
    for path in ["/reply", "/reply", "/goose/reply"] {
        let answer = server.post(path, message.clone()).await;
        assert_eq!(answer.said().1, "stop");
        assert!(seen.insert(answer.headers["x-session-id"].clone()), "the session of somebody else: {answer:?}");
        assert!(seen.insert(answer.headers["x-message-id"].clone()), "the turn of somebody else: {answer:?}");
    }
    // What somebody else said with that id is no trouble either.
    let other = json!({ "user_message": { "id": "1", "role": "user", "content": "what is 2*3?" } });
    assert!(server.post("/reply", other).await.said().0.contains('6'));
    // Within a session it is as it was.
    let mut named = says("s", "hello");
    named["user_message"]["id"] = json!("1");
    let first = server.post("/reply", named.clone()).await;
    assert_eq!(first.headers["x-message-id"], server.post("/reply", named).await.headers["x-message-id"]);
}

#[tokio::test]
async fn only_admins_override_history() {
    let server = Server::start().await;
    server.post("/reply", says("s", "hello")).await.said();
    let mut message = says("s", "what time is it?");
    let before = json!([{ "role": "user", "content": "Previous message" }, { "role": "assistant", "content": "Previous response" }]);
    message["override_conversation"] = before;
    assert!(server.post("/reply", message.clone()).await.message(403).contains("admin"));
    let events = server.by("admin").post("/reply", message).await.events();
    assert_eq!(events[1]["type"], "UpdateConversation");
    assert_eq!(events[1]["conversation"].as_array().unwrap().len(), 3);
    let session = server.get("/goose/sessions/s").await.json(200);
    assert_eq!(session["conversation"][1]["content"][0]["text"], "Previous response");
    assert_eq!(session["message_count"], 6);
    let mut anew = says("s", "hello");
    anew["override_conversation"] = json!([]);
    server.by("admin").post("/goose/reply", anew).await.said();
    assert_eq!(server.get("/goose/sessions/s").await.json(200)["message_count"], 2);
}

#[tokio::test]
async fn ends_are_honest() {
    let server = Server::start().await;
    assert_eq!(server.post("/reply", says("a", "max tokens")).await.said().1, "length");
    let refused = server.post("/reply", says("b", "refuse")).await;
    assert_eq!(refused.said().1, "error");
    let events = refused.events();
    assert_eq!(events[events.len() - 2]["type"], "Error");
    assert!(refused.body.contains("\nid: ") && refused.body.contains(".2\ndata: {\"type\":\"Finish\""));
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let server = Server::start().await;
    let refused = async |body: Value, status| server.post("/reply", body).await.message(status);
    assert_eq!(refused(json!({}), 422).await, "user_message is missing");
    assert!(refused(says("a b", "x"), 422).await.starts_with("session_id: "));
    assert!(refused(json!([]), 400).await.contains("expected an object"));
    assert!(refused(json!({ "user_message": 7 }), 400).await.contains("at user_message"));
    let image = json!([{ "type": "image", "data": "AAAA", "mimeType": "image/png" }]);
    let blind = json!({ "agent": "blind", "session_id": "s", "user_message": { "content": image } });
    assert!(refused(blind, 422).await.contains("takes no images"));
    let nobody = json!({ "agent": "nobody", "user_message": { "content": "x" } });
    assert!(refused(nobody, 422).await.contains("demo"));
    server.post("/reply", says("s", "hello")).await.said();
    let other = json!({ "agent": "blind", "session_id": "s", "user_message": { "content": "x" } });
    assert!(refused(other, 409).await.contains("keeps its agent"));
    assert!(server.by("reader").post("/reply", says("s", "x")).await.message(403).contains("chat"));
    assert!(server.by("nobody").post("/reply", says("s", "x")).await.message(401).contains("not valid"));
    assert!(server.by("stranger").get("/goose/sessions/s").await.message(404).contains("not found"));
    server.call("DELETE", "/goose/sessions/s", None).await;
    assert!(server.post("/reply", says("s", "x")).await.message(410).contains("deleted"));
}

#[tokio::test]
async fn a_question_is_answered_by_a_message() {
    let server = Server::start().await;
    let asking = {
        let server = server.clone();
        tokio::spawn(async move { server.post("/reply", says("s", "ask me for a colour")).await })
    };
    let form = loop {
        let forms = server.engine.forms(&"acme".parse().unwrap(), &Default::default(), None, 1).await.unwrap();
        match forms.into_iter().next() {
            Some(form) => break form.opened.form_id,
            None => tokio::task::yield_now().await,
        }
    };
    let answer = |id: &str, data: Value| {
        let data = json!({ "actionType": "elicitationResponse", "id": id, "user_data": data });
        json!({ "session_id": "s", "user_message": { "content": [{ "type": "actionRequired", "data": data }] } })
    };
    server.post("/reply", answer("form_none", json!({}))).await.message(404);
    server.post("/reply", answer("no form", json!({}))).await.message(404);
    // The form is listed a moment before the turn rests.
    let wrong = server.post("/reply", answer(form.as_str(), json!({ "colour": 7 }))).await.message(422);
    assert!(wrong.contains("colour"), "{wrong}");
    let (text, reason) = server.post("/goose/reply", answer(form.as_str(), json!({ "colour": "red" }))).await.said();
    assert!(text.contains("red") && reason == "stop", "{text}");
    // Who asked first has seen it all: the stream stayed open.
    let first = asking.await.unwrap();
    assert!(first.body.contains("elicitation_request"));
    assert!(first.said().0.contains("red"));
    server.post("/reply", answer(form.as_str(), json!({ "colour": "red" }))).await.message(409);
}
