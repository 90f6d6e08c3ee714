//! Frameworks that nobody here wrote, unmodified, against the program and a model behind it that is silent for 16 s, refuses
//! an attempt or breaks off in the middle; and turns that wait for a person, which each of them must raise as an error and ask
//! for once only.

use std::{
    collections::BTreeMap,
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
    // `clerk` has a form and a tool that asks first. Its scenarios wait for as long as those of a silent model.
    let home = Home::new(&format!(
        "[openai]\nwait = '20s'\n\
         [providers.told]\nkind = 'openai'\nbase_url = '{}'\nwire = 'chat'\n\
         [mcp.box]\ncommand = ['{}', '-I', '-S', '{}']\n\
         [[agents]]\nname = 'assistant'\nmodel = 'told/told'\n\
         [[agents]]\nname = 'clerk'\nmodel = 'told/told'\ntitles = false\ntools = ['request_form', 'box/echo']\n\
         [[keys]]\nkey = '{}'\ntenant = 'acme'\nscopes = ['chat', 'read']\n",
        upstream.url,
        python().display(),
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/mcp/server.py").display(),
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
    let model = Client { address, key: None };
    assert_eq!(model.send("GET", "/__problems", "").body, "[]", "the model was sent what OpenAI refuses");
    let journal = model.send("GET", "/__journal", "").json();
    let mut waiting = BTreeMap::<&str, usize>::new();
    for asked in journal.as_array().unwrap() {
        let last = &asked["messages"].as_array().unwrap().last().unwrap()["content"];
        if let Some(text) = last.as_str().filter(|text| text.starts_with("waiting: ")) {
            *waiting.entry(text).or_default() += 1;
        }
    }
    assert!(waiting.len() >= 10, "{waiting:?}");
    assert!(
        waiting.values().all(|times| *times == 1),
        "a client sent a request again that waits for a person: {waiting:?}"
    );
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
