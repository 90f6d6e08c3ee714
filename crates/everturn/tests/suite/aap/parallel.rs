//! Several calls at once: two tools of the application, one trusted and one untrusted tool of the server.

use expect_test::expect;
use serde_json::json;

use crate::suite::harness::{Reply, asked, check, script};

fn four() -> Reply {
    Reply::new()
        .thinking("Four things.")
        .text("All at once.")
        .call("get_weather", json!({ "location": "Tokyo" }).to_string())
        .call("show_map", json!({}).to_string())
        .call("calculator", json!({ "expression": "6*7" }).to_string())
        .call("clock", json!({}).to_string())
        .finish("tool_calls")
}

#[test]
fn in_deltas() {
    script("four-delta", [four(), Reply::says(&["All ", "done."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true},{"name":"clock","trust":false}]},"stream":"delta","tools":[$weather,$map],"messages":[{"role":"user","content":"play four-delta"}]}"#,
            r#"POST /session/sess#1 {"stream":"delta","messages":[{"role":"tool","toolCallId":"call#1","content":"18°C"},{"role":"tool","toolCallId":"call#2","content":"shown"},{"role":"tool_permission","toolCallId":"call#4","granted":true}]}"#,
            r#"GET /session/sess#1?history=full"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true},{"name":"clock","trust":false}]},"stream":"delta","tools":[$weather,$map],"messages":[{"role":"user","content":"play four-delta"}]}
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

            event: thinking_delta
            id: 3
            data: {"delta":"Four things."}

            event: text_delta
            id: 4
            data: {"delta":"All at once."}

            event: tool_call
            id: 9.3
            data: {"toolCallId":"call#1","name":"get_weather","input":{"location":"Tokyo"}}

            event: tool_call
            id: 9.4
            data: {"toolCallId":"call#2","name":"show_map","input":{}}

            event: tool_call
            id: 9.5
            data: {"toolCallId":"call#3","name":"calculator","input":{"expression":"6*7"}}

            event: tool_call
            id: 9.6
            data: {"toolCallId":"call#4","name":"clock","input":{}}

            event: tool_result
            id: 11
            data: {"toolCallId":"call#3","content":"42"}

            event: turn_stop
            id: 13
            data: {"stopReason":"tool_use"}

            > POST /session/sess#1 {"stream":"delta","messages":[{"role":"tool","toolCallId":"call#1","content":"18°C"},{"role":"tool","toolCallId":"call#2","content":"shown"},{"role":"tool_permission","toolCallId":"call#4","granted":true}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            event: turn_start
            id: 14
            data: {}

            event: tool_result
            id: 16
            data: {"toolCallId":"call#4","content":"<now>"}

            event: text_delta
            id: 18
            data: {"delta":"All "}

            event: text_delta
            id: 19
            data: {"delta":"done."}

            event: turn_stop
            id: 21
            data: {"stopReason":"end_turn"}

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[{"name":"calculator","trust":true},{"name":"clock","trust":false}]},
              "history": {
                "full": [
                  {"content":"play four-delta","role":"user"},
                  {
                    "content": [
                      {"thinking":"Four things.","type":"thinking"},
                      {"text":"All at once.","type":"text"},
                      {"input":{"location":"Tokyo"},"name":"get_weather","toolCallId":"call#1","type":"tool_use"},
                      {"input":{},"name":"show_map","toolCallId":"call#2","type":"tool_use"},
                      {"input":{"expression":"6*7"},"name":"calculator","toolCallId":"call#3","type":"tool_use"},
                      {"input":{},"name":"clock","toolCallId":"call#4","type":"tool_use"}
                    ],
                    "role": "assistant"
                  },
                  {"content":"42","role":"tool","toolCallId":"call#3"},
                  {"content":"18°C","role":"tool","toolCallId":"call#1"},
                  {"content":"shown","role":"tool","toolCallId":"call#2"},
                  {"content":"<now>","role":"tool","toolCallId":"call#4"},
                  {"content":"All done.","role":"assistant"}
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
    let told = asked("four-delta").pop().unwrap();
    let roles: Vec<_> = told["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "tool", "tool"]);
}

#[test]
fn in_messages() {
    script("four-message", [four(), Reply::says(&["All ", "done."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true},{"name":"clock","trust":false}]},"stream":"message","tools":[$weather,$map],"messages":[{"role":"user","content":"play four-message"}]}"#,
            r#"POST /session/sess#1 {"stream":"message","messages":[{"role":"tool_permission","toolCallId":"call#4","granted":false,"reason":"no time"},{"role":"tool","toolCallId":"call#2","content":"shown"},{"role":"tool","toolCallId":"call#1","content":"18°C"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true},{"name":"clock","trust":false}]},"stream":"message","tools":[$weather,$map],"messages":[{"role":"user","content":"play four-message"}]}
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

            event: thinking
            id: 9.1
            data: {"thinking":"Four things."}

            event: text
            id: 9.2
            data: {"text":"All at once."}

            event: tool_call
            id: 9.3
            data: {"toolCallId":"call#1","name":"get_weather","input":{"location":"Tokyo"}}

            event: tool_call
            id: 9.4
            data: {"toolCallId":"call#2","name":"show_map","input":{}}

            event: tool_call
            id: 9.5
            data: {"toolCallId":"call#3","name":"calculator","input":{"expression":"6*7"}}

            event: tool_call
            id: 9.6
            data: {"toolCallId":"call#4","name":"clock","input":{}}

            event: tool_result
            id: 11
            data: {"toolCallId":"call#3","content":"42"}

            event: turn_stop
            id: 13
            data: {"stopReason":"tool_use"}

            > POST /session/sess#1 {"stream":"message","messages":[{"role":"tool_permission","toolCallId":"call#4","granted":false,"reason":"no time"},{"role":"tool","toolCallId":"call#2","content":"shown"},{"role":"tool","toolCallId":"call#1","content":"18°C"}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            event: turn_start
            id: 14
            data: {}

            event: tool_result
            id: 15
            data: {"toolCallId":"call#4","content":"Tool call denied: no time"}

            event: text
            id: 19
            data: {"text":"All done."}

            event: turn_stop
            id: 20
            data: {"stopReason":"end_turn"}

        "#]],
    );
}

#[test]
fn in_one_piece() {
    script("four-none", [four(), Reply::says(&["All ", "done."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true},{"name":"clock","trust":false}]},"tools":[$weather,$map],"messages":[{"role":"user","content":"play four-none"}]}"#,
            r#"GET /session/sess#1?history=full"#,
            r#"POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"call#2","content":"shown"},{"role":"tool","toolCallId":"call#1","content":"18°C"},{"role":"tool_permission","toolCallId":"call#4","granted":true}]}"#,
            r#"GET /session/sess#1?history=full"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","tools":[{"name":"calculator","trust":true},{"name":"clock","trust":false}]},"tools":[$weather,$map],"messages":[{"role":"user","content":"play four-none"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {
                  "content": [
                    {"thinking":"Four things.","type":"thinking"},
                    {"text":"All at once.","type":"text"},
                    {"input":{"location":"Tokyo"},"name":"get_weather","toolCallId":"call#1","type":"tool_use"},
                    {"input":{},"name":"show_map","toolCallId":"call#2","type":"tool_use"},
                    {"input":{"expression":"6*7"},"name":"calculator","toolCallId":"call#3","type":"tool_use"},
                    {"input":{},"name":"clock","toolCallId":"call#4","type":"tool_use"}
                  ],
                  "role": "assistant"
                },
                {"content":"42","role":"tool","toolCallId":"call#3"}
              ],
              "sessionId": "sess#1",
              "stopReason": "tool_use"
            }

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[{"name":"calculator","trust":true},{"name":"clock","trust":false}]},
              "history": {
                "full": [
                  {"content":"play four-none","role":"user"},
                  {
                    "content": [
                      {"thinking":"Four things.","type":"thinking"},
                      {"text":"All at once.","type":"text"},
                      {"input":{"location":"Tokyo"},"name":"get_weather","toolCallId":"call#1","type":"tool_use"},
                      {"input":{},"name":"show_map","toolCallId":"call#2","type":"tool_use"},
                      {"input":{"expression":"6*7"},"name":"calculator","toolCallId":"call#3","type":"tool_use"},
                      {"input":{},"name":"clock","toolCallId":"call#4","type":"tool_use"}
                    ],
                    "role": "assistant"
                  },
                  {"content":"42","role":"tool","toolCallId":"call#3"}
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

            > POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"call#2","content":"shown"},{"role":"tool","toolCallId":"call#1","content":"18°C"},{"role":"tool_permission","toolCallId":"call#4","granted":true}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [{"content":"<now>","role":"tool","toolCallId":"call#4"},{"content":"All done.","role":"assistant"}],
              "stopReason": "end_turn"
            }

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[{"name":"calculator","trust":true},{"name":"clock","trust":false}]},
              "history": {
                "full": [
                  {"content":"play four-none","role":"user"},
                  {
                    "content": [
                      {"thinking":"Four things.","type":"thinking"},
                      {"text":"All at once.","type":"text"},
                      {"input":{"location":"Tokyo"},"name":"get_weather","toolCallId":"call#1","type":"tool_use"},
                      {"input":{},"name":"show_map","toolCallId":"call#2","type":"tool_use"},
                      {"input":{"expression":"6*7"},"name":"calculator","toolCallId":"call#3","type":"tool_use"},
                      {"input":{},"name":"clock","toolCallId":"call#4","type":"tool_use"}
                    ],
                    "role": "assistant"
                  },
                  {"content":"42","role":"tool","toolCallId":"call#3"},
                  {"content":"18°C","role":"tool","toolCallId":"call#1"},
                  {"content":"shown","role":"tool","toolCallId":"call#2"},
                  {"content":"<now>","role":"tool","toolCallId":"call#4"},
                  {"content":"All done.","role":"assistant"}
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

/// The provider's ids repeat; ours do not.
#[test]
fn calls_of_one_name_are_told_apart() {
    let two =
        || Reply::calls(&[("get_weather", json!({ "location": "A" })), ("get_weather", json!({ "location": "B" }))]);
    script("four-same", [two(), two(), Reply::says(&["Enough."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"tools":[$weather],"messages":[{"role":"user","content":"play four-same"}]}"#,
            r#"POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"call#2","content":"b"},{"role":"tool","toolCallId":"call#1","content":"a"}]}"#,
            r#"POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"call#3","content":"c"},{"role":"tool","toolCallId":"call#4","content":"d"}]}"#,
            r#"GET /session/sess#1?history=full"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"tools":[$weather],"messages":[{"role":"user","content":"play four-same"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {
                  "content": [
                    {"input":{"location":"A"},"name":"get_weather","toolCallId":"call#1","type":"tool_use"},
                    {"input":{"location":"B"},"name":"get_weather","toolCallId":"call#2","type":"tool_use"}
                  ],
                  "role": "assistant"
                }
              ],
              "sessionId": "sess#1",
              "stopReason": "tool_use"
            }

            > POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"call#2","content":"b"},{"role":"tool","toolCallId":"call#1","content":"a"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {
                  "content": [
                    {"input":{"location":"A"},"name":"get_weather","toolCallId":"call#3","type":"tool_use"},
                    {"input":{"location":"B"},"name":"get_weather","toolCallId":"call#4","type":"tool_use"}
                  ],
                  "role": "assistant"
                }
              ],
              "stopReason": "tool_use"
            }

            > POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"call#3","content":"c"},{"role":"tool","toolCallId":"call#4","content":"d"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"messages":[{"content":"Enough.","role":"assistant"}],"stopReason":"end_turn"}

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[]},
              "history": {
                "full": [
                  {"content":"play four-same","role":"user"},
                  {
                    "content": [
                      {"input":{"location":"A"},"name":"get_weather","toolCallId":"call#1","type":"tool_use"},
                      {"input":{"location":"B"},"name":"get_weather","toolCallId":"call#2","type":"tool_use"}
                    ],
                    "role": "assistant"
                  },
                  {"content":"a","role":"tool","toolCallId":"call#1"},
                  {"content":"b","role":"tool","toolCallId":"call#2"},
                  {
                    "content": [
                      {"input":{"location":"A"},"name":"get_weather","toolCallId":"call#3","type":"tool_use"},
                      {"input":{"location":"B"},"name":"get_weather","toolCallId":"call#4","type":"tool_use"}
                    ],
                    "role": "assistant"
                  },
                  {"content":"c","role":"tool","toolCallId":"call#3"},
                  {"content":"d","role":"tool","toolCallId":"call#4"},
                  {"content":"Enough.","role":"assistant"}
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
}
