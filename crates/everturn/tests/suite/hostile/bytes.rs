//! Bytes that are no request, and requests that never end.

use std::{io::Write as _, net::TcpStream};

use crate::suite::harness::{key, shared};

const BODY: &str = r#"{"agent":{"name":"demo"},"messages":[{"role":"user","content":"stream 1"}]}"#;

/// A creation with these headers besides the usual ones.
fn create(headers: &str, body: &str) -> Vec<u8> {
    let key = key("rubbish");
    format!(
        "PUT /session HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {key}\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

#[test]
fn rubbish() {
    let shared = shared();
    let long_line = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(200_000));
    let many_headers = format!("GET /meta HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(20_000));
    let long_header = format!("GET /meta HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "y".repeat(1_000_000));
    let json = "content-type: application/json\r\n";
    let requests: Vec<Vec<u8>> = vec![
        Vec::new(),
        b"\r\n\r\n".to_vec(),
        b"hello\r\n\r\n".to_vec(),
        vec![0; 1000],
        (0..=255).collect(),
        // The beginning of a TLS connection, and of HTTP/2 with nonsense after it.
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense that is no frame".to_vec(),
        b"GET / HTTP/9.9\r\nhost: localhost\r\n\r\n".to_vec(),
        b"GET /\0 HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec(),
        b"GET /\xff\xfe HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec(),
        b"GET /meta HTTP/1.1\r\nhost: localhost\r\nx: \0\r\n\r\n".to_vec(),
        b"GET /sessions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer \xff\xff\r\nconnection: close\r\n\r\n"
            .to_vec(),
        long_line.into_bytes(),
        many_headers.into_bytes(),
        long_header.into_bytes(),
        create(&format!("{json}content-length: -1\r\n"), BODY),
        create(&format!("{json}content-length: 99999999999999999999999\r\n"), BODY),
        create(&format!("{json}content-length: 5\r\ncontent-length: 6\r\n"), BODY),
        create(&format!("{json}content-length: 5\r\ntransfer-encoding: chunked\r\n"), BODY),
        create(&format!("{json}transfer-encoding: chunked\r\n"), "zz\r\nnot a size\r\n"),
        create(&format!("{json}transfer-encoding: chunked\r\n"), "ffffffffffffffffff\r\n"),
        create(&format!("{json}transfer-encoding: chunked\r\n"), "5\r\n{\"a\"}"),
        create(&format!("{json}transfer-encoding: gzip\r\n"), BODY),
        // A body that breaks off.
        create(&format!("{json}content-length: 1000\r\n"), BODY),
        create(&format!("{json}expect: 200-ok\r\ncontent-length: 1\r\n"), "{"),
    ];
    for request in &requests {
        let answer = shared.server.raw_cut(request);
        let shown = String::from_utf8_lossy(&request[..request.len().min(120)]).into_owned();
        // No answer at all is right for what is no HTTP, and HTTP/2 answers in frames.
        if let Some(status) = answer.strip_prefix("HTTP/1.1 ") {
            assert!(status.starts_with('4'), "{shown:?}: {answer}");
        } else {
            assert!(!answer.starts_with("HTTP/"), "{shown:?}: {answer}");
        }
    }
    assert_eq!(shared.client("rubbish").send("GET", "/sessions", "").json(), serde_json::json!({ "sessions": [] }));
}

/// Slow clients cost a connection each, and nothing to others. (They are cut off after the limit on a request's head.)
#[test]
fn clients_that_never_finish() {
    let shared = shared();
    let beginnings: [&[u8]; 3] = [
        b"GET /meta HT",
        b"GET /meta HTTP/1.1\r\nhost: localhost\r\nx-slow: ",
        b"PUT /session HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
    ];
    let slow: Vec<_> = (0..60)
        .map(|number| {
            let mut socket = TcpStream::connect(shared.server.address).unwrap();
            socket.write_all(beginnings[number % beginnings.len()]).unwrap();
            socket
        })
        .collect();
    assert_eq!(shared.server.client().send("GET", "/healthz", "").body, "ok\n");
    drop(slow);
}

/// Two requests on one connection, the second sent before the first is answered.
#[test]
fn pipelined_requests_are_answered_in_order() {
    let shared = shared();
    let request = "GET /meta HTTP/1.1\r\nhost: localhost\r\n\r\nGET /nothing HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answer = shared.server.raw(request.as_bytes());
    let statuses: Vec<_> = answer.match_indices("HTTP/1.1 ").map(|(at, _)| &answer[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["200", "404"], "{answer}");
}

#[test]
fn ids_that_are_none() {
    let shared = shared();
    let client = shared.client("fuzz");
    let turn = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
    for id in [
        "x".repeat(8000),
        "%00".repeat(50),
        "%ff%fe".to_owned(),
        "..".to_owned(),
        "%2e%2e%2f".repeat(20),
        "'--".to_owned(),
        "💥".bytes().map(|byte| format!("%{byte:02x}")).collect(),
    ] {
        for (method, body) in [("GET", ""), ("POST", turn), ("DELETE", "")] {
            let answer = client.send(method, &format!("/session/{id}"), body);
            assert_eq!(answer.status, 404, "{answer:?}");
            assert!(answer.error().len() < 1000, "what was sent is not sent back at length");
        }
    }
    for query in ["after=%00", "after=pffffffffffffffffffff", "after=p-1", "after=a&after=b", "after=p1&x=y", "%ff"] {
        super::never_a_fault(&client.send("GET", &format!("/sessions?{query}"), ""));
    }
}
