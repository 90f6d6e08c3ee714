//! The history that a session may begin with.

use expect_test::expect;

use crate::suite::harness::{Reply, asked, check, script};

#[test]
fn a_seed_is_kept_as_it_is_and_given_to_the_model() {
    script("seed", [Reply::says(&["Yes."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"What is 6*7?"},{"role":"assistant","content":[{"type":"thinking","thinking":"Easy."},{"type":"text","text":"I calculate."},{"type":"tool_use","toolCallId":"call_001","name":"calculator","input":{"expression":"6*7"}}]},{"role":"tool","toolCallId":"call_001","content":"42"},{"role":"assistant","content":"42."},{"role":"user","content":[{"type":"text","text":"Sure?"},{"type":"text","text":"play seed"}]}]}"#,
            r#"GET /session/sess#1?history=full"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"What is 6*7?"},{"role":"assistant","content":[{"type":"thinking","thinking":"Easy."},{"type":"text","text":"I calculate."},{"type":"tool_use","toolCallId":"call_001","name":"calculator","input":{"expression":"6*7"}}]},{"role":"tool","toolCallId":"call_001","content":"42"},{"role":"assistant","content":"42."},{"role":"user","content":[{"type":"text","text":"Sure?"},{"type":"text","text":"play seed"}]}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"messages":[{"content":"Yes.","role":"assistant"}],"sessionId":"sess#1","stopReason":"end_turn"}

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[]},
              "history": {
                "full": [
                  {"content":"Be brief.","role":"system"},
                  {"content":"What is 6*7?","role":"user"},
                  {
                    "content": [
                      {"thinking":"Easy.","type":"thinking"},
                      {"text":"I calculate.","type":"text"},
                      {"input":{"expression":"6*7"},"name":"calculator","toolCallId":"call_001","type":"tool_use"}
                    ],
                    "role": "assistant"
                  },
                  {"content":"42","role":"tool","toolCallId":"call_001"},
                  {"content":"42.","role":"assistant"},
                  {"content":[{"text":"Sure?","type":"text"},{"text":"play seed","type":"text"}],"role":"user"},
                  {"content":"Yes.","role":"assistant"}
                ]
              },
              "sessionId": "sess#1"
            }

        "#]],
    );
    expect![[r#"
        {"content":"Answer friend in English.\n\nBe brief.","role":"system"}
        {"content":"What is 6*7?","role":"user"}
        {"content":"I calculate.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"expression\":\"6*7\"}","name":"calculator"},"id":"call_001","type":"function"}]}
        {"content":"42","role":"tool","tool_call_id":"call_001"}
        {"content":"42.","role":"assistant"}
        {"content":"Sure?\n\nplay seed","role":"user"}
    "#]].assert_eq(&lines(&asked("seed")[0]));
}

#[test]
fn dangling_calls_are_closed_before_the_model_sees_them() {
    script("seed-dangling", [Reply::says(&["Yes."])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"messages":[{"role":"assistant","content":[{"type":"tool_use","toolCallId":"c1","name":"get_weather","input":{}},{"type":"tool_use","toolCallId":"c2","name":"get_weather","input":{}}]},{"role":"tool","toolCallId":"c2","content":"18"},{"role":"tool","toolCallId":"c9","content":"stray"},{"role":"user","content":"play seed-dangling"}]}"#,
            r#"GET /session/sess#1?history=full"#,
            // They are history, not waiting.
            r#"POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"c1","content":"17"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"messages":[{"role":"assistant","content":[{"type":"tool_use","toolCallId":"c1","name":"get_weather","input":{}},{"type":"tool_use","toolCallId":"c2","name":"get_weather","input":{}}]},{"role":"tool","toolCallId":"c2","content":"18"},{"role":"tool","toolCallId":"c9","content":"stray"},{"role":"user","content":"play seed-dangling"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"messages":[{"content":"Yes.","role":"assistant"}],"sessionId":"sess#1","stopReason":"end_turn"}

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[]},
              "history": {
                "full": [
                  {
                    "content": [
                      {"input":{},"name":"get_weather","toolCallId":"c1","type":"tool_use"},
                      {"input":{},"name":"get_weather","toolCallId":"c2","type":"tool_use"}
                    ],
                    "role": "assistant"
                  },
                  {"content":"18","role":"tool","toolCallId":"c2"},
                  {"content":"stray","role":"tool","toolCallId":"c9"},
                  {"content":"play seed-dangling","role":"user"},
                  {"content":"Yes.","role":"assistant"}
                ]
              },
              "sessionId": "sess#1"
            }

            > POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"c1","content":"17"}]}
            400
            content-type: application/json
            {"error":"no tool call c1 waits for an answer in this session"}

        "#]],
    );
    expect![[r#"
        {"content":"Answer friend in English.","role":"system"}
        {"content":"(the conversation goes on)","role":"user"}
        {"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"get_weather"},"id":"c1","type":"function"},{"function":{"arguments":"{}","name":"get_weather"},"id":"c2","type":"function"}]}
        {"content":"Tool call interrupted: it gave no result","role":"tool","tool_call_id":"c1"}
        {"content":"18","role":"tool","tool_call_id":"c2"}
        {"content":"play seed-dangling","role":"user"}
    "#]].assert_eq(&lines(&asked("seed-dangling")[0]));
}

/// What the model was told, a message a line.
fn lines(request: &serde_json::Value) -> String {
    request["messages"].as_array().unwrap().iter().map(|message| format!("{message}\n")).collect()
}

#[test]
fn seeds_that_are_refused() {
    check(
        &[
            r#"PUT /session {"agent":{"name":"demo"},"messages":[]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"system","content":"be brief"}]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"tool_permission","toolCallId":"c1","granted":true},{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"system","content":[{"type":"text","text":"be brief"}]},{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"tool","content":"18"},{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"assistant","content":[{"type":"tool_use","toolCallId":"c1","name":"f","input":[]}]},{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":[{"type":"tool_use","toolCallId":"c1","name":"f","input":{}}]}]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":[{"type":"video","url":"https://example.com"}]}]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":[{"type":"text"}]}]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user"}]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"boss","content":"hi"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"demo"},"messages":[]}
            400
            content-type: application/json
            {"error":"messages is empty; send at least one user message"}

            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}
            400
            content-type: application/json
            {"error":"the last message must be from the user"}

            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"system","content":"be brief"}]}
            400
            content-type: application/json
            {"error":"the last message must be from the user"}

            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"tool_permission","toolCallId":"c1","granted":true},{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"messages[0]: a tool_permission cannot be part of a new session's history"}

            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"system","content":[{"type":"text","text":"be brief"}]},{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"messages[0]: the content of a system message must be a string"}

            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"tool","content":"18"},{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"messages[0]: toolCallId is missing"}

            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"assistant","content":[{"type":"tool_use","toolCallId":"c1","name":"f","input":[]}]},{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"messages[0]: the input of a tool_use block must be an object"}

            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":[{"type":"tool_use","toolCallId":"c1","name":"f","input":{}}]}]}
            400
            content-type: application/json
            {"error":"messages[0]: a block of type tool_use cannot stand in a message of this role"}

            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":[{"type":"video","url":"https://example.com"}]}]}
            400
            content-type: application/json
            {"error":"messages[0]: content block type \"video\" is not known; use text, thinking, tool_use or image"}

            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":[{"type":"text"}]}]}
            400
            content-type: application/json
            {"error":"messages[0]: a block of type text needs \"text\""}

            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user"}]}
            400
            content-type: application/json
            {"error":"messages[0]: content is missing"}

            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"boss","content":"hi"}]}
            400
            content-type: application/json
            {"error":"messages[0]: role \"boss\" is not known; use system, user, assistant or tool"}

        "#]],
    );
}

#[test]
fn call_ids_are_used_once() {
    check(
        &[
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"assistant","content":[{"type":"tool_use","toolCallId":"q","name":"x","input":{}}]},{"role":"tool","toolCallId":"q","content":"1"},{"role":"assistant","content":[{"type":"tool_use","toolCallId":"q","name":"x","input":{}}]},{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":[{"type":"image","url":"data:image/png;base64,@@@"}]}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"assistant","content":[{"type":"tool_use","toolCallId":"q","name":"x","input":{}}]},{"role":"tool","toolCallId":"q","content":"1"},{"role":"assistant","content":[{"type":"tool_use","toolCallId":"q","name":"x","input":{}}]},{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"messages[2]: toolCallId q is used by an earlier call"}

            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":[{"type":"image","url":"data:image/png;base64,@@@"}]}]}
            400
            content-type: application/json
            {
              "error": "messages[0]: image url \"data:image/png;base64,@@@\" is neither an https:// URL nor a data:image/…;base64,… URI"
            }

        "#]],
    );
}
