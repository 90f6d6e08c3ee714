//! Forks and truncations: what two sessions have in common, and what is gone for good.

use serde_json::{Value, json};

use super::world::{Turn, World, frames, play, spawn};
use crate::suite::harness::{Answer, Client, Gate, Reply, asked, script, shared};

fn post(client: &Client, session: &str, what: &str, body: &Value) -> Answer {
    client.send("POST", &format!("/api/v1/sessions/{session}/{what}"), &body.to_string())
}

#[track_caller]
fn fork(turn: &Turn, at: Option<&Turn>) -> String {
    let body = at.map_or_else(|| json!({}), |at| json!({ "at_message_id": at.message }));
    let answer = post(&turn.client, &turn.session, "fork", &body);
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()["session_id"].as_str().unwrap().to_owned()
}

/// What was said in a session: the answers of its turns, first to last.
fn said(client: &Client, session: &str) -> Vec<String> {
    let listed = client.send("GET", &format!("/api/v1/sessions/{session}/messages"), "").json();
    let answers = listed["messages"].as_array().unwrap().iter().rev();
    answers.map(|message| message["response"].as_str().unwrap_or("-").to_owned()).collect()
}

fn say(client: &Client, session: &str, message: &str) -> Turn {
    spawn(client, &json!({ "session_id": session, "message": message }))
}

/// What the model was given last, as `role: text`.
fn given(script: &str) -> Vec<String> {
    let request = asked(script).pop().unwrap();
    let messages = request["messages"].as_array().unwrap().iter().filter(|message| message["role"] != "system");
    messages
        .map(|message| format!("{}: {}", message["role"].as_str().unwrap(), message["content"].as_str().unwrap()))
        .collect()
}

/// A session with three turns.
fn three(client: &Client, name: &str) -> [Turn; 3] {
    let names = [1, 2, 3].map(|number| format!("{name}-{number}"));
    for (name, word) in names.iter().zip(["One.", "Two.", "Three."]) {
        script(name, [Reply::says(&[word])]);
    }
    let first = play(client, &names[0]);
    first.complete();
    let second = first.say(&format!("play {}", names[1]));
    second.complete();
    let third = first.say(&format!("play {}", names[2]));
    third.complete();
    [first, second, third]
}

#[test]
fn a_fork_has_what_was_said_and_goes_on_by_itself() {
    let mut world = World::start("");
    let client = world.client();
    let [first, second, third] = three(&client, "fork");
    let (whole, part) = (fork(&first, None), fork(&first, Some(&second)));
    assert_eq!(said(&client, &whole), ["One.", "Two.", "Three."]);
    assert_eq!(said(&client, &part), ["One.", "Two."]);
    let details = client.send("GET", &format!("/api/v1/sessions/{part}"), "").json();
    assert_eq!((&details["agent_id"], &details["total_output_tokens"]), (&json!("writer"), &json!(0)));

    // The turns are shared under their names: they can be read through either session, from any place.
    let through = Turn { session: part.clone(), ..second.clone() };
    assert_eq!(through.frames().last().unwrap().data["final_response"], "Two.");
    let after = through.frames_after("1");
    assert!(!after.is_empty() && after.iter().all(|frame| frame.id != "1"), "{after:?}");
    let not_shared = client.send("GET", &format!("/api/v1/sessions/{part}/messages/{}", third.message), "");
    assert_eq!(not_shared.status, 404);

    script("fork-on", [Reply::says(&["On."])]);
    say(&client, &part, "play fork-on").complete();
    assert_eq!(
        given("fork-on"),
        ["user: play fork-1", "assistant: One.", "user: play fork-2", "assistant: Two.", "user: play fork-on"]
    );
    assert_eq!(said(&client, &first.session), ["One.", "Two.", "Three."], "the other one is as it was");

    // What one loses the other keeps, through a restart too.
    assert_eq!(client.send("DELETE", &format!("/api/v1/sessions/{}", first.session), "").status, 204);
    world.crash();
    let client = world.client();
    assert_eq!(said(&client, &whole), ["One.", "Two.", "Three."]);
    assert_eq!(said(&client, &part), ["One.", "Two.", "On."]);
    assert_eq!(through.on(&world).frames().last().unwrap().data["final_response"], "Two.");
    assert_eq!(first.on(&world).client.send("GET", &first.path(), "").status, 404);
}

#[test]
fn a_truncated_session_has_forgotten() {
    let world = World::start("");
    let client = world.client();
    let [first, second, third] = three(&client, "cut");
    let answer = post(&client, &first.session, "truncate", &json!({ "at_message_id": first.message }));
    assert_eq!((answer.status, &answer.json()["session_id"]), (200, &json!(first.session)));
    assert_eq!(said(&client, &first.session), ["One."]);
    for gone in [&second, &third] {
        assert_eq!(client.send("GET", &gone.path(), "").status, 404);
        assert_eq!(client.send("GET", &format!("{}/stream", gone.path()), "").status, 404);
    }
    script("cut-on", [Reply::says(&["On."])]);
    first.say("play cut-on").complete();
    assert_eq!(given("cut-on"), ["user: play cut-1", "assistant: One.", "user: play cut-on"]);
    let details = client.send("GET", &format!("/api/v1/sessions/{}", first.session), "").json();
    assert!(details["total_output_tokens"].as_u64() > Some(3), "used tokens stay counted: {details}");
}

#[test]
fn while_a_turn_is_under_way() {
    let gate = Gate::default();
    script("cut-busy-1", [Reply::says(&["One."])]);
    script("cut-busy-2", [Reply::new().text("On and").hold(&gate).text(" on.").stops()]);
    let world = World::start("");
    let client = world.client();
    let first = play(&client, "cut-busy-1");
    first.complete();
    let second = first.say("play cut-busy-2");
    second.open().until("On and");
    let busy = post(&client, &first.session, "truncate", &json!({ "at_message_id": first.message }));
    assert_eq!((busy.status, &busy.json()["detail"]["code"]), (409, &json!("SESSION_BUSY")));
    let fork = fork(&first, None);
    let messages = client.send("GET", &format!("/api/v1/sessions/{fork}/messages"), "").json();
    assert_eq!(messages["messages"].as_array().unwrap().len(), 2, "what was asked is there too: {messages}");
    gate.open();
    assert_eq!(second.complete()["final_response"], "On and on.");
    assert_eq!(said(&client, &fork).first().map(String::as_str), Some("One."));

    // A turn that waits gives way to the cut.
    script("cut-waits", [Reply::calls(&[("request_form", json!({ "kind": "approval", "title": "Sure?" }))])]);
    let waits = first.say("play cut-waits");
    waits.paused();
    let cut = post(&client, &first.session, "truncate", &json!({ "at_message_id": first.message }));
    assert_eq!((cut.status, &cut.json()["status"]), (200, &json!("idle")));
    assert_eq!(said(&client, &first.session), ["One."]);
}

#[test]
fn sent_twice_done_once() {
    let world = World::start("");
    let client = world.client();
    let [first, second, _] = three(&client, "cut-twice");
    let headers = [("content-type", "application/json"), ("idempotency-key", "cut-twice")];
    let path = format!("/api/v1/sessions/{}/fork", first.session);
    let send = |path: &str, body: Value| client.send_with("POST", path, &headers, body.to_string());
    let once = send(&path, json!({ "at_message_id": second.message }));
    let again = send(&path, json!({ "at_message_id": second.message }));
    assert_eq!((once.status, again.status), (201, 201));
    assert_eq!(once.json()["session_id"], again.json()["session_id"]);
    let other = send(&path, json!({}));
    assert_eq!((other.status, &other.json()["detail"]["code"]), (409, &json!("IDEMPOTENCY_KEY_REUSED")));
}

#[test]
fn what_cannot_be_cut() {
    let shared = shared();
    let (client, bob) = (shared.client("acme"), shared.client("bob"));
    script("cut-none", [Reply::says(&["One."])]);
    let turn = spawn(&client, &json!({ "agent_id": "scripted", "message": "play cut-none" }));
    turn.complete();
    let code = |answer: Answer| (answer.status, answer.json()["detail"]["code"].as_str().unwrap().to_owned());
    let told = |status, code: &str| (status, code.to_owned());
    for what in ["fork", "truncate"] {
        let at = json!({ "at_message_id": turn.message });
        assert_eq!(code(post(&bob, &turn.session, what, &at)), told(404, "SESSION_NOT_FOUND"));
        assert_eq!(code(post(&client, "sess_no", what, &at)), told(404, "SESSION_NOT_FOUND"));
        for wrong in ["turn_no", "", "a b", "../x"] {
            let at = json!({ "at_message_id": wrong });
            assert_eq!(code(post(&client, &turn.session, what, &at)), told(404, "MESSAGE_NOT_FOUND"), "{wrong:?}");
        }
        assert_eq!(code(post(&client, &turn.session, what, &json!({ "at_message_id": 7 }))).0, 422);
    }
    assert_eq!(code(post(&client, &turn.session, "truncate", &json!({}))), told(422, "VALIDATION_FAILED"));
    // A fork of everything needs no body.
    let fork = client.send("POST", &format!("/api/v1/sessions/{}/fork", turn.session), "");
    assert_eq!(fork.status, 201, "{fork:?}");
    assert_eq!(
        frames(&client.send("GET", &format!("{}/stream", turn.path()), "").body).last().unwrap().kind(),
        "complete"
    );
}
