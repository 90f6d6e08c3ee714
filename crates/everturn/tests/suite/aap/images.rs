//! Images, by address and by value.

use expect_test::expect;

use crate::suite::harness::{Reply, asked, check, script};

#[test]
fn images_reach_the_model_and_stay_in_history() {
    script(
        "images",
        [Reply::says(&["A cat."]), Reply::calls(&[("get_weather", serde_json::json!({}))]), Reply::says(&["Rain."])],
    );
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"tools":[$weather],"messages":[{"role":"user","content":[{"type":"text","text":"play images"},{"type":"image","url":"https://example.com/cat.png"},{"type":"image","url":"data:image/png;base64,iVBORw0KGgo="}]}]}"#,
            r#"POST /session/sess#1 {"messages":[{"role":"user","content":"And the weather?"}]}"#,
            r#"POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"call#1","content":[{"type":"image","url":"data:image/png;base64,iVBORw0KGgo="}]}]}"#,
            r#"GET /session/sess#1?history=full"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"tools":[$weather],"messages":[{"role":"user","content":[{"type":"text","text":"play images"},{"type":"image","url":"https://example.com/cat.png"},{"type":"image","url":"data:image/png;base64,iVBORw0KGgo="}]}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"messages":[{"content":"A cat.","role":"assistant"}],"sessionId":"sess#1","stopReason":"end_turn"}

            > POST /session/sess#1 {"messages":[{"role":"user","content":"And the weather?"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#2
            {
              "messages": [{"content":[{"input":{},"name":"get_weather","toolCallId":"call#1","type":"tool_use"}],"role":"assistant"}],
              "stopReason": "tool_use"
            }

            > POST /session/sess#1 {"messages":[{"role":"tool","toolCallId":"call#1","content":[{"type":"image","url":"data:image/png;base64,iVBORw0KGgo="}]}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#2
            {"messages":[{"content":"Rain.","role":"assistant"}],"stopReason":"end_turn"}

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[]},
              "history": {
                "full": [
                  {
                    "content": [
                      {"text":"play images","type":"text"},
                      {"type":"image","url":"https://example.com/cat.png"},
                      {"type":"image","url":"data:image/png;base64,iVBORw0KGgo="}
                    ],
                    "role": "user"
                  },
                  {"content":"A cat.","role":"assistant"},
                  {"content":"And the weather?","role":"user"},
                  {
                    "content": [{"input":{},"name":"get_weather","toolCallId":"call#1","type":"tool_use"}],
                    "role": "assistant"
                  },
                  {
                    "content": [{"type":"image","url":"data:image/png;base64,iVBORw0KGgo="}],
                    "role": "tool",
                    "toolCallId": "call#1"
                  },
                  {"content":"Rain.","role":"assistant"}
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
    let told = asked("images")[0]["messages"][1].to_string();
    assert!(
        told.contains("https://example.com/cat.png") && told.contains("data:image/png;base64,iVBORw0KGgo="),
        "{told}"
    );
    assert!(asked("images")[2].to_string().contains("iVBORw0KGgo="));
}

#[test]
fn images_that_are_refused() {
    check(
        &[
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":[{"type":"image","url":"http://example.com/cat.png"}]}]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":[{"type":"image","url":"file:///etc/passwd"}]}]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":[{"type":"image","url":"data:text/html,<b>"}]}]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":[{"type":"image"}]}]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"assistant","content":[{"type":"image","url":"https://example.com"}]},{"role":"user","content":"hi"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":[{"type":"image","url":"http://example.com/cat.png"}]}]}
            400
            content-type: application/json
            {
              "error": "messages[0]: image url \"http://example.com/cat.png\" is neither an https:// URL nor a data:image/…;base64,… URI"
            }

            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":[{"type":"image","url":"file:///etc/passwd"}]}]}
            400
            content-type: application/json
            {
              "error": "messages[0]: image url \"file:///etc/passwd\" is neither an https:// URL nor a data:image/…;base64,… URI"
            }

            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":[{"type":"image","url":"data:text/html,<b>"}]}]}
            400
            content-type: application/json
            {
              "error": "messages[0]: image url \"data:text/html,<b>\" is neither an https:// URL nor a data:image/…;base64,… URI"
            }

            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":[{"type":"image"}]}]}
            400
            content-type: application/json
            {"error":"messages[0]: a block of type image needs \"url\""}

            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"assistant","content":[{"type":"image","url":"https://example.com"}]},{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"messages[0]: a block of type image cannot stand in a message of this role"}

        "#]],
    );
}
