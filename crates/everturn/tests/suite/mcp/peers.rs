//! Servers that others have written, used by models.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use super::world::{Traces, World, config, kinds, program, results, spawn, table, told};
use crate::suite::harness::{Reply, asked, eventually, script};

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers")
}

#[track_caller]
pub(super) fn from_npm(package: &str) -> String {
    let file = peers().join("node_modules/@modelcontextprotocol").join(package).join("dist/index.js");
    assert!(file.exists(), "{package} is not installed under tests/peers; run: cargo xtask peers");
    file.to_str().unwrap().to_owned()
}

#[track_caller]
fn from_pypi(program: &str) -> String {
    let file = peers().join(".venv/bin").join(program);
    assert!(file.exists(), "{program} is not installed under tests/peers; run: cargo xtask peers");
    file.to_str().unwrap().to_owned()
}

/// A server with one MCP server, ready, and an agent that trusts it.
#[track_caller]
fn world(name: &str, server: &str) -> World {
    let agent = format!(
        "[[agents]]\nname = 'user'\nmodel = 'script/model'\ntitles = false\ntools = ['{name}/*']\ntrusted = ['{name}/*']\n"
    );
    let text = config("", server, &agent).replace("'box/*'", &format!("'{name}/*'"));
    let world = World::start(Traces::new(), &text);
    world.ready(name);
    world
}

/// A server that listens; it ends with this.
struct Listening(Child);

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_server_that_shows_everything() {
    let command = [program("node"), from_npm("server-everything"), "stdio".to_owned()];
    everything("mcp-stdio", &table("every", &command, ""));
}

#[test]
fn the_server_that_shows_everything_over_http() {
    // Any port will do, but it cannot be told to choose one.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = Command::new(program("node"))
        .args([from_npm("server-everything"), "streamableHttp".to_owned()])
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(server.stderr.take().unwrap());
    let _listening = Listening(server);
    let mut line = String::new();
    while !line.contains("listening") {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0, "it ended");
    }
    // It would block once nobody reads.
    std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
    everything("mcp-http", &format!("[mcp.every]\nurl = 'http://127.0.0.1:{port}/mcp'\n"));
}

fn everything(name: &str, server: &str) {
    let world = world("every", server);
    let tools = world.tools("user");
    assert!(tools.len() > 10 && tools.iter().all(|tool| tool.starts_with("every__")), "{tools:?}");
    let meta = world.meta("user");
    let sum = meta["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "every__get-sum").unwrap();
    assert_eq!(sum["inputSchema"]["required"], json!(["a", "b"]), "{sum}");
    assert_eq!(meta.get("unavailableTools"), None);
    let calls = [
        ("every__echo", json!({ "message": "hi" })),
        ("every__get-sum", json!({ "a": 2, "b": 40 })),
        ("every__get-sum", json!({ "a": "two" })),
        ("every__trigger-long-running-operation", json!({ "duration": 0.2, "steps": 4 })),
        ("every__get-tiny-image", json!({})),
        ("every__get-resource-reference", json!({ "resourceType": "Text", "resourceId": 1 })),
        ("every__get-resource-links", json!({ "count": 2 })),
        ("every__get-structured-content", json!({ "location": "Chicago" })),
        ("every__get-annotated-message", json!({ "messageType": "error" })),
        ("every__get-env", json!({})),
    ];
    script(name, [Reply::calls(&calls), Reply::says(&["All of it."])]);
    let turn = spawn(&world.client(), &json!({ "agent_id": "user", "message": format!("play {name}") }));
    let frames = turn.frames();
    assert_eq!(frames.last().unwrap().data["final_response"], "All of it.", "{frames:#?}");
    let told = told(name);
    assert_eq!(told.len(), calls.len());
    assert_eq!(told[0], "Echo: hi");
    assert_eq!(told[1], "The sum of 2 and 40 is 42.");
    assert!(told[2].contains("does not fit the tool's schema"), "the server is not even asked: {}", told[2]);
    assert!(told[3].starts_with("Long running operation completed."), "{}", told[3]);
    assert!(told[5].contains("demo://resource/dynamic/text/1"), "{}", told[5]);
    assert_eq!(told[6].matches("Resource demo://").count(), 2, "{}", told[6]);
    assert_eq!(told[7].matches("temperature").count(), 1, "what is said twice is told once: {}", told[7]);
    assert_eq!(told[8], "Error: Operation failed", "a result all the same");
    assert!(!told[9].contains("EVERTURN"), "{}", told[9]);
    // The picture itself reaches the model.
    let last = asked(name).pop().unwrap().to_string();
    assert_eq!(last.matches("data:image/png;base64,").count(), 1, "{last}");
    let shown = results(&frames);
    assert_eq!(shown.iter().filter(|(_, success, _)| *success).count(), 9, "{shown:?}");
    assert!(shown.iter().any(|(tool, _, text)| tool == "every__get-sum" && text.ends_with("is 42.")), "{shown:?}");
    // Progress is for those who watch in the words of Goose.
    let goose = turn.client.send("GET", &format!("{}/stream?as=goose", turn.path()), "").body;
    assert_eq!(goose.matches("notifications/progress").count(), 4, "{goose}");
    elicitation(&world, &format!("{name}-ask"));
}

/// It asks the person at the other end, and hears the answer.
fn elicitation(world: &World, name: &str) {
    script(name, [Reply::calls(&[("every__trigger-elicitation-request", json!({}))]), Reply::says(&["Hello."])]);
    let turn = spawn(&world.client(), &json!({ "agent_id": "user", "message": format!("play {name}") }));
    let mut reader = turn.open();
    let asks = super::world::Frame::read(&reader.until("form_request")).unwrap().data;
    assert!(asks["payload"]["schema"]["properties"]["name"].is_object(), "{asks}");
    let answer = json!({ "session_id": turn.session, "form_id": asks["form_id"], "form_answer": { "name": "Ada" } });
    let accepted = turn.client.send("POST", "/api/v1/sessions/stream", &answer.to_string());
    assert_eq!(accepted.status, 202, "{accepted:?}");
    assert_eq!(turn.complete()["final_response"], "Hello.");
    assert!(told(name)[0].contains("Ada"), "{:?}", told(name));
}

#[test]
fn the_server_for_files() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().canonicalize().unwrap();
    let place = place.to_str().unwrap();
    let world =
        world("files", &table("files", &[program("node"), from_npm("server-filesystem"), place.to_owned()], ""));
    let at = |name: &str| format!("{place}/{name}");
    script(
        "mcp-files",
        [
            Reply::calls(&[("files__write_file", json!({ "path": at("a.txt"), "content": "hello" }))]),
            Reply::calls(&[
                ("files__read_text_file", json!({ "path": at("a.txt") })),
                ("files__list_directory", json!({ "path": place })),
                ("files__read_text_file", json!({ "path": at("b.txt") })),
                ("files__read_text_file", json!({ "path": "/etc/passwd" })),
            ]),
            Reply::says(&["Read."]),
        ],
    );
    let turn = spawn(&world.client(), &json!({ "agent_id": "user", "message": "play mcp-files" }));
    let frames = turn.frames();
    assert_eq!(frames.last().unwrap().data["final_response"], "Read.", "{frames:#?}");
    assert_eq!(std::fs::read_to_string(at("a.txt")).unwrap(), "hello");
    let told = told("mcp-files");
    assert_eq!(told[1], "hello");
    assert_eq!(told[2], "[FILE] a.txt");
    assert!(told[3].contains("ENOENT"), "{}", told[3]);
    assert!(told[4].contains("outside allowed directories") && !told[4].contains("root:"), "{}", told[4]);
    let success: Vec<_> = results(&frames).into_iter().map(|(_, success, _)| success).collect();
    assert_eq!(success.iter().filter(|success| **success).count(), 3, "errors are results: {success:?}");
    assert_eq!(kinds(&frames).iter().filter(|kind| **kind == "tool_started").count(), 5);
    assert_eq!(world.metric("everturn_mcp_calls_total{server=\"files\",outcome=\"error\"}"), 2.0);
    eventually("the history", || {
        let messages = turn.shown()["messages"].as_array().unwrap().clone();
        let failed = messages.iter().filter(|message| message["success"] == false).count();
        (failed == 2).then_some(())
    });
}

#[test]
fn the_server_for_times() {
    let world = world("time", &table("time", &[from_pypi("mcp-server-time")], ""));
    let convert = |zone: &str| {
        let input = json!({ "source_timezone": "UTC", "time": "12:00", "target_timezone": zone });
        ("time__convert_time", input)
    };
    script("mcp-time", [Reply::calls(&[convert("Asia/Tokyo"), convert("Moon/Crater")]), Reply::says(&["Late."])]);
    let turn = spawn(&world.client(), &json!({ "agent_id": "user", "message": "play mcp-time" }));
    assert_eq!(turn.complete()["final_response"], "Late.");
    let told = told("mcp-time");
    let converted: Value = serde_json::from_str(&told[0]).unwrap();
    assert_eq!(converted["time_difference"], "+9.0h");
    assert!(told[1].contains("Moon/Crater"), "{}", told[1]);
    let shown = results(&turn.frames());
    assert_eq!(shown.iter().filter(|(_, success, _)| *success).count(), 1, "{shown:?}");
}
