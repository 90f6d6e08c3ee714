//! `GET /sessions/:id/history`.

use expect_test::expect;

use crate::suite::harness::check;

#[test]
fn one_kind_at_a_time() {
    check(
        &[
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}"#,
            "GET /aap/v3/sessions/sess#1/history?type=full",
            "GET /aap/v3/sessions/sess#1/history?type=compacted",
            "GET /aap/v3/sessions/sess#1/history",
            "GET /aap/v3/sessions/sess#1/history?type=",
            "GET /aap/v3/sessions/sess#1/history?type=everything",
            "GET /aap/v3/sessions/sess#1/history?history=full",
            "GET /aap/v3/sessions/sess_no/history?type=full",
        ],
        expect![[r#"
            > POST /aap/v3/sessions {"agent":{"name":"demo"},"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            {"sessionId":"sess#1"}

            > GET /aap/v3/sessions/sess#1/history?type=full
            200
            content-type: application/json
            {"history":{"full":[{"content":"hi","role":"user"},{"content":"hello","role":"assistant"}]}}

            > GET /aap/v3/sessions/sess#1/history?type=compacted
            200
            content-type: application/json
            {"history":{"compacted":[{"content":"hi","role":"user"},{"content":"hello","role":"assistant"}]}}

            > GET /aap/v3/sessions/sess#1/history
            400
            content-type: application/json
            {"error":"type is missing; use compacted or full"}

            > GET /aap/v3/sessions/sess#1/history?type=
            400
            content-type: application/json
            {"error":"type=\"\" is not known; use compacted or full"}

            > GET /aap/v3/sessions/sess#1/history?type=everything
            400
            content-type: application/json
            {"error":"type=\"everything\" is not known; use compacted or full"}

            > GET /aap/v3/sessions/sess#1/history?history=full
            400
            content-type: application/json
            {"error":"type is missing; use compacted or full"}

            > GET /aap/v3/sessions/sess_no/history?type=full
            404
            content-type: application/json
            {"error":"there is no session \"sess_no\"; GET /sessions lists yours"}

        "#]],
    );
}

#[test]
fn a_kind_that_the_agent_does_not_declare_is_not_there() {
    check(
        &[
            r#"POST /aap/v3/sessions {"agent":{"name":"plain"}}"#,
            "GET /aap/v3/sessions/sess#1/history?type=full",
            "GET /aap/v3/sessions/sess#1/history?type=compacted",
            "GET /aap/v3/sessions/sess#1/history?type=none",
        ],
        expect![[r#"
            > POST /aap/v3/sessions {"agent":{"name":"plain"}}
            201
            content-type: application/json
            x-session-id: sess#1
            {"sessionId":"sess#1"}

            > GET /aap/v3/sessions/sess#1/history?type=full
            200
            content-type: application/json
            {"history":{"full":[]}}

            > GET /aap/v3/sessions/sess#1/history?type=compacted
            404
            content-type: application/json
            {"error":"the session's agent does not offer this kind of history; GET /meta tells which it offers"}

            > GET /aap/v3/sessions/sess#1/history?type=none
            400
            content-type: application/json
            {"error":"type=\"none\" is not known; use compacted or full"}

        "#]],
    );
}
