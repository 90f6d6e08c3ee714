//! Servers that behave badly, and what it costs.

use std::time::Instant;

use everturn_mcp::ServerState;
use everturn_tools::Reporter;
use serde_json::json;

use super::harness::{World, bad, set_variable, text};

/// How much memory this process has, in bytes.
fn memory() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::test]
async fn a_result_of_a_hundred_megabytes_fails_its_call_and_nothing_else() {
    let world = World::ready(bad(&[])).await;
    let before = memory();
    for id_first in [true, false] {
        let call = world.call("bad__big", json!({"megabytes": 100, "id_first": id_first}));
        // Meanwhile the connection is in use by nobody else, so this one waits for its turn.
        let other = world.call("bad__echo", json!({"text": "still here"}));
        let (big, other) = tokio::join!(call, other);
        assert_eq!(
            big.unwrap_err().to_string(),
            r#"MCP server "bad": the result was larger than 16 MiB, which is the limit (code -32603)"#
        );
        assert_eq!(text(other), "still here");
    }
    let grown = memory().saturating_sub(before);
    assert!(grown < 64 * 1024 * 1024, "{grown} bytes");
    assert_eq!(text(world.call("bad__big", json!({"megabytes": 15})).await).len(), 15 * 1024 * 1024);
    assert_eq!(world.mcp.health()[0].restarts, 0);
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn the_largest_message_can_be_set() {
    let mut config = bad(&[]);
    config.max_message = 8 * 1024;
    let world = World::ready(config).await;
    let failed = world.call("bad__big", json!({"megabytes": 1})).await.unwrap_err().to_string();
    assert_eq!(failed, r#"MCP server "bad": the result was larger than 8 KiB, which is the limit (code -32603)"#);
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn a_result_of_too_many_values_is_not_read() {
    let world = World::ready(bad(&[])).await;
    let failed = world.call("bad__many", json!({"values": 2_000_000})).await.unwrap_err().to_string();
    assert_eq!(
        failed,
        r#"MCP server "bad": the result had more than 1000000 values, which is the limit (code -32603)"#
    );
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn a_flood_of_news_neither_blocks_nor_piles_up() {
    let world = World::ready(bad(&[])).await;
    let before = memory();
    // Nobody takes what is reported.
    let (reporter, reports) = Reporter::new(4);
    let flood = world.call_with("bad__flood", json!({"count": 100_000, "size": 1000}), reporter);
    let other = world.call("bad__echo", json!({"text": "hello"}));
    let (flood, other) = tokio::join!(flood, other);
    assert_eq!((text(flood), text(other)), ("done".to_owned(), "hello".to_owned()));
    assert_eq!(reports.len(), 4);
    let grown = memory().saturating_sub(before);
    assert!(grown < 64 * 1024 * 1024, "{grown} bytes");
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn lines_that_are_no_messages_are_passed_over() {
    let world = World::ready(bad(&[])).await;
    for line in [
        "Server started!",
        "{",
        "[]",
        "null",
        "",
        "  ",
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"id":99999,"result":{}}"#,
        "\u{0}\u{1}",
    ] {
        let result = world.call("bad__raw", json!({"line": line, "answer": true})).await;
        assert_eq!(text(result), "done", "{line}");
    }
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_fails_its_call() {
    let world = World::ready(bad(&[])).await;
    for line in [
        r#"{"jsonrpc":"2.0","id":ID,"error":"no"}"#,
        r#"{"jsonrpc":"2.0","id":ID}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{},"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"\ud800"}]}}"#,
    ] {
        let failed = world.call("bad__raw", json!({ "line": line })).await.unwrap_err().to_string();
        assert!(failed.starts_with(r#"MCP server "bad": "#), "{line}: {failed}");
    }
    let failed = world.call("bad__raw", json!({"line": r#"{"jsonrpc":"2.0","id":ID,"result":7}"#})).await.unwrap_err();
    assert_eq!(failed.to_string(), "the MCP server's result is not a JSON object");
    // Deeper than a parser goes.
    let deep = format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"content":{}{}}}}}"#, "[".repeat(500), "]".repeat(500));
    assert!(world.call("bad__raw", json!({ "line": deep })).await.is_err());
    assert_eq!(world.mcp.health()[0].state, ServerState::Ready);
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn a_call_fails_at_once_when_its_server_dies() {
    let world = World::ready(bad(&[])).await;
    let begun = Instant::now();
    let hanging = world.call("bad__hang", json!({}));
    let dying = world.call("bad__die", json!({"code": 7}));
    let (hanging, dying) = tokio::join!(hanging, dying);
    for failed in [hanging.unwrap_err().to_string(), dying.unwrap_err().to_string()] {
        assert_eq!(
            failed,
            r#"MCP server "bad" was lost during the call: it ended; whether the call had an effect is not known"#
        );
    }
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn no_secret_of_the_configuration_is_told() {
    let mut config = bad(&["--die", "my token is hunter2hunter2, do not tell"]);
    set_variable(&mut config, "TOKEN", "hunter2hunter2");
    let world = World::settled([config]).await;
    let trouble = world.mcp.health()[0].trouble.clone().unwrap();
    assert_eq!(trouble, "it ended (exit code 3); it wrote: my token is •••, do not tell");
    let shown = "it does not work at the moment and is being started again";
    assert_eq!(world.tools.servers()["bad"].trouble.as_deref(), Some(shown));
    world.mcp.shutdown().await;
}
