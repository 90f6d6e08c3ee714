//! What a person chooses for a session with the controls of the released desktop: its folder, model, tools and mode.
//!
//! Choices are kept in a note beside the session, so that they can be made while no turn begins, and become settings of the
//! session with the next message.

use everturn_core::{Json, Overlay, SessionConfig, ToolRef};
use everturn_engine::{Agent, SessionUpdate};
use everturn_http::Caller;
use everturn_store::SessionRecord;
use serde::{Deserialize, Serialize};

use crate::{agent::note_folder, error::ApiError, routes::Api, session_out::WORKING_DIR};

/// The note's name: beside a session, and in the settings of one that was begun with choices.
pub(crate) const CHOICES: &str = "goose.choices";

/// What was chosen. What is absent is as the agent or the recipe says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Choices {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) working_dir: Option<String>,
    /// `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// Tools, named as in an agent's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<Mode>,
    /// Extensions that were asked for at its beginning and that it cannot have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing: Vec<String>,
}

/// Which tools run without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = goose::Mode)]
pub(crate) enum Mode {
    /// All of them.
    Auto,
    /// None.
    Approve,
    /// Those that the agent trusts.
    #[default]
    SmartApprove,
    /// There are no tools.
    Chat,
}

impl Mode {
    pub(crate) fn of(word: &str) -> Option<Self> {
        Some(match word {
            "auto" => Self::Auto,
            "approve" => Self::Approve,
            "smart_approve" => Self::SmartApprove,
            "chat" => Self::Chat,
            _ => return None,
        })
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Approve => "approve",
            Self::SmartApprove => "smart_approve",
            Self::Chat => "chat",
        }
    }
}

impl Choices {
    /// Notes the choices that a session begins with.
    pub(crate) fn note(&self, update: &mut SessionUpdate) -> Result<(), ApiError> {
        if *self != Self::default() {
            update.notes.insert(CHOICES.to_owned(), Json::of(self).map_err(|error| ApiError::internal(&error))?);
        }
        Ok(())
    }

    /// What a session has instead of what its agent says, given what its recipe says.
    fn over(&self, recipe: Option<Overlay>) -> Option<Overlay> {
        if self.model.is_none() && self.tools.is_none() && self.mode != Some(Mode::Chat) {
            return recipe;
        }
        let mut overlay = recipe.unwrap_or_default();
        overlay.model = self.model.clone().or(overlay.model);
        overlay.tools = self.tools.clone().or(overlay.tools);
        if self.mode == Some(Mode::Chat) {
            overlay.tools = Some(Vec::new());
        }
        Some(overlay)
    }
}

impl Api {
    /// What was chosen for a session.
    pub(crate) async fn choices(&self, session: &SessionRecord) -> Result<Choices, ApiError> {
        let note = self.engine.note(&session.tenant, &session.id, CHOICES).await;
        let note = note.map_err(|error| ApiError::submit(error, Some(&session.id)))?;
        let note = note.as_ref().or_else(|| session.config.notes.get(CHOICES));
        Ok(note.and_then(|note| serde_json::from_str(note.as_str()).ok()).unwrap_or_default())
    }

    /// Changes what was chosen for a session. `change` is given the tools that the session has.
    pub(crate) async fn choose(
        &self,
        session: &SessionRecord,
        change: impl FnOnce(&mut Choices, Vec<String>) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        // One after the other: a desktop that adds three extensions at once means all three.
        let _alone = self.choosing.lock().await;
        let before = self.choices(session).await?;
        let agent = self.agent_with(session, &Choices { mode: None, ..before.clone() }).await?;
        let mut choices = before.clone();
        change(&mut choices, agent.tools.clone())?;
        if choices == before {
            return Ok(());
        }
        let note = Json::of(&choices).map_err(|error| ApiError::internal(&error))?;
        let kept = self.engine.keep_note(&session.tenant, &session.id, CHOICES, note).await;
        kept.map_err(|error| ApiError::submit(error, Some(&session.id)))
    }

    /// The settings that a session has from its next message on.
    pub(crate) async fn chosen_config(&self, session: &SessionRecord) -> Result<SessionConfig, ApiError> {
        let choices = self.choices(session).await?;
        let mut update = SessionUpdate::default();
        self.take_choices(session, &choices, &mut update).await?;
        let mut config = self.shown_config(session, &choices)?;
        config.tools = update.tools.unwrap_or(config.tools);
        Ok(config)
    }

    /// The same without whom it trusts, which takes another look.
    pub(crate) fn shown_config(&self, session: &SessionRecord, choices: &Choices) -> Result<SessionConfig, ApiError> {
        let mut config = session.config.clone();
        config.overlay = choices.over(config.overlay).map(|overlay| self.usable(overlay));
        if let Some(folder) = &choices.working_dir {
            config.notes.insert(WORKING_DIR.to_owned(), Json::of(folder).map_err(|error| ApiError::internal(&error))?);
        }
        Ok(config)
    }

    /// Takes what was chosen for a session into what its next turn changes.
    pub(crate) async fn take_choices(
        &self,
        session: &SessionRecord,
        choices: &Choices,
        update: &mut SessionUpdate,
    ) -> Result<(), ApiError> {
        let config = &session.config;
        let base = update.overlay.clone().or_else(|| config.overlay.clone());
        let overlay = choices.over(base).map(|overlay| self.usable(overlay));
        let chosen = SessionConfig { overlay: overlay.clone(), ..config.clone() };
        if overlay != config.overlay {
            update.overlay = overlay;
        }
        // A fork has the session's settings, not what lies beside it.
        choices.note(update)?;
        if let Some(folder) = &choices.working_dir {
            note_folder(update, folder)?;
        }
        // Where the application says which tools there are and whom to trust, a mode says nothing.
        if let Some(mode) = choices.mode.filter(|_| config.agent_tools) {
            let agent = self.agent_of(&session.tenant, &chosen).await?;
            let tools = self.trusted_in(session, &agent, mode).await?;
            if tools != config.tools {
                update.tools = Some(tools);
                update.agent_tools = true;
            }
        }
        Ok(())
    }

    /// A session's agent, with these choices.
    async fn agent_with(&self, session: &SessionRecord, choices: &Choices) -> Result<std::sync::Arc<Agent>, ApiError> {
        let overlay = choices.over(session.config.overlay.clone()).map(|overlay| self.usable(overlay));
        let config = SessionConfig { overlay, ..session.config.clone() };
        self.agent_of(&session.tenant, &config).await
    }

    /// Tools that are gone since they were chosen are no reason to refuse a message.
    fn usable(&self, mut overlay: Overlay) -> Overlay {
        let servers = self.engine.tools().servers();
        if let Some(tools) = &mut overlay.tools {
            tools.retain(|tool| match tool.split_once('/') {
                Some((server, _)) => servers.contains_key(server),
                None => self.engine.tools().get(tool).is_some(),
            });
        }
        overlay
    }

    /// Whom a session in this mode trusts, where that is not as the agent says. What people said for good stays.
    async fn trusted_in(&self, session: &SessionRecord, agent: &Agent, mode: Mode) -> Result<Vec<ToolRef>, ApiError> {
        let trust = match mode {
            Mode::SmartApprove | Mode::Chat => return Ok(Vec::new()),
            Mode::Auto => true,
            Mode::Approve => false,
        };
        let standing = self.standing(&session.tenant).await?;
        let offered = agent.offered(self.engine.tools()).into_iter();
        let open = offered.filter(|name| !standing.contains_key(name));
        Ok(open.map(|name| ToolRef { name, trust }).collect())
    }

    /// The mode that new sessions of a tenant have.
    pub(crate) async fn default_mode(&self, caller: &Caller) -> Result<Option<Mode>, ApiError> {
        let note = self.engine.tenant_note(&caller.tenant, crate::config::MODE).await;
        let note = note.map_err(|error| ApiError::submit(error, None))?;
        Ok(note.and_then(|note| serde_json::from_str(note.as_str()).ok()))
    }
}
