//! Providers that fail, break off or fall silent.

use expect_test::expect;
use serde_json::json;

use crate::suite::harness::{Gate, Home, Reply, Talk, check, script, shared_config};

/// Once a turn has begun, a failure is a stop reason, and what there was stays in history.
#[test]
fn an_error_of_the_provider() {
    let rejected = || Reply::status(401, &[], r#"{"error":{"message":"no such key"}}"#);
    script("stops-error", [rejected(), rejected(), rejected(), Reply::says(&["Back again."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"stream":"delta","messages":[{"role":"user","content":"play stops-error"}]}"#,
            r#"POST /session/sess#1 {"stream":"message","messages":[{"role":"user","content":"hello?"}]}"#,
            r#"POST /session/sess#1 {"messages":[{"role":"user","content":"anybody?"}]}"#,
            r#"POST /session/sess#1 {"messages":[{"role":"user","content":"well"}]}"#,
            r#"GET /session/sess#1?history=full"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"stream":"delta","messages":[{"role":"user","content":"play stops-error"}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            event: session_start
            id: 1.1
            data: {"sessionId":"sess#1"}

            event: turn_start
            id: 1.2
            data: {}

            event: turn_stop
            id: 4
            data: {"stopReason":"error"}

            > POST /session/sess#1 {"stream":"message","messages":[{"role":"user","content":"hello?"}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#2

            event: turn_start
            id: 1
            data: {}

            event: turn_stop
            id: 4
            data: {"stopReason":"error"}

            > POST /session/sess#1 {"messages":[{"role":"user","content":"anybody?"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#3
            {"messages":[],"stopReason":"error"}

            > POST /session/sess#1 {"messages":[{"role":"user","content":"well"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#4
            {"messages":[{"content":"Back again.","role":"assistant"}],"stopReason":"end_turn"}

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[]},
              "history": {
                "full": [
                  {"content":"play stops-error","role":"user"},
                  {"content":"hello?","role":"user"},
                  {"content":"anybody?","role":"user"},
                  {"content":"well","role":"user"},
                  {"content":"Back again.","role":"assistant"}
                ]
              },
              "sessionId": "sess#1"
            }

        "#]],
    );
}

#[test]
fn a_rate_limit_is_waited_for() {
    let limited = Reply::status(429, &[("retry-after-ms", "20")], r#"{"error":{"message":"slow down"}}"#);
    script("stops-rate", [limited, Reply::says(&["Here I am."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"stream":"delta","messages":[{"role":"user","content":"play stops-rate"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"stream":"delta","messages":[{"role":"user","content":"play stops-rate"}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            event: session_start
            id: 1.1
            data: {"sessionId":"sess#1"}

            event: turn_start
            id: 1.2
            data: {}

            : the model starts this step again; its text so far is void
            event: text_delta
            id: 4
            data: {"delta":"Here I am."}

            event: turn_stop
            id: 6
            data: {"stopReason":"end_turn"}

        "#]],
    );
}

/// An answer that breaks off is never taken for a whole one, and its calls never happened.
#[test]
fn a_cut_stream_is_begun_again() {
    let cut = Reply::new().text("It is 1").call("get_weather", r#"{"location":"Rome"}"#).call("show_map", "{}");
    script(
        "stops-cut",
        [cut, Reply::new().text("Wait.").call("get_weather", r#"{"location":"Oslo"}"#).finish("tool_calls")],
    );
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"stream":"delta","tools":[$weather,$map],"messages":[{"role":"user","content":"play stops-cut"}]}"#,
            r#"GET /session/sess#1?history=full"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"stream":"delta","tools":[$weather,$map],"messages":[{"role":"user","content":"play stops-cut"}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            event: session_start
            id: 1.1
            data: {"sessionId":"sess#1"}

            event: turn_start
            id: 1.2
            data: {}

            event: text_delta
            id: 3
            data: {"delta":"It is 1"}

            : the model starts this step again; its text so far is void
            event: text_delta
            id: 5
            data: {"delta":"Wait."}

            event: tool_call
            id: 7
            data: {"toolCallId":"call#1","name":"get_weather","input":{"location":"Oslo"}}

            event: turn_stop
            id: 8
            data: {"stopReason":"tool_use"}

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[]},
              "history": {
                "full": [
                  {"content":"play stops-cut","role":"user"},
                  {
                    "content": [
                      {"text":"Wait.","type":"text"},
                      {"input":{"location":"Oslo"},"name":"get_weather","toolCallId":"call#1","type":"tool_use"}
                    ],
                    "role": "assistant"
                  }
                ]
              },
              "sessionId": "sess#1",
              "tools": [
                {
                  "description": "Tells the weather",
                  "inputSchema": {"properties":{"location":{"type":"string"}},"required":["location"],"type":"object"},
                  "name": "get_weather"
                },
                {"description":"Shows a map","inputSchema":{"type":"object"},"name":"show_map","title":"Map"}
              ]
            }

        "#]],
    );
}

/// Some providers tell each call as soon as it is complete. Clients must not see one that the next attempt does not
/// make: they would answer it.
#[test]
fn calls_of_a_cut_stream_are_never_shown() {
    let call = |place: &str| {
        json!({ "message": { "role": "assistant", "content": "",
            "tool_calls": [{ "function": { "name": "get_weather", "arguments": { "location": place } } }] } })
    };
    let done = json!({ "message": { "role": "assistant", "content": "" }, "done": true, "done_reason": "stop" });
    script("stops-cut-lines", [Reply::lines(&[call("Rome")]), Reply::lines(&[call("Oslo"), call("Bern"), done])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"lines"},"stream":"delta","tools":[$weather],"messages":[{"role":"user","content":"play stops-cut-lines"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"lines"},"stream":"delta","tools":[$weather],"messages":[{"role":"user","content":"play stops-cut-lines"}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            event: session_start
            id: 1.1
            data: {"sessionId":"sess#1"}

            event: turn_start
            id: 1.2
            data: {}

            : the model starts this step again; its text so far is void
            event: tool_call
            id: 7.1
            data: {"toolCallId":"call#1","name":"get_weather","input":{"location":"Oslo"}}

            event: tool_call
            id: 7.2
            data: {"toolCallId":"call#2","name":"get_weather","input":{"location":"Bern"}}

            event: turn_stop
            id: 8
            data: {"stopReason":"tool_use"}

        "#]],
    );
}

#[test]
fn a_silent_provider_is_given_up() {
    let home = Home::new(&shared_config("retries = 0\nstep_idle_timeout = '1s'"));
    let server = home.start();
    let gate = Default::default();
    script("stops-silence", [Reply::new().text("I am thin").hold(&gate).stops()]);
    let mut talk = Talk::new(server.client());
    talk.send(r#"PUT /session {"agent":{"name":"scripted"},"stream":"delta","messages":[{"role":"user","content":"play stops-silence"}]}"#);
    talk.send("GET /session/sess#1?history=full");
    talk.check(expect![[r#"
        > PUT /session {"agent":{"name":"scripted"},"stream":"delta","messages":[{"role":"user","content":"play stops-silence"}]}
        200
        content-type: text/event-stream
        x-session-id: sess#1
        x-message-id: turn#1

        event: session_start
        id: 1.1
        data: {"sessionId":"sess#1"}

        event: turn_start
        id: 1.2
        data: {}

        event: text_delta
        id: 3
        data: {"delta":"I am thin"}

        event: turn_stop
        id: 5
        data: {"stopReason":"error"}

        > GET /session/sess#1?history=full
        200
        content-type: application/json
        {
          "agent": {"name":"scripted","tools":[]},
          "history": {"full":[{"content":"play stops-silence","role":"user"},{"content":"I am thin","role":"assistant"}]},
          "sessionId": "sess#1"
        }

    "#]]);
    gate.open();
}

/// The agent `hasty` gives a turn one second.
#[test]
fn a_turn_that_takes_too_long() {
    let gate = Gate::default();
    script("trouble-slow", [Reply::new().text("I will ge").hold(&gate).stops(), Reply::says(&["Here."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"hasty"},"stream":"delta","messages":[{"role":"user","content":"play trouble-slow"}]}"#,
            r#"POST /session/sess#1 {"messages":[{"role":"user","content":"well?"}]}"#,
            r#"GET /session/sess#1?history=full"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"hasty"},"stream":"delta","messages":[{"role":"user","content":"play trouble-slow"}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            event: session_start
            id: 1.1
            data: {"sessionId":"sess#1"}

            event: turn_start
            id: 1.2
            data: {}

            event: text_delta
            id: 3
            data: {"delta":"I will ge"}

            event: turn_stop
            id: 5
            data: {"stopReason":"error"}

            > POST /session/sess#1 {"messages":[{"role":"user","content":"well?"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#2
            {"messages":[{"content":"Here.","role":"assistant"}],"stopReason":"end_turn"}

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"hasty","tools":[]},
              "history": {
                "full": [
                  {"content":"play trouble-slow","role":"user"},
                  {"content":"I will ge","role":"assistant"},
                  {"content":"well?","role":"user"},
                  {"content":"Here.","role":"assistant"}
                ]
              },
              "sessionId": "sess#1"
            }

        "#]],
    );
    gate.open();
}
