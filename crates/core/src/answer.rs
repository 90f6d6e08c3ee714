//! Answers to the calls that a turn waits for.

use serde::{Deserialize, Serialize};

use crate::{CallId, Content, Json};

/// An answer to a waiting call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The application ran its tool.
    Result {
        /// The call.
        call_id: CallId,
        /// What came out.
        content: Content,
    },
    /// A person decided about a server-side tool.
    Permission {
        /// The call.
        call_id: CallId,
        /// Whether it may run.
        granted: bool,
        /// Why not, in the person's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A person answered a form.
    Form {
        /// The call.
        call_id: CallId,
        /// The answer, valid by the form's schema.
        value: Json,
    },
    /// Nobody answered in time.
    Expired {
        /// The call.
        call_id: CallId,
    },
    /// A timer's time has come.
    Elapsed {
        /// The call.
        call_id: CallId,
    },
}

impl Answer {
    /// The call that it answers.
    pub fn call_id(&self) -> &CallId {
        match self {
            Self::Result { call_id, .. }
            | Self::Permission { call_id, .. }
            | Self::Form { call_id, .. }
            | Self::Expired { call_id }
            | Self::Elapsed { call_id } => call_id,
        }
    }
}
