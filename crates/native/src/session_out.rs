//! A session as clients see it.

use std::collections::BTreeMap;

use everturn_core::{OptionValue, ToolRef};
use everturn_engine::REDACTED;
use everturn_store::{SessionRecord, TurnRecord, TurnStatus};
use serde::Serialize;

use crate::{
    time::rfc3339,
    turn_out::{WaitOut, said, status_word},
};

/// How much of a queued message is shown, in characters.
const PREVIEW: usize = 100;

/// A session in a list.
#[derive(Serialize)]
pub(crate) struct SessionOut<'a> {
    session_id: &'a str,
    title: Option<&'a str>,
    agent_id: &'a str,
    status: &'static str,
    total_input_tokens: u64,
    total_output_tokens: u64,
    queued: u64,
    created_at: String,
    updated_at: String,
}

impl<'a> From<&'a SessionRecord> for SessionOut<'a> {
    fn from(session: &'a SessionRecord) -> Self {
        let status = match open_turn(session) {
            Some((_, status)) => status_word(status),
            None if session.queued > 0 => status_word(&TurnStatus::Queued),
            None => "idle",
        };
        Self {
            session_id: session.id.as_str(),
            title: session.title.as_deref(),
            agent_id: &session.config.agent,
            status,
            total_input_tokens: session.usage.input,
            total_output_tokens: session.usage.output,
            queued: session.queued,
            created_at: rfc3339(session.created_at),
            updated_at: rfc3339(session.updated_at),
        }
    }
}

/// The turn that runs or waits.
fn open_turn(session: &SessionRecord) -> Option<(&str, &TurnStatus)> {
    let turn = session.last_turn.as_ref()?;
    match &turn.status {
        TurnStatus::Running | TurnStatus::Waiting(_) => Some((turn.id.as_str(), &turn.status)),
        TurnStatus::Ended(_) | TurnStatus::Queued => None,
    }
}

/// A session by itself.
#[derive(Serialize)]
pub(crate) struct SessionDetails<'a> {
    #[serde(flatten)]
    session: SessionOut<'a>,
    current: Option<CurrentOut<'a>>,
    queue: Vec<QueuedOut<'a>>,
    tools: &'a [ToolRef],
    agent_options: BTreeMap<&'a str, &'a str>,
}

#[derive(Serialize)]
struct CurrentOut<'a> {
    message_id: &'a str,
    status: &'static str,
    #[serde(flatten)]
    wait: Option<WaitOut>,
}

#[derive(Serialize)]
struct QueuedOut<'a> {
    message_id: &'a str,
    created_at: String,
    preview: String,
}

impl<'a> SessionDetails<'a> {
    /// The session with the turns that are queued in it and the tools that it has. Secrets are not shown.
    pub(crate) fn new(session: &'a SessionRecord, queued: &'a [TurnRecord], tools: &'a [ToolRef]) -> Self {
        let current = open_turn(session).map(|(message_id, status)| CurrentOut {
            message_id,
            status: status_word(status),
            wait: WaitOut::of(status),
        });
        let queued = queued.iter().map(|turn| QueuedOut {
            message_id: turn.id.as_str(),
            created_at: rfc3339(turn.created_at),
            preview: said(&turn.messages).chars().take(PREVIEW).collect(),
        });
        let shown = |value: &'a OptionValue| match value {
            OptionValue::Plain(value) => value.as_str(),
            OptionValue::Sealed(_) => REDACTED,
        };
        let options = session.config.options.iter();
        Self {
            session: session.into(),
            current,
            queue: queued.collect(),
            tools,
            agent_options: options.map(|(name, value)| (name.as_str(), shown(value))).collect(),
        }
    }
}
