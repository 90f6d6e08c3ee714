//! What these tests share: a server that has MCP servers, turns whose models call their tools, and traces of what those
//! did.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

use serde_json::{Value, json};

use crate::suite::harness::{Client, Home, Reply, Server, asked, eventually, script, shared_config};
pub(super) use crate::suite::native::world::{Frame, Turn, kinds, spawn};

/// The interpreter itself: what is called `python3` may be a script that looks for it, and takes its time.
pub(super) static PYTHON: LazyLock<String> = LazyLock::new(|| program("python3"));

/// Where a program is: servers under test have no path to look along.
pub(super) fn program(name: &str) -> String {
    let is_binary = |file: &PathBuf| {
        let mut start = [0; 4];
        std::fs::File::open(file).is_ok_and(|mut file| file.read_exact(&mut start).is_ok() && !start.starts_with(b"#!"))
    };
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(is_binary);
    found.unwrap_or_else(|| panic!("there is no {name}")).to_str().unwrap().to_owned()
}

/// An agent that has all tools of the server `box` and trusts them.
const AGENT: &str = "
[[agents]]
name = 'boxer'
model = 'script/model'
titles = false
tools = ['box/*']
trusted = ['box/*']
";

/// The command of the server for tests, with these options.
pub(in crate::suite) fn command(options: &[&str]) -> Vec<String> {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/mcp/server.py");
    let words = [PYTHON.as_str(), "-I", "-S", server.to_str().unwrap()];
    words.into_iter().chain(options.iter().copied()).map(str::to_owned).collect()
}

/// The table of a server.
pub(in crate::suite) fn table(name: &str, command: &[String], lines: &str) -> String {
    format!("[mcp.{name}]\ncommand = {command:?}\n{lines}\n")
}

/// A configuration with these limits and servers, and agents beside the one that has the tools of `box`.
pub(super) fn config(limits: &str, servers: &str, agents: &str) -> String {
    shared_config(limits) + servers + AGENT + agents
}

/// A server of a test's own.
pub(super) struct World {
    pub(super) home: Home,
    pub(super) server: Server,
    /// Where the servers for tests leave their traces.
    pub(super) traces: Traces,
}

/// A folder for what servers write.
pub(super) struct Traces(tempfile::TempDir);

impl Traces {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The path as it stands in options and inputs.
    pub(super) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// The lines of a file; none if it is not there.
    pub(super) fn lines(&self, name: &str) -> Vec<String> {
        std::fs::read_to_string(self.path(name)).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// The lines of a file as JSON.
    pub(super) fn entries(&self, name: &str) -> Vec<Value> {
        self.lines(name).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Makes a file that somebody waits for.
    pub(super) fn make(&self, name: &str) {
        std::fs::write(self.path(name), "").unwrap();
    }

    /// Removes a file that holds somebody up.
    pub(super) fn remove(&self, name: &str) {
        std::fs::remove_file(self.path(name)).unwrap();
    }

    /// The command of the server for tests, with its life, its ledger and what it hears noted here. While there
    /// is a file `hold`, it does not start.
    pub(super) fn command(&self, options: &[&str]) -> Vec<String> {
        let mut words = command(options);
        for file in ["life", "ledger", "heard", "hold"] {
            words.extend([format!("--{file}"), self.text(file)]);
        }
        words
    }

    /// The process that runs now.
    pub(super) fn pid(&self) -> u32 {
        self.lines("life").last().unwrap().parse().unwrap()
    }
}

impl World {
    /// A server with the server for tests as `box`, which has these lines, ready.
    #[track_caller]
    pub(super) fn with_box(limits: &str, lines: &str, agents: &str) -> Self {
        let traces = Traces::new();
        let text = config(limits, &table("box", &traces.command(&[]), lines), agents);
        let world = Self::start(traces, &text);
        world.ready("box");
        world
    }

    /// A server with the server for tests as `box`, ready.
    #[track_caller]
    pub(super) fn new() -> Self {
        Self::with_box("", "", "")
    }

    /// A server with this configuration. It may not be ready.
    #[track_caller]
    pub(super) fn start(traces: Traces, config: &str) -> Self {
        let home = Home::new(config);
        Self { server: home.start(), home, traces }
    }

    pub(super) fn client(&self) -> Client {
        self.server.client()
    }

    /// Kills the server and starts it again on what it left.
    #[track_caller]
    pub(super) fn crash(&mut self) {
        self.server.kill();
        self.server = self.home.start();
    }

    /// How an MCP server is, as `/readyz` says. That is 200 however it is.
    #[track_caller]
    pub(super) fn health(&self, server: &str) -> Value {
        let answer = self.client().send("GET", "/readyz", "");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["mcp"][server].clone()
    }

    /// Waits until an MCP server can be used.
    #[track_caller]
    pub(super) fn ready(&self, server: &str) {
        self.until_state(server, "ready");
    }

    #[track_caller]
    pub(super) fn until_state(&self, server: &str, state: &str) -> Value {
        eventually(&format!("{server} is {state}"), || Some(self.health(server)).filter(|it| it["state"] == state))
    }

    /// The value of a metric.
    pub(super) fn metric(&self, name: &str) -> f64 {
        let text = self.client().send("GET", "/metrics", "").body;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Plays these calls at once and then a last word; the turn is complete.
    #[track_caller]
    pub(super) fn call(&self, name: &str, calls: &[(&str, Value)]) -> Turn {
        script(name, [Reply::calls(calls), Reply::says(&["Done."])]);
        let turn = play(&self.client(), name);
        assert_eq!(turn.complete()["final_response"], "Done.");
        turn
    }

    /// An agent as `GET /api/v1/agents` shows it.
    #[track_caller]
    pub(super) fn agent(&self, agent: &str) -> Value {
        let listed = self.client().send("GET", "/api/v1/agents", "").json();
        listed["agents"].as_array().unwrap().iter().find(|shown| shown["agent_id"] == agent).unwrap().clone()
    }

    /// An agent as AAP's `GET /meta` shows it.
    #[track_caller]
    pub(super) fn meta(&self, agent: &str) -> Value {
        let listed = self.client().send("GET", "/meta", "").json();
        listed["agents"].as_array().unwrap().iter().find(|shown| shown["name"] == agent).unwrap().clone()
    }

    /// The names of the tools that AAP shows of an agent.
    #[track_caller]
    pub(super) fn tools(&self, agent: &str) -> Vec<String> {
        let meta = self.meta(agent);
        let none = Vec::new();
        let tools = meta["tools"].as_array().unwrap_or(&none);
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// Spawns a turn of the agent that has the tools of `box`, which plays this script.
#[track_caller]
pub(super) fn play(client: &Client, script: &str) -> Turn {
    spawn(client, &json!({ "agent_id": "boxer", "message": format!("play {script}") }))
}

/// What the model was told of all calls, in order, as of the last time that it was asked.
#[track_caller]
pub(super) fn told(name: &str) -> Vec<String> {
    let messages = asked(name).pop().unwrap()["messages"].as_array().unwrap().clone();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results.map(|result| shown(&result["content"])).collect()
}

/// The only result that the model was told.
#[track_caller]
pub(super) fn only(name: &str) -> String {
    let told = told(name);
    assert_eq!(told.len(), 1, "{told:?}");
    told[0].clone()
}

/// A text, or its parts one below the other.
fn shown(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(shown).collect::<Vec<_>>().join("\n"),
        part => part["text"].as_str().map_or_else(|| part.to_string(), str::to_owned),
    }
}

/// The results in the frames of a turn: the tool, whether it succeeded, and what it said.
#[track_caller]
pub(super) fn results(frames: &[Frame]) -> Vec<(String, bool, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let results = frames.iter().filter(|frame| frame.kind() == "tool_completed");
    results
        .map(|frame| (text(&frame.data["tool_name"]), frame.data["success"] == true, text(&frame.data["message"])))
        .collect()
}

/// Whether a process is there and has not ended.
pub(super) fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit_once(')').map_or("", |(_, rest)| rest.trim_start()).starts_with('Z')
}

/// Sends a signal to a process.
#[track_caller]
pub(super) fn signal(signal: &str, pid: u32) {
    let sent = Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().unwrap();
    assert!(sent.success());
}
