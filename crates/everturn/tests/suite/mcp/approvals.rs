//! Whom servers' tools ask before they run.

use serde_json::{Value, json};

use super::world::{Turn, World, kinds, only, results, spawn, told};
use crate::suite::harness::{Answer, Reply, asked, script};

const AGENTS: &str = "
[[agents]]
name = 'wary'
model = 'script/model'
titles = false
tools = ['box/*']
[[agents]]
name = 'mixed'
model = 'script/model'
titles = false
tools = ['box/echo', 'box/spend']
trusted = ['box/echo']
[[agents]]
name = 'secretive'
model = 'script/model'
titles = false
tools = ['box/echo']
internal_tools = ['box/look']
";

fn world() -> World {
    World::with_box("", "", AGENTS)
}

fn answer(turn: &Turn, body: Value) -> Answer {
    let mut body = body;
    body["session_id"] = turn.session.as_str().into();
    turn.client.send("POST", "/api/v1/sessions/stream", &body.to_string())
}

fn begin(world: &World, agent: &str, name: &str) -> Turn {
    spawn(&world.client(), &json!({ "agent_id": agent, "message": format!("play {name}") }))
}

#[test]
fn a_tool_that_nobody_trusts_asks() {
    let world = world();
    for (name, approved) in [("mcp-allowed", true), ("mcp-denied", false)] {
        script(name, [Reply::calls(&[("box__spend", json!({ "text": name }))]), Reply::says(&["So be it."])]);
        let turn = begin(&world, "wary", name);
        let frames = turn.frames();
        assert_eq!(kinds(&frames), ["start", "form_request", "paused"]);
        let payload = &frames[1].data["payload"];
        assert_eq!(payload["title"], "Allow box__spend?");
        assert!(payload["description"].as_str().unwrap().contains(name), "it shows the input: {payload}");
        assert!(world.traces.lines("ledger").iter().all(|line| !line.contains(name)), "nothing ran");
        assert_eq!(answer(&turn, json!({ "form_answer": { "approved": approved } })).status, 202);
        assert_eq!(turn.complete()["final_response"], "So be it.");
        assert_eq!(only(name), if approved { "spend is done" } else { "Tool call denied" });
        let runs = world.traces.entries("ledger").iter().filter(|entry| entry["text"] == name).count();
        assert_eq!(runs, usize::from(approved));
    }
}

#[test]
fn patterns_say_which_ones_are_trusted() {
    let world = world();
    let calls = [("box__echo", json!({ "text": "trusted" })), ("box__spend", json!({ "text": "not trusted" }))];
    script("mcp-mixed", [Reply::calls(&calls), Reply::says(&["Both."])]);
    let turn = begin(&world, "mixed", "mcp-mixed");
    let frames = turn.frames();
    assert_eq!(kinds(&frames), ["start", "tool_started", "tool_completed", "form_request", "paused"]);
    assert_eq!(results(&frames), [("box__echo".to_owned(), true, "trusted".to_owned())]);
    assert_eq!(answer(&turn, json!({ "message": "yes" })).status, 202);
    assert_eq!(turn.complete()["final_response"], "Both.");
    // With a pattern for all of them nothing asks.
    script("mcp-all-trusted", [Reply::calls(&calls), Reply::says(&["Both."])]);
    let frames = begin(&world, "boxer", "mcp-all-trusted").frames();
    assert!(!kinds(&frames).contains(&"form_request"), "{frames:?}");
    // What is not among the agent's tools is not there, whatever the model thinks.
    script("mcp-not-mine", [Reply::calls(&[("box__look", json!({}))]), Reply::says(&["No?"])]);
    begin(&world, "mixed", "mcp-not-mine").complete();
    assert_eq!(only("mcp-not-mine"), "There is no tool \"box__look\" in this session");
}

/// The client's word goes before the configuration's.
#[test]
fn clients_say_whom_they_trust() {
    let world = world();
    let call = || Reply::calls(&[("box__echo", json!({ "text": "hi" }))]);
    script("mcp-client-trusts", [call(), Reply::says(&["Ran."])]);
    let tools = json!([{ "name": "box__echo", "trust": true }]);
    let body = json!({ "agent_id": "wary", "message": "play mcp-client-trusts", "tools": tools });
    assert_eq!(spawn(&world.client(), &body).complete()["final_response"], "Ran.");
    script("mcp-client-asks", [call(), Reply::says(&["Ran."])]);
    let tools = json!([{ "name": "box__echo", "trust": false }]);
    let body = json!({ "agent_id": "boxer", "message": "play mcp-client-asks", "tools": tools });
    spawn(&world.client(), &body).paused();

    let aap = |agent: &str, name: &str, trust: bool| {
        script(name, [call(), Reply::says(&["Ran."])]);
        let tools = json!([{ "name": "box__echo", "trust": trust }]);
        let messages = json!([{ "role": "user", "content": format!("play {name}") }]);
        let body = json!({ "agent": { "name": agent, "tools": tools }, "messages": messages });
        world.client().send("PUT", "/session", &body.to_string())
    };
    let ran = aap("wary", "mcp-aap-trusts", true).json();
    assert_eq!(ran["stopReason"], "end_turn", "{ran}");
    let asks = aap("boxer", "mcp-aap-asks", false);
    assert_eq!(asks.json()["stopReason"], "tool_use", "{asks:?}");
    let blocks = asks.json()["messages"][0]["content"].as_array().unwrap().clone();
    let id = &blocks.iter().find(|block| block["type"] == "tool_use").unwrap()["toolCallId"];
    let granted = json!({ "messages": [{ "role": "tool_permission", "toolCallId": id, "granted": true }] });
    let path = format!("/session/{}", asks.header("x-session-id"));
    let ran = world.client().send("POST", &path, &granted.to_string()).json();
    assert_eq!((&ran["stopReason"], &ran["messages"][0]["content"]), (&json!("end_turn"), &json!("hi")), "{ran}");
}

#[test]
fn internal_tools_run_and_are_not_shown() {
    let world = world();
    assert_eq!(world.tools("secretive"), ["box__echo"]);
    script("mcp-internal", [Reply::calls(&[("box__look", json!({ "text": "inside" }))]), Reply::says(&["Seen."])]);
    let turn = begin(&world, "secretive", "mcp-internal");
    assert_eq!(turn.complete()["final_response"], "Seen.");
    assert_eq!(told("mcp-internal"), ["look is done"]);
    let offered = asked("mcp-internal")[0]["tools"].to_string();
    assert!(offered.contains("box__look") && offered.contains("box__echo"), "{offered}");
}

/// The server that shall run the call is not up again yet when somebody allows it.
#[test]
fn allowed_after_a_crash() {
    let mut world = world();
    script("mcp-allowed-later", [Reply::calls(&[("box__spend", json!({ "text": "later" }))]), Reply::says(&["Ran."])]);
    let turn = begin(&world, "wary", "mcp-allowed-later");
    turn.paused();
    world.traces.make("hold");
    world.crash();
    assert_eq!(world.health("box")["state"], "starting");
    let turn = Turn { client: world.client(), ..turn };
    assert_eq!(answer(&turn, json!({ "form_answer": { "approved": true } })).status, 202);
    world.traces.remove("hold");
    assert_eq!(turn.complete()["final_response"], "Ran.");
    assert_eq!(only("mcp-allowed-later"), "spend is done");
    assert_eq!(world.traces.lines("ledger").len(), 1);
}
