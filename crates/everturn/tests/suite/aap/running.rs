//! What can be done while a turn runs.

use serde_json::json;

use crate::suite::harness::{Client, Ended, Gate, Reply, Streaming, eventually, script, shared};

/// A session whose turn has said "Once" and then waits.
fn running(client: &Client, name: &str, then: &[Reply]) -> (Streaming, String, Gate) {
    let gate = Gate::default();
    let first = Reply::new().text("Once").hold(&gate).text(" upon a time.").stops();
    script(name, std::iter::once(first).chain(then.iter().cloned()));
    let body = json!({
        "agent": { "name": "scripted" },
        "stream": "delta",
        "messages": [{ "role": "user", "content": format!("play {name}") }],
    });
    let mut stream = client.open("PUT", "/session", &body.to_string());
    stream.until("Once");
    let path = format!("/session/{}", stream.header("x-session-id"));
    (stream, path, gate)
}

const MESSAGE: &str = r#"{"messages":[{"role":"user","content":"hello?"}]}"#;

/// A client knows at once that its turn has begun, however long the model takes.
#[test]
fn the_beginning_is_told_at_once() {
    let shared = shared();
    let client = shared.client("acme");
    let gate = Gate::default();
    script("running-begin", [Reply::new().hold(&gate).text("At last.").stops()]);
    let body = r#"{"agent":{"name":"scripted"},"stream":"message","messages":[{"role":"user","content":"play running-begin"}]}"#;
    let mut stream = client.open("PUT", "/session", body);
    assert!(stream.next().unwrap().starts_with("event: session_start\n"));
    assert!(stream.next().unwrap().starts_with("event: turn_start\n"));
    gate.open();
    let (frames, ended) = stream.rest();
    assert_eq!((frames.len(), ended), (2, Ended::Cleanly), "{frames:?}");
}

#[test]
fn a_second_turn_is_a_conflict_and_changes_nothing() {
    let shared = shared();
    let client = shared.client("acme");
    let (mut stream, path, gate) = running(&client, "running-conflict", &[Reply::says(&["The end."])]);
    let before = client.send("GET", &path, "").json();
    assert_eq!(before["history"]["full"], json!([{ "role": "user", "content": "play running-conflict" }]));
    for body in [
        MESSAGE,
        r#"{"stream":"delta","agent":{"options":{"nickname":"Bo"}},"messages":[{"role":"user","content":"hello?"}]}"#,
        r#"{"messages":[{"role":"tool","toolCallId":"c","content":"?"}]}"#,
    ] {
        let refused = client.send("POST", &path, body);
        assert_eq!(refused.status, 409, "{refused:?}");
        assert_eq!(refused.error(), "a turn is running in this session; wait until it ends, then send this again");
    }
    assert_eq!(client.send("GET", &path, "").json(), before);
    gate.open();
    let (frames, ended) = stream.rest();
    assert_eq!(ended, Ended::Cleanly);
    assert!(frames.last().unwrap().contains("end_turn"), "{frames:?}");
    // Once it has ended, the next may come at once.
    let answer = client.send("POST", &path, MESSAGE);
    assert_eq!(answer.json()["messages"][0]["content"], "The end.", "{answer:?}");
    let history = client.send("GET", &path, "").json();
    assert_eq!(history["history"]["full"].as_array().unwrap().len(), 4, "{history}");
}

#[test]
fn deleting_cancels_the_turn() {
    let shared = shared();
    let client = shared.client("acme");
    let (mut stream, path, gate) = running(&client, "running-delete", &[]);
    assert_eq!(client.send("DELETE", &path, "").status, 204);
    let (frames, ended) = stream.rest();
    assert_eq!(ended, Ended::Cleanly);
    let stops: Vec<_> = frames.iter().filter(|frame| frame.starts_with("event: turn_stop")).collect();
    assert_eq!(stops.len(), 1, "{frames:?}");
    assert!(frames.last().unwrap().ends_with(r#"data: {"stopReason":"error"}"#), "{frames:?}");
    for (method, body) in [("GET", ""), ("POST", MESSAGE), ("DELETE", "")] {
        assert_eq!(client.send(method, &path, body).status, 404);
    }
    gate.open();
    let listed = client.send("GET", "/sessions", "");
    assert!(!listed.body.contains(path.trim_start_matches("/session/")));
}

/// Who waits for the whole answer is told too.
#[test]
fn deleting_answers_those_who_wait() {
    let shared = shared();
    let client = shared.client("acme");
    let gate = Gate::default();
    script("running-delete-none", [Reply::says(&["Hello."]), Reply::new().text("Once").hold(&gate).stops()]);
    let body = r#"{"agent":{"name":"scripted"},"messages":[{"role":"user","content":"play running-delete-none"}]}"#;
    let path = format!("/session/{}", client.send("PUT", "/session", body).header("x-session-id"));
    let waiting = std::thread::spawn({
        let (client, path) = (client.clone(), path.clone());
        move || client.send("POST", &path, MESSAGE)
    });
    eventually("the turn runs", || {
        let shown = client.send("GET", &path, "").json();
        (shown["history"]["full"].as_array().unwrap().len() == 3).then_some(())
    });
    assert_eq!(client.send("DELETE", &path, "").status, 204);
    let answer = waiting.join().unwrap();
    assert_eq!((answer.status, &answer.json()["stopReason"]), (200, &json!("error")), "{answer:?}");
    gate.open();
}

#[test]
fn deleting_a_waiting_session() {
    script("running-waiting", [Reply::calls(&[("get_weather", json!({}))])]);
    let shared = shared();
    let client = shared.client("acme");
    let body = json!({
        "agent": { "name": "scripted" },
        "tools": [{ "name": "get_weather", "description": "", "inputSchema": {} }],
        "messages": [{ "role": "user", "content": "play running-waiting" }],
    });
    let made = client.send("PUT", "/session", &body.to_string()).json();
    assert_eq!(made["stopReason"], "tool_use");
    let path = format!("/session/{}", made["sessionId"].as_str().unwrap());
    assert_eq!(client.send("DELETE", &path, "").status, 204);
    assert_eq!(client.send("GET", &path, "").status, 404);
}

/// A disconnect is not a cancel: the answer is in history later.
#[test]
fn a_client_that_goes_away_cancels_nothing() {
    let shared = shared();
    let client = shared.client("acme");
    let (stream, path, gate) = running(&client, "running-gone", &[]);
    drop(stream);
    gate.open();
    let history = eventually("the turn ends", || {
        let history = client.send("GET", &path, "").json()["history"]["full"].clone();
        (history.as_array().unwrap().len() == 2).then_some(history)
    });
    assert_eq!(history[1], json!({ "role": "assistant", "content": "Once upon a time." }));
}

#[test]
fn nor_does_one_that_waits_for_the_whole_answer() {
    let shared = shared();
    let client = shared.client("crowd");
    let gate = Gate::default();
    script("running-none-gone", [Reply::new().hold(&gate).text("Here.").stops()]);
    let body = r#"{"agent":{"name":"scripted"},"messages":[{"role":"user","content":"play running-none-gone"}]}"#;
    let request = format!(
        "PUT /session HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        crate::suite::harness::key("crowd"),
        body.len()
    );
    let mut socket = std::net::TcpStream::connect(client.address).unwrap();
    std::io::Write::write_all(&mut socket, request.as_bytes()).unwrap();
    let id = eventually("the session is there", || {
        let listed = client.send("GET", "/sessions", "").json();
        let ids = listed["sessions"].as_array().unwrap().clone();
        ids.iter()
            .map(|id| id.as_str().unwrap().to_owned())
            .find(|id| client.send("GET", &format!("/session/{id}"), "").body.contains("running-none-gone"))
    });
    drop(socket);
    gate.open();
    let path = format!("/session/{id}");
    eventually("the turn ends", || client.send("GET", &path, "").body.contains("Here.").then_some(()));
}
