//! What is asked of a model beside the conversation: how hard it thinks, how it samples, what shape its answer has.
//!
//! An agent has such options, and a turn can bring its own. They are kept in the turn's log, so that a turn that another
//! process takes over asks its model for the same.

use serde::{Deserialize, Serialize};

use crate::Json;

/// Options of a model call. What is absent is left to the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelOptions {
    /// How hard the model thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Whether the model thinks, and what is shown of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// Cap on one answer, in tokens, reasoning included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Sampling temperature, in thousandths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<u32>,
    /// Nucleus sampling, in thousandths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<u32>,
    /// Penalty on frequent tokens, in thousandths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<i32>,
    /// Penalty on tokens that occurred at all, in thousandths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<i32>,
    /// Seed of the sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Texts at which the answer stops.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Whether the model must, may or must not call tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// Whether one answer may make several calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// The application's tools whose input must fit their schema: a call that does not is told to the model, and not to the
    /// application.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub strict_tools: Vec<String>,
    /// The shape of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputFormat>,
}

/// How hard a model thinks. Vendors know some of these levels; a level that a model lacks becomes its nearest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// As little as the model can.
    Minimal,
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// Very much.
    Xhigh,
    /// All that it can.
    Max,
}

impl Effort {
    /// Every level, from the least to the most.
    pub const ALL: [Self; 6] = [Self::Minimal, Self::Low, Self::Medium, Self::High, Self::Xhigh, Self::Max];

    /// The level as configuration and most vendors write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// Whether a model thinks, and what is shown of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Thinking {
    /// No thinking, or as little as the model can.
    Off,
    /// The model thinks; its thoughts are not asked for where the vendor makes a difference.
    On,
    /// The model thinks, and the vendor's summary of it is shown.
    Summary,
}

impl Thinking {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Off, Self::On, Self::Summary];

    /// The mode as configuration writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Summary => "summary",
        }
    }
}

/// Whether the model must, may or must not call tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// No calls. The tools are declared all the same, so that what the provider has cached stays valid.
    None,
    /// At least one call, of any tool.
    Required,
    /// A call of this tool.
    Named(String),
}

impl ToolChoice {
    /// Whether the model must call something.
    pub fn is_forced(&self) -> bool {
        match self {
            Self::Required | Self::Named(_) => true,
            Self::Auto | Self::None => false,
        }
    }
}

/// The shape of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// Some JSON object.
    JsonObject,
    /// JSON that fits a schema.
    JsonSchema {
        /// A name for the schema: 1 to 64 characters of `A-Z a-z 0-9 _ -`.
        name: String,
        /// What it is, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// The schema.
        schema: Json,
        /// Whether the vendor's strict mode was asked for, which takes a subset of JSON Schema.
        #[serde(default)]
        strict: bool,
    },
}

impl ModelOptions {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These options, and those of `base` where these say nothing. The lower cap on the answer counts.
    #[must_use]
    pub fn over(self, base: &Self) -> Self {
        let caps = [self.max_output_tokens, base.max_output_tokens];
        Self {
            effort: self.effort.or(base.effort),
            thinking: self.thinking.or(base.thinking),
            max_output_tokens: caps.into_iter().flatten().min(),
            temperature: self.temperature.or(base.temperature),
            top_p: self.top_p.or(base.top_p),
            frequency_penalty: self.frequency_penalty.or(base.frequency_penalty),
            presence_penalty: self.presence_penalty.or(base.presence_penalty),
            seed: self.seed.or(base.seed),
            stop: if self.stop.is_empty() { base.stop.clone() } else { self.stop },
            tool_choice: self.tool_choice.or_else(|| base.tool_choice.clone()),
            parallel_tool_calls: self.parallel_tool_calls.or(base.parallel_tool_calls),
            strict_tools: if self.strict_tools.is_empty() { base.strict_tools.clone() } else { self.strict_tools },
            output: self.output.or_else(|| base.output.clone()),
        }
    }
}
