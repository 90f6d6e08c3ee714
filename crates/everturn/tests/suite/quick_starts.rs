//! The examples in the documentation, run as they stand there against the program; the address alone is another.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use super::harness::{Home, Server};

/// The address in the examples.
const ADDRESS: &str = "127.0.0.1:8080";

/// A server as a newcomer has it: open to this machine, with the demo agent.
fn start() -> (Home, Server) {
    let home = Home::new("");
    let server = home.start();
    (home, server)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn peers() -> PathBuf {
    root().join("tests/peers")
}

/// The blocks of a page in this language, with the server's address.
#[track_caller]
fn blocks(page: &str, language: &str, server: &Server) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let begin = format!("\n```{language}\n");
    let found: Vec<_> = text.split(&begin).skip(1).filter_map(|rest| rest.split_once("\n```\n")).collect();
    assert!(!found.is_empty(), "{page} has no example in {language}");
    found.into_iter().map(|(block, _)| block.replace(ADDRESS, &server.address.to_string())).collect()
}

#[track_caller]
fn succeeds(code: &str, command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (said, complained) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{code}\n-----\n{said}\n-----\n{complained}");
    said.into_owned()
}

#[test]
fn python() {
    let (_home, server) = start();
    // Later ones go on with what the first one has made.
    let code = blocks("docs/openai.md", "python", &server).join("\n");
    let said = succeeds(&code, Command::new(peers().join(".venv/bin/python")).args(["-c", &code]));
    assert!(said.contains("Hello") && said.contains("sunny"), "{said}");
}

#[test]
fn javascript() {
    let (_home, server) = start();
    for code in blocks("docs/openai.md", "js", &server) {
        // Packages are found from the current folder.
        let mut node = Command::new("node");
        let said = succeeds(&code, node.args(["--input-type=module", "--eval", &code]).current_dir(peers()));
        assert!(said.contains("Hello") && said.contains("sess_"), "{said}");
    }
}

/// Examples for the shell: those that can be run as they stand, with the ids in variables that their page speaks of.
#[test]
fn shell() {
    let (_home, server) = start();
    let folder = tempfile::tempdir().unwrap();
    // So that a refusal is a failure of curl.
    std::fs::write(folder.path().join(".curlrc"), "fail-with-body\nsilent\nshow-error\nmax-time = 120\n").unwrap();
    let mut ran = 0;
    for page in ["README.md", "docs/aap.md", "docs/goose.md", "docs/durable-streaming.md"] {
        for code in blocks(page, "sh", &server) {
            // What is no call of this server, or has a place to fill in, or needs more than the page says before.
            let is_whole = code.contains(&format!("http://{}", server.address)) && !code.contains('…');
            if !is_whole || code.contains("@report.pdf") {
                continue;
            }
            let client = server.client();
            let spawned = client.send("POST", "/api/v1/sessions/stream", r#"{"message":"hello"}"#).json();
            let created = client.send("POST", "/aap/v3/sessions", r#"{"agent":{"name":"demo"}}"#).json();
            let (session, message) = (spawned["session_id"].as_str().unwrap(), spawned["message_id"].as_str().unwrap());
            // An example goes on from a frame of this turn.
            client.send("GET", &format!("/api/v1/sessions/{session}/messages/{message}/stream"), "");
            let mut bash = Command::new("bash");
            bash.args(["-euo", "pipefail", "-c", &code]).current_dir(folder.path()).env("CURL_HOME", folder.path());
            bash.env("EVERTURN_KEY", "any").env("ID", created["sessionId"].as_str().unwrap());
            bash.env("SESSION", session).env("SESSION_ID", session);
            bash.env("X_SESSION_ID", session)
                .env("X_MESSAGE_ID", message)
                .env("json", "Content-Type: application/json");
            bash.env("MESSAGE", message).env("MESSAGE_ID", message).env("LAST_ID", "3");
            succeeds(&format!("{page}:\n{code}"), &mut bash);
            ran += 1;
        }
    }
    assert!(ran >= 7, "{ran} examples ran");
}

/// The example of an MCP server, as it stands in the README; the server itself is one that is installed here.
#[test]
fn mcp_servers() {
    let page = std::fs::read_to_string(root().join("README.md")).unwrap();
    let examples = page.split("\n```toml\n").skip(1).filter_map(|rest| rest.split_once("\n```\n"));
    let (example, _) = examples.into_iter().find(|(example, _)| example.contains("[mcp.files]")).unwrap();
    let npx = r#""npx", "-y", "@modelcontextprotocol/server-filesystem""#;
    let server = peers().join("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");
    assert!(example.contains(npx) && server.exists());
    let home = Home::new(&example.replace(npx, &format!("\"node\", {server:?}")));
    std::fs::create_dir(home.path().join("files")).unwrap();
    std::fs::write(home.path().join("files/note.txt"), "a note").unwrap();
    let path = std::env::var("PATH").unwrap();
    let call = |tool: &str, input: &str| home.run_in(&[("PATH", &path)], &["mcp", "call", "files", tool, input]);
    let input = r#"{"path":"."}"#;
    assert!(page.contains(&format!("everturn mcp call files list_directory '{input}'")));
    let listed = call("list_directory", input);
    assert!(listed.status.success() && String::from_utf8_lossy(&listed.stdout).contains("note.txt"), "{listed:?}");
    assert!(call("read_text_file", r#"{"path":"note.txt"}"#).status.success());
    let file = home.path().join("everturn.toml");
    for file in ["../everturn.toml", file.to_str().unwrap()] {
        let read = call("read_text_file", &format!("{{\"path\":{file:?}}}"));
        assert!(!read.status.success(), "{file} {read:?}");
    }
}
