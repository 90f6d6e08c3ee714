//! Sessions that were used lately, with what a turn needs of them: so that a turn reads what is new, and not its whole session.
//!
//! What is kept here can be read from the store at any time. An entry is used only for the turn that it was made after: a
//! session that went on elsewhere, or was cut, has another one.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use everturn_core::{SessionId, TenantId, TurnId, TurnState};
use everturn_store::TurnStatus;
use prometheus_client::metrics::gauge::Gauge;

use crate::{Reservation, earlier_history::EarlierHistory, session_head::SessionHead};

/// A session with fewer turns is read from the store at no great cost; most are never used again.
const FEWEST_TURNS: usize = 3;
/// The same of a turn that waits and has fewer events.
const FEWEST_EVENTS: u64 = 64;

/// What is kept beside the messages of a session, in bytes.
const PER_SESSION: u64 = 1024;

/// What a session's turns have left, as of the last of them.
#[derive(Clone, Debug)]
pub(crate) struct WarmSession {
    /// What the turns that have ended left.
    pub(crate) earlier: EarlierHistory,
    /// The turn that was started last. It has ended, unless it waits.
    pub(crate) last: TurnId,
    /// The last turn, if it waits; it is no part of history yet.
    pub(crate) waiting: Option<Box<WaitingTurn>>,
    /// The session since that turn rests, as far as this process knows.
    pub(crate) head: Option<Box<SessionHead>>,
}

/// A turn that waits.
#[derive(Clone, Debug)]
pub(crate) struct WaitingTurn {
    pub(crate) state: TurnState,
    /// The session's version since it waits.
    pub(crate) version: u64,
}

/// The sessions. The one that was used least lately goes first when there is no more room.
#[derive(Debug)]
pub(crate) struct WarmSessions {
    kept: Mutex<Kept>,
    /// Bytes of all of them.
    room: u64,
    /// How many of them are taken.
    taken: Gauge,
}

#[derive(Debug, Default)]
struct Kept {
    sessions: HashMap<Name, Entry>,
    /// The names of the sessions by when they were last used.
    by_use: BTreeMap<u64, Name>,
    uses: u64,
    bytes: u64,
    /// The same, as part of all memory.
    memory: Option<Reservation>,
}

type Name = (TenantId, SessionId);

#[derive(Debug)]
struct Entry {
    session: WarmSession,
    used: u64,
    bytes: u64,
}

impl WarmSessions {
    pub(crate) fn new(room: u64, taken: Gauge, memory: Reservation) -> Self {
        let kept = Kept { memory: Some(memory), ..Kept::default() };
        Self { kept: Mutex::new(kept), room, taken }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a session.
    pub(crate) fn put(&self, tenant: &TenantId, session: &SessionId, warm: WarmSession) {
        let state = warm.waiting.as_ref().map_or(0, |waiting| waiting.state.memory());
        let bytes = PER_SESSION + warm.earlier.bytes() + state;
        let name = (tenant.clone(), session.clone());
        let mut kept = self.lock();
        kept.remove(&name);
        let is_long = warm.waiting.as_ref().is_some_and(|waiting| waiting.state.head >= FEWEST_EVENTS);
        if (is_long || warm.earlier.turns() >= FEWEST_TURNS) && bytes <= self.room {
            kept.uses += 1;
            let used = kept.uses;
            kept.bytes += bytes;
            kept.by_use.insert(used, name.clone());
            kept.sessions.insert(name, Entry { session: warm, used, bytes });
            kept.make_room(self.room);
        }
        self.taken.set(kept.bytes.cast_signed());
    }

    /// What is kept of a session, if it is what the session is now. The state of a turn that waits is given away: it may be
    /// large, and the next leg leaves another one.
    pub(crate) fn take(&self, head: &SessionHead) -> Option<(EarlierHistory, Option<TurnState>)> {
        let name = (head.tenant.clone(), head.id.clone());
        let mut kept = self.lock();
        let warm = &mut kept.sessions.get_mut(&name)?.session;
        let last = head.last_turn.as_ref()?;
        let is_current = match (&warm.waiting, &last.status) {
            (None, TurnStatus::Ended(_)) => true,
            (Some(waiting), TurnStatus::Waiting(_)) => waiting.version == head.version,
            _ => false,
        };
        (is_current && warm.last == last.id)
            .then(|| (warm.earlier.clone(), warm.waiting.take().map(|waiting| waiting.state)))
    }

    /// The session as this process left it.
    pub(crate) fn head(&self, tenant: &TenantId, session: &SessionId) -> Option<SessionHead> {
        let kept = self.lock();
        kept.sessions.get(&(tenant.clone(), session.clone()))?.session.head.as_deref().cloned()
    }

    /// Asks the store the next time. What the turns left is still good if the store says that they were the last ones.
    pub(crate) fn forget_head(&self, tenant: &TenantId, session: &SessionId) {
        if let Some(entry) = self.lock().sessions.get_mut(&(tenant.clone(), session.clone())) {
            entry.session.head = None;
        }
    }

    /// Forgets a session, because its next turn runs or because it is gone.
    pub(crate) fn forget(&self, tenant: &TenantId, session: &SessionId) {
        let mut kept = self.lock();
        kept.remove(&(tenant.clone(), session.clone()));
        self.taken.set(kept.bytes.cast_signed());
    }
}

impl Kept {
    /// Requests come first: what they leave of the memory of all is for sessions that nobody may use again.
    fn make_room(&mut self, room: u64) {
        while self.bytes > room || self.memory.as_mut().is_some_and(|memory| memory.try_resize(self.bytes).is_err()) {
            let Some((_, oldest)) = self.by_use.first_key_value() else { break };
            let oldest = oldest.clone();
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, name: &Name) {
        if let Some(entry) = self.sessions.remove(name) {
            self.by_use.remove(&entry.used);
            self.bytes -= entry.bytes;
            if let Some(memory) = &mut self.memory {
                memory.shrink_to(self.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use everturn_core::{Message, Outcome, SessionConfig, Usage};
    use everturn_store::TurnSummary;

    use super::*;
    use crate::{MemoryBudget, MemoryKind, earlier_history::FinishedTurn, memory::MemoryMetrics};

    fn tenant() -> TenantId {
        TenantId::try_from("acme".to_owned()).unwrap()
    }

    fn session(name: &str) -> SessionId {
        SessionId::try_from(name.to_owned()).unwrap()
    }

    fn turn(name: &str) -> TurnId {
        TurnId::try_from(name.to_owned()).unwrap()
    }

    fn warm(turns: usize, last: &str) -> WarmSession {
        let mut earlier = EarlierHistory::default();
        for _ in 0..turns {
            let messages = vec![Message::user("x".repeat(1000))];
            let (compaction, outcome, usage) = (None, Outcome::Completed, Usage::default());
            earlier.push(FinishedTurn { messages, compaction, outcome, usage, lengths: None });
        }
        WarmSession { earlier, last: turn(last), waiting: None, head: None }
    }

    fn sessions(room: u64) -> WarmSessions {
        let memory = MemoryBudget::new(1 << 30, MemoryMetrics::default());
        WarmSessions::new(room, Gauge::default(), memory.of_cache(MemoryKind::WarmSessions))
    }

    fn record(name: &str, last: &str, status: TurnStatus) -> SessionHead {
        SessionHead {
            id: session(name),
            tenant: tenant(),
            version: 7,
            config: SessionConfig::default(),
            usage: Usage::default(),
            last_turn: Some(TurnSummary { id: turn(last), status }),
            queued: 0,
            is_remembered: false,
        }
    }

    const ENDED: TurnStatus = TurnStatus::Ended(Outcome::Completed);

    #[test]
    fn a_session_that_went_on_elsewhere_is_not_taken_for_what_it_was() {
        let sessions = sessions(1 << 20);
        sessions.put(&tenant(), &session("s"), warm(3, "turn_a"));
        assert_eq!(sessions.take(&record("s", "turn_a", ENDED)).unwrap().0.turns(), 3);
        assert!(sessions.take(&record("s", "turn_b", ENDED)).is_none());
        assert!(sessions.take(&record("s", "turn_a", TurnStatus::Running)).is_none());
        assert!(sessions.take(&record("other", "turn_a", ENDED)).is_none());
        sessions.forget(&tenant(), &session("s"));
        assert!(sessions.take(&record("s", "turn_a", ENDED)).is_none());
    }

    #[test]
    fn the_sessions_used_least_lately_make_room() {
        let sessions = sessions(20_000);
        for name in ["a", "b", "c", "d", "e", "f"] {
            sessions.put(&tenant(), &session(name), warm(3, "turn_a"));
        }
        let kept = ["a", "b", "c", "d", "e", "f"].map(|name| sessions.take(&record(name, "turn_a", ENDED)).is_some());
        assert_eq!(kept, [false, false, true, true, true, true]);
        assert!(sessions.lock().bytes <= 20_000);
        // Too large to be kept at all, and too small to be worth it.
        sessions.put(&tenant(), &session("f"), warm(30, "turn_a"));
        sessions.put(&tenant(), &session("g"), warm(2, "turn_a"));
        assert!(sessions.take(&record("f", "turn_a", ENDED)).is_none());
        assert!(sessions.take(&record("g", "turn_a", ENDED)).is_none());
    }
}
