//! How the model thinks, samples and shapes its answer.

use everturn_core::{Effort, Json, OutputFormat, Thinking, ToolChoice};
use serde::Serialize;

use super::DEFAULT_WINDOW;
use crate::provider::wire::{Ask, temperature};

#[derive(Serialize)]
pub(super) struct Options<'a> {
    /// Without it Ollama uses a few thousand tokens, whatever the model can hold.
    num_ctx: u64,
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
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    num_predict: Option<u64>,
}

pub(super) fn options<'a>(ask: &Ask<'a>) -> Options<'a> {
    let options = &ask.request.options;
    let penalty = |thousandths: Option<i32>| thousandths.map(|thousandths| f64::from(thousandths) / 1000.0);
    Options {
        num_ctx: window(ask),
        temperature: temperature(options),
        top_p: options.top_p.map(|thousandths| f64::from(thousandths) / 1000.0),
        frequency_penalty: penalty(options.frequency_penalty),
        presence_penalty: penalty(options.presence_penalty),
        seed: options.seed,
        stop: &options.stop,
        num_predict: ask.max_output(),
    }
}

/// The window that the model is loaded with: the agent's, else the provider's, else what the model has told.
fn window(ask: &Ask<'_>) -> u64 {
    let configured = ask.request.context_window.or(ask.settings.context_window);
    configured.or(ask.learned.window).unwrap_or(DEFAULT_WINDOW)
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Think {
    Whether(bool),
    Level(&'static str),
}

/// Whether and how hard the model is to think. `None` leaves it to the model; a model that can think then thinks.
pub(super) fn think(ask: &Ask<'_>, notices: &mut Vec<String>) -> Option<Think> {
    let (options, model) = (&ask.request.options, ask.model);
    if options.thinking == Some(Thinking::Off) {
        if options.effort.is_some() {
            notices.push("effort is not sent: thinking is off".to_owned());
        }
        if is_gpt_oss(model) {
            notices.push(format!("thinking cannot be off: {model} is asked for its lowest effort, low"));
            return Some(Think::Level("low"));
        }
        return Some(Think::Whether(false));
    }
    let asked = match (options.effort, options.thinking) {
        (Some(_), _) => "effort",
        (None, Some(_)) => "thinking",
        (None, None) => return None,
    };
    if ask.learned.thinks == Some(false) {
        notices.push(format!("{asked} is not sent: {model} does not think"));
        return None;
    }
    let Some(effort) = options.effort else { return Some(Think::Whether(true)) };
    let level = match effort {
        Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High | Effort::Xhigh => "high",
        Effort::Max => "max",
    };
    if level != effort.as_str() {
        notices.push(format!("effort is {level} instead of {}, which Ollama does not have", effort.as_str()));
    }
    Some(Think::Level(level))
}

/// A family that thinks whatever it is told.
fn is_gpt_oss(model: &str) -> bool {
    model.rsplit('/').next().unwrap_or(model).starts_with("gpt-oss")
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Format<'a> {
    Name(&'static str),
    Schema(&'a Json),
}

/// The shape of the answer, and the instruction that stands in for it. A shape is forced on every token, so that a model
/// which is held to one cannot call tools.
pub(super) fn format<'a>(
    ask: &Ask<'a>,
    has_tools: bool,
    notices: &mut Vec<String>,
) -> (Option<Format<'a>>, Option<String>) {
    let Some(output) = &ask.request.options.output else { return (None, None) };
    if !has_tools {
        return match output {
            OutputFormat::JsonObject => (Some(Format::Name("json")), None),
            OutputFormat::JsonSchema { schema, .. } => (Some(Format::Schema(schema)), None),
        };
    }
    let reason = "Ollama takes no output format together with tools";
    notices.push(format!("the output format is asked for in words only: {reason}"));
    let instruction = match output {
        OutputFormat::JsonObject => "Answer with a single JSON object and nothing else.".to_owned(),
        OutputFormat::JsonSchema { schema, .. } => format!(
            "When you give your final answer, answer with JSON that fits this schema and nothing else:\n{}",
            schema.as_str()
        ),
    };
    (None, Some(instruction))
}

/// The instruction that stands in for a forced call, which Ollama does not have.
pub(super) fn forced_call(ask: &Ask<'_>, names: &[&str], notices: &mut Vec<String>) -> Option<String> {
    let instruction = match ask.request.options.tool_choice.as_ref()? {
        ToolChoice::Auto | ToolChoice::None => return None,
        ToolChoice::Required if names.is_empty() => {
            notices.push("tool_choice is not sent: there are no tools".to_owned());
            return None;
        }
        ToolChoice::Named(name) if !names.contains(&name.as_str()) => {
            notices.push(format!("tool_choice is not sent: there is no tool {name}"));
            return None;
        }
        ToolChoice::Required => "Answer with a call of one of your tools.".to_owned(),
        ToolChoice::Named(name) => format!("Answer with a call of the tool {name}."),
    };
    notices.push("tool_choice is asked for in words only: Ollama cannot force a call".to_owned());
    Some(instruction)
}
