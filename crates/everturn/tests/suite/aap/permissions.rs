//! Tools of the server that ask first.

use expect_test::expect;
use serde_json::json;

use crate::suite::harness::{Reply, asked, check, script, shared};

fn sum() -> Reply {
    Reply::calls(&[("calculator", json!({ "expression": "6*7" }))])
}

#[test]
fn granted_in_deltas() {
    script("grant-delta", [sum(), Reply::says(&["It is ", "42."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator"}]},"stream":"delta","messages":[{"role":"user","content":"play grant-delta"}]}"#,
            r#"POST /session/sess#1 {"stream":"delta","messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator"}]},"stream":"delta","messages":[{"role":"user","content":"play grant-delta"}]}
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
            data: {"toolCallId":"call#1","name":"calculator","input":{"expression":"6*7"}}

            event: turn_stop
            id: 6
            data: {"stopReason":"tool_use"}

            > POST /session/sess#1 {"stream":"delta","messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            event: turn_start
            id: 7
            data: {}

            event: tool_result
            id: 9
            data: {"toolCallId":"call#1","content":"42"}

            event: text_delta
            id: 11
            data: {"delta":"It is "}

            event: text_delta
            id: 12
            data: {"delta":"42."}

            event: turn_stop
            id: 14
            data: {"stopReason":"end_turn"}

        "#]],
    );
}

#[test]
fn granted_in_messages() {
    script("grant-message", [sum(), Reply::says(&["It is ", "42."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":false}]},"stream":"message","messages":[{"role":"user","content":"play grant-message"}]}"#,
            r#"POST /session/sess#1 {"stream":"message","messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":false}]},"stream":"message","messages":[{"role":"user","content":"play grant-message"}]}
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
            data: {"toolCallId":"call#1","name":"calculator","input":{"expression":"6*7"}}

            event: turn_stop
            id: 6
            data: {"stopReason":"tool_use"}

            > POST /session/sess#1 {"stream":"message","messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            event: turn_start
            id: 7
            data: {}

            event: tool_result
            id: 9
            data: {"toolCallId":"call#1","content":"42"}

            event: text
            id: 13
            data: {"text":"It is 42."}

            event: turn_stop
            id: 14
            data: {"stopReason":"end_turn"}

        "#]],
    );
}

/// Permissions themselves are never part of history.
#[test]
fn granted_in_one_piece() {
    script("grant-none", [sum(), Reply::says(&["It is 42."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":null}]},"messages":[{"role":"user","content":"play grant-none"}]}"#,
            r#"POST /session/sess#1 {"messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true,"reason":"I trust you"}]}"#,
            r#"GET /session/sess#1?history=full"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":null}]},"messages":[{"role":"user","content":"play grant-none"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {
                  "content": [{"input":{"expression":"6*7"},"name":"calculator","toolCallId":"call#1","type":"tool_use"}],
                  "role": "assistant"
                }
              ],
              "sessionId": "sess#1",
              "stopReason": "tool_use"
            }

            > POST /session/sess#1 {"messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true,"reason":"I trust you"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [{"content":"42","role":"tool","toolCallId":"call#1"},{"content":"It is 42.","role":"assistant"}],
              "stopReason": "end_turn"
            }

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[{"name":"calculator","trust":false}]},
              "history": {
                "full": [
                  {"content":"play grant-none","role":"user"},
                  {
                    "content": [{"input":{"expression":"6*7"},"name":"calculator","toolCallId":"call#1","type":"tool_use"}],
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
fn denied_without_a_reason() {
    script("deny-plain", [sum(), Reply::says(&["Then not."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator"}]},"stream":"delta","messages":[{"role":"user","content":"play deny-plain"}]}"#,
            r#"POST /session/sess#1 {"stream":"delta","messages":[{"role":"tool_permission","toolCallId":"call#1","granted":false}]}"#,
            r#"GET /session/sess#1?history=full"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator"}]},"stream":"delta","messages":[{"role":"user","content":"play deny-plain"}]}
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
            data: {"toolCallId":"call#1","name":"calculator","input":{"expression":"6*7"}}

            event: turn_stop
            id: 6
            data: {"stopReason":"tool_use"}

            > POST /session/sess#1 {"stream":"delta","messages":[{"role":"tool_permission","toolCallId":"call#1","granted":false}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            event: turn_start
            id: 7
            data: {}

            event: tool_result
            id: 8
            data: {"toolCallId":"call#1","content":"Tool call denied"}

            event: text_delta
            id: 10
            data: {"delta":"Then not."}

            event: turn_stop
            id: 12
            data: {"stopReason":"end_turn"}

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[{"name":"calculator","trust":false}]},
              "history": {
                "full": [
                  {"content":"play deny-plain","role":"user"},
                  {
                    "content": [{"input":{"expression":"6*7"},"name":"calculator","toolCallId":"call#1","type":"tool_use"}],
                    "role": "assistant"
                  },
                  {"content":"Tool call denied","role":"tool","toolCallId":"call#1"},
                  {"content":"Then not.","role":"assistant"}
                ]
              },
              "sessionId": "sess#1"
            }

        "#]],
    );
}

#[test]
fn denied_with_a_reason() {
    script("deny-reason", [sum(), Reply::says(&["Then not."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator"}]},"messages":[{"role":"user","content":"play deny-reason"}]}"#,
            r#"POST /session/sess#1 {"messages":[{"role":"tool_permission","toolCallId":"call#1","granted":false,"reason":"User declined"}]}"#,
            r#"GET /session/sess#1?history=full"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator"}]},"messages":[{"role":"user","content":"play deny-reason"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {
                  "content": [{"input":{"expression":"6*7"},"name":"calculator","toolCallId":"call#1","type":"tool_use"}],
                  "role": "assistant"
                }
              ],
              "sessionId": "sess#1",
              "stopReason": "tool_use"
            }

            > POST /session/sess#1 {"messages":[{"role":"tool_permission","toolCallId":"call#1","granted":false,"reason":"User declined"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {"content":"Tool call denied: User declined","role":"tool","toolCallId":"call#1"},
                {"content":"Then not.","role":"assistant"}
              ],
              "stopReason": "end_turn"
            }

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[{"name":"calculator","trust":false}]},
              "history": {
                "full": [
                  {"content":"play deny-reason","role":"user"},
                  {
                    "content": [{"input":{"expression":"6*7"},"name":"calculator","toolCallId":"call#1","type":"tool_use"}],
                    "role": "assistant"
                  },
                  {"content":"Tool call denied: User declined","role":"tool","toolCallId":"call#1"},
                  {"content":"Then not.","role":"assistant"}
                ]
              },
              "sessionId": "sess#1"
            }

        "#]],
    );
    let told = asked("deny-reason").pop().unwrap();
    assert_eq!(told["messages"][3]["content"], "Tool call denied: User declined", "{told}");
}

/// Decisions use the settings after the request's own overrides.
#[test]
fn a_tool_that_the_same_request_disables_does_not_run() {
    script("grant-disabled", [sum(), Reply::says(&["Gone."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator"}]},"messages":[{"role":"user","content":"play grant-disabled"}]}"#,
            r#"POST /session/sess#1 {"agent":{"tools":[]},"messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator"}]},"messages":[{"role":"user","content":"play grant-disabled"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {
                  "content": [{"input":{"expression":"6*7"},"name":"calculator","toolCallId":"call#1","type":"tool_use"}],
                  "role": "assistant"
                }
              ],
              "sessionId": "sess#1",
              "stopReason": "tool_use"
            }

            > POST /session/sess#1 {"agent":{"tools":[]},"messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {
                  "content": "Tool call not run: calculator is not enabled in this session any more",
                  "role": "tool",
                  "toolCallId": "call#1"
                },
                {"content":"Gone.","role":"assistant"}
              ],
              "stopReason": "end_turn"
            }

        "#]],
    );
}

/// Trusting a tool later does not answer what was asked before, and holds from then on.
#[test]
fn trust_given_with_the_permission_holds_afterwards() {
    script("grant-trust", [sum(), sum(), Reply::says(&["Twice."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator"}]},"stream":"message","messages":[{"role":"user","content":"play grant-trust"}]}"#,
            r#"POST /session/sess#1 {"stream":"message","agent":{"tools":[{"name":"calculator","trust":true}]},"messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator"}]},"stream":"message","messages":[{"role":"user","content":"play grant-trust"}]}
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
            data: {"toolCallId":"call#1","name":"calculator","input":{"expression":"6*7"}}

            event: turn_stop
            id: 6
            data: {"stopReason":"tool_use"}

            > POST /session/sess#1 {"stream":"message","agent":{"tools":[{"name":"calculator","trust":true}]},"messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            event: turn_start
            id: 7
            data: {}

            event: tool_result
            id: 9
            data: {"toolCallId":"call#1","content":"42"}

            event: tool_call
            id: 12
            data: {"toolCallId":"call#2","name":"calculator","input":{"expression":"6*7"}}

            event: tool_result
            id: 14
            data: {"toolCallId":"call#2","content":"42"}

            event: text
            id: 17
            data: {"text":"Twice."}

            event: turn_stop
            id: 18
            data: {"stopReason":"end_turn"}

        "#]],
    );
}

/// Applications with a field for the reason send it also where nobody has written into it.
#[test]
fn an_empty_reason_is_none() {
    for (name, reason) in [("deny-empty", ""), ("deny-blank", " \n")] {
        script(name, [sum(), Reply::says(&["Then not."])]);
        let shared = shared();
        let client = shared.client("acme");
        let said = json!([{ "role": "user", "content": format!("play {name}") }]);
        let body = json!({ "agent": { "name": "scripted", "tools": [{ "name": "calculator" }] }, "messages": said });
        let made = client.send("PUT", "/session", &body.to_string()).json();
        let call = &made["messages"][0]["content"][0]["toolCallId"];
        let denied = json!([{ "role": "tool_permission", "toolCallId": call, "granted": false, "reason": reason }]);
        let path = format!("/session/{}", made["sessionId"].as_str().unwrap());
        let answer = client.send("POST", &path, &json!({ "messages": denied }).to_string()).json();
        assert_eq!(answer["messages"][0]["content"], "Tool call denied", "{answer}");
    }
}
