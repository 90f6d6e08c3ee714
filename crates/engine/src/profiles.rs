//! Stored agents, beside the configured ones: profiles that a tenant makes, changes and takes out of use.
//!
//! A profile that is deleted takes no new sessions; those that it has go on with it.

use std::{sync::Arc, time::Duration};

use everturn_core::{Effort, Json, ModelOptions, SessionConfig, TenantId, Thinking, Timestamp};
use everturn_models::Model;
use everturn_store::{CommandKey, Expect, Record, RecordFilter, RecordKind, RecordRow, Refusal, StoreError, Write};
use serde::{Deserialize, Serialize};

use crate::{
    Agent, Capabilities, Engine, SubmissionKey, SubmitError, committer::CommitError, missing_agent,
    profile_check::check_id,
};

/// States of a profile.
const ACTIVE: &str = "active";
const DELETED: &str = "deleted";

/// How often a change is made anew because somebody else changed the profile meanwhile.
const MAX_CONFLICTS: usize = 32;
/// How long one leg of a turn may take.
const TURN_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// Finds models by name, for agents that are made while the server runs.
pub trait Models: Send + Sync + 'static {
    /// The model of this name, `provider/model`; `None` if there is no such provider.
    fn find(&self, name: &str) -> Option<Arc<dyn Model>>;

    /// The providers that there are.
    fn providers(&self) -> Vec<String>;
}

/// What a profile says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// A name for people.
    pub name: String,
    /// What the agent does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Standing instructions.
    #[serde(default)]
    pub instructions: String,
    /// `provider/model`.
    pub model: String,
    /// Models to fall back on.
    #[serde(default)]
    pub fallback: Vec<String>,
    /// The tools that it has.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Of these, the ones that run without asking.
    #[serde(default)]
    pub trusted: Vec<String>,
    /// Most model calls in one turn.
    #[serde(default = "default_steps")]
    pub max_steps: u32,
    /// How hard its models think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Whether its models think, and what is shown of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Thinking>,
    /// Sampling temperature, in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<u32>,
}

fn default_steps() -> u32 {
    25
}

/// A profile as it is kept.
#[derive(Clone, Debug)]
pub struct StoredProfile {
    /// Its place in the list.
    pub position: u64,
    /// Its id, by which sessions refer to it.
    pub id: String,
    /// What it says.
    pub profile: Profile,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    active: bool,
    revision: u64,
}

impl StoredProfile {
    fn of(row: RecordRow) -> Option<Self> {
        let profile = serde_json::from_str(row.record.body.as_str()).ok()?;
        Some(Self {
            position: row.position,
            id: row.record.id,
            profile,
            created_at: row.created_at,
            updated_at: row.updated_at,
            active: row.record.state == ACTIVE,
            revision: row.revision,
        })
    }
}

/// Why a profile was not made or changed.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// No such profile.
    #[error("there is no agent {id:?}")]
    NotFound {
        /// What was asked for.
        id: String,
    },
    /// An agent of that id is there, or was.
    #[error("there is, or was, an agent {id:?}; choose another agent_id")]
    Exists {
        /// The id.
        id: String,
    },
    /// A configured agent cannot be changed through the API.
    #[error("agent {id:?} is configured on this server and read-only; change the server's configuration instead")]
    Configured {
        /// The id.
        id: String,
    },
    /// Something in it cannot be.
    #[error("{field}: {what}")]
    Invalid {
        /// Which part of it.
        field: &'static str,
        /// What is wrong, and what to do.
        what: String,
    },
    /// The key of another request.
    #[error("the idempotency key {key:?} was used for another request; send a new key with a new request")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// Somebody else changed it at the same time.
    #[error("agent {id:?} was changed by somebody else meanwhile; read it and try again")]
    Conflict {
        /// The id.
        id: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store refused it, for a reason that is ours.
    #[error("the store refused the agent: {0}")]
    Rejected(Refusal),
}

impl Engine {
    /// Whether there is a model of this name, `provider/model`.
    pub fn has_model(&self, name: &str) -> bool {
        self.0.models.find(name).is_some()
    }

    /// The agent that a new session shall have.
    pub async fn agent_for_new(&self, tenant: &TenantId, name: &str) -> Result<Arc<Agent>, SubmitError> {
        self.find_agent(tenant, name, true).await
    }

    /// The agent of a session, which may have been deleted since.
    pub async fn agent_of_session(&self, tenant: &TenantId, config: &SessionConfig) -> Result<Arc<Agent>, SubmitError> {
        let agent = self.find_agent(tenant, &config.agent, false).await?;
        Ok(self.dressed(&agent, config.overlay.as_ref()))
    }

    /// The agent of a session, if it is one of the configuration.
    pub(crate) fn configured_agent(&self, config: &SessionConfig) -> Option<Arc<Agent>> {
        let agent = self.0.agents.get(&config.agent)?;
        Some(self.dressed(&agent, config.overlay.as_ref()))
    }

    pub(crate) async fn find_agent(
        &self,
        tenant: &TenantId,
        name: &str,
        only_active: bool,
    ) -> Result<Arc<Agent>, SubmitError> {
        if let Some(agent) = self.0.agents.get(name) {
            return Ok(agent);
        }
        let stored = self.0.store.record(tenant, RecordKind::Agent, name).await?.and_then(StoredProfile::of);
        let found = stored.filter(|profile| profile.active || !only_active);
        found.and_then(|profile| self.build(&profile)).map(Arc::new).ok_or_else(|| {
            let name = name.chars().take(128).collect();
            SubmitError::UnknownAgent { name, available: self.0.agents.names().join(", ") }
        })
    }

    /// The agent of a turn that must end visibly, whether or not its agent is still there.
    pub(crate) async fn agent_or_stand_in(
        &self,
        tenant: &TenantId,
        config: &SessionConfig,
    ) -> Result<Arc<Agent>, StoreError> {
        match self.agent_of_session(tenant, config).await {
            Ok(agent) => Ok(agent),
            Err(SubmitError::Store(error)) => Err(error),
            Err(_) => Ok(Arc::new(missing_agent::stand_in(&config.agent))),
        }
    }

    /// The agent that a profile describes; `None` if its provider is not configured any more.
    fn build(&self, stored: &StoredProfile) -> Option<Agent> {
        let StoredProfile { id, profile, .. } = stored;
        let names = std::iter::once(&profile.model).chain(&profile.fallback);
        let models: Vec<_> = names.filter_map(|name| self.0.models.find(name)).collect();
        if models.is_empty() {
            return None;
        }
        Some(Agent {
            name: id.clone(),
            version: "1.0.0".to_owned(),
            title: Some(profile.name.clone()),
            description: profile.description.clone(),
            instructions: profile.instructions.clone(),
            models,
            tools: profile.tools.clone(),
            trusted: profile.trusted.clone(),
            // A stored agent cannot lift what the configuration forbids.
            client_trust: self.0.agents.all().iter().map(|agent| agent.client_trust).max().unwrap_or_default(),
            internal_tools: Vec::new(),
            options: Vec::new(),
            capabilities: Capabilities::default(),
            max_steps: profile.max_steps,
            turn_timeout: TURN_TIMEOUT,
            context_window: None,
            model_options: ModelOptions {
                effort: profile.effort,
                thinking: profile.thinking,
                temperature: profile.temperature,
                ..ModelOptions::default()
            },
            body: None,
            titles: true,
        })
    }

    /// A page of the tenant's profiles, newest first.
    pub async fn profiles(
        &self,
        tenant: &TenantId,
        below: Option<u64>,
        limit: usize,
    ) -> Result<Vec<StoredProfile>, StoreError> {
        let filter = RecordFilter { session: None, state: Some(ACTIVE.to_owned()) };
        let rows = self.0.store.records(tenant, RecordKind::Agent, &filter, below, limit).await?;
        Ok(rows.into_iter().filter_map(StoredProfile::of).collect())
    }

    /// One profile that is in use.
    pub async fn profile(&self, tenant: &TenantId, id: &str) -> Result<Option<StoredProfile>, StoreError> {
        let row = self.0.store.record(tenant, RecordKind::Agent, id).await?;
        Ok(row.and_then(StoredProfile::of).filter(|profile| profile.active))
    }

    /// Makes a profile.
    pub async fn create_profile(
        &self,
        tenant: &TenantId,
        id: Option<String>,
        profile: Profile,
        key: Option<SubmissionKey>,
    ) -> Result<StoredProfile, ProfileError> {
        if let Some(found) = self.profile_repetition(tenant, key.as_ref()).await? {
            return Ok(found);
        }
        let id = match id {
            Some(id) => check_id(id)?,
            None => format!("agent_{}", everturn_core::TurnId::mint().as_str().trim_start_matches("turn_")),
        };
        self.check_profile(&profile)?;
        if self.0.agents.get(&id).is_some() {
            return Err(ProfileError::Exists { id });
        }
        self.write_profile(tenant, id, &profile, ACTIVE, None, key).await
    }

    /// Changes a profile: `change` is given what it says and tells what it shall say.
    pub async fn change_profile(
        &self,
        tenant: &TenantId,
        id: &str,
        change: impl Fn(Profile) -> Result<Profile, ProfileError>,
        key: Option<SubmissionKey>,
    ) -> Result<StoredProfile, ProfileError> {
        if let Some(found) = self.profile_repetition(tenant, key.as_ref()).await? {
            return Ok(found);
        }
        for _ in 0..MAX_CONFLICTS {
            let stored = self.changeable(tenant, id).await?;
            let profile = change(stored.profile)?;
            self.check_profile(&profile)?;
            let revision = Some(stored.revision);
            match self.write_profile(tenant, stored.id, &profile, ACTIVE, revision, key.clone()).await {
                Err(ProfileError::Conflict { .. }) => {}
                written => return written,
            }
        }
        Err(ProfileError::Conflict { id: id.to_owned() })
    }

    /// Takes a profile out of use.
    pub async fn delete_profile(
        &self,
        tenant: &TenantId,
        id: &str,
        key: Option<SubmissionKey>,
    ) -> Result<(), ProfileError> {
        if self.profile_repetition(tenant, key.as_ref()).await?.is_some() {
            return Ok(());
        }
        let stored = self.changeable(tenant, id).await?;
        self.write_profile(tenant, stored.id, &stored.profile, DELETED, Some(stored.revision), key).await.map(drop)
    }

    async fn changeable(&self, tenant: &TenantId, id: &str) -> Result<StoredProfile, ProfileError> {
        let shown = || id.chars().take(128).collect();
        if self.0.agents.get(id).is_some() {
            return Err(ProfileError::Configured { id: shown() });
        }
        self.profile(tenant, id).await?.ok_or_else(|| ProfileError::NotFound { id: shown() })
    }

    async fn profile_repetition(
        &self,
        tenant: &TenantId,
        key: Option<&SubmissionKey>,
    ) -> Result<Option<StoredProfile>, ProfileError> {
        let Some(key) = key else { return Ok(None) };
        let Some(kept) = self.0.store.kept(tenant, &key.key, Timestamp::now()).await? else { return Ok(None) };
        if kept.fingerprint != key.fingerprint {
            return Err(ProfileError::KeyReused { key: key.key.clone() });
        }
        let row = self.0.store.record(tenant, RecordKind::Agent, &kept.outcome).await?;
        row.and_then(StoredProfile::of).map(Some).ok_or(ProfileError::NotFound { id: kept.outcome })
    }

    async fn write_profile(
        &self,
        tenant: &TenantId,
        id: String,
        profile: &Profile,
        state: &str,
        revision: Option<u64>,
        key: Option<SubmissionKey>,
    ) -> Result<StoredProfile, ProfileError> {
        let invalid = |error: serde_json::Error| ProfileError::Invalid { field: "agent", what: error.to_string() };
        let record = Record {
            kind: RecordKind::Agent,
            id: id.clone(),
            session: None,
            turn: None,
            state: state.to_owned(),
            body: Json::of(profile).map_err(invalid)?,
            outcome: None,
        };
        let expects = vec![Expect { kind: RecordKind::Agent, id: id.clone(), revision }];
        let kept =
            key.clone().map(|SubmissionKey { key, fingerprint }| CommandKey { key, fingerprint, outcome: id.clone() });
        match self.put_if(tenant, expects, vec![Write::Record(record)], kept).await {
            Ok(()) => {}
            Err(CommitError::Refused(Refusal::Changed)) if revision.is_none() => {
                return Err(ProfileError::Exists { id });
            }
            Err(CommitError::Refused(Refusal::Changed)) => return Err(ProfileError::Conflict { id }),
            Err(CommitError::Refused(Refusal::Repeated { .. })) => {
                let found = self.profile_repetition(tenant, key.as_ref()).await?;
                return found.ok_or(ProfileError::NotFound { id });
            }
            Err(CommitError::Refused(refusal)) => return Err(ProfileError::Rejected(refusal)),
            Err(CommitError::Store(error) | CommitError::Unknown { error, .. }) => return Err(error.into()),
        }
        let row = self.0.store.record(tenant, RecordKind::Agent, &id).await?;
        row.and_then(StoredProfile::of).ok_or(ProfileError::NotFound { id })
    }
}
