//! Whatever a reader has seen last: when it comes back it sees exactly the rest.

use serde_json::{Value, json};

use super::world::{Frame, Turn, World, frames, kinds, play};
use crate::suite::harness::{Answer, Reply, go_on, script};

/// A frame as it is on the wire, and its id if it has one.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Raw {
    id: Option<(u64, u32)>,
    text: String,
}

/// The frames of an answer, without the word how soon to come back.
fn raw(answer: &Answer) -> Vec<Raw> {
    let frames = answer.body.strip_prefix("retry: 1000\n").unwrap_or(&answer.body).split_inclusive("\n\n");
    let id = |frame: &str| {
        let id = frame.lines().find_map(|line| line.strip_prefix("id: "))?;
        let (seq, part) = id.split_once('.').unwrap_or((id, "0"));
        Some((seq.parse().unwrap(), part.parse().unwrap()))
    };
    // A comment stands before the next frame, which may be the first that a reader is shown.
    let text = |frame: &str| frame.split_inclusive('\n').filter(|line| !line.starts_with(':')).collect();
    frames.map(|frame| Raw { id: id(frame), text: text(frame) }).collect()
}

fn cursor((seq, part): (u64, u32)) -> String {
    if part == 0 { seq.to_string() } else { format!("{seq}.{part}") }
}

/// How a cursor is sent.
#[derive(Clone, Copy, Debug)]
enum Sent {
    InHeader,
    InQuery,
}

/// All frames of a turn that is over, after this cursor, as a client sees them that comes back whenever the stream is
/// closed before the end.
#[track_caller]
fn read(turn: &Turn, view: &str, from: Option<(u64, u32)>, sent: Sent) -> Vec<Raw> {
    let mut seen: Vec<Raw> = Vec::new();
    let mut at = from;
    loop {
        let path = format!("{}/stream?as={view}", turn.path());
        let answer = match (at.map(cursor), sent) {
            (None, _) => turn.client.send("GET", &path, ""),
            (Some(at), Sent::InHeader) => turn.client.send_with("GET", &path, &[("last-event-id", at.as_str())], ""),
            (Some(at), Sent::InQuery) => turn.client.send("GET", &format!("{path}&since={at}"), ""),
        };
        if answer.status == 204 {
            return seen;
        }
        assert_eq!(answer.status, 200, "{answer:?}");
        let next = raw(&answer);
        at = next.iter().filter_map(|frame| frame.id).next_back().or(at);
        seen.extend(next);
    }
}

/// Where a part of an event stands among all frames. A cursor without a part is after all frames of its event.
fn place((seq, part): (u64, u32)) -> (u64, u32) {
    (seq, if part == 0 { u32::MAX } else { part })
}

/// Plays a turn that uses everything there is: thinking, text, a call that is made again, tools, an artifact and its
/// change, a form, an approval, a timer. Gives all its frames as they came.
fn everything(world: &World) -> (Turn, Vec<Frame>) {
    let schema = json!({ "type": "object", "properties": { "word": { "type": "string" } }, "required": ["word"] });
    let form = json!({ "kind": "clarify", "title": "Which word?", "schema": schema });
    let page = json!({ "title": "Page", "type": "markdown", "content": "# One\n\nTwo \"three\"\n" });
    script(
        "resume-all",
        [
            Reply::new().thinking("Let me ").thinking("think.").text("First, I "),
            Reply::new()
                .thinking("Again.")
                .text("First, ")
                .text("the tools.")
                .call("calculator", r#"{"expression":"6*7"}"#)
                .call("clock", "{}")
                .call("hammer", "{}")
                .finish("tool_calls"),
            Reply::new()
                .text("A page.")
                .call_in_pieces("create_artifact", &page.to_string().split_inclusive(' ').collect::<Vec<_>>())
                .finish("tool_calls"),
            Reply::new().text("A question.").call("request_form", form.to_string()).finish("tool_calls"),
        ],
    );
    let client = world.client();
    let turn = play(&client, "resume-all");
    let mut all = turn.frames();
    assert_eq!(all.last().unwrap().kind(), "paused", "{all:#?}");
    let artifact = all.iter().find(|frame| frame.kind() == "artifact_start").unwrap().data["artifact_id"].clone();

    let update = json!({ "artifact_id": artifact, "content": "# One\n\nTwo\n" });
    go_on(
        "resume-all",
        [
            Reply::calls(&[("update_artifact", update), ("wait", json!({ "seconds": 0.01 }))]),
            Reply::new().thinking("Almost.").text("And ").text("done.").stops(),
        ],
    );
    let answer = json!({ "session_id": turn.session, "form_answer": { "word": "Four" } });
    assert_eq!(client.send("POST", "/api/v1/sessions/stream", &answer.to_string()).status, 202);
    while all.last().unwrap().kind() == "paused" {
        let next = turn.frames_after(&all.last().unwrap().id);
        all.extend(next);
    }
    (turn, all)
}

#[test]
fn at_every_frame_in_every_view() {
    let mut world = World::start("");
    let (turn, all) = everything(&world);
    let mut found = kinds(&all);
    found.sort_unstable();
    found.dedup();
    let every_kind = [
        "artifact_complete",
        "artifact_delta",
        "artifact_start",
        "artifact_update",
        "complete",
        "delta",
        "form_request",
        "paused",
        "retry_notification",
        "start",
        "thinking",
        "tool_completed",
        "tool_started",
    ];
    assert_eq!(found, every_kind, "{all:#?}");
    assert_eq!(all.iter().filter(|frame| frame.kind() == "paused").count(), 2);

    check_every_cursor(&turn, &all);
    // What was stored is the same as what was shown while it happened.
    world.crash();
    check_every_cursor(&turn.on(&world), &all);
}

fn check_every_cursor(turn: &Turn, all: &[Frame]) {
    let native = read(turn, "native", None, Sent::InHeader);
    let whole: String = native.iter().map(|frame| frame.text.as_str()).collect();
    assert_eq!(frames(&whole), all, "it is the same for who comes late");
    let views = ["native", "aap-delta", "aap-message"].map(|view| (view, read(turn, view, None, Sent::InHeader)));
    assert!(views.iter().flat_map(|(_, frames)| frames).any(|frame| frame.id.is_some_and(|(_, part)| part > 1)));
    for (view, frames) in &views {
        // A cursor of the native view means the same in each.
        let cursors: Vec<_> = native.iter().chain(frames).filter_map(|frame| frame.id).collect();
        for (index, cursor) in cursors.into_iter().enumerate() {
            let sent = if index % 5 == 0 { Sent::InQuery } else { Sent::InHeader };
            let rest = read(turn, view, Some(cursor), sent);
            assert!(frames.ends_with(&rest), "{view} after {cursor:?}: {rest:#?}");
            let expected = frames.iter().filter(|frame| frame.id.is_some_and(|id| place(id) > place(cursor)));
            let numbered = rest.iter().filter(|frame| frame.id.is_some());
            assert_eq!(numbered.count(), expected.count(), "{view} after {cursor:?}: {rest:#?}");
        }
    }
}

/// A reader that loses its connection after every frame, while the turn goes on.
#[test]
fn after_every_frame_while_it_happens() {
    let words: Vec<_> = (1..=20).map(|n| format!("{n} ")).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let calls = Reply::calls(&[("calculator", json!({ "expression": "1+1" })), ("wait", json!({ "seconds": 0.01 }))]);
    script("resume-lost", [calls, Reply::says(&words)]);
    let world = World::start("");
    let turn = play(&world.client(), "resume-lost");
    let mut seen: Vec<Frame> = Vec::new();
    let over = |frame: &Frame| frame.kind() == "complete";
    while !seen.last().is_some_and(over) {
        let mut stream = match seen.last() {
            Some(last) => turn.open_after(&last.id),
            None => turn.open(),
        };
        seen.extend(Frame::read(&stream.next().unwrap()));
    }
    assert_eq!(seen, turn.frames(), "no gap, no repeat");
    let said: String = seen.iter().filter_map(|frame| frame.data["content"].as_str()).collect();
    assert_eq!(seen.last().unwrap().data["final_response"], Value::from(said));
}
