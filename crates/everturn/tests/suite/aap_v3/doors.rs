//! A session from its creation to its end.

use expect_test::expect;

use super::{application::BASE, shape};
use crate::suite::harness::{check, shared};

#[test]
fn a_session_is_made_shown_and_deleted_and_nothing_runs_by_itself() {
    check(
        &[
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"}}"#,
            "GET /aap/v3/sessions/sess#1",
            "GET /aap/v3/sessions/sess#1/history?type=full",
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"user","content":"stream 2"}]}"#,
            "GET /aap/v3/sessions/sess#1/history?type=full",
            "DELETE /aap/v3/sessions/sess#1",
            "DELETE /aap/v3/sessions/sess#1",
            "GET /aap/v3/sessions/sess#1",
            "GET /aap/v3/sessions/sess#1/history?type=full",
            r#"POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"user","content":"stream 2"}]}"#,
        ],
        expect![[r#"
            > POST /aap/v3/sessions {"agent":{"name":"demo"}}
            201
            content-type: application/json
            x-session-id: sess#1
            {"sessionId":"sess#1"}

            > GET /aap/v3/sessions/sess#1
            200
            content-type: application/json
            {"agent":{"name":"demo","tools":[]},"sessionId":"sess#1"}

            > GET /aap/v3/sessions/sess#1/history?type=full
            200
            content-type: application/json
            {"history":{"full":[]}}

            > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"user","content":"stream 2"}]}
            200
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"messages":[{"content":"word 1 word 2 ","role":"assistant"}],"stopReason":"end_turn"}

            > GET /aap/v3/sessions/sess#1/history?type=full
            200
            content-type: application/json
            {"history":{"full":[{"content":"stream 2","role":"user"},{"content":"word 1 word 2 ","role":"assistant"}]}}

            > DELETE /aap/v3/sessions/sess#1
            204

            > DELETE /aap/v3/sessions/sess#1
            404
            content-type: application/json
            {"error":"there is no session \"sess#1\"; GET /sessions lists yours"}

            > GET /aap/v3/sessions/sess#1
            404
            content-type: application/json
            {"error":"there is no session \"sess#1\"; GET /sessions lists yours"}

            > GET /aap/v3/sessions/sess#1/history?type=full
            404
            content-type: application/json
            {"error":"there is no session \"sess#1\"; GET /sessions lists yours"}

            > POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"user","content":"stream 2"}]}
            404
            content-type: application/json
            {"error":"there is no session \"sess#1\"; GET /sessions lists yours"}

        "#]],
    );
}

#[test]
fn all_that_a_session_can_be_given() {
    check(
        &[
            r#"POST /aap/v3/sessions {"agent":{"name":"demo","tools":[{"name":"clock","trust":true},{"name":"calculator"}],"options":{"language":"Japanese","token":"hush"}},"messages":[{"role":"system","content":"Be brief."}],"tools":[$tide]}"#,
            "GET /aap/v3/sessions/sess#1",
        ],
        expect![[r#"
            > POST /aap/v3/sessions {"agent":{"name":"demo","tools":[{"name":"clock","trust":true},{"name":"calculator"}],"options":{"language":"Japanese","token":"hush"}},"messages":[{"role":"system","content":"Be brief."}],"tools":[$tide]}
            201
            content-type: application/json
            x-session-id: sess#1
            {"sessionId":"sess#1"}

            > GET /aap/v3/sessions/sess#1
            200
            content-type: application/json
            {
              "agent": {
                "name": "demo",
                "options": {"language":"Japanese","token":"***"},
                "tools": [{"name":"clock","trust":true},{"name":"calculator","trust":false}]
              },
              "sessionId": "sess#1",
              "tools": [{"description":"Tells the tide","name":"get_tide","parameters":{"required":["port"],"type":"object"}}]
            }

        "#]],
    );
}

/// As strict clients want it: the number 3, and nothing in it that the protocol does not know.
#[test]
fn meta_is_open_and_says_three() {
    let shared = shared();
    let (third, first) = (shared.server.client(), shared.server.client());
    let meta = third.send("GET", &format!("{BASE}/meta"), "").json();
    shape::meta(&meta);
    assert!(meta.to_string().contains(r#""version":3"#));
    let mut first = first.send("GET", "/aap/v1/meta", "").json();
    first["version"] = 3.into();
    let renamed = first.to_string().replace(r#""inputSchema":"#, r#""parameters":"#);
    let renamed: serde_json::Value = serde_json::from_str(&renamed).unwrap();
    assert_eq!(meta, renamed, "the versions differ in these words only");
}

#[test]
fn other_doors_are_not_there() {
    check(
        &[
            "GET /aap/v3",
            "GET /aap/v3/nothing",
            r#"PUT /aap/v3/session {"agent":{"name":"demo"},"messages":[{"role":"user","content":"hi"}]}"#,
            r#"PUT /aap/v3/sessions {"agent":{"name":"demo"}}"#,
            "POST /aap/v3/sessions/sess_x {}",
            "GET /aap/v3/sessions/sess_x/turns",
            "POST /aap/v3/meta {}",
        ],
        expect![[r#"
            > GET /aap/v3
            404
            content-type: application/json
            {"error":"there is nothing here; GET /meta tells what this server offers"}

            > GET /aap/v3/nothing
            404
            content-type: application/json
            {"error":"there is nothing here; GET /meta tells what this server offers"}

            > PUT /aap/v3/session {"agent":{"name":"demo"},"messages":[{"role":"user","content":"hi"}]}
            404
            content-type: application/json
            {"error":"there is nothing here; GET /meta tells what this server offers"}

            > PUT /aap/v3/sessions {"agent":{"name":"demo"}}
            405
            allow: GET,HEAD,POST
            content-type: application/json
            {"error":"this path does not take that method"}

            > POST /aap/v3/sessions/sess_x {}
            405
            allow: GET,HEAD,DELETE
            content-type: application/json
            {"error":"this path does not take that method"}

            > GET /aap/v3/sessions/sess_x/turns
            405
            allow: POST
            content-type: application/json
            {"error":"this path does not take that method"}

            > POST /aap/v3/meta {}
            405
            allow: GET,HEAD
            content-type: application/json
            {"error":"this path does not take that method"}

        "#]],
    );
}
