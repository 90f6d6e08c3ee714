//! Applications in browsers call from anywhere, and can read every answer, whatever it says.

use crate::suite::harness::{Answer, Home, key, shared_config};

use super::application::BASE;

/// What a page can read of an answer.
#[track_caller]
fn readable(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("access-control-allow-origin"), "*", "{answer:?}");
    let exposed = answer.header("access-control-expose-headers");
    for name in ["x-session-id", "x-message-id", "retry-after"] {
        assert!(exposed.contains(name), "{name}: {answer:?}");
    }
}

#[test]
fn every_answer() {
    let keys = format!("[[keys]]\nkey = '{}'\ntenant = 'acme'\nscopes = ['chat']\n", key("acme"));
    let home = Home::new(&(shared_config("body_bytes = 2000") + &keys));
    let server = home.start();
    let (client, nobody) = (server.client().with_key(&key("acme")), server.client());
    let origin = ("origin", "https://app.example");
    let json = ("content-type", "application/json");
    let send = |method: &str, path: &str, body: &str| {
        client.send_with(method, &format!("{BASE}{path}"), &[origin, json], body.to_owned())
    };
    for path in ["/sessions", "/sessions/x/turns", "/sessions/x", "/meta"] {
        let asks = [
            origin,
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization,content-type"),
        ];
        let answer = nobody.send_with("OPTIONS", &format!("{BASE}{path}"), &asks, "");
        readable(&answer, 204);
        let allowed = answer.header("access-control-allow-headers").to_owned();
        for name in ["authorization", "content-type", "last-event-id", "idempotency-key"] {
            assert!(allowed.contains(name), "{name}: {allowed}");
        }
        for method in ["GET", "POST", "DELETE"] {
            assert!(answer.header("access-control-allow-methods").contains(method));
        }
    }
    readable(&nobody.send_with("GET", &format!("{BASE}/meta"), &[origin], ""), 200);
    readable(&nobody.send_with("GET", &format!("{BASE}/sessions"), &[origin], ""), 401);
    let made = send("POST", "/sessions", r#"{"agent":{"name":"demo"}}"#);
    readable(&made, 201);
    let id = made.json()["sessionId"].as_str().unwrap().to_owned();
    let turns = format!("/sessions/{id}/turns");
    for mode in ["none", "delta", "message"] {
        let body = format!(r#"{{"stream":"{mode}","messages":[{{"role":"user","content":"stream 1"}}]}}"#);
        let answer = send("POST", &turns, &body);
        readable(&answer, 200);
        assert_eq!(answer.header("content-type") == "text/event-stream", mode != "none");
    }
    readable(&send("POST", "/sessions", "{}"), 400);
    readable(&send("GET", "/sessions/x", ""), 404);
    readable(&send("GET", "/nothing", ""), 404);
    readable(&send("PATCH", "/sessions/x", ""), 405);
    readable(&send("POST", &turns, r#"{"messages":[{"role":"tool","toolCallId":"x","content":"x"}]}"#), 400);
    readable(&send("POST", &turns, &format!(r#"{{"messages":"{}"}}"#, "x".repeat(3000))), 413);
    let plain = [origin, ("content-type", "text/plain")];
    readable(&client.send_with("POST", &format!("{BASE}/sessions"), &plain, "{}"), 415);
    readable(&send("GET", &format!("/sessions/{id}/history?type=full"), ""), 200);
    readable(&send("DELETE", &format!("/sessions/{id}"), ""), 204);
}
