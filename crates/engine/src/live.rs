//! The turns that this process runs.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use everturn_core::{CancelReason, SessionId, TenantId, TurnId};
use tokio::sync::watch;

use crate::tail::Tail;

/// Why work on a turn must stop now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// It ends.
    Cancel(CancelReason),
    /// This process ends; the turn goes on elsewhere or later.
    Halt,
    /// A fault of ours: it fails.
    Fault,
}

/// A turn that this process runs, as others see it.
#[derive(Debug)]
pub(crate) struct LiveTurn {
    tenant: TenantId,
    session: SessionId,
    pub(crate) tail: Arc<Tail>,
    interrupt: watch::Sender<Option<Interrupt>>,
}

impl LiveTurn {
    pub(crate) fn new(tenant: TenantId, session: SessionId, tail: Arc<Tail>) -> Self {
        Self { tenant, session, tail, interrupt: watch::Sender::new(None) }
    }

    /// Asks for an end. The first word counts.
    pub(crate) fn interrupt(&self, interrupt: Interrupt) {
        self.interrupt.send_if_modified(|current| {
            let first = current.is_none();
            if first {
                *current = Some(interrupt);
            }
            first
        });
    }

    /// Waits until somebody asks for an end.
    pub(crate) async fn interrupted(&self) -> Interrupt {
        let mut receiver = self.interrupt.subscribe();
        loop {
            if let Some(interrupt) = *receiver.borrow_and_update() {
                return interrupt;
            }
            // The sender is ours: this cannot fail.
            let _ = receiver.changed().await;
        }
    }
}

/// The turns that this process runs, by name.
#[derive(Debug, Default)]
pub(crate) struct LiveTurns(Mutex<HashMap<TurnId, Arc<LiveTurn>>>);

impl LiveTurns {
    fn lock(&self) -> MutexGuard<'_, HashMap<TurnId, Arc<LiveTurn>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, turn: TurnId, live: Arc<LiveTurn>) {
        self.lock().insert(turn, live);
    }

    /// Forgets a turn, unless another leg of it is live by now.
    pub(crate) fn remove(&self, turn: &TurnId, live: &Arc<LiveTurn>) {
        let mut turns = self.lock();
        if turns.get(turn).is_some_and(|current| Arc::ptr_eq(current, live)) {
            turns.remove(turn);
        }
    }

    pub(crate) fn get(&self, turn: &TurnId) -> Option<Arc<LiveTurn>> {
        self.lock().get(turn).cloned()
    }

    pub(crate) fn of_session(&self, tenant: &TenantId, session: &SessionId) -> Option<Arc<LiveTurn>> {
        self.lock().values().find(|live| live.session == *session && live.tenant == *tenant).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<LiveTurn>> {
        self.lock().values().cloned().collect()
    }
}
