//! What servers list: tools that come while it runs, and tools that cannot be used.

use serde_json::{Value, json};

use super::world::{Traces, World, config, only, play, table, told};
use crate::suite::harness::{Reply, asked, eventually, script};

/// The names of the tools that the model was offered each time that it was asked.
fn offered(name: &str) -> Vec<Vec<String>> {
    let names = |request: Value| {
        let tools = request["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
    };
    asked(name).into_iter().map(names).collect()
}

#[test]
fn a_list_that_grows_while_a_turn_runs() {
    let world = World::new();
    let before = world.tools("boxer");
    assert_eq!(before.len(), 14, "{before:?}");
    let gate = world.traces.text("gate");
    script(
        "mcp-grow",
        [
            Reply::calls(&[("box__grow", json!({ "name": "juggle" }))]),
            Reply::calls(&[("box__wait", json!({ "until": gate }))]),
            Reply::calls(&[("box__juggle", json!({}))]),
            Reply::says(&["Grown."]),
        ],
    );
    let turn = play(&world.client(), "mcp-grow");
    eventually("the tool is there", || (world.tools("boxer").len() == 15).then_some(()));
    world.traces.make("gate");
    assert_eq!(turn.complete()["final_response"], "Grown.");
    assert_eq!(told("mcp-grow"), ["grown", "waited", "this is juggle"]);
    let offered = offered("mcp-grow");
    assert!(!offered[0].contains(&"box__juggle".to_owned()), "{offered:?}");
    assert!(offered[2].contains(&"box__juggle".to_owned()), "{offered:?}");
    assert_eq!(world.health("box")["tools"], 15);
    // Those who can hear of it do.
    let goose = turn.client.send("GET", &format!("{}/stream?as=goose", turn.path()), "").body;
    assert_eq!(goose.matches("notifications/tools/list_changed").count(), 1, "{goose}");
}

/// The model keeps its tools across a crash, also while their server has not come back: the beginning of what a provider is
/// sent stays as it was. A call is answered once the server is there.
#[test]
fn a_list_outlives_the_process() {
    let mut world = World::new();
    world.call("mcp-kept", &[("box__echo", json!({ "text": "hello" }))]);
    world.traces.make("hold");
    world.crash();
    assert_eq!(world.health("box")["state"], "starting");
    script("mcp-kept-on", [Reply::calls(&[("box__echo", json!({ "text": "again" }))]), Reply::says(&["Done."])]);
    let turn = play(&world.client(), "mcp-kept-on");
    eventually("the model is asked", || (!asked("mcp-kept-on").is_empty()).then_some(()));
    world.traces.remove("hold");
    assert_eq!(turn.complete()["final_response"], "Done.");
    assert_eq!(
        told("mcp-kept-on"),
        told("mcp-kept").iter().map(|text| text.replace("hello", "again")).collect::<Vec<_>>()
    );
    assert_eq!(offered("mcp-kept-on")[0], offered("mcp-kept")[0]);
}

/// A world whose server lists these.
#[track_caller]
fn listing(tools: &Value) -> World {
    let traces = Traces::new();
    std::fs::write(traces.path("list"), tools.to_string()).unwrap();
    let command = traces.command(&["--list", &traces.text("list")]);
    let text = config("", &table("box", &command, ""), "");
    let world = World::start(traces, &text);
    world.ready("box");
    world
}

fn object(properties: Value) -> Value {
    json!({ "type": "object", "properties": properties })
}

fn deep(levels: usize) -> Value {
    (0..levels).fold(json!({ "type": "string" }), |inner, _| object(json!({ "a": inner })))
}

#[test]
fn schemas_that_nobody_should_follow() {
    let tool = |name: &str, schema: Value| json!({ "name": name, "inputSchema": schema });
    let world = listing(&json!([
        tool("first", json!({ "type": "object" })),
        tool("remote", object(json!({ "a": { "$ref": "http://127.0.0.1:1/schema.json" } }))),
        tool("local_file", object(json!({ "a": { "$ref": "file:///etc/passwd" } }))),
        tool("deep", deep(50)),
        tool("large", object(json!({ "a": { "enum": ["x".repeat(1_000_000)] } }))),
        tool("a_text", json!({ "type": "string" })),
        tool("no_schema", json!(5)),
        json!({ "name": "nothing" }),
        json!({ "inputSchema": { "type": "object" } }),
        json!("echo"),
        tool("wrong", json!({ "type": "object", "properties": 7 })),
        tool("last", object(json!({ "n": { "type": "integer" } }))),
    ]));
    assert_eq!(world.tools("boxer"), ["box__first", "box__last"]);
    assert_eq!(world.health("box")["tools"], 2);
    world.call("mcp-others", &[("box__first", json!({})), ("box__last", json!({ "n": "many" }))]);
    let told = told("mcp-others");
    assert_eq!(told[0], "this is first");
    assert!(told[1].contains("does not fit the tool's schema"), "{told:?}");
    let log = world.home.log();
    for tool in ["remote", "local_file", "deep", "large", "a_text", "no_schema", "nothing", "wrong"] {
        let line = log.lines().find(|line| line.contains(&format!("\"tool\":\"{tool}\"")));
        assert!(line.is_some_and(|line| line.contains("a tool is left out: ")), "{tool}: {log}");
    }
    assert!(log.len() < 100_000, "it is told in few words: {} bytes", log.len());
}

/// What is deeper than any reader of JSON goes takes the whole list with it. The server is told to be at fault.
#[test]
fn a_list_that_nobody_can_read() {
    let traces = Traces::new();
    let tools = json!([{ "name": "fine", "inputSchema": { "type": "object" } }]);
    let abyss = json!([{ "name": "abyss", "inputSchema": deep(200) }]);
    std::fs::write(traces.path("fine"), tools.to_string()).unwrap();
    std::fs::write(traces.path("abyss"), abyss.to_string()).unwrap();
    let servers = ["fine", "abyss"].map(|name| table(name, &traces.command(&["--list", &traces.text(name)]), ""));
    let agents = "[[agents]]\nname = 'both'\nmodel = 'script/model'\ntools = ['fine/*', 'abyss/*']\n";
    let text = config("", &servers.concat(), agents).replace("'box/*'", "'fine/*'");
    let world = World::start(traces, &text);
    world.ready("fine");
    world.until_state("abyss", "failed");
    assert_eq!(world.tools("both"), ["fine__fine"]);
    eventually("it is logged", || {
        world.home.log().contains("the server's answer cannot be read: recursion limit exceeded").then_some(())
    });
}

#[test]
fn names_that_nobody_would_give() {
    let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
    let long = "long".repeat(30);
    let world = listing(&json!([
        tool("plain"),
        tool("../../etc/passwd"),
        tool("rm -rf / #"),
        tool("ünï\u{202e}cödé\n\u{1b}[31m"),
        tool("a.b"),
        tool("a/b"),
        tool(""),
        tool(&"x".repeat(300)),
        tool(&long),
        tool("*"),
        tool("box__plain"),
        tool("plain"),
    ]));
    let names = world.tools("boxer");
    let fits =
        |name: &String| name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    assert!(names.iter().all(fits), "{names:?}");
    // Two would be called the same; the empty one, the endless one and the second `plain` cannot be.
    assert_eq!(names.len(), 8, "{names:?}");
    let cut = names.iter().find(|name| name.starts_with("box__longlong")).unwrap();
    world.call(
        "mcp-names",
        &[("box__plain", json!({})), ("box________etc_passwd", json!({})), (cut, json!({})), ("box__a_b", json!({}))],
    );
    let called = ["plain", "../../etc/passwd", &long, "a.b"].map(|name| format!("this is {name}"));
    assert_eq!(told("mcp-names"), called, "each is called by its own name");
}

#[test]
fn six_hundred_tools() {
    let properties = json!({ "a": { "type": "string" }, "b": { "type": "array", "items": { "type": "number" } } });
    let tool = |n: usize| json!({ "name": format!("tool_{n}"), "inputSchema": object(properties.clone()) });
    let world = listing(&(0..600).map(tool).collect());
    assert_eq!(world.health("box")["tools"], 512);
    assert_eq!(world.tools("boxer").len(), 512);
    world.call("mcp-hundreds", &[("box__tool_511", json!({}))]);
    assert_eq!(only("mcp-hundreds"), "this is tool_511");
    assert_eq!(offered("mcp-hundreds")[0].len(), 512);
    assert!(world.home.log().contains("a server may have 512 tools"), "{}", world.home.log());
}
