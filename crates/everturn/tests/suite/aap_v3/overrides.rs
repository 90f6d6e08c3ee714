//! What a turn changes about its session stays changed: in the next turn, for those who look, and after a restart.

use expect_test::expect;
use serde_json::{Value, json};

use super::application::Application;
use crate::suite::harness::{Home, Reply, asked, check, key, script, shared_config};

fn names(told: &Value) -> Vec<&str> {
    let tools = told["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

fn system(told: &Value) -> &str {
    told["messages"][0]["content"].as_str().unwrap()
}

#[test]
fn they_last() {
    let keys = format!("[[keys]]\nkey = '{}'\ntenant = 'acme'\nscopes = ['chat']\n", key("acme"));
    let home = Home::new(&(shared_config("") + &keys));
    let mut server = home.start();
    let replies = ["One.", "Two.", "Three.", "Four.", "Five."].map(|text| Reply::says(&[text]));
    script("v3-overrides", replies);
    let client = |server: &crate::suite::harness::Server| server.client().with_key(&key("acme"));
    let tide = json!({ "name": "get_tide", "title": "Tides", "description": "", "parameters": { "type": "object" } });
    let mut application = Application::start_at(
        client(&server),
        &json!({ "agent": { "name": "scripted", "tools": [{ "name": "clock", "trust": true }] } }),
    );
    let user = |text: &str| json!([{ "role": "user", "content": text }]);
    application.turn("delta", &json!({}), &user("play v3-overrides"));
    let options = json!({ "nickname": "Ann", "token": "hush" });
    let settings = json!({ "agent": { "tools": [{ "name": "calculator" }], "options": options }, "tools": [tide] });
    application.turn("message", &settings, &user("changed"));
    application.turn("none", &json!({ "agent": { "options": { "language": "Japanese" } } }), &user("merged"));
    let after = json!({
        "sessionId": application.session,
        "agent": {
            "name": "scripted",
            "tools": [{ "name": "calculator", "trust": false }],
            "options": { "language": "Japanese", "nickname": "Ann", "token": "***" },
        },
        "tools": [tide],
    });
    assert_eq!(application.shown(), after);
    server.kill();
    let server = home.start();
    let mut application = application.moved_to(client(&server));
    assert_eq!(application.shown(), after);
    application.turn("delta", &json!({}), &user("after a restart"));
    let back = json!({ "agent": { "tools": [], "options": { "language": "English", "token": "***" } }, "tools": [] });
    application.turn("delta", &back, &user("taken back"));
    let told = asked("v3-overrides");
    let told: Vec<_> = told.iter().map(|told| (names(told), system(told))).collect();
    let (both, in_japanese) = (vec!["calculator", "get_tide"], "Answer Ann in Japanese.");
    assert_eq!(
        told,
        [
            (vec!["clock"], "Answer friend in English."),
            (both.clone(), "Answer Ann in English."),
            (both.clone(), in_japanese),
            (both, in_japanese),
            (vec![], "Answer Ann in English."),
        ]
    );
}

#[test]
fn what_cannot_be_set() {
    check(
        &[
            r#"POST /aap/v3/sessions {"agent":{"name":"demo","tools":[{"name":"clock"}]},"tools":[{"name":"clock","description":"","parameters":{}}]}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"demo","options":{"language":"Latin"}}}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"demo","options":{"mood":"good"}}}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"demo","tools":[{"name":"rm_rf"}]}}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"plain"},"tools":[$tide]}"#,
            // The word of version 1.
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"},"tools":[$weather]}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"},"tools":[$tide]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"agent":{"name":"scripted"},"messages":[{"role":"user","content":"stream 1"}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"agent":{"options":{"language":"Latin"}},"messages":[{"role":"user","content":"stream 1"}]}"#,
            "GET /aap/v3/sessions/sess#1/history?type=full",
        ],
        expect![[r#"
            > POST /aap/v3/sessions {"agent":{"name":"demo","tools":[{"name":"clock"}]},"tools":[{"name":"clock","description":"","parameters":{}}]}
            400
            content-type: application/json
            {"error":"there are two tools named \"clock\"; tool names must be unique across application and server tools"}

            > POST /aap/v3/sessions {"agent":{"name":"demo","options":{"language":"Latin"}}}
            400
            content-type: application/json
            {"error":"option \"language\" cannot be \"Latin\"; choose one of: English, Japanese"}

            > POST /aap/v3/sessions {"agent":{"name":"demo","options":{"mood":"good"}}}
            400
            content-type: application/json
            {"error":"agent \"demo\" has no option \"mood\"; it has: language, nickname, token"}

            > POST /aap/v3/sessions {"agent":{"name":"demo","tools":[{"name":"rm_rf"}]}}
            400
            content-type: application/json
            {"error":"agent \"demo\" has no tool \"rm_rf\"; it has: clock, calculator"}

            > POST /aap/v3/sessions {"agent":{"name":"plain"},"tools":[$tide]}
            400
            content-type: application/json
            {"error":"agent \"plain\" takes no application tools (it does not declare capabilities.application.tools)"}

            > POST /aap/v3/sessions {"agent":{"name":"demo"},"tools":[$weather]}
            400
            content-type: application/json
            {"error":"the body is not valid at tools[0]: missing field `parameters` at line 1 column 190"}

            > POST /aap/v3/sessions {"agent":{"name":"demo"},"tools":[$tide]}
            201
            content-type: application/json
            x-session-id: sess#1
            {"sessionId":"sess#1"}

            > POST /aap/v3/sessions/sess#1/turns {"agent":{"name":"scripted"},"messages":[{"role":"user","content":"stream 1"}]}
            400
            content-type: application/json
            {"error":"the agent of a session cannot be changed (it is \"demo\", not \"scripted\")"}

            > POST /aap/v3/sessions/sess#1/turns {"agent":{"options":{"language":"Latin"}},"messages":[{"role":"user","content":"stream 1"}]}
            400
            content-type: application/json
            {"error":"option \"language\" cannot be \"Latin\"; choose one of: English, Japanese"}

            > GET /aap/v3/sessions/sess#1/history?type=full
            200
            content-type: application/json
            {"history":{"full":[]}}

        "#]],
    );
}
