//! Two keys that race for one quota, through every dialect.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::{create, home};
use crate::suite::harness::{Client, Ended, Gate, Reply, asked, eventually, script};

/// How many turns the tenant may have running.
const LIMIT: usize = 3;
/// How often each key says something in each dialect.
const ROUNDS: usize = 2;

/// A way to run a turn.
#[derive(Clone, Copy, Debug)]
struct Way {
    method: &'static str,
    path: &'static str,
    body: fn(&str) -> Value,
}

fn said(text: &str) -> Value {
    json!({ "role": "user", "created": 1, "content": [{ "type": "text", "text": text }] })
}

const WAYS: [Way; 6] = [
    Way {
        method: "PUT",
        path: "/session",
        body: |text| json!({ "agent": { "name": "scripted" }, "stream": "delta", "messages": [{ "role": "user", "content": text }] }),
    },
    Way {
        method: "POST",
        path: "/api/v1/sessions/stream",
        body: |text| json!({ "agent_id": "scripted", "message": text }),
    },
    Way { method: "POST", path: "/reply", body: |text| json!({ "agent": "scripted", "user_message": said(text) }) },
    Way {
        method: "POST",
        path: "/goose/reply",
        body: |text| json!({ "agent": "scripted", "session_id": format!("race-{}", everturn_core::SessionId::mint()), "user_message": said(text) }),
    },
    Way {
        method: "POST",
        path: "/v1/chat/completions",
        body: |text| json!({ "model": "scripted", "stream": true, "messages": [{ "role": "user", "content": text }] }),
    },
    Way {
        method: "POST",
        path: "/v1/chat/completions",
        body: |text| json!({ "model": "scripted", "messages": [{ "role": "user", "content": text }] }),
    },
];

impl Way {
    /// Tries until it is let in, and reads to the end. Counts how often it was refused.
    fn go(&self, client: &Client, refused: &AtomicUsize) {
        let body = (self.body)("play race").to_string();
        let mut answer = eventually("there is room", || {
            let mut answer = client.open(self.method, self.path, &body);
            if answer.status() != 429 {
                return Some(answer);
            }
            assert_eq!(answer.header("retry-after"), "1", "{self:?}");
            let told = answer.whole();
            let expected = format!("this tenant may have {LIMIT} turns running at once");
            assert!(told.contains(&expected), "{self:?}: {told}");
            refused.fetch_add(1, Ordering::Relaxed);
            None
        });
        assert!((200..300).contains(&answer.status()), "{self:?}: {} {}", answer.status(), answer.whole());
        let told = if self.path.ends_with("/sessions/stream") {
            let told: Value = serde_json::from_str(&answer.whole()).unwrap();
            let (session, turn) = (told["session_id"].as_str().unwrap(), told["message_id"].as_str().unwrap());
            let mut stream = client.open("GET", &format!("/api/v1/sessions/{session}/messages/{turn}/stream"), "");
            let (frames, ended) = stream.rest();
            assert_eq!(ended, Ended::Cleanly);
            frames.concat()
        } else {
            answer.whole()
        };
        assert!(told.contains("Done."), "{self:?}: {told}");
    }
}

#[test]
fn two_keys_racing_one_quota() {
    let home = home(&format!("[tenants.acme]\nquota = {{ concurrent_turns = {LIMIT} }}\n"));
    let keys = [0, 1].map(|_| create(&home, &["--tenant", "acme"]));
    let server = home.start();
    let turns = keys.len() * WAYS.len() * ROUNDS;
    let gates: Vec<Gate> = (0..turns.div_ceil(LIMIT)).map(|_| Gate::default()).collect();
    // The first that are let in wait at the first gate, and so on.
    script("race", (0..turns).map(|turn| Reply::new().text("Done.").hold(&gates[turn / LIMIT]).stops()));
    let refused = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for way in WAYS.iter().cycle().take(WAYS.len() * ROUNDS) {
            for key in &keys {
                let client = key.client(&server);
                let refused = &refused;
                scope.spawn(move || way.go(&client, refused));
            }
        }
        for (round, gate) in gates.iter().enumerate() {
            let running = (LIMIT * (round + 1)).min(turns);
            eventually("as many run as may", || (asked("race").len() >= running).then_some(()));
            // Those who are left keep trying; none of them gets in.
            let before = refused.load(Ordering::Relaxed);
            if running < turns {
                eventually("others are refused", || (refused.load(Ordering::Relaxed) > before + 20).then_some(()));
            }
            assert_eq!(asked("race").len(), running, "no more than {LIMIT} run at once");
            gate.open();
        }
    });
    assert_eq!(asked("race").len(), turns, "none is lost, and none ran twice");
}

/// A key's own quota is not the tenant's, and a turn that waits for a person does not count.
#[test]
fn a_keys_own_quota() {
    let home = home("");
    let (one, two) = (create(&home, &["--concurrent-turns", "1"]), create(&home, &[]));
    let server = home.start();
    let gate = Gate::default();
    script("own", (0..3).map(|_| Reply::new().text("Well").hold(&gate).stops()));
    let go = |client: &Client| {
        let body = json!({ "agent_id": "scripted", "message": "play own" }).to_string();
        client.send("POST", "/api/v1/sessions/stream", &body)
    };
    assert_eq!(go(&one.client(&server)).status, 202);
    let told = go(&one.client(&server));
    assert_eq!((told.status, told.header("retry-after")), (429, "1"));
    assert_eq!(
        told.json()["detail"],
        json!({
            "code": "QUOTA_EXCEEDED",
            "message": "this key may have 1 turn running at once, and has; try again when one has ended",
        })
    );
    assert_eq!((go(&two.client(&server)).status, go(&two.client(&server)).status), (202, 202));
    gate.open();
    script("own-next", []);
    eventually("its turn ends", || {
        let body = json!({ "agent_id": "demo", "message": "stream 1" }).to_string();
        let answer = one.client(&server).send("POST", "/api/v1/sessions/stream", &body);
        (answer.status == 202).then_some(())
    });
}
