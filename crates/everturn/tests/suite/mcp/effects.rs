//! How often a tool has its effect: lines of a file are counted.

use serde_json::{Value, json};

use super::world::{Turn, World, only, play};
use crate::suite::harness::{Client, Reply, eventually, script};

/// What was done on behalf of a text.
fn done(world: &World, text: &str) -> Vec<Value> {
    world.traces.entries("ledger").into_iter().filter(|entry| entry["text"] == text).collect()
}

/// Begins a turn that calls a tool, and waits until the tool has had its effect. It goes on when there is a file `gate`.
#[track_caller]
fn begin(world: &World, name: &str, tool: &str) -> Turn {
    let input = json!({ "text": name, "until": world.traces.text("gate") });
    script(name, [Reply::calls(&[(tool, input)]), Reply::says(&["Done."])]);
    let turn = play(&world.client(), name);
    eventually("the effect", || (done(world, name).len() == 1).then_some(()));
    turn
}

impl World {
    /// The same turn, after the server was started again.
    fn find(&self, turn: &Turn) -> Turn {
        Turn { client: self.client(), ..turn.clone() }
    }
}

const UNKNOWN: &str = "Tool call interrupted: the server stopped while it ran. Whether it had its effect is unknown; \
                       check before you call it again";

/// Kills the server within calls of three tools; `repeated` says which of them may run again.
#[track_caller]
fn killed_within_calls(prefix: &str, lines: &str, repeated: [(&str, bool); 3]) {
    let mut world = World::with_box("", lines, "");
    let turns = repeated.map(|(tool, may_repeat)| {
        let name = format!("{prefix}-{tool}");
        let turn = begin(&world, &name, &format!("box__{tool}"));
        (name, tool, may_repeat, turn)
    });
    for kills in 1..=2 {
        world.crash();
        for (name, _, may_repeat, turn) in &turns {
            if *may_repeat {
                eventually("it runs again", || (done(&world, name).len() > kills).then_some(()));
            } else {
                // A script that is played goes on; it does not begin anew after the next crash.
                assert_eq!(world.find(turn).complete()["final_response"], "Done.", "{name}");
            }
        }
    }
    world.traces.make("gate");
    for (name, tool, may_repeat, turn) in turns {
        assert_eq!(world.find(&turn).complete()["final_response"], "Done.", "{name}");
        let entries = done(&world, &name);
        assert_eq!(entries.len(), if may_repeat { 3 } else { 1 }, "{name}: {entries:?}");
        assert!(entries[0]["effect"].as_str().is_some_and(|id| !id.is_empty()), "{entries:?}");
        assert!(entries.iter().all(|entry| entry == &entries[0]), "one effect has one id: {entries:?}");
        let expected = if may_repeat { format!("{tool} is done") } else { UNKNOWN.to_owned() };
        assert_eq!(only(&name), expected, "{name}");
    }
}

#[test]
fn killed_within_calls_that_the_server_describes() {
    killed_within_calls("mcp-hints", "", [("spend", false), ("put", true), ("look", true)]);
}

#[test]
fn killed_within_calls_that_the_configuration_describes() {
    let effects = "effects = { spend = 'idempotent', put = 'effectful', look = 'effectful' }";
    killed_within_calls("mcp-effects", effects, [("spend", true), ("put", false), ("look", false)]);
}

#[test]
fn the_program_is_killed_within_a_call() {
    let world = World::new();
    let turns = [begin(&world, "mcp-died-spend", "box__spend"), begin(&world, "mcp-died-look", "box__look")];
    super::world::signal("KILL", world.traces.pid());
    for (turn, name) in turns.iter().zip(["mcp-died-spend", "mcp-died-look"]) {
        assert_eq!(turn.complete()["final_response"], "Done.");
        assert!(only(name).contains("whether the call had an effect is not known"), "{}", only(name));
    }
    world.until_state("box", "ready");
    eventually("it is back", || (world.health("box")["restarts"] == 1).then_some(()));
    assert_eq!(world.traces.lines("ledger").len(), 2, "to call again is the model's choice");
}

fn send(client: &Client, key: &str, body: &Value) -> (u16, Value) {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    let answer = client.send_with("POST", "/api/v1/sessions/stream", &headers, body.to_string());
    (answer.status, answer.json())
}

#[test]
fn clients_that_leave_and_come_back() {
    let mut world = World::new();
    let (name, gate) = ("mcp-reposted", world.traces.text("gate"));
    let calls = [("box__spend", json!({ "text": name, "until": gate })), ("box__spend", json!({ "text": name }))];
    script(name, [Reply::calls(&calls), Reply::says(&["Done."])]);
    let body = json!({ "agent_id": "boxer", "message": format!("play {name}") });
    let (status, first) = send(&world.client(), "pay-once", &body);
    assert_eq!(status, 202, "{first}");
    let text = |field: &str| first[field].as_str().unwrap().to_owned();
    let turn =
        Turn { client: world.client(), session: text("session_id"), message: text("message_id"), kind: text("kind") };
    for _ in 0..5 {
        turn.open().until("tool_started");
        assert_eq!(send(&world.client(), "pay-once", &body), (202, first.clone()));
    }
    eventually("both effects", || (done(&world, name).len() == 2).then_some(()));
    world.traces.make("gate");
    assert_eq!(turn.complete()["final_response"], "Done.");
    world.crash();
    assert_eq!(send(&world.client(), "pay-once", &body), (202, first.clone()));
    assert_eq!(world.find(&turn).complete()["final_response"], "Done.");
    let entries = done(&world, name);
    assert_eq!(entries.len(), 2, "{entries:?}");
    assert_ne!(entries[0]["effect"], entries[1]["effect"], "two calls have two effects");
}
