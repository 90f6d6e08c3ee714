//! Web pages: which of them may call, seen from what browsers send for them.

use super::{closed, config};
use crate::suite::harness::{Home, Server, eventually, key};

/// The status and the head of an answer to a request of a page.
fn ask(server: &Server, method: &str, target: &str, head: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let request = format!(
        "{method} {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\nconnection: close\r\n{head}\r\n{body}"
    );
    let answer = server.raw(request.as_bytes());
    let head = answer.split("\r\n\r\n").next().unwrap_or_default().to_ascii_lowercase();
    (head[9..12].parse().unwrap_or_else(|_| panic!("{answer}")), head)
}

const FOREIGN: [&str; 3] = [
    "origin: https://evil.example\r\n",
    "origin: null\r\n",
    "sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n",
];

#[test]
fn without_keys_foreign_pages_read_and_change_nothing() {
    let asker = "[[agents]]\nname = 'asker'\nmodel = 'demo/demo'\ntools = ['request_form']\n";
    let home = Home::new(&config(&format!("{asker}[cors]\norigins = ['https://app.example']\n")));
    let server = home.start();
    let client = server.client();
    let made =
        client.send("POST", "/api/v1/sessions/stream", r#"{"message":"ask me with a form","agent_id":"asker"}"#).json();
    let session = made["session_id"].as_str().unwrap().to_owned();
    let is_waiting = || client.send("GET", &format!("/api/v1/sessions/{session}"), "").json()["status"] == "waiting";
    eventually("a turn that waits", || is_waiting().then_some(()));
    let (stop, fork) = (format!("/api/v1/sessions/{session}/stop"), format!("/api/v1/sessions/{session}/fork"));
    let delete = format!("/session/{session}");
    // Also what browsers send without a preflight: no body, plain text, forms.
    let requests = [
        ("POST", stop.as_str(), "", ""),
        ("POST", fork.as_str(), "", ""),
        ("POST", "/api/v1/sessions/stream", "content-type: text/plain\r\n", r#"{"message":"hi"}"#),
        ("POST", "/api/v1/documents", "content-type: multipart/form-data; boundary=x\r\n", "--x--\r\n"),
        ("POST", "/v1/chat/completions", "content-type: application/json\r\n", "{}"),
        ("PUT", "/session", "content-type: application/json\r\n", "{}"),
        ("DELETE", delete.as_str(), "", ""),
        ("GET", "/sessions", "", ""),
        ("GET", "/meta", "", ""),
        ("GET", "/metrics", "", ""),
        ("GET", "/readyz", "", ""),
        ("GET", "/openapi.json", "", ""),
        ("GET", "/nothing", "", ""),
        ("OPTIONS", "/session", "access-control-request-method: PUT\r\n", ""),
    ];
    for page in FOREIGN {
        for (method, target, head, body) in requests {
            let (status, answer) = ask(&server, method, target, &format!("{page}{head}"), body);
            assert_eq!(status, 403, "{method} {target} {page}: {answer}");
            assert!(!answer.contains("access-control-allow"), "{answer}");
        }
    }
    assert!(is_waiting());
    for page in ["http://localhost:3000", "http://127.0.0.1:5173", "https://[::1]", "https://app.example"] {
        let head = format!("origin: {page}\r\nsec-fetch-site: cross-site\r\n");
        let (status, answer) = ask(&server, "GET", "/sessions", &head, "");
        assert_eq!(status, 200, "{page}: {answer}");
        assert!(answer.contains(&format!("access-control-allow-origin: {page}\r\n")), "{answer}");
        assert!(answer.contains("vary: origin"), "{answer}");
        let asks = format!("{head}access-control-request-method: PUT\r\n");
        assert_eq!(ask(&server, "OPTIONS", "/session", &asks, "").0, 204, "{page}");
    }
}

#[test]
fn without_keys_public_routes_have_no_foreign_name_either() {
    let home = Home::new(&config(""));
    let server = home.start();
    for path in ["/meta", "/aap/v1/meta", "/aap/v3/meta", "/metrics", "/readyz", "/openapi.json"] {
        let answer =
            server.raw(format!("GET {path} HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 403 "), "{path}: {answer}");
        assert_eq!(server.client().send("GET", path, "").status, 200, "{path}");
    }
}

#[test]
fn with_keys_configured_origins_are_the_only_ones() {
    let home = Home::new(&config(&format!("{}[cors]\norigins = ['https://app.example']\n", closed())));
    let server = home.start();
    let bearer = format!("authorization: Bearer {}\r\n", key("acme"));
    let status = |origin: &str| ask(&server, "GET", "/sessions", &format!("{bearer}{origin}"), "").0;
    assert_eq!(status("origin: https://app.example\r\n"), 200);
    assert_eq!(status("origin: https://evil.example\r\n"), 403);
    // The page under /docs is this server's own; programs have no origin.
    assert_eq!(status("origin: http://localhost\r\n"), 200);
    assert_eq!(status(""), 200);
}
