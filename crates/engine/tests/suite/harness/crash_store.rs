//! A store whose process dies in the middle of a commit.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use everturn_core::{Day, KeyId, Segment, SessionId, TenantId, Timestamp, TurnId, Usage};
use everturn_store::{
    ClaimedTurn, Command, CommandKey, DueTurn, NodeId, Receipt, RecordFilter, RecordKind, RecordRow, Refusal,
    SessionRecord, SessionRow, SimStore, Store, StoreError, TurnOutline, TurnRecord, UsageRow, UsageSlot,
};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::sync::Notify;

/// When the process dies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Death {
    /// With which commit, counted from 1.
    pub(crate) commit: usize,
    /// Whether that commit is kept; nobody is told in either case.
    pub(crate) kept: bool,
}

/// A [`SimStore`] that stops answering when it is time to die, and says so to the test.
#[derive(Clone)]
pub(crate) struct CrashStore {
    store: SimStore,
    death: Option<Death>,
    commits: Arc<AtomicUsize>,
    dead: Arc<Notify>,
}

impl CrashStore {
    pub(crate) fn new(store: SimStore, death: Option<Death>) -> Self {
        Self { store, death, commits: Arc::default(), dead: Arc::default() }
    }

    /// Waits until it is time to drop everything that uses this store.
    pub(crate) async fn dead(&self) {
        self.dead.notified().await;
    }
}

impl Store for CrashStore {
    fn health(&self) -> Result<(), StoreError> {
        self.store.health()
    }

    fn commit(&self, batch: Arc<Vec<Command>>) -> BoxFuture<'_, Result<Vec<Result<Receipt, Refusal>>, StoreError>> {
        let number = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        let commit = async move {
            // Time passes, so that others get to do something while a commit is under way.
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            match self.death {
                Some(death) if number >= death.commit => {
                    if death.kept && number == death.commit {
                        drop(self.store.commit(batch).await);
                    }
                    self.dead.notify_one();
                    std::future::pending().await
                }
                Some(_) | None => self.store.commit(batch).await,
            }
        };
        commit.boxed()
    }

    fn claim(&self, node: &NodeId, limit: usize) -> BoxFuture<'_, Result<Vec<ClaimedTurn>, StoreError>> {
        self.store.claim(node, limit)
    }

    fn session(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>> {
        self.store.session(tenant, session)
    }

    fn kept(
        &self,
        tenant: &TenantId,
        key: &str,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<Option<CommandKey>, StoreError>> {
        self.store.kept(tenant, key, at)
    }

    fn sessions(
        &self,
        tenant: &TenantId,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<SessionRow>, StoreError>> {
        self.store.sessions(tenant, below, limit)
    }

    fn turns(&self, tenant: &TenantId, session: &SessionId) -> BoxFuture<'_, Result<Vec<TurnRecord>, StoreError>> {
        self.store.turns(tenant, session)
    }

    fn turn(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        turn: &TurnId,
    ) -> BoxFuture<'_, Result<Option<TurnRecord>, StoreError>> {
        self.store.turn(tenant, session, turn)
    }

    fn read(&self, turn: &TurnId, seq: u64, max_bytes: usize) -> BoxFuture<'_, Result<Vec<Segment>, StoreError>> {
        self.store.read(turn, seq, max_bytes)
    }

    fn turns_below(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<TurnRecord>, StoreError>> {
        self.store.turns_below(tenant, session, below, limit)
    }

    fn queued(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<TurnRecord>, StoreError>> {
        self.store.queued(tenant, session, limit)
    }

    fn outlines_below(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<TurnOutline>, StoreError>> {
        self.store.outlines_below(tenant, session, below, limit)
    }

    fn message_count(&self, tenant: &TenantId, session: &SessionId) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.store.message_count(tenant, session)
    }

    fn history_bytes(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.store.history_bytes(tenant, session, below, limit)
    }

    fn queued_of_tenant(&self, tenant: &TenantId) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.store.queued_of_tenant(tenant)
    }

    fn due(&self, limit: usize) -> BoxFuture<'_, Result<Vec<DueTurn>, StoreError>> {
        self.store.due(limit)
    }

    fn stalled(&self, limit: usize) -> BoxFuture<'_, Result<Vec<(TenantId, SessionId)>, StoreError>> {
        self.store.stalled(limit)
    }

    fn record(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        id: &str,
    ) -> BoxFuture<'_, Result<Option<RecordRow>, StoreError>> {
        self.store.record(tenant, kind, id)
    }

    fn records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        filter: &RecordFilter,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RecordRow>, StoreError>> {
        self.store.records(tenant, kind, filter, below, limit)
    }

    fn blob(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        id: &str,
        part: u32,
    ) -> BoxFuture<'_, Result<Option<Bytes>, StoreError>> {
        self.store.blob(tenant, kind, id, part)
    }

    fn old_logs(&self, before: Timestamp, level: u8, limit: usize) -> BoxFuture<'_, Result<Vec<TurnId>, StoreError>> {
        self.store.old_logs(before, level, limit)
    }

    fn old_records(
        &self,
        kind: RecordKind,
        state: &str,
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RecordRow>, StoreError>> {
        self.store.old_records(kind, state, before, limit)
    }

    fn records_of_all(
        &self,
        kind: RecordKind,
        state: &str,
        above: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RecordRow>, StoreError>> {
        self.store.records_of_all(kind, state, above, limit)
    }

    fn usage(
        &self,
        tenant: &TenantId,
        days: (Day, Day),
        after: Option<&UsageSlot>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<UsageRow>, StoreError>> {
        self.store.usage(tenant, days, after, limit)
    }

    fn used_on(&self, tenant: &TenantId, day: Day, key: Option<&KeyId>) -> BoxFuture<'_, Result<Usage, StoreError>> {
        self.store.used_on(tenant, day, key)
    }

    fn stored_bytes(&self, tenant: &TenantId) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.store.stored_bytes(tenant)
    }

    fn idle_sessions(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(TenantId, SessionId)>, StoreError>> {
        self.store.idle_sessions(before, limit)
    }
}
