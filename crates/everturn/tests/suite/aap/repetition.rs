//! `Idempotency-Key`: a request that is sent again has no second effect.

use crate::suite::harness::{Answer, Client, Home, shared, shared_config};

fn send(client: &Client, key: &str, method: &str, path: &str, body: &str) -> Answer {
    client.send_with(method, path, &[("content-type", "application/json"), ("idempotency-key", key)], body.to_owned())
}

fn sessions(client: &Client) -> usize {
    client.send("GET", "/sessions", "").json()["sessions"].as_array().unwrap().len()
}

#[test]
fn a_repeated_request_gets_the_same_turn() {
    let home = Home::new(&shared_config(""));
    let mut server = home.start();
    let client = server.client();
    let create = r#"{"agent":{"name":"demo"},"stream":"delta","messages":[{"role":"user","content":"stream 5"}]}"#;
    let first = send(&client, "create-1", "PUT", "/session", create);
    let again = send(&client, "create-1", "PUT", "/session", create);
    assert_eq!(again.body, first.body, "the same frames");
    assert_eq!(again.header("x-message-id"), first.header("x-message-id"));
    assert_eq!(sessions(&client), 1);

    let path = format!("/session/{}", first.header("x-session-id"));
    let turn = r#"{"messages":[{"role":"user","content":"refuse"}]}"#;
    let first = send(&client, "turn-1", "POST", &path, turn);
    // Across a crash too.
    server.kill();
    let server = home.start();
    let client = server.client();
    let again = send(&client, "turn-1", "POST", &path, turn);
    assert_eq!(again.json(), first.json());
    let history = client.send("GET", &format!("{path}?history=full"), "").json();
    assert_eq!(history["history"]["full"].as_array().unwrap().len(), 4, "{history}");

    let other = send(&client, "turn-1", "POST", &path, r#"{"messages":[{"role":"user","content":"other"}]}"#);
    assert_eq!(other.status, 409, "{other:?}");
    assert!(other.error().contains("was used for another request"), "{other:?}");

    assert_eq!(client.send("DELETE", &path, "").status, 204);
    assert_eq!(send(&client, "turn-1", "POST", &path, turn).status, 404, "what was deleted stays deleted");
    let gone = send(&client, "create-1", "PUT", "/session", create);
    assert_eq!(gone.status, 409, "{gone:?}");
    assert!(gone.error().contains("has been deleted since; send a new key"), "{gone:?}");
}

#[test]
fn a_repetition_while_the_turn_runs_joins_it() {
    let shared = shared();
    let client = shared.client("acme");
    let body =
        r#"{"agent":{"name":"demo"},"stream":"delta","messages":[{"role":"user","content":"stream 40 at 100/s"}]}"#;
    let answers: Vec<_> = std::thread::scope(|scope| {
        let requests: Vec<_> =
            (0..4).map(|_| scope.spawn(|| send(&client, "joined", "PUT", "/session", body))).collect();
        requests.into_iter().map(|request| request.join().unwrap()).collect()
    });
    for answer in &answers {
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.body, answers[0].body, "four readers of one turn");
    }
}

#[test]
fn answers_to_calls_can_be_repeated_and_others_have_keys_of_their_own() {
    let shared = shared();
    let client = shared.client("acme");
    let create =
        r#"{"agent":{"name":"demo","tools":[{"name":"clock"}]},"messages":[{"role":"user","content":"use clock"}]}"#;
    let created = send(&client, "same-word", "PUT", "/session", create);
    let call = created.json()["messages"][0]["content"][1]["toolCallId"].as_str().unwrap().to_owned();
    let path = format!("/session/{}", created.header("x-session-id"));
    let grant = format!(r#"{{"messages":[{{"role":"tool_permission","toolCallId":"{call}","granted":true}}]}}"#);
    let first = send(&client, "grant", "POST", &path, &grant);
    assert_eq!(first.status, 200, "{first:?}");
    assert_eq!(send(&client, "grant", "POST", &path, &grant).json(), first.json(), "the tool ran once");
    assert_eq!(send(&client, "grant-2", "POST", &path, &grant).status, 409, "another key is another submission");
    let bob = shared.client("bob");
    let created = send(&bob, "same-word", "PUT", "/session", create);
    assert_eq!(created.status, 201, "{created:?}");
    let bad = send(&client, "two words", "PUT", "/session", create);
    assert_eq!(bad.status, 400, "{bad:?}");
}
