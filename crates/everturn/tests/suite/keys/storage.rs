//! Bytes that a tenant may store.

use serde_json::{Value, json};

use super::{create, home};
use crate::suite::harness::{Answer, Client, Gate, Reply, eventually, script};

const LIMIT: usize = 1_000_000;

fn upload(client: &Client, bytes: usize) -> Answer {
    let text = "x".repeat(bytes);
    let form =
        format!("--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n{text}\r\n--b--\r\n");
    client.send_with("POST", "/api/v1/documents", &[("content-type", "multipart/form-data; boundary=b")], form)
}

fn storage(client: &Client) -> Value {
    client.send("GET", "/api/v1/usage", "").json()["storage"].take()
}

fn used(client: &Client) -> u64 {
    storage(client)["used_bytes"].as_u64().unwrap()
}

/// Waits until the turn that an answer names has come to its end, and gives that turn.
fn ends(client: &Client, said: &Answer) -> Value {
    let turn = format!("/api/v1/sessions/{}/messages/{}", said.header("x-session-id"), said.header("x-message-id"));
    eventually("the turn ends", || {
        let shown = client.send("GET", &turn, "").json();
        (shown["status"] == "completed" || shown["status"] == "failed").then_some(shown)
    })
}

/// Says something to the demo, in a session of its own, and waits until it has answered.
fn say(client: &Client, text: &str) -> u16 {
    let said =
        client.send("POST", "/api/v1/sessions/stream", &json!({ "message": text, "agent_id": "demo" }).to_string());
    if said.status == 202 {
        ends(client, &said);
    }
    said.status
}

#[track_caller]
fn refused(answer: &Answer) -> Value {
    assert_eq!(answer.status, 507, "{answer:?}");
    assert_eq!(answer.header("retry-after"), "", "no waiting helps");
    assert!(
        answer
            .body
            .contains("this tenant may store 1000000 bytes (documents, artifacts and logs, quota.storage) and stores ")
    );
    answer.json()
}

#[test]
fn a_tenant_may_store_so_many_bytes() {
    let home = home(&format!("[tenants.acme]\nquota = {{ storage = {LIMIT} }}\n"));
    let (key, other) = (create(&home, &["--tenant", "acme", "--scope", "admin"]), create(&home, &["--tenant", "bob"]));
    let mut server = home.start();
    let acme = key.client(&server);
    assert_eq!(storage(&acme), json!({ "used_bytes": 0, "limit_bytes": LIMIT }));

    // A document counts with its text, an answer with the log of its turn.
    let first = upload(&acme, 200_000);
    assert_eq!(first.status, 201, "{first:?}");
    let document = used(&acme);
    assert!((400_000..=400_200).contains(&document), "{document}");
    let message = json!({ "message": "stream 1", "agent_id": "demo" }).to_string();
    let said = acme.send("POST", "/api/v1/sessions/stream", &message);
    assert_eq!(said.status, 202, "{said:?}");
    ends(&acme, &said);
    let session = said.header("x-session-id").to_owned();
    let with_turn = used(&acme);
    assert!(with_turn > document, "{with_turn}");

    // One that does not fit is refused, one that does is taken, and a crash forgets nothing.
    assert_eq!(refused(&upload(&acme, LIMIT))["detail"]["code"], "STORAGE_QUOTA_EXCEEDED");
    assert_eq!(used(&acme), with_turn);
    server.kill();
    let server = home.start();
    let acme = key.client(&server);
    assert_eq!(used(&acme), with_turn);
    let left = LIMIT - usize::try_from(with_turn).unwrap();
    assert_eq!(upload(&acme, left - 1000).status, 507, "its text comes on top");
    assert_eq!(upload(&acme, left / 2 - 1000).status, 201);
    assert!(used(&acme) < LIMIT as u64);
    // A turn that is begun in time may go beyond.
    assert_eq!(say(&acme, &"x".repeat(10_000)), 202);
    assert!(used(&acme) > LIMIT as u64);

    // In the words of every dialect.
    assert_eq!(
        refused(&acme.send("POST", "/api/v1/sessions/stream", &message))["detail"]["code"],
        "STORAGE_QUOTA_EXCEEDED"
    );
    let fork = acme.send("POST", &format!("/api/v1/sessions/{session}/fork"), "");
    assert_eq!(refused(&fork)["detail"]["code"], "STORAGE_QUOTA_EXCEEDED");
    let chat = json!({ "model": "demo", "messages": [{ "role": "user", "content": "hi" }] }).to_string();
    assert_eq!(refused(&acme.send("POST", "/v1/chat/completions", &chat))["error"]["code"], "storage_quota_exceeded");
    let aap = json!({ "agent": { "name": "demo" }, "messages": [{ "role": "user", "content": "hi" }] }).to_string();
    assert!(refused(&acme.send("PUT", "/session", &aap))["error"].is_string());
    assert!(refused(&acme.send("POST", "/goose/agent/start", r#"{"working_dir":"/tmp"}"#))["message"].is_string());
    assert_eq!(other.client(&server).send("POST", "/api/v1/sessions/stream", &message).status, 202);

    // What is deleted makes room.
    for document in acme.send("GET", "/api/v1/documents", "").json()["documents"].as_array().unwrap() {
        let path = format!("/api/v1/documents/{}", document["document_id"].as_str().unwrap());
        assert_eq!(acme.send("DELETE", &path, "").status, 204);
    }
    let turns = with_turn - document;
    assert!((turns + 10_000..turns + 100_000).contains(&used(&acme)), "the two turns are left");
    assert_eq!(acme.send("POST", "/api/v1/sessions/stream", &message).status, 202);
}

#[test]
fn a_turn_that_goes_beyond_finishes_its_step_and_fails_in_words() {
    let home = home(&format!("[tenants.acme]\nquota = {{ storage = {LIMIT} }}\n"));
    let key = create(&home, &["--tenant", "acme", "--scope", "admin"]);
    let server = home.start();
    let acme = key.client(&server);
    let gate = Gate::default();
    let first = Reply::new().text("first").hold(&gate).call("clock", "{}").stops();
    script("stores", [first, Reply::says(&["never"])]);
    let message = json!({ "message": "play stores", "agent_id": "scripted" }).to_string();
    let said = acme.send("POST", "/api/v1/sessions/stream", &message);
    assert_eq!(said.status, 202, "{said:?}");
    let turn = format!("/api/v1/sessions/{}/messages/{}", said.header("x-session-id"), said.header("x-message-id"));
    // Another turn takes what is left while this one waits for its model.
    assert_eq!(upload(&acme, 490_000).status, 201);
    assert_eq!(say(&acme, &"x".repeat(30_000)), 202);
    gate.open();
    let ended = ends(&acme, &said);
    assert_eq!(ended["status"], "failed", "{ended}");
    assert_eq!(ended["error"]["code"], "STORAGE_QUOTA_EXCEEDED", "{ended}");
    let text = ended.to_string();
    assert!(text.contains("first") && !text.contains("never"), "{ended}");
    // Its log is whole.
    let events = acme.send("GET", &format!("{turn}/stream"), "").body;
    assert!(
        events.contains("STORAGE_QUOTA_EXCEEDED") && events.contains("this tenant may store 1000000 bytes"),
        "{events}"
    );
}

#[test]
fn a_key_has_no_storage_of_its_own() {
    let home = home("[quotas]\nkey = { storage = 1000 }\n");
    let checked = home.run(&["config", "check"]);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned() + &String::from_utf8_lossy(&checked.stdout);
    assert!(
        !checked.status.success() && said.contains("`storage` is counted for a tenant as a whole, not for a key"),
        "{said}"
    );
}
