//! What servers ask: a person, or a model.

use serde_json::{Value, json};

use super::world::{Frame, Turn, World, kinds, only, play, results, told};
use crate::suite::harness::{Answer, Client, Reply, eventually, script};

fn city() -> Value {
    let city = json!({ "type": "string", "title": "City", "minLength": 2 });
    json!({
        "message": "Which city?",
        "requestedSchema": { "type": "object", "properties": { "city": city }, "required": ["city"] },
    })
}

/// Begins a turn whose tool asks this, and gives what the stream says of the form.
#[track_caller]
fn ask(world: &World, name: &str) -> (Turn, Value) {
    script(name, [Reply::calls(&[("box__ask", city())]), Reply::says(&["Thanks."])]);
    let turn = play(&world.client(), name);
    let mut reader = turn.open();
    let asks = Frame::read(&reader.until("form_request")).unwrap();
    (turn, asks.data)
}

fn answer(turn: &Turn, body: Value) -> Answer {
    let mut body = body;
    body["session_id"] = turn.session.as_str().into();
    turn.client.send("POST", "/api/v1/sessions/stream", &body.to_string())
}

#[track_caller]
fn form(client: &Client, id: &Value) -> Value {
    let shown = client.send("GET", &format!("/api/v1/forms/{}", id.as_str().unwrap()), "");
    assert_eq!(shown.status, 200, "{shown:?}");
    shown.json()
}

#[test]
fn a_question_is_a_form_of_a_turn_that_runs() {
    let world = World::with_box("", "timeout = '500ms'", "");
    let (turn, asks) = ask(&world, "mcp-ask");
    assert_eq!(asks["form_kind"], "clarify");
    let payload = &asks["payload"];
    assert_eq!(payload["title"], "Which city?");
    assert_eq!(payload["schema"]["required"], json!(["city"]), "{payload}");
    assert!(payload["expires_at"].is_string(), "{payload}");
    let client = world.client();
    let open = client.send("GET", "/api/v1/forms?status=open", "").json();
    assert_eq!(open["forms"].as_array().unwrap().len(), 1, "{open}");
    assert_eq!((&open["forms"][0]["form_id"], &open["forms"][0]["status"]), (&asks["form_id"], &json!("open")));
    assert_eq!(turn.shown()["status"], "running", "it does not rest");

    let refused = answer(&turn, json!({ "form_answer": { "city": "" } }));
    assert_eq!((refused.status, &refused.json()["detail"]["code"]), (422, &json!("FORM_ANSWER_INVALID")));
    assert!(!refused.json()["detail"]["problems"].as_array().unwrap().is_empty(), "{refused:?}");
    assert_eq!(form(&client, &asks["form_id"])["status"], "open");
    // A person may take longer than the tool: the time that is theirs does not count.
    let since = std::time::Instant::now();
    eventually("longer than a call may take", || (since.elapsed().as_millis() > 600).then_some(()));
    let accepted = answer(&turn, json!({ "form_answer": { "city": "Oslo" } }));
    assert_eq!((accepted.status, &accepted.json()["kind"]), (202, &json!("form_answer")), "{accepted:?}");
    assert_eq!(accepted.json()["message_id"], turn.message.as_str());
    let frames = turn.frames();
    assert_eq!(kinds(&frames), ["start", "tool_started", "form_request", "tool_completed", "delta", "complete"]);
    let heard: Value = serde_json::from_str(&only("mcp-ask")).unwrap();
    assert_eq!(heard, json!({ "action": "accept", "content": { "city": "Oslo" } }));
    assert!(results(&frames)[0].2.contains("Oslo"), "{frames:?}");
    let closed = form(&client, &asks["form_id"]);
    assert_eq!((&closed["status"], &closed["answer"]), (&json!("answered"), &json!({ "city": "Oslo" })));
    let late = answer(&turn, json!({ "form_id": asks["form_id"], "form_answer": { "city": "Rome" } }));
    assert_eq!((late.status, &late.json()["detail"]["code"]), (409, &json!("FORM_CLOSED")), "{late:?}");
}

/// Chat completions have no word for a form: their clients get an error that names it, also in a stream.
#[test]
fn a_question_is_an_error_of_chat_completions() {
    let world = World::with_box("", "", "[openai]\nwait = '300ms'\n");
    let client = world.client();
    for stream in [false, true] {
        let name = format!("mcp-asks-openai-{stream}");
        script(&name, [Reply::calls(&[("box__ask", city())]), Reply::says(&["Thanks."])]);
        let messages = json!([{ "role": "user", "content": format!("play {name}") }]);
        let body = json!({ "model": "boxer", "stream": stream, "messages": messages }).to_string();
        let told = client.send("POST", "/v1/chat/completions", &body);
        let error = if stream {
            let frame = told.body.lines().rfind(|line| line.starts_with("data: ")).unwrap();
            serde_json::from_str::<Value>(&frame[6..]).unwrap()["error"].clone()
        } else {
            assert_eq!((told.status, told.header("x-should-retry")), (409, "false"), "{told:?}");
            told.json()["error"].clone()
        };
        assert_eq!(error["code"], "waiting_for_person", "{told:?}");
        let open = client.send("GET", "/api/v1/forms?status=open", "").json();
        assert_eq!(error["waiting"]["form_ids"], json!([open["forms"][0]["form_id"]]), "{error}");
        // The answer that it says how to give is taken.
        let session = &error["waiting"]["session_id"];
        let answer = json!({ "session_id": session, "form_answer": { "city": "Oslo" } });
        assert_eq!(client.send("POST", "/api/v1/sessions/stream", &answer.to_string()).status, 202);
        eventually("the tool hears it", || told_all(&name).contains("Oslo").then_some(()));
    }
}

/// What the model was told of its calls, once it was asked again.
fn told_all(name: &str) -> String {
    if crate::suite::harness::asked(name).len() < 2 { String::new() } else { told(name).join("\n") }
}

#[test]
fn a_question_that_nobody_answers() {
    let world = World::with_box("question_expiry = '300ms'", "", "");
    let (turn, asks) = ask(&world, "mcp-unasked");
    assert_eq!(turn.complete()["final_response"], "Thanks.");
    assert_eq!(only("mcp-unasked"), r#"{"action": "cancel"}"#);
    assert_eq!(form(&world.client(), &asks["form_id"])["status"], "expired");
    let late = answer(&turn, json!({ "form_id": asks["form_id"], "form_answer": { "city": "Rome" } }));
    assert_eq!((late.status, &late.json()["detail"]["code"]), (409, &json!("FORM_CLOSED")), "{late:?}");
}

#[test]
fn a_question_of_a_turn_that_is_stopped() {
    let world = World::new();
    let (turn, asks) = ask(&world, "mcp-ask-stopped");
    let stopped = turn.client.send("POST", &format!("/api/v1/sessions/{}/stop", turn.session), "");
    assert_eq!(stopped.status, 204);
    assert_eq!(turn.shown()["status"], "cancelled");
    eventually("the form is closed", || {
        (form(&world.client(), &asks["form_id"])["status"] == "cancelled").then_some(())
    });
    assert_eq!(world.client().send("GET", "/api/v1/forms?status=open", "").json()["forms"], json!([]));
}

/// A crash takes the one who asked with it.
#[test]
fn a_question_does_not_outlive_a_crash() {
    let mut world = World::new();
    let (turn, asks) = ask(&world, "mcp-ask-crash");
    world.crash();
    let turn = Turn { client: world.client(), ..turn };
    assert_eq!(turn.complete()["final_response"], "Thanks.");
    assert!(only("mcp-ask-crash").contains("Whether it had its effect is unknown"), "{}", only("mcp-ask-crash"));
    assert_eq!(form(&world.client(), &asks["form_id"])["status"], "cancelled");
}

/// One that may run again asks again, and hears the answer to its second question.
#[test]
fn a_tool_that_may_run_again_asks_again() {
    let mut world = World::with_box("", "effects = { ask = 'read_only' }", "");
    let (turn, first) = ask(&world, "mcp-ask-again");
    world.crash();
    let turn = Turn { client: world.client(), ..turn };
    // The first question is seen once more, and closed.
    let mut reader = turn.open();
    assert_eq!(Frame::read(&reader.until("form_request")).unwrap().data, first);
    let second = Frame::read(&reader.until("form_request")).unwrap().data;
    let accepted = answer(&turn, json!({ "form_id": second["form_id"], "form_answer": { "city": "Rome" } }));
    assert_eq!(accepted.status, 202, "{accepted:?}");
    assert_eq!(turn.complete()["final_response"], "Thanks.");
    assert!(only("mcp-ask-again").contains("Rome"), "{}", only("mcp-ask-again"));
    let open = world.client().send("GET", "/api/v1/forms?status=open", "").json();
    assert_eq!(open["forms"], json!([]));
    assert_eq!(form(&world.client(), &second["form_id"])["answer"], json!({ "city": "Rome" }));
}

#[test]
fn models_are_not_lent() {
    let world = World::new();
    world.call("mcp-sample", &[("box__sample", json!({}))]);
    assert_eq!(
        told("mcp-sample"),
        [
            "my question to a model was answered: sampling is not offered: this client does not lend its models to servers"
        ]
    );
}
