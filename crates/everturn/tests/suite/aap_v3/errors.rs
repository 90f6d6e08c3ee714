//! What is refused, in which words, and that it changes nothing.

use expect_test::expect;

use super::application::BASE;
use crate::suite::harness::{Gate, Reply, Talk, check, script, shared};

#[test]
fn new_sessions() {
    check(
        &[
            r#"POST /aap/v3/sessions {"agent":{"name":"nobody"}}"#,
            r#"POST /aap/v3/sessions {"agent":{}}"#,
            r#"POST /aap/v3/sessions {}"#,
            r#"POST /aap/v3/sessions []"#,
            r#"POST /aap/v3/sessions {"agent":"demo"}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"},"tools":[{"name":"a b","description":"","parameters":{}}]}"#,
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"},"tools":[{"name":"f","description":"","parameters":{"type":7}}]}"#,
        ],
        expect![[""]],
    );
}

#[test]
fn turns() {
    check(
        &[
            r#"POST /aap/v3/sessions {"agent":{"name":"demo","tools":[{"name":"clock"}]},"tools":[$tide]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"user","content":""}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"system","content":"x"}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"stream":"fast","messages":[{"role":"user","content":"hi"}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool","toolCallId":"c","content":"x"}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"stream":"message","messages":[{"role":"user","content":"use clock and get_tide {\"port\":\"Oslo\"}"}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool","toolCallId":"call#2","content":"low"}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool","toolCallId":"call#1","content":"now"},{"role":"tool","toolCallId":"call#2","content":"low"}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true},{"role":"tool_permission","toolCallId":"call#2","granted":true}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool_permission","toolCallId":"call#1"},{"role":"tool","toolCallId":"call#2","content":"low"}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true},{"role":"tool","toolCallId":"call#2","content":"low"}]}"#,
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true},{"role":"tool","toolCallId":"call#2","content":"low"}]}"#,
        ],
        expect![[""]],
    );
}

#[test]
fn a_second_turn_while_one_runs() {
    let shared = shared();
    let mut talk = Talk::new(shared.client("acme"));
    let gate = Gate::default();
    script("v3-busy", [Reply::new().text("Wait").hold(&gate).text(" for it.").stops()]);
    let made = talk.send(r#"POST /aap/v3/sessions {"agent":{"name":"scripted"}}"#).json();
    let path = format!("{BASE}/sessions/{}/turns", made["sessionId"].as_str().unwrap());
    let client = shared.client("acme");
    let body = r#"{"stream":"delta","messages":[{"role":"user","content":"play v3-busy"}]}"#;
    let mut stream = client.open("POST", &path, body);
    stream.until("Wait");
    talk.send(r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"user","content":"and?"}]}"#);
    gate.open();
    stream.until("turn_stop");
    talk.send("GET /aap/v3/sessions/sess#1/history?type=full");
    talk.check(expect![[""]]);
}
