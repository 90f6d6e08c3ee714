//! All wires against strict fakes of the vendors' servers: long tool loops in which no request may be refused.

use std::sync::Arc;

use everturn_core::{
    Block, CallId, Content, DocumentId, Effort, Json, Message, ModelOptions, OutputFormat, Thinking, ToolChoice,
    ToolSpec, ToolUse, Usage,
};
use everturn_models::{
    DocumentContent, Documents, Model, ModelError, ModelEvent, ModelRequest, OpenAiWire, ProviderConfig, ProviderKind,
};
use futures_util::StreamExt;
use serde_json::Value;

use super::peers::{StrictFake, strict_selftest};

/// How many answers with calls a turn has.
const STEPS: usize = 20;
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const PDF: &str = "JVBERi0xLjQKJSVFT0YK";
/// A schema as MCP servers have them, with something that each vendor refuses.
const ODD_SCHEMA: &str = r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"mode":{"type":["string","null"],"enum":["fast","slow",null]},"place":{"$ref":"#/$defs/Place","description":"Where."},"tags":{"type":"array"},"with space":{"const":1},"anything":true,"count":{"type":"integer","exclusiveMinimum":0}},"required":["mode","missing"],"anyOf":[{"required":["mode"]},{"required":["tags"]}],"$defs":{"Place":{"type":"object","properties":{"city":{"type":"string","format":"city"}},"additionalProperties":false}}}"##;

/// A model of a fake, and how it is reached.
struct Case {
    kind: ProviderKind,
    wire: Option<OpenAiWire>,
    path: &'static str,
    model: &'static str,
    /// The service whose rules the fake follows, where its address does not show it.
    rules_of: Option<&'static str>,
    /// Whether the vendor has a prompt cache that it tells of.
    caches: bool,
}

fn tools() -> Arc<[ToolSpec]> {
    let tool = |name: &str, schema: &str| ToolSpec {
        name: name.into(),
        title: None,
        description: format!("The tool {name}."),
        input_schema: Json::parse(schema).unwrap(),
    };
    let plain = r#"{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"array","items":{"type":"integer"}}},"required":["city"]}"#;
    [tool("weather", plain), tool("clock", r#"{"type":"object"}"#), tool("odd", ODD_SCHEMA)].into()
}

/// Everything that a caller can ask for.
fn all_options() -> ModelOptions {
    let schema = r#"{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"],"additionalProperties":false}"#;
    ModelOptions {
        effort: Some(Effort::High),
        thinking: Some(Thinking::Summary),
        max_output_tokens: Some(8000),
        temperature: Some(700),
        top_p: Some(900),
        frequency_penalty: Some(100),
        presence_penalty: Some(100),
        seed: Some(7),
        stop: vec!["END".into()],
        tool_choice: Some(ToolChoice::Auto),
        parallel_tool_calls: Some(true),
        strict_tools: Vec::new(),
        output: Some(OutputFormat::JsonSchema {
            name: "answer".into(),
            description: Some("The answer.".into()),
            schema: Json::parse(schema).unwrap(),
            strict: true,
        }),
    }
}

fn first_message(document: &DocumentId) -> Message {
    let blocks = vec![
        Block::Text("What is in these?".into()),
        Block::Image { url: format!("data:image/png;base64,{PNG}").into() },
        Block::Document { id: document.clone(), name: "a.pdf".into() },
    ];
    Message::User { content: Content::Blocks(blocks) }
}

fn documents(id: &DocumentId) -> Documents {
    let content = DocumentContent {
        name: "a.pdf".into(),
        media_type: "application/pdf".into(),
        text: "# a.pdf\n\nNothing to see.".into(),
        base64: Some(PDF.into()),
    };
    Arc::new([(id.clone(), content)].into_iter().collect())
}

/// The result of a call: now and then an image, or a failure.
fn result(call: &ToolUse, number: usize) -> Message {
    let (content, is_error) = match number % 5 {
        1 => {
            let image = Block::Image { url: format!("data:image/png;base64,{PNG}").into() };
            (Content::Blocks(vec![Block::Text("A photo.".into()), image]), false)
        }
        3 => (Content::Text("It did not work.".into()), true),
        _ => (Content::Text(format!("Result {number} of {}: {}", call.name, "sunny ".repeat(50))), false),
    };
    Message::Tool { call_id: call.id.clone(), content, is_error }
}

/// What one call of a model gave.
struct Step {
    content: Content,
    calls: Vec<ToolUse>,
    usage: Usage,
}

/// One call of a model; its answer becomes a message just as the engine makes it one.
async fn step(model: &dyn Model, request: ModelRequest, made: &mut usize) -> Result<Step, ModelError> {
    let (mut thinking, mut signature, mut text) = (String::new(), None, String::new());
    let mut calls = Vec::new();
    let mut stream = model.stream(request).await?;
    while let Some(event) = stream.next().await {
        match event? {
            ModelEvent::Text(piece) => text.push_str(&piece),
            ModelEvent::Thinking(piece) => thinking.push_str(&piece),
            ModelEvent::ThinkingSignature(proof) => signature = Some(proof),
            ModelEvent::ToolCall { name, input, .. } => {
                *made += 1;
                calls.push(ToolUse { id: CallId::new(format!("call_{made}")), name, input });
            }
            ModelEvent::BadToolCall { name, problem, .. } => {
                panic!("{} gave a bad call: {name} {problem}", model.name())
            }
            ModelEvent::Finished { usage, .. } => {
                let content = Content::answer(thinking, signature, text, calls.clone());
                return Ok(Step { content, calls, usage: usage.unwrap_or_default() });
            }
            ModelEvent::Alive
            | ModelEvent::Notice(_)
            | ModelEvent::ToolCallStarted { .. }
            | ModelEvent::ToolInputDelta { .. }
            | ModelEvent::Used(_) => {}
        }
    }
    panic!("{} ended its stream without an end", model.name());
}

/// A turn of [`STEPS`] steps and most of a second one after it; gives what was wrong with them.
async fn tool_loop(case: &Case, options: ModelOptions, name: &str) -> Vec<String> {
    let scope = format!("{name}{}-{}", case.path.replace('/', "-"), case.model.replace(['/', ':'], "-"));
    let fake = StrictFake::new(&scope, STEPS).await;
    let config = ProviderConfig {
        wire: case.wire,
        rules_of: case.rules_of.map(str::to_owned),
        context_window: Some(120_000),
        ..ProviderConfig::new(case.kind)
    };
    let model = fake.model(config, case.path, case.model);
    model.prepare(0).await;
    let document = DocumentId::mint();
    let mut messages = vec![first_message(&document)];
    let mut usage = Usage::default();
    let (mut made, mut turns, mut faults) = (0, 0, Vec::new());
    for _ in 0..2 * STEPS {
        let request = ModelRequest {
            // Long enough for every vendor's cache.
            system: "You are a careful assistant who looks things up. ".repeat(600),
            messages: messages.clone().into(),
            tools: tools(),
            documents: documents(&document),
            options: options.clone(),
            cache_key: Some(scope.clone()),
            body: None,
            context_window: None,
            attempt: 0,
        };
        let step = match step(&*model, request, &mut made).await {
            Ok(step) => step,
            Err(error) => {
                faults.push(format!("failed after {made} calls: {error}"));
                break;
            }
        };
        usage.input += step.usage.input;
        usage.cached_input += step.usage.cached_input;
        messages.push(Message::Assistant { content: step.content });
        if step.calls.is_empty() {
            turns += 1;
            if turns == 2 {
                break;
            }
            messages.push(Message::user("Thank you."));
        }
        let first = made - step.calls.len();
        messages.extend(step.calls.iter().enumerate().map(|(at, call)| result(call, first + at)));
    }
    if turns == 0 && faults.is_empty() {
        faults.push(format!("the turn did not end: {made} calls"));
    }
    let journal = fake.journal().await;
    faults.extend(judge(&journal));
    let share = 100 * usage.cached_input / usage.input.max(1);
    let taken = journal.iter().filter(|entry| entry["ok"] == true).count();
    println!("{scope}: {taken} of {} requests taken, {made} calls, {share} % of the input cached", journal.len());
    if case.caches && faults.is_empty() && share < 50 {
        faults.push(format!("only {share} % of the input came from the cache"));
    }
    faults.truncate(6);
    faults.into_iter().map(|fault| format!("{scope}: {fault}")).collect()
}

/// What a journal shows: refused requests, warnings, and requests that do not begin as those before them.
fn judge(journal: &[Value]) -> Vec<String> {
    let mut faults = Vec::new();
    for (at, entry) in journal.iter().enumerate() {
        if entry["ok"] != true {
            faults.push(format!("request {at} was refused: {}", entry["error"]));
        }
        for warning in entry["warnings"].as_array().into_iter().flatten() {
            faults.push(format!("request {at}: {warning}"));
        }
    }
    let prompts: Vec<_> =
        journal.iter().filter_map(|entry| entry["prompt"].as_array()).filter(|p| p.len() > 1).collect();
    for (at, pair) in prompts.windows(2).enumerate() {
        if let Some(differs) = pair[0].iter().zip(pair[1]).position(|(before, after)| before != after) {
            let (before, after) = (pair[0][differs].to_string(), pair[1][differs].to_string());
            let same = before.bytes().zip(after.bytes()).take_while(|(one, other)| one == other).count();
            let near =
                |text: &str| text.get(same.saturating_sub(60)..).unwrap_or(text).chars().take(160).collect::<String>();
            faults.push(format!(
                "request {} changes item {differs} of the prompt of request {at}: {} became {}",
                at + 1,
                near(&before),
                near(&after)
            ));
        }
    }
    faults
}

async fn check(cases: &[Case]) {
    let mut faults = Vec::new();
    for case in cases {
        faults.extend(tool_loop(case, ModelOptions::default(), "plain").await);
        faults.extend(tool_loop(case, all_options(), "options").await);
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn the_fakes_agree_with_the_vendors_sdks() {
    let printed = strict_selftest().unwrap_or_else(|error| panic!("{error}"));
    assert!(printed.contains("tool loops of the vendors' SDKs passed"), "{printed}");
    println!("{printed}");
}

fn responses(model: &'static str) -> Case {
    Case {
        kind: ProviderKind::OpenAi,
        wire: Some(OpenAiWire::Responses),
        path: "/v1",
        model,
        rules_of: None,
        caches: true,
    }
}

fn chat(path: &'static str, rules_of: &'static str, model: &'static str) -> Case {
    let rules_of = Some(rules_of).filter(|host| !host.is_empty());
    Case { kind: ProviderKind::OpenAi, wire: Some(OpenAiWire::Chat), path, model, rules_of, caches: true }
}

fn anthropic(model: &'static str) -> Case {
    Case { kind: ProviderKind::Anthropic, wire: None, path: "/v1", model, rules_of: None, caches: true }
}

fn gemini(model: &'static str) -> Case {
    Case { kind: ProviderKind::Gemini, wire: None, path: "/v1beta", model, rules_of: None, caches: true }
}

#[tokio::test]
async fn openai_takes_a_long_turn() {
    check(&["gpt-6-sol", "gpt-6-astra", "gpt-5.6-terra", "gpt-5.4", "gpt-5", "gpt-4.1"].map(responses)).await;
}

#[tokio::test]
async fn chat_servers_take_a_long_turn() {
    check(&[
        chat("/openai/v1", "api.openai.com", "gpt-4.1"),
        chat("/openai/v1", "api.openai.com", "gpt-6-sol"),
        chat("/deepseek/v1", "api.deepseek.com", "deepseek-flash"),
        chat("/kimi/v1", "api.moonshot.ai", "kimi-k2.6"),
        chat("/mistral/v1", "api.mistral.ai", "mistral-medium-2604"),
        chat("/groq/v1", "api.groq.com", "openai/gpt-oss-120b"),
        chat("/xai/v1", "api.x.ai", "grok-4.5"),
        chat("/openrouter/v1", "openrouter.ai", "openrouter/auto"),
        chat("/openrouter/v1", "openrouter.ai", "anthropic/claude-sonnet-5.5"),
        chat("/vllm/v1", "", "Qwen/Qwen3-32B"),
    ])
    .await;
}

/// Claude's thinking is bound to what was sent before it, behind OpenRouter as well: after another list of tools or a
/// compaction, what was thought before is left out, and what is thought from then on goes back.
#[tokio::test]
async fn thinking_behind_openrouter_ends_with_its_prefix() {
    let fake = StrictFake::new("bound-openrouter", 2).await;
    let config = ProviderConfig {
        wire: Some(OpenAiWire::Chat),
        rules_of: Some("openrouter.ai".to_owned()),
        ..ProviderConfig::new(ProviderKind::OpenAi)
    };
    let model = fake.model(config, "/openrouter/v1", "anthropic/claude-sonnet-5.5");
    let (mut messages, mut tools, mut made) = (vec![Message::user("Weather?")], tools(), 0);
    for number in 0..6 {
        match number {
            2 => tools = tools[..2].into(),
            4 => messages[0] = Message::user("A summary of what was said."),
            _ => {}
        }
        let request = ModelRequest {
            messages: messages.clone().into(),
            tools: Arc::clone(&tools),
            options: ModelOptions { thinking: Some(Thinking::On), ..ModelOptions::default() },
            ..ModelRequest::default()
        };
        let step = step(&*model, request, &mut made).await.unwrap();
        messages.push(Message::Assistant { content: step.content });
        messages.extend(step.calls.iter().map(|call| result(call, 0)));
        if step.calls.is_empty() {
            messages.push(Message::user("And now?"));
        }
    }
    let journal = fake.journal().await;
    let refused: Vec<_> = journal.iter().filter(|entry| entry["ok"] != true).map(|entry| &entry["error"]).collect();
    assert!(refused.is_empty(), "{refused:?}");
    let with_details = |entry: &Value| {
        let messages = entry["body"]["messages"].as_array().unwrap();
        messages.iter().filter(|message| message.get("reasoning_details").is_some()).count()
    };
    assert_eq!(journal.iter().map(with_details).collect::<Vec<_>>(), [0, 1, 0, 1, 0, 1]);
}

#[tokio::test]
async fn anthropic_takes_a_long_turn() {
    let models = [
        "claude-sonnet-5-5",
        "claude-opus-5-5",
        "claude-fable-5-2",
        "claude-haiku-5-5",
        "claude-opus-4-8",
        "claude-sonnet-4-6",
        "claude-haiku-4-5",
    ];
    check(&models.map(anthropic)).await;
}

#[tokio::test]
async fn gemini_takes_a_long_turn() {
    check(&["gemini-4-argon", "gemini-3.8-flash", "gemini-3.5-flash", "gemini-2.5-flash"].map(gemini)).await;
}

#[tokio::test]
async fn ollama_takes_a_long_turn() {
    let ollama =
        |model| Case { kind: ProviderKind::Ollama, wire: None, path: "/api", model, rules_of: None, caches: false };
    check(&["qwen3-vl", "gpt-oss:20b", "llama3.2"].map(ollama)).await;
}
