//! Sessions that are made without a turn that runs: empty, or with a conversation that took place elsewhere.

use everturn_core::{Message, SessionConfig, SessionId, TenantId, Timestamp};
use everturn_store::{Command, CommandKey, NewSession, Refusal, SecretPlace, SessionRecord, StoreError};

use crate::{Engine, SessionUpdate, SubmissionKey, SubmitError, cut::told};

/// A session to make.
#[derive(Clone, Debug, Default)]
pub struct NewConversation {
    /// Name of its agent.
    pub agent: String,
    /// Its name; a new one if absent.
    pub id: Option<SessionId>,
    /// Its name for people.
    pub title: Option<String>,
    /// Its settings.
    pub update: SessionUpdate,
    /// What was said elsewhere.
    pub turns: Vec<ImportedTurn>,
}

/// A turn that took place elsewhere.
#[derive(Clone, Debug)]
pub struct ImportedTurn {
    /// What was said.
    pub messages: Vec<Message>,
    /// When.
    pub at: Timestamp,
}

impl Engine {
    /// Makes a session.
    pub async fn create_session(
        &self,
        tenant: &TenantId,
        new: NewConversation,
        key: Option<SubmissionKey>,
    ) -> Result<SessionRecord, SubmitError> {
        if let Some(record) = self.created_before(tenant, key.as_ref()).await? {
            return Ok(record);
        }
        self.check_storage(tenant, 0).await?;
        let NewConversation { agent, id, title, update, turns } = new;
        let agent = self.agent_for_new(tenant, &agent).await?;
        let name = agent.name.clone();
        let agent = self.dress(&agent, update.overlay.as_ref())?;
        let session = id.unwrap_or_else(SessionId::mint);
        let seal =
            |option: &str, value: &str| self.0.secrets.seal(SecretPlace { tenant, session: &session, option }, value);
        let config = SessionConfig { agent: name.clone(), ..SessionConfig::default() };
        let config = update.apply(&agent, &self.0.tools, &config, seal)?;
        update.check_schemas(tenant, &self.0.tools, None).await?;
        let key_kept = key.clone().map(|SubmissionKey { key, fingerprint }| CommandKey {
            key,
            fingerprint,
            outcome: session.to_string(),
        });
        let command = NewSession {
            tenant: tenant.clone(),
            id: session.clone(),
            config,
            title,
            shares: None,
            turns: turns.into_iter().map(|turn| told(turn.messages, turn.at, false, &name)).collect(),
            key: key_kept,
            at: Timestamp::now(),
        };
        match self.commit_turn(Command::CreateSession(Box::new(command))).await {
            Ok(_) => {}
            Err(error) => match SubmitError::from(error) {
                SubmitError::Rejected(Refusal::Repeated { .. }) => {
                    return self.created_before(tenant, key.as_ref()).await?.ok_or(SubmitError::NotFound);
                }
                SubmitError::Rejected(Refusal::Exists) => return Err(SubmitError::Exists { session }),
                error => return Err(error),
            },
        }
        self.0.store.session(tenant, &session).await?.ok_or(SubmitError::NotFound)
    }

    /// The session that a creation with this key made before.
    async fn created_before(
        &self,
        tenant: &TenantId,
        key: Option<&SubmissionKey>,
    ) -> Result<Option<SessionRecord>, SubmitError> {
        let Some(key) = key else { return Ok(None) };
        let Some(kept) = self.0.store.kept(tenant, &key.key, Timestamp::now()).await? else { return Ok(None) };
        if kept.fingerprint != key.fingerprint {
            return Err(SubmitError::KeyReused { key: key.key.clone() });
        }
        let session: SessionId = kept.outcome.parse().map_err(|_| SubmitError::NotFound)?;
        self.0.store.session(tenant, &session).await?.ok_or(SubmitError::NotFound).map(Some)
    }

    /// How many messages a session's conversation has, as of the last rest of its turns.
    pub async fn message_count(&self, tenant: &TenantId, session: &SessionId) -> Result<u64, StoreError> {
        self.0.store.message_count(tenant, session).await
    }
}
