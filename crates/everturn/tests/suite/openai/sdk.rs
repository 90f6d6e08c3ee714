//! A real SDK in a process of its own, and a server for it.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
};

use serde_json::{Value, json};

use crate::suite::harness::{Client, Home, PATIENCE, Server, key, shared_config};

/// Keys, tenants, scopes and quotas.
const KEYS: [(&str, &str, &str, &str); 4] = [
    ("acme", "acme", "'chat'", ""),
    ("acme-reader", "acme", "'read'", ""),
    ("bob", "bob", "'chat'", ""),
    ("busy", "busy", "'chat'", "quota = { concurrent_turns = 1 }\n"),
];

/// A server of a test's own.
pub(super) struct World {
    pub(super) home: Home,
    pub(super) server: Server,
}

impl World {
    #[track_caller]
    pub(super) fn start() -> Self {
        let keys = KEYS.map(|(who, tenant, scopes, quota)| {
            format!("[[keys]]\nkey = '{}'\ntenant = '{tenant}'\nscopes = [{scopes}]\n{quota}", key(who))
        });
        let home = Home::new(&(shared_config("") + &keys.concat()));
        Self { server: home.start(), home }
    }

    /// Kills the server and starts it again on what it left.
    #[track_caller]
    pub(super) fn crash(&mut self) {
        self.server.kill();
        self.server = self.home.start();
    }

    /// Stops the server in order and starts it again.
    #[track_caller]
    pub(super) fn restart(&mut self) {
        self.server.terminate();
        self.server.ended();
        self.server = self.home.start();
    }

    pub(super) fn client(&self, who: &str) -> Client {
        self.server.client().with_key(&key(who))
    }

    /// A turn, as the durable API shows it.
    #[track_caller]
    pub(super) fn turn(&self, who: &str, session: &str, turn: &str) -> Value {
        let answer = self.client(who).send("GET", &format!("/api/v1/sessions/{session}/messages/{turn}"), "");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// How many sessions somebody has.
    #[track_caller]
    pub(super) fn sessions(&self, who: &str) -> usize {
        let answer = self.client(who).send("GET", "/api/v1/sessions", "");
        answer.json()["sessions"].as_array().unwrap_or_else(|| panic!("{answer:?}")).len()
    }
}

/// An SDK that runs, and ends with this.
pub(super) struct Sdk {
    pub(super) name: &'static str,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Sdk {
    /// The one for Python.
    #[track_caller]
    pub(super) fn python() -> Self {
        Self::start("python", ".venv/bin/python", "openai_sdk.py")
    }

    /// The one for Node.
    #[track_caller]
    pub(super) fn node() -> Self {
        Self::start("node", "node_modules/openai", "openai_sdk.mjs")
    }

    #[track_caller]
    fn start(name: &'static str, needed: &str, script: &str) -> Self {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers");
        let needed = peers.join(needed);
        assert!(needed.exists(), "{} is not installed under tests/peers; run: cargo xtask peers", needed.display());
        let program = if name == "node" { "node".into() } else { needed };
        let mut command = Command::new(program);
        command.arg(peers.join(script)).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("failed to start {command:?}: {error}"));
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let (sender, lines) = mpsc::channel();
        // Ends with the SDK, or with whoever listens to it.
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { name, child, stdin, lines }
    }

    /// Tells it what to do, as somebody, without waiting for what comes of it.
    #[track_caller]
    pub(super) fn begin(&mut self, world: &World, who: &str, command: &Value) {
        let mut command = command.clone();
        if command["url"].is_null() {
            command["url"] = json!(format!("http://{}/v1", world.server.address));
        }
        command["key"] = json!(key(who));
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{command}\n").as_bytes()).expect("the SDK runs");
    }

    /// What came of what it was told.
    #[track_caller]
    pub(super) fn end(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("the SDK answers; see above what it says");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Tells it what to do, as somebody.
    #[track_caller]
    pub(super) fn told(&mut self, world: &World, who: &str, command: &Value) -> Value {
        self.begin(world, who, command);
        self.end()
    }

    /// Asks an agent, as somebody.
    #[track_caller]
    pub(super) fn create(&mut self, world: &World, who: &str, params: Value) -> Value {
        self.told(world, who, &json!({ "do": "create", "params": params }))
    }

    /// Asks an agent, and it answers.
    #[track_caller]
    pub(super) fn completion(&mut self, world: &World, params: Value) -> Value {
        let told = self.create(world, "acme", params);
        assert!(told["completion"].is_object(), "{}: {told}", self.name);
        told["completion"].clone()
    }

    /// Asks an agent for chunks, and gives them with the text in them.
    #[track_caller]
    pub(super) fn chunks(&mut self, world: &World, mut params: Value) -> (Vec<Value>, String) {
        params["stream"] = json!(true);
        let told = self.create(world, "acme", params);
        let chunks = told["chunks"].as_array().unwrap_or_else(|| panic!("{}: {told}", self.name)).clone();
        let text = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
        (chunks, text)
    }
}

impl Drop for Sdk {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a user says.
pub(super) fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

/// The weather, by city.
pub(super) fn weather() -> Value {
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    json!({ "type": "function", "function": { "name": "weather", "description": "Tells it", "parameters": parameters } })
}
