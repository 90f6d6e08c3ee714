//! What a caller may choose for a session: the models, servers and tools that its agent has. Others need the scope `admin`.

use std::sync::Arc;

use everturn_core::{SessionConfig, TenantId};
use everturn_engine::Agent;
use everturn_http::{Caller, Scope};
use http::StatusCode;

use crate::{error::ApiError, routes::Api};

/// An agent as it is configured, and whether the caller may go beyond it.
pub(crate) struct Reach {
    agent: Arc<Agent>,
    unbounded: bool,
}

impl Api {
    /// What this caller may choose for sessions of this agent.
    pub(crate) async fn reach(&self, caller: &Caller, agent: &str) -> Result<Reach, ApiError> {
        let agent = self.configured_agent(&caller.tenant, agent).await?;
        Ok(Reach { agent, unbounded: caller.require(Scope::Admin).is_ok() })
    }

    /// What everybody may choose: for recipes from the server's own folder, whose owner decides what they have.
    pub(crate) async fn any_reach(&self, caller: &Caller, agent: &str) -> Result<Reach, ApiError> {
        Ok(Reach { agent: self.configured_agent(&caller.tenant, agent).await?, unbounded: true })
    }

    /// An agent without anything that a session has instead.
    async fn configured_agent(&self, tenant: &TenantId, agent: &str) -> Result<Arc<Agent>, ApiError> {
        let config = SessionConfig { agent: agent.to_owned(), ..SessionConfig::default() };
        let agent = self.engine.agent_of_session(tenant, &config).await;
        agent.map_err(|error| ApiError::submit(error, None))
    }
}

impl Reach {
    pub(crate) fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Refuses a model, `provider/model`, that the agent does not have.
    pub(crate) fn check_model(&self, model: &str) -> Result<(), ApiError> {
        let own = self.agent.models.iter().map(|model| model.name());
        if self.unbounded || own.clone().any(|own| own == model) {
            return Ok(());
        }
        Err(self.beyond("the model", model, &own.collect::<Vec<_>>().join(", ")))
    }

    /// The tools that these patterns mean for the caller. A whole server means those of its tools that the agent has.
    /// Refused if the agent has nothing of what a pattern names.
    pub(crate) fn tools(&self, wanted: Vec<String>) -> Result<Vec<String>, ApiError> {
        if self.unbounded {
            return Ok(wanted);
        }
        let mut tools: Vec<String> = Vec::new();
        for pattern in wanted {
            let found: Vec<&String> = self.agent.tools.iter().filter(|own| covers(&pattern, own)).collect();
            let narrowed = match found.as_slice() {
                // The agent has it as part of a whole server.
                [] if self.agent.tools.iter().any(|own| covers(own, &pattern)) => vec![pattern],
                [] => return Err(self.beyond("the tool or server", &pattern, &self.agent.tools.join(", "))),
                found => found.iter().map(|own| (*own).clone()).collect(),
            };
            tools.extend(narrowed);
        }
        tools.sort_unstable();
        tools.dedup();
        Ok(tools)
    }

    /// How many model calls a turn may make, if so many are wanted.
    pub(crate) fn steps(&self, wanted: u32) -> u32 {
        if self.unbounded { wanted } else { wanted.min(self.agent.max_steps) }
    }

    fn beyond(&self, what: &str, name: &str, own: &str) -> ApiError {
        let shown: String = name.chars().take(128).collect();
        let own = if own.is_empty() { "none" } else { own };
        let agent = &self.agent.name;
        let message = format!(
            "{what} {shown:?} is not one that agent {agent:?} has ({own}); to use another takes a key with the scope admin"
        );
        ApiError::new(StatusCode::FORBIDDEN, message)
    }
}

/// Whether all that a pattern names is named by another: `files/*` covers `files/read`, and everything covers itself.
fn covers(wide: &str, narrow: &str) -> bool {
    let whole = |server: &str| narrow.strip_prefix(server).is_some_and(|rest| rest.starts_with('/'));
    wide == narrow || wide.strip_suffix("/*").is_some_and(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_covers_its_tools_and_no_other() {
        assert!(covers("files/*", "files/read") && covers("files/*", "files/*") && covers("clock", "clock"));
        assert!(!covers("files/read", "files/*"));
        assert!(!covers("files/*", "files2/read") && !covers("files/*", "files") && !covers("clock", "clocks"));
    }
}
