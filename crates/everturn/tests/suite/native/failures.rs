//! Turns that do not complete: why, as their streams tell it.

use expect_test::expect;
use serde_json::{Value, json};

use super::world::{Turn, World, play, spawn};
use crate::suite::harness::{Ended, Gate, Reply, Talk, check, script, shared};

/// The data of a turn's last frame, which ends the stream.
#[track_caller]
fn end(turn: &Turn) -> Value {
    turn.frames().pop().unwrap().data
}

#[test]
fn each_error_has_its_code() {
    let gate = Gate::default();
    let error = |message: &str| format!(r#"{{"error":{{"message":"{message}"}}}}"#);
    script("fail-down", [Reply::status(503, &[], &error("under repair"))]);
    script("fail-silent", [Reply::new().text("I am").hold(&gate)]);
    script("fail-wrong", [Reply::status(401, &[], &error("no such key"))]);
    // Longer than a turn may be paused for.
    script("fail-many", [Reply::status(429, &[("retry-after", "100000")], &error("slow down"))]);
    // A model call is made once, and its answer awaited for a second.
    let world = World::start("retries = 0\nstep_idle_timeout = '1s'");
    let mut talk = Talk::new(world.client());
    for request in [
        r#"POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play fail-down"}"#,
        "GET /api/v1/sessions/sess#1/messages/turn#1/stream",
        r#"POST /api/v1/sessions/stream {"agent_id":"small","message":"play fail-silent"}"#,
        "GET /api/v1/sessions/sess#2/messages/turn#2/stream",
        r#"POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play fail-wrong"}"#,
        "GET /api/v1/sessions/sess#3/messages/turn#3/stream",
        r#"POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play fail-many"}"#,
        "GET /api/v1/sessions/sess#4/messages/turn#4/stream",
        "GET /api/v1/sessions/sess#4/messages/turn#4",
    ] {
        talk.send(request);
    }
    talk.check(expect![[r#"
        > POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play fail-down"}
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

        id: 4
        data: {"type":"error","error":"LLM_PROVIDER_UNAVAILABLE","code":"LLM_PROVIDER_UNAVAILABLE","message":"script answered 503: under repair","retryable":true,"user_message":"The assistant cannot be reached at the moment. Please try again later.","total_input_tokens":0,"total_output_tokens":0}

        > POST /api/v1/sessions/stream {"agent_id":"small","message":"play fail-silent"}
        202
        content-type: application/json
        x-session-id: sess#2
        x-message-id: turn#2
        {"kind":"new_turn","message_id":"turn#2","session_id":"sess#2"}

        > GET /api/v1/sessions/sess#2/messages/turn#2/stream
        200
        content-type: text/event-stream
        x-session-id: sess#2
        x-message-id: turn#2

        retry: 1000
        id: 1
        data: {"type":"start","session_id":"sess#2","message_id":"turn#2","agent_id":"small"}

        id: 3
        data: {"type":"delta","content":"I am"}

        id: 5
        data: {"type":"error","error":"LLM_REQUEST_TIMEOUT","code":"LLM_REQUEST_TIMEOUT","message":"the model was silent for 1s, which is the limit","retryable":true,"user_message":"The assistant cannot be reached at the moment. Please try again later.","partial_response":"I am","total_input_tokens":8,"total_output_tokens":1}

        > POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play fail-wrong"}
        202
        content-type: application/json
        x-session-id: sess#3
        x-message-id: turn#3
        {"kind":"new_turn","message_id":"turn#3","session_id":"sess#3"}

        > GET /api/v1/sessions/sess#3/messages/turn#3/stream
        200
        content-type: text/event-stream
        x-session-id: sess#3
        x-message-id: turn#3

        retry: 1000
        id: 1
        data: {"type":"start","session_id":"sess#3","message_id":"turn#3","agent_id":"scripted"}

        id: 4
        data: {"type":"error","error":"LLM_PROVIDER_ERROR","code":"LLM_PROVIDER_ERROR","message":"script answered 401: no such key","retryable":false,"user_message":"Something went wrong. The assistant's operator must look into it.","total_input_tokens":0,"total_output_tokens":0}

        > POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play fail-many"}
        202
        content-type: application/json
        x-session-id: sess#4
        x-message-id: turn#4
        {"kind":"new_turn","message_id":"turn#4","session_id":"sess#4"}

        > GET /api/v1/sessions/sess#4/messages/turn#4/stream
        200
        content-type: text/event-stream
        x-session-id: sess#4
        x-message-id: turn#4

        retry: 1000
        id: 1
        data: {"type":"start","session_id":"sess#4","message_id":"turn#4","agent_id":"scripted"}

        id: 4
        data: {"type":"error","error":"LLM_RATE_LIMITED","code":"LLM_RATE_LIMITED","message":"script answered 429: slow down","retryable":true,"user_message":"The assistant is very busy at the moment. Please try again later.","total_input_tokens":0,"total_output_tokens":0}

        > GET /api/v1/sessions/sess#4/messages/turn#4
        200
        content-type: application/json
        {
          "created_at": "<time>",
          "document_ids": [],
          "ended_at": "<time>",
          "error": {"code":"LLM_RATE_LIMITED","message":"script answered 429: slow down"},
          "input": "play fail-many",
          "message_id": "turn#4",
          "messages": [{"content":"play fail-many","role":"user"}],
          "response": null,
          "status": "failed",
          "total_input_tokens": 0,
          "total_output_tokens": 0
        }

    "#]]);
}

#[test]
fn limits_and_refusals() {
    script("fail-refusal", [Reply::new().text("I would rather ").text("not.").finish("content_filter")]);
    script("fail-length", [Reply::new().text("It was a dark and").finish("length")]);
    script("fail-steps", (0..2).map(|_| Reply::calls(&[("calculator", json!({ "expression": "1+1" }))])));
    check(
        &[
            r#"POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play fail-refusal"}"#,
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream",
            r#"POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play fail-length"}"#,
            "GET /api/v1/sessions/sess#2/messages/turn#2/stream",
            r#"POST /api/v1/sessions/stream {"agent_id":"short","message":"play fail-steps"}"#,
            "GET /api/v1/sessions/sess#3/messages/turn#3/stream",
        ],
        expect![[r#"
            > POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play fail-refusal"}
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
            data: {"type":"delta","content":"I would rather "}

            id: 4
            data: {"type":"delta","content":"not."}

            id: 6
            data: {"type":"error","error":"REFUSED","code":"REFUSED","message":"the model or its provider declined to answer","retryable":false,"user_message":"The assistant declined to answer this.","partial_response":"I would rather not.","total_input_tokens":10,"total_output_tokens":5}

            > POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play fail-length"}
            202
            content-type: application/json
            x-session-id: sess#2
            x-message-id: turn#2
            {"kind":"new_turn","message_id":"turn#2","session_id":"sess#2"}

            > GET /api/v1/sessions/sess#2/messages/turn#2/stream
            200
            content-type: text/event-stream
            x-session-id: sess#2
            x-message-id: turn#2

            retry: 1000
            id: 1
            data: {"type":"start","session_id":"sess#2","message_id":"turn#2","agent_id":"scripted"}

            id: 3
            data: {"type":"delta","content":"It was a dark and"}

            id: 5
            data: {"type":"error","error":"CONTEXT_OVERFLOW","code":"CONTEXT_OVERFLOW","message":"the answer, or the conversation, has reached the limit of tokens; what there is of it is kept","retryable":false,"user_message":"The answer became too long and was cut off.","partial_response":"It was a dark and","total_input_tokens":10,"total_output_tokens":5}

            > POST /api/v1/sessions/stream {"agent_id":"short","message":"play fail-steps"}
            202
            content-type: application/json
            x-session-id: sess#3
            x-message-id: turn#3
            {"kind":"new_turn","message_id":"turn#3","session_id":"sess#3"}

            > GET /api/v1/sessions/sess#3/messages/turn#3/stream
            200
            content-type: text/event-stream
            x-session-id: sess#3
            x-message-id: turn#3

            retry: 1000
            id: 1
            data: {"type":"start","session_id":"sess#3","message_id":"turn#3","agent_id":"short"}

            id: 5
            data: {"type":"tool_started","tool_call_id":"call#1","tool_name":"calculator","label":"Calculator","iteration":1}

            id: 6
            data: {"type":"tool_completed","tool_call_id":"call#1","tool_name":"calculator","success":true,"message":"2","duration_ms":0}

            id: 10
            data: {"type":"tool_started","tool_call_id":"call#2","tool_name":"calculator","label":"Calculator","iteration":2}

            id: 11
            data: {"type":"tool_completed","tool_call_id":"call#2","tool_name":"calculator","success":true,"message":"2","duration_ms":0}

            id: 12
            data: {"type":"error","error":"STEP_LIMIT","code":"STEP_LIMIT","message":"the turn made 2 model calls, which is its limit (the agent's max_steps); send a message to go on","retryable":false,"user_message":"The assistant stopped after many steps. Send a message to let it go on.","total_input_tokens":20,"total_output_tokens":10}

        "#]],
    );
}

#[test]
fn cancelled_by_a_stop_by_time_and_by_another_message() {
    let gate = Gate::default();
    let held = || Reply::new().text("I am ").text("abo").hold(&gate).stops();
    script("cancel-stop", [held()]);
    script("cancel-time", [held()]);
    script("cancel-other", [held()]);
    script("cancel-next", [Reply::says(&["Yes?"])]);
    let shared = shared();
    let client = shared.client("acme");
    let begun = |agent: &str, name: &str| {
        let turn = spawn(&client, &json!({ "agent_id": agent, "message": format!("play {name}") }));
        turn.open().until("abo");
        turn
    };
    let stopped = begun("scripted", "cancel-stop");
    assert_eq!(client.send("POST", &format!("/api/v1/sessions/{}/stop", stopped.session), "").status, 204);
    // This one is given a second.
    let timed = begun("hasty", "cancel-time");
    let superseded = begun("scripted", "cancel-other");
    let next = json!({ "session_id": superseded.session, "message": "play cancel-next", "on_busy": "interrupt" });
    let next = spawn(&client, &next);
    assert_eq!((next.kind.as_str(), &next.complete()["final_response"]), ("new_turn", &json!("Yes?")));
    for (turn, reason) in [(stopped, "user_stop"), (timed, "timeout"), (superseded, "superseded")] {
        let mut end = end(&turn);
        let used = end["total_input_tokens"].take().as_u64().zip(end["total_output_tokens"].take().as_u64());
        assert!(used.is_some_and(|(input, output)| input > 0 && output > 0), "what was used is counted: {used:?}");
        let expected = json!({
            "type": "cancelled", "reason": reason, "partial_response": "I am abo",
            "total_input_tokens": null, "total_output_tokens": null,
        });
        assert_eq!(end, expected);
        let shown = turn.shown();
        let shown = (&shown["status"], &shown["reason"], &shown["response"]);
        assert_eq!(shown, (&json!("cancelled"), &json!(reason), &json!("I am abo")));
    }
}

/// Of a turn whose session is deleted, only those learn who read it.
#[test]
fn cancelled_with_its_session() {
    let gate = Gate::default();
    script("cancel-deleted", [Reply::new().text("I am abo").hold(&gate).stops()]);
    let form = json!({ "kind": "approval", "title": "Sure?" });
    script("cancel-deleted-form", [Reply::calls(&[("request_form", form)])]);
    let world = World::start("heartbeat = '50ms'");
    let client = world.client();
    let running = play(&client, "cancel-deleted");
    let mut reads_running = running.open();
    reads_running.until("abo");
    let waiting = play(&client, "cancel-deleted-form");
    let mut reads_waiting = waiting.open_after(&waiting.paused().id);
    reads_waiting.until("heartbeat");
    for (turn, mut reader) in [(running, reads_running), (waiting, reads_waiting)] {
        assert_eq!(client.send("DELETE", &format!("/api/v1/sessions/{}", turn.session), "").status, 204);
        let last = reader.until("\"cancelled\"");
        assert!(last.contains(r#""reason":"session_deleted""#), "{last}");
        assert_eq!(reader.next(), Err(Ended::Cleanly));
        let gone = client.send("GET", &format!("{}/stream", turn.path()), "");
        assert_eq!((gone.status, &gone.json()["detail"]["code"]), (404, &json!("MESSAGE_NOT_FOUND")));
    }
}
