//! Requests.

use std::borrow::Cow;

use everturn_core::{Json, OutputFormat, ToolChoice};
use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    binding, cache_marks,
    history::{self as messages, Message, TextContent},
    server::{self, Family, Rules, Server, Structure},
    thinking::{self, Plan},
};
use crate::provider::{
    openai::{cache_key, thousandths},
    schema::{self, tool_schema},
    wire::{Ask, Written, temperature},
};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Format<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    random_seed: Option<i64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<Cow<'a, str>>,
    #[serde(flatten)]
    thinking: Map<String, Value>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Declaration<'a>,
}

#[derive(Serialize)]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, Json>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Mode(&'static str),
    Named { r#type: &'static str, function: Named<'a> },
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Format<'a> {
    JsonObject,
    JsonSchema { json_schema: Schema<'a> },
}

#[derive(Serialize)]
struct Schema<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    schema: &'a Json,
    strict: bool,
}

pub(super) fn write(ask: &Ask<'_>) -> Result<Written, serde_json::Error> {
    let Ask { model, request, .. } = *ask;
    let options = &request.options;
    let rules = server::rules(ask);
    let mut plan = thinking::plan(ask, &rules);
    let mut notices = std::mem::take(&mut plan.notices);
    let tools = if plan.has_tools { tools(ask, &rules, &mut notices) } else { Vec::new() };
    let has_tools = !tools.is_empty();
    let tool_choice = tool_choice(ask, &plan, &tools, &mut notices);
    let mut system = request.system.clone();
    let response_format = format(ask, rules.structure, &mut system, &mut notices);
    let mut messages = Vec::new();
    if !system.is_empty() {
        messages.push(Message::System { content: TextContent::new(system, &rules) });
    }
    messages::write(ask, &rules, &mut messages);
    let prefix = match rules.binds_thinking {
        true => Some(binding::leave_out_foreign(&mut messages, &tools)?),
        false => None,
    };
    if rules.cache_marks {
        cache_marks::mark(&mut messages, ask.ends_with_wish);
    }
    let cap = ask.max_output();
    // MiniMax refuses 0.
    let coldest = if rules.server == Server::MiniMax { 0.01 } else { 0.0 };
    let warmth = temperature(options).map(|temperature| temperature.max(coldest));
    let is_mistral = rules.server == Server::Mistral;
    let mut takes = |is_taken: bool, name: &str| {
        if !is_taken {
            notices.push(format!("{name} is not sent: {model} does not take it"));
        }
        is_taken
    };
    let mut penalty = |name: &str, asked: Option<i32>| asked.filter(|_| takes(plan.penalizes, name)).map(thousandths);
    let frequency_penalty = penalty("frequency_penalty", options.frequency_penalty);
    let presence_penalty = penalty("presence_penalty", options.presence_penalty);
    // Several calls in one answer are what all servers do unless they are told not to.
    let parallel = options.parallel_tool_calls.filter(|is_parallel| has_tools && !is_parallel);
    let body = Body {
        model,
        messages,
        tools,
        tool_choice,
        parallel_tool_calls: parallel.filter(|_| rules.parallel_option),
        response_format,
        stream: true,
        stream_options: rules.usage_option.then_some(StreamOptions { include_usage: true }),
        temperature: warmth.filter(|_| takes(plan.samples, "temperature")),
        top_p: options.top_p.map(thousandths).filter(|_| takes(plan.samples, "top_p")),
        frequency_penalty,
        presence_penalty,
        seed: options.seed.filter(|_| !is_mistral),
        random_seed: options.seed.filter(|_| is_mistral),
        stop: if plan.stops { &options.stop } else { &[] },
        max_tokens: cap.filter(|_| !rules.completion_cap),
        max_completion_tokens: cap.filter(|_| rules.completion_cap),
        prompt_cache_key: request.cache_key.as_deref().filter(|_| rules.cache_key).map(cache_key),
        thinking: plan.fields,
    };
    Ok(Written { body: serde_json::to_vec(&body)?, notices, prefix })
}

fn tools<'a>(ask: &Ask<'a>, rules: &Rules, notices: &mut Vec<String>) -> Vec<Tool<'a>> {
    let is_gemini = rules.server == Server::Gemini || server::short_name(ask.model).starts_with("gemini");
    let schema_rules = match (rules.server, rules.family) {
        _ if is_gemini => schema::Rules::Gemini,
        (Server::Kimi, _) | (_, Family::Kimi) => schema::Rules::Kimi,
        (Server::Other, _) => schema::Rules::Grammar,
        _ => schema::Rules::OpenAi,
    };
    let mut tools = Vec::new();
    for tool in ask.request.tools.iter().filter(|tool| !ask.learned.tools.contains(&tool.name)) {
        match tool_schema(&tool.input_schema, schema_rules) {
            Ok(parameters) => {
                let function = Declaration { name: &tool.name, description: &tool.description, parameters };
                tools.push(Tool { r#type: "function", function });
            }
            Err(reason) => notices.push(format!("the tool {} is left out: {reason}", tool.name)),
        }
    }
    tools
}

/// A choice that the server refuses is left to the model. So is one without tools, which most servers refuse.
fn tool_choice<'a>(ask: &Ask<'a>, plan: &Plan, tools: &[Tool<'_>], notices: &mut Vec<String>) -> Option<Choice<'a>> {
    let choice = ask.request.options.tool_choice.as_ref().filter(|_| !tools.is_empty())?;
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(Choice::Mode("none")),
        ToolChoice::Required | ToolChoice::Named(_) if !plan.forces => {
            notices
                .push(format!("the tool call is asked for in words: {} cannot be forced while it thinks", ask.model));
            None
        }
        ToolChoice::Required => Some(Choice::Mode("required")),
        ToolChoice::Named(name) if tools.iter().any(|tool| tool.function.name == name) => {
            Some(Choice::Named { r#type: "function", function: Named { name } })
        }
        ToolChoice::Named(name) => {
            notices.push(format!("the call of {name} is not forced: there is no such tool in the request"));
            None
        }
    }
}

/// The shape of the answer: as a field where the server has one that says it, else as an instruction.
fn format<'a>(
    ask: &Ask<'a>,
    structure: Structure,
    system: &mut String,
    notices: &mut Vec<String>,
) -> Option<Format<'a>> {
    let mut instruct = |instruction: &str| {
        if !system.is_empty() {
            system.push_str("\n\n");
        }
        system.push_str(instruction);
    };
    let output = ask.request.options.output.as_ref()?;
    match output {
        OutputFormat::JsonSchema { name, description, schema, strict } if structure == Structure::Schema => {
            let json_schema = Schema { name, description: description.as_deref(), schema, strict: *strict };
            return Some(Format::JsonSchema { json_schema });
        }
        OutputFormat::JsonSchema { schema, .. } => {
            instruct(&format!("Answer with JSON that fits this schema, and with nothing else:\n{}", schema.as_str()));
            notices.push(format!("the answer's schema is asked for in words: {} cannot be held to it", ask.model));
        }
        // Several servers refuse to give JSON unless the word stands in a message.
        OutputFormat::JsonObject => instruct("Answer with a JSON object, and with nothing else."),
    }
    if structure == Structure::Asked && matches!(output, OutputFormat::JsonObject) {
        notices.push(format!("JSON is asked for in words: {} cannot be held to it", ask.model));
    }
    (structure >= Structure::Object).then_some(Format::JsonObject)
}
