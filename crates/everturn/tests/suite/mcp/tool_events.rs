//! What the streams of the native API show of tools.

use std::time::{Duration, Instant};

use serde_json::json;

use super::world::{World, kinds, play};
use crate::suite::harness::{Reply, eventually, script};

#[test]
fn progress_is_shown() {
    let world = World::new();
    let turn = world.call("events-steps", &[("box__steps", json!({ "words": ["half", "all"] }))]);
    let frames = turn.frames();
    assert_eq!(
        kinds(&frames),
        ["start", "tool_started", "tool_progress", "tool_progress", "tool_completed", "delta", "complete"]
    );
    let call = &frames[1].data["tool_call_id"];
    let half = json!({ "type": "tool_progress", "tool_call_id": call, "progress": 1, "total": 2, "message": "half" });
    assert_eq!(frames[2].data, half);
    // In the other dialects that have a word for it, too.
    let stream = |view: &str| turn.client.send("GET", &format!("{}/stream?as={view}", turn.path()), "").body;
    let openai = stream("openai-progress");
    assert_eq!(openai.matches(r#""status":"running","progress":{"message":"#).count(), 2, "{openai}");
    for view in ["goose", "goose-seed"] {
        assert_eq!(stream(view).matches("notifications/progress").count(), 2, "{view}");
    }
}

#[test]
fn the_parts_of_a_result_are_lines() {
    let world = World::new();
    let turn = world.call("events-parts", &[("box__parts", json!({ "texts": ["one", "two"] }))]);
    let frames = turn.frames();
    assert_eq!(frames[2].data["message"], "one\ntwo", "{frames:?}");
    assert_eq!(turn.shown()["messages"][2]["content"], "one\ntwo");
}

#[test]
fn a_tool_that_is_stopped_has_run_as_long_as_it_has() {
    let world = World::new();
    let until = world.traces.text("never");
    script("events-stopped", [Reply::calls(&[("box__wait", json!({ "until": until }))])]);
    let turn = play(&world.client(), "events-stopped");
    let mut reader = turn.open();
    reader.until("tool_started");
    let started = Instant::now();
    eventually("some time has passed", || (started.elapsed() > Duration::from_millis(100)).then_some(()));
    assert_eq!(turn.client.send("POST", &format!("/api/v1/sessions/{}/stop", turn.session), "").status, 204);
    let frames = turn.frames();
    assert_eq!(kinds(&frames), ["start", "tool_started", "tool_completed", "cancelled"]);
    assert!(frames[2].data["duration_ms"].as_u64().unwrap() >= 100, "{frames:?}");
}

/// Also one that nobody ran.
#[test]
fn every_tool_starts_before_it_completes() {
    let world = World::new();
    let turn = world.call("events-refused", &[("box__echo", json!({ "text": 7 })), ("rm_rf", json!({}))]);
    let frames = turn.frames();
    let started = ["tool_started", "tool_completed"];
    assert_eq!(kinds(&frames)[1..5], [started, started].concat());
    assert_eq!(frames[1].data["tool_call_id"], frames[2].data["tool_call_id"]);
    assert_eq!((&frames[1].data["label"], &frames[1].data["iteration"]), (&json!("box__echo"), &json!(1)));
    // A reader that has seen the first of two frames is shown the second.
    let rest = turn.frames_after(&frames[1].id);
    assert_eq!(rest, frames[2..]);
}
