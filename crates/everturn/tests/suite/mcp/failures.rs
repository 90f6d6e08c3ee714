//! Servers that die, and tools that never come back.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{
    secrets::Listening,
    world::{Traces, World, config, kinds, only, play, results, signal, told},
};
use crate::suite::harness::{Reply, eventually, script};

#[test]
fn a_server_that_is_killed_within_a_call() {
    let world = World::new();
    let never = json!({ "until": world.traces.text("never") });
    script(
        "mcp-killed",
        [
            Reply::calls(&[("box__wait", never)]),
            Reply::calls(&[("box__echo", json!({ "text": "right after" }))]),
            Reply::says(&["I go on."]),
        ],
    );
    let turn = play(&world.client(), "mcp-killed");
    turn.open().until("tool_started");
    let first = world.traces.pid();
    assert_eq!(world.health("box"), json!({ "state": "ready", "tools": 14, "restarts": 0 }));
    // So that it is not back too soon.
    world.traces.make("hold");
    let begun = Instant::now();
    signal("KILL", first);
    let frames = turn.frames();
    // Long before the time that a call may take, and before the server is back.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(
        kinds(&frames),
        ["start", "tool_started", "tool_completed", "tool_started", "tool_completed", "delta", "complete"]
    );
    let told = told("mcp-killed");
    assert!(told[0].contains("\"box\" was lost during the call"), "{told:?}");
    assert!(told[0].contains("whether the call had an effect is not known"), "{told:?}");
    assert!(told[1].contains("\"box\" is not running") && told[1].contains("it is being started again"), "{told:?}");
    assert!(results(&frames).iter().all(|(_, success, _)| !success), "{frames:?}");
    let down = world.health("box");
    assert_eq!((&down["state"], &down["tools"]), (&json!("failed"), &json!(14)), "{down}");
    assert_eq!(world.metric("everturn_mcp_up{server=\"box\"}"), 0.0);
    let agent = world.agent("boxer");
    assert_eq!(agent["unavailable"][0]["server"], "box", "{agent}");

    world.traces.remove("hold");
    world.ready("box");
    assert_eq!(world.health("box")["restarts"], 1);
    assert_eq!(world.metric("everturn_mcp_restarts_total{server=\"box\"}"), 1.0);
    assert_eq!(world.metric("everturn_mcp_up{server=\"box\"}"), 1.0);
    world.call("mcp-back", &[("box__pid", json!({}))]);
    assert_ne!(only("mcp-back"), first.to_string());
    assert_eq!(world.traces.lines("life").len(), 2, "it was started once more");
    assert_eq!(world.agent("boxer").get("unavailable"), None);
}

#[test]
fn a_server_elsewhere_that_goes_away_and_comes_back() {
    let server = Listening::start(&[]);
    let port = server.port.to_string();
    let text = config("", &server.table("box"), "");
    let world = World::start(Traces::new(), &text);
    world.ready("box");
    script("mcp-away", [Reply::calls(&[("box__hang", json!({}))]), Reply::says(&["I go on."])]);
    let turn = play(&world.client(), "mcp-away");
    turn.open().until("tool_started");
    drop(server);
    let begun = Instant::now();
    assert_eq!(turn.complete()["final_response"], "I go on.");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(only("mcp-away").starts_with("Error: MCP server \"box\""), "{}", only("mcp-away"));
    let _back = Listening::start(&["--port", &port]);
    eventually("it is back", || {
        let health = world.health("box");
        (health["state"] == "ready" && health["restarts"] != 0).then_some(())
    });
    world.call("mcp-away-back", &[("box__echo", json!({ "text": "back" }))]);
    assert_eq!(only("mcp-away-back"), "back");
}

/// What the model is told of a call that has effects.
const SILENT: &str = "Tool call timed out: it gave no sign of life for 300ms, which is its limit (`timeout`). Whether it \
    had its effect is unknown; check before you call it again";

#[test]
fn a_tool_that_shows_progress_may_take_longer() {
    let world = World::with_box("", "timeout = '1s'\nmax_timeout = '1m'", "");
    let until = world.traces.text("enough");
    script("mcp-ticks", [Reply::calls(&[("box__steps", json!({ "until": until }))]), Reply::says(&["Ready."])]);
    let turn = play(&world.client(), "mcp-ticks");
    // Forty steps of 50 ms are longer than the server may be silent.
    turn.open().until("\"progress\":40");
    std::fs::write(&until, "").unwrap();
    assert_eq!(turn.complete()["final_response"], "Ready.");
    assert_eq!(only("mcp-ticks"), "enough steps");
}

#[test]
fn a_tool_that_never_stops_reporting() {
    let world = World::with_box("", "timeout = '400ms'\nmax_timeout = '900ms'\neffects = { steps = 'idempotent' }", "");
    let never = json!({ "until": world.traces.text("never") });
    world.call("mcp-endless", &[("box__steps", never)]);
    let limit = "it took 900ms in all, which is its limit (`max_timeout`)";
    assert_eq!(only("mcp-endless"), format!("Tool call timed out: {limit}. You may call it again"));
    cancelled(&world);
}

#[test]
fn a_tool_that_takes_too_long() {
    let world = World::with_box("", "timeout = '300ms'", "");
    let never = json!({ "until": world.traces.text("never") });
    let begun = Instant::now();
    let turn = world.call("mcp-slow", &[("box__wait", never), ("box__echo", json!({ "text": "quick" }))]);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(told("mcp-slow"), [SILENT, "quick"]);
    assert_eq!(results(&turn.frames()).iter().filter(|(_, success, _)| *success).count(), 1);
    let heard = cancelled(&world);
    assert!(heard["params"]["requestId"].is_number(), "{heard}");
    world.call("mcp-slow-on", &[("box__echo", json!({ "text": "on" }))]);
    assert_eq!(only("mcp-slow-on"), "on");
    assert_eq!(world.traces.lines("life").len(), 1, "it is the same process");
    assert_eq!(world.metric("everturn_mcp_calls_total{server=\"box\",outcome=\"cancelled\"}"), 1.0);
}

#[test]
fn a_stop_within_a_call() {
    let world = World::new();
    let never = json!({ "until": world.traces.text("never") });
    script("mcp-stop", [Reply::calls(&[("box__wait", never)])]);
    let turn = play(&world.client(), "mcp-stop");
    let mut reader = turn.open();
    reader.until("tool_started");
    let begun = Instant::now();
    let answer = turn.client.send("POST", &format!("/api/v1/sessions/{}/stop", turn.session), "");
    assert_eq!(answer.status, 204);
    reader.until("\"cancelled\"");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    cancelled(&world);
    world.call("mcp-stop-on", &[("box__echo", json!({ "text": "on" }))]);
    assert_eq!(only("mcp-stop-on"), "on");
    assert_eq!(world.traces.lines("life").len(), 1, "it is the same process");
}

/// What the server heard about a call that nobody waits for.
#[track_caller]
fn cancelled(world: &World) -> serde_json::Value {
    eventually("the server hears of it", || {
        world.traces.entries("heard").into_iter().find(|heard| heard["method"] == "notifications/cancelled")
    })
}
