//! `GET …/stream`: a turn can be read before, while and long after it runs.

use expect_test::expect;
use serde_json::json;

use super::world::{Frame, World, frames, kinds, play, spawn};
use crate::suite::harness::{Client, Ended, Gate, Reply, Streaming, Talk, check, eventually, script, shared};

#[test]
fn before_while_and_long_after_it_runs() {
    let (first, second) = (Gate::default(), Gate::default());
    script("sub-first", [Reply::new().hold(&first).text("First.").stops()]);
    script("sub-second", [Reply::new().text("One, ").hold(&second).text("two.").stops()]);
    let mut world = World::start("");
    let client = world.client();
    let busy = play(&client, "sub-first");
    let turn = spawn(&client, &json!({ "session_id": busy.session, "message": "play sub-second" }));
    assert_eq!(turn.kind, "queued");

    // Nothing has happened yet, and the stream is open all the same.
    let mut early = turn.open();
    first.open();
    let mut seen = vec![early.until("\"start\""), early.until("One, ")];
    let mut meanwhile = turn.open();
    let caught_up: Vec<_> = (0..2).map(|_| meanwhile.next().unwrap()).collect();
    assert_eq!(caught_up, seen, "whoever comes late sees what was");
    second.open();
    let (rest, ended) = early.rest();
    assert_eq!(ended, Ended::Cleanly);
    assert_eq!(meanwhile.rest(), (rest.clone(), Ended::Cleanly));
    seen.extend(rest);

    let whole = format!("{}\n\n", seen.join("\n\n"));
    assert!(whole.starts_with("retry: 1000\nid: "), "{whole}");
    assert_eq!(kinds(&frames(&whole)), ["start", "delta", "delta", "complete"]);
    let read = |client: &Client| client.send("GET", &format!("{}/stream", turn.path()), "").body;
    assert_eq!(read(&client), whole, "a turn that is over replays and closes");
    assert_eq!(read(&client), whole, "as often as one likes");
    world.crash();
    assert_eq!(read(&world.client()), whole, "also after a crash");
}

#[test]
fn frames_have_an_id_and_data_and_nothing_else() {
    script("sub-plain", [Reply::new().thinking("Hm.").text("Line\nbreaks\r\n\nand \"quotes\".").stops()]);
    let shared = shared();
    let turn = spawn(&shared.client("acme"), &json!({ "agent_id": "scripted", "message": "play sub-plain" }));
    let body = turn.client.send("GET", &format!("{}/stream", turn.path()), "").body;
    let rest = body.strip_prefix("retry: 1000\n").expect("it says first how soon to come back");
    for frame in rest.split_terminator("\n\n") {
        let lines: Vec<_> = frame.lines().map(|line| line.split_once(": ").unwrap().0).collect();
        assert_eq!(lines, ["id", "data"], "{frame}");
    }
    let ids: Vec<u64> = frames(&body).iter().map(|frame| frame.id.parse().unwrap()).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    assert_eq!(turn.complete()["final_response"], "Line\nbreaks\r\n\nand \"quotes\".");
}

#[test]
fn cursors_that_never_were() {
    script("sub-cursors", [Reply::says(&["Yes."])]);
    check(
        &[
            r#"POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play sub-cursors"}"#,
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream",
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=3",
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=5",
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=6",
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=0.3",
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=-1",
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=",
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=rubbish",
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=99999999999999999999999",
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=1.",
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=1.2.3",
        ],
        expect![[r#"
            > POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play sub-cursors"}
            202
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"kind":"new_turn","message_id":"turn#1","session_id":"sess#1"}

            > GET /api/v1/sessions/sess#1/messages/turn#1/stream
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            retry: 1000
            id: 1
            data: {"type":"start","session_id":"sess#1","message_id":"turn#1","agent_id":"scripted"}

            id: 3
            data: {"type":"delta","content":"Yes."}

            id: 5
            data: {"type":"complete","session_id":"sess#1","message_id":"turn#1","final_response":"Yes.","total_input_tokens":10,"total_output_tokens":5,"artifacts":[]}

            > GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=3
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            retry: 1000
            id: 5
            data: {"type":"complete","session_id":"sess#1","message_id":"turn#1","final_response":"Yes.","total_input_tokens":10,"total_output_tokens":5,"artifacts":[]}

            > GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=5
            204
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            > GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=6
            400
            content-type: application/json
            {"detail":{"code":"CURSOR_INVALID","message":"the cursor is beyond the turn's last event, 5"}}

            > GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=0.3
            400
            content-type: application/json
            {
              "detail": {
                "code": "CURSOR_INVALID",
                "message": "\"0.3\" cannot be resumed from: a cursor is the id of a frame, such as 17 or 17.2"
              }
            }

            > GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=-1
            400
            content-type: application/json
            {
              "detail": {
                "code": "CURSOR_INVALID",
                "message": "\"-1\" cannot be resumed from: a cursor is the id of a frame, such as 17 or 17.2"
              }
            }

            > GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            retry: 1000
            id: 1
            data: {"type":"start","session_id":"sess#1","message_id":"turn#1","agent_id":"scripted"}

            id: 3
            data: {"type":"delta","content":"Yes."}

            id: 5
            data: {"type":"complete","session_id":"sess#1","message_id":"turn#1","final_response":"Yes.","total_input_tokens":10,"total_output_tokens":5,"artifacts":[]}

            > GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=rubbish
            400
            content-type: application/json
            {
              "detail": {
                "code": "CURSOR_INVALID",
                "message": "\"rubbish\" cannot be resumed from: a cursor is the id of a frame, such as 17 or 17.2"
              }
            }

            > GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=99999999999999999999999
            400
            content-type: application/json
            {
              "detail": {
                "code": "CURSOR_INVALID",
                "message": "\"99999999999999999999999\" cannot be resumed from: a cursor is the id of a frame, such as 17 or 17.2"
              }
            }

            > GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=1.
            400
            content-type: application/json
            {
              "detail": {
                "code": "CURSOR_INVALID",
                "message": "\"1.\" cannot be resumed from: a cursor is the id of a frame, such as 17 or 17.2"
              }
            }

            > GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=1.2.3
            400
            content-type: application/json
            {
              "detail": {
                "code": "CURSOR_INVALID",
                "message": "\"1.2.3\" cannot be resumed from: a cursor is the id of a frame, such as 17 or 17.2"
              }
            }

        "#]],
    );
}

#[test]
fn the_header_wins() {
    script("sub-header", [Reply::says(&["One, ", "two."])]);
    let shared = shared();
    let turn = spawn(&shared.client("acme"), &json!({ "agent_id": "scripted", "message": "play sub-header" }));
    let all = turn.frames();
    let read = |header: &str, since: &str| {
        let path = format!("{}/stream?since={since}", turn.path());
        turn.client.send_with("GET", &path, &[("last-event-id", header)], "")
    };
    for since in ["4", "rubbish", "4711"] {
        assert_eq!(frames(&read(&all[0].id, since).body), all[1..], "since={since}");
    }
    for header in ["rubbish", "4711", "\u{fffd}"] {
        let answer = read(header, &all[0].id);
        assert_eq!((answer.status, &answer.json()["detail"]["code"]), (400, &"CURSOR_INVALID".into()), "{header:?}");
    }
}

/// Without the heartbeats, which a busy machine may bring anywhere.
fn spoken(mut frames: Vec<Frame>) -> Vec<Frame> {
    frames.retain(|frame| frame.kind() != "heartbeat");
    frames
}

#[test]
fn silence_is_filled_with_heartbeats_that_repeat_the_last_id() {
    let (first, second) = (Gate::default(), Gate::default());
    script("sub-silent", [Reply::new().text("Well, ").hold(&first).text("yes.").stops()]);
    script("sub-waiting", [Reply::new().hold(&second).text("Me too.").stops()]);
    let world = World::start("heartbeat = '50ms'");
    let client = world.client();
    let turn = play(&client, "sub-silent");
    let queued = turn.say("play sub-waiting");

    let mut stream = turn.open();
    let last = Frame::read(&stream.until("Well, ")).unwrap();
    let beat = |stream: &mut Streaming| Frame::read(&stream.next().unwrap()).unwrap();
    let beats = [beat(&mut stream), beat(&mut stream)];
    let expected = Frame { id: last.id.clone(), data: json!({ "type": "heartbeat" }) };
    assert_eq!(beats, [expected.clone(), expected], "each can be resumed from");
    // A turn without events has none to repeat; its heartbeats can be resumed from as well.
    let before = Frame::read(&queued.open().until("heartbeat")).unwrap();
    assert_eq!(before.id, "0");
    // The other dialect has a comment for it.
    let mut other = client.open("GET", &format!("{}/stream?as=aap-delta", turn.path()), "");
    other.until(": keep-alive");

    first.open();
    let told: Vec<_> = stream.rest().0.iter().filter_map(|text| Frame::read(text)).collect();
    let resumed = spoken(turn.frames_after(&beats[1].id));
    assert_eq!(resumed, spoken(told), "nothing is missed or told twice");
    second.open();
    assert_eq!(kinds(&spoken(queued.frames_after(&before.id))), ["start", "delta", "complete"]);
}

#[test]
fn a_stream_closes_when_the_turn_pauses_and_is_open_again_for_who_has_seen_that() {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    let form = json!({ "kind": "clarify", "title": "Where?", "schema": schema });
    script("sub-paused", [Reply::calls(&[("request_form", form)]), Reply::says(&["There."])]);
    let world = World::start("heartbeat = '50ms'");
    let turn = play(&world.client(), "sub-paused");
    let paused = spoken(turn.frames());
    assert_eq!(kinds(&paused), ["start", "form_request", "paused"]);
    assert_eq!(spoken(turn.frames()), paused, "who has not, sees it and is let go");
    let mut stream = turn.open_after(&paused[2].id);
    stream.until("heartbeat");
    let answered = turn.say("Oslo");
    assert_eq!((answered.kind.as_str(), &answered.message), ("form_answer", &turn.message));
    stream.until("There.");
    stream.until("\"complete\"");
    assert_eq!(stream.next(), Err(Ended::Cleanly));
    assert_eq!(kinds(&spoken(turn.frames_after(&paused[2].id))), ["delta", "complete"]);
}

#[test]
fn every_streaming_answer_names_the_session_and_the_turn() {
    script("sub-names", (0..4).map(|_| Reply::says(&["Here."])));
    let shared = shared();
    let client = shared.client("acme");
    let aap = |mode: &str| {
        format!(
            r#"{{"agent":{{"name":"scripted"}},"stream":"{mode}","messages":[{{"role":"user","content":"play sub-names"}}]}}"#
        )
    };
    let again = r#"{"stream":"delta","messages":[{"role":"user","content":"play sub-names"}]}"#;
    let delta = client.open("PUT", "/session", &aap("delta"));
    let message = client.open("PUT", "/session", &aap("message"));
    eventually("the turn ends", || {
        let path = format!("/api/v1/sessions/{}", delta.header("x-session-id"));
        (client.send("GET", &path, "").json()["status"] == "idle").then_some(())
    });
    let next = client.open("POST", &format!("/session/{}", delta.header("x-session-id")), again);
    assert_eq!(next.header("x-session-id"), delta.header("x-session-id"));
    assert_ne!(next.header("x-message-id"), delta.header("x-message-id"));
    for made in [&delta, &message, &next] {
        let (session, turn) = (made.header("x-session-id"), made.header("x-message-id"));
        for view in ["", "?as=native", "?as=aap-delta", "?as=aap-message"] {
            let read = client.open("GET", &format!("/api/v1/sessions/{session}/messages/{turn}/stream{view}"), "");
            for stream in [made, &read] {
                assert_eq!((stream.header("x-session-id"), stream.header("x-message-id")), (session, turn), "{view}");
                assert_eq!(stream.header("content-type"), "text/event-stream");
                assert_eq!(stream.header("cache-control"), "no-cache");
                assert_eq!(stream.header("x-accel-buffering"), "no");
            }
        }
    }
    // So does one for whom there is nothing left to see.
    let (session, turn) = (delta.header("x-session-id"), delta.header("x-message-id"));
    let path = format!("/api/v1/sessions/{session}/messages/{turn}/stream");
    let last = frames(&client.send("GET", &path, "").body).pop().unwrap();
    let mut talk = Talk::new(client.clone());
    talk.note(&client.send("GET", &format!("{path}?since={}", last.id), ""), &["x-session-id", "x-message-id"]);
    talk.check(expect![[r#"
        204
        x-session-id: sess#1
        x-message-id: turn#1

    "#]]);
}

/// Some clients send the header before they have seen a frame.
#[test]
fn an_empty_cursor_is_none() {
    script("sub-empty", [Reply::says(&["Hello."])]);
    let shared = shared();
    let turn = spawn(&shared.client("acme"), &json!({ "agent_id": "scripted", "message": "play sub-empty" }));
    let whole = turn.frames();
    let after_start = format!("{}/stream?since={}", turn.path(), whole[0].id);
    assert_eq!(turn.frames_after(""), whole);
    let answer = turn.client.send_with("GET", &after_start, &[("last-event-id", "")], "");
    assert_eq!(frames(&answer.body), whole[1..], "the other way to say it counts");
}
