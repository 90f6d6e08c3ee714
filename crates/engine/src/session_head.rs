//! A session as submissions see it: from memory if this process ran its last turn, else from the store.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use everturn_core::{SessionConfig, SessionId, TenantId, TurnId, Usage};
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

/// Sessions whose turn runs in this process, as they were when it began: so that those who join the queue behind it need not
/// ask the store. They may have changed since, as those that are remembered.
#[derive(Debug, Default)]
pub(crate) struct BusySessions(Mutex<HashMap<(TenantId, SessionId), SessionHead>>);

impl BusySessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<(TenantId, SessionId), SessionHead>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn put(&self, head: SessionHead) {
        self.lock().insert((head.tenant.clone(), head.id.clone()), head);
    }

    fn get(&self, tenant: &TenantId, session: &SessionId) -> Option<SessionHead> {
        self.lock().get(&(tenant.clone(), session.clone())).cloned()
    }

    /// Whether a turn of the session runs in this process: its end looks at the queue.
    pub(crate) fn contains(&self, tenant: &TenantId, session: &SessionId) -> bool {
        self.lock().contains_key(&(tenant.clone(), session.clone()))
    }

    /// Forgets a session, since it is known to be another.
    pub(crate) fn forget(&self, tenant: &TenantId, session: &SessionId) {
        self.lock().remove(&(tenant.clone(), session.clone()));
    }

    /// Forgets a session whose turn does not run any more, unless another does by now.
    pub(crate) fn rests(&self, tenant: &TenantId, session: &SessionId, turn: &TurnId) {
        let (mut busy, name) = (self.lock(), (tenant.clone(), session.clone()));
        if busy.get(&name).and_then(|head| head.last_turn.as_ref()).is_some_and(|last| last.id == *turn) {
            busy.remove(&name);
        }
    }
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
        match self.0.warm.head(tenant, session).or_else(|| self.busy_head(tenant, session)) {
            Some(head) => Ok(Some(head)),
            None => Ok(self.0.store.session(tenant, session).await?.map(SessionHead::from)),
        }
    }

    fn busy_head(&self, tenant: &TenantId, session: &SessionId) -> Option<SessionHead> {
        let head = self.0.busy.get(tenant, session)?;
        Some(SessionHead { queued: self.0.queues.count(tenant, session)?, ..head })
    }

    /// Asks the store the next time.
    pub(crate) fn forget_head(&self, tenant: &TenantId, session: &SessionId) {
        self.0.warm.forget_head(tenant, session);
        self.0.busy.forget(tenant, session);
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
