//! A session as clients see it.

use std::collections::BTreeMap;

use everturn_core::{Message, OptionValue, ToolRef};
use everturn_engine::{Capabilities, History, REDACTED};
use everturn_store::SessionRecord;
use serde::Serialize;

use crate::{
    error::ApiError,
    wire::{MessageOut, ToolOut},
};

/// Which history a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    compacted: bool,
    full: bool,
}

impl Wanted {
    /// What `?history=` says; without it, every kind that the agent declares.
    pub(crate) fn new(word: Option<&str>, declared: Capabilities) -> Result<Self, ApiError> {
        let Capabilities { history_compacted, history_full, .. } = declared;
        let wanted = match word {
            None => return Ok(Self { compacted: history_compacted, full: history_full }),
            Some("compacted") => Self { compacted: true, full: false },
            Some("full") => Self { compacted: false, full: true },
            Some(other) => {
                let shown: String = other.chars().take(64).collect();
                return Err(ApiError::bad_request(format!("history={shown:?} is not known; use compacted or full")));
            }
        };
        if (wanted.compacted && !history_compacted) || (wanted.full && !history_full) {
            let message = "the session's agent does not offer this kind of history; GET /meta tells which it offers";
            return Err(ApiError::new(http::StatusCode::NOT_FOUND, message));
        }
        Ok(wanted)
    }

    /// Whether any history is wanted.
    pub(crate) fn any(self) -> bool {
        self.compacted || self.full
    }
}

/// `SessionResponse`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionOut<'a> {
    session_id: &'a str,
    agent: AgentOut<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<HistoryOut<'a>>,
}

#[derive(Serialize)]
struct AgentOut<'a> {
    name: &'a str,
    tools: &'a [ToolRef],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    options: BTreeMap<&'a str, &'a str>,
}

#[derive(Serialize)]
struct HistoryOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    compacted: Option<Vec<MessageOut<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    full: Option<Vec<MessageOut<'a>>>,
}

impl<'a> SessionOut<'a> {
    /// The session with the wanted history; secrets are not shown.
    pub(crate) fn new(
        session: &'a SessionRecord,
        enabled: &'a [ToolRef],
        history: &'a History,
        wanted: Wanted,
    ) -> Self {
        let config = &session.config;
        let shown = |value: &'a OptionValue| match value {
            OptionValue::Plain(value) => value.as_str(),
            OptionValue::Sealed(_) => REDACTED,
        };
        let options = config.options.iter().map(|(name, value)| (name.as_str(), shown(value))).collect();
        let messages = |messages: &'a [Message]| messages.iter().map(MessageOut::from).collect::<Vec<_>>();
        Self {
            session_id: session.id.as_str(),
            agent: AgentOut { name: &config.agent, tools: enabled, options },
            tools: config.client_tools.iter().map(ToolOut::from).collect(),
            history: wanted.any().then(|| HistoryOut {
                compacted: wanted.compacted.then(|| messages(&history.compacted)),
                full: wanted.full.then(|| messages(&history.full)),
            }),
        }
    }
}
