//! A session as clients see it.

use std::collections::BTreeMap;

use everturn_core::{OptionValue, ToolRef};
use everturn_engine::REDACTED;
use everturn_http::document;
use everturn_store::{SessionRecord, TurnRecord, TurnStatus};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    time::rfc3339,
    turn_out::{WaitOut, is_zero, said, status_word},
};

/// How much of a queued message is shown, in characters.
const PREVIEW: usize = 100;

/// A session in a list.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Session)]
pub(crate) struct SessionOut<'a> {
    session_id: &'a str,
    #[schema(required)]
    title: Option<&'a str>,
    agent_id: &'a str,
    #[schema(schema_with = statuses)]
    status: &'static str,
    total_input_tokens: u64,
    total_output_tokens: u64,
    /// Of the input, what providers had in their caches. Left out if none.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(required = false)]
    total_cached_input_tokens: u64,
    /// Of the output, what models spent on reasoning. Left out if none.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(required = false)]
    total_reasoning_tokens: u64,
    /// How many messages wait in it.
    queued: u64,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

fn statuses() -> document::AnySchema {
    document::schema(json!({ "type": "string", "enum": ["idle", "queued", "running", "waiting"] }))
}

impl SessionOut<'_> {
    /// For the document.
    pub(crate) fn example() -> Value {
        json!({
            "session_id": "sess_0198c0ffee", "title": "A trip to Rome", "agent_id": "demo", "status": "idle",
            "total_input_tokens": 120, "total_output_tokens": 48, "total_cached_input_tokens": 64, "queued": 0,
            "created_at": "2026-07-25T17:20:00.120Z", "updated_at": "2026-07-25T17:20:03.440Z",
        })
    }
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
            total_cached_input_tokens: session.usage.cached_input,
            total_reasoning_tokens: session.usage.reasoning,
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
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::SessionDetails)]
pub(crate) struct SessionDetails<'a> {
    #[serde(flatten)]
    session: SessionOut<'a>,
    /// What runs or waits in it.
    #[schema(required)]
    current: Option<CurrentOut<'a>>,
    /// What comes after it.
    queue: Vec<QueuedOut<'a>>,
    #[schema(value_type = Vec<ToolOut>)]
    tools: &'a [ToolRef],
    /// Secret ones are not shown.
    agent_options: BTreeMap<&'a str, &'a str>,
}

/// A tool of a session.
#[derive(utoipa::ToSchema)]
#[schema(as = native::SessionTool)]
#[expect(dead_code, reason = "what a tool looks like, for the document")]
struct ToolOut {
    name: String,
    /// Whether it runs without asking.
    trust: bool,
}

/// The message that runs or waits in a session.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::CurrentMessage)]
struct CurrentOut<'a> {
    message_id: &'a str,
    #[schema(schema_with = open_statuses)]
    status: &'static str,
    #[serde(flatten)]
    #[schema(nullable = false)]
    wait: Option<WaitOut>,
}

fn open_statuses() -> document::AnySchema {
    document::schema(json!({ "type": "string", "enum": ["running", "waiting"] }))
}

/// A message that waits for others.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::QueuedMessage)]
struct QueuedOut<'a> {
    message_id: &'a str,
    #[schema(format = DateTime)]
    created_at: String,
    /// How it begins.
    preview: String,
}

impl SessionDetails<'_> {
    /// For the document.
    pub(crate) fn example() -> Value {
        let mut session = SessionOut::example();
        session["current"] = Value::Null;
        session["queue"] = json!([]);
        session["tools"] = json!([{ "name": "clock", "trust": true }]);
        session["agent_options"] = json!({ "language": "English" });
        session
    }
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
