//! A session as clients see it.

use std::{collections::BTreeMap, sync::Arc};

use axum::extract::{Path, rejection::PathRejection};
use everturn_core::{Message, OptionValue, SessionConfig, ToolRef, ToolSpec};
use everturn_engine::{Agent, Capabilities, History, REDACTED};
use everturn_http::{Caller, Scope, submission_key};
use everturn_store::SessionRecord;
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    error::ApiError,
    routes::Aap,
    turn::session_id,
    version::Version,
    wire::{MessageOut, ToolRefOut},
};

/// Which history a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    compacted: bool,
    full: bool,
}

impl Wanted {
    /// Every kind that the agent declares.
    pub(crate) fn all(declared: Capabilities) -> Self {
        Self { compacted: declared.history_compacted, full: declared.history_full }
    }

    /// The kind that a parameter of the query names, if the agent declares it; else none.
    pub(crate) fn one(parameter: &str, word: &str, declared: Capabilities) -> Result<Self, ApiError> {
        match word {
            "compacted" => Ok(Self { compacted: declared.history_compacted, full: false }),
            "full" => Ok(Self { compacted: false, full: declared.history_full }),
            other => {
                let shown: String = other.chars().take(64).collect();
                Err(ApiError::bad_request(format!("{parameter}={shown:?} is not known; use compacted or full")))
            }
        }
    }

    /// Whether any history is wanted.
    pub(crate) fn any(self) -> bool {
        self.compacted || self.full
    }
}

/// `SessionInfo`: the settings of a session, with tools in the words of a version.
#[derive(Serialize, ToSchema)]
#[schema(as = aap::Session)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionOut<'a, T> {
    /// Its id.
    session_id: &'a str,
    /// Its agent, as it is set up.
    agent: AgentOut<'a>,
    /// Tools of the application; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    tools: Vec<T>,
}

/// `AgentConfig`.
#[derive(Serialize, ToSchema)]
#[schema(as = aap::SessionAgent)]
pub(crate) struct AgentOut<'a> {
    /// Name of the agent.
    name: &'a str,
    /// The server-side tools that are enabled.
    tools: Vec<ToolRefOut>,
    /// Options that were set; secrets are shown as `***`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    options: BTreeMap<&'a str, &'a str>,
}

/// One or two kinds of history.
#[derive(Serialize, ToSchema)]
#[schema(as = aap::History)]
pub(crate) struct HistoryOut<'a> {
    /// What the model is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    compacted: Option<Vec<MessageOut<'a>>>,
    /// All that was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    full: Option<Vec<MessageOut<'a>>>,
}

impl<'a, T: From<&'a ToolSpec>> SessionOut<'a, T> {
    /// The session; secrets are not shown.
    pub(crate) fn new(session: &'a SessionRecord, enabled: Vec<ToolRef>) -> Self {
        let config = &session.config;
        let shown = |value: &'a OptionValue| match value {
            OptionValue::Plain(value) => value.as_str(),
            OptionValue::Sealed(_) => REDACTED,
        };
        let options = config.options.iter().map(|(name, value)| (name.as_str(), shown(value))).collect();
        let tools = enabled.into_iter().map(ToolRefOut::from).collect();
        Self {
            session_id: session.id.as_str(),
            agent: AgentOut { name: &config.agent, tools, options },
            tools: config.client_tools.iter().map(T::from).collect(),
        }
    }
}

impl<'a> HistoryOut<'a> {
    /// The wanted kinds.
    pub(crate) fn new(history: &'a History, wanted: Wanted) -> Self {
        let messages = |messages: &'a [Message]| messages.iter().map(MessageOut::from).collect::<Vec<_>>();
        Self {
            compacted: wanted.compacted.then(|| messages(&history.compacted)),
            full: wanted.full.then(|| messages(&history.full)),
        }
    }
}

impl Aap {
    /// A session of the caller.
    pub(crate) async fn record(
        &self,
        caller: &Caller,
        path: Result<Path<String>, PathRejection>,
    ) -> Result<SessionRecord, ApiError> {
        let session = session_id(path)?;
        let record = self.engine.session(&caller.tenant, &session).await?;
        record.ok_or_else(|| ApiError::no_session(session.as_str()))
    }

    /// The agent of a session, which outlives its agent's configuration.
    pub(crate) async fn agent(&self, caller: &Caller, config: &SessionConfig) -> Option<Arc<Agent>> {
        self.engine.agent_of_session(&caller.tenant, config).await.ok()
    }

    /// The exposed tools that a session has enabled.
    pub(crate) fn enabled(&self, agent: Option<&Agent>, config: &SessionConfig) -> Vec<ToolRef> {
        agent.map_or_else(|| config.tools.clone(), |agent| agent.enabled(config, self.engine.tools()))
    }

    /// Deletes a session; a turn that runs is cancelled.
    pub(crate) async fn delete(
        &self,
        version: Version,
        path: Result<Path<String>, PathRejection>,
        headers: &HeaderMap,
    ) -> Result<StatusCode, ApiError> {
        let caller = self.caller(headers, Scope::Chat)?;
        let session = session_id(path)?;
        let key = submission_key(headers, &version.deletion(&session), b"")?;
        let deleted = self.engine.delete(&caller.tenant, &session, key).await;
        deleted.map_err(|error| ApiError::delete(error, &session))?;
        Ok(StatusCode::NO_CONTENT)
    }
}
