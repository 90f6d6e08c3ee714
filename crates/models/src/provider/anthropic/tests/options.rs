//! What becomes of options, model by model.

use everturn_core::{Effort, Json, ModelOptions, OutputFormat, Thinking, ToolChoice, ToolSpec};
use expect_test::{Expect, expect};
use serde_json::Value;

use super::{Anthropic, Session, call, clock, thought};
use crate::provider::wire::{Wire, Written};

/// All fields but the messages, then the notices.
#[track_caller]
fn check(session: &Session, expect: Expect) {
    let Written { notices, .. } = session.write();
    let body = session.body();
    let fields = body.as_object().unwrap().iter();
    let rest =
        fields.filter(|(name, _)| !matches!(name.as_str(), "messages" | "system" | "stream" | "model" | "tools"));
    let mut lines: Vec<String> = rest.map(|(name, value)| format!("{name}: {value}")).collect();
    lines.extend(notices.into_iter().map(|notice| format!("! {notice}")));
    expect.assert_eq(&lines.join("\n"));
}

fn with(model: &'static str, options: ModelOptions) -> Session {
    let mut session = Session::new(model);
    session.request.options = options;
    session
}

#[test]
fn thinking_and_effort_by_model() {
    let mut shown = String::new();
    for model in [
        "claude-fable-5-2",
        "claude-opus-5-5",
        "claude-sonnet-5-5",
        "claude-haiku-5-5",
        "claude-opus-5",
        "claude-sonnet-5",
        "claude-opus-4-8",
        "claude-opus-4-6",
        "claude-opus-4-5",
        "claude-sonnet-4-5",
        "claude-3-5-haiku-latest",
        "kimi-k3",
    ] {
        shown.push_str(&format!("{model}\n"));
        let on = |thinking, effort| ModelOptions { thinking, effort, ..ModelOptions::default() };
        for (name, options) in [
            ("nothing", on(None, None)),
            ("off", on(Some(Thinking::Off), None)),
            ("off, max", on(Some(Thinking::Off), Some(Effort::Max))),
            ("on", on(Some(Thinking::On), None)),
            ("summary, minimal", on(Some(Thinking::Summary), Some(Effort::Minimal))),
            ("xhigh", on(None, Some(Effort::Xhigh))),
        ] {
            let mut session = with(model, options);
            session.host = "gateway.example.com";
            let body = session.body();
            shown.push_str(&format!("  {name}: {} {}\n", body["thinking"], body["output_config"]));
            session.write().notices.iter().for_each(|notice| shown.push_str(&format!("    ! {notice}\n")));
        }
    }
    expect![[r#"
        claude-fable-5-2
          nothing: {"display":"summarized","type":"adaptive"} null
          off: {"display":"omitted","type":"adaptive"} {"effort":"low"}
            ! thinking cannot be turned off: claude-fable-5-2 always thinks; it does so with low effort
          off, max: {"display":"omitted","type":"adaptive"} {"effort":"max"}
            ! thinking cannot be turned off: claude-fable-5-2 always thinks; it does so with max effort
          on: {"display":"omitted","type":"adaptive"} null
          summary, minimal: {"display":"summarized","type":"adaptive"} {"effort":"low"}
            ! effort low is sent instead of minimal: claude-fable-5-2 does not take minimal here
          xhigh: {"display":"summarized","type":"adaptive"} {"effort":"xhigh"}
        claude-opus-5-5
          nothing: {"display":"summarized","type":"adaptive"} null
          off: {"display":"omitted","type":"adaptive"} {"effort":"low"}
            ! thinking cannot be turned off: claude-opus-5-5 always thinks; it does so with low effort
          off, max: {"display":"omitted","type":"adaptive"} {"effort":"max"}
            ! thinking cannot be turned off: claude-opus-5-5 always thinks; it does so with max effort
          on: {"display":"omitted","type":"adaptive"} null
          summary, minimal: {"display":"summarized","type":"adaptive"} {"effort":"low"}
            ! effort low is sent instead of minimal: claude-opus-5-5 does not take minimal here
          xhigh: {"display":"summarized","type":"adaptive"} {"effort":"xhigh"}
        claude-sonnet-5-5
          nothing: {"display":"summarized","type":"adaptive"} null
          off: {"type":"between_tools"} null
            ! thinking cannot be turned off entirely: claude-sonnet-5-5 still thinks between tool calls
          off, max: {"type":"between_tools"} {"effort":"high"}
            ! thinking cannot be turned off entirely: claude-sonnet-5-5 still thinks between tool calls
            ! effort high is sent instead of max: claude-sonnet-5-5 does not take max here
          on: {"display":"omitted","type":"adaptive"} null
          summary, minimal: {"display":"summarized","type":"adaptive"} {"effort":"low"}
            ! effort low is sent instead of minimal: claude-sonnet-5-5 does not take minimal here
          xhigh: {"display":"summarized","type":"adaptive"} {"effort":"xhigh"}
        claude-haiku-5-5
          nothing: {"display":"summarized","type":"adaptive"} null
          off: {"type":"disabled"} null
          off, max: {"type":"disabled"} {"effort":"high"}
            ! effort high is sent instead of max: claude-haiku-5-5 does not take max here
          on: {"display":"omitted","type":"adaptive"} null
          summary, minimal: {"display":"summarized","type":"adaptive"} {"effort":"low"}
            ! effort low is sent instead of minimal: claude-haiku-5-5 does not take minimal here
          xhigh: {"display":"summarized","type":"adaptive"} {"effort":"xhigh"}
        claude-opus-5
          nothing: {"display":"summarized","type":"adaptive"} null
          off: {"type":"disabled"} null
          off, max: {"type":"disabled"} {"effort":"high"}
            ! effort high is sent instead of max: claude-opus-5 does not take max here
          on: {"display":"omitted","type":"adaptive"} null
          summary, minimal: {"display":"summarized","type":"adaptive"} {"effort":"low"}
            ! effort low is sent instead of minimal: claude-opus-5 does not take minimal here
          xhigh: {"display":"summarized","type":"adaptive"} {"effort":"xhigh"}
        claude-sonnet-5
          nothing: {"display":"summarized","type":"adaptive"} null
          off: {"type":"disabled"} null
          off, max: {"type":"disabled"} {"effort":"max"}
          on: {"display":"omitted","type":"adaptive"} null
          summary, minimal: {"display":"summarized","type":"adaptive"} {"effort":"low"}
            ! effort low is sent instead of minimal: claude-sonnet-5 does not take minimal here
          xhigh: {"display":"summarized","type":"adaptive"} {"effort":"xhigh"}
        claude-opus-4-8
          nothing: null null
          off: null null
          off, max: null {"effort":"max"}
          on: {"display":"omitted","type":"adaptive"} null
          summary, minimal: {"display":"summarized","type":"adaptive"} {"effort":"low"}
            ! effort low is sent instead of minimal: claude-opus-4-8 does not take minimal here
          xhigh: {"display":"summarized","type":"adaptive"} {"effort":"xhigh"}
        claude-opus-4-6
          nothing: null null
          off: null null
          off, max: null {"effort":"max"}
          on: {"display":"omitted","type":"adaptive"} null
          summary, minimal: {"display":"summarized","type":"adaptive"} {"effort":"low"}
            ! effort low is sent instead of minimal: claude-opus-4-6 does not take minimal here
          xhigh: {"display":"summarized","type":"adaptive"} {"effort":"high"}
            ! effort high is sent instead of xhigh: claude-opus-4-6 does not take xhigh here
        claude-opus-4-5
          nothing: null null
          off: null null
          off, max: null {"effort":"high"}
            ! effort high is sent instead of max: claude-opus-4-5 does not take max here
          on: {"budget_tokens":8192,"display":"omitted","type":"enabled"} null
          summary, minimal: {"budget_tokens":8192,"type":"enabled"} {"effort":"low"}
            ! effort low is sent instead of minimal: claude-opus-4-5 does not take minimal here
          xhigh: {"budget_tokens":8192,"type":"enabled"} {"effort":"high"}
            ! effort high is sent instead of xhigh: claude-opus-4-5 does not take xhigh here
        claude-sonnet-4-5
          nothing: null null
          off: null null
          off, max: null null
            ! effort is not sent: claude-sonnet-4-5 takes none
          on: {"budget_tokens":8192,"display":"omitted","type":"enabled"} null
          summary, minimal: {"budget_tokens":1024,"type":"enabled"} null
            ! effort minimal is sent as a budget of 1024 tokens: claude-sonnet-4-5 takes no effort
          xhigh: {"budget_tokens":24576,"type":"enabled"} null
            ! effort xhigh is sent as a budget of 24576 tokens: claude-sonnet-4-5 takes no effort
        claude-3-5-haiku-latest
          nothing: null null
          off: null null
          off, max: null null
            ! effort is not sent: claude-3-5-haiku-latest takes none
          on: null null
            ! thinking is not sent: claude-3-5-haiku-latest does not think
          summary, minimal: null null
            ! thinking is not sent: claude-3-5-haiku-latest does not think
            ! effort is not sent: claude-3-5-haiku-latest does not think
          xhigh: null null
            ! effort is not sent: claude-3-5-haiku-latest does not think
        kimi-k3
          nothing: null null
          off: {"type":"disabled"} null
          off, max: {"type":"disabled"} null
            ! effort is not sent: kimi-k3 takes none
          on: {"budget_tokens":8192,"type":"enabled"} null
          summary, minimal: {"budget_tokens":1024,"type":"enabled"} null
            ! effort minimal is sent as a budget of 1024 tokens: kimi-k3 takes no effort
          xhigh: {"budget_tokens":24576,"type":"enabled"} null
            ! effort xhigh is sent as a budget of 24576 tokens: kimi-k3 takes no effort
    "#]]
    .assert_eq(&shown);
}

#[test]
fn budgets_leave_room_and_wait_for_thinking() {
    let mut session = Session::new("claude-sonnet-4-5");
    session.budget = Some(4000);
    check(
        &session,
        expect![[r#"
        max_tokens: 64000
        thinking: {"block_binding":{"prefix_mismatch_behavior":"drop_block"},"budget_tokens":4000,"type":"enabled"}"#]],
    );
    session.request.options.max_output_tokens = Some(2000);
    check(
        &session,
        expect![[r#"
            max_tokens: 2000
            thinking: {"block_binding":{"prefix_mismatch_behavior":"drop_block"},"budget_tokens":1024,"type":"enabled"}
            ! claude-sonnet-4-5 thinks with 1024 tokens at most, not 4000: the cap is 2000, and an answer needs room"#]],
    );
    session.request.options.max_output_tokens = Some(4500);
    assert_eq!(session.body()["thinking"]["budget_tokens"], 3072);
    // No thinking at all where little would be left for the answer.
    session.request.options.max_output_tokens = Some(1300);
    check(
        &session,
        expect![[r#"
        max_tokens: 1300
        ! claude-sonnet-4-5 does not think in this call: that takes 1024 tokens and room for an answer, and the cap is 1300"#]],
    );
    // Calls that began without thinking are answered without it.
    let mut session = Session::new("claude-sonnet-4-5");
    session.budget = Some(4000);
    session.answer(&[call("toolu_1")]);
    assert_eq!(session.body()["thinking"], Value::Null);
    let mut session = Session::new("claude-sonnet-4-5");
    session.budget = Some(4000);
    session.answer(&[thought("Hm.", "A"), call("toolu_1")]);
    assert_eq!(session.body()["thinking"]["budget_tokens"], 4000);
    session.request.system = "Be long.".into();
    assert_eq!(session.body()["thinking"], Value::Null);
    // A model that takes both goes by the configured number; newer ones do as they see fit.
    let mut session = Session::new("claude-opus-4-6");
    session.budget = Some(4000);
    check(
        &session,
        expect![[r#"
            max_tokens: 128000
            thinking: {"block_binding":{"prefix_mismatch_behavior":"drop_block"},"budget_tokens":4000,"type":"enabled"}"#]],
    );
    session.model = "claude-opus-4-8";
    check(
        &session,
        expect![[r#"
            max_tokens: 128000
            thinking: {"block_binding":{"prefix_mismatch_behavior":"drop_block"},"display":"summarized","type":"adaptive"}"#]],
    );
}

#[test]
fn other_hosts_get_nothing_of_the_official_one_alone() {
    let mut session = Session::new("claude-opus-5-5");
    session.host = "gateway.example.com";
    check(
        &session,
        expect![[r#"
            max_tokens: 128000
            thinking: {"display":"summarized","type":"adaptive"}"#]],
    );
    let base = |url: &str| reqwest::Url::parse(url).unwrap();
    let beta = |url: &str| Anthropic.headers(None, &base(url)).unwrap().get("anthropic-beta").cloned();
    assert_eq!(beta("https://api.anthropic.com/v1").unwrap(), "thinking-binding-controls-2026-08-01");
    assert_eq!(beta("https://gateway.example.com/v1"), None);
    let list = Anthropic.list_url(&base("https://gateway.example.com/v1?a=b")).unwrap();
    assert_eq!(list.as_str(), "https://gateway.example.com/v1/models?a=b&limit=1000");
}

#[test]
fn sampling_and_stops() {
    let options = ModelOptions {
        temperature: Some(1200),
        top_p: Some(900),
        seed: Some(1),
        frequency_penalty: Some(1),
        presence_penalty: Some(1),
        stop: vec!["END".into(), "\n".into()],
        max_output_tokens: Some(500_000),
        ..ModelOptions::default()
    };
    check(
        &with("claude-opus-5-5", options.clone()),
        expect![[r#"
            max_tokens: 128000
            stop_sequences: ["END"]
            thinking: {"block_binding":{"prefix_mismatch_behavior":"drop_block"},"display":"summarized","type":"adaptive"}
            ! seed is not sent: claude-opus-5-5 takes none
            ! frequency_penalty is not sent: claude-opus-5-5 takes none
            ! presence_penalty is not sent: claude-opus-5-5 takes none
            ! temperature is not sent: claude-opus-5-5 takes none
            ! top_p is not sent: claude-opus-5-5 takes none"#]],
    );
    check(
        &with("claude-sonnet-4-5", options.clone()),
        expect![[r#"
            max_tokens: 64000
            stop_sequences: ["END"]
            temperature: 1.0
            ! seed is not sent: claude-sonnet-4-5 takes none
            ! frequency_penalty is not sent: claude-sonnet-4-5 takes none
            ! presence_penalty is not sent: claude-sonnet-4-5 takes none
            ! top_p is not sent: claude-sonnet-4-5 takes none beside a temperature
            ! temperature 1 is sent instead of a higher one: claude-sonnet-4-5 takes no more"#]],
    );
    check(
        &with("claude-3-5-haiku-latest", options.clone()),
        expect![[r#"
            max_tokens: 8192
            stop_sequences: ["END"]
            temperature: 1.0
            top_p: 0.9
            ! seed is not sent: claude-3-5-haiku-latest takes none
            ! frequency_penalty is not sent: claude-3-5-haiku-latest takes none
            ! presence_penalty is not sent: claude-3-5-haiku-latest takes none
            ! temperature 1 is sent instead of a higher one: claude-3-5-haiku-latest takes no more"#]],
    );
    let thinks = ModelOptions { thinking: Some(Thinking::On), ..options };
    check(
        &with("claude-sonnet-4-5", thinks),
        expect![[r#"
            max_tokens: 64000
            stop_sequences: ["END"]
            thinking: {"block_binding":{"prefix_mismatch_behavior":"drop_block"},"budget_tokens":8192,"display":"omitted","type":"enabled"}
            ! seed is not sent: claude-sonnet-4-5 takes none
            ! frequency_penalty is not sent: claude-sonnet-4-5 takes none
            ! presence_penalty is not sent: claude-sonnet-4-5 takes none
            ! temperature is not sent: claude-sonnet-4-5 takes none while it thinks
            ! top_p is not sent: claude-sonnet-4-5 takes none while it thinks"#]],
    );
    check(&Session::new("kimi-k3"), expect!["max_tokens: 262144"]);
}

#[test]
fn tool_choices() {
    let mut shown = String::new();
    for model in ["claude-opus-5-5", "claude-opus-5", "claude-sonnet-4-5"] {
        for (choice, parallel) in [
            (None, None),
            (None, Some(false)),
            (Some(ToolChoice::Auto), Some(true)),
            (Some(ToolChoice::None), Some(false)),
            (Some(ToolChoice::Required), None),
            (Some(ToolChoice::Named("clock".into())), Some(false)),
            (Some(ToolChoice::Named("hammer".into())), None),
        ] {
            let mut session = with(model, ModelOptions { thinking: Some(Thinking::On), ..ModelOptions::default() });
            session.request.tools = [clock()].into();
            session.request.options.tool_choice = choice.clone();
            session.request.options.parallel_tool_calls = parallel;
            let body = session.body();
            let thinks = body["thinking"]["type"].as_str().unwrap_or("-");
            shown.push_str(&format!("{model} {choice:?} {parallel:?}: {} {thinks}\n", body["tool_choice"]));
            session.write().notices.iter().for_each(|notice| shown.push_str(&format!("  ! {notice}\n")));
        }
    }
    expect![[r#"
        claude-opus-5-5 None None: null adaptive
        claude-opus-5-5 None Some(false): {"disable_parallel_tool_use":true,"type":"auto"} adaptive
        claude-opus-5-5 Some(Auto) Some(true): {"type":"auto"} adaptive
        claude-opus-5-5 Some(None) Some(false): {"type":"none"} adaptive
        claude-opus-5-5 Some(Required) None: null adaptive
          ! the tool call is asked for in words: claude-opus-5-5 decides itself which tools it calls
        claude-opus-5-5 Some(Named("clock")) Some(false): {"disable_parallel_tool_use":true,"type":"auto"} adaptive
          ! the tool call is asked for in words: claude-opus-5-5 decides itself which tools it calls
        claude-opus-5-5 Some(Named("hammer")) None: null adaptive
          ! the tool call is asked for in words: claude-opus-5-5 decides itself which tools it calls
        claude-opus-5 None None: null adaptive
        claude-opus-5 None Some(false): {"disable_parallel_tool_use":true,"type":"auto"} adaptive
        claude-opus-5 Some(Auto) Some(true): {"type":"auto"} adaptive
        claude-opus-5 Some(None) Some(false): {"type":"none"} adaptive
        claude-opus-5 Some(Required) None: {"type":"any"} adaptive
        claude-opus-5 Some(Named("clock")) Some(false): {"disable_parallel_tool_use":true,"name":"clock","type":"tool"} adaptive
        claude-opus-5 Some(Named("hammer")) None: null adaptive
          ! the call of hammer is not forced: the request declares no such tool
        claude-sonnet-4-5 None None: null enabled
        claude-sonnet-4-5 None Some(false): {"disable_parallel_tool_use":true,"type":"auto"} enabled
        claude-sonnet-4-5 Some(Auto) Some(true): {"type":"auto"} enabled
        claude-sonnet-4-5 Some(None) Some(false): {"type":"none"} enabled
        claude-sonnet-4-5 Some(Required) None: {"type":"any"} -
          ! claude-sonnet-4-5 does not think in this call: it cannot while a tool call is forced
        claude-sonnet-4-5 Some(Named("clock")) Some(false): {"disable_parallel_tool_use":true,"name":"clock","type":"tool"} -
          ! claude-sonnet-4-5 does not think in this call: it cannot while a tool call is forced
        claude-sonnet-4-5 Some(Named("hammer")) None: null enabled
          ! the call of hammer is not forced: the request declares no such tool
    "#]].assert_eq(&shown);
    let required = ModelOptions { tool_choice: Some(ToolChoice::Required), ..ModelOptions::default() };
    check(
        &with("claude-opus-5", required),
        expect![[r#"
            max_tokens: 128000
            thinking: {"block_binding":{"prefix_mismatch_behavior":"drop_block"},"display":"summarized","type":"adaptive"}
            ! the forced tool call is not asked for: there are no tools"#]],
    );
}

#[test]
fn answers_in_a_shape() {
    let schema = |schema: &str| OutputFormat::JsonSchema {
        name: "city".into(),
        description: None,
        schema: Json::parse(schema).unwrap(),
        strict: true,
    };
    let city =
        schema(r#"{"type":"object","properties":{"name":{"type":"string","minLength":1},"also":{"type":"string"}}}"#);
    for (model, output, expect) in [
        (
            "claude-opus-5-5",
            city.clone(),
            expect![[r#"
            {"format":{"schema":{"additionalProperties":false,"properties":{"also":{"type":"string"},"name":{"description":"(minLength: 1)","type":"string"}},"type":"object"},"type":"json_schema"}}
            "Be brief."
            ! "#]],
        ),
        (
            "claude-opus-4-1",
            city,
            expect![[r#"
            null
            "Be brief.\n\nAnswer with a single JSON value that fits the JSON schema below and nothing else: no text around it, no code fence.\n{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"minLength\":1},\"also\":{\"type\":\"string\"}}}"
            ! the answer's JSON schema is given in words only: claude-opus-4-1 cannot be held to a schema"#]],
        ),
        (
            "claude-opus-5-5",
            schema(r#"{"type":"object"}"#),
            expect![[r#"
            null
            "Be brief.\n\nAnswer with a single JSON value that fits the JSON schema below and nothing else: no text around it, no code fence.\n{\"type\":\"object\"}"
            ! the answer's JSON schema is given in words only: claude-opus-5-5 does not take the schema, because an object in it may have any properties"#]],
        ),
        (
            "claude-opus-5-5",
            OutputFormat::JsonObject,
            expect![[r#"
            null
            "Be brief.\n\nAnswer with a single JSON object and nothing else: no text around it, no code fence."
            ! JSON is asked for in words only: claude-opus-5-5 cannot be held to it without a schema"#]],
        ),
    ] {
        let session = with(model, ModelOptions { output: Some(output), ..ModelOptions::default() });
        let body = session.body();
        let notices = session.write().notices.join("\n! ");
        expect.assert_eq(&format!("{}\n{}\n! {notices}", body["output_config"], body["system"][0]["text"]));
    }
}

/// The model does without optional fields whose names the API refuses; people are told which.
#[test]
fn fields_that_are_lost_are_told() {
    let schema = r#"{"type":"object","properties":{"$filter":{"type":"string"},"search":{"type":"string"},"of":{"type":"object",
        "properties":{"$top":{"type":"integer"}}}}}"#;
    let mut session = Session::new("claude-opus-5-5");
    session.request.tools = [ToolSpec { input_schema: Json::parse(schema).unwrap(), ..clock() }].into();
    let notice = "the tool clock goes without its fields $filter, $top: claude-opus-5-5 takes no such names";
    assert_eq!(session.write().notices, [notice]);
    assert_eq!(session.write().notices, [notice], "also where the schema is known by now");
}
