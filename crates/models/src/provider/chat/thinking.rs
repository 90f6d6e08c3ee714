//! How hard a model thinks: every server has fields of its own for it.

use everturn_core::{Effort, ModelOptions, Thinking};
use serde_json::{Map, Value, json};

use super::server::{Family, Rules, Server, is_own, short_name};
use crate::provider::{
    anthropic::models as claude,
    responses::models::{self, ChatTools, nearest},
    wire::{Ask, Settings},
};

use Effort::{High, Low, Max, Medium, Xhigh};

/// What a request says about thinking, and what follows from it.
pub(super) struct Plan {
    /// Fields of the body.
    pub(super) fields: Map<String, Value>,
    /// Whether the model takes a temperature and `top_p`.
    pub(super) samples: bool,
    /// Whether the model takes penalties.
    pub(super) penalizes: bool,
    /// Whether the model takes texts to stop at.
    pub(super) stops: bool,
    /// Whether a call can be forced.
    pub(super) forces: bool,
    /// Whether tools can be declared at all.
    pub(super) has_tools: bool,
    pub(super) notices: Vec<String>,
}

/// The fields that a server has.
enum Fields {
    /// `reasoning_effort` with these levels.
    Effort { levels: &'static [Effort], takes_none: bool },
    /// An object with a type that turns thinking on or off, and levels of `reasoning_effort` where there are any.
    Switch { on: Option<Value>, off: Option<Value>, levels: &'static [Effort] },
    /// Nothing.
    Nothing,
}

pub(super) fn plan(ask: &Ask<'_>, rules: &Rules) -> Plan {
    let (model, options) = (ask.model, &ask.request.options);
    let mut plan = Plan {
        fields: Map::new(),
        samples: true,
        penalizes: true,
        stops: true,
        forces: true,
        has_tools: !ask.request.tools.is_empty(),
        notices: Vec::new(),
    };
    let is_off = options.thinking == Some(Thinking::Off);
    let name = short_name(model);
    match rules.server {
        Server::OpenAi | Server::Azure => {
            openai(ask, &mut plan);
            return plan;
        }
        Server::OpenRouter => {
            openrouter(options, model, &mut plan);
            return plan;
        }
        // Where it thinks, DeepSeek ignores sampling and refuses forced calls.
        Server::DeepSeek => (plan.samples, plan.forces) = (is_off, is_off),
        Server::Kimi if !name.contains("k2-0") && !name.contains("moonshot-v1") => {
            (plan.samples, plan.penalizes) = (false, false);
            plan.forces = is_off || name.contains("k3");
        }
        Server::MiniMax => plan.forces = false,
        Server::Xai if !name.starts_with("grok-2") => (plan.penalizes, plan.stops) = (false, false),
        Server::Cerebras => plan.penalizes = false,
        _ => {}
    }
    let fields = fields(rules, &name, ask.settings);
    apply(fields, options, model, &mut plan);
    if rules.server == Server::Zai && is_preserving(&name) && !plan.fields.contains_key("thinking") {
        plan.fields.insert("thinking".into(), json!({"type": "enabled", "clear_thinking": false}));
    }
    if rules.server == Server::Groq && name.contains("qwen") {
        // Otherwise its reasoning stands in the text.
        plan.fields.insert("reasoning_format".into(), "parsed".into());
    }
    plan
}

/// Whether a model of Z.ai's keeps the reasoning of earlier answers where it is asked to.
fn is_preserving(name: &str) -> bool {
    name.starts_with("glm-") && (!name.starts_with("glm-4") || name.starts_with("glm-4.7"))
}

fn fields(rules: &Rules, name: &str, settings: &Settings) -> Fields {
    const LOW_TO_HIGH: &[Effort] = &[Low, Medium, High];
    const THREE: &[Effort] = &[Low, High, Max];
    let effort = |levels, takes_none| Fields::Effort { levels, takes_none };
    let field = |name: &str, value: Value| Some(json!({ name: value }));
    let switch = |levels| Fields::Switch {
        on: field("thinking", json!({"type": "enabled"})),
        off: field("thinking", json!({"type": "disabled"})),
        levels,
    };
    match rules.server {
        Server::DeepSeek if name.contains("v4-") => switch(&[High, Max]),
        Server::DeepSeek => switch(THREE),
        Server::Kimi if name.contains("k3") => effort(THREE, false),
        Server::Kimi if name.contains("k2.7") || name.contains("thinking") => {
            Fields::Switch { on: Some(json!({})), off: None, levels: &[] }
        }
        Server::Kimi if name.contains("k2.") => switch(&[]),
        Server::Zai if name.starts_with("glm-") => {
            let is_always_on = name.starts_with("glm-5.3");
            let on = json!({"type": "enabled", "clear_thinking": false});
            let on = if is_preserving(name) { on } else { json!({"type": "enabled"}) };
            let levels = match name {
                _ if is_always_on => THREE,
                _ if name.starts_with("glm-5.2") => &[High, Max],
                _ => &[],
            };
            let off = field("thinking", json!({"type": "disabled"})).filter(|_| !is_always_on);
            Fields::Switch { on: field("thinking", on), off, levels }
        }
        Server::MiniMax if name.contains("m3") => Fields::Switch {
            on: field("thinking", json!({"type": "adaptive"})),
            off: field("thinking", json!({"type": "disabled"})),
            levels: &[],
        },
        Server::MiniMax => Fields::Switch { on: Some(json!({})), off: None, levels: &[] },
        Server::DashScope => {
            let mut on = json!({"enable_thinking": true});
            if let Some(budget) = settings.thinking_budget {
                on["thinking_budget"] = budget.into();
            }
            Fields::Switch { on: Some(on), off: field("enable_thinking", false.into()), levels: &[] }
        }
        Server::Mistral if has_adjustable_thinking(name) => effort(&[High], true),
        Server::Groq | Server::Cerebras if rules.family == Family::GptOss => effort(LOW_TO_HIGH, false),
        Server::Groq if name.contains("qwen") => Fields::Switch {
            on: field("reasoning_effort", "default".into()),
            off: field("reasoning_effort", "none".into()),
            levels: &[],
        },
        Server::Cerebras if rules.family == Family::Glm => {
            Fields::Switch { on: Some(json!({})), off: field("disable_reasoning", true.into()), levels: &[] }
        }
        Server::Xai if name.starts_with("grok-3-mini") => effort(&[Low, High], false),
        Server::Xai if name.starts_with("grok-4.3") => effort(LOW_TO_HIGH, true),
        Server::Xai if name.starts_with("grok-4.5") => effort(LOW_TO_HIGH, false),
        Server::Xai if name.starts_with("grok-4.") => effort(&[Low, Medium, High, Xhigh], false),
        Server::Gemini => effort(LOW_TO_HIGH, name.starts_with("gemini-2.5-flash")),
        Server::Other if rules.family == Family::GptOss => effort(LOW_TO_HIGH, false),
        // The servers that people run themselves hand these to the model's template.
        Server::Other if is_own(&settings.host) => {
            let template = |is_on: bool| json!({"enable_thinking": is_on, "thinking": is_on});
            Fields::Switch {
                on: field("chat_template_kwargs", template(true)),
                off: field("chat_template_kwargs", template(false)),
                levels: LOW_TO_HIGH,
            }
        }
        Server::Other => effort(LOW_TO_HIGH, true),
        _ => Fields::Nothing,
    }
}

/// Mistral's models that think at one effort or not at all.
fn has_adjustable_thinking(name: &str) -> bool {
    ["mistral-small-latest", "mistral-small-2603", "mistral-small-4", "mistral-medium-latest", "mistral-medium-2604"]
        .iter()
        .any(|adjustable| name.starts_with(adjustable))
        || name.starts_with("mistral-medium-3.5")
        || name.starts_with("mistral-medium-3-5")
}

fn apply(fields: Fields, options: &ModelOptions, model: &str, plan: &mut Plan) {
    let is_off = options.thinking == Some(Thinking::Off);
    let is_on = matches!(options.thinking, Some(Thinking::On | Thinking::Summary));
    let effort = |levels: &[Effort], asked: Effort, plan: &mut Plan| match nearest(levels, asked) {
        Some(level) => {
            if level != asked {
                let notice = format!("effort is {}: {model} has no effort {}", level.as_str(), asked.as_str());
                plan.notices.push(notice);
            }
            plan.fields.insert("reasoning_effort".into(), level.as_str().into());
        }
        None => plan.notices.push(format!("effort is not sent: {model} takes none")),
    };
    match fields {
        Fields::Effort { levels, takes_none } => match options.effort {
            _ if is_off && takes_none => drop(plan.fields.insert("reasoning_effort".into(), "none".into())),
            _ if is_off => {
                let least = levels.first().map_or("low", |level| level.as_str());
                plan.notices.push(format!("thinking cannot be turned off: {model} thinks at least at effort {least}"));
                plan.fields.insert("reasoning_effort".into(), least.into());
            }
            Some(asked) => effort(levels, asked, plan),
            None if is_on && takes_none => {
                let usual = nearest(levels, Medium).map_or("high", Effort::as_str);
                plan.fields.insert("reasoning_effort".into(), usual.into());
            }
            None => {}
        },
        Fields::Switch { on, off, levels } => {
            if is_off && off.is_none() {
                plan.notices.push(format!("thinking cannot be turned off: {model} always thinks"));
                if let Some(least) = levels.first() {
                    plan.fields.insert("reasoning_effort".into(), least.as_str().into());
                }
            }
            let switch = if is_off { off } else { on.filter(|_| is_on) };
            if let Some(Value::Object(fields)) = switch {
                plan.fields.extend(fields);
            }
            if let Some(asked) = options.effort.filter(|_| !is_off) {
                effort(levels, asked, plan);
            }
        }
        Fields::Nothing => {
            if options.effort.is_some() {
                plan.notices.push(format!("effort is not sent: {model} takes none"));
            }
            if is_off {
                plan.notices.push(format!("thinking is not turned off: {model} has no such option"));
            }
        }
    }
}

/// OpenRouter has one field for all models, and knows what each of them takes.
fn openrouter(options: &ModelOptions, model: &str, plan: &mut Plan) {
    let claude = claude::Rules::of(model);
    plan.forces = claude.forced_choice;
    let reasoning = match (options.thinking, options.effort) {
        (Some(Thinking::Off), asked) => {
            if let Some(asked) = asked {
                plan.notices.push(format!("effort {} is not sent: thinking is off", asked.as_str()));
            }
            match claude.off {
                claude::Off::Never => plan
                    .notices
                    .push(format!("thinking may not be turned off: {model} always thinks where Anthropic serves it")),
                claude::Off::BetweenTools => plan
                    .notices
                    .push(format!("thinking may not be turned off entirely: {model} still thinks between tool calls")),
                claude::Off::Disabled | claude::Off::DisabledUpToHigh => {}
            }
            json!({"effort": "none"})
        }
        (_, Some(asked)) => json!({"effort": asked.as_str()}),
        (Some(Thinking::On | Thinking::Summary), None) => json!({"enabled": true}),
        (None, None) => return,
    };
    plan.fields.insert("reasoning".into(), reasoning);
}

/// OpenAI's own models, most of which take tools on this wire only where they do not reason.
fn openai(ask: &Ask<'_>, plan: &mut Plan) {
    let (model, options) = (ask.model, &ask.request.options);
    let rules = models::rules(model);
    plan.stops = rules.is_none_or(|rules| !rules.reasons());
    plan.penalizes = plan.stops;
    match rules.map_or(ChatTools::Always, |rules| rules.chat_tools) {
        ChatTools::WithoutEffort if plan.has_tools => {
            if options.effort.is_some() || matches!(options.thinking, Some(Thinking::On | Thinking::Summary)) {
                plan.notices.push(format!(
                    "effort is none: {model} takes no tools while it thinks on chat completions; set wire = \"responses\""
                ));
            }
            if rules.is_some_and(|rules| !rules.rests) {
                plan.fields.insert("reasoning_effort".into(), "none".into());
            }
            return;
        }
        ChatTools::Never if plan.has_tools => {
            plan.has_tools = false;
            let notice =
                format!("tools are left out: {model} takes none on chat completions; set wire = \"responses\"");
            plan.notices.push(notice);
        }
        ChatTools::Always | ChatTools::WithoutEffort | ChatTools::Never => {}
    }
    let mut effort = models::plan(rules, model, options, &mut plan.notices);
    if effort.effort == Some("max") {
        // Only Responses know this level.
        plan.notices.push(format!("effort is xhigh: {model} has no effort max on chat completions"));
        effort.effort = Some("xhigh");
    }
    plan.samples = effort.samples;
    if let Some(effort) = effort.effort {
        plan.fields.insert("reasoning_effort".into(), effort.into());
    }
}
