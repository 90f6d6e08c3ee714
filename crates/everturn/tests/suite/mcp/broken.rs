//! Servers that do not start.

use std::{
    os::unix::fs::PermissionsExt as _,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::world::{Traces, World, command, config, only, spawn, table};
use crate::suite::harness::{Reply, asked, eventually, script};

const SERVERS: [&str; 6] = ["missing", "ends", "silent", "nonsense", "loud", "late"];

/// An agent with the tools of all of them.
const AGENTS: &str = "
[[agents]]
name = 'patient'
model = 'script/model'
titles = false
instructions = 'Be patient.'
tools = ['missing/*', 'ends/*', 'silent/*', 'nonsense/*', 'loud/*', 'late/echo', 'box/echo', 'clock']
trusted = ['late/echo', 'box/echo']
";

fn world() -> World {
    let traces = Traces::new();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let short = "start_timeout = '700ms'";
    let servers = [
        table("missing", &words(&["/nowhere/server", "--key"]), ""),
        table("ends", &command(&["--exit", "no licence"]), ""),
        table("silent", &command(&["--silent"]), short),
        table("nonsense", &command(&["--nonsense"]), short),
        table("loud", &command(&["--complain"]), short),
        table("late", &words(&[&traces.text("late.sh")]), ""),
        table("box", &traces.command(&[]), ""),
        table("unused", &words(&["/nowhere/else"]), "enabled = false"),
    ];
    World::start(traces, &config("", &servers.concat(), AGENTS))
}

/// What an agent is told to be without: servers and reasons.
fn reasons(told: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let one = |entry: &Value| (text(&entry["server"]), text(&entry["reason"]));
    told.as_array().map(|told| told.iter().map(one).collect()).unwrap_or_default()
}

#[test]
fn everything_else_works_and_they_are_told() {
    let begun = Instant::now();
    let world = world();
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(3), "nobody waits for them: {took:?}");
    // An agent that has nothing to do with them.
    script("mcp-unconcerned", [Reply::calls(&[("clock", json!({}))]), Reply::says(&["Fine."])]);
    let turn = spawn(&world.client(), &json!({ "agent_id": "scripted", "message": "play mcp-unconcerned" }));
    assert_eq!(turn.complete()["final_response"], "Fine.");
    let system = |name: &str| asked(name)[0]["messages"][0]["content"].as_str().unwrap().to_owned();

    world.ready("box");
    for server in SERVERS {
        let health = world.until_state(server, "failed");
        assert_eq!(health["tools"], 0, "{server}");
        assert_eq!(world.metric(&format!("everturn_mcp_up{{server=\"{server}\"}}")), 0.0);
    }
    let ready = world.client().send("GET", "/readyz", "");
    assert_eq!(ready.json()["status"], "ready");
    assert!(!ready.body.contains("nowhere") && !ready.body.contains("licence"), "open to all: {ready:?}");
    assert_eq!(world.health("unused"), Value::Null, "it is not used");

    let told = reasons(&world.agent("patient")["unavailable"]);
    let meta = world.meta("patient");
    assert_eq!(reasons(&meta["unavailableTools"]), told, "{meta}");
    let expected = [
        ("ends", "it ended (exit code 3); it wrote: no licence"),
        ("late", "it ended (exit code 127); it wrote: cannot start"),
        ("loud", "it was not ready within 0.7 s"),
        ("missing", "it ended (exit code 127); it wrote: cannot start /nowhere/server: No such file or directory"),
        ("nonsense", "it was not ready within 0.7 s"),
        ("silent", "it was not ready within 0.7 s"),
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    let log = world.home.log();
    for ((server, reason), (name, why)) in told.iter().zip(expected) {
        assert_eq!(server, name);
        // The server's own words and its program are the operator's alone.
        assert_eq!(reason, "it does not work at the moment and is being started again");
        let is_logged = |line: &&str| line.contains(&format!("\"server\":\"{name}\"")) && line.contains(why);
        let line = log.lines().find(is_logged).unwrap_or_else(|| panic!("{name} is not logged:\n{log}"));
        assert!(line.len() < 4500, "{server}: {} bytes", line.len());
    }
    assert_eq!(world.tools("patient"), ["box__echo", "clock"]);
    assert_eq!(world.meta("boxer").get("unavailableTools"), None);

    script(
        "mcp-patient",
        [
            Reply::calls(&[("box__echo", json!({ "text": "here" })), ("late__echo", json!({ "text": "now?" }))]),
            Reply::says(&["Well."]),
        ],
    );
    let turn = spawn(&world.client(), &json!({ "agent_id": "patient", "message": "play mcp-patient" }));
    assert_eq!(turn.complete()["final_response"], "Well.");
    let told = super::world::told("mcp-patient");
    assert_eq!(told[0], "here");
    assert!(
        told[1].starts_with("Tool call not run: late__echo cannot be used at the moment: it does not work"),
        "{told:?}"
    );
    // Instructions that change with the health of servers would cost the model its cache and its reasoning.
    assert_eq!(system("mcp-patient"), "Be patient.");
    late(&world);
}

/// Its program appears: nobody needs to do anything more.
fn late(world: &World) {
    let (file, part) = (world.traces.path("late.sh"), world.traces.path("late.part"));
    let words: Vec<_> = command(&[]).iter().map(|word| format!("'{word}'")).collect();
    std::fs::write(&part, format!("#!/bin/sh\nexec {}\n", words.join(" "))).unwrap();
    std::fs::set_permissions(&part, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(part, file).unwrap();
    world.ready("late");
    script("mcp-late", [Reply::calls(&[("late__echo", json!({ "text": "at last" }))]), Reply::says(&["Good."])]);
    let turn = spawn(&world.client(), &json!({ "agent_id": "patient", "message": "play mcp-late" }));
    assert_eq!(turn.complete()["final_response"], "Good.");
    assert_eq!(only("mcp-late"), "at last");
    eventually("it is not told any more", || {
        let told = reasons(&world.agent("patient")["unavailable"]);
        (told.len() == 5 && !told.iter().any(|(server, _)| server == "late")).then_some(())
    });
}
