//! The history that a session may begin with. Here it may end with anything: what runs comes later.

use expect_test::expect;
use serde_json::{Value, json};

use super::application::Application;
use crate::suite::harness::{Reply, asked, check, script};

/// What the model was told, a message a line.
fn lines(request: &Value) -> String {
    request["messages"].as_array().unwrap().iter().map(|message| format!("{message}\n")).collect()
}

#[test]
fn a_seed_is_kept_as_it_is_and_given_to_the_model() {
    script("v3-seed", [Reply::says(&["Yes."])]);
    let seed = json!([
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": "What is 6*7?" },
        { "role": "assistant", "content": [
            { "type": "thinking", "thinking": "Easy." },
            { "type": "text", "text": "I calculate." },
            { "type": "tool_use", "toolCallId": "call_001", "name": "calculator", "input": { "expression": "6*7" } },
        ] },
        { "role": "tool", "toolCallId": "call_001", "content": "42" },
        { "role": "assistant", "content": "42." },
    ]);
    let mut application = Application::start(&json!({ "agent": { "name": "scripted" }, "messages": seed }));
    assert_eq!(json!(application.history("full")), seed, "before anything runs");
    assert_eq!(json!(application.history("compacted")), seed);
    assert_eq!(application.say("delta", "Sure? play v3-seed").text(), "Yes.");
    expect![[""]].assert_eq(&lines(&asked("v3-seed")[0]));
}

#[test]
fn dangling_calls_are_closed_before_the_model_sees_them() {
    script("v3-dangling", [Reply::says(&["Yes."])]);
    check(
        &[
            r#"POST /aap/v3/sessions {"agent":{"name":"scripted"},"tools":[$tide],"messages":[{"role":"user","content":"Tides?"},{"role":"assistant","content":[{"type":"tool_use","toolCallId":"c1","name":"get_tide","input":{"port":"Oslo"}},{"type":"tool_use","toolCallId":"c2","name":"get_tide","input":{"port":"Brest"}}]},{"role":"tool","toolCallId":"c2","content":"low"},{"role":"tool","toolCallId":"c9","content":"stray"}]}"#,
            // They are history, not waiting.
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool","toolCallId":"c1","content":"high"}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool","toolCallId":"c2","content":"high"}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"user","content":"play v3-dangling"}]}"#,
            "GET /aap/v3/sessions/sess#1/history?type=full",
        ],
        expect![[""]],
    );
    expect![[""]].assert_eq(&lines(&asked("v3-dangling")[0]));
}

#[test]
fn a_seed_may_end_with_the_user_or_be_nothing() {
    script("v3-seed-user", [Reply::says(&["Tea."])]);
    check(
        &[
            r#"POST /aap/v3/sessions {"agent":{"name":"scripted"},"messages":[{"role":"user","content":"I like tea."}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"user","content":"What do I like? play v3-seed-user"}]}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":[]}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":null,"tools":null}"#,
            "GET /aap/v3/sessions/sess#3/history?type=full",
        ],
        expect![[""]],
    );
    expect![[""]].assert_eq(&lines(&asked("v3-seed-user")[0]));
}

#[test]
fn seeds_that_are_refused() {
    check(
        &[
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":[{"role":"tool_permission","toolCallId":"c1","granted":true}]}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":[{"role":"boss","content":"hi"}]}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":[{"role":"user"}]}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":{"role":"user","content":"hi"}}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"plain"},"messages":[{"role":"user","content":[{"type":"image","url":"https://example.com/a.png"}]}]}"#,
        ],
        expect![[""]],
    );
}
