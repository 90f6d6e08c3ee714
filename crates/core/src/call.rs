//! Tool calls: what is called, who answers, and how often it may run.

use serde::{Deserialize, Serialize};

use crate::{CallId, Json, Timestamp};

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
    /// A person answers a form.
    Form,
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

/// What a turn waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The calls, in call order; none if it waits for a provider that asked to slow down.
    pub calls: Vec<WaitingCall>,
    /// When it goes on by itself, with whatever nobody has answered by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_at: Option<Timestamp>,
}

/// Who or what wakes a waiting turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A person, by a form.
    Form,
    /// The application, with the results of its tools.
    ClientTools,
    /// Time.
    Timer,
    /// Time, because a provider asked to slow down.
    RateLimit,
}

impl Wait {
    /// Waits for these calls. Timers count once nobody else is waited for, so that a turn which somebody must answer
    /// is not taken up in between.
    pub fn of(calls: Vec<WaitingCall>) -> Self {
        let mut wait = Self { calls, wake_at: None };
        let timed = wait.is_timed();
        let counts = |call: &&WaitingCall| timed || call.waiting_for != WaitingFor::Timer;
        wait.wake_at = wait.calls.iter().filter(counts).filter_map(|call| call.until).min();
        wait
    }

    /// Who or what must come first, if it is several.
    pub fn wake(&self) -> Wake {
        let any = |wanted: &[WaitingFor]| self.calls.iter().any(|call| wanted.contains(&call.waiting_for));
        if any(&[WaitingFor::Permission, WaitingFor::Form]) {
            Wake::Form
        } else if any(&[WaitingFor::Result]) {
            Wake::ClientTools
        } else if self.calls.is_empty() {
            Wake::RateLimit
        } else {
            Wake::Timer
        }
    }

    /// Whether time alone wakes it, so that nobody need be asked.
    pub fn is_timed(&self) -> bool {
        match self.wake() {
            Wake::Timer | Wake::RateLimit => true,
            Wake::Form | Wake::ClientTools => false,
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
    /// When it resolves by itself: a timer elapses, a form expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// What would resolve a waiting call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitingFor {
    /// A tool result from the application.
    Result,
    /// A person's permission.
    Permission,
    /// A person's answer to a form.
    Form,
    /// Time.
    Timer,
}
