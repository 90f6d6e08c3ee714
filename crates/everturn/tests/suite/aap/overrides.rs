//! What a turn may change about its session, and that it stays changed.

use expect_test::expect;

use crate::suite::harness::{Reply, asked, check, script};

#[test]
fn tools_are_replaced_and_persisted() {
    script("overrides", ["One.", "Two.", "Three.", "Four."].map(|text| Reply::says(&[text])));
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted","tools":[{"name":"clock","trust":true}]},"tools":[$weather],"messages":[{"role":"user","content":"play overrides"}]}"#,
            r#"POST /session/sess#1 {"messages":[{"role":"user","content":"unchanged"}]}"#,
            r#"GET /session/sess#1?history=compacted"#,
            r#"POST /session/sess#1 {"agent":{"tools":[{"name":"calculator"}]},"tools":[$map],"messages":[{"role":"user","content":"replaced"}]}"#,
            r#"GET /session/sess#1?history=compacted"#,
            r#"POST /session/sess#1 {"agent":{"tools":[]},"tools":[],"messages":[{"role":"user","content":"none"}]}"#,
            r#"GET /session/sess#1?history=compacted"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted","tools":[{"name":"clock","trust":true}]},"tools":[$weather],"messages":[{"role":"user","content":"play overrides"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"messages":[{"content":"One.","role":"assistant"}],"sessionId":"sess#1","stopReason":"end_turn"}

            > POST /session/sess#1 {"messages":[{"role":"user","content":"unchanged"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#2
            {"messages":[{"content":"Two.","role":"assistant"}],"stopReason":"end_turn"}

            > GET /session/sess#1?history=compacted
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[{"name":"clock","trust":true}]},
              "history": {
                "compacted": [
                  {"content":"play overrides","role":"user"},
                  {"content":"One.","role":"assistant"},
                  {"content":"unchanged","role":"user"},
                  {"content":"Two.","role":"assistant"}
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

            > POST /session/sess#1 {"agent":{"tools":[{"name":"calculator"}]},"tools":[$map],"messages":[{"role":"user","content":"replaced"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#3
            {"messages":[{"content":"Three.","role":"assistant"}],"stopReason":"end_turn"}

            > GET /session/sess#1?history=compacted
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[{"name":"calculator","trust":false}]},
              "history": {
                "compacted": [
                  {"content":"play overrides","role":"user"},
                  {"content":"One.","role":"assistant"},
                  {"content":"unchanged","role":"user"},
                  {"content":"Two.","role":"assistant"},
                  {"content":"replaced","role":"user"},
                  {"content":"Three.","role":"assistant"}
                ]
              },
              "sessionId": "sess#1",
              "tools": [{"description":"Shows a map","inputSchema":{"type":"object"},"name":"show_map","title":"Map"}]
            }

            > POST /session/sess#1 {"agent":{"tools":[]},"tools":[],"messages":[{"role":"user","content":"none"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#4
            {"messages":[{"content":"Four.","role":"assistant"}],"stopReason":"end_turn"}

            > GET /session/sess#1?history=compacted
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[]},
              "history": {
                "compacted": [
                  {"content":"play overrides","role":"user"},
                  {"content":"One.","role":"assistant"},
                  {"content":"unchanged","role":"user"},
                  {"content":"Two.","role":"assistant"},
                  {"content":"replaced","role":"user"},
                  {"content":"Three.","role":"assistant"},
                  {"content":"none","role":"user"},
                  {"content":"Four.","role":"assistant"}
                ]
              },
              "sessionId": "sess#1"
            }

        "#]],
    );
    let names = |told: &serde_json::Value| -> Vec<String> {
        let tools = told["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let told: Vec<_> = asked("overrides").iter().map(names).collect();
    assert_eq!(
        told,
        [vec!["clock", "get_weather"], vec!["clock", "get_weather"], vec!["calculator", "show_map"], vec![]]
    );
}

#[test]
fn the_agent_may_be_named_but_not_changed() {
    check(
        &[
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":"I like tea"}]}"#,
            r#"POST /session/sess#1 {"agent":{"name":"demo"},"messages":[{"role":"user","content":"I like it"}]}"#,
            r#"POST /session/sess#1 {"agent":{"name":"scripted"},"messages":[{"role":"user","content":"I like it"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":"I like tea"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {
                  "content": "You said “I like tea”. I am the demo model and know only a few requests. Say `help` to see them.",
                  "role": "assistant"
                }
              ],
              "sessionId": "sess#1",
              "stopReason": "end_turn"
            }

            > POST /session/sess#1 {"agent":{"name":"demo"},"messages":[{"role":"user","content":"I like it"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#2
            {
              "messages": [
                {
                  "content": "You said “I like it”. I am the demo model and know only a few requests. Say `help` to see them.",
                  "role": "assistant"
                }
              ],
              "stopReason": "end_turn"
            }

            > POST /session/sess#1 {"agent":{"name":"scripted"},"messages":[{"role":"user","content":"I like it"}]}
            400
            content-type: application/json
            {"error":"the agent of a session cannot be changed (it is \"demo\", not \"scripted\")"}

        "#]],
    );
}

#[test]
fn names_of_tools_are_unique_in_the_merged_state() {
    check(
        &[
            r#"PUT /session {"agent":{"name":"demo"},"tools":[$weather,$weather],"messages":[{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"agent":{"name":"demo","tools":[{"name":"clock"},{"name":"clock","trust":true}]},"messages":[{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"agent":{"name":"demo","tools":[{"name":"clock"}]},"tools":[{"name":"clock","description":"","inputSchema":{}}],"messages":[{"role":"user","content":"hi"}]}"#,
            // A tool of the server that is not enabled leaves its name free.
            r#"PUT /session {"agent":{"name":"demo"},"tools":[{"name":"clock","description":"Mine","inputSchema":{}}],"messages":[{"role":"user","content":"I like tea"}]}"#,
            r#"POST /session/sess#1 {"agent":{"tools":[{"name":"clock"}]},"messages":[{"role":"user","content":"hi"}]}"#,
            r#"POST /session/sess#1 {"agent":{"tools":[{"name":"clock"}]},"tools":[],"messages":[{"role":"user","content":"I like tea"}]}"#,
            r#"GET /session/sess#1?history=compacted"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"demo"},"tools":[$weather,$weather],"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {
              "error": "there are two tools named \"get_weather\"; tool names must be unique across application and server tools"
            }

            > PUT /session {"agent":{"name":"demo","tools":[{"name":"clock"},{"name":"clock","trust":true}]},"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"there are two tools named \"clock\"; tool names must be unique across application and server tools"}

            > PUT /session {"agent":{"name":"demo","tools":[{"name":"clock"}]},"tools":[{"name":"clock","description":"","inputSchema":{}}],"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"there are two tools named \"clock\"; tool names must be unique across application and server tools"}

            > PUT /session {"agent":{"name":"demo"},"tools":[{"name":"clock","description":"Mine","inputSchema":{}}],"messages":[{"role":"user","content":"I like tea"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {
                  "content": "You said “I like tea”. I am the demo model and know only a few requests. Say `help` to see them.",
                  "role": "assistant"
                }
              ],
              "sessionId": "sess#1",
              "stopReason": "end_turn"
            }

            > POST /session/sess#1 {"agent":{"tools":[{"name":"clock"}]},"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"there are two tools named \"clock\"; tool names must be unique across application and server tools"}

            > POST /session/sess#1 {"agent":{"tools":[{"name":"clock"}]},"tools":[],"messages":[{"role":"user","content":"I like tea"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#2
            {
              "messages": [
                {
                  "content": "You said “I like tea”. I am the demo model and know only a few requests. Say `help` to see them.",
                  "role": "assistant"
                }
              ],
              "stopReason": "end_turn"
            }

            > GET /session/sess#1?history=compacted
            200
            content-type: application/json
            {
              "agent": {"name":"demo","tools":[{"name":"clock","trust":false}]},
              "history": {
                "compacted": [
                  {"content":"I like tea","role":"user"},
                  {
                    "content": "You said “I like tea”. I am the demo model and know only a few requests. Say `help` to see them.",
                    "role": "assistant"
                  },
                  {"content":"I like tea","role":"user"},
                  {
                    "content": "You said “I like tea”. I am the demo model and know only a few requests. Say `help` to see them.",
                    "role": "assistant"
                  }
                ]
              },
              "sessionId": "sess#1"
            }

        "#]],
    );
}

#[test]
fn unknown_tools_are_refused() {
    check(
        &[
            r#"PUT /session {"agent":{"name":"demo","tools":[{"name":"rm_rf","trust":true}]},"messages":[{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"agent":{"name":"short","tools":[{"name":"calculator"}]},"messages":[{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"agent":{"name":"short"},"tools":[{"name":"calculator","description":"","inputSchema":{}}],"messages":[{"role":"user","content":"hi"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"demo","tools":[{"name":"rm_rf","trust":true}]},"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"agent \"demo\" has no tool \"rm_rf\"; it has: clock, calculator"}

            > PUT /session {"agent":{"name":"short","tools":[{"name":"calculator"}]},"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"agent \"short\" has no tool \"calculator\"; it has: none"}

            > PUT /session {"agent":{"name":"short"},"tools":[{"name":"calculator","description":"","inputSchema":{}}],"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {
              "error": "there are two tools named \"calculator\"; tool names must be unique across application and server tools"
            }

        "#]],
    );
}
