//! Tools of the server that run without asking.

use expect_test::expect;
use serde_json::json;

use crate::suite::harness::{Reply, check, script};

fn sum() -> Reply {
    Reply::new().text("I calculate.").call("calculator", r#"{"expression":"6*7"}"#).finish("tool_calls")
}

#[test]
fn trusted_tool_in_deltas() {
    script("trusted-delta", [sum(), Reply::says(&["It is ", "42."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true}]},"stream":"delta","messages":[{"role":"user","content":"play trusted-delta"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true}]},"stream":"delta","messages":[{"role":"user","content":"play trusted-delta"}]}
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
            data: {"delta":"I calculate."}

            event: tool_call
            id: 5
            data: {"toolCallId":"call#1","name":"calculator","input":{"expression":"6*7"}}

            event: tool_result
            id: 7
            data: {"toolCallId":"call#1","content":"42"}

            event: text_delta
            id: 9
            data: {"delta":"It is "}

            event: text_delta
            id: 10
            data: {"delta":"42."}

            event: turn_stop
            id: 12
            data: {"stopReason":"end_turn"}

        "#]],
    );
}

#[test]
fn trusted_tool_in_messages() {
    script("trusted-message", [sum(), Reply::says(&["It is ", "42."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true}]},"stream":"message","messages":[{"role":"user","content":"play trusted-message"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true}]},"stream":"message","messages":[{"role":"user","content":"play trusted-message"}]}
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

            event: text
            id: 5.1
            data: {"text":"I calculate."}

            event: tool_call
            id: 5.2
            data: {"toolCallId":"call#1","name":"calculator","input":{"expression":"6*7"}}

            event: tool_result
            id: 7
            data: {"toolCallId":"call#1","content":"42"}

            event: text
            id: 11
            data: {"text":"It is 42."}

            event: turn_stop
            id: 12
            data: {"stopReason":"end_turn"}

        "#]],
    );
}

#[test]
fn trusted_tool_in_one_piece() {
    script("trusted-none", [sum(), Reply::says(&["It is ", "42."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true}]},"messages":[{"role":"user","content":"play trusted-none"}]}"#,
            r#"GET /session/sess#1"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true}]},"messages":[{"role":"user","content":"play trusted-none"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {
                  "content": [
                    {"text":"I calculate.","type":"text"},
                    {"input":{"expression":"6*7"},"name":"calculator","toolCallId":"call#1","type":"tool_use"}
                  ],
                  "role": "assistant"
                },
                {"content":"42","role":"tool","toolCallId":"call#1"},
                {"content":"It is 42.","role":"assistant"}
              ],
              "sessionId": "sess#1",
              "stopReason": "end_turn"
            }

            > GET /session/sess#1
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[{"name":"calculator","trust":true}]},
              "history": {
                "compacted": [
                  {"content":"play trusted-none","role":"user"},
                  {
                    "content": [
                      {"text":"I calculate.","type":"text"},
                      {"input":{"expression":"6*7"},"name":"calculator","toolCallId":"call#1","type":"tool_use"}
                    ],
                    "role": "assistant"
                  },
                  {"content":"42","role":"tool","toolCallId":"call#1"},
                  {"content":"It is 42.","role":"assistant"}
                ],
                "full": [
                  {"content":"play trusted-none","role":"user"},
                  {
                    "content": [
                      {"text":"I calculate.","type":"text"},
                      {"input":{"expression":"6*7"},"name":"calculator","toolCallId":"call#1","type":"tool_use"}
                    ],
                    "role": "assistant"
                  },
                  {"content":"42","role":"tool","toolCallId":"call#1"},
                  {"content":"It is 42.","role":"assistant"}
                ]
              },
              "sessionId": "sess#1"
            }

        "#]],
    );
}

#[test]
fn trusted_tools_of_one_step_stand_in_call_order() {
    let calls = Reply::calls(&[
        ("calculator", json!({ "expression": "1+1" })),
        ("clock", json!({})),
        ("calculator", json!({ "expression": "2+2" })),
    ]);
    script("trusted-several", [calls, Reply::says(&["Done."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true},{"name":"clock","trust":true}]},"messages":[{"role":"user","content":"play trusted-several"}]}"#,
            r#"GET /session/sess#1?history=full"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true},{"name":"clock","trust":true}]},"messages":[{"role":"user","content":"play trusted-several"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {
                  "content": [
                    {"input":{"expression":"1+1"},"name":"calculator","toolCallId":"call#1","type":"tool_use"},
                    {"input":{},"name":"clock","toolCallId":"call#2","type":"tool_use"},
                    {"input":{"expression":"2+2"},"name":"calculator","toolCallId":"call#3","type":"tool_use"}
                  ],
                  "role": "assistant"
                },
                {"content":"2","role":"tool","toolCallId":"call#1"},
                {"content":"<now>","role":"tool","toolCallId":"call#2"},
                {"content":"4","role":"tool","toolCallId":"call#3"},
                {"content":"Done.","role":"assistant"}
              ],
              "sessionId": "sess#1",
              "stopReason": "end_turn"
            }

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[{"name":"calculator","trust":true},{"name":"clock","trust":true}]},
              "history": {
                "full": [
                  {"content":"play trusted-several","role":"user"},
                  {
                    "content": [
                      {"input":{"expression":"1+1"},"name":"calculator","toolCallId":"call#1","type":"tool_use"},
                      {"input":{},"name":"clock","toolCallId":"call#2","type":"tool_use"},
                      {"input":{"expression":"2+2"},"name":"calculator","toolCallId":"call#3","type":"tool_use"}
                    ],
                    "role": "assistant"
                  },
                  {"content":"2","role":"tool","toolCallId":"call#1"},
                  {"content":"<now>","role":"tool","toolCallId":"call#2"},
                  {"content":"4","role":"tool","toolCallId":"call#3"},
                  {"content":"Done.","role":"assistant"}
                ]
              },
              "sessionId": "sess#1"
            }

        "#]],
    );
}
