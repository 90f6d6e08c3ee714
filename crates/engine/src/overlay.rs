//! Agents as single sessions have them.

use std::sync::Arc;

use everturn_core::{ModelOptions, Overlay};

use crate::{Agent, Engine, SubmitError};

/// Longest instructions, in bytes.
const MAX_INSTRUCTIONS: usize = 256 * 1024;
/// Longest system messages that take the place of others, in bytes.
const MAX_SYSTEM: usize = 1024 * 1024;
/// Most tools that can be named.
const MAX_TOOLS: usize = 256;
/// Most model calls in one turn.
const MAX_STEPS: u32 = 1000;
/// The highest temperature that providers take, in thousandths.
const MAX_TEMPERATURE: u32 = 2000;

impl Engine {
    /// The agent with what a session shall have instead of what it says. Refused if something of that cannot be.
    pub(crate) fn dress(&self, agent: &Arc<Agent>, overlay: Option<&Overlay>) -> Result<Arc<Agent>, SubmitError> {
        if let Some(overlay) = overlay {
            self.check_overlay(overlay)?;
        }
        Ok(self.dressed(agent, overlay))
    }

    /// The agent with what a session has instead of what it says. A model that is gone since is as the agent says, and tools
    /// that are gone are not there; the rest stays.
    pub(crate) fn dressed(&self, agent: &Arc<Agent>, overlay: Option<&Overlay>) -> Arc<Agent> {
        let Some(overlay) = overlay else { return Arc::clone(agent) };
        let mut dressed = agent.as_ref().clone();
        if let Some(instructions) = &overlay.instructions {
            dressed.instructions.clone_from(instructions);
        }
        if let Some(model) = overlay.model.as_ref().and_then(|name| self.0.models.find(name)) {
            dressed.models.retain(|other| other.name() != model.name());
            dressed.models.insert(0, model);
        }
        if let Some(tools) = &overlay.tools {
            dressed.tools.clone_from(tools);
        }
        dressed.max_steps = overlay.max_steps.unwrap_or(dressed.max_steps);
        let (temperature, max_output_tokens) = (overlay.temperature, overlay.max_output_tokens);
        let own = ModelOptions { temperature, max_output_tokens, ..ModelOptions::default() };
        dressed.model_options = own.over(&dressed.model_options);
        Arc::new(dressed)
    }

    fn check_overlay(&self, overlay: &Overlay) -> Result<(), SubmitError> {
        let refuse = |field, what: String| Err(SubmitError::Overlay { field, what });
        if overlay.instructions.as_ref().is_some_and(|text| text.len() > MAX_INSTRUCTIONS) {
            return refuse("instructions", format!("they may have {MAX_INSTRUCTIONS} bytes at most"));
        }
        if overlay.system.as_ref().is_some_and(|text| text.len() > MAX_SYSTEM) {
            return refuse("system", format!("its system messages may have {MAX_SYSTEM} bytes at most"));
        }
        if let Some(name) = &overlay.model
            && self.0.models.find(name).is_none()
        {
            let (shown, providers) = (shorten(name), self.0.models.providers().join(", "));
            return refuse(
                "model",
                format!("{shown:?} names no model; write provider/model, with one of: {providers}"),
            );
        }
        if let Some(tools) = &overlay.tools {
            if tools.len() > MAX_TOOLS {
                return refuse("tools", format!("{} are too many, the limit is {MAX_TOOLS}", tools.len()));
            }
            let servers = self.0.tools.servers();
            let is_known = |tool: &&String| match tool.split_once('/') {
                Some((server, _)) => servers.contains_key(server),
                None => self.0.tools.get(tool).is_some(),
            };
            if let Some(tool) = tools.iter().find(|tool| !is_known(tool)) {
                let mut known = self.0.tools.names();
                known.extend(servers.into_keys().map(|server| format!("{server}/*")));
                return refuse("tools", format!("there is no {:?}; there are: {}", shorten(tool), known.join(", ")));
            }
        }
        if let Some(steps) = overlay.max_steps.filter(|steps| !(1..=MAX_STEPS).contains(steps)) {
            return refuse("max_steps", format!("it must be between 1 and {MAX_STEPS}, not {steps}"));
        }
        if overlay.temperature.is_some_and(|temperature| temperature > MAX_TEMPERATURE) {
            return refuse("temperature", "it must be between 0 and 2".to_owned());
        }
        if overlay.max_output_tokens == Some(0) {
            return refuse("max_output_tokens", "it must be at least 1".to_owned());
        }
        Ok(())
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(128).collect()
}
