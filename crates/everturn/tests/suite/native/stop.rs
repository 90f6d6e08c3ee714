//! Stopping: at once, whatever the turn is doing, and without harm to the session.

use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::world::{Turn, World, play, spawn};
use crate::suite::harness::{Answer, Gate, Reply, asked, eventually, script, shared};

fn stop(turn: &Turn) -> Answer {
    turn.client.send("POST", &format!("/api/v1/sessions/{}/stop", turn.session), "")
}

/// Stops a turn while somebody reads it, and gives what that reader sees last. A stop takes no longer than a commit; the
/// bound here leaves room for a busy machine.
#[track_caller]
fn stopped_at_once(what: &str, turn: &Turn, after: &str) -> Value {
    let mut reader = turn.open_after(after);
    let begun = Instant::now();
    let answer = stop(turn);
    let answered = begun.elapsed();
    let end = reader.until("\"cancelled\"");
    let seen = begun.elapsed();
    println!("{what}: answered after {answered:?}, seen after {seen:?}");
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
    assert!(seen < Duration::from_secs(1), "{what}: {seen:?}");
    assert_eq!(turn.shown()["status"], "cancelled", "{what}");
    super::world::Frame::read(&end).unwrap().data
}

#[test]
fn what_is_not_there_or_over_is_stopped_already() {
    let gate = Gate::default();
    script("stop-over", [Reply::says(&["Over."])]);
    script("stop-running", [Reply::new().text("On and").hold(&gate).text(" on.").stops()]);
    let shared = shared();
    let (client, bob) = (shared.client("acme"), shared.client("bob"));
    let over = spawn(&client, &json!({ "agent_id": "scripted", "message": "play stop-over" }));
    over.complete();
    let running = over.say("play stop-running");
    running.open().until("On and");
    for path in [
        "/api/v1/sessions/sess_no/stop".to_owned(),
        "/api/v1/sessions/%FF/stop".to_owned(),
        "/api/v1/sessions/a%20b/messages/c/stop".to_owned(),
        "/api/v1/sessions/sess_no/messages/turn_no/stop".to_owned(),
        format!("/api/v1/sessions/{}/messages/turn_no/stop", over.session),
        // A turn that is over, while another one runs.
        format!("{}/stop", over.path()),
    ] {
        let answer = client.send("POST", &path, "");
        assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{path}");
    }
    // Nobody stops what is another's, or learns that it is there.
    assert_eq!(bob.send("POST", &format!("/api/v1/sessions/{}/stop", over.session), "").status, 204);
    assert_eq!(bob.send("POST", &format!("{}/stop", running.path()), "").status, 204);
    assert_eq!(running.shown()["status"], "running");
    gate.open();
    assert_eq!(running.complete()["final_response"], "On and on.");
    for _ in 0..2 {
        assert_eq!(stop(&running).status, 204);
    }
    assert_eq!(running.complete()["final_response"], "On and on.", "it is over already");
}

#[test]
fn while_the_provider_is_silent() {
    let gates = [Gate::default(), Gate::default()];
    script("stop-mute", [Reply::new().hold(&gates[0]).stops()]);
    script("stop-silent", [Reply::new().thinking("Hm.").text("Half an ").text("ans").hold(&gates[1]).stops()]);
    let world = World::start("");
    let mute = play(&world.client(), "stop-mute");
    eventually("the model is asked", || (asked("stop-mute").len() == 1).then_some(()));
    let end = stopped_at_once("before its first word", &mute, "1");
    assert_eq!((&end["reason"], end.get("partial_response")), (&json!("user_stop"), None));

    let silent = play(&world.client(), "stop-silent");
    silent.open().until("ans");
    let end = stopped_at_once("within its answer", &silent, "1");
    assert_eq!((&end["reason"], &end["partial_response"]), (&json!("user_stop"), &json!("Half an ans")));
    // Nobody told us what it cost. It was not nothing.
    let used = |data: &Value| ["total_input_tokens", "total_output_tokens"].map(|field| data[field].as_u64().unwrap());
    assert!(used(&end).into_iter().all(|tokens| tokens > 0), "{end}");
    assert_eq!(used(&silent.shown()), used(&end));
    let session = silent.client.send("GET", &format!("/api/v1/sessions/{}", silent.session), "").json();
    assert_eq!(used(&session), used(&end));
    for gate in gates {
        eventually("the call to the provider is ended", || gate.is_left().then_some(()));
    }
}

#[test]
fn while_it_waits_to_call_the_provider_again() {
    let busy = Reply::status(429, &[("retry-after", "20")], r#"{"error":{"message":"slow down"}}"#);
    script("stop-retry", [busy]);
    let world = World::start("");
    let turn = play(&world.client(), "stop-retry");
    turn.open().until("retry_notification");
    let end = stopped_at_once("between two attempts", &turn, "1");
    assert_eq!(end["reason"], "user_stop");
}

#[test]
fn while_a_tool_is_silent() {
    let form = json!({ "kind": "approval", "title": "Sure?" });
    let waits: [(&str, &str, Value); 3] = [
        ("stop-timer", "wait", json!({ "seconds": 3600 })),
        ("stop-form", "request_form", form),
        ("stop-approval", "clock", json!({})),
    ];
    let world = World::start("");
    for (name, tool, input) in waits {
        script(name, [Reply::new().text("A moment.").call(tool, input.to_string()).finish("tool_calls")]);
        let tools = if name == "stop-approval" { json!([{ "name": "clock", "trust": false }]) } else { Value::Null };
        let body = json!({ "agent_id": "writer", "message": format!("play {name}"), "tools": tools });
        let turn = spawn(&world.client(), &body);
        let paused = turn.paused();
        let end = stopped_at_once(name, &turn, &paused.id);
        assert_eq!((&end["reason"], &end["partial_response"]), (&json!("user_stop"), &json!("A moment.")), "{name}");
        // What was asked cannot be answered any more.
        let open = turn.client.send("GET", &format!("/api/v1/forms?status=open&session_id={}", turn.session), "");
        assert_eq!(open.json()["forms"], json!([]), "{name}");
    }
}

/// The conversation of a script's last request, a line for each message.
fn conversation(name: &str) -> String {
    let requests = asked(name);
    let messages = requests.last().unwrap()["messages"].as_array().unwrap();
    let mut calls: Vec<String> = Vec::new();
    let mut number = |id: &Value| {
        let id = id.as_str().unwrap().to_owned();
        calls.iter().position(|call| *call == id).unwrap_or_else(|| {
            calls.push(id);
            calls.len() - 1
        })
    };
    let mut lines = Vec::new();
    for message in messages.iter().filter(|message| message["role"] != "system") {
        let mut line = format!("{}: {}", message["role"].as_str().unwrap(), message["content"]);
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            line += &format!(" call {} {} {}", number(&call["id"]), function["name"], function["arguments"]);
        }
        if message["role"] == "tool" {
            line += &format!(" (result of call {})", number(&message["tool_call_id"]));
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// Stops a turn that has come so far, then says something at once, and looks at what the model is given.
#[track_caller]
fn goes_on(name: &str, reply: Reply, until: &str, expected: Expect) {
    script(name, [reply]);
    script(&format!("{name}-next"), [Reply::says(&["Here I am."])]);
    let world = World::start("");
    let turn = play(&world.client(), name);
    turn.open().until(until);
    assert_eq!(stop(&turn).status, 204);
    let next = turn.say(&format!("play {name}-next"));
    assert_eq!(next.kind, "new_turn", "the session is free at once");
    assert_eq!(next.complete()["final_response"], "Here I am.");
    expected.assert_eq(&conversation(&format!("{name}-next")));
}

#[test]
fn what_the_next_turn_knows_of_half_an_answer() {
    let gate = Gate::default();
    let reply = Reply::new().thinking("Hm.").text("Half an ans").hold(&gate).stops();
    goes_on(
        "stop-next-text",
        reply,
        "ans",
        expect![[r#"
        user: "play stop-next-text"
        assistant: "Half an ans"
        user: "play stop-next-text-next""#]],
    );
}

#[test]
fn what_the_next_turn_knows_of_no_answer() {
    let gate = Gate::default();
    goes_on(
        "stop-next-nothing",
        Reply::new().hold(&gate).stops(),
        "start",
        expect![[r#"user: "play stop-next-nothing\n\nplay stop-next-nothing-next""#]],
    );
}

/// They were never complete, so they were never made.
#[test]
fn what_the_next_turn_knows_of_calls_in_half_an_answer() {
    let gate = Gate::default();
    let reply = Reply::new()
        .call("calculator", r#"{"expression":"1+1"}"#)
        .call("calculator", r#"{"expression":"2+2"}"#)
        .text("Now")
        .hold(&gate)
        .stops();
    goes_on(
        "stop-next-cut",
        reply,
        "Now",
        expect![[r#"
        user: "play stop-next-cut"
        assistant: "Now"
        user: "play stop-next-cut-next""#]],
    );
}

#[test]
fn what_the_next_turn_knows_of_calls_that_waited() {
    let reply = Reply::new()
        .text("Two things.")
        .call("calculator", r#"{"expression":"6*7"}"#)
        .call("wait", r#"{"seconds":3600}"#)
        .finish("tool_calls");
    goes_on(
        "stop-next-calls",
        reply,
        "paused",
        expect![[r#"
        user: "play stop-next-calls"
        assistant: "Two things." call 0 "calculator" "{\"expression\":\"6*7\"}" call 1 "wait" "{\"seconds\":3600}"
        tool: "42" (result of call 0)
        tool: "Tool call cancelled: the user stopped the turn" (result of call 1)
        user: "play stop-next-calls-next""#]],
    );
}

#[test]
fn a_stop_is_kept() {
    let gate = Gate::default();
    script("stop-kept", [Reply::new().text("Half").hold(&gate).stops()]);
    let mut world = World::start("");
    let turn = play(&world.client(), "stop-kept");
    turn.open().until("Half");
    assert_eq!(stop(&turn).status, 204);
    world.crash();
    let turn = turn.on(&world);
    let end = turn.frames().pop().unwrap().data;
    assert_eq!((&end["type"], &end["reason"]), (&json!("cancelled"), &json!("user_stop")));
    assert_eq!(asked("stop-kept").len(), 1, "it is not begun again");
}

#[test]
fn what_waits_behind_a_stopped_turn_begins() {
    let gate = Gate::default();
    script("stop-before", [Reply::new().text("Half").hold(&gate).stops()]);
    script("stop-after", [Reply::says(&["My turn."])]);
    let world = World::start("");
    let turn = play(&world.client(), "stop-before");
    let next = turn.say("play stop-after");
    assert_eq!(next.kind, "queued");
    assert_eq!(stop(&turn).status, 204);
    assert_eq!(next.complete()["final_response"], "My turn.");
}

/// A stop that comes at the same moment as the end, or another stop: the turn ends once.
#[test]
fn many_at_once_end_it_once() {
    let gate = Gate::default();
    script("stop-many", [Reply::new().text("Half").hold(&gate).text(" and half.").stops()]);
    let world = World::start("");
    let turn = play(&world.client(), "stop-many");
    turn.open().until("Half");
    std::thread::scope(|scope| {
        let stops: Vec<_> = (0..8).map(|_| scope.spawn(|| stop(&turn).status)).collect();
        gate.open();
        for stop in stops {
            assert_eq!(stop.join().unwrap(), 204);
        }
    });
    let frames = turn.frames();
    let ends = frames.iter().filter(|frame| matches!(frame.kind(), "complete" | "cancelled" | "error"));
    assert_eq!(ends.count(), 1, "{frames:#?}");
}
