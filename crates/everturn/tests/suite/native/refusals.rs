//! How the routes of turns refuse: what is not there, what is not allowed, and the one shape of all errors.

use expect_test::expect;
use serde_json::Value;

use super::world::World;
use crate::suite::harness::{Answer, Client, Gate, Reply, Talk, check, script, shared};

const SPAWN: &str = "/api/v1/sessions/stream";

#[test]
fn what_is_not_there() {
    script("spawn-owned", [Reply::says(&["Yours."])]);
    check(
        &[
            r#"POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play spawn-owned"}"#,
            r#"POST /api/v1/sessions/stream {"message":"hi","session_id":"sess_no"}"#,
            r#"POST /api/v1/sessions/stream {"message":"hi","session_id":"../etc"}"#,
            r#"@bob POST /api/v1/sessions/stream {"message":"hi","session_id":"sess#1"}"#,
            r#"@bob POST /api/v1/sessions/stream {"message":"hi","session_id":"sess#1","agent_id":"demo"}"#,
            r#"POST /api/v1/sessions/stream {"message":"hi","agent_id":"nobody"}"#,
            r#"POST /api/v1/sessions/stream {"message":"hi","session_id":"sess#1","agent_id":"demo"}"#,
            r#"POST /api/v1/sessions/stream {"message":"hi","document_ids":["doc_no"]}"#,
            r#"POST /api/v1/sessions/stream {"message":"hi","session_id":"sess#1","form_id":"form_no"}"#,
            r#"POST /api/v1/sessions/stream {"session_id":"sess#1","form_answer":{"approved":true}}"#,
        ],
        expect![[r#"
            > POST /api/v1/sessions/stream {"agent_id":"scripted","message":"play spawn-owned"}
            202
            content-type: application/json
            x-session-id: sess#1
            x-message-id: turn#1
            {"kind":"new_turn","message_id":"turn#1","session_id":"sess#1"}

            > POST /api/v1/sessions/stream {"message":"hi","session_id":"sess_no"}
            404
            content-type: application/json
            {
              "detail": {
                "code": "SESSION_NOT_FOUND",
                "hint": "GET /api/v1/sessions lists yours",
                "message": "there is no session \"sess_no\""
              }
            }

            > POST /api/v1/sessions/stream {"message":"hi","session_id":"../etc"}
            404
            content-type: application/json
            {
              "detail": {
                "code": "SESSION_NOT_FOUND",
                "hint": "GET /api/v1/sessions lists yours",
                "message": "there is no session \"../etc\""
              }
            }

            > @bob POST /api/v1/sessions/stream {"message":"hi","session_id":"sess#1"}
            404
            content-type: application/json
            {
              "detail": {
                "code": "SESSION_NOT_FOUND",
                "hint": "GET /api/v1/sessions lists yours",
                "message": "there is no session \"sess#1\""
              }
            }

            > @bob POST /api/v1/sessions/stream {"message":"hi","session_id":"sess#1","agent_id":"demo"}
            404
            content-type: application/json
            {
              "detail": {
                "code": "SESSION_NOT_FOUND",
                "hint": "GET /api/v1/sessions lists yours",
                "message": "there is no session \"sess#1\""
              }
            }

            > POST /api/v1/sessions/stream {"message":"hi","agent_id":"nobody"}
            404
            content-type: application/json
            {
              "detail": {
                "code": "AGENT_NOT_FOUND",
                "message": "there is no agent \"nobody\"; there are: demo, scripted, short, small, lines, hasty, plain"
              }
            }

            > POST /api/v1/sessions/stream {"message":"hi","session_id":"sess#1","agent_id":"demo"}
            422
            content-type: application/json
            {
              "detail": {
                "code": "VALIDATION_FAILED",
                "hint": "leave agent_id out, or begin a new session",
                "message": "agent_id: the session's agent is \"scripted\" and cannot be changed to \"demo\""
              }
            }

            > POST /api/v1/sessions/stream {"message":"hi","document_ids":["doc_no"]}
            404
            content-type: application/json
            {
              "detail": {
                "code": "DOCUMENT_NOT_FOUND",
                "hint": "GET /api/v1/documents lists yours",
                "message": "there is no document \"doc_no\""
              }
            }

            > POST /api/v1/sessions/stream {"message":"hi","session_id":"sess#1","form_id":"form_no"}
            404
            content-type: application/json
            {
              "detail": {"code":"FORM_NOT_FOUND","hint":"GET /api/v1/forms lists yours","message":"there is no form \"form_no\""}
            }

            > POST /api/v1/sessions/stream {"session_id":"sess#1","form_answer":{"approved":true}}
            409
            content-type: application/json
            {
              "detail": {
                "code": "FORM_CLOSED",
                "hint": "to begin a turn, send a message instead of form_answer",
                "message": "this session waits for no form"
              }
            }

        "#]],
    );
}

/// Every error of these routes has one shape.
#[track_caller]
fn error(answer: &Answer) -> (u16, String) {
    assert_eq!(answer.header("content-type"), "application/json", "{answer:?}");
    let json = answer.json();
    let outer: Vec<_> = json.as_object().unwrap().keys().collect();
    assert_eq!(outer, ["detail"], "{answer:?}");
    for (name, value) in json["detail"].as_object().unwrap() {
        let good = match (name.as_str(), value) {
            ("code", Value::String(code)) => code.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'),
            ("message" | "hint", Value::String(text)) => !text.is_empty(),
            ("problems", Value::Array(problems)) => problems.iter().all(Value::is_string),
            _ => false,
        };
        assert!(good, "{name}: {answer:?}");
    }
    assert!(json["detail"]["message"].is_string(), "{answer:?}");
    (answer.status, json["detail"]["code"].as_str().unwrap().to_owned())
}

#[test]
fn errors_have_one_shape() {
    let gate = Gate::default();
    script("spawn-held", [Reply::new().text("I ").hold(&gate).stops()]);
    let shared = shared();
    let acme = shared.client("acme");
    let nobody = Client { key: None, ..acme.clone() };
    let held = acme.send("POST", SPAWN, r#"{"agent_id":"scripted","message":"play spawn-held"}"#);
    let (session, turn) = (held.header("x-session-id").to_owned(), held.header("x-message-id").to_owned());
    let (stop, stream) =
        (format!("/api/v1/sessions/{session}/stop"), format!("/api/v1/sessions/{session}/messages/{turn}/stream"));
    let hi = r#"{"message":"hi"}"#;
    let busy = format!(r#"{{"message":"hi","on_busy":"reject","session_id":"{session}"}}"#);
    let table = [
        (nobody.send("POST", SPAWN, hi), 401, "AUTH_HEADER_MISSING"),
        (nobody.send("GET", &stream, ""), 401, "AUTH_HEADER_MISSING"),
        (nobody.send("POST", &stop, ""), 401, "AUTH_HEADER_MISSING"),
        (acme.with_key("wrong").send("POST", SPAWN, hi), 401, "AUTH_TOKEN_INVALID"),
        (acme.with_key("wrong").send("GET", &stream, ""), 401, "AUTH_TOKEN_INVALID"),
        (acme.send("GET", &format!("{stream}?token=nonsense"), ""), 401, "AUTH_TOKEN_INVALID"),
        (shared.client("acme-reader").send("POST", SPAWN, hi), 403, "AUTH_PERMISSION_DENIED"),
        (shared.client("acme-reader").send("POST", &stop, ""), 403, "AUTH_PERMISSION_DENIED"),
        (acme.send("GET", "/api/v1/nothing", ""), 404, "NOT_FOUND"),
        (acme.send("GET", "/api/v1", ""), 404, "NOT_FOUND"),
        (acme.send("GET", "/api/v1/sessions/sess_no", ""), 404, "SESSION_NOT_FOUND"),
        (acme.send("GET", "/api/v1/sessions/%FF", ""), 404, "SESSION_NOT_FOUND"),
        (acme.send("GET", "/api/v1/sessions/a/messages/b/stream", ""), 404, "MESSAGE_NOT_FOUND"),
        (acme.send("GET", "/api/v1/sessions/%FF/messages/%FF/stream", ""), 404, "MESSAGE_NOT_FOUND"),
        (acme.send("GET", &format!("{stream}?as=nonsense"), ""), 400, "VIEW_UNKNOWN"),
        (acme.send("GET", &format!("{stream}?since=1&since=2"), ""), 400, "QUERY_INVALID"),
        (acme.send("GET", &format!("{stream}?since=99"), ""), 400, "CURSOR_INVALID"),
        (acme.send("GET", SPAWN, ""), 405, "METHOD_NOT_ALLOWED"),
        (acme.send("PUT", &stop, ""), 405, "METHOD_NOT_ALLOWED"),
        (acme.send("POST", &stream, ""), 405, "METHOD_NOT_ALLOWED"),
        (acme.send("POST", SPAWN, &busy), 409, "SESSION_BUSY"),
        (acme.send_with("POST", SPAWN, &[("content-type", "text/plain")], hi), 415, "MEDIA_TYPE_UNSUPPORTED"),
        (acme.send_with("POST", SPAWN, &[], hi), 415, "MEDIA_TYPE_UNSUPPORTED"),
        (acme.send("POST", SPAWN, "{}"), 422, "VALIDATION_FAILED"),
        (acme.send("POST", SPAWN, &format!("{}{}", "[".repeat(90), "]".repeat(90))), 422, "VALIDATION_FAILED"),
    ];
    for (answer, status, code) in &table {
        assert_eq!(error(answer), (*status, (*code).to_owned()), "{answer:?}");
        let challenge = if *status == 401 { "Bearer" } else { "" };
        assert_eq!(answer.header("www-authenticate"), challenge, "{answer:?}");
        assert_eq!(answer.header("allow").is_empty(), *status != 405, "{answer:?}");
    }
    // Reading needs no more than the right to read.
    assert_eq!(shared.client("acme-reader").open("GET", &stream, "").status(), 200);
    gate.open();
}

#[test]
fn too_much_at_once() {
    let world = World::start("body_bytes = 1024");
    let mut talk = Talk::new(world.client());
    let long = "x".repeat(2000);
    let answer = world.client().send("POST", SPAWN, &format!(r#"{{"message":"{long}"}}"#));
    assert_eq!(error(&answer), (413, "BODY_TOO_LARGE".to_owned()));
    talk.note(&answer, &["content-type"]);
    talk.check(expect![[r#"
        413
        content-type: application/json
        {"detail":{"code":"BODY_TOO_LARGE","message":"the body is longer than 1024 bytes, which is the limit"}}

    "#]]);
}
