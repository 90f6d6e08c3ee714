//! What an agent does not declare is refused.

use expect_test::expect;

use crate::suite::harness::check;

/// The agent `plain` declares the message mode, full history and images by value, and nothing else.
#[test]
fn of_an_agent_that_offers_little() {
    check(
        &[
            r#"PUT /session {"agent":{"name":"plain"},"stream":"message","messages":[{"role":"user","content":[{"type":"image","url":"data:image/png;base64,AAAA"}]}]}"#,
            r#"GET /session/sess#1"#,
            r#"GET /session/sess#1?history=full"#,
            r#"GET /session/sess#1?history=compacted"#,
            r#"POST /session/sess#1 {"stream":"delta","messages":[{"role":"user","content":"hi"}]}"#,
            r#"POST /session/sess#1 {"messages":[{"role":"user","content":"hi"}]}"#,
            r#"POST /session/sess#1 {"stream":"message","tools":[$map],"messages":[{"role":"user","content":"hi"}]}"#,
            r#"POST /session/sess#1 {"stream":"message","messages":[{"role":"user","content":[{"type":"image","url":"https://example.com/a.png"}]}]}"#,
            r#"PUT /session {"agent":{"name":"plain"},"messages":[{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"agent":{"name":"plain"},"stream":"message","tools":[$map],"messages":[{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"agent":{"name":"plain"},"stream":"message","tools":[],"messages":[{"role":"user","content":"stream 1"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"plain"},"stream":"message","messages":[{"role":"user","content":[{"type":"image","url":"data:image/png;base64,AAAA"}]}]}
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
            id: 16
            data: {"text":"I see 1 image. I can count images, but not look into them."}

            event: turn_stop
            id: 17
            data: {"stopReason":"end_turn"}

            > GET /session/sess#1
            200
            content-type: application/json
            {
              "agent": {"name":"plain","tools":[]},
              "history": {
                "full": [
                  {"content":[{"type":"image","url":"data:image/png;base64,AAAA"}],"role":"user"},
                  {"content":"I see 1 image. I can count images, but not look into them.","role":"assistant"}
                ]
              },
              "sessionId": "sess#1"
            }

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"plain","tools":[]},
              "history": {
                "full": [
                  {"content":[{"type":"image","url":"data:image/png;base64,AAAA"}],"role":"user"},
                  {"content":"I see 1 image. I can count images, but not look into them.","role":"assistant"}
                ]
              },
              "sessionId": "sess#1"
            }

            > GET /session/sess#1?history=compacted
            200
            content-type: application/json
            {"agent":{"name":"plain","tools":[]},"sessionId":"sess#1"}

            > POST /session/sess#1 {"stream":"delta","messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"agent \"plain\" does not offer stream \"delta\"; GET /meta tells what it offers"}

            > POST /session/sess#1 {"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"agent \"plain\" does not offer stream \"none\"; GET /meta tells what it offers"}

            > POST /session/sess#1 {"stream":"message","tools":[$map],"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"agent \"plain\" takes no application tools (it does not declare capabilities.application.tools)"}

            > POST /session/sess#1 {"stream":"message","messages":[{"role":"user","content":[{"type":"image","url":"https://example.com/a.png"}]}]}
            400
            content-type: application/json
            {"error":"messages[0]: agent \"plain\" takes no https images"}

            > PUT /session {"agent":{"name":"plain"},"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"agent \"plain\" does not offer stream \"none\"; GET /meta tells what it offers"}

            > PUT /session {"agent":{"name":"plain"},"stream":"message","tools":[$map],"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"agent \"plain\" takes no application tools (it does not declare capabilities.application.tools)"}

            > PUT /session {"agent":{"name":"plain"},"stream":"message","tools":[],"messages":[{"role":"user","content":"stream 1"}]}
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
            id: 4
            data: {"text":"word 1 "}

            event: turn_stop
            id: 5
            data: {"stopReason":"end_turn"}

        "#]],
    );
}
