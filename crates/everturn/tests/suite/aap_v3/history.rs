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
        expect![[""]],
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
        expect![[""]],
    );
}
