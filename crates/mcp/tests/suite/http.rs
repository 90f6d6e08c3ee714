//! Servers over streamable HTTP.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use everturn_core::Json;
use everturn_mcp::{Endpoint, ServerConfig, ServerState};
use everturn_tools::{Reply, Report, Reporter};
use serde_json::{Value, json};

use super::harness::{World, context, eventually, python, text};

/// A server that listens; it ends with this.
struct Listening {
    process: Child,
    port: u16,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn listen(options: &[&str]) -> Listening {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/http_server.py");
    let mut process =
        Command::new(python()).arg(script).args(options).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Listening { process, port: line.trim().parse().unwrap() }
}

impl Listening {
    fn config(&self) -> ServerConfig {
        ServerConfig::http("web", format!("http://127.0.0.1:{}/mcp", self.port))
    }
}

fn with_headers(mut config: ServerConfig, headers: &[(&str, &str)]) -> ServerConfig {
    let Endpoint::Http { headers: own, .. } = &mut config.endpoint else { panic!("only these have headers") };
    *own = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect::<BTreeMap<_, _>>();
    config
}

async fn trouble(config: ServerConfig) -> String {
    let world = World::settled([config]).await;
    let trouble = world.mcp.health()[0].trouble.clone().expect("it cannot work");
    world.mcp.shutdown().await;
    trouble
}

#[tokio::test]
async fn a_call_has_a_result_and_news_on_the_way() {
    let server = listen(&[]);
    let config = with_headers(server.config(), &[("authorization", "Bearer hunter2"), ("x-team", "a")]);
    let world = World::ready(config).await;
    assert_eq!(text(world.call("web__echo", json!({"text": "hi"})).await), "hi");
    let headers: Value = serde_json::from_str(&text(world.call("web__headers", json!({})).await)).unwrap();
    assert_eq!((&headers["authorization"], &headers["x-team"]), (&json!("Bearer hunter2"), &json!("a")));
    let (result, told) = world.watched("web__steps", json!({"count": 3})).await;
    assert_eq!((text(result).as_str(), told.len()), ("done", 3));
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn a_question_goes_to_the_call_that_asks_even_among_others() {
    let server = listen(&[]);
    let world = World::ready(server.config()).await;
    let (reporter, mut others) = Reporter::new(10);
    let other = tokio::spawn(world.tools.get("web__hang").unwrap().call(context(reporter), Json::empty_object()));
    assert!(matches!(others.recv().await, Some(Report::Notification { .. })));
    let (reporter, mut reports) = Reporter::new(10);
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let call = world.call_with("web__ask", json!({"message": "Which?", "requestedSchema": schema}), reporter);
    let answer = async {
        let Some(Report::Question(question, answer)) = reports.recv().await else { panic!("a question") };
        answer.send(Reply::Accepted(Json::of(&json!({"a": "b"})).unwrap())).unwrap();
        question.title
    };
    let (result, title) = tokio::join!(call, answer);
    assert_eq!(title, "Which?");
    assert_eq!(text(result), r#"{"action": "accept", "content": {"a": "b"}}"#);
    assert!(others.try_recv().is_err());
    other.abort();
    // It is told that nobody waits.
    let seen = async || text(world.call("web__seen", json!({})).await).contains("notifications/cancelled");
    let until = Instant::now() + super::harness::PATIENCE;
    while !seen().await {
        assert!(Instant::now() < until, "the server hears of it");
    }
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn a_hundred_megabytes_fail_their_call_only() {
    let server = listen(&[]);
    let world = World::ready(server.config()).await;
    for tool in ["web__json_big", "web__events_big"] {
        let failed = world.call(tool, json!({"megabytes": 100})).await.unwrap_err().to_string();
        let expected = r#"MCP server "web": the result was larger than 16 MiB, which is the limit (code -32603)"#;
        assert_eq!(failed, expected, "{tool}");
        assert_eq!(text(world.call(tool, json!({"megabytes": 10})).await).len(), 10 * 1024 * 1024);
    }
    let failed = world.call("web__bad_json", json!({})).await.unwrap_err().to_string();
    assert!(failed.starts_with(r#"MCP server "web": the server's answer cannot be read: "#), "{failed}");
    assert_eq!(world.mcp.health()[0].restarts, 0);
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn a_forgotten_session_is_begun_again() {
    for options in [&[][..], &["--no-stream"]] {
        let server = listen(options);
        let world = World::ready(server.config()).await;
        text(world.call("web__forget", json!({})).await);
        if !options.is_empty() {
            let failed = world.call("web__echo", json!({"text": "x"})).await.unwrap_err().to_string();
            assert!(failed.contains("it has forgotten our session"), "{failed}");
        }
        eventually("a new session", || {
            let health = &world.mcp.health()[0];
            health.restarts > 0 && health.state == ServerState::Ready
        })
        .await;
        assert_eq!(text(world.call("web__echo", json!({"text": "again"})).await), "again");
        world.mcp.shutdown().await;
    }
}

#[tokio::test]
async fn a_server_that_goes_and_comes_back() {
    let mut server = listen(&[]);
    let world = World::ready(server.config()).await;
    let hanging = world.tools.get("web__hang").unwrap();
    let (reporter, mut reports) = Reporter::new(10);
    let hanging = tokio::spawn(hanging.call(context(reporter), Json::empty_object()));
    assert!(matches!(reports.recv().await, Some(Report::Notification { .. })));
    server.process.kill().unwrap();
    server.process.wait().unwrap();
    let failed = tokio::time::timeout(Duration::from_secs(5), hanging).await.expect("at once").unwrap().unwrap_err();
    assert!(failed.to_string().contains("was lost during the call"), "{failed}");
    eventually("it is noticed", || world.mcp.health()[0].state == ServerState::Failed).await;
    let trouble = world.mcp.health()[0].trouble.clone().unwrap();
    assert!(trouble.starts_with("cannot connect: "), "{trouble}");
    let _again = listen(&["--port", &server.port.to_string()]);
    eventually("it is back", || world.mcp.health()[0].state == ServerState::Ready).await;
    assert_eq!(text(world.call("web__echo", json!({"text": "back"})).await), "back");
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn a_stream_that_is_cut_fails_its_call() {
    let server = listen(&[]);
    let world = World::ready(server.config()).await;
    let failed = world.call("web__cut", json!({})).await.unwrap_err().to_string();
    assert!(failed.contains("was lost during the call"), "{failed}");
    assert_eq!(text(world.call("web__echo", json!({"text": "on"})).await), "on");
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn addresses_where_no_server_is() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nowhere = trouble(ServerConfig::http("web", format!("http://127.0.0.1:{port}/mcp?key=hunter2"))).await;
    assert_eq!(nowhere, "cannot connect: Connection refused (os error 111)");
    let page = listen(&["--page"]);
    assert_eq!(
        trouble(page.config()).await,
        "its answer is neither JSON nor a stream of events; is this the address of an MCP server?"
    );
    let locked = listen(&["--status", "401"]);
    assert_eq!(
        trouble(with_headers(locked.config(), &[("authorization", "Bearer hunter22")])).await,
        r#"it answered HTTP 401; check the headers that it is sent: {"error":"you sent •••"}"#
    );
    let broken = listen(&["--status", "500"]);
    assert_eq!(trouble(broken.config()).await, r#"it answered HTTP 500: {"error":"you sent "}"#);
}

#[tokio::test]
async fn redirects_are_followed_at_the_same_server_only() {
    let moved = listen(&["--moved"]);
    let world = World::ready(moved.config()).await;
    assert_eq!(text(world.call("web__echo", json!({"text": "there"})).await), "there");
    world.mcp.shutdown().await;
    let elsewhere = listen(&[]);
    let address = format!("http://127.0.0.1:{}/mcp", elsewhere.port);
    let away = listen(&["--redirect", &address]);
    assert_eq!(trouble(away.config()).await, "it answered HTTP 307; redirects to elsewhere are not followed");
}
