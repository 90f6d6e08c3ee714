//! Starting, failing, starting again, stopping.

use std::time::{Duration, Instant};

use everturn_mcp::{Backoff, ServerConfig, ServerState};
use expect_test::expect;
use serde_json::json;

use super::harness::{World, bad, eventually, is_alive, pids, text};

#[tokio::test]
async fn nothing_waits_for_a_server() {
    let mut config = bad(&["--silent"]);
    config.start_timeout = Duration::from_secs(2);
    let world = World::start([config]);
    assert_eq!(world.tools.servers()["bad"].trouble.as_deref(), Some("it is being started"));
    assert_eq!(world.mcp.health()[0].state, ServerState::Starting);
    world.mcp.settled().await;
    let health = &world.mcp.health()[0];
    assert_eq!(health.state, ServerState::Failed);
    assert_eq!(health.trouble.as_deref(), Some("it was not ready within 2 s"));
    assert!(world.metrics("everturn_mcp_up").ends_with("} 0\n"));
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let world = World::settled([
        ServerConfig::stdio("gone", "there-is-no-such-program", []),
        ServerConfig::stdio("quick", "true", []),
        bad(&["--die", "no disk\nno fun"]),
    ])
    .await;
    let troubles: Vec<_> = world
        .mcp
        .health()
        .into_iter()
        .map(|health| format!("{}: {}\n", health.name, health.trouble.unwrap_or_default()))
        .collect();
    expect![[r#"
        gone: it ended (exit code 127); it wrote: cannot start there-is-no-such-program: No such file or directory (os error 2)
        quick: it ended
        bad: it ended (exit code 3); it wrote: no disk | no fun
    "#]]
    .assert_eq(&troubles.concat());
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn a_server_that_fails_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let once = folder.path().join("once");
    let world = World::settled([bad(&["--once", once.to_str().unwrap()])]).await;
    assert_eq!(world.mcp.health()[0].state, ServerState::Failed);
    let ready = || world.mcp.health()[0].state == ServerState::Ready;
    eventually("the server is ready", ready).await;
    let health = &world.mcp.health()[0];
    assert_eq!((health.restarts, &health.trouble), (1, &None));
    assert_eq!(world.tools.servers()["bad"].trouble, None);
    assert_eq!(text(world.call("bad__echo", json!({"text": "hi"})).await), "hi");
    expect![[r#"
        everturn_mcp_restarts_total{server="bad"} 1
        everturn_mcp_up{server="bad"} 1
    "#]]
    .assert_eq(&(world.metrics("everturn_mcp_restarts_total") + &world.metrics("everturn_mcp_up")));
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn while_a_server_is_down_its_tools_are_listed_and_calls_fail_fast() {
    // It stays down for as long as the test needs.
    let backoff = Backoff { first: Duration::from_secs(1000), most: Duration::from_secs(1000), ..Backoff::default() };
    let world = World::start_with([bad(&[])], backoff);
    world.mcp.settled().await;
    let revision = world.tools.servers()["bad"].revision;
    assert!(world.call("bad__die", json!({"code": 9})).await.is_err());
    eventually("it is known why", || {
        let health = &world.mcp.health()[0];
        health.state == ServerState::Failed && health.trouble.as_ref().is_some_and(|why| why.contains("exit code"))
    })
    .await;
    let known = &world.tools.servers()["bad"];
    assert_eq!((known.revision, known.tools.len()), (revision, 22));
    assert!(world.tools.get("bad__echo").is_some());
    let begun = Instant::now();
    let failed = world.call("bad__echo", json!({"text": "hi"})).await.unwrap_err().to_string();
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(failed, r#"MCP server "bad" is not running; it is being started again"#);
    assert_eq!(world.mcp.health()[0].tools, 22);
    assert!(world.metrics("everturn_mcp_up").ends_with("} 0\n"));
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn a_tool_of_the_old_connection_works_on_the_new_one() {
    let world = World::ready(bad(&[])).await;
    let echo = world.tools.get("bad__echo").unwrap();
    assert!(world.call("bad__die", json!({})).await.is_err());
    eventually("it is started again", || {
        let health = &world.mcp.health()[0];
        health.restarts == 1 && health.state == ServerState::Ready
    })
    .await;
    let input = everturn_core::Json::of(&json!({"text": "again"})).unwrap();
    let reporter = everturn_tools::Reporter::default();
    assert_eq!(text(echo.call(super::harness::context(reporter), input).await), "again");
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn nothing_is_left_after_a_stop() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["meek", "stubborn"].map(|name| folder.path().join(name));
    let mut meek = bad(&["--children", files[0].to_str().unwrap()]);
    meek.name = "meek".to_owned();
    let mut stubborn = bad(&["--stubborn", "--children", files[1].to_str().unwrap()]);
    stubborn.name = "stubborn".to_owned();
    let world = World::settled([meek, stubborn]).await;
    let mut all = pids(&files[0]).await;
    all.extend(pids(&files[1]).await);
    assert_eq!(all.len(), 10);
    assert!(all.iter().all(|pid| is_alive(*pid)));
    world.mcp.shutdown().await;
    let left: Vec<_> = all.into_iter().filter(|pid| is_alive(*pid)).collect();
    assert_eq!(left, [0; 0]);
    let failed = world.call("meek__echo", json!({"text": "x"})).await.unwrap_err().to_string();
    assert!(failed.contains("it was told to stop"), "{failed}");
}

#[tokio::test]
async fn a_disabled_server_is_not_started() {
    let mut config = bad(&[]);
    config.enabled = false;
    let world = World::settled([config]).await;
    assert!(world.mcp.health().is_empty() && world.tools.servers().is_empty());
    world.mcp.shutdown().await;
}
