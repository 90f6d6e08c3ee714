//! Property-based tests of every operation, made from the document by Schemathesis: requests that are as the document
//! says and requests that are not, and what the document says of the answers.
//!
//! Everything is bounded, and nothing is left to chance: the same requests come each time. A case that fails is printed
//! with the command that repeats it.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use super::super::harness::{Client, Home, Server, eventually, key};

/// How long it may take on a machine that has other things to do.
const LIMIT: Duration = Duration::from_secs(270);

const CONFIG: &str = "\
durability = 'process'
[limits]
concurrent_turns = 64
[providers.demo]
kind = 'demo'
[[agents]]
name = 'demo'
title = 'Demo'
model = 'demo/load'
tools = ['clock', 'calculator', 'request_form', 'create_artifact']
trusted = ['clock', 'calculator', 'create_artifact']
";

/// What is there to be named: for each parameter, values.
struct Things {
    sessions: Vec<String>,
    turn: String,
    artifact: String,
    form: String,
    document: String,
    key: String,
}

impl Things {
    /// Made through the API, so that the documented operations have something to show.
    fn make(client: &Client) -> Self {
        let said = |text: &str| {
            let body = json!({ "message": text, "agent_id": "demo" }).to_string();
            let taken = client.send("POST", "/api/v1/sessions/stream", &body);
            assert_eq!(taken.status, 202, "{taken:?}");
            let taken = taken.json();
            let name = |field: &str| taken[field].as_str().unwrap().to_owned();
            (name("session_id"), name("message_id"))
        };
        let first = |path: &str, list: &str, id: &str| {
            eventually(list, || client.send("GET", path, "").json()[list][0][id].as_str().map(str::to_owned))
        };
        let (session, turn) = said("write an artifact about rivers");
        let artifact = first("/api/v1/artifacts", "artifacts", "artifact_id");
        said("ask me for my name with a form");
        let form = first("/api/v1/forms", "forms", "form_id");
        let mut sessions: Vec<_> = (0..24).map(|number| said(&format!("what is {number} + 1?")).0).collect();
        for id in &sessions {
            let path = format!("/api/v1/sessions/{id}");
            eventually("the turn ends", || (client.send("GET", &path, "").json()["status"] == "idle").then_some(()));
        }
        sessions.push(session);
        let file =
            "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\nRivers flow.\r\n--b--\r\n";
        let form_data = [("content-type", "multipart/form-data; boundary=b")];
        let uploaded = client.send_with("POST", "/api/v1/documents", &form_data, file);
        assert_eq!(uploaded.status, 201, "{uploaded:?}");
        let made = client.send("POST", "/api/v1/keys", r#"{"name":"spare","scopes":["read"]}"#);
        assert_eq!(made.status, 201, "{made:?}");
        let id = |answer: Value, field: &str| answer[field].as_str().unwrap().to_owned();
        let (document, key) = (id(uploaded.json(), "document_id"), id(made.json(), "key_id"));
        Self { sessions, turn, artifact, form, document, key }
    }

    /// As Schemathesis wants them: half of the time it takes one of these.
    fn settings(&self) -> String {
        let known = [
            ("session", self.sessions.clone()),
            ("id", self.sessions.clone()),
            ("turn", vec![self.turn.clone()]),
            ("artifact", vec![self.artifact.clone()]),
            ("form", vec![self.form.clone()]),
            ("document", vec![self.document.clone()]),
            ("key", vec![self.key.clone()]),
        ];
        let mut text = String::new();
        for (name, values) in known {
            text += &format!("[dictionaries.{name}]\nvalues = {}\n", json!(values));
            text += &format!("[parameters.\"path.{name}\"]\ndictionary = '{name}'\nprobability = 0.5\n");
        }
        text
    }
}

/// What is done, and how much of it.
fn settings(things: &Things) -> String {
    let authorization = format!("Bearer {}", key("admin"));
    let own = things.settings();
    // Schemathesis cannot know which agents, models and tools there are, so that a request of the right shape may be
    // refused all the same. The schemas of Goose's messages have more corners than there is time for; these operations
    // are tried at random instead. A session with a recipe is the other way round: requests at random are too large for
    // Hypothesis, the corners are not. A session's events never end: each request for them lasts as long as its timeout, so
    // it is short, and a busy machine that has sent no headers by then is asked again. For the same reason Hypothesis does
    // not judge how long it takes to make up a request.
    format!(
        "\
seed = 20261116
workers = 2
request-timeout = 15
max-stream-events = 20
continue-on-failure = true
hooks = 'schemathesis_hooks'
suppress-health-check = ['too_slow']
color = false
[headers]
Authorization = '{authorization}'
[generation]
deterministic = true
database = 'none'
max-examples = 8
[output.sanitization]
enabled = false
[checks.positive_data_acceptance]
enabled = false
[phases.stateful]
enabled = false
[[operations]]
include-operation-id = ['goose_reply', 'goose_released_reply', 'goose_released_session_reply', 'goose_released_import_session']
[operations.phases.coverage]
enabled = false
[[operations]]
include-operation-id = ['goose_released_start_agent']
[operations.phases.fuzzing]
enabled = false
[[operations]]
include-operation-id = ['goose_released_watch_session']
request-timeout = 1
request-retries = 4
{own}"
    )
}

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers")
}

/// Runs it and gives what it prints.
fn run(home: &Home, server: &Server, settings: &str) -> (bool, String) {
    let program = peers().join(".venv/bin/schemathesis");
    assert!(program.exists(), "schemathesis is not installed under tests/peers; run: cargo xtask peers");
    let (file, output) = (home.path().join("schemathesis.toml"), home.path().join("schemathesis.txt"));
    std::fs::write(&file, settings).unwrap();
    let out = std::fs::File::create(&output).unwrap();
    let mut child = Command::new(program)
        .arg("--config-file")
        .arg(&file)
        .args(["run", &format!("http://{}/openapi.json", server.address)])
        .current_dir(home.path())
        .env("PYTHONPATH", peers())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stderr(out.try_clone().unwrap())
        .stdout(out)
        .spawn()
        .unwrap();
    let begun = std::time::Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if begun.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let text = std::fs::read_to_string(output).unwrap();
    (status.is_some_and(|status| status.success()), text)
}

#[test]
fn every_operation_does_as_the_document_says() {
    let config = format!("{CONFIG}[[keys]]\nkey = '{}'\ntenant = 'acme'\nscopes = ['admin']\n", key("admin"));
    let home = Home::new(&config);
    let server = home.start();
    let client = server.client().with_key(&key("admin"));
    let things = Things::make(&client);
    // All but the one that gives the document.
    let operations = super::operations(&client.send("GET", "/openapi.json", "").json()).len() - 1;
    let (passed, text) = run(&home, &server, &settings(&things));
    assert!(passed, "{text}\n{}", home.log());
    assert!(text.contains(&format!("Tested: {operations}")), "not all of {operations} operations were tested: {text}");
    // One that has crashed answers nothing more; one that has got stuck, nothing in time.
    assert_eq!(client.send("GET", "/readyz", "").status, 200);
    assert!(!home.log().contains("panicked"), "{}", home.log());
}
