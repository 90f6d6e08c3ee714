//! Tokens in a day.

use serde_json::{Value, json};

use super::{create, home};
use crate::suite::harness::{Answer, Client, Reply, eventually, script};

/// Runs a turn of the scripted agent to its end, if it may. Each of its model calls is 15 tokens.
fn turn(client: &Client, name: &str) -> Answer {
    let body = json!({ "agent_id": "scripted", "message": format!("play {name}") }).to_string();
    let answer = client.send("POST", "/api/v1/sessions/stream", &body);
    if answer.status == 202 {
        let told: Value = answer.json();
        let (session, turn) = (told["session_id"].as_str().unwrap(), told["message_id"].as_str().unwrap());
        let path = format!("/api/v1/sessions/{session}/messages/{turn}");
        eventually("the turn ends", || (client.send("GET", &path, "").json()["status"] == "completed").then_some(()));
    }
    answer
}

#[test]
fn a_key_may_use_so_many_tokens_in_a_day() {
    let home = home("[tenants.acme]\nquota = { tokens_per_day = 60 }\n");
    let (small, large) =
        (create(&home, &["--tenant", "acme", "--tokens-per-day", "20"]), create(&home, &["--tenant", "acme"]));
    let other = create(&home, &["--tenant", "bob"]);
    let mut server = home.start();
    script("tokens", (0..10).map(|_| Reply::says(&["Hello"])));
    // A turn that begins within the quota goes on beyond it.
    for expected in [202, 202, 429] {
        let told = turn(&small.client(&server), "tokens");
        assert_eq!(told.status, expected, "{told:?}");
    }
    let told = turn(&small.client(&server), "tokens");
    let message = told.json()["detail"]["message"].as_str().unwrap().to_owned();
    assert_eq!(message, "this key may use 20 tokens a day and has used 30 today (UTC); try again tomorrow");
    let wait: u32 = told.header("retry-after").parse().unwrap();
    assert!((1..=24 * 60 * 60).contains(&wait), "{wait}");
    // The tenant's other key has what is left; then nobody of it has anything.
    for expected in [202, 202, 429] {
        assert_eq!(turn(&large.client(&server), "tokens").status, expected);
    }
    let told = turn(&large.client(&server), "tokens");
    assert!(told.body.contains("this tenant may use 60 tokens a day and has used 60 today"), "{told:?}");
    assert_eq!(turn(&other.client(&server), "tokens").status, 202, "another tenant does not mind");
    // A crash gives nothing back, nor does another key.
    server.kill();
    let server = home.start();
    for key in [&small, &large, &create(&home, &["--tenant", "acme"])] {
        assert_eq!(turn(&key.client(&server), "tokens").status, 429);
        // To look is free.
        assert_eq!(super::looks(&key.client(&server)), 200);
    }
}
