//! Forms: what people are asked.

use serde::{Deserialize, Serialize};

use crate::{CallId, FormId, Json, Timestamp, ToolUse};

/// See [`crate::Event::FormOpened`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormOpened {
    /// Names the form.
    pub form_id: FormId,
    /// The call that waits for it.
    pub call_id: CallId,
    /// What kind of form.
    pub kind: FormKind,
    /// What is asked.
    pub title: String,
    /// More words about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the answer.
    pub schema: Json,
    /// The call that is to be allowed, if that is what is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks_for: Option<ToolUse>,
    /// When it counts as not answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// Kinds of forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FormKind {
    /// The agent needs to know more.
    Clarify,
    /// Something outside must be connected.
    Integration,
    /// Somebody must sign.
    Signature,
    /// Somebody must allow.
    Approval,
}

impl FormKind {
    /// The kind as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Clarify => "clarify",
            Self::Integration => "integration",
            Self::Signature => "signature",
            Self::Approval => "approval",
        }
    }
}
