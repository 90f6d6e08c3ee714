//! Servers that others have written, with the SDKs for TypeScript and Python.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use everturn_core::{EffectClass, Json};
use everturn_mcp::ServerConfig;
use everturn_tools::{Reply, Report, Reporter};
use serde_json::{Value, json};

use super::harness::{World, text};

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers")
}

fn from_npm(package: &str) -> String {
    let file = peers().join("node_modules/@modelcontextprotocol").join(package).join("dist/index.js");
    assert!(file.exists(), "{package} is not installed under tests/peers; run: cargo xtask peers");
    file.to_str().unwrap().to_owned()
}

fn from_pypi(program: &str) -> String {
    let file = peers().join(".venv/bin").join(program);
    assert!(file.exists(), "{program} is not installed under tests/peers; run: cargo xtask peers");
    file.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_server_that_shows_everything() {
    let config = ServerConfig::stdio("everything", "node", [from_npm("server-everything"), "stdio".to_owned()]);
    everything(config).await;
}

#[tokio::test]
async fn the_server_that_shows_everything_over_http() {
    // Any port will do, but it cannot be told to choose one.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = Command::new("node")
        .args([from_npm("server-everything"), "streamableHttp".to_owned()])
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(server.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening") {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0, "it ended");
    }
    // It would block once nobody reads.
    std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
    everything(ServerConfig::http("everything", format!("http://127.0.0.1:{port}/mcp"))).await;
    server.kill().unwrap();
    server.wait().unwrap();
}

async fn everything(config: ServerConfig) {
    let world = World::ready(config).await;
    let report = &world.mcp.report()[0];
    // It has one tool that runs as a task only.
    let left_out: Vec<_> = report.left_out.iter().map(|tool| tool.tool.as_str()).collect();
    assert_eq!(left_out, ["simulate-research-query"], "{:?}", report.left_out);
    assert!(report.tools.len() >= 8, "{:?}", world.tools.names());
    assert_eq!(text(world.call("everything__echo", json!({"message": "hi"})).await), "Echo: hi");
    let (result, told) =
        world.watched("everything__trigger-long-running-operation", json!({"duration": 1, "steps": 4})).await;
    assert!(text(result).contains("completed"));
    let progress = told.iter().filter(|line| line.starts_with("notifications/progress")).count();
    assert_eq!(progress, 4, "{told:?}");
    let shown = text(world.call("everything__get-tiny-image", json!({})).await);
    assert!(shown.contains("data:image/png;base64,"), "{shown}");
    let structured = text(world.call("everything__get-structured-content", json!({"location": "Chicago"})).await);
    assert_eq!(structured.matches("temperature").count(), 1, "{structured}");

    let (reporter, mut reports) = Reporter::new(100);
    let answer = async {
        loop {
            match reports.recv().await.expect("a question") {
                Report::Notification { .. } => {}
                Report::Question(question, answer) => {
                    answer.send(Reply::Accepted(Json::of(&json!({"name": "Ada"})).unwrap())).unwrap();
                    return question;
                }
            }
        }
    };
    let call = world.call_with("everything__trigger-elicitation-request", json!({}), reporter);
    let (result, question) = tokio::join!(call, answer);
    assert_eq!(question.schema.to_value()["type"], "object");
    let result = text(result);
    assert!(result.contains("Ada"), "{result}");
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn the_server_for_files() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().canonicalize().unwrap();
    let place = place.to_str().unwrap();
    let world =
        World::ready(ServerConfig::stdio("files", "node", [from_npm("server-filesystem"), place.to_owned()])).await;
    assert_eq!(world.mcp.report()[0].left_out, []);
    let write = json!({"path": format!("{place}/a.txt"), "content": "hello"});
    text(world.call("files__write_file", write).await);
    assert_eq!(std::fs::read_to_string(folder.path().join("a.txt")).unwrap(), "hello");
    assert_eq!(text(world.call("files__read_text_file", json!({"path": format!("{place}/a.txt")})).await), "hello");
    let outside = world.call("files__read_text_file", json!({"path": "/etc/passwd"})).await.unwrap();
    assert!(outside.is_error);
    let effect = |tool: &str| world.tools.get(tool).unwrap().effect();
    assert_eq!(effect("files__read_text_file"), EffectClass::ReadOnly);
    assert_eq!(effect("files__write_file"), EffectClass::Idempotent);
    assert_eq!(effect("files__edit_file"), EffectClass::Effectful);
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn the_server_for_times() {
    let world = World::ready(ServerConfig::stdio("time", from_pypi("mcp-server-time"), [])).await;
    let input = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    let converted: Value = serde_json::from_str(&text(world.call("time__convert_time", input).await)).unwrap();
    assert_eq!(converted["time_difference"], "+9.0h");
    world.mcp.shutdown().await;
}
