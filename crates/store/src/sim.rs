//! A store in memory that fails when it is told to, for tests of what is built on a store.
//!
//! It keeps the contract, and is simple enough to be right by inspection: the contract suite also takes it as the model
//! that other stores are compared with.

mod chores;
mod faults;
mod history;
mod records;
mod state;
mod turns;
mod usage;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use everturn_core::{Day, KeyId, Segment, SessionId, TenantId, Timestamp, TurnId, Usage};
use futures_util::{FutureExt, future::BoxFuture};

use self::faults::Switches;
pub use self::faults::{Fault, Faults};
use self::state::State;
use crate::{
    ClaimedTurn, Command, CommandKey, DueTurn, NodeId, Receipt, RecordFilter, RecordKind, RecordRow, Refusal,
    SessionRecord, SessionRow, Store, StoreError, TurnOutline, TurnRecord, TurnStatus, UsageRow, UsageSlot,
};

/// A [`Store`] in memory. Clones are the same store.
#[derive(Clone, Debug)]
pub struct SimStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// `None` once it has crashed.
    state: Mutex<Option<State>>,
    switches: Switches,
}

impl Default for SimStore {
    fn default() -> Self {
        Self::new()
    }
}

impl SimStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::with(State::default())
    }

    fn with(state: State) -> Self {
        Self { inner: Arc::new(Inner { state: Mutex::new(Some(state)), switches: Switches::default() }) }
    }

    /// Ends this store as a crash would, and gives one that holds what was committed. Commits that are held at the gate
    /// are lost; every call on this one finds it closed.
    pub fn crash(&self) -> Self {
        let state = self.state().take().unwrap_or_default();
        self.inner.switches.release();
        Self::with(state)
    }

    /// The switches by which it fails.
    pub fn faults(&self) -> Faults<'_> {
        Faults::new(&self.inner.switches)
    }

    fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, work: impl FnOnce(&State) -> T) -> BoxFuture<'_, Result<T, StoreError>>
    where
        T: Send + 'static,
    {
        let found = match self.state().as_ref() {
            None => Err(StoreError::Closed),
            Some(_) if self.inner.switches.is_out() => Err(faults::unavailable()),
            Some(state) => Ok(work(state)),
        };
        std::future::ready(found).boxed()
    }
}

impl Store for SimStore {
    fn health(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn commit(&self, batch: Arc<Vec<Command>>) -> BoxFuture<'_, Result<Vec<Result<Receipt, Refusal>>, StoreError>> {
        let commit = async move {
            self.inner.switches.pass_gate().await;
            let mut state = self.state();
            let state = state.as_mut().ok_or(StoreError::Closed)?;
            batch.iter().try_for_each(|command| self.inner.switches.check_command(command))?;
            match self.inner.switches.next_fault() {
                Some(Fault::Lost) => Err(faults::unavailable()),
                Some(Fault::Kept) => {
                    batch.iter().for_each(|command| drop(state.judge(command)));
                    Err(faults::unavailable())
                }
                None => Ok(batch.iter().map(|command| state.judge(command)).collect()),
            }
        };
        commit.boxed()
    }

    fn claim(&self, node: &NodeId, limit: usize) -> BoxFuture<'_, Result<Vec<ClaimedTurn>, StoreError>> {
        let claimed = match self.state().as_mut() {
            None => Err(StoreError::Closed),
            Some(_) if self.inner.switches.is_out() => Err(faults::unavailable()),
            Some(state) => Ok(state.claim(node, limit)),
        };
        std::future::ready(claimed).boxed()
    }

    fn session(
        &self,
        tenant: &TenantId,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>> {
        self.read(|state| state.session(tenant, session))
    }

    fn sessions(
        &self,
        tenant: &TenantId,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<SessionRow>, StoreError>> {
        self.read(|state| state.sessions(tenant, below, limit))
    }

    fn kept(
        &self,
        tenant: &TenantId,
        key: &str,
        at: Timestamp,
    ) -> BoxFuture<'_, Result<Option<CommandKey>, StoreError>> {
        self.read(|state| state.kept(tenant, key, at).cloned())
    }

    fn turns(&self, tenant: &TenantId, session: &SessionId) -> BoxFuture<'_, Result<Vec<TurnRecord>, StoreError>> {
        self.read(|state| state.turns(tenant, session))
    }

    fn turns_below(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<TurnRecord>, StoreError>> {
        self.read(|state| state.turns_below(tenant, session, below, limit))
    }

    fn outlines_below(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<TurnOutline>, StoreError>> {
        self.read(|state| state.turns_below(tenant, session, below, limit).into_iter().map(TurnOutline::from).collect())
    }

    fn queued(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<TurnRecord>, StoreError>> {
        self.read(|state| {
            let mut turns = state.turns(tenant, session);
            turns.retain(|turn| turn.status == TurnStatus::Queued);
            turns.truncate(limit);
            turns
        })
    }

    fn message_count(&self, tenant: &TenantId, session: &SessionId) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.read(|state| state.message_count(tenant, session))
    }

    fn history_bytes(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.read(|state| {
            let turns = state.turns_below(tenant, session, below, limit);
            turns.iter().filter_map(|turn| Some(serde_json::to_string(&turn.messages).ok()?.len() as u64)).sum()
        })
    }

    fn queued_of_tenant(&self, tenant: &TenantId) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.read(|state| state.queued_of_tenant(tenant))
    }

    fn due(&self, limit: usize) -> BoxFuture<'_, Result<Vec<DueTurn>, StoreError>> {
        self.read(|state| state.due(limit))
    }

    fn stalled(&self, limit: usize) -> BoxFuture<'_, Result<Vec<(TenantId, SessionId)>, StoreError>> {
        self.read(|state| state.stalled(limit))
    }

    fn record(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        id: &str,
    ) -> BoxFuture<'_, Result<Option<RecordRow>, StoreError>> {
        self.read(|state| state.record(tenant, kind, id))
    }

    fn records(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        filter: &RecordFilter,
        below: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RecordRow>, StoreError>> {
        self.read(|state| state.records(tenant, kind, filter, below, limit))
    }

    fn blob(
        &self,
        tenant: &TenantId,
        kind: RecordKind,
        id: &str,
        part: u32,
    ) -> BoxFuture<'_, Result<Option<Bytes>, StoreError>> {
        self.read(|state| state.blob(tenant, kind, id, part))
    }

    fn old_logs(&self, before: Timestamp, level: u8, limit: usize) -> BoxFuture<'_, Result<Vec<TurnId>, StoreError>> {
        self.read(|state| state.old_logs(before, level, limit))
    }

    fn old_records(
        &self,
        kind: RecordKind,
        state: &str,
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RecordRow>, StoreError>> {
        self.read(|kept| kept.old_records(kind, state, before, limit))
    }

    fn records_of_all(
        &self,
        kind: RecordKind,
        state: &str,
        above: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<RecordRow>, StoreError>> {
        self.read(|kept| kept.records_of_all(kind, state, above, limit))
    }

    fn usage(
        &self,
        tenant: &TenantId,
        days: (Day, Day),
        after: Option<&UsageSlot>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<UsageRow>, StoreError>> {
        self.read(|state| state.usage_page(tenant, days, after, limit))
    }

    fn used_on(&self, tenant: &TenantId, day: Day, key: Option<&KeyId>) -> BoxFuture<'_, Result<Usage, StoreError>> {
        self.read(|state| state.used_on(tenant, day, key))
    }

    fn stored_bytes(&self, tenant: &TenantId) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.read(|state| state.stored_bytes(tenant))
    }

    fn idle_sessions(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<(TenantId, SessionId)>, StoreError>> {
        self.read(|state| state.idle_sessions(before, limit))
    }

    fn turn(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        turn: &TurnId,
    ) -> BoxFuture<'_, Result<Option<TurnRecord>, StoreError>> {
        self.read(|state| state.turns(tenant, session).into_iter().find(|record| record.id == *turn))
    }

    fn read(&self, turn: &TurnId, seq: u64, max_bytes: usize) -> BoxFuture<'_, Result<Vec<Segment>, StoreError>> {
        match self.inner.switches.check(turn) {
            Ok(()) => self.read(|state| state.read(turn, seq, max_bytes)),
            Err(damaged) => std::future::ready(Err(damaged)).boxed(),
        }
    }
}
