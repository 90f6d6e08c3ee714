//! Which settings a session takes, rule by rule.

use everturn_core::{Json, OptionSpec, OptionValue, SessionConfig, ToolRef, ToolSpec};
use everturn_engine::{Agent, REDACTED, SessionUpdate};
use expect_test::{Expect, expect};

use super::harness::*;

fn agent() -> Agent {
    let setup = Setup::new([]).agent(|agent| {
        let (title, description) = (None, None);
        agent.internal_tools = vec!["hidden".to_owned()];
        agent.options = vec![
            OptionSpec::Select {
                name: "language".to_owned(),
                title: title.clone(),
                description: description.clone(),
                options: vec!["English".to_owned(), "Japanese".to_owned()],
                default: "English".to_owned(),
            },
            OptionSpec::Text {
                name: "tone".to_owned(),
                title: title.clone(),
                description: description.clone(),
                default: String::new(),
            },
            OptionSpec::Secret { name: "key".to_owned(), title, description, default: String::new() },
        ];
    });
    setup.agent
}

/// A session that has some settings already.
fn before() -> SessionConfig {
    SessionConfig {
        agent: "tester".to_owned(),
        tools: vec![ToolRef { name: "look".to_owned(), trust: true }],
        client_tools: vec![spec("weather")],
        options: [
            ("tone".to_owned(), OptionValue::Plain("kind".to_owned())),
            ("key".to_owned(), OptionValue::Sealed("sealed before".to_owned())),
        ]
        .into(),
        ..SessionConfig::default()
    }
}

/// What an update makes of the settings, or why it is refused.
#[track_caller]
fn check(update: &SessionUpdate, expect: Expect) {
    check_for(&agent(), update, expect);
}

#[track_caller]
fn check_for(agent: &Agent, update: &SessionUpdate, expect: Expect) {
    let before = before();
    let seal = |name: &str, value: &str| Ok(format!("sealed {name} of {} bytes", value.len()));
    let set = tool_set(Vec::new());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let checked = update.apply(agent, &set, &before, seal).and_then(|config| {
        runtime.block_on(update.check_schemas(&"acme".parse().unwrap(), &set, None)).map(|()| config)
    });
    let text = match checked {
        Err(error) => format!("refused: {error}"),
        Ok(config) => {
            let tools: Vec<_> =
                config.tools.iter().map(|tool| format!("{}{}", tool.name, if tool.trust { "!" } else { "" })).collect();
            let client: Vec<_> = config.client_tools.iter().map(|tool| tool.name.as_str()).collect();
            format!("tools {tools:?}, client tools {client:?}, options {:?}", config.options)
        }
    };
    expect.assert_eq(&text);
}

fn tools(names: &[&str]) -> SessionUpdate {
    let tools = names.iter().map(|name| ToolRef { name: (*name).to_owned(), trust: false }).collect();
    SessionUpdate { tools: Some(tools), ..SessionUpdate::default() }
}

fn client_tools(tools: Vec<ToolSpec>) -> SessionUpdate {
    SessionUpdate { client_tools: Some(tools), ..SessionUpdate::default() }
}

fn option(name: &str, value: &str) -> SessionUpdate {
    SessionUpdate { options: [(name.to_owned(), value.to_owned())].into(), ..SessionUpdate::default() }
}

fn with_schema(schema: &str) -> SessionUpdate {
    client_tools(vec![ToolSpec { input_schema: Json::parse(schema).unwrap(), ..spec("mine") }])
}

#[test]
fn what_is_absent_stays() {
    check(
        &SessionUpdate::default(),
        expect![[
            r#"tools ["look!"], client tools ["weather"], options {"key": Sealed("sealed before"), "tone": Plain("kind")}"#
        ]],
    );
}

#[test]
fn server_tools_are_replaced() {
    check(
        &tools(&["pay", "book"]),
        expect![[
            r#"tools ["pay", "book"], client tools ["weather"], options {"key": Sealed("sealed before"), "tone": Plain("kind")}"#
        ]],
    );
    check(
        &tools(&[]),
        expect![[
            r#"tools [], client tools ["weather"], options {"key": Sealed("sealed before"), "tone": Plain("kind")}"#
        ]],
    );
    check(&tools(&["nosuch"]), expect![[r#"refused: agent "tester" has no tool "nosuch"; it has: look, book, pay"#]]);
    check(&tools(&["hidden"]), expect![[r#"refused: agent "tester" has no tool "hidden"; it has: look, book, pay"#]]);
    check(
        &tools(&["look", "look"]),
        expect![[
            r#"refused: there are two tools named "look"; tool names must be unique across application and server tools"#
        ]],
    );
}

#[test]
fn client_tools_are_replaced() {
    check(
        &client_tools(vec![spec("mine"), spec("yours")]),
        expect![[
            r#"tools ["look!"], client tools ["mine", "yours"], options {"key": Sealed("sealed before"), "tone": Plain("kind")}"#
        ]],
    );
    check(
        &client_tools(vec![]),
        expect![[
            r#"tools ["look!"], client tools [], options {"key": Sealed("sealed before"), "tone": Plain("kind")}"#
        ]],
    );
    check(
        &client_tools(vec![spec("look")]),
        expect![[
            r#"refused: there are two tools named "look"; tool names must be unique across application and server tools"#
        ]],
    );
    check(
        &client_tools(vec![spec("hidden")]),
        expect![[
            r#"refused: there are two tools named "hidden"; tool names must be unique across application and server tools"#
        ]],
    );
    check(
        &client_tools(vec![spec("mine"), spec("mine")]),
        expect![[
            r#"refused: there are two tools named "mine"; tool names must be unique across application and server tools"#
        ]],
    );
    check(
        &client_tools(vec![spec("")]),
        expect![[r#"refused: "" cannot be a tool's name: it must have 1 to 64 characters of A-Z a-z 0-9 _ -"#]],
    );
    check(
        &client_tools(vec![spec("not a name")]),
        expect![[
            r#"refused: "not a name" cannot be a tool's name: it must have 1 to 64 characters of A-Z a-z 0-9 _ -"#
        ]],
    );
    check(
        &client_tools(vec![spec(&"x".repeat(65))]),
        expect![[
            r#"refused: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" cannot be a tool's name: it must have 1 to 64 characters of A-Z a-z 0-9 _ -"#
        ]],
    );
    check(
        &client_tools((0..129).map(|n| spec(&format!("t{n}"))).collect()),
        expect!["refused: 129 application tools are too many, the limit is 128"],
    );
    check(
        &with_schema("[]"),
        expect![[
            r#"refused: the input schema of tool "mine" cannot be used: the schema must be a JSON object that describes an object: {"type": "object", …}"#
        ]],
    );
    check(
        &with_schema(r#"{"type": "nonsense"}"#),
        expect![[
            r#"refused: the input schema of tool "mine" cannot be used: the schema must be a JSON object that describes an object: {"type": "object", …}"#
        ]],
    );
    check(
        &with_schema(r#"{"$ref": "https://example.org/schema"}"#),
        expect![[
            r##"refused: the input schema of tool "mine" cannot be used: the schema refers to "https://example.org/schema"; only references into the schema itself, such as "#/$defs/name", are followed"##
        ]],
    );
}

#[test]
fn a_tool_that_both_sides_bring_is_a_clash() {
    check(
        &SessionUpdate { client_tools: Some(vec![spec("pay")]), ..tools(&["pay"]) },
        expect![[
            r#"refused: there are two tools named "pay"; tool names must be unique across application and server tools"#
        ]],
    );
}

#[test]
fn an_agent_may_take_no_client_tools() {
    let mut agent = agent();
    agent.capabilities.application_tools = false;
    check_for(
        &agent,
        &client_tools(vec![spec("mine")]),
        expect![[
            r#"refused: agent "tester" takes no application tools (it does not declare capabilities.application.tools)"#
        ]],
    );
    check_for(
        &agent,
        &client_tools(vec![]),
        expect![[
            r#"tools ["look!"], client tools [], options {"key": Sealed("sealed before"), "tone": Plain("kind")}"#
        ]],
    );
}

#[test]
fn options_are_merged() {
    check(
        &option("language", "Japanese"),
        expect![[
            r#"tools ["look!"], client tools ["weather"], options {"key": Sealed("sealed before"), "language": Plain("Japanese"), "tone": Plain("kind")}"#
        ]],
    );
    check(
        &option("language", "Klingon"),
        expect![[r#"refused: option "language" cannot be "Klingon"; choose one of: English, Japanese"#]],
    );
    check(
        &option("tone", ""),
        expect![[
            r#"tools ["look!"], client tools ["weather"], options {"key": Sealed("sealed before"), "tone": Plain("")}"#
        ]],
    );
    check(
        &option("tone", &"x".repeat(16 * 1024 + 1)),
        expect![[r#"refused: the value of option "tone" has 16385 bytes, the limit is 16384"#]],
    );
    check(
        &option("nosuch", "x"),
        expect![[r#"refused: agent "tester" has no option "nosuch"; it has: language, tone, key"#]],
    );
}

#[test]
fn a_secret_is_sealed_and_its_mask_leaves_it_as_it_is() {
    check(
        &option("key", "s3cret"),
        expect![[
            r#"tools ["look!"], client tools ["weather"], options {"key": Sealed("sealed key of 6 bytes"), "tone": Plain("kind")}"#
        ]],
    );
    check(
        &option("key", REDACTED),
        expect![[
            r#"tools ["look!"], client tools ["weather"], options {"key": Sealed("sealed before"), "tone": Plain("kind")}"#
        ]],
    );
    // Only secrets have a mask.
    check(
        &option("tone", REDACTED),
        expect![[
            r#"tools ["look!"], client tools ["weather"], options {"key": Sealed("sealed before"), "tone": Plain("***")}"#
        ]],
    );
}
