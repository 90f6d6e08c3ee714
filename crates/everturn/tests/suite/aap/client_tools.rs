//! Tools of the application.

use expect_test::expect;
use serde_json::json;

use crate::suite::harness::{Reply, asked, check, script};

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
