//! Calls that fail, and calls that cannot be made.

use expect_test::expect;
use serde_json::json;

use crate::suite::harness::{Reply, asked, check, script};

#[test]
fn a_failing_tool_is_a_result_that_says_so() {
    let calls = Reply::calls(&[
        ("calculator", json!({ "expression": "1/0" })),
        ("calculator", json!({ "expression": 7 })),
        ("calculator", json!({ "expresion": "1" })),
    ]);
    script("tools-failing", [calls, Reply::says(&["Pity."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true}]},"messages":[{"role":"user","content":"play tools-failing"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true}]},"messages":[{"role":"user","content":"play tools-failing"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {
                  "content": [
                    {"input":{"expression":"1/0"},"name":"calculator","toolCallId":"call#1","type":"tool_use"},
                    {"input":{"expression":7},"name":"calculator","toolCallId":"call#2","type":"tool_use"},
                    {"input":{"expresion":"1"},"name":"calculator","toolCallId":"call#3","type":"tool_use"}
                  ],
                  "role": "assistant"
                },
                {"content":"Error: division by zero (at character 2)","role":"tool","toolCallId":"call#1"},
                {
                  "content": "the input does not fit the tool's schema:\n- at /expression: 7 is not of type \"string\"",
                  "role": "tool",
                  "toolCallId": "call#2"
                },
                {
                  "content": "the input does not fit the tool's schema:\n- at the top: Additional properties are not allowed ('expresion' was unexpected)\n- at the top: \"expression\" is a required property",
                  "role": "tool",
                  "toolCallId": "call#3"
                },
                {"content":"Pity.","role":"assistant"}
              ],
              "sessionId": "sess#1",
              "stopReason": "end_turn"
            }

        "#]],
    );
}

/// Nobody is asked about calls that cannot run, and nothing waits for them.
#[test]
fn calls_that_cannot_run_are_answered_inline() {
    let calls = Reply::new()
        .call("clock", "{}")
        .call("rm_rf", r#"{"path":"/"}"#)
        .call("calculator", r#"{"expression":"#)
        .call("calculator", "[1]")
        .call("calculator", r#"{"expression":7}"#)
        .finish("tool_calls");
    script("tools-impossible", [calls, Reply::says(&["I see."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator"}]},"stream":"delta","messages":[{"role":"user","content":"play tools-impossible"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator"}]},"stream":"delta","messages":[{"role":"user","content":"play tools-impossible"}]}
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
            id: 8.1
            data: {"toolCallId":"call#1","name":"clock","input":{}}

            event: tool_call
            id: 8.2
            data: {"toolCallId":"call#2","name":"rm_rf","input":{"path":"/"}}

            event: tool_call
            id: 8.3
            data: {"toolCallId":"call#3","name":"calculator","input":{}}

            event: tool_call
            id: 8.4
            data: {"toolCallId":"call#4","name":"calculator","input":{}}

            event: tool_call
            id: 8.5
            data: {"toolCallId":"call#5","name":"calculator","input":{"expression":7}}

            event: tool_result
            id: 9
            data: {"toolCallId":"call#1","content":"There is no tool \"clock\" in this session"}

            event: tool_result
            id: 10
            data: {"toolCallId":"call#2","content":"There is no tool \"rm_rf\" in this session"}

            event: tool_result
            id: 11
            data: {"toolCallId":"call#3","content":"The input of calculator is not a JSON object: {\"expression\":"}

            event: tool_result
            id: 12
            data: {"toolCallId":"call#4","content":"The input of calculator is not a JSON object: [1]"}

            event: tool_result
            id: 13
            data: {"toolCallId":"call#5","content":"the input does not fit the tool's schema:\n- at /expression: 7 is not of type \"string\""}

            event: text_delta
            id: 15
            data: {"delta":"I see."}

            event: turn_stop
            id: 17
            data: {"stopReason":"end_turn"}

        "#]],
    );
}

#[test]
fn without_agent_tools_none_is_enabled() {
    script("tools-absent", [Reply::calls(&[("clock", json!({}))]), Reply::says(&["No clock."])]);
    check(
        &[r#"PUT /session {"agent":{"name":"scripted"},"messages":[{"role":"user","content":"play tools-absent"}]}"#],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"messages":[{"role":"user","content":"play tools-absent"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {"content":[{"input":{},"name":"clock","toolCallId":"call#1","type":"tool_use"}],"role":"assistant"},
                {"content":"There is no tool \"clock\" in this session","role":"tool","toolCallId":"call#1"},
                {"content":"No clock.","role":"assistant"}
              ],
              "sessionId": "sess#1",
              "stopReason": "end_turn"
            }

        "#]],
    );
    assert_eq!(asked("tools-absent")[0].get("tools"), None);
}
