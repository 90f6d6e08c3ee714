//! The list of sessions, and deleting them.

use expect_test::expect;

use crate::suite::harness::{Talk, check, shared};

/// More sessions than fit on a page.
#[test]
fn pages_newest_first_without_gap_or_repeat() {
    const COUNT: usize = 230;
    let shared = shared();
    let client = shared.client("pager");
    let body = r#"{"agent":{"name":"demo"},"messages":[{"role":"user","content":"stream 1"}]}"#;
    let mut made: Vec<String> = (0..COUNT)
        .map(|_| client.send("PUT", "/session", body).json()["sessionId"].as_str().unwrap().to_owned())
        .collect();
    made.reverse();
    let mut listed: Vec<String> = Vec::new();
    let mut sizes = Vec::new();
    let mut after = String::new();
    loop {
        let page = client.send("GET", &format!("/sessions{after}"), "").json();
        let sessions = page["sessions"].as_array().unwrap();
        sizes.push(sessions.len());
        listed.extend(sessions.iter().map(|id| id.as_str().unwrap().to_owned()));
        let Some(next) = page.get("next") else { break };
        after = format!("?after={}", next.as_str().unwrap());
        // A cursor that names a deleted session still works.
        let last = listed.last().unwrap();
        assert_eq!(client.send("DELETE", &format!("/session/{last}"), "").status, 204);
    }
    assert_eq!(sizes, [100, 100, 30]);
    assert_eq!(listed, made);
    // Two are gone.
    let first = client.send("GET", "/sessions", "").json();
    assert!(!first.to_string().contains(&made[99]));
}

#[test]
fn nobody_has_no_sessions_but_an_empty_page() {
    let shared = shared();
    let mut talk = Talk::new(shared.client("acme"));
    talk.send("@bob GET /sessions");
    // Clients that keep the cursor in a variable send it before they have one.
    talk.send("@bob GET /sessions?after=");
    talk.check(expect![[r#"
        > @bob GET /sessions
        200
        content-type: application/json
        {"sessions":[]}

        > @bob GET /sessions?after=
        200
        content-type: application/json
        {"sessions":[]}

    "#]]);
}

#[test]
fn cursors_that_are_none() {
    check(
        &["GET /sessions?after=nonsense", "GET /sessions?after=p", "GET /sessions?after=%FF"],
        expect![[r#"
            > GET /sessions?after=nonsense
            400
            content-type: application/json
            {"error":"after=\"nonsense\" is not a cursor of this server; use `next` of the page before"}

            > GET /sessions?after=p
            400
            content-type: application/json
            {"error":"after=\"p\" is not a cursor of this server; use `next` of the page before"}

            > GET /sessions?after=%FF
            400
            content-type: application/json
            {"error":"after=\"�\" is not a cursor of this server; use `next` of the page before"}

        "#]],
    );
}

#[test]
fn a_deleted_session_is_gone() {
    check(
        &[
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":"stream 1"}]}"#,
            r#"DELETE /session/sess#1"#,
            r#"GET /session/sess#1"#,
            r#"POST /session/sess#1 {"messages":[{"role":"user","content":"hi"}]}"#,
            r#"DELETE /session/sess#1"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":"stream 1"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"messages":[{"content":"word 1 ","role":"assistant"}],"sessionId":"sess#1","stopReason":"end_turn"}

            > DELETE /session/sess#1
            204

            > GET /session/sess#1
            404
            content-type: application/json
            {"error":"there is no session \"sess#1\"; GET /sessions lists yours"}

            > POST /session/sess#1 {"messages":[{"role":"user","content":"hi"}]}
            404
            content-type: application/json
            {"error":"there is no session \"sess#1\"; GET /sessions lists yours"}

            > DELETE /session/sess#1
            404
            content-type: application/json
            {"error":"there is no session \"sess#1\"; GET /sessions lists yours"}

        "#]],
    );
}
