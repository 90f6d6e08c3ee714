//! Sessions under `/goose`.

use everturn_core::{
    Message, ToolRef,
    submission::{OnBusy, Submission},
};
use everturn_engine::{SessionUpdate, Started, Submit, Target};
use serde_json::{Value, json};

use super::harness::Server;

fn says(session: &str, text: &str) -> Value {
    json!({ "session_id": session, "user_message": { "content": text } })
}

#[tokio::test]
async fn sessions_are_listed_named_and_deleted() {
    let server = Server::start().await;
    assert_eq!(server.get("/goose/status").await.body, "ok");
    for session in ["a", "b", "c"] {
        server.post("/reply", says(session, "hello")).await.said();
    }
    let page = server.get("/goose/sessions?limit=2").await.json(200);
    assert_eq!(page["sessions"].as_array().unwrap().len(), 2);
    let after = page["next"].as_str().unwrap();
    let rest = server.get(&format!("/goose/sessions?limit=2&after={after}")).await.json(200);
    assert_eq!((&rest["sessions"][0]["id"], rest.get("next")), (&json!("a"), None));
    assert_eq!(rest["sessions"][0]["message_count"], 2);
    server.call("PUT", "/goose/sessions/a/name", json!({ "name": " Mine " })).await;
    assert_eq!(server.get("/goose/sessions/a").await.json(200)["name"], "Mine");
    server.call("PUT", "/goose/sessions/a/name", json!({ "name": "" })).await.message(400);
    server.call("PUT", "/goose/sessions/none/name", json!({ "name": "x" })).await.message(404);
    assert_eq!(server.call("DELETE", "/goose/sessions/a", None).await.status, 200);
    server.call("DELETE", "/goose/sessions/a", None).await.message(404);
    let resumed =
        server.post("/goose/agent/resume", json!({ "session_id": "b", "load_model_and_extensions": true })).await;
    let resumed = resumed.json(200);
    assert_eq!((&resumed["session"]["id"], &resumed["extension_results"]), (&json!("b"), &json!([])));
}

#[tokio::test]
async fn a_fork_ends_before_a_message() {
    let server = Server::start().await;
    for text in ["hello", "what is 2*3?"] {
        server.post("/reply", says("s", text)).await.said();
    }
    let conversation = server.get("/goose/sessions/s").await.json(200)["conversation"].clone();
    let id = conversation[2]["id"].clone();
    let fork = json!({ "copy": true, "truncate": true, "message_id": id });
    let fork = server.post("/goose/sessions/s/fork", fork).await.json(200)["sessionId"].clone();
    let forked = server.get(&format!("/goose/sessions/{}", fork.as_str().unwrap())).await.json(200);
    assert_eq!(forked["conversation"].as_array().unwrap().len(), 2);
    let copy = server.post("/goose/sessions/s/fork", json!({ "copy": true, "truncate": false })).await.json(200);
    let copy = server.get(&format!("/goose/sessions/{}", copy["sessionId"].as_str().unwrap())).await.json(200);
    assert_eq!(copy["conversation"].as_array().unwrap().len(), 6);
    let edit = json!({ "copy": false, "truncate": true, "timestamp": 0 });
    assert_eq!(server.post("/goose/sessions/s/fork", edit).await.json(200)["sessionId"], "s");
    assert_eq!(server.get("/goose/sessions/s").await.json(200)["conversation"], json!([]));
    server.post("/goose/sessions/s/fork", json!({ "truncate": true })).await.message(400);
    server.post("/goose/sessions/s/fork", json!({ "truncate": true, "message_id": "x" })).await.message(404);
    server.post("/goose/sessions/none/fork", json!({ "copy": true })).await.message(404);
}

#[tokio::test]
async fn what_is_exported_can_be_imported() {
    let server = Server::start().await;
    server.post("/reply", says("s", "what is 2*3?")).await.said();
    let text: String = serde_json::from_str(&server.get("/goose/sessions/s/export").await.body).unwrap();
    assert!(text.starts_with("{\n  \"id\": \"s\""), "{text}");
    let imported = server.by("stranger").post("/goose/sessions/import", json!({ "json": text })).await.json(200);
    let said = |session: &Value| {
        let messages = session["conversation"].as_array().unwrap().iter();
        messages.map(|message| (message["role"].clone(), message["content"].clone())).collect::<Vec<_>>()
    };
    let original: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(said(&imported), said(&original));
    let bare = server.post("/goose/sessions/import", original.clone()).await.json(200);
    assert_eq!(said(&bare), said(&original));
    let released = include_str!("../fixtures/released-session.json");
    let released = server.post("/goose/sessions/import", json!({ "json": released })).await.json(200);
    assert_eq!((&released["name"], &released["recipe"]), (&json!("Tidy the notes"), &Value::Null));
    assert_eq!(released["conversation"][0]["created"], 1_772_618_400);
    // The agent goes on from there.
    server.post("/reply", says(released["id"].as_str().unwrap(), "what is 2*3?")).await.said();
    server.post("/goose/sessions/import", json!({ "json": "{}" })).await.message(422);
    server.post("/goose/sessions/import", json!({ "json": "nonsense" })).await.message(400);
}

#[tokio::test]
async fn a_request_is_taken_once_and_told_in_the_session() {
    let server = Server::start().await;
    let id = server.post("/goose/agent/start", json!({})).await.json(200)["id"].as_str().unwrap().to_owned();
    let request = "0197f2ab-0000-7abc-8def-0123456789ab";
    let body = json!({ "request_id": request, "user_message": { "role": "user", "content": "hello" } });
    let path = format!("/goose/sessions/{id}/reply");
    assert_eq!(server.post(&path, body.clone()).await.json(200), json!({ "request_id": request }));
    assert_eq!(server.post(&path, body.clone()).await.json(200), json!({ "request_id": request }));
    let turns =
        async || server.engine.turns_below(&"acme".parse().unwrap(), &id.parse().unwrap(), None, 9).await.unwrap();
    let turn = loop {
        match turns().await.as_slice() {
            [turn] if turn.status.is_ended() => break turn.id.clone(),
            [_] => tokio::task::yield_now().await,
            other => panic!("{other:?}"),
        }
    };
    let mut reader = server
        .engine
        .read_session(
            &"acme".parse().unwrap(),
            &id.parse().unwrap(),
            everturn_goose::session_projection(),
            Some(format!("{turn}:1").parse().unwrap()),
        )
        .await
        .unwrap();
    let frames = reader.next().await.unwrap().unwrap();
    let frames = String::from_utf8_lossy(&frames);
    assert!(frames.starts_with(&format!("id: {turn}:")), "{frames}");
    assert!(frames.contains(&format!("\"chat_request_id\":\"{request}\"")), "{frames}");
    let no_uuid = json!({ "request_id": "1", "user_message": { "content": "x" } });
    assert_eq!(server.post(&path, no_uuid).await.message(400), "request_id must be a valid UUID");
    server.post("/goose/sessions/none/reply", body).await.message(404);
    assert_eq!(
        server.post(&format!("/goose/sessions/{id}/cancel"), json!({ "request_id": request })).await.status,
        200
    );
    server.post("/goose/sessions/none/cancel", json!({ "request_id": request })).await.message(404);
    server.get("/goose/sessions/none/events").await.message(404);
}

/// A turn that waits for a word on the calculator.
async fn asking(server: &Server, session: &str) -> (Started, String) {
    let tools = Some(vec![ToolRef { name: "calculator".to_owned(), trust: false }]);
    let submit = Submit {
        tenant: "acme".parse().unwrap(),
        account: Default::default(),
        target: Target::Named { session: session.parse().unwrap(), agent: "demo".to_owned() },
        update: SessionUpdate { tools, ..SessionUpdate::default() },
        submission: Submission::Begin(vec![Message::user("what is 2*3?")]),
        reply: None,
        on_busy: OnBusy::Supersede,
        begins_history: false,
        request: None,
        options: everturn_core::ModelOptions::default(),
        options_of_answers: false,
        key: None,
    };
    let started = server.engine.submit(submit).await.unwrap();
    loop {
        let said = server.engine.conversation(&"acme".parse().unwrap(), &started.session).await.unwrap();
        let call = said.iter().find_map(|said| said.message.tool_uses().next().map(|call| call.id.to_string()));
        let forms = server.engine.forms(&"acme".parse().unwrap(), &Default::default(), None, 1).await.unwrap();
        match (call, forms.first()) {
            (Some(call), Some(form)) if form.turn == started.turn => return (started, call),
            _ => tokio::task::yield_now().await,
        }
    }
}

#[tokio::test]
async fn a_word_on_a_tool_counts_once() {
    let server = Server::start().await;
    let path = "/goose/action-required/tool-confirmation";
    let (started, call) = asking(&server, "s").await;
    let word = |action: &str| json!({ "id": call, "action": action, "principalType": "Tool", "sessionId": "s" });
    server.by("stranger").post(path, word("allow_once")).await.message(404);
    server.by("reader").post(path, word("allow_once")).await.message(403);
    server.post(path, word("perhaps")).await.message(422);
    server.post(path, json!({ "id": call, "action": "allow_once", "sessionId": "other" })).await.message(404);
    assert_eq!(server.post(path, word("allow_once")).await.json(200), json!({}));
    assert_eq!(server.post(path, word("allow_once")).await.json(200), json!({}));
    assert!(server.post(path, word("deny_once")).await.message(409).contains("allowed before"));
    let turn = async |started: &Started| {
        loop {
            let turn =
                server.engine.turn(&"acme".parse().unwrap(), &started.session, &started.turn).await.unwrap().unwrap();
            if turn.status.is_ended() {
                break turn;
            }
            tokio::task::yield_now().await;
        }
    };
    assert!(turn(&started).await.messages.iter().any(|message| format!("{message:?}").contains("Text(\"6\")")));
    let (started, call) = asking(&server, "t").await;
    let cancel = json!({ "id": call, "action": "cancel", "sessionId": "t" });
    assert_eq!(server.post(path, cancel.clone()).await.json(200), json!({}));
    assert!(format!("{:?}", turn(&started).await.status).contains("UserStop"));
    assert_eq!(server.post(path, cancel).await.json(200), json!({}));
    let late = json!({ "id": call, "action": "allow_once", "sessionId": "t" });
    assert!(server.post(path, late).await.message(409).contains("cancelled"));
}
