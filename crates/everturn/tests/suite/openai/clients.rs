//! Frameworks that nobody here wrote, unmodified, against the program and a model behind it that is silent for 16 s, refuses
//! an attempt or breaks off in the middle.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::suite::harness::{Client, Home, Server, key};

/// A program of `tests/peers` that ends with this.
struct Upstream {
    child: Child,
    /// Ends in `/v1`.
    url: String,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers")
}

#[track_caller]
fn python() -> PathBuf {
    let python = peers().join(".venv/bin/python");
    assert!(python.exists(), "{} is not installed; run: cargo xtask peers", python.display());
    python
}

#[track_caller]
fn upstream() -> Upstream {
    let mut command = Command::new(python());
    command.arg(peers().join("openai_upstream.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("failed to start {command:?}: {error}"));
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    Upstream { child, url: url.trim().to_owned() }
}

/// Runs all scenarios of one script against a server and a model of their own.
#[track_caller]
fn check(mut command: Command) {
    let upstream = upstream();
    let home = Home::new(&format!(
        "[providers.told]\nkind = 'openai'\nbase_url = '{}'\nwire = 'chat'\n\
         [[agents]]\nname = 'assistant'\nmodel = 'told/told'\n\
         [[keys]]\nkey = '{}'\ntenant = 'acme'\nscopes = ['chat', 'read']\n",
        upstream.url,
        key("acme")
    ));
    let server: Server = home.start();
    command.arg(format!("http://{}/v1", server.address)).arg(key("acme"));
    let output = command.output().unwrap_or_else(|error| panic!("failed to start {command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout);
    let failed: Vec<&str> = text.lines().filter(|line| line.contains(" FAIL")).collect();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && failed.is_empty(), "{}\n{words}", failed.join("\n"));
    assert!(text.lines().filter(|line| line.contains(" ok")).count() > 50, "{text}\n{words}");
    let address = upstream.url.trim_start_matches("http://").trim_end_matches("/v1").parse().unwrap();
    let problems = Client { address, key: None }.send("GET", "/__problems", "");
    assert_eq!(problems.body, "[]", "the model was sent what OpenAI refuses");
}

#[test]
fn python_clients() {
    let mut command = Command::new(python());
    command.arg(peers().join("openai_clients.py"));
    check(command);
}

#[test]
fn node_clients() {
    let mut command = Command::new("node");
    command.arg(peers().join("openai_clients.mjs"));
    check(command);
}
