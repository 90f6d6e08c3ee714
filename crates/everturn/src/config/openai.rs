//! `[openai]`: what clients of the chat completions find.

use std::{collections::BTreeMap, time::Duration};

use super::{check::duration, file, problem::Report};

/// Settings of the chat completions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenAi {
    /// Names of models that clients send, with the agents that answer them. `*` is every other name.
    pub models: BTreeMap<String, String>,
    /// How long an answer waits for a person before the client gets an error.
    pub wait: Duration,
}

impl Default for OpenAi {
    fn default() -> Self {
        Self { models: BTreeMap::new(), wait: Duration::from_secs(60) }
    }
}

impl OpenAi {
    /// `agents` are the names of the configured agents. Agents that tenants store are theirs alone, so no name is mapped to one.
    pub(super) fn check<'a>(
        report: &mut Report<'_>,
        openai: &file::OpenAi,
        agents: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        let wait = duration(report, "wait", openai.wait.as_ref()).unwrap_or(Self::default().wait);
        for agent in openai.models.values() {
            if !agents.clone().any(|name| name == agent.get_ref()) {
                let known: Vec<_> = agents.clone().map(|name| format!("`{name}`")).collect();
                let message = format!("there is no agent `{}`", agent.get_ref());
                let hint = (!known.is_empty()).then(|| format!("the agents are {}", known.join(", ")));
                report.add(Some(agent.span()), message, hint);
            }
        }
        let models = openai.models.iter().map(|(model, agent)| (model.get_ref().clone(), agent.get_ref().clone()));
        Self { models: models.collect(), wait }
    }
}
