use super::{closed, config, logged};
use crate::suite::harness::{Answer, Home, Server, key};

const LOCAL: &str = "[proxy]\ntrusted = ['127.0.0.1']\n";

fn start(more: &str) -> (Home, Server) {
    let home = Home::new(&config(more));
    let server = home.start_with(&["--log-level", "debug"]);
    (home, server)
}

fn ask(server: &Server, path: &str, headers: &[(&str, &str)]) -> Answer {
    server.client().with_key(&key("acme")).send_with("GET", path, headers, "")
}

/// What the log calls the client of a request.
fn client(home: &Home, server: &Server, id: &str, headers: &[(&str, &str)]) -> String {
    let headers = [headers, &[("x-request-id", id)]].concat();
    assert_eq!(ask(server, "/sessions", &headers).status, 200);
    let line = logged(home, id);
    let entry: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(entry["span"]["id"], id, "{line}");
    entry["span"]["client"].as_str().unwrap().to_owned()
}

#[test]
fn who_is_not_a_proxy_is_not_believed() {
    let (home, server) = start(&format!("{}[proxy]\ntrusted = ['10.0.0.0/8']\n", closed()));
    assert_eq!(client(&home, &server, "request-a", &[("forwarded", "for=1.2.3.4")]), "127.0.0.1");
    assert_eq!(client(&home, &server, "request-b", &[("x-forwarded-for", "1.2.3.4")]), "127.0.0.1");
}

#[test]
fn a_trusted_proxy_tells_who_its_client_is() {
    let (home, server) = start(&format!("{}{LOCAL}", closed()));
    assert_eq!(client(&home, &server, "request-a", &[]), "127.0.0.1");
    assert_eq!(
        client(&home, &server, "request-b", &[("forwarded", "for=\"[2001:db8::1]:99\";proto=https")]),
        "2001:db8::1"
    );
    assert_eq!(client(&home, &server, "request-c", &[("x-forwarded-for", "6.6.6.6, 1.2.3.4")]), "1.2.3.4");
    assert_eq!(client(&home, &server, "request-d", &[("x-forwarded-for", "rubbish")]), "127.0.0.1");
}

#[test]
fn one_kind_of_headers_can_be_chosen() {
    let (home, server) = start(&format!("{}{LOCAL}headers = 'x-forwarded'\n", closed()));
    let both = [("forwarded", "for=6.6.6.6"), ("x-forwarded-for", "1.2.3.4")];
    assert_eq!(client(&home, &server, "request-a", &both), "1.2.3.4");
}

/// A server without keys is for this machine, also behind a proxy on it.
#[test]
fn a_proxy_does_not_open_a_server_without_keys() {
    let client = ("x-forwarded-for", "127.0.0.1");
    let (local, evil) = (("x-forwarded-host", "localhost"), ("x-forwarded-host", "evil.example"));
    for kind in ["", "headers = 'x-forwarded'\n"] {
        let (_home, server) = start(&format!("{LOCAL}{kind}"));
        let status = |headers: &[(&str, &str)]| server.client().send_with("GET", "/sessions", headers, "").status;
        assert_eq!(status(&[client, local]), 200);
        assert_eq!(status(&[client, evil]), 403);
        assert_eq!(status(&[client, ("x-forwarded-host", "evil.example, localhost")]), 403);
        assert_eq!(status(&[client, evil, local]), 403);
        assert_eq!(status(&[("x-forwarded-for", "1.2.3.4")]), 403);
        assert_eq!(status(&[("x-forwarded-for", "1.2.3.4"), local]), 403);
        // Who does not say.
        assert_eq!(status(&[]), 403);
        assert_eq!(status(&[client]), 403);
        assert_eq!(status(&[("forwarded", "for=1.2.3.4;host=localhost")]), 403);
        assert_eq!(status(&[("forwarded", "for=127.0.0.1;host=localhost"), client, evil]), 403);
        let raw =
            |head: &str| server.raw(format!("GET /sessions HTTP/1.1\r\n{head}connection: close\r\n\r\n").as_bytes());
        let answer = raw("host: evil.example\r\nx-forwarded-for: 127.0.0.1\r\nx-forwarded-host: localhost\r\n");
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
        assert!(answer.contains("to a trusted proxy only if it says"), "{answer}");
    }
    // It is one of two kinds that lies, and nobody knows which.
    let (_home, server) = start(LOCAL);
    let status = |headers: &[(&str, &str)]| server.client().send_with("GET", "/sessions", headers, "").status;
    assert_eq!(status(&[("forwarded", "for=127.0.0.1;host=evil.example"), client, local]), 403);
    assert_eq!(status(&[("forwarded", "for=127.0.0.1"), client, local]), 403);
    assert_eq!(status(&[("forwarded", "for=127.0.0.1;host=localhost"), client, local]), 200);
}
