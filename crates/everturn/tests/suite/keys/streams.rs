//! Streams end with the key that opened them.

use super::{Made, create, home, keys};
use crate::suite::harness::{Client, Ended, Gate, Reply, Server, Streaming, asked, eventually, script};

/// A turn that waits for an hour, and keeps its streams open meanwhile.
fn waiting_turn(client: &Client) -> String {
    let made =
        client.send("POST", "/api/v1/sessions/stream", r#"{"message":"wait 1 hour","agent_id":"waiter"}"#).json();
    let (session, turn) = (made["session_id"].as_str().unwrap(), made["message_id"].as_str().unwrap());
    format!("/api/v1/sessions/{session}/messages/{turn}")
}

/// A stream of that turn that stays open.
fn watch(client: &Client, turn: &str, more: &str) -> Streaming {
    let mut stream = client.open("GET", &format!("{turn}/stream?as=aap-delta{more}"), "");
    assert_eq!(stream.status(), 200);
    assert!(stream.next().is_ok());
    stream
}

/// How it ends, whatever comes before.
fn ended(mut stream: Streaming) -> Ended {
    loop {
        if let Err(ended) = stream.next() {
            return ended;
        }
    }
}

fn token(client: &Client, turn: &str) -> String {
    let made = client.send("POST", &format!("{turn}/token"), "{}").json();
    format!("&token={}", made["token"].as_str().unwrap())
}

fn world() -> (crate::suite::harness::Home, Server, Made) {
    let home = home("\n[[agents]]\nname = 'waiter'\nmodel = 'demo/demo'\ntools = ['wait']\n");
    let admin = create(&home, &["--scope", "admin"]);
    let server = home.start();
    (home, server, admin)
}

#[test]
fn a_revoked_key_ends_its_streams_and_tokens_and_nobody_elses() {
    let (home, server, admin) = world();
    let lost = create(&home, &[]);
    let client =
        eventually("the key is known", || Some(lost.client(&server)).filter(|client| super::looks(client) == 200));
    let turn = waiting_turn(&client);
    let token = token(&client, &turn);
    let nobody = server.client();
    let (by_key, by_token, others) =
        (watch(&client, &turn, ""), watch(&nobody, &turn, &token), watch(&admin.client(&server), &turn, ""));
    let secret = [("x-secret-key", lost.secret.as_str())];
    let session = turn.split('/').nth(4).unwrap();
    let mut goose = nobody.open_with("GET", &format!("/goose/sessions/{session}/events"), &secret, "");
    assert_eq!(goose.status(), 200);
    assert!(goose.next().is_ok());
    keys(&home, &["revoke", &lost.id]);
    for stream in [by_key, by_token, goose] {
        assert_eq!(ended(stream), Ended::Broken);
    }
    assert_eq!(nobody.open("GET", &format!("{turn}/stream?as=aap-delta{token}"), "").status(), 401);
    // The turn is the tenant's: it goes on waiting, and another key stops it.
    assert_eq!(admin.client(&server).send("POST", &format!("/api/v1/sessions/{session}/stop"), "").status, 204);
    assert_eq!(ended(others), Ended::Cleanly);
}

/// An answer in one piece may come long after the key was lost.
#[test]
fn a_revoked_key_gets_no_late_answers() {
    let (home, server, _admin) = world();
    let lost = create(&home, &[]);
    let client =
        eventually("the key is known", || Some(lost.client(&server)).filter(|client| super::looks(client) == 200));
    let gate = Gate::default();
    script("late", [Reply::new().text("Too ").hold(&gate).text("late.").stops()]);
    let late = std::thread::spawn(move || {
        let body = r#"{"model":"scripted","messages":[{"role":"user","content":"play late"}]}"#;
        client.open("POST", "/v1/chat/completions", body).into_answer()
    });
    eventually("the model is asked", || (!asked("late").is_empty()).then_some(()));
    keys(&home, &["revoke", &lost.id]);
    gate.open();
    let answer = late.join().unwrap();
    assert_eq!(answer.status, 401, "{answer:?}");
    assert!(!answer.body.contains("late.") && answer.body.contains("the key was revoked"), "{answer:?}");
}

#[test]
fn a_key_that_expires_ends_its_streams() {
    let (home, server, _admin) = world();
    let made = create(&home, &["--expires", "2s"]);
    let client =
        eventually("the key is known", || Some(made.client(&server)).filter(|client| super::looks(client) == 200));
    let turn = waiting_turn(&client);
    assert_eq!(ended(watch(&client, &turn, "")), Ended::Broken);
}
