//! The events of a stream, as they are on the wire. Artifacts and failures have files of their own.

use expect_test::expect;
use serde_json::json;

use super::world::{World, play};
use crate::suite::harness::{Reply, Talk, check, eventually, script};

#[test]
fn thinking_text_and_tools() {
    let calls = Reply::new()
        .thinking("Two ")
        .thinking("things.")
        .text("Let me see.")
        .call("calculator", r#"{"expression":"6*7"}"#)
        .call("calculator", r#"{"expression":"1/0"}"#)
        .call("hammer", "{}")
        .finish("tool_calls");
    script("events-tools", [calls, Reply::calls(&[("clock", json!({}))]), Reply::says(&["It is ", "42."])]);
    check(
        &[
            r#"POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play events-tools"}"#,
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream",
        ],
        expect![[r#"
            > POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play events-tools"}
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
            data: {"type":"thinking","content":"Two "}

            id: 4
            data: {"type":"thinking","content":"things."}

            id: 5
            data: {"type":"delta","content":"Let me see."}

            id: 10.1
            data: {"type":"tool_started","tool_call_id":"call#1","tool_name":"hammer","label":"hammer","iteration":1}

            id: 10.2
            data: {"type":"tool_completed","tool_call_id":"call#1","tool_name":"hammer","success":false,"message":"There is no tool \"hammer\" in this session","duration_ms":0}

            id: 11
            data: {"type":"tool_started","tool_call_id":"call#2","tool_name":"calculator","label":"Calculator","iteration":1}

            id: 12
            data: {"type":"tool_started","tool_call_id":"call#3","tool_name":"calculator","label":"Calculator","iteration":1}

            id: 13
            data: {"type":"tool_completed","tool_call_id":"call#2","tool_name":"calculator","success":true,"message":"42","duration_ms":0}

            id: 14
            data: {"type":"tool_completed","tool_call_id":"call#3","tool_name":"calculator","success":false,"message":"Error: division by zero (at character 2)","duration_ms":0}

            id: 18
            data: {"type":"tool_started","tool_call_id":"call#4","tool_name":"clock","label":"Clock","iteration":2}

            id: 19
            data: {"type":"tool_completed","tool_call_id":"call#4","tool_name":"clock","success":true,"message":"<now>","duration_ms":0}

            id: 21
            data: {"type":"delta","content":"It is "}

            id: 22
            data: {"type":"delta","content":"42."}

            id: 24
            data: {"type":"complete","session_id":"sess#1","message_id":"turn#1","final_response":"It is 42.","total_input_tokens":30,"total_output_tokens":15,"artifacts":[]}

        "#]],
    );
}

/// The answer that counts is the one of `complete`: what an attempt said that broke off is void.
#[test]
fn a_call_that_is_made_again() {
    let broken = Reply::new().text("I thi");
    let hurried = Reply::status(429, &[("retry-after", "0")], r#"{"error":{"message":"slow down"}}"#);
    script("events-retry", [broken, hurried, Reply::says(&["I know."])]);
    check(
        &[
            r#"POST /api/v1/sessions/stream {"agent_id":"small","message":"play events-retry"}"#,
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream",
            "GET /api/v1/sessions/sess#1/messages/turn#1",
        ],
        expect![[r#"
            > POST /api/v1/sessions/stream {"agent_id":"small","message":"play events-retry"}
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
            data: {"type":"start","session_id":"sess#1","message_id":"turn#1","agent_id":"small"}

            id: 3
            data: {"type":"delta","content":"I thi"}

            id: 4
            data: {"type":"retry_notification","attempt":1,"reason":"script closed the stream before its answer was complete"}

            id: 5
            data: {"type":"retry_notification","attempt":2,"reason":"script answered 429: slow down"}

            id: 6
            data: {"type":"delta","content":"I know."}

            id: 8
            data: {"type":"complete","session_id":"sess#1","message_id":"turn#1","final_response":"I know.","total_input_tokens":19,"total_output_tokens":6,"artifacts":[]}

            > GET /api/v1/sessions/sess#1/messages/turn#1
            200
            content-type: application/json
            {
              "created_at": "<time>",
              "document_ids": [],
              "ended_at": "<time>",
              "input": "play events-retry",
              "message_id": "turn#1",
              "messages": [{"content":"play events-retry","role":"user"},{"content":"I know.","role":"assistant"}],
              "response": "I know.",
              "status": "completed",
              "total_input_tokens": 19,
              "total_output_tokens": 6
            }

        "#]],
    );
}

#[test]
fn a_form() {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    let form = json!({ "kind": "clarify", "title": "Where?", "description": "For the weather.", "schema": schema });
    let asks = Reply::new().text("One moment.").call("request_form", form.to_string()).finish("tool_calls");
    script("events-form", [asks, Reply::says(&["It rains in Oslo."])]);
    let world = World::start("form_expiry = 'never'");
    let mut talk = Talk::new(world.client());
    for request in [
        r#"POST /api/v1/sessions/stream {"agent_id":"writer","message":"play events-form"}"#,
        "GET /api/v1/sessions/sess#1/messages/turn#1/stream",
        r#"POST /api/v1/sessions/stream {"session_id":"sess#1","form_id":"form#1","form_answer":{"city":"Oslo"}}"#,
        "GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=7",
    ] {
        talk.send(request);
    }
    talk.check(expect![[r#"
        > POST /api/v1/sessions/stream {"agent_id":"writer","message":"play events-form"}
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
        data: {"type":"start","session_id":"sess#1","message_id":"turn#1","agent_id":"writer"}

        id: 3
        data: {"type":"delta","content":"One moment."}

        id: 6
        data: {"type":"form_request","form_id":"form#1","form_kind":"clarify","payload":{"title":"Where?","description":"For the weather.","schema":{"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"},"tool_call_id":"call#1"}}

        id: 7
        data: {"type":"paused","wake":"form"}

        > POST /api/v1/sessions/stream {"session_id":"sess#1","form_id":"form#1","form_answer":{"city":"Oslo"}}
        202
        content-type: application/json
        x-session-id: sess#1
        x-message-id: turn#1
        {"kind":"form_answer","message_id":"turn#1","session_id":"sess#1"}

        > GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=7
        200
        content-type: text/event-stream
        x-session-id: sess#1
        x-message-id: turn#1

        retry: 1000
        id: 10
        data: {"type":"delta","content":"It rains in Oslo."}

        id: 12
        data: {"type":"complete","session_id":"sess#1","message_id":"turn#1","final_response":"It rains in Oslo.","total_input_tokens":20,"total_output_tokens":10,"artifacts":[]}

    "#]]);
}

/// A reader who comes when it is over is shown how it paused and went on, in one piece.
#[test]
fn a_timer() {
    let wait = Reply::new().text("Wait.").call("wait", r#"{"seconds":0.01}"#).finish("tool_calls");
    script("events-timer", [wait, Reply::says(&["Now."])]);
    let world = World::start("");
    let turn = play(&world.client(), "events-timer");
    eventually("the turn ends", || (turn.shown()["status"] == "completed").then_some(()));
    let mut talk = Talk::new(world.client());
    talk.note(&turn.client.send("GET", &format!("{}/stream", turn.path()), ""), &["content-type"]);
    talk.check(expect![[r#"
        200
        content-type: text/event-stream

        retry: 1000
        id: 1
        data: {"type":"start","session_id":"sess#1","message_id":"turn#1","agent_id":"writer"}

        id: 3
        data: {"type":"delta","content":"Wait."}

        id: 6
        data: {"type":"tool_started","tool_call_id":"call#1","tool_name":"wait","label":"Wait","iteration":1}

        id: 8
        data: {"type":"paused","wake":"timer","wake_at":"<time>"}

        id: 10
        data: {"type":"tool_completed","tool_call_id":"call#1","tool_name":"wait","success":true,"message":"The wait is over. It was until <time>; now it is <time>.","duration_ms":0}

        id: 12
        data: {"type":"delta","content":"Now."}

        id: 14
        data: {"type":"complete","session_id":"sess#1","message_id":"turn#1","final_response":"Now.","total_input_tokens":20,"total_output_tokens":10,"artifacts":[]}

    "#]]);
}

/// A provider that asks for a long pause gets it. Nobody waits for it here: the turn is stopped.
#[test]
fn a_rate_limit() {
    script("events-limit", [Reply::status(429, &[("retry-after", "3600")], r#"{"error":{"message":"slow down"}}"#)]);
    check(
        &[
            r#"POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play events-limit"}"#,
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream",
            "POST /api/v1/sessions/sess#1/stop",
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=4",
        ],
        expect![[r#"
            > POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play events-limit"}
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
            data: {"type":"retry_notification","attempt":1,"reason":"script answered 429: slow down"}

            id: 4
            data: {"type":"paused","wake":"rate_limit","wake_at":"<time>"}

            > POST /api/v1/sessions/sess#1/stop
            204

            > GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=4
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            retry: 1000
            id: 5
            data: {"type":"cancelled","reason":"user_stop","total_input_tokens":0,"total_output_tokens":0}

        "#]],
    );
}

/// A session that an application began with tools of its own looks like this from here.
#[test]
fn tools_of_the_application() {
    script(
        "events-client",
        [Reply::calls(&[("get_weather", json!({ "location": "Oslo" }))]), Reply::says(&["It rains."])],
    );
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"tools":[$weather],"messages":[{"role":"user","content":"play events-client"}]}"#,
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream",
            r#"POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"call#1","content":"rain"}]}"#,
            "GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=5",
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"tools":[$weather],"messages":[{"role":"user","content":"play events-client"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {
                  "content": [{"input":{"location":"Oslo"},"name":"get_weather","toolCallId":"call#1","type":"tool_use"}],
                  "role": "assistant"
                }
              ],
              "sessionId": "sess#1",
              "stopReason": "tool_use"
            }

            > GET /api/v1/sessions/sess#1/messages/turn#1/stream
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            retry: 1000
            id: 1
            data: {"type":"start","session_id":"sess#1","message_id":"turn#1","agent_id":"scripted"}

            id: 5
            data: {"type":"paused","wake":"client_tools"}

            > POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"call#1","content":"rain"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"messages":[{"content":"It rains.","role":"assistant"}],"stopReason":"end_turn"}

            > GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=5
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            retry: 1000
            id: 8
            data: {"type":"delta","content":"It rains."}

            id: 10
            data: {"type":"complete","session_id":"sess#1","message_id":"turn#1","final_response":"It rains.","total_input_tokens":20,"total_output_tokens":10,"artifacts":[]}

        "#]],
    );
}
