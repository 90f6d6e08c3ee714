use super::{closed, config};
use crate::suite::harness::{Home, Server, key};

fn status(server: &Server, target: &str, head: &str) -> String {
    let request = format!("GET {target} HTTP/1.1\r\n{head}connection: close\r\n\r\n");
    let answer = server.raw(request.as_bytes());
    answer.strip_prefix("HTTP/1.1 ").unwrap_or_else(|| panic!("{answer}"))[..3].to_owned()
}

/// Wherever a request has a foreign name, it is not from somebody on this machine.
#[test]
fn without_keys_no_foreign_name_gets_in() {
    let home = Home::new(&config(""));
    let server = home.start();
    let check = |target: &str, head: &str, expected: &str| {
        assert_eq!(status(&server, target, head), expected, "{target} {head:?}");
    };
    check("/sessions", "host: localhost\r\n", "200");
    check("http://localhost/sessions", "host: 127.0.0.1\r\n", "200");
    check("/sessions", "host: evil.example\r\n", "403");
    check("/sessions", "host: localhost:80.evil.example\r\n", "403");
    check("/sessions", "host: [::1].evil.example\r\n", "403");
    check("/sessions", "host:\r\n", "403");
    check("http://evil.example/sessions", "host: localhost\r\n", "403");
    check("http://localhost/sessions", "host: evil.example\r\n", "403");
    check("http://localhost@evil.example/sessions", "host: localhost\r\n", "400");
    check("http://localhost:80@evil.example/sessions", "host: localhost\r\n", "400");
    check("/sessions", "host: localhost:80@evil.example\r\n", "400");
    check("/sessions", "host: localhost\r\nhost: evil.example\r\n", "400");
    check("/sessions", "host: evil.example\r\nhost: localhost\r\n", "400");
    check("/sessions", "", "400");
    let old = server.raw(b"GET /sessions HTTP/1.0\r\n\r\n");
    assert!(old.starts_with("HTTP/1.0 403 ") || old.starts_with("HTTP/1.1 403 "), "{old}");
}

/// With keys, any name will do; but it must be one.
#[test]
fn with_keys_a_request_calls_one_host() {
    let home = Home::new(&config(&closed()));
    let server = home.start();
    let key = format!("authorization: Bearer {}\r\n", key("acme"));
    let check = |target: &str, head: &str, expected: &str| {
        assert_eq!(status(&server, target, &format!("{key}{head}")), expected, "{target} {head:?}");
    };
    check("/sessions", "host: agents.example\r\n", "200");
    check("http://agents.example/sessions", "host: other.example\r\n", "200");
    check("/sessions", "host: agents.example\r\nhost: agents.example\r\n", "400");
    check("/healthz", "host: a\r\nhost: b\r\n", "400");
    check("/sessions", "", "400");
}
