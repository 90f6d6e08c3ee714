//! Those who ask too much are told when to come again, in the protocol's own shape.

use serde_json::json;

use super::application::BASE;
use crate::suite::harness::{Answer, Gate, Home, Reply, key, script, shared_config};

/// Refused for now; gives what it says.
#[track_caller]
fn later(answer: &Answer) -> String {
    assert_eq!(answer.status, 429, "{answer:?}");
    let seconds: u32 = answer.header("retry-after").parse().unwrap();
    assert!(seconds >= 1, "{answer:?}");
    assert_eq!(answer.header("access-control-allow-origin"), "*");
    answer.error()
}

fn home(quota: &str) -> Home {
    let key = key("acme");
    let keys = format!("[[keys]]\nkey = '{key}'\ntenant = 'acme'\nscopes = ['chat']\nquota = {{ {quota} }}\n");
    Home::new(&(shared_config("") + &keys))
}

#[test]
fn too_many_turns_at_once() {
    let home = home("concurrent_turns = 1");
    let server = home.start();
    let client = server.client().with_key(&key("acme"));
    let gate = Gate::default();
    script("v3-quota", [Reply::new().text("Wait").hold(&gate).text(".").stops(), Reply::says(&["Now."])]);
    let new = r#"{"agent":{"name":"scripted"}}"#;
    let create = || {
        let made = client.send("POST", &format!("{BASE}/sessions"), new).json();
        format!("{BASE}/sessions/{}/turns", made["sessionId"].as_str().unwrap())
    };
    let (one, other) = (create(), create());
    let body = r#"{"stream":"delta","messages":[{"role":"user","content":"play v3-quota"}]}"#;
    let mut stream = client.open("POST", &one, body);
    stream.until("Wait");
    let told = later(&client.send("POST", &other, body));
    assert!(told.starts_with("this key may have 1 turn"), "{told}");
    let history = client.send("GET", &other.replace("/turns", "/history?type=full"), "").json();
    assert_eq!(history, json!({ "history": { "full": [] } }), "what is refused changes nothing");
    gate.open();
    stream.until("turn_stop");
    let answer = crate::suite::harness::eventually("the place is free again", || {
        let answer = client.send("POST", &other, body);
        (answer.status != 429).then_some(answer)
    });
    assert!(answer.body.contains("Now."), "{answer:?}");
}

#[test]
fn too_many_requests() {
    let home = home("requests_per_second = 2");
    let server = home.start();
    let client = server.client().with_key(&key("acme"));
    let path = format!("{BASE}/sessions");
    let refused = crate::suite::harness::eventually("more than two requests in a second", || {
        let answer = client.send("GET", &path, "");
        (answer.status != 200).then_some(answer)
    });
    assert_eq!(later(&refused), "this key may make 2 requests a second; try again in a moment");
    assert_eq!(server.client().send("GET", &format!("{BASE}/meta"), "").status, 200, "which needs no key");
}
