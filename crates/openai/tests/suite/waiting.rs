//! Turns that wait for somebody else than the client.

use everturn_core::{FormId, TenantId};
use everturn_engine::{Reply as FormReply, Submit};
use serde_json::{Value, json};

use super::harness::{Answer, Reply, Server, finish, message, result, text, tool, user};

fn form() -> (&'static str, Value) {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    ("request_form", json!({ "kind": "clarify", "title": "Which city?", "schema": schema }))
}

/// A person answers the form that a session waits for.
async fn answer_form(server: &Server, session: &str, form: &str) {
    let value = everturn_core::Json::parse(r#"{"city":"Oslo"}"#).unwrap();
    let form: FormId = form.parse().unwrap();
    let reply = FormReply { form: Some(form), value };
    let session = session.parse().unwrap();
    server.engine.submit(Submit::reply(TenantId::local(), Default::default(), session, reply, None)).await.unwrap();
}

/// What the error of a turn that waits says of it.
fn waiting(answer: &Answer) -> Value {
    assert_eq!(answer.header("x-should-retry"), "false");
    assert_eq!(answer.refusal(409).0, "waiting_for_person");
    answer.json(409)["error"]["waiting"].clone()
}

/// A half answer does not look whole.
#[tokio::test]
async fn an_answer_in_one_piece_does_not_wait_for_ever() {
    let server = Server::start([Reply::calls("One moment.", &[form()]), Reply::says(&["Oslo it is"])]).await;
    let waiting = waiting(&server.chat(json!({ "messages": [user("hi")] })).await);
    let path = waiting["stream"].as_str().unwrap().to_owned();
    // The rest can be read there, once a person has answered.
    answer_form(&server, waiting["session_id"].as_str().unwrap(), waiting["form_ids"][0].as_str().unwrap()).await;
    let rest: Answer = server.get(&path).await;
    let chunks = rest.chunks();
    assert_eq!((text(&chunks), finish(&chunks)), ("\n\nOslo it is".to_owned(), "stop".to_owned()));
}

/// The AI SDK repeats every 409, whatever `x-should-retry` says.
#[tokio::test]
async fn the_ai_sdk_is_kept_from_asking_again() {
    let server = Server::start([Reply::calls("", &[form()]), Reply::calls("", &[form()])]).await;
    let body = json!({ "messages": [user("hi")] }).to_string();
    let json = ("content-type", "application/json");
    let agent = ("user-agent", "ai/6.0.1 ai-sdk/provider-utils/4.0.0 runtime/node.js/22");
    let answer = server.send("POST", "/v1/chat/completions", &[json, agent], body.clone()).await;
    assert_eq!(answer.refusal(422).0, "waiting_for_person");
    let other = ("user-agent", "OpenAI/JS 6.1.0");
    assert_eq!(
        server.send("POST", "/v1/chat/completions", &[json, other], body).await.refusal(409).0,
        "waiting_for_person"
    );
}

#[tokio::test]
async fn a_stream_does_not_wait_for_ever() {
    let server = Server::start([Reply::calls("One moment.", &[form()])]).await;
    let answer = server.chat(json!({ "messages": [user("hi")], "stream": true })).await;
    let stream = String::from_utf8(answer.body.to_vec()).unwrap();
    let last = stream.trim_end().rsplit("\n\n").next().unwrap();
    let error: Value = serde_json::from_str(last.rsplit_once("data: ").unwrap().1).unwrap();
    assert_eq!(error["error"]["code"], "waiting_for_person", "{stream}");
    assert!(!stream.contains("[DONE]"), "{stream}");
}

#[tokio::test]
async fn a_stream_stays_open() {
    let server = Server::start([Reply::calls("", &[form()]), Reply::says(&["Oslo"])]).await;
    let body = json!({ "messages": [user("hi")], "stream": true }).to_string();
    let response = server.open("POST", "/v1/chat/completions", &[("content-type", "application/json")], body).await;
    let session = response.headers()["x-session-id"].to_str().unwrap().to_owned();
    let id = session.parse().unwrap();
    let form = loop {
        let record = server.engine.session(&TenantId::local(), &id).await.unwrap().unwrap();
        if let Some(everturn_store::TurnStatus::Waiting(wait)) = record.last_turn.map(|turn| turn.status) {
            break FormId::of_call(&wait.calls[0].id);
        }
        tokio::task::yield_now().await;
    };
    answer_form(&server, &session, form.as_str()).await;
    let bytes = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    let stream = String::from_utf8(bytes.to_vec()).unwrap();
    assert!(stream.contains("\n\n: the turn waits for a person\nid: "), "{stream}");
    assert!(stream.contains("\"content\":\"Oslo\"") && stream.ends_with("data: [DONE]\n\n"), "{stream}");
    assert_eq!(stream.matches("\"role\":\"assistant\"").count(), 1);
}

#[tokio::test]
async fn a_person_and_the_client_at_once() {
    let server = Server::start([Reply::calls("", &[form(), ("a", json!({}))]), Reply::says(&["both"])]).await;
    let body = json!({ "messages": [user("hi")], "tools": [tool("a")] });
    let completion = server.chat(body).await.json(200);
    let calls = message(&completion)["tool_calls"].as_array().unwrap().clone();
    assert_eq!(calls.len(), 1, "the client is shown its own calls only");
    let messages = json!([user("hi"), message(&completion), result(&calls[0], "ok")]);
    let answer = server.chat(json!({ "messages": messages, "tools": [tool("a")] })).await;
    // The form was opened before this request.
    let waiting = waiting(&answer);
    let session = completion["session_id"].as_str().unwrap();
    let id = session.parse().unwrap();
    let record = server.engine.session(&TenantId::local(), &id).await.unwrap().unwrap();
    let Some(everturn_store::TurnStatus::Waiting(wait)) = record.last_turn.map(|turn| turn.status) else {
        panic!("it waits")
    };
    assert_eq!(waiting["form_ids"][0], FormId::of_call(&wait.calls[0].id).as_str());
    answer_form(&server, session, waiting["form_ids"][0].as_str().unwrap()).await;
    let path = waiting["stream"].as_str().unwrap().to_owned();
    assert_eq!(text(&server.get(&path).await.chunks()), "both");
}

#[tokio::test]
async fn short_pauses_are_waited_for() {
    let server = Server::start([Reply::calls("", &[("wait", json!({ "seconds": 0 }))]), Reply::says(&["awake"])]).await;
    let completion = server.chat(json!({ "messages": [user("hi")] })).await.json(200);
    assert_eq!(message(&completion)["content"], "awake");
}
