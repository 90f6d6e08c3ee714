//! The built-in tools whose input takes more than a schema to make up: forms, pauses and artifacts.

use everturn_core::{Json, Messages, ToolSpec};

use super::{artifact, form, pause};

/// A tool that the model knows how to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feature {
    Form,
    Wait,
    CreateArtifact,
    UpdateArtifact,
}

impl Feature {
    /// What a tool of this name is, if it is the server's own.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "request_form" => Some(Self::Form),
            "wait" => Some(Self::Wait),
            "create_artifact" => Some(Self::CreateArtifact),
            "update_artifact" => Some(Self::UpdateArtifact),
            _ => None,
        }
    }

    /// What a tool is. An application may have a tool of its own under such a name, with other input.
    pub(super) fn of(tool: &ToolSpec) -> Option<Self> {
        let feature = Self::named(&tool.name)?;
        let member = match feature {
            Self::Form => "schema",
            Self::Wait => "seconds",
            Self::CreateArtifact => "content",
            Self::UpdateArtifact => "artifact_id",
        };
        tool.input_schema.to_value().get("properties")?.get(member)?;
        Some(feature)
    }

    /// The tool that plain words ask for, if the request has it. A pause is asked for by its name.
    pub(super) fn asked<'a>(message: &str, tools: &'a [ToolSpec], history: &Messages) -> Option<&'a ToolSpec> {
        let lower = message.to_lowercase();
        let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let wanted = if artifact::is_change(&words) {
            // Without an artifact there is nothing to change, and a new one is not what was asked for.
            artifact::last(history)?;
            Self::UpdateArtifact
        } else if artifact::is_wanted(&words) {
            Self::CreateArtifact
        } else if form::is_wanted(&words) {
            Self::Form
        } else {
            return None;
        };
        tools.iter().find(|tool| Self::of(tool) == Some(wanted))
    }

    /// The input that fits the message, if it says enough.
    pub(super) fn input(self, message: &str, history: &Messages) -> Option<Json> {
        match self {
            Self::Form => form::input(message),
            Self::Wait => pause::input(message),
            Self::CreateArtifact => artifact::create(message),
            Self::UpdateArtifact => artifact::update(message, history),
        }
    }
}
