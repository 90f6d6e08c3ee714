//! Requests as clients send them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ContentIn, object};

/// A message of any role; which fields it must have depends on the role.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageIn {
    pub(crate) role: String,
    pub(crate) content: Option<ContentIn>,
    pub(crate) tool_call_id: Option<String>,
    pub(crate) granted: Option<bool>,
    pub(crate) reason: Option<String>,
}

/// `AgentConfig`, with or without the name.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct AgentIn {
    pub(crate) name: Option<String>,
    #[serde(default, deserialize_with = "object::maybe_several")]
    pub(crate) tools: Option<Vec<ToolRefIn>>,
    pub(crate) options: Option<BTreeMap<String, String>>,
}

/// `ServerToolRef`.
#[derive(Debug, Deserialize)]
pub(crate) struct ToolRefIn {
    pub(crate) name: String,
    pub(crate) trust: Option<bool>,
}

/// `ToolSpec`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolIn {
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: String,
    pub(crate) input_schema: Box<RawValue>,
}

/// `CreateSessionRequest`.
#[derive(Debug, Deserialize)]
pub(crate) struct CreateIn {
    #[serde(deserialize_with = "object::one")]
    pub(crate) agent: AgentIn,
    pub(crate) stream: Option<String>,
    #[serde(deserialize_with = "object::several")]
    pub(crate) messages: Vec<MessageIn>,
    #[serde(default, deserialize_with = "object::maybe_several")]
    pub(crate) tools: Option<Vec<ToolIn>>,
}

/// `SessionTurnRequest`.
#[derive(Debug, Deserialize)]
pub(crate) struct TurnIn {
    #[serde(default, deserialize_with = "object::maybe_one")]
    pub(crate) agent: Option<AgentIn>,
    pub(crate) stream: Option<String>,
    #[serde(deserialize_with = "object::several")]
    pub(crate) messages: Vec<MessageIn>,
    #[serde(default, deserialize_with = "object::maybe_several")]
    pub(crate) tools: Option<Vec<ToolIn>>,
}
