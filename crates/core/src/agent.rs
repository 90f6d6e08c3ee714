//! What a session knows of its agent and tools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Json;

/// A tool as models and clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name, unique within a session.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its input.
    pub input_schema: Json,
}

/// A server-side tool that a session has enabled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRef {
    /// The tool.
    pub name: String,
    /// Whether it runs without asking.
    #[serde(default)]
    pub trust: bool,
}

/// The value of an agent option within a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptionValue {
    /// Readable.
    Plain(String),
    /// A secret, sealed. Only the tools of the server ever open it.
    Sealed(String),
}

/// What a session was told about its agent; changed only by the commands of its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionConfig {
    /// Name of the agent.
    pub agent: String,
    /// The exposed server-side tools that are enabled; where `agent_tools` is set, those whose trust differs from what
    /// the agent says.
    #[serde(default)]
    pub tools: Vec<ToolRef>,
    /// Whether all of the agent's tools are enabled, whichever they are when a turn runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent_tools: bool,
    /// Whether it is given a name for people after its first exchange.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub titled: bool,
    /// The application's own tools.
    #[serde(default)]
    pub client_tools: Vec<ToolSpec>,
    /// Option values that differ from the agent's defaults.
    #[serde(default)]
    pub options: BTreeMap<String, OptionValue>,
    /// What it has instead of what its agent says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlay: Option<Overlay>,
    /// What dialects keep of the session for themselves, by names of their own. Nobody else looks at it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub notes: BTreeMap<String, Json>,
}

/// What one session has instead of what its agent says. What is absent is as the agent says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Overlay {
    /// Standing instructions, as they are: nothing in them stands for an option.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// What the application says as system, in place of the system messages that the conversation begins with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// `provider/model`. The agent's models are what is fallen back on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The tools, named as in an agent's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// How many model calls one turn may make.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// How freely the model chooses its words, in thousandths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<u32>,
    /// Cap on one answer, in tokens; the agent's own if that is lower.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
}

/// An option that an agent declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum OptionSpec {
    /// Any text.
    Text {
        /// Its name.
        name: String,
        /// A name for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// What it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Its value where a session has none.
        #[serde(default)]
        default: String,
    },
    /// A text that is never shown again.
    Secret {
        /// Its name.
        name: String,
        /// A name for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// What it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Its value where a session has none.
        #[serde(default)]
        default: String,
    },
    /// One of several texts.
    Select {
        /// Its name.
        name: String,
        /// A name for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// What it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// The choices.
        options: Vec<String>,
        /// Its value where a session has none; one of the choices.
        default: String,
    },
}

impl OptionSpec {
    /// The option's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Text { name, .. } | Self::Secret { name, .. } | Self::Select { name, .. } => name,
        }
    }

    /// Its value where a session has none.
    pub fn default_value(&self) -> &str {
        match self {
            Self::Text { default, .. } | Self::Secret { default, .. } | Self::Select { default, .. } => default,
        }
    }

    /// Whether its value is a secret.
    pub fn is_secret(&self) -> bool {
        match self {
            Self::Secret { .. } => true,
            Self::Text { .. } | Self::Select { .. } => false,
        }
    }
}
