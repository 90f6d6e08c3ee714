//! The three ways to get an answer.

use expect_test::expect;
use serde_json::json;

use super::application::{Application, MODES};
use crate::suite::harness::{Reply, check, script};

#[test]
fn on_the_wire() {
    script("v3-wire", ["One.", "Two.", "Three."].map(|text| Reply::new().thinking("Hm.").text(text).stops()));
    check(
        &[
            r#"POST /aap/v3/sessions {"agent":{"name":"scripted"}}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"stream":"delta","messages":[{"role":"user","content":"play v3-wire"}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"stream":"message","messages":[{"role":"user","content":"once more"}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"stream":null,"messages":[{"role":"user","content":"and again"}]}"#,
        ],
        expect![[r#"
            > POST /aap/v3/sessions {"agent":{"name":"scripted"}}
            201
            content-type: application/json
            x-session-id: sess#1
            {"sessionId":"sess#1"}

            > POST /aap/v3/sessions/sess#1/turns {"stream":"delta","messages":[{"role":"user","content":"play v3-wire"}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            event: turn_start
            id: 1
            data: {}

            event: thinking_delta
            id: 3
            data: {"delta":"Hm."}

            event: text_delta
            id: 4
            data: {"delta":"One."}

            event: turn_stop
            id: 6
            data: {"stopReason":"end_turn"}

            > POST /aap/v3/sessions/sess#1/turns {"stream":"message","messages":[{"role":"user","content":"once more"}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#2

            event: turn_start
            id: 1
            data: {}

            event: thinking
            id: 5.1
            data: {"thinking":"Hm."}

            event: text
            id: 5.2
            data: {"text":"Two."}

            event: turn_stop
            id: 6
            data: {"stopReason":"end_turn"}

            > POST /aap/v3/sessions/sess#1/turns {"stream":null,"messages":[{"role":"user","content":"and again"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#3
            {
              "messages": [{"content":[{"thinking":"Hm.","type":"thinking"},{"text":"Three.","type":"text"}],"role":"assistant"}],
              "stopReason": "end_turn"
            }

        "#]],
    );
}

#[test]
fn every_way_tells_the_same() {
    for mode in MODES {
        let name = format!("v3-same-{mode}");
        script(
            &name,
            [
                Reply::new().thinking("The sky…").thinking(" is blue.").text("Because ").text("of the air.").stops(),
                Reply::says(&["Bye\nbye “”"]),
            ],
        );
        let mut application = Application::start(&json!({ "agent": { "name": "scripted" } }));
        let first = application.say(mode, &format!("why? play {name}"));
        let said = json!([
            { "type": "thinking", "thinking": "The sky… is blue." },
            { "type": "text", "text": "Because of the air." },
        ]);
        assert_eq!((first.stop.as_str(), &first.messages[0]["content"]), ("end_turn", &said));
        let second = application.say(mode, "once more");
        assert_eq!((second.stop.as_str(), second.text().as_str()), ("end_turn", "Bye\nbye “”"));
        assert_eq!(application.history("full").len(), 4);
        assert_eq!(application.history("compacted"), application.history("full"));
    }
}

#[test]
fn other_ends_of_a_turn() {
    for mode in MODES {
        let mut application = Application::start(&json!({ "agent": { "name": "demo" } }));
        let ends: Vec<_> = ["refuse", "max tokens", "fail"].map(|text| application.say(mode, text).stop).into();
        assert_eq!(ends, ["refusal", "max_tokens", "error"]);
        assert_eq!(application.say(mode, "stream 1").stop, "end_turn", "the session goes on");
    }
}
