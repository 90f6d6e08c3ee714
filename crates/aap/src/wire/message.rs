//! Requests as clients send them.

use std::collections::BTreeMap;

use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    ContentIn, object,
    schema::{Seed, SeedWithUser, TurnMessages, named_agent},
    tool::{V1In, V3In},
};

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

/// `AgentConfig`. A session's agent cannot be changed: where it is there already, the name may be left out.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = aap::AgentConfig)]
pub(crate) struct AgentIn {
    /// Name of the agent; needed in a new session.
    pub(crate) name: Option<String>,
    /// The server-side tools to enable. In a new session, absent means none; in a turn, unchanged.
    #[serde(default, deserialize_with = "object::maybe_several")]
    pub(crate) tools: Option<Vec<ToolRefIn>>,
    /// Values of options. In a turn, those that are absent stay as they are; so does a secret that is `***`.
    pub(crate) options: Option<BTreeMap<String, String>>,
}

/// `ServerToolRef`.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = aap::ToolRef)]
pub(crate) struct ToolRefIn {
    /// Name of the tool, as `GET /meta` tells it.
    pub(crate) name: String,
    /// Whether it runs without asking; it asks if this is absent.
    pub(crate) trust: Option<bool>,
}

/// `CreateSessionRequest` of version 1: a new session and its first turn.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = aap::v1::NewSession)]
pub(crate) struct NewWithTurnIn {
    /// The agent and how it is set up.
    #[serde(deserialize_with = "object::one")]
    #[schema(schema_with = named_agent)]
    pub(crate) agent: AgentIn,
    /// How the answer shall come: `delta`, `message` or `none`, which it is if absent.
    #[schema(pattern = "^(delta|message|none)$")]
    pub(crate) stream: Option<String>,
    /// History to begin with; the last message is the user's.
    #[serde(deserialize_with = "object::several")]
    #[schema(value_type = SeedWithUser)]
    pub(crate) messages: Vec<MessageIn>,
    /// Tools of the application.
    #[serde(default, deserialize_with = "object::maybe_several")]
    #[schema(max_items = 128)]
    pub(crate) tools: Option<Vec<V1In>>,
}

/// `PostSessionsRequest` of version 3: a new session, in which nothing runs yet.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = aap::v3::NewSession)]
pub(crate) struct NewIn {
    /// The agent and how it is set up.
    #[serde(deserialize_with = "object::one")]
    #[schema(schema_with = named_agent)]
    pub(crate) agent: AgentIn,
    /// History to begin with.
    #[serde(default, deserialize_with = "object::maybe_several")]
    #[schema(value_type = Option<Seed>)]
    pub(crate) messages: Option<Vec<MessageIn>>,
    /// Tools of the application.
    #[serde(default, deserialize_with = "object::maybe_several")]
    #[schema(max_items = 128)]
    pub(crate) tools: Option<Vec<V3In>>,
}

/// `SessionTurnRequest`, with tools in the words of a version.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = aap::Turn)]
#[serde(bound = "T: Deserialize<'de>")]
pub(crate) struct TurnIn<T> {
    /// What changes about the agent, from now on.
    #[serde(default, deserialize_with = "object::maybe_one")]
    pub(crate) agent: Option<AgentIn>,
    /// How the answer shall come: `delta`, `message` or `none`, which it is if absent.
    #[schema(pattern = "^(delta|message|none)$")]
    pub(crate) stream: Option<String>,
    /// One message of the user; or a result or a permission for every call that waits.
    #[serde(deserialize_with = "object::several")]
    #[schema(value_type = TurnMessages)]
    pub(crate) messages: Vec<MessageIn>,
    /// The application's tools from now on; if absent, those that it has.
    #[serde(default, deserialize_with = "object::maybe_several")]
    #[schema(max_items = 128)]
    pub(crate) tools: Option<Vec<T>>,
}
