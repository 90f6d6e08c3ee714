//! How the model thinks, samples and shapes its answer.

use std::borrow::Cow;

use everturn_core::{Effort, Json, ModelOptions, OutputFormat, Thinking};
use serde::Serialize;

use super::facts::{Facts, Level, ThinkingControl};
use crate::provider::{
    schema::{Rules, tool_schema},
    wire::{Ask, most_thinking, temperature},
};

/// The most texts to stop at that the provider takes.
const MAX_STOPS: usize = 5;

/// Lets the model choose how much it thinks.
const DYNAMIC: i64 = -1;

#[derive(Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GenerationConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stop_sequences: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<Cow<'a, Json>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

impl GenerationConfig<'_> {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A budget and a level together are refused.
#[derive(Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<Level>,
}

/// The configuration, and the instruction that stands in for a part of it that the model does not take.
pub(super) fn generation<'a>(
    ask: &Ask<'a>,
    facts: Facts,
    has_tools: bool,
    notices: &mut Vec<String>,
) -> (GenerationConfig<'a>, Option<String>) {
    let mut config = GenerationConfig {
        max_output_tokens: ask.max_output(),
        thinking_config: thinking(ask, facts, notices).filter(|config| *config != ThinkingConfig::default()),
        ..GenerationConfig::default()
    };
    sampling(ask, facts, &mut config, notices);
    let instruction = output(ask, facts, has_tools, &mut config, notices);
    (config, instruction)
}

fn sampling<'a>(ask: &Ask<'a>, facts: Facts, config: &mut GenerationConfig<'a>, notices: &mut Vec<String>) {
    let (options, model): (&'a ModelOptions, &str) = (&ask.request.options, ask.model);
    if facts.samples {
        config.temperature = temperature(options);
        config.top_p = options.top_p.map(|thousandths| f64::from(thousandths) / 1000.0);
    } else {
        let asked = [("temperature", options.temperature), ("top_p", options.top_p)];
        let unsent = asked.into_iter().filter(|(_, value)| value.is_some());
        notices.extend(unsent.map(|(name, _)| format!("{name} is not sent: {model} takes none")));
    }
    let penalties = [("frequency_penalty", options.frequency_penalty), ("presence_penalty", options.presence_penalty)];
    // A penalty of zero is none.
    let unsent = penalties.into_iter().filter(|(_, value)| value.is_some_and(|value| value != 0));
    notices.extend(unsent.map(|(name, _)| format!("{name} is not sent: Gemini models take none")));
    config.seed = options.seed.and_then(|seed| i32::try_from(seed).ok());
    if let (Some(seed), None) = (options.seed, config.seed) {
        notices.push(format!("seed is not sent: Gemini takes numbers of 32 bits, and {seed} has more"));
    }
    // The reader of the answer looks for the others.
    let stops = options.stop.iter().map(String::as_str).filter(|stop| !stop.is_empty());
    config.stop_sequences = stops.take(MAX_STOPS).collect();
}

fn output<'a>(
    ask: &Ask<'a>,
    facts: Facts,
    has_tools: bool,
    config: &mut GenerationConfig<'a>,
    notices: &mut Vec<String>,
) -> Option<String> {
    let format = ask.request.options.output.as_ref()?;
    let reason = if has_tools && !facts.is_modern {
        format!("{} takes no output format together with tools", ask.model)
    } else {
        let schema = match format {
            OutputFormat::JsonObject => Ok(None),
            OutputFormat::JsonSchema { schema, .. } => answer_schema(schema).map(Some),
        };
        match schema {
            Ok(schema) => {
                config.response_mime_type = Some("application/json");
                config.response_json_schema = schema;
                return None;
            }
            Err(reason) => reason,
        }
    };
    notices.push(format!("the output format is asked for in words only: {reason}"));
    Some(match format {
        OutputFormat::JsonObject => "Answer with a single JSON object and nothing else.".to_owned(),
        OutputFormat::JsonSchema { schema, .. } => format!(
            "When you give your final answer, answer with JSON that fits this schema and nothing else:\n{}",
            schema.as_str()
        ),
    })
}

/// The schema of an answer. The rules for tools want an object, which an answer need not be.
fn answer_schema(schema: &Json) -> Result<Cow<'_, Json>, String> {
    let value = schema.to_value();
    match value.get("type").and_then(serde_json::Value::as_str) {
        None | Some("object") => tool_schema(schema, Rules::Gemini),
        Some(_) => Ok(Cow::Borrowed(schema)),
    }
}

fn thinking(ask: &Ask<'_>, facts: Facts, notices: &mut Vec<String>) -> Option<ThinkingConfig> {
    let (options, model) = (&ask.request.options, ask.model);
    let is_off = options.thinking == Some(Thinking::Off);
    if is_off && options.effort.is_some() {
        notices.push("effort is not sent: thinking is off".to_owned());
    }
    let effort = options.effort.filter(|_| !is_off);
    let shows = matches!(options.thinking, None | Some(Thinking::Summary));
    match facts.thinking {
        ThinkingControl::None => {
            if effort.is_some() {
                notices.push(format!("effort is not sent: {model} takes none"));
            }
            if matches!(options.thinking, Some(Thinking::On | Thinking::Summary)) {
                notices.push(format!("thinking is not sent: {model} cannot be told to think"));
            }
            None
        }
        ThinkingControl::Budget { least, most, can_be_off, by_default } => {
            let budget = if is_off {
                if !can_be_off {
                    notices.push(format!("thinking cannot be off: {model} thinks with at least {least} tokens"));
                }
                Some(if can_be_off { 0 } else { least })
            } else if let Some(effort) = effort {
                Some(budget_of(effort, least, most))
            } else {
                ask.settings.thinking_budget.map(|budget| match budget {
                    0 if can_be_off => 0,
                    budget => budget.clamp(least, most),
                })
            };
            let is_asked = options.thinking.is_some() && !is_off;
            // Thoughts count towards the cap.
            let budget = budget.map(|budget| match ask.max_output().map(most_thinking).filter(|most| *most < budget) {
                None => budget,
                Some(most) => {
                    let less = if most < least && can_be_off { 0 } else { most.max(least) };
                    if less == 0 {
                        notices.push(format!(
                            "{model} does not think in this call: the cap on the answer leaves no room for it"
                        ));
                    } else if less < budget {
                        notices.push(format!(
                            "{model} thinks with {less} tokens at most, not {budget}: the cap on the answer leaves no more"
                        ));
                    }
                    less
                }
            });
            let budget = budget.and_then(|budget| i64::try_from(budget).ok());
            let thinking_budget = budget.or((is_asked && !by_default).then_some(DYNAMIC));
            // A model that does not think refuses to show its thoughts.
            let thinks = thinking_budget.map_or(by_default, |budget| budget != 0);
            Some(ThinkingConfig { include_thoughts: shows && thinks, thinking_budget, thinking_level: None })
        }
        ThinkingControl::Level { levels, by_default } => {
            let thinking_level = if is_off {
                let lowest = levels.first().copied();
                let words = lowest.map_or("lowest", Level::as_str);
                notices.push(format!("thinking cannot be off: {model} is asked for its lowest effort, {words}"));
                lowest
            } else if let Some(effort) = effort {
                level_of(effort, levels, model, notices)
            } else {
                (options.thinking.is_some() && !by_default).then_some(Level::Medium)
            };
            Some(ThinkingConfig { include_thoughts: shows, thinking_budget: None, thinking_level })
        }
    }
}

/// The tokens that an effort is worth to a model that takes a number.
fn budget_of(effort: Effort, least: u64, most: u64) -> u64 {
    let budget = match effort {
        Effort::Minimal => least,
        Effort::Low => 1024,
        Effort::Medium => 8192,
        Effort::High => 24_576,
        Effort::Xhigh | Effort::Max => most,
    };
    budget.clamp(least, most)
}

/// The nearest of a model's levels; the lower one of two that are as near.
fn level_of(effort: Effort, levels: &[Level], model: &str, notices: &mut Vec<String>) -> Option<Level> {
    let wanted = match effort {
        Effort::Minimal => Level::Minimal,
        Effort::Low => Level::Low,
        Effort::Medium => Level::Medium,
        Effort::High | Effort::Xhigh | Effort::Max => Level::High,
    };
    let nearest = levels.iter().copied().min_by_key(|level| (*level as i8).abs_diff(wanted as i8))?;
    if nearest.as_str() != effort.as_str() {
        let (effort, sent) = (effort.as_str(), nearest.as_str());
        notices.push(format!("effort is {sent} instead of {effort}, which {model} does not have"));
    }
    Some(nearest)
}
