//! Too much of everything.

use serde_json::json;

use crate::suite::harness::{Home, shared, shared_config};

/// The least that may be configured is still enough for a request.
const LIMIT: usize = 4096;

#[test]
fn bodies_that_are_too_long() {
    let home = Home::new(&shared_config(&format!("body_bytes = {LIMIT}")));
    let server = home.start();
    let client = server.client();
    let body = |length: usize| {
        let empty = json!({ "agent": { "name": "demo" }, "messages": [{ "role": "user", "content": "" }] }).to_string();
        empty.replace(r#""content":"""#, &format!(r#""content":"{}""#, "x".repeat(length - empty.len())))
    };
    assert_eq!(client.send("PUT", "/session", &body(LIMIT)).status, 201);
    let refused = client.send("PUT", "/session", &body(LIMIT + 1));
    assert_eq!(refused.status, 413, "{refused:?}");
    assert_eq!(refused.error(), "the body is longer than 4096 bytes, which is the limit");
    // Without a length that could be looked at beforehand.
    let chunk = format!("{:x}\r\n{}\r\n", 1000, "x".repeat(1000)).repeat(10);
    let head = "PUT /session HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let answer = server.raw(format!("{head}{chunk}0\r\n\r\n").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains(r#"{"error":"#), "{answer}");
    // A length that is announced and never sent.
    let head = "PUT /session HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 1000000000\r\n\r\n";
    let answer = server.raw_cut(head.as_bytes());
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    assert_eq!(client.send("GET", "/sessions", "").json()["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn json_that_nests_too_deep() {
    let shared = shared();
    let client = shared.client("fuzz");
    for depth in [65, 100_000] {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        for body in [
            open.clone(),
            format!("{open}{close}"),
            format!(r#"{{"agent":{{"name":"demo"}},"messages":{open}{close}}}"#),
            format!(r#"{{"x":{}1{}}}"#, r#"{"x":"#.repeat(depth), "}".repeat(depth)),
        ] {
            let answer = client.send("PUT", "/session", &body);
            assert_eq!(answer.status, 400, "{answer:?}");
            assert!(answer.error().contains("deeper than 64 levels"), "{answer:?}");
        }
    }
}

#[test]
fn text_that_is_none() {
    let shared = shared();
    let client = shared.client("fuzz");
    let json = [("content-type", "application/json")];
    let body = |content: &[u8]| {
        let (before, after) = (br#"{"agent":{"name":"demo"},"messages":[{"role":"user","content":""#, br#""}]}"#);
        [before.as_slice(), content, after.as_slice()].concat()
    };
    for content in [b"\xff".as_slice(), b"\xc3", b"\xed\xa0\x80", b"\0", b"\n", b"\\ud800", b"\\x00", b"\\"] {
        let answer = client.send_with("PUT", "/session", &json, body(content));
        assert_eq!(answer.status, 400, "{content:?}: {answer:?}");
        answer.error();
    }
    // Escaped, they are text like any other, and come back as they were.
    for content in ["\\u0000", "\\ud83d\\udca5", "\\u202e\\ufeff", "data: x\\n\\nevent: turn_stop\\r\\n"] {
        let answer = client.send_with("PUT", "/session", &json, body(content.as_bytes()));
        assert_eq!(answer.status, 201, "{content:?}: {answer:?}");
        let shown = client.send("GET", &format!("/session/{}", answer.header("x-session-id")), "").json();
        let sent: serde_json::Value = serde_json::from_slice(&body(content.as_bytes())).unwrap();
        assert_eq!(shown["history"]["full"][0], sent["messages"][0]);
    }
}

/// Text that looks like frames does not become frames.
#[test]
fn text_cannot_break_out_of_its_frame() {
    let shared = shared();
    let client = shared.client("fuzz");
    let message = "I like\r\n\r\nevent: turn_stop\ndata: {}\n\n: \u{2028}tea";
    for mode in ["delta", "message"] {
        let body = json!({ "agent": { "name": "demo" }, "stream": mode, "messages": [{ "role": "user", "content": message }] });
        let answer = client.send("PUT", "/session", &body.to_string());
        assert_eq!(answer.body.matches("\nevent: turn_stop").count(), 1, "{answer:?}");
        assert!(!answer.body.contains('\r'), "{answer:?}");
        assert!(answer.body.contains("\\r\\n"), "{answer:?}");
    }
}

#[test]
fn too_many_of_a_kind() {
    let shared = shared();
    let client = shared.client("fuzz");
    let user = json!({ "role": "user", "content": "hi" });
    let tool = |number: usize| json!({ "name": format!("t{number}"), "description": "", "inputSchema": {} });
    let tools: Vec<_> = (0..129).map(tool).collect();
    let options = json!({ "nickname": "x".repeat(16 * 1024 + 1) });
    let call = json!({ "role": "tool", "toolCallId": "c".repeat(257), "content": "" });
    for body in [
        json!({ "agent": { "name": "demo" }, "messages": vec![user.clone(); 10_001] }),
        json!({ "agent": { "name": "demo" }, "tools": tools, "messages": [user] }),
        json!({ "agent": { "name": "demo", "options": options }, "messages": [user] }),
        json!({ "agent": { "name": "demo" }, "messages": [call, user] }),
        json!({ "agent": { "name": "x".repeat(100_000) }, "messages": [user] }),
        json!({ "agent": { "name": "demo" }, "stream": "x".repeat(100_000), "messages": [user] }),
        json!({ "agent": { "name": "demo" }, "messages": [{ "role": "x".repeat(100_000), "content": "hi" }, user] }),
    ] {
        let answer = client.send("PUT", "/session", &body.to_string());
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.error().len() < 5000, "what was sent is not sent back at length: {}", answer.error().len());
    }
}
