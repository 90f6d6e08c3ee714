//! Refusals: a status and `{"error": …}`, before any stream starts.

use expect_test::expect;

use crate::suite::harness::{Talk, check, shared};

#[test]
fn agents_that_are_not_there() {
    check(
        &[
            r#"PUT /session {"agent":{"name":"nobody"},"messages":[{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"agent":{},"messages":[{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"agent":"demo","messages":[{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"messages":[{"role":"user","content":"hi"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"nobody"},"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"there is no agent \"nobody\"; there are: demo, scripted, short, small, lines, hasty, plain"}

            > PUT /session {"agent":{},"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"agent.name is missing"}

            > PUT /session {"agent":"demo","messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {
              "error": "the body is not valid at agent: invalid type: string \"demo\", expected an object at line 1 column 15"
            }

            > PUT /session {"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"the body is not valid: missing field `agent` at line 1 column 45"}

        "#]],
    );
}

#[test]
fn modes_that_are_not_there() {
    check(
        &[
            r#"PUT /session {"agent":{"name":"demo"},"stream":"sse","messages":[{"role":"user","content":"hi"}]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"stream":true,"messages":[{"role":"user","content":"hi"}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"demo"},"stream":"sse","messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {"error":"stream cannot be \"sse\"; use \"delta\", \"message\" or \"none\""}

            > PUT /session {"agent":{"name":"demo"},"stream":true,"messages":[{"role":"user","content":"hi"}]}
            400
            content-type: application/json
            {
              "error": "the body is not valid at stream: invalid type: boolean `true`, expected a string at line 1 column 38"
            }

        "#]],
    );
}

#[test]
fn sessions_that_are_not_there() {
    check(
        &[
            "GET /session/sess_nothing",
            r#"POST /session/sess_nothing {"messages":[{"role":"user","content":"hi"}]}"#,
            "DELETE /session/sess_nothing",
            "GET /session/%00",
            "GET /session/%FF",
            "GET /session/a%2Fb",
        ],
        expect![[r#"
            > GET /session/sess_nothing
            404
            content-type: application/json
            {"error":"there is no session \"sess_nothing\"; GET /sessions lists yours"}

            > POST /session/sess_nothing {"messages":[{"role":"user","content":"hi"}]}
            404
            content-type: application/json
            {"error":"there is no session \"sess_nothing\"; GET /sessions lists yours"}

            > DELETE /session/sess_nothing
            404
            content-type: application/json
            {"error":"there is no session \"sess_nothing\"; GET /sessions lists yours"}

            > GET /session/%00
            404
            content-type: application/json
            {"error":"there is no session \"\\0\"; GET /sessions lists yours"}

            > GET /session/%FF
            404
            content-type: application/json
            {"error":"there is no session \"�\"; GET /sessions lists yours"}

            > GET /session/a%2Fb
            404
            content-type: application/json
            {"error":"there is no session \"a/b\"; GET /sessions lists yours"}

        "#]],
    );
}

#[test]
fn paths_and_methods_that_are_not_there() {
    check(
        &[
            "GET /",
            "GET /session",
            "GET /session/",
            "POST /session {}",
            "PUT /session/x {}",
            "PATCH /session/x {}",
            "POST /meta {}",
            "DELETE /sessions",
            "BREW /session/x",
            "OPTIONS /session",
            "GET /aap/v1/session",
            "GET /aap/v1/",
            "GET /aap/v2/meta",
        ],
        expect![[r#"
            > GET /
            404
            content-type: application/json
            {"error":"there is nothing here; GET /meta tells what this server offers"}

            > GET /session
            405
            allow: PUT
            content-type: application/json
            {"error":"this path does not take that method"}

            > GET /session/
            404
            content-type: application/json
            {"error":"there is nothing here; GET /meta tells what this server offers"}

            > POST /session {}
            405
            allow: PUT
            content-type: application/json
            {"error":"this path does not take that method"}

            > PUT /session/x {}
            405
            allow: GET,HEAD,POST,DELETE
            content-type: application/json
            {"error":"this path does not take that method"}

            > PATCH /session/x {}
            405
            allow: GET,HEAD,POST,DELETE
            content-type: application/json
            {"error":"this path does not take that method"}

            > POST /meta {}
            405
            allow: GET,HEAD
            content-type: application/json
            {"error":"this path does not take that method"}

            > DELETE /sessions
            405
            allow: GET,HEAD
            content-type: application/json
            {"error":"this path does not take that method"}

            > BREW /session/x
            405
            allow: GET,HEAD,POST,DELETE
            content-type: application/json
            {"error":"this path does not take that method"}

            > OPTIONS /session
            405
            allow: PUT
            content-type: application/json
            {"error":"this path does not take that method"}

            > GET /aap/v1/session
            405
            allow: PUT
            content-type: application/json
            {"error":"this path does not take that method"}

            > GET /aap/v1/
            404
            content-type: application/json
            {"error":"there is nothing here; GET /meta tells what this server offers"}

            > GET /aap/v2/meta
            404
            content-type: application/json
            {"error":"there is nothing here; GET /meta tells what this server offers"}

        "#]],
    );
}

#[test]
fn bodies_that_are_not_json() {
    let shared = shared();
    let client = shared.client("acme");
    let mut talk = Talk::new(client.clone());
    let good = r#"{"agent":{"name":"demo"},"messages":[{"role":"user","content":"hi"}]}"#;
    for (content_type, body) in [
        ("text/plain", good),
        ("application/x-www-form-urlencoded", "agent=demo"),
        ("", good),
        ("application/json", ""),
        ("application/json", "{"),
        ("application/json", "[]"),
        ("application/json", "null"),
        ("application/json", r#"{"agent":{"name":"demo"},"messages":[{"role":"user","content":"hi"}]} {}"#),
        ("application/json", r#"{"agent":{"name":"demo"},"agent":{"name":"demo"},"messages":[]}"#),
    ] {
        let answer = client.send_with("PUT", "/session", &[("content-type", content_type)], body.to_owned());
        talk.say(&format!("{content_type:?} {body}\n  {} {}\n", answer.status, answer.error()));
    }
    talk.check(expect![[r#"
        "text/plain" {"agent":{"name":"demo"},"messages":[{"role":"user","content":"hi"}]}
          415 the body must be JSON: send the header Content-Type: application/json (it was "text/plain")
        "application/x-www-form-urlencoded" agent=demo
          415 the body must be JSON: send the header Content-Type: application/json (it was "application/x-www-form-urlencoded")
        "" {"agent":{"name":"demo"},"messages":[{"role":"user","content":"hi"}]}
          415 the body must be JSON: send the header Content-Type: application/json (it was "")
        "application/json" 
          400 the body is not valid: EOF while parsing a value at line 1 column 0
        "application/json" {
          400 the body is not valid: EOF while parsing an object at line 1 column 1
        "application/json" []
          400 the body is not valid: invalid type: sequence, expected an object at line 1 column 0
        "application/json" null
          400 the body is not valid: invalid type: null, expected an object at line 1 column 4
        "application/json" {"agent":{"name":"demo"},"messages":[{"role":"user","content":"hi"}]} {}
          400 the body is not valid: trailing characters at line 1 column 71
        "application/json" {"agent":{"name":"demo"},"agent":{"name":"demo"},"messages":[]}
          400 the body is not valid: duplicate field `agent` at line 1 column 32
    "#]]);
}

/// Charsets and structured suffixes are JSON all the same.
#[test]
fn bodies_that_are_json_by_another_name() {
    let shared = shared();
    let client = shared.client("acme");
    let good = r#"{"agent":{"name":"demo"},"messages":[{"role":"user","content":"stream 1"}]}"#;
    for content_type in ["application/json; charset=utf-8", "Application/JSON", "application/vnd.agent+json"] {
        let answer = client.send_with("PUT", "/session", &[("content-type", content_type)], good);
        assert_eq!(answer.status, 201, "{content_type}: {answer:?}");
    }
}

/// Every answer has a name, by which the log knows the request; clients may give it.
#[test]
fn requests_have_a_name() {
    let shared = shared();
    let client = shared.client("acme");
    let name =
        |given: &[(&str, &str)]| client.send_with("GET", "/nothing", given, "").header("x-request-id").to_owned();
    assert_eq!(name(&[("x-request-id", "mine-1")]), "mine-1");
    assert!(name(&[]).starts_with("req_"));
    for unfit in ["", "a b", &"x".repeat(65)] {
        assert!(name(&[("x-request-id", unfit)]).starts_with("req_"), "{unfit:?}");
    }
}

#[test]
fn messages_that_say_nothing() {
    check(
        &[
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":""}]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":[{"type":"text","text":""}]}]}"#,
            r#"PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":"refuse"}]}"#,
            r#"POST /session/sess#1 {"messages":[{"role":"user","content":[]}]}"#,
        ],
        expect![[r#"
            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":""}]}
            400
            content-type: application/json
            {"error":"the user message is empty; send a text, or blocks with at least one text or image"}

            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":[{"type":"text","text":""}]}]}
            400
            content-type: application/json
            {"error":"the user message is empty; send a text, or blocks with at least one text or image"}

            > PUT /session {"agent":{"name":"demo"},"messages":[{"role":"user","content":"refuse"}]}
            201
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {
              "messages": [{"content":"I decline, because you asked me to. This is how a refusal looks.","role":"assistant"}],
              "sessionId": "sess#1",
              "stopReason": "refusal"
            }

            > POST /session/sess#1 {"messages":[{"role":"user","content":[]}]}
            400
            content-type: application/json
            {"error":"the user message is empty; send a text, or blocks with at least one text or image"}

        "#]],
    );
}
