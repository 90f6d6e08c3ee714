//! Messages that come while a turn is under way: they wait, are refused, or take its place.

use expect_test::expect;
use serde_json::{Value, json};

use super::world::{Turn, World, kinds, play, spawn};
use crate::suite::harness::{Gate, Reply, Talk, asked, eventually, script};

fn on_busy(turn: &Turn, message: &str, what: &str) -> Value {
    json!({ "session_id": turn.session, "message": message, "on_busy": what })
}

/// What a script's model was told by users, in its last request.
fn told(name: &str) -> Vec<String> {
    let requests = asked(name);
    let messages = requests.last().unwrap()["messages"].as_array().unwrap();
    let users = messages.iter().filter(|message| message["role"] == "user");
    users.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn they_wait_their_turn_where_everybody_sees_them() {
    let gate = Gate::default();
    script("busy-1", [Reply::new().text("One").hold(&gate).text(".").stops()]);
    script("busy-3", [Reply::says(&["Three."])]);
    script("busy-4", [Reply::says(&["Four."])]);
    let world = World::start("");
    let mut talk = Talk::new(world.client());
    for request in [
        r#"POST /api/v1/sessions/stream {"agent_id":"writer","message":"play busy-1"}"#,
        r#"POST /api/v1/sessions/stream {"session_id":"sess#1","message":"play busy-2"}"#,
        r#"POST /api/v1/sessions/stream {"session_id":"sess#1","message":"play busy-3","on_busy":"enqueue"}"#,
        r#"POST /api/v1/sessions/stream {"session_id":"sess#1","message":"play busy-4"}"#,
        "GET /api/v1/sessions/sess#1",
        "POST /api/v1/sessions/sess#1/messages/turn#2/stop",
        "GET /api/v1/sessions/sess#1/messages/turn#2/stream",
        "GET /api/v1/sessions/sess#1/messages/turn#2",
    ] {
        talk.send(request);
    }
    gate.open();
    for request in [
        "GET /api/v1/sessions/sess#1/messages/turn#4/stream",
        "GET /api/v1/sessions/sess#1/messages/turn#3/stream",
        "GET /api/v1/sessions/sess#1/messages?limit=2",
    ] {
        talk.send(request);
    }
    talk.check(expect![[r#"
        > POST /api/v1/sessions/stream {"agent_id":"writer","message":"play busy-1"}
        202
        content-type: application/json
        x-session-id: sess#1
        x-message-id: turn#1
        {"kind":"new_turn","message_id":"turn#1","session_id":"sess#1"}

        > POST /api/v1/sessions/stream {"session_id":"sess#1","message":"play busy-2"}
        202
        content-type: application/json
        x-session-id: sess#1
        x-message-id: turn#2
        {"kind":"queued","message_id":"turn#2","session_id":"sess#1"}

        > POST /api/v1/sessions/stream {"session_id":"sess#1","message":"play busy-3","on_busy":"enqueue"}
        202
        content-type: application/json
        x-session-id: sess#1
        x-message-id: turn#3
        {"kind":"queued","message_id":"turn#3","session_id":"sess#1"}

        > POST /api/v1/sessions/stream {"session_id":"sess#1","message":"play busy-4"}
        202
        content-type: application/json
        x-session-id: sess#1
        x-message-id: turn#4
        {"kind":"queued","message_id":"turn#4","session_id":"sess#1"}

        > GET /api/v1/sessions/sess#1
        200
        content-type: application/json
        {
          "agent_id": "writer",
          "agent_options": {},
          "created_at": "<time>",
          "current": {"message_id":"turn#1","status":"running"},
          "queue": [
            {"created_at":"<time>","message_id":"turn#2","preview":"play busy-2"},
            {"created_at":"<time>","message_id":"turn#3","preview":"play busy-3"},
            {"created_at":"<time>","message_id":"turn#4","preview":"play busy-4"}
          ],
          "queued": 3,
          "session_id": "sess#1",
          "status": "running",
          "title": null,
          "tools": [
            {"name":"clock","trust":true},
            {"name":"calculator","trust":true},
            {"name":"request_form","trust":true},
            {"name":"create_artifact","trust":true},
            {"name":"update_artifact","trust":true},
            {"name":"wait","trust":true}
          ],
          "total_input_tokens": 0,
          "total_output_tokens": 0,
          "updated_at": "<time>"
        }

        > POST /api/v1/sessions/sess#1/messages/turn#2/stop
        204

        > GET /api/v1/sessions/sess#1/messages/turn#2/stream
        200
        content-type: text/event-stream
        x-session-id: sess#1
        x-message-id: turn#2

        retry: 1000
        id: 1
        data: {"type":"cancelled","reason":"user_stop","total_input_tokens":0,"total_output_tokens":0}

        > GET /api/v1/sessions/sess#1/messages/turn#2
        200
        content-type: application/json
        {
          "created_at": "<time>",
          "document_ids": [],
          "ended_at": "<time>",
          "input": "play busy-2",
          "message_id": "turn#2",
          "messages": [{"content":"play busy-2","role":"user"}],
          "reason": "user_stop",
          "response": null,
          "status": "cancelled",
          "total_input_tokens": 0,
          "total_output_tokens": 0
        }

        > GET /api/v1/sessions/sess#1/messages/turn#4/stream
        200
        content-type: text/event-stream
        x-session-id: sess#1
        x-message-id: turn#4

        retry: 1000
        id: 1
        data: {"type":"start","session_id":"sess#1","message_id":"turn#4","agent_id":"writer"}

        id: 3
        data: {"type":"delta","content":"Four."}

        id: 5
        data: {"type":"complete","session_id":"sess#1","message_id":"turn#4","final_response":"Four.","total_input_tokens":10,"total_output_tokens":5,"artifacts":[]}

        > GET /api/v1/sessions/sess#1/messages/turn#3/stream
        200
        content-type: text/event-stream
        x-session-id: sess#1
        x-message-id: turn#3

        retry: 1000
        id: 1
        data: {"type":"start","session_id":"sess#1","message_id":"turn#3","agent_id":"writer"}

        id: 3
        data: {"type":"delta","content":"Three."}

        id: 5
        data: {"type":"complete","session_id":"sess#1","message_id":"turn#3","final_response":"Three.","total_input_tokens":10,"total_output_tokens":5,"artifacts":[]}

        > GET /api/v1/sessions/sess#1/messages?limit=2
        200
        content-type: application/json
        {
          "messages": [
            {
              "created_at": "<time>",
              "document_ids": [],
              "ended_at": "<time>",
              "input": "play busy-4",
              "message_id": "turn#4",
              "messages": [{"content":"play busy-4","role":"user"},{"content":"Four.","role":"assistant"}],
              "response": "Four.",
              "status": "completed",
              "total_input_tokens": 10,
              "total_output_tokens": 5
            },
            {
              "created_at": "<time>",
              "document_ids": [],
              "ended_at": "<time>",
              "input": "play busy-3",
              "message_id": "turn#3",
              "messages": [{"content":"play busy-3","role":"user"},{"content":"Three.","role":"assistant"}],
              "response": "Three.",
              "status": "completed",
              "total_input_tokens": 10,
              "total_output_tokens": 5
            }
          ],
          "next_cursor": "m3"
        }

    "#]]);
    assert_eq!(told("busy-3"), ["play busy-1", "play busy-3"], "what was cancelled was never said");
    assert_eq!(told("busy-4"), ["play busy-1", "play busy-3", "play busy-4"], "each knows what came before it");
}

#[test]
fn they_wait_through_a_crash() {
    let gate = Gate::default();
    script("crash-1", [Reply::new().text("One").hold(&gate), Reply::says(&["One again."])]);
    script("crash-2", [Reply::says(&["Two."])]);
    script("crash-3", [Reply::says(&["Three."])]);
    let mut world = World::start("");
    let first = play(&world.client(), "crash-1");
    first.open().until("One");
    let (second, third) = (first.say("play crash-2"), first.say("play crash-3"));
    world.crash();
    let [first, second, third] = [first, second, third].map(|turn| turn.on(&world));
    assert_eq!(third.complete()["final_response"], "Three.");
    assert_eq!(second.complete()["final_response"], "Two.");
    assert_eq!(kinds(&first.frames()), ["start", "delta", "retry_notification", "delta", "complete"]);
    assert_eq!(told("crash-3"), ["play crash-1", "play crash-2", "play crash-3"]);
    let session = third.client.send("GET", &format!("/api/v1/sessions/{}", third.session), "").json();
    assert_eq!((&session["status"], &session["queue"]), (&json!("idle"), &json!([])), "{session}");
}

/// Nothing runs when the server starts but what the queue holds.
#[test]
fn they_begin_after_a_crash_that_ended_the_turn_before_them() {
    let gate = Gate::default();
    script("crash-gap-1", [Reply::new().text("One").hold(&gate)]);
    // It may have begun when the server dies, and is then begun again.
    script("crash-gap-2", (0..2).map(|_| Reply::says(&["Two."])));
    let mut world = World::start("");
    let first = play(&world.client(), "crash-gap-1");
    first.open().until("One");
    let second = first.say("play crash-gap-2");
    // The turn before it ends with the server, or just before.
    std::thread::scope(|scope| {
        let stop = format!("/api/v1/sessions/{}/messages/{}/stop", first.session, first.message);
        let client = world.client();
        scope.spawn(move || client.send("POST", &stop, ""));
        eventually("the first turn ends", || (first.shown()["status"] == "cancelled").then_some(()));
    });
    world.crash();
    assert_eq!(second.on(&world).complete()["final_response"], "Two.");
}

#[test]
fn so_many_and_no_more() {
    let gate = Gate::default();
    script("full-1", [Reply::new().text("One").hold(&gate).stops()]);
    script("full-2", (0..3).map(|_| Reply::says(&["Next."])));
    let world = World::start("session_queue = 2");
    let first = play(&world.client(), "full-1");
    let queued = [first.say("play full-2"), first.say("play full-2")];
    let body = on_busy(&first, "play full-2", "enqueue").to_string();
    let full = first.client.send("POST", "/api/v1/sessions/stream", &body);
    assert_eq!((full.status, &full.json()["detail"]["code"]), (409, &json!("SESSION_QUEUE_FULL")));
    // A place that becomes free can be taken.
    assert_eq!(first.client.send("POST", &format!("{}/stop", queued[0].path()), "").status, 204);
    let third = first.say("play full-2");
    assert_eq!(third.kind, "queued");
    gate.open();
    third.complete();
    assert_eq!(queued[1].shown()["status"], "completed");
    assert_eq!(asked("full-2").len(), 2);
}

#[test]
fn refused_if_the_sender_says_so() {
    let gate = Gate::default();
    script("reject-1", [Reply::new().text("One").hold(&gate).stops(), Reply::says(&["Two."])]);
    let world = World::start("");
    let first = play(&world.client(), "reject-1");
    let body = on_busy(&first, "play reject-1", "reject");
    let refused = first.client.send("POST", "/api/v1/sessions/stream", &body.to_string());
    assert_eq!((refused.status, &refused.json()["detail"]["code"]), (409, &json!("SESSION_BUSY")));
    gate.open();
    first.complete();
    let second = spawn(&first.client, &body);
    assert_eq!((second.kind.as_str(), &second.complete()["final_response"]), ("new_turn", &json!("Two.")));
}

#[test]
fn they_wait_for_timers_too() {
    script("busy-timer", [Reply::calls(&[("wait", json!({ "seconds": 3600 }))])]);
    script("busy-after", [Reply::says(&["At last."])]);
    let world = World::start("");
    let first = play(&world.client(), "busy-timer");
    assert_eq!(first.paused().data["wake"], "timer");
    let refused =
        first.client.send("POST", "/api/v1/sessions/stream", &on_busy(&first, "play busy-after", "reject").to_string());
    assert_eq!(refused.status, 409, "{refused:?}");
    let second = first.say("play busy-after");
    assert_eq!(second.kind, "queued");
    assert_eq!(first.client.send("POST", &format!("/api/v1/sessions/{}/stop", first.session), "").status, 204);
    assert_eq!(second.complete()["final_response"], "At last.");
    assert_eq!(first.frames_after("8").last().unwrap().data["reason"], "user_stop");
}

#[test]
fn one_that_interrupts_ends_all_that_is_under_way() {
    let gate = Gate::default();
    script("interrupt-1", [Reply::new().text("I was just").hold(&gate).stops()]);
    script("interrupt-2", []);
    script("interrupt-3", [Reply::says(&["Yes?"])]);
    let world = World::start("");
    let first = play(&world.client(), "interrupt-1");
    first.open().until("just");
    let queued = first.say("play interrupt-2");
    let last = spawn(&first.client, &on_busy(&first, "play interrupt-3", "interrupt"));
    assert_eq!((last.kind.as_str(), &last.complete()["final_response"]), ("new_turn", &json!("Yes?")));
    for (turn, partial) in [(&first, json!("I was just")), (&queued, Value::Null)] {
        let end = turn.frames().pop().unwrap().data;
        assert_eq!((&end["reason"], &end["partial_response"]), (&json!("superseded"), &partial), "{end}");
    }
    assert!(asked("interrupt-2").is_empty());
    assert_eq!(told("interrupt-3"), ["play interrupt-1", "play interrupt-3"]);
    let messages = asked("interrupt-3")[0]["messages"].clone();
    assert!(messages.to_string().contains("I was just"), "what was said is kept: {messages}");
}

#[test]
fn one_that_interrupts_answers_no_form() {
    let form = json!({ "kind": "approval", "title": "Sure?" });
    script("interrupt-form", [Reply::calls(&[("request_form", form)])]);
    script("interrupt-next", [Reply::says(&["Never mind."])]);
    let world = World::start("");
    let first = play(&world.client(), "interrupt-form");
    let paused = first.paused();
    let next = spawn(&first.client, &on_busy(&first, "play interrupt-next", "interrupt"));
    assert_eq!((next.kind.as_str(), &next.complete()["final_response"]), ("new_turn", &json!("Never mind.")));
    assert_eq!(first.frames_after(&paused.id).last().unwrap().data["reason"], "superseded");
    let forms = first.client.send("GET", "/api/v1/forms", "").json();
    assert_eq!(forms["forms"][0]["status"], "cancelled", "{forms}");
    let result =
        asked("interrupt-next")[0]["messages"].as_array().unwrap().iter().find(|m| m["role"] == "tool").cloned();
    assert_eq!(result.unwrap()["content"], "Tool call skipped: the user sent a new message");
}
