//! Stopping in good order.

use std::time::Duration;

use serde_json::json;

use super::harness::{Client, Ended, Gate, Home, Reply, Streaming, eventually, script, shared_config};

/// Longer than this a stop may not take.
const LIMIT: Duration = Duration::from_secs(10);

fn open(client: &Client, stream: &str, message: &str) -> Streaming {
    let agent = if message.starts_with("play") { "scripted" } else { "demo" };
    let body = json!({
        "agent": { "name": agent },
        "stream": stream,
        "messages": [{ "role": "user", "content": message }],
    });
    client.open("PUT", "/session", &body.to_string())
}

/// Streams end cleanly, without an end of the turn that there was not, and the next start goes on.
#[test]
fn with_readers_connected() {
    let home = Home::new(&shared_config("shutdown_grace = '200ms'"));
    let mut server = home.start();
    let client = server.client();
    let mut streams: Vec<_> = ["delta", "delta", "message"].map(|mode| open(&client, mode, "stream 80 at 40/s")).into();
    streams[0].until("word 1 ");
    let whole = std::thread::spawn({
        let client = client.clone();
        move || {
            client.send(
                "PUT",
                "/session",
                r#"{"agent":{"name":"demo"},"messages":[{"role":"user","content":"stream 80 at 40/s"}]}"#,
            )
        }
    });
    eventually("all turns run", || {
        let listed = client.send("GET", "/sessions", "").json();
        (listed["sessions"].as_array().unwrap().len() == 4).then_some(())
    });
    // A connection that nobody uses does not hold the server up.
    let idle = std::net::TcpStream::connect(server.address).unwrap();
    server.terminate();
    for stream in &mut streams {
        let (frames, ended) = stream.rest();
        assert_eq!(ended, Ended::Cleanly);
        assert!(!frames.iter().any(|frame| frame.contains("turn_stop")), "the turn is not over: {frames:?}");
    }
    let answer = whole.join().unwrap();
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(answer.header("retry-after"), "2");
    assert!(answer.error().contains("the turn goes on after its restart"), "{answer:?}");
    let (status, took) = server.ended();
    assert!(status.success() && took < LIMIT, "{status} after {took:?}");
    drop(idle);

    let server = home.start();
    let client = server.client();
    let expected: String = (1..=80).map(|n| format!("word {n} ")).collect();
    let sessions = streams.iter().map(|stream| stream.header("x-session-id").to_owned());
    for session in sessions.chain([answer.header("x-session-id").to_owned()]) {
        eventually("the turn ends", || {
            let shown = client.send("GET", &format!("/session/{session}"), "").json();
            let full = shown["history"]["full"].as_array().unwrap();
            (full.len() == 2 && full[1]["content"] == expected.as_str()).then_some(())
        });
    }
}

/// A step that ends within the grace period ends its turn as always.
#[test]
fn a_step_may_finish() {
    let home = Home::new(&shared_config("shutdown_grace = '20s'"));
    let mut server = home.start();
    let gate = Gate::default();
    script("shutdown-finish", [Reply::new().text("Nearly").hold(&gate).text(" done.").stops()]);
    let client = server.client();
    let mut stream = open(&client, "delta", "play shutdown-finish");
    stream.until("Nearly");
    server.terminate();
    eventually("the server stops", || home.log().contains("stopping").then_some(()));
    gate.open();
    let (frames, ended) = stream.rest();
    assert_eq!(ended, Ended::Cleanly);
    assert!(frames.last().unwrap().ends_with(r#"data: {"stopReason":"end_turn"}"#), "{frames:?}");
    let (status, took) = server.ended();
    assert!(status.success() && took < LIMIT, "{status} after {took:?}");
}
