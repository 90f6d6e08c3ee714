//! Calls of tools, and what is heard of them while they run.

use std::time::Duration;

use everturn_core::{Block, Content, Json};
use everturn_tools::{Report, Reporter, TimeLimit};
use expect_test::expect;
use serde_json::{Value, json};

use super::harness::{World, bad, context, eventually, python, set_variable, text, told};

#[tokio::test]
async fn a_call_has_a_result() {
    let world = World::ready(bad(&[])).await;
    assert_eq!(text(world.call("bad__echo", json!({"text": "hällo"})).await), "hällo");
    let failed = world.call("bad__fail", json!({})).await.unwrap();
    assert!(failed.is_error);
    assert_eq!(failed.content, Content::Text("that went wrong".to_owned()));
    let image = world.call("bad__image", json!({})).await.unwrap().content;
    assert_eq!(image, Content::Blocks(vec![Block::Image { url: "data:image/png;base64,aGVsbG8=".into() }]));
    let refused = world.call("bad__refuse", json!({})).await.unwrap_err();
    assert_eq!(refused.to_string(), r#"MCP server "bad": it is Sunday (code -32602)"#);
    let calls = world.metrics("everturn_mcp_calls_total");
    expect![[r#"
        everturn_mcp_calls_total{server="bad",outcome="error"} 1
        everturn_mcp_calls_total{server="bad",outcome="failed"} 1
        everturn_mcp_calls_total{server="bad",outcome="ok"} 2
    "#]]
    .assert_eq(&{
        let mut lines: Vec<_> = calls.lines().map(|line| format!("{line}\n")).collect();
        lines.sort();
        lines.concat()
    });
    assert!(world.metrics("everturn_mcp_call_seconds_count").ends_with(" 4\n"));
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn the_server_is_told_which_effect_it_is() {
    let world = World::ready(bad(&[])).await;
    let tool = world.tools.get("bad__meta").unwrap();
    let context = context(Reporter::default());
    let effect = context.effect_id.to_string();
    let meta: Value = serde_json::from_str(&text(tool.call(context, Json::empty_object()).await)).unwrap();
    assert_eq!(meta["everturn/effect_id"], effect);
    assert!(meta["progressToken"].is_number(), "{meta}");
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn calls_run_at_once_and_each_hears_of_its_own_progress() {
    let world = World::ready(bad(&[])).await;
    let steps = |count: u32| world.watched("bad__steps", json!({ "count": count }));
    let (hang, mut hung) = Reporter::new(10);
    let hanging = world.tools.get("bad__hang").unwrap().call(context(hang), Json::empty_object());
    let hanging = tokio::spawn(hanging);
    let ((one, first), (two, second)) = tokio::join!(steps(2), steps(3));
    assert_eq!((text(one).as_str(), text(two).as_str()), ("done", "done"));
    let messages = |told: &[String]| -> Vec<Value> {
        told.iter()
            .map(|line| line.strip_prefix("notifications/progress ").unwrap())
            .map(|params| serde_json::from_str::<Value>(params).unwrap())
            .map(|params| json!([params["progress"], params["total"], params["message"]]))
            .collect()
    };
    assert_eq!(messages(&first), [json!([1, 2, "step 1"]), json!([2, 2, "step 2"])]);
    assert_eq!(messages(&second), [json!([1, 3, "step 1"]), json!([2, 3, "step 2"]), json!([3, 3, "step 3"])]);
    assert!(matches!(hung.recv().await, Some(Report::Notification { .. })));
    assert!(told(&mut hung).is_empty());
    hanging.abort();
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn other_news_goes_to_every_call() {
    let world = World::ready(bad(&[])).await;
    let (result, told) = world.watched("bad__chatter", json!({})).await;
    assert_eq!(text(result), "done");
    expect![[r#"
        notifications/message {"data":{"a":1},"level":"warning","logger":"it"}
        notifications/resources/updated {"uri":"file:///a"}
        notifications/resources/list_changed {}"#]]
    .assert_eq(&told.join("\n"));
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_cancelled_at_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    let world = World::ready(bad(&["--note", notes.to_str().unwrap()])).await;
    let (reporter, mut reports) = Reporter::new(10);
    let call = world.tools.get("bad__hang").unwrap().call(context(reporter), Json::empty_object());
    let call = tokio::spawn(call);
    // It runs: its server says so.
    assert!(matches!(reports.recv().await, Some(Report::Notification { .. })));
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    let cancelled = || std::fs::read_to_string(&notes).unwrap_or_default().contains("notifications/cancelled");
    eventually("the server hears of it", cancelled).await;
    let noted = std::fs::read_to_string(&notes).unwrap();
    let last: Value = serde_json::from_str(noted.lines().last().unwrap()).unwrap();
    assert_eq!(last["params"]["reason"], "nobody waits for the result any more");
    assert!(last["params"]["requestId"].is_number(), "{last}");
    // And one that was answered is not.
    text(world.call("bad__echo", json!({"text": "x"})).await);
    assert_eq!(std::fs::read_to_string(&notes).unwrap().matches("notifications/cancelled").count(), 1);
    assert!(world.metrics("everturn_mcp_calls_total").contains(r#"outcome="cancelled"} 1"#));
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn a_server_has_its_own_variables_and_two_of_ours() {
    let mut config = bad(&[]);
    set_variable(&mut config, "TOKEN", "hunter2");
    set_variable(&mut config, "HOME", "/nowhere");
    let world = World::ready(config).await;
    let variables: Value = serde_json::from_str(&text(world.call("bad__environment", json!({})).await)).unwrap();
    let mut names: Vec<_> = variables.as_object().unwrap().keys().map(String::as_str).collect();
    // Python sets this one itself where there is no locale.
    names.retain(|name| *name != "LC_CTYPE");
    assert_eq!(names, ["HOME", "PATH", "TMPDIR", "TOKEN"]);
    assert_eq!(variables["TOKEN"], "hunter2");
    assert_eq!(variables["HOME"], "/nowhere");
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn a_server_runs_where_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = bad(&[]);
    let everturn_mcp::Endpoint::Stdio { folder: place, .. } = &mut config.endpoint else { panic!("a program") };
    *place = Some(folder.path().to_owned());
    let world = World::ready(config.clone()).await;
    let where_it_is = text(world.call("bad__where", json!({})).await);
    assert_eq!(std::path::Path::new(&where_it_is), folder.path().canonicalize().unwrap());
    world.mcp.shutdown().await;
    let gone = folder.path().to_owned();
    drop(folder);
    let world = World::settled([config]).await;
    let trouble = world.mcp.health()[0].trouble.clone().unwrap();
    assert_eq!(trouble, format!(r#"cannot start "{}": there is no folder {}"#, python(), gone.display()));
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn bounds_are_those_of_the_configuration() {
    let mut config = bad(&[]);
    config.timeout = Duration::from_secs(7);
    config.max_timeout = Duration::from_secs(70);
    config.output_cap = 1234;
    let world = World::ready(config).await;
    let tool = world.tools.get("bad__echo").unwrap();
    let limit = TimeLimit { silence: Duration::from_secs(7), total: Duration::from_secs(70) };
    assert_eq!((tool.time_limit(), tool.output_cap()), (limit, 1234));
    assert!(!tool.is_builtin());
    let origin = tool.origin().unwrap();
    assert_eq!((origin.server, origin.tool), ("bad", "echo"));
    world.mcp.shutdown().await;
}
