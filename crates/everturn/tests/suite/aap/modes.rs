//! The three ways to get an answer.

use expect_test::expect;
use serde_json::json;

use crate::suite::harness::{Reply, check, script, shared};

#[test]
fn delta() {
    script("modes-delta", [Reply::says(&["Hel", "lo"]), Reply::says(&["Bye\nbye “”"])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"stream":"delta","messages":[{"role":"user","content":"play modes-delta"}]}"#,
            r#"POST /session/sess#1 {"stream":"delta","messages":[{"role":"user","content":"once more"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"stream":"delta","messages":[{"role":"user","content":"play modes-delta"}]}
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
            data: {"delta":"Hel"}

            event: text_delta
            id: 4
            data: {"delta":"lo"}

            event: turn_stop
            id: 6
            data: {"stopReason":"end_turn"}

            > POST /session/sess#1 {"stream":"delta","messages":[{"role":"user","content":"once more"}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#2

            event: turn_start
            id: 1
            data: {}

            event: text_delta
            id: 3
            data: {"delta":"Bye\nbye “”"}

            event: turn_stop
            id: 5
            data: {"stopReason":"end_turn"}

        "#]],
    );
}

#[test]
fn message() {
    script("modes-message", [Reply::says(&["Hel", "lo"]), Reply::says(&["Bye"])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"stream":"message","messages":[{"role":"user","content":"play modes-message"}]}"#,
            r#"POST /session/sess#1 {"stream":"message","messages":[{"role":"user","content":"once more"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"stream":"message","messages":[{"role":"user","content":"play modes-message"}]}
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
            id: 5
            data: {"text":"Hello"}

            event: turn_stop
            id: 6
            data: {"stopReason":"end_turn"}

            > POST /session/sess#1 {"stream":"message","messages":[{"role":"user","content":"once more"}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#2

            event: turn_start
            id: 1
            data: {}

            event: text
            id: 4
            data: {"text":"Bye"}

            event: turn_stop
            id: 5
            data: {"stopReason":"end_turn"}

        "#]],
    );
}

#[test]
fn none_is_the_default_and_null_is_none() {
    script("modes-none", [Reply::says(&["Hel", "lo"]), Reply::says(&["Bye"]), Reply::says(&["Bye again"])]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"messages":[{"role":"user","content":"play modes-none"}]}"#,
            r#"POST /session/sess#1 {"stream":"none","messages":[{"role":"user","content":"once more"}]}"#,
            r#"POST /session/sess#1 {"stream":null,"agent":null,"tools":null,"messages":[{"role":"user","content":"and again"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"messages":[{"role":"user","content":"play modes-none"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"messages":[{"content":"Hello","role":"assistant"}],"sessionId":"sess#1","stopReason":"end_turn"}

            > POST /session/sess#1 {"stream":"none","messages":[{"role":"user","content":"once more"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#2
            {"messages":[{"content":"Bye","role":"assistant"}],"stopReason":"end_turn"}

            > POST /session/sess#1 {"stream":null,"agent":null,"tools":null,"messages":[{"role":"user","content":"and again"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#3
            {"messages":[{"content":"Bye again","role":"assistant"}],"stopReason":"end_turn"}

        "#]],
    );
}

#[test]
fn thinking_comes_before_text_in_every_mode() {
    let reply = || Reply::new().thinking("Let me ").thinking("see.").text("It is ").text("18°C.").stops();
    script("modes-thinking", [reply(), reply(), reply()]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"stream":"delta","messages":[{"role":"user","content":"play modes-thinking"}]}"#,
            r#"POST /session/sess#1 {"stream":"message","messages":[{"role":"user","content":"again"}]}"#,
            r#"POST /session/sess#1 {"messages":[{"role":"user","content":"again"}]}"#,
            r#"GET /session/sess#1?history=full"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"stream":"delta","messages":[{"role":"user","content":"play modes-thinking"}]}
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
            data: {"delta":"Let me "}

            event: thinking_delta
            id: 4
            data: {"delta":"see."}

            event: text_delta
            id: 5
            data: {"delta":"It is "}

            event: text_delta
            id: 6
            data: {"delta":"18°C."}

            event: turn_stop
            id: 8
            data: {"stopReason":"end_turn"}

            > POST /session/sess#1 {"stream":"message","messages":[{"role":"user","content":"again"}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#2

            event: turn_start
            id: 1
            data: {}

            event: thinking
            id: 7.1
            data: {"thinking":"Let me see."}

            event: text
            id: 7.2
            data: {"text":"It is 18°C."}

            event: turn_stop
            id: 8
            data: {"stopReason":"end_turn"}

            > POST /session/sess#1 {"messages":[{"role":"user","content":"again"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#3
            {
              "messages": [
                {
                  "content": [{"thinking":"Let me see.","type":"thinking"},{"text":"It is 18°C.","type":"text"}],
                  "role": "assistant"
                }
              ],
              "stopReason": "end_turn"
            }

            > GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"scripted","tools":[]},
              "history": {
                "full": [
                  {"content":"play modes-thinking","role":"user"},
                  {
                    "content": [{"thinking":"Let me see.","type":"thinking"},{"text":"It is 18°C.","type":"text"}],
                    "role": "assistant"
                  },
                  {"content":"again","role":"user"},
                  {
                    "content": [{"thinking":"Let me see.","type":"thinking"},{"text":"It is 18°C.","type":"text"}],
                    "role": "assistant"
                  },
                  {"content":"again","role":"user"},
                  {
                    "content": [{"thinking":"Let me see.","type":"thinking"},{"text":"It is 18°C.","type":"text"}],
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
fn a_model_that_thinks_after_it_has_spoken() {
    let reply = || Reply::new().text("First. ").thinking("Hm.").text("Second.").stops();
    script("modes-late-thinking", [reply(), reply(), reply()]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"stream":"message","messages":[{"role":"user","content":"play modes-late-thinking"}]}"#,
            r#"PUT /session {"agent":{"name":"scripted"},"stream":"delta","messages":[{"role":"user","content":"play modes-late-thinking"}]}"#,
            r#"POST /session/sess#1 {"messages":[{"role":"user","content":"again"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"stream":"message","messages":[{"role":"user","content":"play modes-late-thinking"}]}
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
            id: 5.1
            data: {"thinking":"Hm."}

            event: text
            id: 5.2
            data: {"text":"First. Second."}

            event: turn_stop
            id: 6
            data: {"stopReason":"end_turn"}

            > PUT /session {"agent":{"name":"scripted"},"stream":"delta","messages":[{"role":"user","content":"play modes-late-thinking"}]}
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

            event: text_delta
            id: 3
            data: {"delta":"First. "}

            event: text_delta
            id: 4
            data: {"delta":"Second."}

            event: turn_stop
            id: 6
            data: {"stopReason":"end_turn"}

            > POST /session/sess#1 {"messages":[{"role":"user","content":"again"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#3
            {
              "messages": [
                {
                  "content": [{"thinking":"Hm.","type":"thinking"},{"text":"First. Second.","type":"text"}],
                  "role": "assistant"
                }
              ],
              "stopReason": "end_turn"
            }

        "#]],
    );
}

#[test]
fn no_event_for_empty_text() {
    let reply = || Reply::new().thinking("Nothing to say.").text("").stops();
    script("modes-empty", [reply(), Reply::new().text("").stops(), Reply::new().text("").stops()]);
    check(
        &[
            r#"PUT /session {"agent":{"name":"scripted"},"stream":"message","messages":[{"role":"user","content":"play modes-empty"}]}"#,
            r#"POST /session/sess#1 {"stream":"message","messages":[{"role":"user","content":"again"}]}"#,
            r#"POST /session/sess#1 {"messages":[{"role":"user","content":"again"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"scripted"},"stream":"message","messages":[{"role":"user","content":"play modes-empty"}]}
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
            id: 4
            data: {"thinking":"Nothing to say."}

            event: turn_stop
            id: 5
            data: {"stopReason":"end_turn"}

            > POST /session/sess#1 {"stream":"message","messages":[{"role":"user","content":"again"}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#2

            event: turn_start
            id: 1
            data: {}

            event: turn_stop
            id: 4
            data: {"stopReason":"end_turn"}

            > POST /session/sess#1 {"messages":[{"role":"user","content":"again"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#3
            {"messages":[],"stopReason":"end_turn"}

        "#]],
    );
}

/// What the whole stream looks like byte for byte, for a client that knows only the standard.
#[test]
fn streams_are_well_formed() {
    let shared = shared();
    let client = shared.client("acme");
    for mode in ["delta", "message"] {
        let body = json!({
            "agent": { "name": "demo", "tools": [{ "name": "calculator", "trust": true }] },
            "stream": mode,
            "messages": [{ "role": "user", "content": "think: what is 12*7?" }],
        });
        let answer = client.send("PUT", "/session", &body.to_string());
        assert_eq!(answer.header("content-type"), "text/event-stream");
        assert_eq!(answer.header("cache-control"), "no-cache");
        assert!(!answer.header("x-session-id").is_empty() && !answer.header("x-message-id").is_empty());
        let frames: Vec<&str> = answer.body.split_terminator("\n\n").collect();
        assert!(answer.body.ends_with("\n\n"), "the last frame has its blank line");
        let mut names = Vec::new();
        let mut last = (0, 0);
        for frame in frames {
            let lines: Vec<_> = frame.lines().collect();
            let [event, id, data] = lines[..] else { panic!("not three lines: {frame}") };
            names.push(event.strip_prefix("event: ").unwrap());
            let (seq, part) = id.strip_prefix("id: ").unwrap().split_once('.').unwrap_or((&id[4..], "0"));
            let cursor: (u64, u64) = (seq.parse().unwrap(), part.parse().unwrap());
            assert!(cursor > last, "ids ascend: {cursor:?} after {last:?}");
            last = cursor;
            let data: serde_json::Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert!(data.is_object());
        }
        assert_eq!(names[..2], ["session_start", "turn_start"]);
        assert_eq!(names.iter().filter(|name| **name == "turn_stop").count(), 1);
        assert_eq!(names.last(), Some(&"turn_stop"));
        let place = |name: &str| names.iter().position(|n| n.starts_with(name)).unwrap();
        assert!(place("thinking") < place("text") && place("text") < place("tool_call"));
        assert!(place("tool_call") < place("tool_result"));
    }
}
