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
        expect![[""]],
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
