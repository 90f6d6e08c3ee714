//! A store whose process dies in the middle of a commit.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use everturn_core::{Day, KeyId, Segment, SessionId, TenantId, Timestamp, TurnId, Usage};
use everturn_store::{
    ClaimedTurn, Command, CommandKey, DueTurn, Fault, NodeId, Receipt, RecordFilter, RecordKind, RecordRow, Refusal,
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
    /// Whether to die with the first commit that ends a turn and begins the next, and whether that is kept.
    dies_between_turns: Option<bool>,
    /// What becomes of the first such commit otherwise, if it fails.
    fault_between_turns: Arc<Mutex<Option<Fault>>>,
    commits: Arc<AtomicUsize>,
    dead: Arc<Notify>,
    asked: Arc<Mutex<Asked>>,
}

/// What the store was asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) commits: usize,
    pub(crate) reads: usize,
    /// How many messages each rest kept, and how many it brought.
    pub(crate) rests: Vec<(usize, usize)>,
    /// Turns that were to begin in the commit that ended the one before, and did; that were refused; with which the process
    /// died.
    pub(crate) begun_with_ends: usize,
    pub(crate) refused_with_ends: usize,
    pub(crate) died_with_ends: usize,
    /// With which a commit failed.
    pub(crate) failed_with_ends: usize,
}

/// The places of the commands that begin a turn right after the end of another.
fn with_ends(batch: &[Command]) -> Vec<usize> {
    let ends = |command: &Command| matches!(command, Command::Append(append) if append.rest.is_some());
    let is_with = |at: &usize| ends(&batch[at - 1]) && matches!(batch[*at], Command::ResumeTurn(_));
    (1..batch.len()).filter(is_with).collect()
}

impl CrashStore {
    pub(crate) fn new(store: SimStore, death: Option<Death>) -> Self {
        Self {
            store,
            death,
            dies_between_turns: None,
            fault_between_turns: Arc::default(),
            commits: Arc::default(),
            dead: Arc::default(),
            asked: Arc::default(),
        }
    }

    /// Lets the process die between two turns, if it lives that long.
    pub(crate) fn dying_between_turns(self, kept: bool) -> Self {
        Self { dies_between_turns: Some(kept), ..self }
    }

    /// Lets the first commit fail that ends a turn and begins the next.
    pub(crate) fn failing_between_turns(self, fault: Fault) -> Self {
        *self.fault_between_turns.lock().unwrap() = Some(fault);
        self
    }

    /// How it dies with this commit, if it does.
    fn death_with(&self, batch: &[Command]) -> Option<Death> {
        let number = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        match (self.dies_between_turns, self.death) {
            (Some(kept), _) if !with_ends(batch).is_empty() => Some(Death { commit: number, kept }),
            (_, Some(death)) if number >= death.commit => {
                Some(Death { kept: death.kept && number == death.commit, ..death })
            }
            _ => None,
        }
    }

    /// What it was asked for since this was last looked at.
    pub(crate) fn asked(&self) -> Asked {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    fn read(&self) {
        self.asked.lock().unwrap().reads += 1;
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
        let death = self.death_with(&batch);
        let commit = async move {
            // Time passes, so that others get to do something while a commit is under way.
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            match death {
                Some(death) => {
                    self.asked.lock().unwrap().died_with_ends += with_ends(&batch).len();
                    if death.kept {
                        drop(self.store.commit(batch).await);
                    }
                    self.dead.notify_one();
                    std::future::pending().await
                }
                None => {
                    let ends = with_ends(&batch).len();
                    let fault = if ends > 0 { self.fault_between_turns.lock().unwrap().take() } else { None };
                    if let Some(fault) = fault {
                        self.asked.lock().unwrap().failed_with_ends += ends;
                        if matches!(fault, Fault::Kept) {
                            self.store.commit(batch).await?;
                        }
                        return Err(StoreError::Unavailable("the disk failed".to_owned()));
                    }
                    let verdicts = self.store.commit(Arc::clone(&batch)).await?;
                    let mut asked = self.asked.lock().unwrap();
                    asked.commits += 1;
                    for at in with_ends(&batch) {
                        let count = match &verdicts[at] {
                            Ok(_) => &mut asked.begun_with_ends,
                            Err(_) => &mut asked.refused_with_ends,
                        };
                        *count += 1;
                    }
                    asked.rests.extend(batch.iter().filter_map(|command| match command {
                        Command::Append(append) => append.rest.as_ref().map(|rest| (rest.keeps, rest.messages.len())),
                        _ => None,
                    }));
                    Ok(verdicts)
                }
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
        self.read();
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
        self.read();
        self.store.turns(tenant, session)
    }

    fn turn(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        turn: &TurnId,
    ) -> BoxFuture<'_, Result<Option<TurnRecord>, StoreError>> {
        self.read();
        self.store.turn(tenant, session, turn)
    }

    fn read(&self, turn: &TurnId, seq: u64, max_bytes: usize) -> BoxFuture<'_, Result<Vec<Segment>, StoreError>> {
        self.read();
        self.store.read(turn, seq, max_bytes)
    }

    fn turns_below(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<TurnRecord>, StoreError>> {
        self.read();
        self.store.turns_below(tenant, session, below, limit)
    }

    fn queued(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<TurnRecord>, StoreError>> {
        self.read();
        self.store.queued(tenant, session, limit)
    }

    fn outlines_below(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<TurnOutline>, StoreError>> {
        self.read();
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
        self.read();
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
        self.read();
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
