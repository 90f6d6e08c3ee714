//! Keys: tenants, scopes, and those who have none.

use expect_test::expect;
use serde_json::json;

use super::application::BASE;
use crate::suite::harness::{check, shared};

/// Somebody else's session is not there, in the same words as one that never was.
#[test]
fn tenants_see_nothing_of_each_other() {
    let shared = shared();
    let (acme, bob) = (shared.client("acme"), shared.client("bob"));
    let new = json!({ "agent": { "name": "demo" }, "messages": [{ "role": "user", "content": "ours" }] }).to_string();
    let made = acme.send("POST", &format!("{BASE}/sessions"), &new).json();
    let id = made["sessionId"].as_str().unwrap();
    let turn = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    for (method, rest, body) in
        [("GET", "", ""), ("GET", "/history?type=full", ""), ("POST", "/turns", turn), ("DELETE", "", "")]
    {
        let theirs = bob.send(method, &format!("{BASE}/sessions/{id}{rest}"), body);
        let nobodys = bob.send(method, &format!("{BASE}/sessions/sess_never{rest}"), body);
        assert_eq!((theirs.status, nobodys.status), (404, 404), "{method} {rest}");
        assert_eq!(theirs.error().replace(id, "sess_never"), nobodys.error());
        assert_eq!(theirs.header("x-session-id"), "");
    }
    assert!(!bob.send("GET", &format!("{BASE}/sessions"), "").body.contains(id));
    let untouched = acme.send("GET", &format!("{BASE}/sessions/{id}/history?type=full"), "");
    assert_eq!(untouched.json(), json!({ "history": { "full": [{ "role": "user", "content": "ours" }] } }));
}

#[test]
fn without_a_key_or_with_one_that_may_only_read() {
    check(
        &[
            "@nobody GET /aap/v3/sessions",
            r#"@nobody POST /aap/v3/sessions {"agent":{"name":"demo"}}"#,
            "@stranger GET /aap/v3/sessions/x/history?type=full",
            r#"POST /aap/v3/sessions {"agent":{"name":"demo"}}"#,
            "@acme-reader GET /aap/v3/sessions/sess#1",
            "@acme-reader GET /aap/v3/sessions/sess#1/history?type=full",
            r#"@acme-reader POST /aap/v3/sessions {"agent":{"name":"demo"}}"#,
            r#"@acme-reader POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"user","content":"hi"}]}"#,
            "@acme-reader DELETE /aap/v3/sessions/sess#1",
        ],
        expect![[r#"
            > @nobody GET /aap/v3/sessions
            401
            content-type: application/json
            www-authenticate: Bearer
            {"error":"this server wants a key: send the header Authorization: Bearer <key>"}

            > @nobody POST /aap/v3/sessions {"agent":{"name":"demo"}}
            401
            content-type: application/json
            www-authenticate: Bearer
            {"error":"this server wants a key: send the header Authorization: Bearer <key>"}

            > @stranger GET /aap/v3/sessions/x/history?type=full
            401
            content-type: application/json
            www-authenticate: Bearer
            {"error":"the key is not valid on this server"}

            > POST /aap/v3/sessions {"agent":{"name":"demo"}}
            201
            content-type: application/json
            x-session-id: sess#1
            {"sessionId":"sess#1"}

            > @acme-reader GET /aap/v3/sessions/sess#1
            200
            content-type: application/json
            {"agent":{"name":"demo","tools":[]},"sessionId":"sess#1"}

            > @acme-reader GET /aap/v3/sessions/sess#1/history?type=full
            200
            content-type: application/json
            {"history":{"full":[]}}

            > @acme-reader POST /aap/v3/sessions {"agent":{"name":"demo"}}
            403
            content-type: application/json
            {"error":"the key does not allow this; it needs the scope chat"}

            > @acme-reader POST /aap/v3/sessions/sess#1/turns {"messages":[{"role":"user","content":"hi"}]}
            403
            content-type: application/json
            {"error":"the key does not allow this; it needs the scope chat"}

            > @acme-reader DELETE /aap/v3/sessions/sess#1
            403
            content-type: application/json
            {"error":"the key does not allow this; it needs the scope chat"}

        "#]],
    );
}
