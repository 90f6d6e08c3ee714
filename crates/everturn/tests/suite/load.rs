//! Many sessions at once, and more than there may be.

use std::{collections::HashSet, sync::Arc, thread};

use serde_json::json;

use super::harness::{Client, Gate, Home, Reply, eventually, script, shared, shared_config};

/// Runs three turns of one session, each in another mode, and checks that all of it is its own.
fn converse(client: &Client, number: usize) -> String {
    let say = |turn: usize| format!("session {number} turn {turn} likes tea");
    let heard = |turn: usize| format!("You said “{}”.", say(turn));
    let body = |turn: usize, mode: &str| {
        json!({
            "agent": { "name": "demo" },
            "stream": mode,
            "messages": [{ "role": "user", "content": say(turn) }],
        })
        .to_string()
    };
    let made = client.send("PUT", "/session", &body(0, "delta"));
    assert_eq!(made.status, 200, "{made:?}");
    let path = format!("/session/{}", made.header("x-session-id"));
    let deltas = made.body.lines().filter_map(|line| line.strip_prefix(r#"data: {"delta":""#));
    let text: String = deltas.map(|delta| delta.trim_end_matches(r#""}"#)).collect();
    assert!(text.starts_with(&heard(0)), "{made:?}");
    let message = client.send("POST", &path, &body(1, "message"));
    assert!(message.body.contains(&format!(r#"data: {{"text":"{}"#, heard(1))), "{message:?}");
    let whole = client.send("POST", &path, &body(2, "none")).json();
    assert!(whole["messages"][0]["content"].as_str().unwrap().starts_with(&heard(2)), "{whole}");
    let shown = client.send("GET", &path, "").json();
    let history = shown["history"]["full"].as_array().unwrap();
    assert_eq!(history.len(), 6, "{shown}");
    for (turn, pair) in history.chunks(2).enumerate() {
        assert_eq!(pair[0]["content"], say(turn).as_str());
        assert!(pair[1]["content"].as_str().unwrap().starts_with(&heard(turn)), "{shown}");
    }
    path
}

#[test]
fn a_hundred_sessions_at_once() {
    let shared = shared();
    let client = Arc::new(shared.client("crowd"));
    let threads: Vec<_> = (0..100)
        .map(|number| {
            let client = Arc::clone(&client);
            thread::spawn(move || converse(&client, number))
        })
        .collect();
    let paths: HashSet<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(paths.len(), 100);
}

/// Of many turns for one session at the same moment one is taken; the others are refused and leave nothing.
#[test]
fn one_session_called_by_many() {
    const CALLERS: usize = 20;
    let shared = shared();
    let client = shared.client("crowd");
    let gate = Gate::default();
    script("load-race", [Reply::says(&["Ready."]), Reply::new().text("Taken").hold(&gate).stops()]);
    let body = r#"{"agent":{"name":"scripted"},"messages":[{"role":"user","content":"play load-race"}]}"#;
    let made = client.send("PUT", "/session", body);
    let path = format!("/session/{}", made.header("x-session-id"));
    let callers: Vec<_> = (0..CALLERS)
        .map(|number| {
            let (client, path) = (client.clone(), path.clone());
            thread::spawn(move || {
                let body = json!({ "stream": "delta", "messages": [{ "role": "user", "content": format!("caller {number}") }] });
                let stream = client.open("POST", &path, &body.to_string());
                (number, stream)
            })
        })
        .collect();
    let answers: Vec<_> = callers.into_iter().map(|caller| caller.join().unwrap()).collect();
    let (taken, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(_, stream)| stream.status() == 200);
    assert_eq!((taken.len(), refused.len()), (1, CALLERS - 1));
    assert!(refused.iter().all(|(_, stream)| stream.status() == 409));
    gate.open();
    let history = eventually("the turn ends", || {
        let shown = client.send("GET", &path, "").json();
        (shown["history"]["full"].as_array().unwrap().len() == 4).then_some(shown)
    });
    assert_eq!(history["history"]["full"][2]["content"], format!("caller {}", taken[0].0).as_str());
}

/// Whatever is done to one session at the same time, everybody gets an answer that makes sense.
#[test]
fn everything_at_once() {
    let shared = shared();
    let client = shared.client("crowd");
    for _ in 0..5 {
        let path = format!("/session/{}", client.send("PUT", "/session", QUICK).header("x-session-id"));
        let turn =
            |mode| json!({ "stream": mode, "messages": [{ "role": "user", "content": "stream 50" }] }).to_string();
        let answer = r#"{"messages":[{"role":"tool","toolCallId":"c","content":"?"}]}"#.to_owned();
        let calls = [
            ("POST", turn("delta")),
            ("POST", turn("none")),
            ("GET", String::new()),
            ("POST", answer),
            ("DELETE", String::new()),
        ];
        let threads: Vec<_> = (0..20)
            .map(|number| {
                let (client, path, (method, body)) =
                    (client.clone(), path.clone(), calls[number % calls.len()].clone());
                thread::spawn(move || client.send(method, &path, &body))
            })
            .collect();
        let answers: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(answers.iter().any(|answer| answer.status == 204), "it is deleted");
        for answer in &answers {
            assert!(matches!(answer.status, 200 | 204 | 400 | 404 | 409), "{answer:?}");
            if answer.status >= 400 {
                answer.error();
            }
            if answer.header("content-type") == "text/event-stream" {
                assert_eq!(answer.body.matches("event: turn_stop").count(), 1, "{answer:?}");
            }
        }
        assert_eq!(client.send("GET", &path, "").status, 404);
    }
}

/// A reader that does not read slows nobody, and misses nothing.
#[test]
fn a_reader_that_falls_behind() {
    const WORDS: usize = 60_000;
    let shared = shared();
    let client = shared.client("crowd");
    let body = json!({
        "agent": { "name": "demo" },
        "stream": "delta",
        "messages": [{ "role": "user", "content": format!("stream {WORDS}") }],
    });
    let mut stream = client.open("PUT", "/session", &body.to_string());
    let path = format!("/session/{}", stream.header("x-session-id"));
    stream.until("word 1 ");
    let history = eventually("the turn ends without its reader", || {
        let shown = client.send("GET", &path, "").json();
        (shown["history"]["full"].as_array().unwrap().len() == 2)
            .then(|| shown["history"]["full"][1]["content"].clone())
    });
    assert!(history.as_str().unwrap().ends_with(&format!("word {WORDS} ")));
    for word in 2..=WORDS {
        let frame = stream.next().unwrap();
        assert_eq!(frame, format!("event: text_delta\nid: {}\ndata: {{\"delta\":\"word {word} \"}}", word + 2));
    }
    let (frames, ended) = stream.rest();
    assert_eq!((frames.len(), ended), (1, super::harness::Ended::Cleanly), "{frames:?}");
}

fn held(client: &Client, name: &str) -> (super::harness::Streaming, Gate) {
    let gate = Gate::default();
    script(name, [Reply::new().text("Busy").hold(&gate).stops()]);
    let body = json!({
        "agent": { "name": "scripted" },
        "stream": "delta",
        "messages": [{ "role": "user", "content": format!("play {name}") }],
    });
    let mut stream = client.open("PUT", "/session", &body.to_string());
    stream.until("Busy");
    (stream, gate)
}

const QUICK: &str = r#"{"agent":{"name":"demo"},"messages":[{"role":"user","content":"stream 1"}]}"#;

#[test]
fn more_turns_than_may_run_are_refused() {
    let home = Home::new(&shared_config("concurrent_turns = 1\nqueued_turns = 0"));
    let server = home.start();
    let client = server.client();
    let waiting = json!({
        "agent": { "name": "demo" },
        "tools": [{ "name": "ask", "description": "", "inputSchema": {} }],
        "messages": [{ "role": "user", "content": "ask" }],
    });
    let waiting = client.send("PUT", "/session", &waiting.to_string());
    let path = format!("/session/{}", waiting.header("x-session-id"));
    let before = client.send("GET", &path, "").json();
    let call = &waiting.json()["messages"][0]["content"][1]["toolCallId"];
    let after = json!({ "messages": [{ "role": "tool", "toolCallId": call, "content": "yes" }] }).to_string();
    let (mut stream, gate) = held(&client, "load-full");
    let refused = client.send("POST", &path, &after);
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(client.send("GET", &path, "").json(), before, "nothing was consumed");
    let refused = client.send("PUT", "/session", QUICK);
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.header("retry-after"), "2");
    assert!(refused.error().starts_with("1 turns are running, which is the limit"), "{refused:?}");
    assert_eq!(client.send("GET", "/sessions", "").json()["sessions"].as_array().unwrap().len(), 2, "nothing was made");
    // Reading needs no slot.
    assert_eq!(client.send("GET", &format!("/session/{}", stream.header("x-session-id")), "").status, 200);
    gate.open();
    stream.rest();
    let answer =
        eventually("the slot is free", || Some(client.send("PUT", "/session", QUICK)).filter(|a| a.status != 503));
    assert_eq!(answer.status, 201, "{answer:?}");
    let answer =
        eventually("the slot is free", || Some(client.send("POST", &path, &after)).filter(|a| a.status != 503));
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn a_queued_turn_runs_when_there_is_room() {
    let home = Home::new(&shared_config("concurrent_turns = 1\nqueued_turns = 1"));
    let server = home.start();
    let client = server.client();
    let (_stream, gate) = held(&client, "load-queue");
    let queued = thread::spawn({
        let client = client.clone();
        move || client.send("PUT", "/session", QUICK)
    });
    // Once one waits, the next is refused at once.
    let refused = eventually("the queue is full", || {
        let metrics = client.send("GET", "/metrics", "").body;
        metrics
            .lines()
            .any(|line| line.contains("queued") && line.ends_with(" 1"))
            .then(|| client.send("PUT", "/session", QUICK))
    });
    assert_eq!(refused.status, 503, "{refused:?}");
    gate.open();
    let answer = queued.join().unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
}

#[test]
fn a_queued_turn_does_not_wait_for_ever() {
    let home = Home::new(&shared_config("concurrent_turns = 1\nqueued_turns = 5\nqueue_timeout = '50ms'"));
    let server = home.start();
    let client = server.client();
    let (_stream, gate) = held(&client, "load-patience");
    let refused = client.send("PUT", "/session", QUICK);
    assert_eq!((refused.status, refused.header("retry-after")), (503, "2"), "{refused:?}");
    gate.open();
}
