//! Tool calls: what is called, who answers, and how often it may run.

use serde::{Deserialize, Serialize};

use crate::{CallId, Json};

/// A tool call as the model made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolUse {
    /// Names the call.
    pub id: CallId,
    /// The tool.
    pub name: String,
    /// Its input, a JSON object.
    pub input: Json,
}

/// Who resolves a call. Decided once, from the session's settings, when the model makes the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallRoute {
    /// The server runs it at once.
    Inline,
    /// The server runs it once a person allows it.
    Permission,
    /// The application runs it and submits the result.
    Client,
    /// Nobody runs it: the model is told why (unknown or disabled tool, input against the schema).
    Refused {
        /// What the model is told.
        reason: String,
    },
}

/// What a repetition of a call would do. Decides what happens to a call whose outcome a crash made unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// Changes nothing. May run again.
    ReadOnly,
    /// A repetition with the same effect id has no further effect. May run again.
    Idempotent,
    /// Everything else. Never runs again by itself.
    #[default]
    Effectful,
}

impl EffectClass {
    /// Whether a call whose outcome is unknown may run once more.
    pub fn may_repeat(self) -> bool {
        match self {
            Self::ReadOnly | Self::Idempotent => true,
            Self::Effectful => false,
        }
    }
}

/// A call that a turn waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingCall {
    /// The call.
    pub id: CallId,
    /// The tool.
    pub name: String,
    /// What would resolve it.
    pub waiting_for: WaitingFor,
}

/// What would resolve a waiting call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitingFor {
    /// A tool result from the application.
    Result,
    /// A person's permission.
    Permission,
}
