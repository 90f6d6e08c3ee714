//! The built-in tools, called as the engine calls them.

use everturn_core::{CallId, EffectClass, EffectId, Json, SessionId, TenantId, TurnId};
use everturn_tools::{Reporter, ToolContext, ToolKind, ToolSet, builtin_tools};

fn context() -> ToolContext {
    ToolContext {
        tenant: "acme".parse::<TenantId>().unwrap(),
        session: SessionId::mint(),
        turn: TurnId::mint(),
        call: CallId::new("c1"),
        effect_id: EffectId::mint(),
        reporter: Reporter::default(),
    }
}

async fn call(tool: &str, input: &str) -> Result<String, String> {
    let tools = ToolSet::new(builtin_tools()).unwrap();
    let input = Json::parse(input).unwrap();
    tools.validate("acme", tool, &input).await?;
    let output = tools.get(tool).unwrap().call(context(), input).await;
    output.map(|output| output.content.text()).map_err(|failure| failure.to_string())
}

#[test]
fn builtins_make_a_set_and_may_run_again() {
    let tools = ToolSet::new(builtin_tools()).unwrap();
    let tools = tools.all();
    let kinds: Vec<_> = tools.iter().map(|tool| (tool.spec().name.as_str(), tool.kind(), tool.effect())).collect();
    let expected = [
        ("calculator", ToolKind::Runs, EffectClass::ReadOnly),
        ("clock", ToolKind::Runs, EffectClass::ReadOnly),
        ("create_artifact", ToolKind::Artifact, EffectClass::Idempotent),
        ("read_result", ToolKind::Result, EffectClass::ReadOnly),
        ("request_form", ToolKind::Form, EffectClass::ReadOnly),
        ("update_artifact", ToolKind::Artifact, EffectClass::Idempotent),
        ("wait", ToolKind::Timer, EffectClass::ReadOnly),
    ];
    assert_eq!(kinds, expected);
}

#[tokio::test]
async fn what_the_engine_performs_itself_cannot_be_called() {
    for (tool, input) in [
        ("create_artifact", r#"{"title":"a","type":"text","content":"b"}"#),
        ("read_result", r#"{"call_id":"a"}"#),
        ("request_form", r#"{"kind":"approval","title":"a"}"#),
        ("update_artifact", r#"{"artifact_id":"a","content":"b"}"#),
        ("wait", r#"{"seconds":1}"#),
    ] {
        let expected = format!("{tool} is performed by the engine itself and cannot be called like other tools");
        assert_eq!(call(tool, input).await.unwrap_err(), expected);
    }
}

#[tokio::test]
async fn the_calculator_calculates() {
    assert_eq!(call("calculator", r#"{"expression":"7 * 12"}"#).await.unwrap(), "84");
    assert_eq!(call("calculator", r#"{"expression":"1 / 0"}"#).await.unwrap_err(), "division by zero (at character 3)");
}

#[tokio::test]
async fn the_clock_shows_now() {
    let before = jiff::Timestamp::now().as_second();
    let told = call("clock", r#"{"timezone":"Asia/Tokyo"}"#).await.unwrap();
    let after = jiff::Timestamp::now().as_second();
    let (time, rest) = told.split_once(", ").unwrap();
    let time: jiff::Timestamp = time.parse().unwrap();
    assert!((before..=after).contains(&time.as_second()), "{told}");
    assert!(rest.ends_with("day (Asia/Tokyo)"), "{told}");
}

#[tokio::test]
async fn inputs_that_do_not_fit_are_told_before_the_call() {
    assert_eq!(
        call("calculator", r#"{"expr":"1"}"#).await.unwrap_err(),
        "the input does not fit the tool's schema:\n\
         - at the top: Additional properties are not allowed ('expr' was unexpected)\n\
         - at the top: \"expression\" is a required property"
    );
    assert_eq!(call("abacus", "{}").await.unwrap_err(), "there is no tool called \"abacus\"");
}
