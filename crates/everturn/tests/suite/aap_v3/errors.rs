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
        expect![[r#"
            > POST /aap/v3/sessions {"agent":{"name":"nobody"}}
            400
            content-type: application/json
            {"error":"there is no agent \"nobody\"; there are: demo, scripted, short, small, lines, hasty, plain"}

            > POST /aap/v3/sessions {"agent":{}}
            400
            content-type: application/json
            {"error":"agent.name is missing"}

            > POST /aap/v3/sessions {}
            400
            content-type: application/json
            {"error":"the body is not valid: missing field `agent` at line 1 column 2"}

            > POST /aap/v3/sessions []
            400
            content-type: application/json
            {"error":"the body is not valid: invalid type: sequence, expected an object at line 1 column 0"}

            > POST /aap/v3/sessions {"agent":"demo"}
            400
            content-type: application/json
            {
              "error": "the body is not valid at agent: invalid type: string \"demo\", expected an object at line 1 column 15"
            }

            > POST /aap/v3/sessions {"agent":{"name":"demo"}
            400
            content-type: application/json
            {"error":"the body is not valid: EOF while parsing an object at line 1 column 24"}

            > POST /aap/v3/sessions {"agent":{"name":"demo"},"tools":[{"name":"a b","description":"","parameters":{}}]}
            400
            content-type: application/json
            {"error":"\"a b\" cannot be a tool's name: it must have 1 to 64 characters of A-Z a-z 0-9 _ -"}

            > POST /aap/v3/sessions {"agent":{"name":"demo"},"tools":[{"name":"f","description":"","parameters":{"type":7}}]}
            400
            content-type: application/json
            {
              "error": "the input schema of tool \"f\" cannot be used: the schema must be a JSON object that describes an object: {\"type\": \"object\", …}"
            }

        "#]],
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
        expect![[r#"
            > POST /aap/v3/sessions {"agent":{"name":"demo","tools":[{"name":"clock"}]},"tools":[$tide]}
            201
            content-type: application/json
            x-session-id: sess#1
            {"sessionId":"sess#1"}

            > POST /aap/v3/sessions/sess#1/turns {}
            400
            content-type: application/json
            {"error":"the body is not valid: missing field `messages` at line 1 column 2"}

            > POST /aap/v3/sessions/sess#1/turns {"messages":[]}
            400
            content-type: application/json
            {"error":"send either one user message, or a list of tool results and tool permissions"}

            > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"user","content":""}]}
            400
            content-type: application/json
            {"error":"the user message is empty; send a text, or blocks with at least one text or image"}

            > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"system","content":"x"}]}
            400
            content-type: application/json
            {
              "error": "messages[0]: role \"system\" cannot be submitted to a session; send either one user message, or a list of tool results and tool permissions"
            }

            > POST /aap/v3/sessions/sess#1/turns {"stream":"fast","messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"stream cannot be \"fast\"; use \"delta\", \"message\" or \"none\""}

            > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool","toolCallId":"c","content":"x"}]}
            400
            content-type: application/json
            {"error":"no tool call c waits for an answer in this session"}

            > POST /aap/v3/sessions/sess#1/turns {"stream":"message","messages":[{"role":"user","content":"use clock and get_tide {\"port\":\"Oslo\"}"}]}
            200
            content-type: text/event-stream
            x-session-id: sess#1
            x-message-id: turn#1

            event: turn_start
            id: 1
            data: {}

            event: text
            id: 14.1
            data: {"text":"I call `clock` and `get_tide` at the same time."}

            event: tool_call
            id: 14.2
            data: {"toolCallId":"call#1","name":"clock","input":{}}

            event: tool_call
            id: 14.3
            data: {"toolCallId":"call#2","name":"get_tide","input":{"port":"Oslo"}}

            event: turn_stop
            id: 16
            data: {"stopReason":"tool_use"}

            > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool","toolCallId":"call#2","content":"low"}]}
            400
            content-type: application/json
            {"error":"every waiting tool call must be answered in one submission; missing: call#1"}

            > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool","toolCallId":"call#1","content":"now"},{"role":"tool","toolCallId":"call#2","content":"low"}]}
            400
            content-type: application/json
            {"error":"tool call call#1 (clock) runs on the server: send a tool_permission for it, not a result"}

            > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true},{"role":"tool_permission","toolCallId":"call#2","granted":true}]}
            400
            content-type: application/json
            {"error":"tool call call#2 (get_tide) runs in the application: send its result, not a permission"}

            > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool_permission","toolCallId":"call#1"},{"role":"tool","toolCallId":"call#2","content":"low"}]}
            400
            content-type: application/json
            {"error":"messages[0]: granted is missing; send true or false"}

            > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true},{"role":"tool","toolCallId":"call#2","content":"low"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [
                {"content":"<now>","role":"tool","toolCallId":"call#1"},
                {"content":"`clock` says “<now>”.\n`get_tide` says “low”.","role":"assistant"}
              ],
              "stopReason": "end_turn"
            }

            > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"tool_permission","toolCallId":"call#1","granted":true},{"role":"tool","toolCallId":"call#2","content":"low"}]}
            409
            content-type: application/json
            {"error":"tool call call#1 was answered before; an answer counts once"}

        "#]],
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
    talk.check(expect![[r#"
        > POST /aap/v3/sessions {"agent":{"name":"scripted"}}
        201
        content-type: application/json
        x-session-id: sess#1
        {"sessionId":"sess#1"}

        > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"user","content":"and?"}]}
        409
        content-type: application/json
        {"error":"a turn is running in this session; wait until it ends, then send this again"}

        > GET /aap/v3/sessions/sess#1/history?type=full
        200
        content-type: application/json
        {"history":{"full":[{"content":"play v3-busy","role":"user"},{"content":"Wait for it.","role":"assistant"}]}}

    "#]]);
}
