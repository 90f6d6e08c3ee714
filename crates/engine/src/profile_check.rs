//! What a profile may say.

use crate::{Engine, Profile, ProfileError};

/// Longest name for people, in characters.
const MAX_TITLE: usize = 200;
/// Longest description, in characters.
const MAX_DESCRIPTION: usize = 2000;
/// Longest instructions, in bytes.
const MAX_INSTRUCTIONS: usize = 256 * 1024;
/// Most models to fall back on.
const MAX_FALLBACK: usize = 8;
/// Most model calls in one turn.
const MAX_STEPS: u32 = 1000;

impl Engine {
    /// Refuses a profile that cannot be.
    pub(crate) fn check_profile(&self, profile: &Profile) -> Result<(), ProfileError> {
        let invalid = |field, what: String| Err(ProfileError::Invalid { field, what });
        if profile.name.trim().is_empty() || profile.name.chars().count() > MAX_TITLE {
            return invalid("name", format!("it must have 1 to {MAX_TITLE} characters"));
        }
        if profile.description.as_ref().is_some_and(|text| text.chars().count() > MAX_DESCRIPTION) {
            return invalid("description", format!("it may have {MAX_DESCRIPTION} characters at most"));
        }
        if profile.instructions.len() > MAX_INSTRUCTIONS {
            return invalid("instructions", format!("they may have {MAX_INSTRUCTIONS} bytes at most"));
        }
        if profile.fallback.len() > MAX_FALLBACK {
            return invalid("fallback", format!("there may be {MAX_FALLBACK} models at most"));
        }
        if !(1..=MAX_STEPS).contains(&profile.max_steps) {
            return invalid("max_steps", format!("it must be between 1 and {MAX_STEPS}"));
        }
        for (field, name) in
            std::iter::once(("model", &profile.model)).chain(profile.fallback.iter().map(|name| ("fallback", name)))
        {
            if self.0.models.find(name).is_none() {
                let providers = self.0.models.providers().join(", ");
                let name: String = name.chars().take(128).collect();
                return invalid(
                    field,
                    format!("{name:?} names no model; write provider/model, with one of: {providers}"),
                );
            }
        }
        for (index, tool) in profile.tools.iter().enumerate() {
            let known_server =
                tool.split_once('/').is_some_and(|(server, _)| self.0.tools.servers().contains_key(server));
            if self.0.tools.get(tool).is_none() && !known_server {
                let mut known = self.0.tools.names();
                known.extend(self.0.tools.servers().into_keys().map(|server| format!("{server}/*")));
                let tool: String = tool.chars().take(64).collect();
                return invalid("tools", format!("there is no tool {tool:?}; there are: {}", known.join(", ")));
            }
            if profile.tools[..index].contains(tool) {
                return invalid("tools", format!("{tool:?} is named twice"));
            }
        }
        match profile.trusted.iter().find(|tool| !profile.tools.contains(tool)) {
            Some(tool) => {
                let tool: String = tool.chars().take(64).collect();
                invalid("trusted", format!("{tool:?} is not one of the agent's tools"))
            }
            None => Ok(()),
        }
    }
}

/// The id of a profile, if it can be one.
pub(crate) fn check_id(id: String) -> Result<String, ProfileError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if id.is_empty() || id.len() > 64 || !id.chars().all(allowed) {
        let what = "it must have 1 to 64 characters of A-Z a-z 0-9 . _ -".to_owned();
        return Err(ProfileError::Invalid { field: "agent_id", what });
    }
    Ok(id)
}
