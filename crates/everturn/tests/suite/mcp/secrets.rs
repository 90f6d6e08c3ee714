//! What servers see of our environment, and what our log tells of theirs.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use super::world::{PYTHON, Traces, World, config, only, spawn, table, told};
use crate::suite::harness::{Home, Reply, eventually, script};

const SECRET: &str = "hunter2-of-the-box";
const TOKEN: &str = "tok-0123456789abcdef";

#[test]
fn a_server_sees_next_to_nothing() {
    let traces = Traces::new();
    let lines = "env = { SECRET = 'env:BOX_SECRET', PLAIN = 'x' }";
    let home = Home::new(&config("", &table("box", &traces.command(&[]), lines), ""));
    let key = "00".repeat(32);
    let ours = [
        ("PATH", "/usr/bin:/bin"),
        ("HOME", "/nowhere"),
        ("BOX_SECRET", SECRET),
        ("EVERTURN_SECRET_KEY", &key),
        ("OPENAI_API_KEY", "sk-not-for-servers"),
        ("LD_LIBRARY_PATH", "/nowhere/lib"),
    ];
    let server = home.start_in(&ours, &["--log-level", "debug"]);
    let world = World { home, server, traces };
    world.ready("box");
    world.call("mcp-environment", &[("box__environment", json!({}))]);
    let seen: Value = serde_json::from_str(&only("mcp-environment")).unwrap();
    let mut seen = seen.as_object().unwrap().clone();
    // Python sets this one itself where there is no locale.
    seen.remove("LC_CTYPE");
    let own = seen.remove("TMPDIR").unwrap();
    assert!(own.as_str().unwrap().starts_with("/tmp/everturn-mcp-"), "{own}");
    // It has the secret, and nobody is shown it.
    let expected = json!({ "PATH": "/usr/bin:/bin", "HOME": "/nowhere", "SECRET": "•••", "PLAIN": "x" });
    assert_eq!(Value::Object(seen), expected);

    world.call("mcp-blab", &[("box__blab", json!({}))]);
    eventually("both are logged", || {
        let log = world.home.log();
        (log.contains("said standard error") && log.contains("as data")).then_some(())
    });
    let pid = world.traces.pid();
    super::world::signal("KILL", pid);
    eventually("the end is logged", || world.home.log().contains("an MCP server failed").then_some(()));
    let log = world.home.log();
    assert!(!log.contains(SECRET), "{log}");
    assert!(!log.contains("sk-not-for-servers") && !log.contains(&key), "{log}");
}

/// A server that listens; it ends with this.
pub(super) struct Listening {
    process: Child,
    pub(super) port: u16,
}

impl Listening {
    pub(super) fn start(options: &[&str]) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcp/tests/suite/http_server.py");
        let mut command = Command::new(&*PYTHON);
        command.arg(file).args(options).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { process, port: line.trim().parse().unwrap() }
    }

    pub(super) fn table(&self, name: &str) -> String {
        let headers = format!("headers = {{ Authorization = 'Bearer {TOKEN}' }}");
        format!("[mcp.{name}]\nurl = 'http://127.0.0.1:{}/mcp'\n{headers}\n", self.port)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn headers_are_sent_and_not_told() {
    let (web, strict) = (Listening::start(&[]), Listening::start(&["--status", "401"]));
    let agents = "[[agents]]\nname = 'surfer'\nmodel = 'script/model'\ntitles = false\ntools = ['web/*', 'strict/*']\n\
                  trusted = ['web/*']\n";
    let text = config("", &(web.table("web") + &strict.table("strict")), agents).replace("'box/*'", "'web/*'");
    let home = Home::new(&text);
    let server = home.start_in(&[], &["--log-level", "trace"]);
    let world = World { home, server, traces: Traces::new() };
    world.ready("web");
    world.until_state("strict", "failed");
    script("mcp-headers", [Reply::calls(&[("web__headers", json!({}))]), Reply::says(&["Sent."])]);
    let turn = spawn(&world.client(), &json!({ "agent_id": "surfer", "message": "play mcp-headers" }));
    assert_eq!(turn.complete()["final_response"], "Sent.");
    let sent: Value = serde_json::from_str(&told("mcp-headers")[0]).unwrap();
    // It was sent, since it came back; and nobody is shown it.
    assert_eq!(sent["authorization"], "•••");
    let told = world.agent("surfer")["unavailable"][0]["reason"].as_str().unwrap().to_owned();
    assert!(!told.contains("HTTP 401") && !told.contains(TOKEN), "the server repeats it: {told}");
    eventually("it is logged", || {
        world
            .home
            .log()
            .lines()
            .any(|line| line.contains("HTTP 401") && line.contains("check the headers"))
            .then_some(())
    });
    // The model was told, so its request has it, but nothing else.
    let log = world.home.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains(TOKEN)).collect();
    assert!(lines.is_empty(), "{lines:#?}");
}
