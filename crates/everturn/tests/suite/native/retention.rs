//! What is cleared away in time: logs become shorter and end the same, other things go.

use serde_json::json;

use super::{
    artifacts::{download, listed},
    world::{Frame, Turn, World, config, kinds, play},
};
use crate::suite::harness::{Gate, Reply, eventually, script};

fn world(retention: &str) -> World {
    World::with(&format!("{}\n[retention]\ninterval = '200ms'\n{retention}\n", config("")))
}

/// A turn that thinks, speaks, uses a tool and writes an artifact; all that was seen of it while it ran.
fn turn(world: &World, name: &str) -> (Turn, Vec<Frame>) {
    let gate = Gate::default();
    let first = Reply::new().hold(&gate).thinking("Hm.").text("Let ").text("me see. ");
    let first = first.call("calculator", r#"{"expression":"6*7"}"#).finish("tool_calls");
    let artifact = json!({ "title": "Sum", "type": "text", "content": "It is 42, and so on" });
    let second = Reply::calls(&[("create_artifact", artifact)]);
    script(name, [first, second, Reply::says(&["It ", "is ", "42."])]);
    let turn = play(&world.client(), name);
    // It is read while it runs: nothing can be cleared away before it is seen.
    let mut stream = turn.open();
    let start = stream.until("\"start\"");
    gate.open();
    let (rest, _) = stream.rest();
    let frames: Vec<_> = std::iter::once(start).chain(rest).filter_map(|frame| Frame::read(&frame)).collect();
    assert_eq!(frames.last().unwrap().data["final_response"], "It is 42.");
    (turn, frames)
}

/// The artifact that such a turn has made.
fn artifact(frames: &[Frame]) -> String {
    frames.last().unwrap().data["artifacts"][0]["artifact_id"].as_str().unwrap().to_owned()
}

fn number(frame: &Frame) -> u64 {
    frame.id.parse().unwrap()
}

/// Waits until the log is short; checks that it ends as it did, and that every cursor of before still works.
#[track_caller]
fn shortened(turn: &Turn, before: &[Frame]) -> Vec<Frame> {
    let after = eventually("the log is shortened", || {
        let frames = turn.frames();
        kinds(&frames).contains(&"compacted").then_some(frames)
    });
    assert_eq!(after.first(), before.first());
    assert_eq!(after.last(), before.last(), "the same end, with the same id");
    for cursor in before {
        let rest: Vec<_> = after.iter().filter(|frame| number(frame) > number(cursor)).cloned().collect();
        assert_eq!(turn.frames_after(&cursor.id), rest, "after {cursor:?} in {after:#?}");
    }
    // Nothing beyond the end was ever there.
    let beyond = number(before.last().unwrap()) + 1;
    let answer = turn.client.send("GET", &format!("{}/stream?since={beyond}", turn.path()), "");
    assert_eq!((answer.status, &answer.json()["detail"]["code"]), (400, &json!("CURSOR_INVALID")));
    after
}

#[test]
fn deltas_become_one_piece() {
    let mut world = world("deltas = '1s'");
    let (turn, before) = turn(&world, "retention-deltas");
    let shown = turn.shown();
    let after = shortened(&turn, &before);
    let told = |frames: &[Frame]| {
        let deltas = frames.iter().filter(|frame| frame.kind() == "delta");
        deltas.map(|frame| frame.data["content"].as_str().unwrap()).collect::<String>()
    };
    assert_eq!(told(&after), told(&before), "each answer in one piece");
    let whole = |frames: &[Frame]| -> Vec<Frame> {
        let narrative = ["delta", "thinking", "artifact_delta", "compacted"];
        frames.iter().filter(|frame| !narrative.contains(&frame.kind())).cloned().collect()
    };
    assert_eq!(whole(&after), whole(&before), "everything else is as it was");
    assert!(!kinds(&after).contains(&"artifact_delta"));
    // What counts is kept: the message, and the artifact with its content.
    assert_eq!(turn.shown(), shown);
    assert_eq!(download(&world.client(), &artifact(&before)).body, "It is 42, and so on");
    world.crash();
    assert_eq!(turn.on(&world).frames(), after);
    // The session goes on with all it knows.
    script("retention-next", [Reply::says(&["And on."])]);
    turn.on(&world).say("play retention-next").complete();
}

#[test]
fn logs_become_their_ends() {
    let world = world("logs = '1s'");
    let (turn, before) = turn(&world, "retention-logs");
    let shown = turn.shown();
    let after = shortened(&turn, &before);
    assert_eq!(kinds(&after), ["start", "compacted", "delta", "complete"], "the last answer stays");
    assert_eq!(after[1].data["dropped_events"], number(&after[3]) - 3);
    // In every view.
    let aap = world.client().send("GET", &format!("{}/stream?as=aap-delta", turn.path()), "").body;
    assert!(aap.contains(after[3].data["final_response"].as_str().unwrap()), "{aap}");
    assert_eq!(turn.shown(), shown, "messages stay");
}

/// First the deltas, then the rest: what was shortened once is shortened again.
#[test]
fn in_two_steps() {
    let world = world("deltas = '1s'\nlogs = '3s'");
    let (turn, before) = turn(&world, "retention-both");
    let first = eventually("the deltas go", || {
        let frames = turn.frames();
        kinds(&frames).contains(&"compacted").then_some(frames)
    });
    assert_eq!((first.first(), first.last()), (before.first(), before.last()));
    let ends = eventually("the rest goes", || Some(turn.frames()).filter(|frames| frames.len() == 4));
    assert_eq!(kinds(&ends), ["start", "compacted", "delta", "complete"]);
    shortened(&turn, &before);
}

/// Only what has ended is shortened.
#[test]
fn a_waiting_turn_keeps_its_log() {
    let world = world("deltas = '200ms'\nlogs = '200ms'\nsessions = '200ms'");
    let schema = json!({ "type": "object", "properties": { "word": { "type": "string" } }, "required": ["word"] });
    let form = json!({ "kind": "clarify", "title": "Which?", "schema": schema }).to_string();
    let asks = Reply::new().text("Let me ").text("ask.").call("request_form", form).finish("tool_calls");
    script("retention-form", [asks, Reply::says(&["Thanks."])]);
    let waiting = play(&world.client(), "retention-form");
    waiting.paused();
    let before = waiting.frames();
    // By the time that another one is gone, it has been looked at.
    let (other, _) = turn(&world, "retention-beside");
    let path = format!("/api/v1/sessions/{}", other.session);
    eventually("the other session is deleted", || (world.client().send("GET", &path, "").status == 404).then_some(()));
    assert_eq!(waiting.frames(), before);
    let mut stream = waiting.open_after(&before.last().unwrap().id);
    assert_eq!(waiting.say("blue").kind, "form_answer");
    assert!(stream.until("\"complete\"").contains("Thanks."));
}

#[test]
fn artifacts_go() {
    let world = world("artifacts = '1s'");
    let (turn, frames) = turn(&world, "retention-artifact");
    eventually("the artifact goes", || (download(&world.client(), &artifact(&frames)).status == 404).then_some(()));
    assert_eq!(listed(&world.client()), json!([]));
    assert_eq!(turn.frames(), frames, "that there was one is still told");
}

#[test]
fn sessions_go() {
    let world = world("sessions = '1s'");
    let (turn, frames) = turn(&world, "retention-session");
    let client = world.client();
    let path = format!("/api/v1/sessions/{}", turn.session);
    eventually("the session goes", || (client.send("GET", &path, "").status == 404).then_some(()));
    assert_eq!(client.send("GET", "/api/v1/sessions", "").json(), json!({ "sessions": [] }));
    assert_eq!(client.send("GET", &format!("{}/stream", turn.path()), "").status, 404);
    assert_eq!(download(&client, &artifact(&frames)).status, 404, "what belongs to it goes with it");
}
