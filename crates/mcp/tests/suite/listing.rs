//! Lists of tools, good and bad.

use everturn_core::EffectClass;
use everturn_mcp::{ServerConfig, effect_word};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::harness::{World, bad, eventually, text};

/// A server that lists these pages.
fn listing(folder: &tempfile::TempDir, pages: &Value) -> ServerConfig {
    let file = folder.path().join("list.json");
    std::fs::write(&file, pages.to_string()).unwrap();
    bad(&["--list", file.to_str().unwrap()])
}

#[track_caller]
fn check(world: &World, expected: Expect) {
    let mut shown = String::new();
    for report in world.mcp.report() {
        for tool in &report.tools {
            let title = tool.title.as_deref().unwrap_or("-");
            shown += &format!(
                "{} = {} ({}) {title}: {}\n",
                tool.name,
                tool.tool,
                effect_word(tool.effect),
                tool.description
            );
        }
        for left_out in &report.left_out {
            shown += &format!("without {}: {}\n", left_out.tool, left_out.reason);
        }
    }
    expected.assert_eq(&shown);
    let listed: Vec<_> =
        world.mcp.report().iter().flat_map(|report| &report.tools).map(|tool| tool.name.clone()).collect();
    let mut sorted = listed.clone();
    sorted.sort();
    assert_eq!(world.tools.names(), sorted);
}

fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

#[tokio::test]
async fn names_titles_and_effects() {
    let folder = tempfile::tempdir().unwrap();
    let hints =
        |hints: Value| json!({"name": hints.to_string(), "inputSchema": {"type": "object"}, "annotations": hints});
    let mut config = listing(
        &folder,
        &json!([
            [
                {"name": "one", "title": "One", "description": "  The first.\nOf many.  ", "inputSchema": {"type": "object"}},
                {"name": "two", "annotations": {"title": "Two"}, "inputSchema": {}},
                {"name": "a.b/c d", "inputSchema": {"type": ["object", "null"]}},
                tool(&"long".repeat(30)),
            ],
            [hints(json!({"readOnlyHint": true, "idempotentHint": true})), hints(json!({"idempotentHint": true})), hints(json!({"readOnlyHint": false})), tool("claimed")],
            [{"name": "overridden", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}],
        ]),
    );
    config.effects.insert("overridden".to_owned(), EffectClass::Effectful);
    config.effects.insert("claimed".to_owned(), EffectClass::Idempotent);
    let world = World::ready(config).await;
    check(
        &world,
        expect![[r#"
        bad__one = one (effectful) One: The first.
        Of many.
        bad__two = two (effectful) Two: Two
        bad__a_b_c_d = a.b/c d (effectful) -: 
        bad__longlonglonglonglonglonglonglonglonglonglonglonglo_e83dd21f = longlonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglonglong (effectful) -: 
        bad____idempotentHint__true__readOnlyHint__true_ = {"idempotentHint":true,"readOnlyHint":true} (read_only) -: 
        bad____idempotentHint__true_ = {"idempotentHint":true} (idempotent) -: 
        bad____readOnlyHint__false_ = {"readOnlyHint":false} (effectful) -: 
        bad__claimed = claimed (idempotent) -: 
        bad__overridden = overridden (effectful) -: 
    "#]],
    );
    for name in ["bad__two", "bad__a_b_c_d"] {
        assert_eq!(world.tools.get(name).unwrap().spec().input_schema.to_value()["type"], "object");
    }
    assert_eq!(world.mcp.report()[0].software, Some(("bad-server".to_owned(), "1.2.3".to_owned())));
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn a_bad_tool_does_not_hide_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let schema = |name: &str, schema: Value| json!({"name": name, "inputSchema": schema});
    let mut deep = json!({"type": "string"});
    for _ in 0..40 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    let bomb: serde_json::Map<String, Value> = (0..30)
        .map(|n| {
            (
                format!("d{n}"),
                json!({"allOf": [{"$ref": format!("#/$defs/d{}", n + 1)}, {"$ref": format!("#/$defs/d{}", n + 1)}]}),
            )
        })
        .chain([("d30".to_owned(), json!({}))])
        .collect();
    let pages = json!([[
        tool("good"),
        {"inputSchema": {"type": "object"}},
        {"name": 5, "inputSchema": {"type": "object"}},
        {"name": "without-schema"},
        schema("text", json!("no")),
        schema("boolean", json!(true)),
        schema("array", json!({"type": "array"})),
        schema("unknown-type", json!({"type": "object", "properties": {"a": {"type": "whatever"}}})),
        schema("remote", json!({"type": "object", "properties": {"a": {"$ref": "https://example.org/schema.json"}}})),
        schema("file", json!({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}})),
        schema("circle", json!({"type": "object", "$ref": "#"})),
        schema("bomb", json!({"type": "object", "allOf": [{"$ref": "#/$defs/d0"}], "$defs": bomb})),
        schema("deep", deep),
        schema("large", json!({"type": "object", "description": "x".repeat(70_000)})),
        schema("pattern", json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}})),
        tool(""),
        tool(&"n".repeat(300)),
        tool("go/od"),
        tool("go.od"),
        tool("last"),
    ]]);
    let world = World::ready(listing(&folder, &pages)).await;
    check(
        &world,
        expect![[r##"
        bad__good = good (effectful) -: 
        bad__go_od = go/od (effectful) -: 
        bad__last = last (effectful) -: 
        without (no name): its description is not one of MCP: missing field `name`
        without (no name): its description is not one of MCP: invalid type: integer `5`, expected a string
        without without-schema: its description is not one of MCP: missing field `inputSchema`
        without text: its description is not one of MCP: invalid type: string "no", expected a map
        without boolean: its description is not one of MCP: invalid type: boolean `true`, expected a map
        without array: its input schema does not describe an object
        without : its name has 0 bytes; 1 to 256 are allowed
        without nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn…: its name has 300 bytes; 1 to 256 are allowed
        without go.od: it would be called "bad__go_od" here, as "go/od" is
        without unknown-type: the schema is not valid at /properties/a/type: "whatever" is not valid under any of the schemas listed in the 'anyOf' keyword
        without remote: the schema refers to "https://example.org/schema.json"; only references into the schema itself, such as "#/$defs/name", are followed
        without file: the schema refers to "file:///etc/passwd"; only references into the schema itself, such as "#/$defs/name", are followed
        without circle: the schema's references to itself multiply or never end, so that no input can be checked against it
        without bomb: the schema's references to itself multiply or never end, so that no input can be checked against it
        without deep: the schema is nested more than 32 deep
        without large: the schema has 70034 bytes, at most 65536 are allowed
        without pattern: the schema is not valid at /properties/a/pattern: "(" is not a "regex"
    "##]],
    );
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn too_many_tools() {
    let folder = tempfile::tempdir().unwrap();
    let pages: Vec<Vec<Value>> =
        (0..10).map(|page| (0..100).map(|n| tool(&format!("t{page}-{n}"))).collect()).collect();
    let world = World::ready(listing(&folder, &json!(pages))).await;
    let report = &world.mcp.report()[0];
    assert_eq!(report.tools.len(), 512);
    assert_eq!(report.left_out.len(), 1);
    assert_eq!(report.left_out[0].reason, "a server may have 512 tools on 100 pages; the rest is left out");
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn pages_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let pages = vec![vec![tool("same")]; 200];
    let world = World::ready(listing(&folder, &json!(pages))).await;
    let report = &world.mcp.report()[0];
    assert_eq!(report.tools.len(), 1);
    assert_eq!(report.left_out.len(), 100);
    let told = |at: usize| format!("{}: {}", report.left_out[at].tool, report.left_out[at].reason);
    assert_eq!(told(0), "(more): a server may have 512 tools on 100 pages; the rest is left out");
    assert_eq!(told(99), r#"same: it would be called "bad__same" here, as "same" is"#);
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn tools_that_two_servers_have() {
    let mut first = bad(&[]);
    first.name = "a".to_owned();
    let mut second = bad(&[]);
    second.name = "b".to_owned();
    let world = World::settled([first, second]).await;
    assert_eq!(text(world.call("a__echo", json!({"text": "1"})).await), "1");
    assert_eq!(text(world.call("b__echo", json!({"text": "2"})).await), "2");
    assert_eq!(world.tools.named(&["a/*".to_owned()]).len(), 22);
    assert_eq!(world.tools.named(&["b/echo".to_owned()])[0].spec().name, "b__echo");
    world.mcp.shutdown().await;
}

#[tokio::test]
async fn a_server_may_change_its_tools() {
    let world = World::ready(bad(&[])).await;
    let before = world.tools.servers()["bad"].revision;
    text(world.call("bad__grow", json!({"name": "new"})).await);
    eventually("the new tool", || world.tools.get("bad__new").is_some()).await;
    assert!(world.tools.servers()["bad"].revision > before);
    eventually("it is counted", || world.mcp.health()[0].tools == 23).await;
    world.mcp.shutdown().await;
}

/// A call would only be refused: results of tasks are fetched in a way of their own.
#[tokio::test]
async fn tools_that_run_as_tasks_only_are_not_offered() {
    let folder = tempfile::tempdir().unwrap();
    let task = |name: &str, support: &str| json!({"name": name, "inputSchema": {"type": "object"}, "execution": {"taskSupport": support}});
    let pages =
        json!([[task("only", "required")], [task("also", "optional"), task("not", "forbidden"), tool("plain")]]);
    let world = World::ready(listing(&folder, &pages)).await;
    assert_eq!(world.tools.names(), ["bad__also", "bad__not", "bad__plain"]);
    let left_out = &world.mcp.report()[0].left_out;
    assert_eq!(left_out.len(), 1, "{left_out:?}");
    assert_eq!(
        (left_out[0].tool.as_str(), left_out[0].reason.contains("as a task only")),
        ("only", true),
        "{left_out:?}"
    );
    world.mcp.shutdown().await;
}
