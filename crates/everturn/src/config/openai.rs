//! `[openai]`: what clients of the chat completions find.

use std::{collections::BTreeMap, time::Duration};

use super::{check::duration, file, problem::Report, settings::Agent};

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

    /// Lets clients name the models of agents that nobody configured by the models' own names: an agent cannot be called
    /// `qwen3:8b`. What stands after the colon may be left out where it is `latest`, as Ollama has it.
    pub(super) fn add_models_of(&mut self, agents: &[Agent]) {
        let is_called_otherwise = |agent: &&Agent| agent.name.as_str() != agent.model.model;
        for agent in agents.iter().filter(is_called_otherwise).filter(|agent| agent.model.provider != "demo") {
            let model = &agent.model.model;
            let names = [Some(model.as_str()), model.strip_suffix(":latest")];
            for name in
                names.into_iter().flatten().filter(|name| !agents.iter().any(|other| other.name.as_str() == *name))
            {
                self.models.entry(name.to_owned()).or_insert_with(|| agent.name.to_string());
            }
        }
    }
}
