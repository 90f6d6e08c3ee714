//! Turns that wait: whatever for, they survive the server, go on when it has come, and take nobody's place meanwhile.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::world::{Frame, Turn, World, kinds, play, spawn};
use crate::suite::harness::{Gate, Reply, asked, eventually, script};

/// A call that asks a person for a word.
fn form() -> Reply {
    let schema = json!({ "type": "object", "properties": { "word": { "type": "string" } }, "required": ["word"] });
    Reply::calls(&[("request_form", json!({ "kind": "clarify", "title": "Which?", "schema": schema }))])
}

fn wait(seconds: f64) -> Reply {
    Reply::calls(&[("wait", json!({ "seconds": seconds }))])
}

/// Kills the server while a turn waits for this; it is the same wait afterwards.
#[track_caller]
fn survives(world: &mut World, turn: &Turn, wake: &str) -> (Turn, Frame) {
    let paused = turn.paused();
    assert_eq!(paused.data["wake"], wake);
    let before = turn.frames();
    world.crash();
    let turn = turn.on(world);
    assert_eq!(turn.frames(), before, "what was seen is kept");
    (turn, paused)
}

#[test]
fn a_form_is_answered_after_a_crash() {
    let mut world = World::start("");
    script("wakes-form", [form(), Reply::says(&["Thanks."])]);
    let turn = play(&world.client(), "wakes-form");
    let (turn, _) = survives(&mut world, &turn, "form");
    // Also a second time, before anybody has looked at it.
    let (turn, paused) = survives(&mut world, &turn, "form");
    assert_eq!(turn.shown()["status"], "waiting");
    let answered = turn.say(r#"{"word":"blue"}"#);
    assert_eq!((answered.kind.as_str(), &answered.message), ("form_answer", &turn.message));
    assert_eq!(kinds(&turn.frames_after(&paused.id)), ["delta", "complete"]);
    assert!(asked("wakes-form")[1].to_string().contains("blue"));
}

#[test]
fn a_timer_goes_off_after_a_crash() {
    let mut world = World::start("");
    script("wakes-timer", [wait(2.0), Reply::says(&["Good morning."])]);
    let turn = play(&world.client(), "wakes-timer");
    let (turn, paused) = survives(&mut world, &turn, "timer");
    let rest = turn.frames_after(&paused.id);
    assert_eq!(kinds(&rest), ["tool_completed", "delta", "complete"]);
    assert!(rest[0].data["duration_ms"].as_u64().unwrap() >= 2000, "not too early: {rest:?}");
    assert!(rest[0].data["message"].as_str().unwrap().starts_with("The wait is over."), "{rest:?}");
}

/// A timer that was due while the server was down goes off when it is back.
#[test]
fn a_timer_that_was_missed() {
    let mut world = World::start("");
    // Its time may come before the crash, which then hits the second step.
    script("wakes-missed", [wait(0.3), Reply::says(&["Late."]), Reply::says(&["Late."])]);
    let turn = play(&world.client(), "wakes-missed");
    let (paused, since) = (turn.paused(), Instant::now());
    world.server.kill();
    eventually("its time has passed", || (since.elapsed() > Duration::from_millis(300)).then_some(()));
    world.server = world.home.start();
    let rest = turn.on(&world).frames_after(&paused.id);
    assert_eq!(rest.last().unwrap().data["final_response"], "Late.");
}

/// One that is not due stays where it is, and can be stopped.
#[test]
fn a_timer_that_is_not_due() {
    let mut world = World::start("");
    script("wakes-later", [wait(3600.0)]);
    let turn = play(&world.client(), "wakes-later");
    let (turn, _) = survives(&mut world, &turn, "timer");
    assert_eq!(turn.shown()["status"], "waiting");
    let next = turn.say("stream 1");
    assert_eq!(next.kind, "queued", "a message is no answer to a timer");
    assert_eq!(world.client().send("POST", &format!("{}/stop", next.path()), "").status, 204);
    assert_eq!(world.client().send("POST", &format!("{}/stop", turn.path()), "").status, 204);
    let last = turn.frames().last().unwrap().data.clone();
    assert_eq!((&last["type"], &last["reason"]), (&json!("cancelled"), &json!("user_stop")));
}

/// A provider that asks for a long wait is given it, and its turn is no load meanwhile.
#[test]
fn a_rate_limit_is_over_after_a_crash() {
    let mut world = World::start("retry_max = '100ms'");
    let limited = Reply::status(429, &[("retry-after", "2")], r#"{"error":{"message":"slow down"}}"#);
    script("wakes-limit", [limited, Reply::says(&["Here I am."])]);
    let begun = Instant::now();
    let turn = play(&world.client(), "wakes-limit");
    let (turn, paused) = survives(&mut world, &turn, "rate_limit");
    assert!(paused.data["wake_at"].is_string(), "{paused:?}");
    let rest = turn.frames_after(&paused.id);
    assert_eq!(kinds(&rest), ["delta", "complete"]);
    assert!(begun.elapsed() >= Duration::from_secs(2), "not too early");
    assert_eq!(asked("wakes-limit").len(), 2, "nobody asked meanwhile");
}

/// A turn pauses when retries are used up, whether the provider asks for a short wait or names no time at all.
#[test]
fn a_steady_rate_limit_is_a_pause() {
    let world = World::start("retries = 1\nretry_max = '500ms'");
    let headers: [(&str, &[(&str, &str)]); 2] = [("wakes-steady", &[("retry-after", "0")]), ("wakes-no-time", &[])];
    for (name, headers) in headers {
        let limited = Reply::status(429, headers, r#"{"error":{"message":"slow down"}}"#);
        script(name, [limited.clone(), limited, Reply::says(&["Here I am."])]);
        let turn = play(&world.client(), name);
        let paused = turn.paused();
        assert_eq!(paused.data["wake"], "rate_limit", "{name}");
        assert_eq!(kinds(&turn.frames_after(&paused.id)), ["delta", "complete"], "{name}");
    }
}

/// A pause that is longer than turns may be paused for is a failure that says so.
#[test]
fn a_rate_limit_that_is_too_long() {
    let world = World::start("retry_max = '100ms'\npause_max = '1h'");
    let limited = Reply::status(429, &[("retry-after", "3601")], r#"{"error":{"message":"slow down"}}"#);
    script("wakes-too-long", [limited]);
    let turn = play(&world.client(), "wakes-too-long");
    let last = turn.frames().last().unwrap().data.clone();
    assert_eq!((&last["code"], &last["retryable"]), (&json!("LLM_RATE_LIMITED"), &json!(true)), "{last}");
}

/// The turn of another dialect waits for its client's tool, and can be watched from here.
#[test]
fn a_clients_tool_answers_after_a_crash() {
    let mut world = World::start("");
    script("wakes-tools", [Reply::calls(&[("get_weather", json!({ "location": "Rome" }))]), Reply::says(&["Sunny."])]);
    let tool = json!({ "name": "get_weather", "description": "", "inputSchema": { "type": "object" } });
    let said = json!([{ "role": "user", "content": "play wakes-tools" }]);
    let body = json!({ "agent": { "name": "writer" }, "tools": [tool], "messages": said });
    let made = world.client().send("PUT", "/session", &body.to_string());
    assert_eq!(made.json()["stopReason"], "tool_use", "{made:?}");
    let turn = Turn {
        client: world.client(),
        session: made.header("x-session-id").to_owned(),
        message: made.header("x-message-id").to_owned(),
        kind: String::new(),
    };
    let (turn, paused) = survives(&mut world, &turn, "client_tools");
    assert_eq!(turn.shown()["wake"], "client_tools");
    let call = turn.shown()["messages"][1]["tool_calls"][0]["tool_call_id"].clone();
    let answer = json!({ "messages": [{ "role": "tool", "toolCallId": call, "content": "22 °C" }] });
    let answered = world.client().send("POST", &format!("/session/{}", turn.session), &answer.to_string());
    assert_eq!(answered.json()["stopReason"], "end_turn", "{answered:?}");
    let rest = turn.frames_after(&paused.id);
    assert_eq!(rest.last().unwrap().data["final_response"], "Sunny.", "{rest:?}");
}

#[test]
fn queued_messages_go_on_after_a_crash() {
    let mut world = World::start("");
    let gate = Gate::default();
    script("wakes-first", [Reply::new().text("One").hold(&gate), Reply::says(&["One again."])]);
    script("wakes-second", [form(), Reply::says(&["Two."])]);
    script("wakes-third", [Reply::says(&["Three."])]);
    let first = play(&world.client(), "wakes-first");
    first.open().until("One");
    let (second, third) = (first.say("play wakes-second"), first.say("play wakes-third"));
    assert_eq!((second.kind.as_str(), third.kind.as_str()), ("queued", "queued"));
    world.crash();
    let [first, second, third] = [first, second, third].map(|turn| turn.on(&world));
    assert_eq!(first.complete()["final_response"], "One again.");
    // The second waits for a person, and the third for the second, also after another crash.
    let (second, _) = survives(&mut world, &second, "form");
    let third = third.on(&world);
    assert_eq!(third.shown()["status"], "queued");
    assert_eq!(second.say("red").message, second.message);
    assert_eq!(second.complete()["final_response"], "Two.");
    assert_eq!(third.complete()["final_response"], "Three.");
    // Each saw what came before it, in order.
    let request = asked("wakes-third")[0]["messages"].to_string();
    let places: Vec<_> = ["One again.", "wakes-second", "Two.", "wakes-third"].map(|text| request.find(text)).into();
    assert!(places.is_sorted() && places.iter().all(Option::is_some), "{request}");
}

/// Who reads a turn in line gets it from its first event on, without coming back.
#[test]
fn a_reader_waits_in_line_with_its_turn() {
    let world = World::start("");
    let gate = Gate::default();
    script("wakes-line", [Reply::new().text("One").hold(&gate).stops()]);
    script("wakes-behind", [Reply::says(&["Two."])]);
    let first = play(&world.client(), "wakes-line");
    first.open().until("One");
    let second = first.say("play wakes-behind");
    let mut stream = second.open();
    gate.open();
    let (frames, _) = stream.rest();
    let frames: Vec<_> = frames.iter().filter_map(|frame| Frame::read(frame)).collect();
    assert_eq!(frames, second.frames());
    assert_eq!(kinds(&frames), ["start", "delta", "complete"]);
}

/// One turn at a time, and two that wait: neither is in the way of another.
#[test]
fn who_waits_takes_nobodys_place() {
    let world = World::start("concurrent_turns = 1");
    let client = world.client();
    let gate = Gate::default();
    script("wakes-slot-form", [form(), Reply::says(&["Answered."])]);
    script("wakes-slot-timer", [wait(1.0), Reply::says(&["Awake."])]);
    script("wakes-slot-run", [Reply::new().text("Running").hold(&gate).stops()]);
    let asking = play(&client, "wakes-slot-form");
    asking.paused();
    let sleeping = play(&client, "wakes-slot-timer");
    let (paused, since) = (sleeping.paused(), Instant::now());
    let running = play(&client, "wakes-slot-run");
    running.open().until("Running");
    // The one place is taken: whose time has come, and who was answered, waits for it.
    eventually("its time has passed", || (since.elapsed() > Duration::from_secs(1)).then_some(()));
    let answering = std::thread::spawn({
        let asking = asking.clone();
        move || asking.say("green").kind
    });
    eventually("the answer waits for a place", || {
        client.send("GET", "/metrics", "").body.contains("everturn_turns_queued 1\n").then_some(())
    });
    assert_eq!(sleeping.shown()["status"], "waiting");
    gate.open();
    assert_eq!(answering.join().unwrap(), "form_answer");
    assert_eq!(running.complete()["final_response"], "Running");
    assert_eq!(asking.complete()["final_response"], "Answered.");
    let rest = sleeping.frames_after(&paused.id);
    assert_eq!(rest.last().unwrap().data["final_response"], "Awake.");
}

/// Many timers that are due at once, more than may run at once.
#[test]
fn many_wake_at_once() {
    const TURNS: usize = 40;
    let mut world = World::start("concurrent_turns = 4");
    let turns: Vec<_> = (0..TURNS)
        .map(|number| {
            // Some wake before the crash, which then hits their second step.
            script(&format!("wakes-many-{number}"), [wait(0.5), Reply::says(&["Up."]), Reply::says(&["Up."])]);
            let turn = spawn(
                &world.client(),
                &json!({ "agent_id": "writer", "message": format!("play wakes-many-{number}") }),
            );
            turn.paused();
            turn
        })
        .collect();
    world.crash();
    for turn in &turns {
        let turn = turn.on(&world);
        let end = eventually("it wakes", || {
            let shown = turn.shown();
            (shown["status"] == "completed").then_some(shown)
        });
        assert_eq!((&end["response"], end.get("wake")), (&json!("Up."), None::<&Value>));
    }
}
