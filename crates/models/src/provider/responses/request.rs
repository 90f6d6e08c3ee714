//! Requests.

use std::borrow::Cow;

use everturn_core::{Json, ModelOptions, OutputFormat, Thinking, ToolChoice};
use serde::Serialize;

use super::{
    history::{self as items, Item},
    models::{self, Plan},
};
use crate::provider::{
    openai::{cache_key, thousandths},
    schema::{Rules, tool_schema},
    wire::{Ask, Written, temperature},
};

/// The provider takes no lower cap on an answer.
const LEAST_OUTPUT: u64 = 16;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "String::is_empty")]
    instructions: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    input: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'static str>,
    store: bool,
    stream: bool,
    stream_options: StreamOptions,
}

/// Without this the provider pads its events with random text.
#[derive(Serialize)]
struct StreamOptions {
    include_obfuscation: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    parameters: Cow<'a, Json>,
    /// Without this the provider tries its strict mode, which changes what optional properties mean.
    strict: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Mode(&'static str),
    Named { r#type: &'static str, name: &'a str },
}

#[derive(Serialize)]
struct Text<'a> {
    format: Format<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Format<'a> {
    JsonObject,
    JsonSchema {
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<&'a str>,
        schema: &'a Json,
        strict: bool,
    },
}

#[derive(Serialize)]
struct Reasoning {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

pub(super) fn write(ask: &Ask<'_>) -> Result<Written, serde_json::Error> {
    let Ask { model, request, .. } = *ask;
    let options = &request.options;
    let mut notices = Vec::new();
    let rules = models::rules(model);
    let plan = models::plan(rules, model, options, &mut notices);
    let tools = tools(ask, &mut notices);
    let has_tools = !tools.is_empty();
    let tool_choice = options.tool_choice.as_ref().and_then(|choice| tool_choice(choice, &tools, &mut notices));
    let mut input = Vec::new();
    if matches!(options.output, Some(OutputFormat::JsonObject)) {
        // The provider wants the word "json" in the input; the instructions do not count.
        input.push(Item::developer("Answer with a JSON object."));
    }
    items::write(ask, &mut input);
    let is_known_to_reason = rules.is_some_and(|rules| rules.reasons() && !rules.is_open);
    // The name of a deployment tells nothing. Reasoning that is not asked for is lost between two calls; a model without any refuses
    // the field once.
    let is_encrypted = is_known_to_reason || (rules.is_none() && !ask.learned.fields.contains("include"));
    let body = serde_json::to_vec(&Body {
        model,
        instructions: request.system.clone(),
        tools,
        input,
        tool_choice,
        parallel_tool_calls: options.parallel_tool_calls.filter(|_| has_tools),
        text: options.output.as_ref().map(|output| Text { format: format(output) }),
        reasoning: reasoning(plan, options.thinking, is_known_to_reason),
        max_output_tokens: max_output(ask, &mut notices),
        temperature: sampling("temperature", temperature(options), plan, model, &mut notices),
        top_p: sampling("top_p", options.top_p.map(thousandths), plan, model, &mut notices),
        prompt_cache_key: request.cache_key.as_deref().map(cache_key),
        include: if is_encrypted { vec!["reasoning.encrypted_content"] } else { vec![] },
        store: false,
        stream: true,
        stream_options: StreamOptions { include_obfuscation: false },
    })?;
    notices.extend(missing_options(options));
    Ok(Written { body, notices, ..Written::default() })
}

fn tools<'a>(ask: &Ask<'a>, notices: &mut Vec<String>) -> Vec<Tool<'a>> {
    let mut tools = Vec::new();
    for tool in ask.request.tools.iter().filter(|tool| !ask.learned.tools.contains(&tool.name)) {
        match tool_schema(&tool.input_schema, Rules::OpenAi) {
            Ok(parameters) => tools.push(Tool {
                r#type: "function",
                name: &tool.name,
                description: &tool.description,
                parameters,
                strict: false,
            }),
            Err(reason) => notices.push(format!("the tool {} is left out: {reason}", tool.name)),
        }
    }
    tools
}

fn tool_choice<'a>(choice: &'a ToolChoice, tools: &[Tool<'_>], notices: &mut Vec<String>) -> Option<Choice<'a>> {
    // A choice without tools is refused.
    if tools.is_empty() {
        return None;
    }
    Some(match choice {
        ToolChoice::Auto => Choice::Mode("auto"),
        ToolChoice::None => Choice::Mode("none"),
        ToolChoice::Required => Choice::Mode("required"),
        ToolChoice::Named(name) if tools.iter().any(|tool| tool.name == name) => {
            Choice::Named { r#type: "function", name }
        }
        ToolChoice::Named(name) => {
            notices.push(format!("the call of {name} is not forced: there is no such tool in the request"));
            return None;
        }
    })
}

fn format(output: &OutputFormat) -> Format<'_> {
    match output {
        OutputFormat::JsonObject => Format::JsonObject,
        OutputFormat::JsonSchema { name, description, schema, strict } => {
            Format::JsonSchema { name, description: description.as_deref(), schema, strict: *strict }
        }
    }
}

/// A summary is asked for unless the request says otherwise, so that readers see the model think.
fn reasoning(plan: Plan, thinking: Option<Thinking>, is_encrypted: bool) -> Option<Reasoning> {
    let shows = match thinking {
        Some(Thinking::Summary) => true,
        None => is_encrypted,
        Some(Thinking::Off | Thinking::On) => false,
    };
    let summary = (shows && !plan.is_off).then_some("auto");
    (plan.effort.is_some() || summary.is_some()).then_some(Reasoning { effort: plan.effort, summary })
}

fn max_output(ask: &Ask<'_>, notices: &mut Vec<String>) -> Option<u64> {
    let asked = ask.max_output()?;
    if asked < LEAST_OUTPUT {
        notices.push(format!("max_output_tokens is {LEAST_OUTPUT}: {} takes no less", ask.model));
    }
    Some(asked.max(LEAST_OUTPUT))
}

fn sampling(name: &str, value: Option<f64>, plan: Plan, model: &str, notices: &mut Vec<String>) -> Option<f64> {
    if value.is_some() && !plan.samples {
        notices.push(format!("{name} is not sent: {model} takes none while it thinks"));
    }
    value.filter(|_| plan.samples)
}

/// Options that the wire has no place for, and that nothing makes up for.
fn missing_options(options: &ModelOptions) -> impl Iterator<Item = String> {
    let missing = [
        ("seed", options.seed.is_some()),
        ("frequency_penalty", options.frequency_penalty.is_some()),
        ("presence_penalty", options.presence_penalty.is_some()),
    ];
    let asked = missing.into_iter().filter(|(_, is_asked)| *is_asked);
    asked.map(|(name, _)| format!("{name} is not sent: OpenAI's Responses API has no such option"))
}
