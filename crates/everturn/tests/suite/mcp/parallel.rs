//! Many sessions over one server, and results that are far too large.

use std::time::{Duration, Instant};

use serde_json::json;

use super::world::{Traces, Turn, World, command, config, only, play, results, spawn, table, told};
use crate::suite::harness::{Reply, script};

#[test]
fn twenty_sessions_share_one_process() {
    let world = World::new();
    let client = world.client();
    let text = |session: usize, call: usize| format!("words {call} of {session}");
    let turns: Vec<(String, Turn)> = (0..20)
        .map(|session| {
            let name = format!("mcp-many-{session}");
            let echo = |call| ("box__echo", json!({ "text": text(session, call) }));
            script(
                &name,
                [
                    Reply::calls(&[echo(0), echo(1), ("box__pid", json!({}))]),
                    Reply::calls(&[echo(2)]),
                    Reply::says(&["Done."]),
                ],
            );
            let turn = play(&client, &name);
            (name, turn)
        })
        .collect();
    let pid = world.traces.pid().to_string();
    for (session, (name, turn)) in turns.iter().enumerate() {
        assert_eq!(turn.complete()["final_response"], "Done.");
        assert_eq!(told(name), [text(session, 0), text(session, 1), pid.clone(), text(session, 2)]);
    }
    assert_eq!(world.traces.lines("life"), [pid], "it was started once");
    assert_eq!(world.metric("everturn_mcp_calls_total{server=\"box\",outcome=\"ok\"}"), 80.0);
}

/// The most memory that a process ever had, in megabytes.
fn peak(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
}

#[test]
fn a_result_of_a_hundred_megabytes() {
    let traces = Traces::new();
    let servers = table("box", &traces.command(&[]), "") + &table("other", &command(&[]), "");
    let agents = "[[agents]]\nname = 'another'\nmodel = 'script/model'\ntitles = false\ntools = ['other/*']\n\
                  trusted = ['other/*']\n";
    let world = World::start(traces, &config("", &servers, agents));
    world.ready("box");
    world.ready("other");
    let client = world.client();
    world.call("mcp-warm", &[("box__echo", json!({ "text": "warm" }))]);
    let before = peak(world.server.pid());
    script("mcp-big", [Reply::calls(&[("box__big", json!({ "megabytes": 100 }))]), Reply::says(&["Too much."])]);
    let big = play(&client, "mcp-big");
    big.open().until("tool_started");
    // Others do not wait for it.
    let echo = || Reply::calls(&[("other__echo", json!({ "text": "quick" }))]);
    script("mcp-beside", [echo(), echo(), echo(), Reply::says(&["Quick."])]);
    let begun = Instant::now();
    let body = json!({ "agent_id": "another", "message": "play mcp-beside" });
    assert_eq!(spawn(&client, &body).complete()["final_response"], "Quick.");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(told("mcp-beside"), ["quick"; 3]);
    assert_eq!(big.complete()["final_response"], "Too much.");
    let after = peak(world.server.pid());
    println!("{before} MB before, {after} MB after; the other session took {took:?}");
    assert!(after < before + 150, "{before} MB before, {after} MB after");
    let result = only("mcp-big");
    assert!(result.contains("the result was larger than 16 MiB, which is the limit"), "{result}");
    assert!(!results(&big.frames())[0].1);
    world.call("mcp-after", &[("box__echo", json!({ "text": "still here" }))]);
    assert_eq!(only("mcp-after"), "still here");
    assert_eq!(world.traces.lines("life").len(), 1, "it is the same process");
}

#[test]
fn results_are_cut_to_what_a_model_is_given() {
    let world = World::with_box("", "output_cap = 1000\nmax_message = 1000000", "");
    world.call(
        "mcp-cut",
        &[("box__echo", json!({ "text": "x".repeat(5000) })), ("box__big", json!({ "megabytes": 2 }))],
    );
    let told = told("mcp-cut");
    assert!(told[0].starts_with(&"x".repeat(900)) && told[0].len() < 1200, "{} bytes", told[0].len());
    assert!(told[1].contains("1000000 bytes, which is the limit"), "{}", told[1]);
}

/// A call that takes its time holds up neither the session that made it nor the others.
#[test]
fn calls_of_one_session_run_side_by_side() {
    let world = World::new();
    let gate = json!({ "until": world.traces.text("gate") });
    script(
        "mcp-beside-each-other",
        [Reply::calls(&[("box__wait", gate), ("box__echo", json!({ "text": "first" }))]), Reply::says(&["Both."])],
    );
    let turn = play(&world.client(), "mcp-beside-each-other");
    let mut reader = turn.open();
    let quick = reader.until("tool_completed");
    assert!(quick.contains("\"first\""), "{quick}");
    world.call("mcp-another", &[("box__echo", json!({ "text": "another" }))]);
    assert_eq!(only("mcp-another"), "another");
    world.traces.make("gate");
    assert_eq!(turn.complete()["final_response"], "Both.");
    assert_eq!(told("mcp-beside-each-other"), ["waited", "first"], "in the order of the calls");
}
