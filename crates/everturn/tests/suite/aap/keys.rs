//! Keys: tenants, scopes, and those who have none.

use expect_test::expect;

use crate::suite::harness::{check, shared};

#[test]
fn without_a_key_or_with_a_wrong_one() {
    check(
        &[
            "@nobody GET /sessions",
            r#"@nobody PUT /session {"agent":{"name":"demo"},"messages":[]}"#,
            "@nobody GET /session/x",
            r#"@nobody POST /session/x {"messages":[]}"#,
            "@nobody DELETE /session/x",
            "@stranger GET /sessions",
        ],
        expect![[r#"
            > @nobody GET /sessions
            401
            content-type: application/json
            www-authenticate: Bearer
            {"error":"this server wants a key: send the header Authorization: Bearer <key>"}

            > @nobody PUT /session {"agent":{"name":"demo"},"messages":[]}
            401
            content-type: application/json
            www-authenticate: Bearer
            {"error":"this server wants a key: send the header Authorization: Bearer <key>"}

            > @nobody GET /session/x
            401
            content-type: application/json
            www-authenticate: Bearer
            {"error":"this server wants a key: send the header Authorization: Bearer <key>"}

            > @nobody POST /session/x {"messages":[]}
            401
            content-type: application/json
            www-authenticate: Bearer
            {"error":"this server wants a key: send the header Authorization: Bearer <key>"}

            > @nobody DELETE /session/x
            401
            content-type: application/json
            www-authenticate: Bearer
            {"error":"this server wants a key: send the header Authorization: Bearer <key>"}

            > @stranger GET /sessions
            401
            content-type: application/json
            www-authenticate: Bearer
            {"error":"the key is not valid on this server"}

        "#]],
    );
}

#[test]
fn scopes() {
    check(
        &[
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":"stream 1"}]}"#,
            "@acme-reader GET /session/sess#1?history=full",
            r#"@acme-reader PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":"hi"}]}"#,
            r#"@acme-reader POST /session/sess#1 {"messages":[{"role":"user","content":"hi"}]}"#,
            "@acme-reader DELETE /session/sess#1",
            "@acme-admin DELETE /session/sess#1",
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":"stream 1"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"messages":[{"content":"word 1 ","role":"assistant"}],"sessionId":"sess#1","stopReason":"end_turn"}

            > @acme-reader GET /session/sess#1?history=full
            200
            content-type: application/json
            {
              "agent": {"name":"demo","tools":[]},
              "history": {"full":[{"content":"stream 1","role":"user"},{"content":"word 1 ","role":"assistant"}]},
              "sessionId": "sess#1"
            }

            > @acme-reader PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":"hi"}]}
            403
            content-type: application/json
            {"error":"the key does not allow this; it needs the scope chat"}

            > @acme-reader POST /session/sess#1 {"messages":[{"role":"user","content":"hi"}]}
            403
            content-type: application/json
            {"error":"the key does not allow this; it needs the scope chat"}

            > @acme-reader DELETE /session/sess#1
            403
            content-type: application/json
            {"error":"the key does not allow this; it needs the scope chat"}

            > @acme-admin DELETE /session/sess#1
            204

        "#]],
    );
}

/// Somebody else's session is not there, in the same words as one that never was.
#[test]
fn tenants_see_nothing_of_each_other() {
    let shared = shared();
    let (acme, bob) = (shared.client("acme"), shared.client("bob"));
    let body = r#"{"agent":{"name":"demo"},"messages":[{"role":"user","content":"stream 1"}]}"#;
    let id = acme.send("PUT", "/session", body).json()["sessionId"].as_str().unwrap().to_owned();
    let turn = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    for (method, body) in [("GET", ""), ("POST", turn), ("DELETE", "")] {
        let theirs = bob.send(method, &format!("/session/{id}"), body);
        let nobodys = bob.send(method, "/session/sess_never", body);
        assert_eq!((theirs.status, nobodys.status), (404, 404));
        assert_eq!(theirs.error().replace(&id, "sess_never"), nobodys.error());
        assert_eq!(theirs.header("x-session-id"), "");
    }
    assert!(!bob.send("GET", "/sessions", "").body.contains(&id));
    let untouched = acme.send("GET", &format!("/session/{id}"), "");
    assert_eq!(untouched.json()["history"]["full"].as_array().unwrap().len(), 2, "{untouched:?}");
}

/// A key in any other form than a bearer token is none.
#[test]
fn keys_in_other_places() {
    let shared = shared();
    let client = shared.server.client();
    let key = crate::suite::harness::key("acme");
    for (name, value) in [
        ("authorization", key.clone()),
        ("authorization", format!("Basic {key}")),
        ("x-api-key", key.clone()),
        ("authorization", format!("Bearer {key}x")),
        ("authorization", "Bearer ".to_owned()),
    ] {
        let answer = client.send_with("GET", "/sessions", &[(name, &value)], "");
        assert_eq!(answer.status, 401, "{name}");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
        assert!(!answer.error().contains(&key));
    }
    assert_eq!(client.send("GET", &format!("/sessions?key={key}"), "").status, 401);
    assert_eq!(client.send_with("GET", "/sessions", &[("authorization", &format!("bearer {key}"))], "").status, 200);
}
