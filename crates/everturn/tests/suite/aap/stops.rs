//! Why a turn stops.

use expect_test::expect;
use serde_json::json;

use crate::suite::harness::{Reply, check, script};

#[test]
fn a_refusal() {
    let reply = || Reply::new().text("I would rather not.").finish("content_filter");
    script("stops-refusal", [reply(), reply()]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"stream":"delta","messages":[{"role":"user","content":"play stops-refusal"}]}"#,
            r#"POST /session/sess#1 {"messages":[{"role":"user","content":"please"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"stream":"delta","messages":[{"role":"user","content":"play stops-refusal"}]}
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
            data: {"delta":"I would rather not."}

            event: turn_stop
            id: 5
            data: {"stopReason":"refusal"}

            > POST /session/sess#1 {"messages":[{"role":"user","content":"please"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#2
            {"messages":[{"content":"I would rather not.","role":"assistant"}],"stopReason":"refusal"}

        "#]],
    );
}

#[test]
fn the_end_of_the_tokens() {
    let reply = || Reply::new().text("It was a dark and").finish("length");
    script("stops-length", [reply(), reply()]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"stream":"message","messages":[{"role":"user","content":"play stops-length"}]}"#,
            r#"POST /session/sess#1 {"messages":[{"role":"user","content":"go on"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"stream":"message","messages":[{"role":"user","content":"play stops-length"}]}
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
            id: 4
            data: {"text":"It was a dark and"}

            event: turn_stop
            id: 5
            data: {"stopReason":"max_tokens"}

            > POST /session/sess#1 {"messages":[{"role":"user","content":"go on"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#2
            {"messages":[{"content":"It was a dark and","role":"assistant"}],"stopReason":"max_tokens"}

        "#]],
    );
}

#[test]
fn calls_of_an_answer_that_was_cut_short_do_not_run() {
    let reply = Reply::new().text("I shall").call("calculator", r#"{"expression":"1+1"}"#).finish("length");
    script("stops-length-call", [reply]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true}]},"messages":[{"role":"user","content":"play stops-length-call"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true}]},"messages":[{"role":"user","content":"play stops-length-call"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {
                  "content": [
                    {"text":"I shall","type":"text"},
                    {"input":{"expression":"1+1"},"name":"calculator","toolCallId":"call#1","type":"tool_use"}
                  ],
                  "role": "assistant"
                },
                {"content":"Tool call not run: the answer was cut short","role":"tool","toolCallId":"call#1"}
              ],
              "sessionId": "sess#1",
              "stopReason": "max_tokens"
            }

        "#]],
    );
}

#[test]
fn a_creation_whose_turn_fails_has_created_the_session() {
    check(
        &[
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":"fail"}]}"#,
            r#"GET /session/sess#1?history=full"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":"fail"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"messages":[],"sessionId":"sess#1","stopReason":"error"}

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"demo","tools":[]},
              "history": {"full":[{"content":"fail","role":"user"}]},
              "sessionId": "sess#1"
            }

        "#]],
    );
}

#[test]
fn too_many_steps() {
    let call = || Reply::calls(&[("calculator", json!({ "expression": "1+1" }))]);
    script("stops-steps", [call(), call(), call()]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"short"},"messages":[{"role":"user","content":"play stops-steps"}]}"#,
            r#"GET /session/sess#1?history=full"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"short"},"messages":[{"role":"user","content":"play stops-steps"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {
                  "content": [{"input":{"expression":"1+1"},"name":"calculator","toolCallId":"call#1","type":"tool_use"}],
                  "role": "assistant"
                },
                {"content":"2","role":"tool","toolCallId":"call#1"},
                {
                  "content": [{"input":{"expression":"1+1"},"name":"calculator","toolCallId":"call#2","type":"tool_use"}],
                  "role": "assistant"
                },
                {"content":"2","role":"tool","toolCallId":"call#2"}
              ],
              "sessionId": "sess#1",
              "stopReason": "error"
            }

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"short","tools":[]},
              "history": {
                "full": [
                  {"content":"play stops-steps","role":"user"},
                  {
                    "content": [{"input":{"expression":"1+1"},"name":"calculator","toolCallId":"call#1","type":"tool_use"}],
                    "role": "assistant"
                  },
                  {"content":"2","role":"tool","toolCallId":"call#1"},
                  {
                    "content": [{"input":{"expression":"1+1"},"name":"calculator","toolCallId":"call#2","type":"tool_use"}],
                    "role": "assistant"
                  },
                  {"content":"2","role":"tool","toolCallId":"call#2"}
                ]
              },
              "sessionId": "sess#1"
            }

        "#]],
    );
}
