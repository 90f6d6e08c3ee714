//! The turns that this process runs, and those that rest while somebody reads them.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
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
    /// Whether this process has left it.
    done: watch::Sender<bool>,
    /// Whether it may have asked somebody something.
    asked: AtomicBool,
}

impl LiveTurn {
    pub(crate) fn new(tenant: TenantId, session: SessionId, tail: Arc<Tail>) -> Self {
        Self {
            tenant,
            session,
            tail,
            interrupt: watch::Sender::new(None),
            done: watch::Sender::new(false),
            asked: AtomicBool::new(false),
        }
    }

    /// Whether it belongs to this session.
    pub(crate) fn is_in(&self, tenant: &TenantId, session: &SessionId) -> bool {
        self.session == *session && self.tenant == *tenant
    }

    /// Says that it is about to ask somebody something, or has.
    pub(crate) fn asks(&self) {
        self.asked.store(true, Ordering::Release);
    }

    /// Whether it may have asked somebody something: in this process, or before it was taken up here.
    pub(crate) fn has_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
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

    /// Waits until this process has left the turn, for so long at most.
    pub(crate) async fn stopped(&self, patience: Duration) {
        let mut done = self.done.subscribe();
        let _ = tokio::time::timeout(patience, done.wait_for(|done| *done)).await;
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

/// A turn that rests, or has not begun, as those know it who read it meanwhile.
#[derive(Debug)]
struct Parked {
    tenant: TenantId,
    session: SessionId,
    /// Held by the readers; gone with the last of them.
    tail: Weak<Tail>,
}

/// Names of parked turns whose readers have gone are cleared away once there are this many more than readers.
const DEAD_ENTRIES: usize = 256;

#[derive(Debug, Default)]
struct Turns {
    running: HashMap<TurnId, Arc<LiveTurn>>,
    parked: HashMap<TurnId, Parked>,
    /// How many parked entries there may be before the dead ones are cleared away.
    roomy: usize,
}

impl Turns {
    fn park(&mut self, turn: &TurnId, tenant: &TenantId, session: &SessionId, tail: &Arc<Tail>) {
        if self.parked.len() >= self.roomy {
            self.parked.retain(|_, parked| parked.tail.strong_count() > 0);
            self.roomy = 2 * self.parked.len() + DEAD_ENTRIES;
        }
        let (tenant, session, tail) = (tenant.clone(), session.clone(), Arc::downgrade(tail));
        self.parked.insert(turn.clone(), Parked { tenant, session, tail });
    }
}

/// The turns that this process runs or that are being read, by name.
#[derive(Debug, Default)]
pub(crate) struct LiveTurns(Mutex<Turns>);

impl LiveTurns {
    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a turn known as running. Those who read it while it rested go on with its tail.
    pub(crate) fn start(
        &self,
        turn: &TurnId,
        tenant: &TenantId,
        session: &SessionId,
        new_tail: impl FnOnce() -> Tail,
    ) -> Arc<LiveTurn> {
        let mut turns = self.lock();
        let parked = turns.parked.remove(turn).and_then(|parked| parked.tail.upgrade());
        // The former leg may not be off the list yet, although its rest is durable.
        let former = || turns.running.get(turn).map(|live| Arc::clone(&live.tail)).filter(|tail| tail.head().open);
        let tail = parked.or_else(former).unwrap_or_else(|| Arc::new(new_tail()));
        let live = Arc::new(LiveTurn::new(tenant.clone(), session.clone(), tail));
        turns.running.insert(turn.clone(), Arc::clone(&live));
        live
    }

    /// Says that a turn does not run any more, unless another leg of it does by now. One that rests keeps its readers.
    pub(crate) fn stop(&self, turn: &TurnId, live: &Arc<LiveTurn>, rests: bool) {
        let mut turns = self.lock();
        match turns.running.get(turn) {
            Some(current) if Arc::ptr_eq(current, live) => {
                turns.running.remove(turn);
                if rests {
                    // Those who read it have seen this, or find it in the store.
                    live.tail.clear();
                    turns.park(turn, &live.tenant, &live.session, &live.tail);
                } else {
                    live.tail.close();
                }
            }
            // The next leg goes on with the same tail.
            Some(current) if Arc::ptr_eq(&current.tail, &live.tail) => {}
            Some(_) | None => live.tail.close(),
        }
        drop(turns);
        live.done.send_replace(true);
    }

    pub(crate) fn get(&self, turn: &TurnId) -> Option<Arc<LiveTurn>> {
        self.lock().running.get(turn).cloned()
    }

    /// The tail of a turn that runs, or rests and is being read.
    pub(crate) fn tail(&self, turn: &TurnId) -> Option<Arc<Tail>> {
        let turns = self.lock();
        let running = turns.running.get(turn).map(|live| Arc::clone(&live.tail));
        running.or_else(|| turns.parked.get(turn).and_then(|parked| parked.tail.upgrade()))
    }

    /// The tail of a turn that has not ended, for a reader: whoever runs it next in this process will use it.
    pub(crate) fn tail_to_come(
        &self,
        turn: &TurnId,
        tenant: &TenantId,
        session: &SessionId,
        new_tail: impl FnOnce() -> Tail,
    ) -> Arc<Tail> {
        let mut turns = self.lock();
        if let Some(live) = turns.running.get(turn) {
            return Arc::clone(&live.tail);
        }
        if let Some(tail) = turns.parked.get(turn).and_then(|parked| parked.tail.upgrade()) {
            return tail;
        }
        let tail = Arc::new(new_tail());
        turns.park(turn, tenant, session, &tail);
        tail
    }

    /// Takes a resting turn off the list, for its end.
    pub(crate) fn unpark(&self, turn: &TurnId) -> Option<Arc<Tail>> {
        let mut turns = self.lock();
        let parked = turns.parked.remove(turn).and_then(|parked| parked.tail.upgrade());
        // Its last leg may not be off the list yet, although its rest is durable; it must not be parked after its end.
        parked.or_else(|| turns.running.remove(turn).map(|live| Arc::clone(&live.tail)))
    }

    /// Takes the resting turns of a session off the list.
    pub(crate) fn unpark_session(&self, tenant: &TenantId, session: &SessionId) -> Vec<Arc<Tail>> {
        let mut turns = self.lock();
        let of_session = |parked: &Parked| parked.session == *session && parked.tenant == *tenant;
        let names: Vec<_> =
            turns.parked.iter().filter(|(_, parked)| of_session(parked)).map(|(turn, _)| turn.clone()).collect();
        names.iter().filter_map(|turn| turns.parked.remove(turn)?.tail.upgrade()).collect()
    }

    pub(crate) fn of_session(&self, tenant: &TenantId, session: &SessionId) -> Option<(TurnId, Arc<LiveTurn>)> {
        let turns = self.lock();
        let mut running = turns.running.iter();
        let found = running.find(|(_, live)| live.is_in(tenant, session));
        found.map(|(turn, live)| (turn.clone(), Arc::clone(live)))
    }

    pub(crate) fn all(&self) -> Vec<Arc<LiveTurn>> {
        self.lock().running.values().cloned().collect()
    }

    /// Ends all streams.
    pub(crate) fn close(&self) {
        let turns = self.lock();
        turns.running.values().for_each(|live| live.tail.close());
        turns.parked.values().filter_map(|parked| parked.tail.upgrade()).for_each(|tail| tail.close());
    }
}
