//! Kills the server in the middle of things, at any point, and starts it again on what it left.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::harness::{Client, Home, eventually, shared_config};

/// How often the server is killed.
const KILLS: usize = 12;

/// Numbers that look random; the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 32) % limit
    }
}

/// A configuration whose commits survive more than these tests can do, and an agent that takes its time.
fn config() -> String {
    let paced = "[[agents]]\nname = 'paced'\nmodel = 'demo/assistant'\ntools = ['clock', 'calculator']\n";
    shared_config("").replace("durability = 'process'", "durability = 'fsync'") + paced
}

/// What a client saw of a session's first turn before the server died.
#[derive(Debug, Default)]
struct Seen {
    session: String,
    text: String,
    calls: Vec<Value>,
    results: HashMap<String, Value>,
    stopped: bool,
}

impl Seen {
    fn take(&mut self, frame: &str) {
        let Some(data) = frame.lines().find_map(|line| line.strip_prefix("data: ")) else { return };
        let data: Value = serde_json::from_str(data).unwrap();
        match frame.lines().next().unwrap() {
            "event: text_delta" => self.text.push_str(data["delta"].as_str().unwrap()),
            "event: tool_call" => self.calls.push(data),
            "event: tool_result" => {
                let id = data["toolCallId"].as_str().unwrap().to_owned();
                let before = self.results.insert(id, data["content"].clone());
                assert_eq!(before, None, "a call has one result: {frame}");
            }
            "event: turn_stop" => self.stopped = true,
            _ => {}
        }
    }
}

const MESSAGE: &str = r#"calculator {"expression":"6*7"} clock calculator {"expression":"1+1"}"#;

/// Begins a turn that calls three tools and reads this many frames of it.
fn begin(client: &Client, frames: u64) -> Seen {
    let tools = json!([{ "name": "calculator", "trust": true }, { "name": "clock", "trust": true }]);
    let body = json!({
        "agent": { "name": "paced", "tools": tools },
        "stream": "delta",
        "messages": [{ "role": "user", "content": MESSAGE }],
    });
    let mut stream = client.open("PUT", "/session", &body.to_string());
    let mut seen = Seen { session: stream.header("x-session-id").to_owned(), ..Seen::default() };
    for _ in 0..frames {
        match stream.next() {
            Ok(frame) => seen.take(&frame),
            Err(_) => break,
        }
    }
    seen
}

/// The history of a session whose turn is over.
fn history(client: &Client, session: &str) -> Vec<Value> {
    eventually("the turn rests", || {
        let shown = client.send("GET", &format!("/session/{session}"), "");
        assert_eq!(shown.status, 200, "what was acknowledged is kept: {shown:?}");
        let full = shown.json()["history"]["full"].as_array().unwrap().clone();
        full.last().is_some_and(|last| last["role"] == "assistant" && last["content"].is_string()).then_some(full)
    })
}

#[track_caller]
fn check_history(history: &[Value], seen: &Seen) {
    let roles: Vec<_> = history.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "tool", "assistant"], "{history:#?}");
    assert_eq!(history[0]["content"], MESSAGE);
    let blocks = history[1]["content"].as_array().unwrap();
    let calls: Vec<_> = blocks.iter().filter(|block| block["type"] == "tool_use").collect();
    assert_eq!(calls.len(), 3);
    for (call, result) in calls.iter().zip(&history[2..5]) {
        assert_eq!(call["toolCallId"], result["toolCallId"], "each call is answered once, in order");
    }
    assert_eq!((&history[2]["content"], &history[4]["content"]), (&json!("42"), &json!("2")));
    // What was seen is there, word by word.
    let said = format!("{}{}", blocks[0]["text"].as_str().unwrap(), history[5]["content"].as_str().unwrap());
    assert!(said.starts_with(&seen.text), "{said:?} does not begin with {:?}", seen.text);
    for (seen, kept) in seen.calls.iter().zip(&calls) {
        for field in ["toolCallId", "name", "input"] {
            assert_eq!(seen[field], kept[field], "a call that was seen is kept");
        }
    }
    for (id, content) in &seen.results {
        let kept = history.iter().find(|message| message["toolCallId"] == id.as_str()).unwrap();
        assert_eq!(kept["content"], *content, "a result that was seen is kept");
    }
    if seen.stopped {
        assert_eq!(said, seen.text, "an answer that was seen whole is whole");
    }
}

#[test]
fn killed_at_any_point_every_turn_ends_once_and_keeps_what_was_seen() {
    let seed = std::env::var("EVERTURN_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_115);
    println!("EVERTURN_TEST_SEED={seed}");
    let mut dice = Dice(seed);
    let home = Home::new(&config());
    let mut sessions = Vec::new();
    for _ in 0..KILLS {
        let mut server = home.start();
        let client = server.client();
        // A stream has about 45 frames. Sessions of earlier rounds go on meanwhile, and are hit again.
        sessions.push(begin(&client, dice.below(8)));
        sessions.push(begin(&client, 1 + dice.below(50)));
        server.kill();
    }
    let server = home.start();
    let client = server.client();
    for seen in &sessions {
        check_history(&history(&client, &seen.session), seen);
    }
    // All of them can be used, and nothing else is there.
    for seen in &sessions {
        let body = r#"{"messages":[{"role":"user","content":"stream 1"}]}"#;
        let answer = client.send("POST", &format!("/session/{}", seen.session), body);
        assert_eq!((answer.status, &answer.json()["stopReason"]), (200, &json!("end_turn")), "{answer:?}");
    }
    let listed = client.send("GET", "/sessions", "").json();
    let listed: Vec<_> = listed["sessions"].as_array().unwrap().iter().rev().map(|id| id.as_str().unwrap()).collect();
    assert_eq!(listed, sessions.iter().map(|seen| seen.session.as_str()).collect::<Vec<_>>());
}

/// One turn that is killed time and again ends all the same, and its text is told once.
#[test]
fn one_turn_killed_again_and_again() {
    let home = Home::new(&config());
    let mut server = home.start();
    let body = json!({
        "agent": { "name": "paced" },
        "stream": "delta",
        "messages": [{ "role": "user", "content": "stream 100 at 100/s" }],
    });
    let mut stream = server.client().open("PUT", "/session", &body.to_string());
    stream.until("word 3 ");
    let session = stream.header("x-session-id").to_owned();
    for _ in 0..3 {
        server.kill();
        server = home.start();
        let busy = server.client().send(
            "POST",
            &format!("/session/{session}"),
            r#"{"messages":[{"role":"user","content":"hi"}]}"#,
        );
        assert_eq!(busy.status, 409, "the turn goes on: {busy:?}");
    }
    let expected: String = (1..=100).map(|n| format!("word {n} ")).collect();
    let history = history(&server.client(), &session);
    assert_eq!(history.len(), 2);
    assert_eq!(history[1]["content"], expected);
}

#[test]
fn waiting_calls_wait_on() {
    let home = Home::new(&config());
    let mut server = home.start();
    let body = json!({
        "agent": { "name": "demo", "tools": [{ "name": "calculator" }] },
        "tools": [{ "name": "get_weather", "description": "", "inputSchema": { "type": "object" } }],
        "messages": [{ "role": "user", "content": r#"get_weather {"location":"Oslo"} calculator {"expression":"6*7"}"# }],
    });
    let made = server.client().send("PUT", "/session", &body.to_string()).json();
    assert_eq!(made["stopReason"], "tool_use", "{made}");
    let path = format!("/session/{}", made["sessionId"].as_str().unwrap());
    let calls = made["messages"][0]["content"].as_array().unwrap();
    let ids: Vec<_> =
        calls.iter().filter(|block| block["type"] == "tool_use").map(|call| &call["toolCallId"]).collect();
    let before = server.client().send("GET", &path, "").json();
    server.kill();

    let mut server = home.start();
    assert_eq!(server.client().send("GET", &path, "").json(), before, "nothing has changed");
    let result = json!({ "role": "tool", "toolCallId": ids[0], "content": "rain" });
    let permission = json!({ "role": "tool_permission", "toolCallId": ids[1], "granted": true });
    let partial = server.client().send("POST", &path, &json!({ "messages": [result] }).to_string());
    assert_eq!(partial.status, 400, "{partial:?}");
    let answers = json!({ "messages": [result, permission] }).to_string();
    let answer = server.client().send("POST", &path, &answers).json();
    assert_eq!(answer["stopReason"], "end_turn", "{answer}");
    assert_eq!(answer["messages"][0]["content"], "42");
    let after = server.client().send("GET", &path, "").json();
    server.kill();

    let server = home.start();
    assert_eq!(server.client().send("GET", &path, "").json(), after);
    assert_eq!(server.client().send("POST", &path, &answers).status, 409, "an answer counts once, also after a crash");
}

#[test]
fn what_was_deleted_stays_deleted() {
    let home = Home::new(&config());
    let mut server = home.start();
    let body =
        json!({ "agent": { "name": "demo" }, "messages": [{ "role": "user", "content": "stream 1" }] }).to_string();
    let gone = server.client().send("PUT", "/session", &body).header("x-session-id").to_owned();
    let kept = server.client().send("PUT", "/session", &body).header("x-session-id").to_owned();
    assert_eq!(server.client().send("DELETE", &format!("/session/{gone}"), "").status, 204);
    server.kill();
    let server = home.start();
    assert_eq!(server.client().send("GET", &format!("/session/{gone}"), "").status, 404);
    assert_eq!(server.client().send("GET", "/sessions", "").json(), json!({ "sessions": [kept] }));
}

/// A session outlives its agent: it can be read and deleted, and a turn that ran ends visibly.
#[test]
fn an_agent_that_is_gone_after_the_crash() {
    let home = Home::new(&config());
    let mut server = home.start();
    let body =
        r#"{"agent":{"name":"paced"},"stream":"delta","messages":[{"role":"user","content":"stream 50 at 50/s"}]}"#;
    let mut stream = server.client().open("PUT", "/session", body);
    stream.until("word 2 ");
    let path = format!("/session/{}", stream.header("x-session-id"));
    server.kill();
    home.configure(&shared_config(""));
    let server = home.start();
    let client = server.client();
    let turn = r#"{"messages":[{"role":"user","content":"hello?"}]}"#;
    let refused = client.send("POST", &path, turn);
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.error().contains("\"paced\" is not configured"), "{refused:?}");
    let shown = client.send("GET", &path, "").json();
    assert_eq!(shown["history"]["full"][0]["content"], "stream 50 at 50/s");
    eventually("the turn ends", || {
        let metrics = client.send("GET", "/metrics", "").body;
        metrics.lines().any(|line| line.starts_with("everturn_turns_ended") && line.ends_with(" 1")).then_some(())
    });
    // It is no ghost: with the agent back, the session takes turns again.
    drop(server);
    home.configure(&config());
    let server = home.start();
    let answer = server.client().send("POST", &path, turn);
    assert_eq!((answer.status, &answer.json()["stopReason"]), (200, &json!("end_turn")), "{answer:?}");
    assert_eq!(server.client().send("DELETE", &path, "").status, 204);
}
