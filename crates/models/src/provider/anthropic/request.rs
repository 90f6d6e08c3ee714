//! Requests.

use everturn_core::{Effort, Json, OutputFormat, ToolChoice};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{
    conversation::{self, Conversation, Message, Role},
    models::{Rules, Sampling},
    output_schema::output_schema,
    thinking::{self, Decision, Wish},
};
use crate::provider::{
    proof::Prefix,
    schema::{self, tool_schema},
    wire::{Ask, Written, temperature},
};

/// The cap on an answer where nothing else is known. The API wants one.
const USUAL_CAP: u64 = 32_000;

/// Marks the end of what the provider shall keep in its cache.
const CACHE_CONTROL: &str = r#","cache_control":{"type":"ephemeral"}}"#;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stop_sequences: Vec<&'a str>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<[Box<RawValue>; 1]>,
    messages: Vec<Message>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<thinking::Config>,
    #[serde(skip_serializing_if = "OutputConfig::is_empty")]
    output_config: OutputConfig,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum SystemBlock<'a> {
    Text { text: &'a str },
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: &'a Json,
}

#[derive(Serialize)]
struct Choice<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disable_parallel_tool_use: bool,
}

impl Choice<'_> {
    fn is_forced(&self) -> bool {
        matches!(self.r#type, "any" | "tool")
    }
}

#[derive(Default, Serialize)]
struct OutputConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<Effort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format>,
}

impl OutputConfig {
    fn is_empty(&self) -> bool {
        self.effort.is_none() && self.format.is_none()
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Format {
    JsonSchema { schema: Box<RawValue> },
}

pub(super) fn write(ask: &Ask<'_>) -> Result<Written, serde_json::Error> {
    let Ask { model, settings, request, .. } = *ask;
    let options = &request.options;
    let rules = Rules::of(model);
    let mut notices = Vec::new();

    let mut system = request.system.clone();
    let format = output_format(ask, &rules, &mut system, &mut notices);
    let (names, mut tools) = tools(ask, &mut notices)?;
    let mut prefix = Prefix::default();
    prefix.add(system.as_bytes());
    tools.iter().for_each(|tool| prefix.add(tool.get().as_bytes()));
    let Conversation { mut messages, prefix, may_begin } = conversation::write(ask, &rules, prefix)?;

    let max_tokens = ask.max_output().unwrap_or_else(|| usual_cap(ask)).max(1);
    let tool_choice = tool_choice(ask, &rules, &names, &mut notices);
    let wish = Wish {
        model,
        rules: &rules,
        options,
        budget: settings.thinking_budget,
        max_tokens,
        may_begin,
        forces_call: tool_choice.as_ref().is_some_and(Choice::is_forced),
        binds: super::is_official(&settings.host),
    };
    let decision = wish.decide(&mut notices);
    let (temperature, top_p) = sampling(ask, &rules, &decision, &mut notices);
    let stop_sequences = stop_sequences(ask);

    let system =
        if system.trim().is_empty() { None } else { Some(to_raw_value(&SystemBlock::Text { text: &system })?) };
    let has_marks = !ask.learned.fields.contains("cache_control");
    let system = match system {
        Some(block) if has_marks => Some([marked(&block)?]),
        Some(block) => Some([block]),
        None => {
            if has_marks {
                mark_last(&mut tools)?;
            }
            None
        }
    };
    if has_marks {
        mark_messages(&mut messages, ask.ends_with_wish)?;
    }
    let body = serde_json::to_vec(&Body {
        model,
        max_tokens,
        temperature,
        top_p,
        stop_sequences,
        stream: true,
        system,
        messages,
        tools,
        tool_choice,
        thinking: decision.thinking,
        output_config: OutputConfig { effort: decision.effort, format },
    })?;
    Ok(Written { body, notices, prefix: Some(prefix) })
}

/// The cap on an answer where none is asked for.
pub(super) fn usual_cap(ask: &Ask<'_>) -> u64 {
    ask.most_output().unwrap_or(USUAL_CAP)
}

/// The names and declarations of the tools that can be declared.
fn tools<'a>(
    ask: &Ask<'a>,
    notices: &mut Vec<String>,
) -> Result<(Vec<&'a str>, Vec<Box<RawValue>>), serde_json::Error> {
    let (mut names, mut tools) = (Vec::new(), Vec::new());
    for tool in ask.request.tools.iter().filter(|tool| !ask.learned.tools.contains(&tool.name)) {
        match tool_schema(&tool.input_schema, schema::Rules::Anthropic) {
            Ok(schema) => {
                let (name, description) = (tool.name.as_str(), tool.description.as_str());
                tools.push(to_raw_value(&Tool { name, description, input_schema: &schema })?);
                names.push(name);
                let lost = schema::lost_fields(&tool.input_schema, schema::Rules::Anthropic);
                if !lost.is_empty() {
                    notices.push(format!(
                        "the tool {name} goes without its fields {}: {} takes no such names",
                        lost.join(", "),
                        ask.model
                    ));
                }
            }
            Err(reason) => notices.push(format!("the tool {} is left out: {reason}", tool.name)),
        }
    }
    Ok((names, tools))
}

/// The shape of the answer; in words at the end of the instructions where the API cannot be held to it.
fn output_format(ask: &Ask<'_>, rules: &Rules, system: &mut String, notices: &mut Vec<String>) -> Option<Format> {
    let model = ask.model;
    let words = match ask.request.options.output.as_ref()? {
        OutputFormat::JsonObject => {
            notices.push(format!("JSON is asked for in words only: {model} cannot be held to it without a schema"));
            "Answer with a single JSON object and nothing else: no text around it, no code fence.".to_owned()
        }
        OutputFormat::JsonSchema { schema, .. } => {
            let reason = if rules.structured {
                match output_schema(schema) {
                    Ok(schema) => return Some(Format::JsonSchema { schema }),
                    Err(reason) => format!("{model} does not take the schema, because {reason}"),
                }
            } else {
                format!("{model} cannot be held to a schema")
            };
            notices.push(format!("the answer's JSON schema is given in words only: {reason}"));
            let schema = schema.as_str();
            format!(
                "Answer with a single JSON value that fits the JSON schema below and nothing else: no text around it, no code fence.\n{schema}"
            )
        }
    };
    if !system.is_empty() {
        system.push_str("\n\n");
    }
    system.push_str(&words);
    None
}

fn tool_choice<'a>(ask: &Ask<'a>, rules: &Rules, names: &[&str], notices: &mut Vec<String>) -> Option<Choice<'a>> {
    let model = ask.model;
    let options = &ask.request.options;
    let asked = options.tool_choice.as_ref();
    if names.is_empty() {
        if let Some(ToolChoice::Required | ToolChoice::Named(_)) = asked {
            notices.push("the forced tool call is not asked for: there are no tools".to_owned());
        }
        return None;
    }
    let one_call = options.parallel_tool_calls == Some(false);
    let choice = |r#type, name| Choice { r#type, name, disable_parallel_tool_use: one_call };
    let unforced = one_call.then(|| choice("auto", None));
    let Some(asked) = asked else { return unforced };
    match asked {
        ToolChoice::Auto => Some(choice("auto", None)),
        ToolChoice::None => Some(Choice { r#type: "none", name: None, disable_parallel_tool_use: false }),
        ToolChoice::Required | ToolChoice::Named(_) if !rules.forced_choice => {
            notices.push(format!("the tool call is asked for in words: {model} decides itself which tools it calls"));
            unforced
        }
        ToolChoice::Required => Some(choice("any", None)),
        ToolChoice::Named(name) if names.contains(&name.as_str()) => Some(choice("tool", Some(name.as_str()))),
        ToolChoice::Named(name) => {
            notices.push(format!("the call of {name} is not forced: the request declares no such tool"));
            unforced
        }
    }
}

/// Temperature and `top_p`, as far as the model takes them.
fn sampling(
    ask: &Ask<'_>,
    rules: &Rules,
    decision: &Decision,
    notices: &mut Vec<String>,
) -> (Option<f64>, Option<f64>) {
    let model = ask.model;
    let options = &ask.request.options;
    for (is_asked, name) in [
        (options.seed.is_some(), "seed"),
        (options.frequency_penalty.is_some(), "frequency_penalty"),
        (options.presence_penalty.is_some(), "presence_penalty"),
    ] {
        if is_asked {
            notices.push(format!("{name} is not sent: {model} takes none"));
        }
    }
    let temperature = temperature(options);
    let top_p = options.top_p.map(|thousandths| f64::from(thousandths) / 1000.0);
    let mut refuse = |name: &str, why: &str| notices.push(format!("{name} is not sent: {model} takes none{why}"));
    if rules.sampling == Sampling::None || decision.thinks() {
        let why = if rules.sampling == Sampling::None { "" } else { " while it thinks" };
        temperature.iter().for_each(|_| refuse("temperature", why));
        top_p.iter().for_each(|_| refuse("top_p", why));
        return (None, None);
    }
    let top_p = top_p.filter(|_| {
        let is_taken = temperature.is_none() || rules.sampling == Sampling::Both;
        if !is_taken {
            refuse("top_p", " beside a temperature");
        }
        is_taken
    });
    if temperature.is_some_and(|temperature| temperature > 1.0) {
        notices.push(format!("temperature 1 is sent instead of a higher one: {model} takes no more"));
    }
    (temperature.map(|temperature| temperature.min(1.0)), top_p.map(|top_p| top_p.min(1.0)))
}

/// The texts to stop at. One without a visible character is refused; the reader of the answer stops there.
fn stop_sequences<'a>(ask: &Ask<'a>) -> Vec<&'a str> {
    ask.request.options.stop.iter().map(String::as_str).filter(|stop| !stop.trim().is_empty()).collect()
}

/// Marks what the next request will have in common with this one: all of it, and what it has in common with the one
/// before. The provider looks back only twenty blocks from a mark, and a step with many calls adds more. A wish at the end
/// is not in the next request.
fn mark_messages(messages: &mut [Message], ends_with_wish: bool) -> Result<(), serde_json::Error> {
    let wish = messages.last_mut().filter(|_| ends_with_wish).and_then(|last| last.content.pop());
    let users = messages.iter_mut().rev().filter(|message| message.role == Role::User);
    users.take(2).try_for_each(|message| mark_last(&mut message.content))?;
    if let Some(last) = messages.last_mut() {
        last.content.extend(wish);
    }
    Ok(())
}

fn mark_last(blocks: &mut [Box<RawValue>]) -> Result<(), serde_json::Error> {
    if let Some(last) = blocks.last_mut() {
        *last = marked(last)?;
    }
    Ok(())
}

/// An object that we wrote, with a mark for the cache as its last field.
fn marked(block: &RawValue) -> Result<Box<RawValue>, serde_json::Error> {
    let json = block.get();
    RawValue::from_string(format!("{}{CACHE_CONTROL}", json.strip_suffix('}').unwrap_or(json)))
}
