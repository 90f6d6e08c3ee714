//! `Idempotency-Key`: whatever is sent twice has one effect.

use serde_json::{Value, json};

use super::world::{Turn, World, play, spawn};
use crate::suite::harness::{Answer, Client, Gate, Reply, eventually, script, shared};

const SPAWN: &str = "/api/v1/sessions/stream";

fn send(client: &Client, key: &str, method: &str, path: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    client.send_with(method, path, &[("content-type", "application/json"), ("idempotency-key", key)], body)
}

fn code(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["detail"]["code"].as_str().unwrap().to_owned())
}

fn turns(client: &Client, session: &str) -> Vec<Value> {
    let listed = client.send("GET", &format!("/api/v1/sessions/{session}/messages"), "");
    listed.json()["messages"].as_array().unwrap().clone()
}

#[test]
fn a_spawn() {
    script("idem-spawn", [Reply::says(&["Once."])]);
    let mut world = World::start("");
    let body = json!({ "agent_id": "writer", "message": "play idem-spawn" });
    let first = send(&world.client(), "spawn-1", "POST", SPAWN, &body);
    assert_eq!((first.status, &first.json()["kind"]), (202, &json!("new_turn")));
    let again = send(&world.client(), "spawn-1", "POST", SPAWN, &body);
    assert_eq!((again.status, again.json()), (202, first.json()));
    assert_eq!(again.header("x-message-id"), first.header("x-message-id"));

    // The key is kept with what it did: also through a crash, and when the turn is over.
    world.crash();
    let client = world.client();
    let again = send(&client, "spawn-1", "POST", SPAWN, &body);
    assert_eq!((again.status, again.json()), (202, first.json()));
    let session = first.header("x-session-id");
    assert_eq!(turns(&client, session).len(), 1);
    assert_eq!(client.send("GET", "/api/v1/sessions", "").json()["sessions"].as_array().unwrap().len(), 1);

    for other in [json!({ "agent_id": "writer", "message": "other" }), json!({ "message": "play idem-spawn" })] {
        let refused = send(&client, "spawn-1", "POST", SPAWN, &other);
        assert_eq!(code(&refused), (409, "IDEMPOTENCY_KEY_REUSED".to_owned()));
    }
    let deleted = client.send("DELETE", &format!("/api/v1/sessions/{session}"), "");
    assert_eq!(deleted.status, 204);
    let again = send(&client, "spawn-1", "POST", SPAWN, &body);
    assert_eq!(code(&again), (409, "CONFLICT".to_owned()), "what was deleted is not begun anew");
}

#[test]
fn many_at_once_are_one() {
    let gate = Gate::default();
    script("idem-many", [Reply::new().hold(&gate).text("Once.").stops()]);
    script("idem-queued", [Reply::says(&["Then."])]);
    let world = World::start("");
    let client = world.client();
    let at_once = |key: &str, body: &Value| -> Vec<Value> {
        std::thread::scope(|scope| {
            let sent: Vec<_> = (0..6).map(|_| scope.spawn(|| send(&client, key, "POST", SPAWN, body))).collect();
            let answers = sent.into_iter().map(|sent| sent.join().unwrap());
            answers.inspect(|answer| assert_eq!(answer.status, 202, "{answer:?}")).map(|a| a.json()).collect()
        })
    };
    let begun = at_once("many-1", &json!({ "agent_id": "writer", "message": "play idem-many" }));
    assert!(begun.iter().all(|answer| *answer == begun[0]), "{begun:#?}");
    let session = begun[0]["session_id"].as_str().unwrap();
    // The second message waits for the first.
    let queued = at_once("many-2", &json!({ "session_id": session, "message": "play idem-queued" }));
    assert!(queued.iter().all(|answer| *answer == queued[0] && answer["kind"] == "queued"), "{queued:#?}");
    assert_eq!(turns(&client, session).len(), 2);
    gate.open();
    let message = queued[0]["message_id"].as_str().unwrap().to_owned();
    let turn = Turn { client: client.clone(), session: session.to_owned(), message, kind: String::new() };
    assert_eq!(turn.complete()["final_response"], "Then.");
    // Whoever asks when it is over is answered as the first.
    let late = send(&client, "many-2", "POST", SPAWN, &json!({ "session_id": session, "message": "play idem-queued" }));
    assert_eq!(late.json(), queued[0]);
    assert_eq!(turns(&client, session).len(), 2);
}

#[test]
fn an_answer_to_a_form() {
    let form = json!({ "kind": "approval", "title": "Sure?" });
    let ask = || Reply::calls(&[("request_form", form.clone())]);
    script("idem-form", [ask(), ask(), Reply::says(&["Twice sure."])]);
    let mut world = World::start("");
    let turn = play(&world.client(), "idem-form");
    let first_pause = turn.paused();
    let yes = json!({ "session_id": turn.session, "message": "yes" });
    let first = send(&world.client(), "form-1", "POST", SPAWN, &yes);
    assert_eq!((first.status, &first.json()["kind"]), (202, &json!("form_answer")));
    assert_eq!(first.json()["message_id"], turn.message.as_str());
    assert_eq!(turn.frames_after(&first_pause.id).last().unwrap().kind(), "paused");
    // By now another form waits, which the same words would answer.
    world.crash();
    let (client, turn) = (world.client(), turn.on(&world));
    let again = send(&client, "form-1", "POST", SPAWN, &yes);
    assert_eq!((again.status, again.json()), (202, first.json()));
    let open = client.send("GET", "/api/v1/forms?status=open", "").json();
    assert_eq!(open["forms"].as_array().unwrap().len(), 1, "it is still open: {open}");
    let other = send(&client, "form-1", "POST", SPAWN, &json!({ "session_id": turn.session, "message": "no" }));
    assert_eq!(code(&other), (409, "IDEMPOTENCY_KEY_REUSED".to_owned()));
    let second = send(&client, "form-2", "POST", SPAWN, &yes);
    assert_eq!((second.status, &second.json()["kind"]), (202, &json!("form_answer")));
    eventually("the turn ends", || (turn.shown()["response"] == "Twice sure.").then_some(()));
}

#[test]
fn a_stop_does_not_stop_the_next_turn() {
    let gates = [Gate::default(), Gate::default()];
    script("idem-stop-1", [Reply::new().text("One").hold(&gates[0]).stops()]);
    script("idem-stop-2", (0..2).map(|_| Reply::new().text("Two").hold(&gates[1]).stops()));
    let mut world = World::start("");
    let first = play(&world.client(), "idem-stop-1");
    let stop = format!("/api/v1/sessions/{}/stop", first.session);
    first.open().until("One");
    assert_eq!(send(&world.client(), "stop-1", "POST", &stop, &Value::Null).status, 204);
    assert_eq!(first.frames().last().unwrap().data["reason"], "user_stop");
    let second = first.say("play idem-stop-2");
    second.open().until("Two");
    assert_eq!(send(&world.client(), "stop-1", "POST", &stop, &Value::Null).status, 204, "sent again");
    assert_eq!(second.shown()["status"], "running");
    // Neither after a crash.
    world.crash();
    let (client, second) = (world.client(), second.on(&world));
    assert_eq!(send(&client, "stop-1", "POST", &stop, &Value::Null).status, 204);
    assert_eq!(second.shown()["status"], "running");
    // The key of another request is no reason not to stop.
    let other = "/api/v1/sessions/sess_other/stop";
    assert_eq!(send(&client, "stop-1", "POST", other, &Value::Null).status, 204);
    assert_eq!(second.shown()["status"], "running");
    assert_eq!(send(&client, "stop-1", "POST", &format!("{}/stop", second.path()), &Value::Null).status, 204);
    assert_eq!(second.frames().last().unwrap().data["reason"], "user_stop");
}

/// A stop that found nothing to stop has found nothing for ever.
#[test]
fn a_stop_of_nothing_does_not_stop_what_comes() {
    let gate = Gate::default();
    script("idem-nothing", [Reply::says(&["Done."])]);
    script("idem-something", [Reply::new().text("Now").hold(&gate).stops()]);
    let shared = shared();
    let client = shared.client("acme");
    let over = spawn(&client, &json!({ "agent_id": "scripted", "message": "play idem-nothing" }));
    over.complete();
    let stop = format!("/api/v1/sessions/{}/stop", over.session);
    assert_eq!(send(&client, "nothing-1", "POST", &stop, &Value::Null).status, 204);
    let next = over.say("play idem-something");
    next.open().until("Now");
    assert_eq!(send(&client, "nothing-1", "POST", &stop, &Value::Null).status, 204);
    assert_eq!(next.shown()["status"], "running");
    gate.open();
    next.complete();
}

#[test]
fn a_deletion() {
    script("idem-delete", (0..2).map(|_| Reply::says(&["Gone."])));
    let mut world = World::start("");
    let (gone, kept) = (play(&world.client(), "idem-delete"), play(&world.client(), "idem-delete"));
    let path = |turn: &Turn| format!("/api/v1/sessions/{}", turn.session);
    assert_eq!(send(&world.client(), "delete-1", "DELETE", &path(&gone), &Value::Null).status, 204);
    assert_eq!(send(&world.client(), "delete-1", "DELETE", &path(&gone), &Value::Null).status, 204, "sent again");
    world.crash();
    let client = world.client();
    assert_eq!(send(&client, "delete-1", "DELETE", &path(&gone), &Value::Null).status, 204);
    let unknown = send(&client, "delete-2", "DELETE", &path(&gone), &Value::Null);
    assert_eq!(code(&unknown), (404, "SESSION_NOT_FOUND".to_owned()), "another request finds nothing");
    assert_eq!(client.send("DELETE", &path(&gone), "").status, 404);
    let refused = send(&client, "delete-1", "DELETE", &path(&kept), &Value::Null);
    assert_eq!(code(&refused), (409, "IDEMPOTENCY_KEY_REUSED".to_owned()));
    assert_eq!(client.send("GET", &path(&kept), "").status, 200);
}

#[test]
fn keys_are_each_tenants_own_and_have_a_form() {
    script("idem-tenants", (0..2).map(|_| Reply::says(&["Mine."])));
    let shared = shared();
    let body = json!({ "agent_id": "scripted", "message": "play idem-tenants" });
    let acme = send(&shared.client("acme"), "same-word", "POST", SPAWN, &body);
    let bob = send(&shared.client("bob"), "same-word", "POST", SPAWN, &body);
    assert_eq!((acme.status, bob.status), (202, 202));
    assert_ne!(acme.json()["session_id"], bob.json()["session_id"]);
    for bad in ["two words", "", &"k".repeat(256)] {
        let refused = send(&shared.client("acme"), bad, "POST", SPAWN, &body);
        assert_eq!(code(&refused), (422, "VALIDATION_FAILED".to_owned()), "{bad:?}");
    }
    // What was refused has not used its key.
    let refused =
        send(&shared.client("acme"), "second-try", "POST", SPAWN, &json!({ "message": "hi", "agent_id": "no" }));
    assert_eq!(refused.status, 404);
    assert_eq!(
        send(&shared.client("acme"), "second-try", "POST", SPAWN, &json!({ "message": "stream 1" })).status,
        202
    );
}
