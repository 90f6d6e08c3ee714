//! Tools of the application.

use expect_test::expect;
use serde_json::json;

use crate::suite::harness::{Reply, asked, check, script, shared};

fn weather() -> Reply {
    Reply::calls(&[("get_weather", json!({ "location": "Tokyo" }))])
}

#[test]
fn application_tool_in_deltas() {
    script("tools-delta", [weather(), Reply::says(&["18", "°C."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"stream":"delta","tools":[$weather],"messages":[{"role":"user","content":"play tools-delta"}]}"#,
            r#"POST /session/sess#1 {"stream":"delta","messages":[{"role":"tool","toolCallId":"call#1","content":"18°C, partly cloudy"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"stream":"delta","tools":[$weather],"messages":[{"role":"user","content":"play tools-delta"}]}
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

            event: tool_call
            id: 4
            data: {"toolCallId":"call#1","name":"get_weather","input":{"location":"Tokyo"}}

            event: turn_stop
            id: 5
            data: {"stopReason":"tool_use"}

            > POST /session/sess#1 {"stream":"delta","messages":[{"role":"tool","toolCallId":"call#1","content":"18°C, partly cloudy"}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            event: turn_start
            id: 6
            data: {}

            event: text_delta
            id: 8
            data: {"delta":"18"}

            event: text_delta
            id: 9
            data: {"delta":"°C."}

            event: turn_stop
            id: 11
            data: {"stopReason":"end_turn"}

        "#]],
    );
}

#[test]
fn application_tool_in_messages() {
    script("tools-message", [weather(), Reply::says(&["18", "°C."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"stream":"message","tools":[$weather],"messages":[{"role":"user","content":"play tools-message"}]}"#,
            r#"POST /session/sess#1 {"stream":"message","messages":[{"role":"tool","toolCallId":"call#1","content":[{"type":"text","text":"18°C"},{"type":"text","text":"cloudy"}]}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"stream":"message","tools":[$weather],"messages":[{"role":"user","content":"play tools-message"}]}
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

            event: tool_call
            id: 4
            data: {"toolCallId":"call#1","name":"get_weather","input":{"location":"Tokyo"}}

            event: turn_stop
            id: 5
            data: {"stopReason":"tool_use"}

            > POST /session/sess#1 {"stream":"message","messages":[{"role":"tool","toolCallId":"call#1","content":[{"type":"text","text":"18°C"},{"type":"text","text":"cloudy"}]}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            event: turn_start
            id: 6
            data: {}

            event: text
            id: 10
            data: {"text":"18°C."}

            event: turn_stop
            id: 11
            data: {"stopReason":"end_turn"}

        "#]],
    );
}

#[test]
fn application_tool_in_one_piece() {
    script("tools-none", [weather(), Reply::says(&["18", "°C."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"tools":[$weather],"messages":[{"role":"user","content":"play tools-none"}]}"#,
            r#"POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"call#1","content":"18°C"}]}"#,
            r#"GET /session/sess#1"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"tools":[$weather],"messages":[{"role":"user","content":"play tools-none"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {
                  "content": [{"input":{"location":"Tokyo"},"name":"get_weather","toolCallId":"call#1","type":"tool_use"}],
                  "role": "assistant"
                }
              ],
              "sessionId": "sess#1",
              "stopReason": "tool_use"
            }

            > POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"call#1","content":"18°C"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"messages":[{"content":"18°C.","role":"assistant"}],"stopReason":"end_turn"}

            > GET /session/sess#1
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[]},
              "history": {
                "compacted": [
                  {"content":"play tools-none","role":"user"},
                  {
                    "content": [{"input":{"location":"Tokyo"},"name":"get_weather","toolCallId":"call#1","type":"tool_use"}],
                    "role": "assistant"
                  },
                  {"content":"18°C","role":"tool","toolCallId":"call#1"},
                  {"content":"18°C.","role":"assistant"}
                ],
                "full": [
                  {"content":"play tools-none","role":"user"},
                  {
                    "content": [{"input":{"location":"Tokyo"},"name":"get_weather","toolCallId":"call#1","type":"tool_use"}],
                    "role": "assistant"
                  },
                  {"content":"18°C","role":"tool","toolCallId":"call#1"},
                  {"content":"18°C.","role":"assistant"}
                ]
              },
              "sessionId": "sess#1",
              "tools": [
                {
                  "description": "Tells the weather",
                  "inputSchema": {"properties":{"location":{"type":"string"}},"required":["location"],"type":"object"},
                  "name": "get_weather"
                }
              ]
            }

        "#]],
    );
    // The model was told the same.
    let told = asked("tools-none").pop().unwrap();
    assert_eq!(told["messages"][2]["tool_calls"][0]["function"]["name"], "get_weather", "{told}");
    assert_eq!(told["messages"][3]["content"], "18°C", "{told}");
    assert_eq!(told["messages"][3]["tool_call_id"], told["messages"][2]["tool_calls"][0]["id"], "{told}");
}

/// A tool's result comes from whoever runs it: the application is told of no result, and of no call, that the server has
/// made up.
#[test]
fn a_call_that_cannot_be_run_is_not_shown_to_the_application() {
    let calls = |text: &str| {
        Reply::new()
            .text(text)
            .call("get_weather", "[1]")
            .call("calculator", r#"{"expression":"6*7"}"#)
            .finish("tool_calls")
    };
    for mode in ["delta", "message", "none"] {
        let name = format!("client-broken-{mode}");
        script(&name, [calls("I look."), Reply::says(&["No luck."])]);
    }
    let request = |mode: &str| {
        format!(
            r#"PUT /session {{"agent":{{"name":"scripted","tools":[{{"name":"calculator","trust":true}}]}},"tools":[$weather],"stream":"{mode}","messages":[{{"role":"user","content":"play client-broken-{mode}"}}]}}"#
        )
    };
    let (delta, message, none) = (request("delta"), request("message"), request("none"));
    check(
        &[&delta, &message, &none, "GET /session/sess#3?history=full"],
        expect![[r#"
        > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true}]},"tools":[$weather],"stream":"delta","messages":[{"role":"user","content":"play client-broken-delta"}]}
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
        data: {"delta":"I look."}

        event: tool_call
        id: 6
        data: {"toolCallId":"call#1","name":"calculator","input":{"expression":"6*7"}}

        event: tool_result
        id: 9
        data: {"toolCallId":"call#1","content":"42"}

        event: text_delta
        id: 11
        data: {"delta":"No luck."}

        event: turn_stop
        id: 13
        data: {"stopReason":"end_turn"}

        > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true}]},"tools":[$weather],"stream":"message","messages":[{"role":"user","content":"play client-broken-message"}]}
        200
        content-type: text/event-stream
        x-session-id: sess#2
        x-message-id: turn#2

        event: session_start
        id: 1.1
        data: {"sessionId":"sess#2"}

        event: turn_start
        id: 1.2
        data: {}

        event: text
        id: 6.1
        data: {"text":"I look."}

        event: tool_call
        id: 6.3
        data: {"toolCallId":"call#2","name":"calculator","input":{"expression":"6*7"}}

        event: tool_result
        id: 9
        data: {"toolCallId":"call#2","content":"42"}

        event: text
        id: 12
        data: {"text":"No luck."}

        event: turn_stop
        id: 13
        data: {"stopReason":"end_turn"}

        > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true}]},"tools":[$weather],"stream":"none","messages":[{"role":"user","content":"play client-broken-none"}]}
        201
        content-type: application/json
        x-session-id: sess#3
        x-message-id: turn#3
        {
          "messages": [
            {
              "content": [
                {"text":"I look.","type":"text"},
                {"input":{"expression":"6*7"},"name":"calculator","toolCallId":"call#3","type":"tool_use"}
              ],
              "role": "assistant"
            },
            {"content":"42","role":"tool","toolCallId":"call#3"},
            {"content":"No luck.","role":"assistant"}
          ],
          "sessionId": "sess#3",
          "stopReason": "end_turn"
        }

        > GET /session/sess#3?history=full
        200
        content-type: application/json
        {
          "agent": {"name":"scripted","tools":[{"name":"calculator","trust":true}]},
          "history": {
            "full": [
              {"content":"play client-broken-none","role":"user"},
              {
                "content": [
                  {"text":"I look.","type":"text"},
                  {"input":{},"name":"get_weather","toolCallId":"call#4","type":"tool_use"},
                  {"input":{"expression":"6*7"},"name":"calculator","toolCallId":"call#3","type":"tool_use"}
                ],
                "role": "assistant"
              },
              {"content":"The input of get_weather is not a JSON object: [1]","role":"tool","toolCallId":"call#4"},
              {"content":"42","role":"tool","toolCallId":"call#3"},
              {"content":"No luck.","role":"assistant"}
            ]
          },
          "sessionId": "sess#3",
          "tools": [
            {
              "description": "Tells the weather",
              "inputSchema": {"properties":{"location":{"type":"string"}},"required":["location"],"type":"object"},
              "name": "get_weather"
            }
          ]
        }

    "#]],
    );
    let told = asked("client-broken-none")[1].to_string();
    assert!(told.contains("The input of get_weather is not a JSON object: [1]"), "the model is told: {told}");
}

/// Nor of calls that were cut short with the answer: nobody waits for their results.
#[test]
fn calls_of_an_answer_that_was_cut_short_are_not_shown() {
    script("client-cut", [Reply::new().text("I look").call("get_weather", r#"{"location":"Rome"}"#).finish("length")]);
    let shared = shared();
    let body = json!({
        "agent": { "name": "scripted" },
        "tools": [{ "name": "get_weather", "description": "", "inputSchema": {} }],
        "stream": "delta",
        "messages": [{ "role": "user", "content": "play client-cut" }],
    });
    let answer = shared.client("acme").send("PUT", "/session", &body.to_string()).body;
    let events: Vec<_> = answer.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(events, ["session_start", "turn_start", "text_delta", "turn_stop"]);
    assert!(answer.ends_with("data: {\"stopReason\":\"max_tokens\"}\n\n"), "{answer}");
}

/// Nor when a turn that waits for it is stopped.
#[test]
fn a_stop_gives_no_results_of_the_applications_tools() {
    let shared = shared();
    let client = shared.client("acme");
    script("client-stop", [Reply::calls(&[("get_weather", json!({ "location": "Rome" }))])]);
    let body = json!({
        "agent": { "name": "scripted" },
        "tools": [{ "name": "get_weather", "description": "", "inputSchema": {} }],
        "messages": [{ "role": "user", "content": "play client-stop" }],
    });
    let made = client.send("PUT", "/session", &body.to_string());
    let (session, turn) = (made.header("x-session-id"), made.header("x-message-id"));
    let native = format!("/api/v1/sessions/{session}");
    let view = format!("{native}/messages/{turn}/stream?as=aap-delta");
    let mut rest = client.open_with("GET", &view, &[("last-event-id", "5")], "");
    assert_eq!(client.send("POST", &format!("{native}/stop"), "").status, 204);
    let (frames, _) = rest.rest();
    assert_eq!(frames.len(), 1, "{frames:?}");
    assert!(frames[0].starts_with("event: turn_stop\n"), "{frames:?}");
}
