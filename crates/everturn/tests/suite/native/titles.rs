//! Names of sessions: made after the first exchange, by its model, and nobody waits for them.

use serde_json::{Value, json};

use super::world::{Turn, World, spawn};
use crate::suite::harness::{Gate, Reply, asked, eventually, script};

/// A turn in a new session of the agent whose model names its sessions.
#[track_caller]
fn play(world: &World, script: &str) -> Turn {
    spawn(&world.client(), &json!({ "agent_id": "titled", "message": format!("play {script}") }))
}

fn shown(turn: &Turn) -> Value {
    turn.client.send("GET", &format!("/api/v1/sessions/{}", turn.session), "").json()
}

fn title(turn: &Turn) -> Value {
    shown(turn)["title"].clone()
}

#[track_caller]
fn eventual_title(turn: &Turn) -> String {
    eventually("the session has a title", || title(turn).as_str().map(str::to_owned))
}

/// Waits until a model was asked so often.
#[track_caller]
fn asked_times(name: &str, times: usize) -> Vec<Value> {
    eventually("the model is asked", || Some(asked(name)).filter(|requests| requests.len() == times))
}

#[test]
fn the_answer_does_not_wait_for_the_title() {
    let world = World::start("");
    let gate = Gate::default();
    let names = Reply::new().hold(&gate).text("\"A trip ").text("to Rome.\"\n\nHope you like it").stops();
    script("titles-held", [Reply::says(&["Take a train."]), names]);
    let turn = play(&world, "titles-held");
    assert_eq!(turn.complete()["final_response"], "Take a train.");
    // The model is at it, and the session is free: its turn is over and paid for.
    let requests = asked_times("titles-held", 2);
    assert_eq!((title(&turn), &shown(&turn)["status"]), (Value::Null, &json!("idle")));
    let tokens = shown(&turn)["total_output_tokens"].clone();
    let asked = requests[1]["messages"].as_array().unwrap();
    assert!(asked[0]["content"].as_str().unwrap().starts_with("Write a title for this conversation"), "{asked:?}");
    let exchange: Vec<_> = asked[1..3].iter().map(|message| message["content"].clone()).collect();
    assert_eq!(exchange, ["play titles-held", "Take a train."]);
    assert!(requests[1].get("tools").is_none_or(|tools| tools.as_array().unwrap().is_empty()), "{}", requests[1]);
    gate.open();
    assert_eq!(eventual_title(&turn), "A trip to Rome");
    assert_eq!(shown(&turn)["total_output_tokens"], tokens, "the title is no part of the conversation");
    assert_eq!(shown(&turn)["status"], "idle");
}

#[test]
fn first_words_where_the_model_gives_none() {
    let world = World::start("");
    for (name, reply) in [
        ("titles-fails", Reply::status(400, &[], "no")),
        ("titles-blank", Reply::says(&[" \n\"\" "])),
        ("titles-cut", Reply::new().text("Half a ti")),
        ("titles-calls", Reply::calls(&[("clock", json!({}))])),
    ] {
        script(name, [Reply::says(&["Fine."]), reply]);
        let message = format!("play {name}\none  two three four five six seven");
        let turn = spawn(&world.client(), &json!({ "agent_id": "titled", "message": message }));
        turn.complete();
        assert_eq!(eventual_title(&turn), format!("play {name} one two three four five six…"), "{name}");
    }
}

#[test]
fn what_a_model_writes_is_one_short_line() {
    let world = World::start("");
    let long = format!("# **{}**", "wörd ".repeat(100));
    for (name, reply, length) in [("titles-long", long.as_str(), 80), ("titles-bell", "\n\n Be\u{7}ll\nmore", 4)] {
        script(name, [Reply::says(&["Fine."]), Reply::says(&[reply])]);
        let turn = play(&world, name);
        turn.complete();
        let title = eventual_title(&turn);
        assert_eq!(title.chars().count(), length, "{title:?}");
        assert!(!title.contains(|c: char| c.is_control() || c == '#' || c == '*'), "{title:?}");
    }
}

/// Only the first exchange is named; a session that has its title keeps it.
#[test]
fn a_session_is_named_once() {
    let world = World::start("");
    script("titles-once", [Reply::says(&["One."]), Reply::says(&["The title"])]);
    script("titles-second", [Reply::says(&["Two."])]);
    let turn = play(&world, "titles-once");
    turn.complete();
    assert_eq!(eventual_title(&turn), "The title");
    turn.say("play titles-second").complete();
    // What another session is called shows that titles are being made.
    script("titles-other", [Reply::says(&["Hm."]), Reply::says(&["Another"])]);
    let other = play(&world, "titles-other");
    other.complete();
    assert_eq!(eventual_title(&other), "Another");
    assert_eq!(asked("titles-second").len(), 1);
    assert_eq!(title(&turn), "The title");
}

/// Who names a session while the model still thinks about it knows better.
#[test]
fn a_persons_title_stays() {
    let world = World::start("");
    let held = |name: &str, gate: &Gate| {
        script(name, [Reply::says(&["Fine."]), Reply::new().hold(gate).text("The model's").stops()]);
        let turn = play(&world, name);
        turn.complete();
        asked_times(name, 2);
        turn
    };
    let (gate, later) = (Gate::default(), Gate::default());
    let (turn, other) = (held("titles-slow", &gate), held("titles-slower", &later));
    let path = format!("/api/v1/sessions/{}", turn.session);
    assert_eq!(world.client().send("PATCH", &path, r#"{"title":"A person's"}"#).status, 200);
    gate.open();
    // One that the model answers after it, in the same way, shows that the first answer has come.
    later.open();
    assert_eq!(eventual_title(&other), "The model's");
    assert_eq!(title(&turn), "A person's");
}

/// Killed while the model thinks about a title, the session gets one after its next turn.
#[test]
fn a_title_lost_in_a_crash_is_made_up_for() {
    let mut world = World::start("");
    let gate = Gate::default();
    script("titles-killed", [Reply::says(&["One."]), Reply::new().hold(&gate), Reply::says(&["Named later"])]);
    let turn = play(&world, "titles-killed");
    turn.complete();
    asked_times("titles-killed", 2);
    world.crash();
    let turn = turn.on(&world);
    assert_eq!(title(&turn), Value::Null);
    script("titles-next", [Reply::says(&["Two."])]);
    turn.say("play titles-next").complete();
    // It is the first exchange that is named.
    assert_eq!(eventual_title(&turn), "Named later");
}

/// The other protocol knows no titles, so nobody pays a model for them.
#[test]
fn sessions_of_the_other_protocol_have_none() {
    let world = World::start("");
    let client = world.client();
    script("titles-aap", [Reply::says(&["One."]), Reply::says(&["Two."])]);
    let body = r#"{"agent":{"name":"titled"},"messages":[{"role":"user","content":"play titles-aap"}]}"#;
    let made = client.send("PUT", "/session", body);
    let session = made.header("x-session-id").to_owned();
    let again =
        client.send("POST", &format!("/session/{session}"), r#"{"messages":[{"role":"user","content":"more"}]}"#);
    assert_eq!(again.json()["messages"][0]["content"], "Two.");
    script("titles-native", [Reply::says(&["Hm."]), Reply::says(&["Another"])]);
    let other = play(&world, "titles-native");
    other.complete();
    assert_eq!(eventual_title(&other), "Another");
    assert_eq!(asked("titles-aap").len(), 2);
    assert_eq!(client.send("GET", &format!("/api/v1/sessions/{session}"), "").json()["title"], Value::Null);
}
