//! How a model is told to think.

use everturn_core::{Effort, ModelOptions, Thinking};
use serde::Serialize;

use super::models::{Off, Rules};
use crate::provider::wire::most_thinking;

/// The smallest budget for thinking that the API takes.
const MIN_BUDGET: u64 = 1024;
/// The budget where thinking is asked for without saying how much.
const USUAL_BUDGET: u64 = 8192;

/// The field `thinking`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Config {
    Adaptive {
        #[serde(skip_serializing_if = "Option::is_none")]
        display: Option<Display>,
        #[serde(skip_serializing_if = "Option::is_none")]
        block_binding: Option<BlockBinding>,
    },
    Enabled {
        budget_tokens: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        display: Option<Display>,
        #[serde(skip_serializing_if = "Option::is_none")]
        block_binding: Option<BlockBinding>,
    },
    Disabled,
    BetweenTools,
}

/// What is shown of the thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Display {
    Summarized,
    Omitted,
}

/// Lets the API leave out thinking whose prefix has changed, rather than refuse the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct BlockBinding {
    prefix_mismatch_behavior: &'static str,
}

const DROP_BLOCK: BlockBinding = BlockBinding { prefix_mismatch_behavior: "drop_block" };

/// What is known before the decision.
pub(super) struct Wish<'a> {
    pub(super) model: &'a str,
    pub(super) rules: &'a Rules,
    pub(super) options: &'a ModelOptions,
    /// The configured budget.
    pub(super) budget: Option<u64>,
    pub(super) max_tokens: u64,
    /// Whether the calls that are being answered began with thinking, which a model with a budget must see.
    pub(super) may_begin: bool,
    /// Whether the request forces a call, which a model that thinks within a budget cannot do.
    pub(super) forces_call: bool,
    /// Whether the host knows `block_binding`.
    pub(super) binds: bool,
}

/// The decision.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Decision {
    pub(super) thinking: Option<Config>,
    pub(super) effort: Option<Effort>,
}

impl Decision {
    /// Whether the model thinks within a budget or as much as it sees fit.
    pub(super) fn thinks(&self) -> bool {
        matches!(self.thinking, Some(Config::Adaptive { .. } | Config::Enabled { .. }))
    }
}

impl Wish<'_> {
    pub(super) fn decide(&self, notices: &mut Vec<String>) -> Decision {
        let Self { model, rules, options, .. } = *self;
        if options.thinking == Some(Thinking::Off) {
            return self.off(notices);
        }
        let asks = options.thinking.is_some() || options.effort.is_some() || self.budget.is_some();
        let by_default = rules.is_claude && rules.thinks_by_default;
        if !asks && !by_default {
            return Decision::default();
        }
        if rules.budget && (!rules.adaptive || self.budget.is_some()) {
            return self.within_budget(notices);
        }
        if !rules.adaptive {
            for (is_asked, name) in [(options.thinking.is_some(), "thinking"), (options.effort.is_some(), "effort")] {
                if is_asked {
                    notices.push(format!("{name} is not sent: {model} does not think"));
                }
            }
            return Decision::default();
        }
        Decision { thinking: Some(self.adaptive()), effort: self.effort(Effort::Max, notices) }
    }

    fn adaptive(&self) -> Config {
        Config::Adaptive { display: Some(self.display()), block_binding: self.binds.then_some(DROP_BLOCK) }
    }

    /// Readers see thinking unless they asked for thinking alone.
    fn display(&self) -> Display {
        match self.options.thinking {
            Some(Thinking::On | Thinking::Off) => Display::Omitted,
            Some(Thinking::Summary) | None => Display::Summarized,
        }
    }

    /// The effort that is asked for, up to `most`, as the model takes it.
    fn effort(&self, most: Effort, notices: &mut Vec<String>) -> Option<Effort> {
        let asked = self.options.effort?;
        let Some(sent) = self.rules.nearest(asked.min(most)) else {
            notices.push(format!("effort is not sent: {} takes none", self.model));
            return None;
        };
        if sent != asked {
            let (asked, sent, model) = (asked.as_str(), sent.as_str(), self.model);
            notices.push(format!("effort {sent} is sent instead of {asked}: {model} does not take {asked} here"));
        }
        Some(sent)
    }

    fn off(&self, notices: &mut Vec<String>) -> Decision {
        let Self { model, rules, .. } = *self;
        match rules.off {
            Off::Never => {
                let effort = self.effort(Effort::Max, notices).or_else(|| rules.nearest(Effort::Low));
                let level = effort.map_or("its usual", Effort::as_str);
                notices.push(format!(
                    "thinking cannot be turned off: {model} always thinks; it does so with {level} effort"
                ));
                Decision { thinking: Some(self.adaptive()), effort }
            }
            Off::BetweenTools => {
                notices
                    .push(format!("thinking cannot be turned off entirely: {model} still thinks between tool calls"));
                Decision { thinking: Some(Config::BetweenTools), effort: self.effort(Effort::High, notices) }
            }
            Off::Disabled | Off::DisabledUpToHigh => {
                let most = if rules.off == Off::Disabled { Effort::Max } else { Effort::High };
                // What the models of compatible servers do by default, their names do not tell.
                let may_think = rules.thinks_by_default || !rules.is_claude;
                let thinking = may_think.then_some(Config::Disabled);
                Decision { thinking, effort: self.effort(most, notices) }
            }
        }
    }

    fn within_budget(&self, notices: &mut Vec<String>) -> Decision {
        let Self { model, rules, options, max_tokens, .. } = *self;
        let effort = if rules.efforts.is_empty() { None } else { self.effort(Effort::Max, notices) };
        let none = Decision { thinking: None, effort };
        // Calls that were made without thinking, such as another provider's, must be answered without it.
        if !self.may_begin && !self.forces_call {
            return none;
        }
        let budget = match (self.budget, options.effort) {
            (Some(budget), _) => budget,
            (None, Some(asked)) if effort.is_none() => {
                let budget = budget_of(asked);
                let asked = asked.as_str();
                notices.push(format!("effort {asked} is sent as a budget of {budget} tokens: {model} takes no effort"));
                budget
            }
            (None, _) => USUAL_BUDGET,
        };
        if self.forces_call {
            notices.push(format!("{model} does not think in this call: it cannot while a tool call is forced"));
            return none;
        }
        // The budget counts towards the cap and must leave room for an answer.
        let budget_tokens = budget.min(most_thinking(max_tokens));
        if budget_tokens < MIN_BUDGET {
            notices.push(format!(
                "{model} does not think in this call: that takes {MIN_BUDGET} tokens and room for an answer, and the cap is {max_tokens}"
            ));
            return none;
        }
        if budget_tokens < budget {
            notices.push(format!(
                "{model} thinks with {budget_tokens} tokens at most, not {budget}: the cap is {max_tokens}, and an answer needs room"
            ));
        }
        let display = (rules.is_claude && self.display() == Display::Omitted).then_some(Display::Omitted);
        let block_binding = self.binds.then_some(DROP_BLOCK);
        Decision { thinking: Some(Config::Enabled { budget_tokens, display, block_binding }), effort }
    }
}

/// The budget that stands for an effort.
fn budget_of(effort: Effort) -> u64 {
    match effort {
        Effort::Minimal => 1024,
        Effort::Low => 4096,
        Effort::Medium => 8192,
        Effort::High => 16_384,
        Effort::Xhigh => 24_576,
        Effort::Max => 32_000,
    }
}
