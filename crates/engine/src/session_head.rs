//! A session as submissions see it: from memory if this process ran its last turn, else from the store.

use everturn_core::{SessionConfig, SessionId, TenantId, Usage};
use everturn_store::{SessionRecord, StoreError, TurnSummary};

use crate::Engine;

/// What a submission is judged by.
#[derive(Clone, Debug)]
pub(crate) struct SessionHead {
    pub(crate) tenant: TenantId,
    pub(crate) id: SessionId,
    pub(crate) version: u64,
    pub(crate) config: SessionConfig,
    /// What all its turns have used.
    pub(crate) usage: Usage,
    /// The turn that was started last.
    pub(crate) last_turn: Option<TurnSummary>,
    /// How many turns are queued.
    pub(crate) queued: u64,
    /// Whether it comes from memory. Another process may have changed the session since; commands find out by the version,
    /// and a refusal is judged again by what the store says.
    pub(crate) is_remembered: bool,
}

impl From<SessionRecord> for SessionHead {
    fn from(record: SessionRecord) -> Self {
        let SessionRecord { id, tenant, version, config, usage, last_turn, queued, .. } = record;
        Self { tenant, id, version, config, usage, last_turn, queued, is_remembered: false }
    }
}

impl Engine {
    pub(crate) async fn session_head(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> Result<Option<SessionHead>, StoreError> {
        match self.0.warm.head(tenant, session) {
            Some(head) => Ok(Some(head)),
            None => Ok(self.0.store.session(tenant, session).await?.map(SessionHead::from)),
        }
    }

    /// The settings of a session.
    pub async fn session_config(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> Result<Option<SessionConfig>, StoreError> {
        Ok(self.session_head(tenant, session).await?.map(|head| head.config))
    }
}
