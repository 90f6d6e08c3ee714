//! The sessions that have queued turns, as far as this process knows, and the turns that are first in them: so that the end
//! of a turn need not ask the store what comes next.
//!
//! What is known here may be wrong. The store judges each command that is made of it, and says no where it is.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use everturn_core::{KeyId, Message, ModelOptions, SessionId, Size, TenantId, TurnId};
use everturn_store::TurnRecord;

/// How many bytes of queued messages are kept in memory, those of all sessions together. The others are read from the store
/// when their time has come.
const MOST_BYTES: u64 = 8 << 20;

type Name = (TenantId, SessionId);

#[derive(Debug, Default)]
pub(crate) struct Queues {
    known: Mutex<Known>,
    /// Those that were found without anybody working on them, and are being worked on now.
    taken_over: Mutex<HashSet<Name>>,
    /// Of the messages that are kept.
    bytes: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Known {
    queues: HashMap<Name, Queue>,
    insertions: u64,
}

/// A queue.
#[derive(Debug, Default)]
struct Queue {
    /// The number of its last insertion.
    insertion: u64,
    turns: VecDeque<Entry>,
}

#[derive(Debug)]
enum Entry {
    /// Turns of which nothing is known, if there are any.
    Unknown,
    Known(TurnId, Option<Arc<QueuedTurn>>),
}

impl Entry {
    fn is(&self, turn: &TurnId) -> bool {
        matches!(self, Self::Known(name, _) if name == turn)
    }
}

/// A turn that is queued.
#[derive(Debug)]
pub(crate) struct QueuedTurn {
    pub(crate) turn: TurnId,
    pub(crate) input: Vec<Message>,
    pub(crate) begins_history: bool,
    pub(crate) by: Option<KeyId>,
    pub(crate) options: ModelOptions,
    room: Option<Room>,
}

/// The room that a turn takes. Given back when it is dropped.
#[derive(Debug)]
struct Room {
    total: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

impl From<TurnRecord> for QueuedTurn {
    fn from(record: TurnRecord) -> Self {
        let TurnRecord { id: turn, messages: input, begins_history, by, options, .. } = record;
        Self { turn, input, begins_history, by, options, room: None }
    }
}

impl QueuedTurn {
    pub(crate) fn new(
        turn: TurnId,
        input: Vec<Message>,
        begins_history: bool,
        by: Option<KeyId>,
        options: ModelOptions,
    ) -> Self {
        Self { turn, input, begins_history, by, options, room: None }
    }
}

impl Queues {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_taken_over(&self) -> MutexGuard<'_, HashSet<Name>> {
        self.taken_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody has taken this queue over already.
    pub(crate) fn take_over(&self, queue: &Name) -> bool {
        self.lock_taken_over().insert(queue.clone())
    }

    pub(crate) fn leave(&self, queue: &Name) {
        self.lock_taken_over().remove(queue);
    }

    /// Says that a session has queued turns.
    pub(crate) fn insert(&self, tenant: &TenantId, session: &SessionId) {
        let queue = || Queue { insertion: 0, turns: [Entry::Unknown].into() };
        self.lock().inserted(tenant, session, queue);
    }

    /// Says that a turn is about to join a session's queue, after all that have joined before.
    pub(crate) fn join(&self, tenant: &TenantId, session: &SessionId, turn: QueuedTurn) {
        let entry = self.entry(turn);
        self.lock().inserted(tenant, session, Queue::default).turns.push_back(entry);
    }

    fn entry(&self, mut turn: QueuedTurn) -> Entry {
        let bytes = size_of::<QueuedTurn>() as u64 + Size::of(&turn.input).memory;
        let name = turn.turn.clone();
        let total = self.bytes.fetch_add(bytes, Ordering::AcqRel) + bytes;
        turn.room = Some(Room { total: Arc::clone(&self.bytes), bytes });
        Entry::Known(name, (total <= MOST_BYTES).then(|| Arc::new(turn)))
    }

    /// Says that a turn is in its session's queue no more, or never was.
    pub(crate) fn left(&self, tenant: &TenantId, session: &SessionId, turn: &TurnId) {
        if let Some(queue) = self.lock().queues.get_mut(&(tenant.clone(), session.clone())) {
            queue.turns.retain(|entry| !entry.is(turn));
        }
    }

    /// Says that the first turn is not what was thought.
    pub(crate) fn doubt(&self, tenant: &TenantId, session: &SessionId) {
        if let Some(queue) = self.lock().queues.get_mut(&(tenant.clone(), session.clone()))
            && !matches!(queue.turns.front(), Some(Entry::Unknown))
        {
            queue.turns.push_front(Entry::Unknown);
        }
    }

    /// The store has said which turns are first in a queue, and whether that is all of it. Those that are about to join come
    /// after them.
    pub(crate) fn learn(&self, tenant: &TenantId, session: &SessionId, first: Vec<TurnRecord>, is_all: bool) {
        let first: VecDeque<Entry> = first.into_iter().map(|turn| self.entry(turn.into())).collect();
        let mut known = self.lock();
        let Some(queue) = known.queues.get_mut(&(tenant.clone(), session.clone())) else { return };
        let mut later = std::mem::replace(&mut queue.turns, first);
        let is_last =
            |entry: &Entry| matches!((entry, queue.turns.back()), (Entry::Known(turn, _), Some(last)) if last.is(turn));
        match later.iter().rposition(is_last) {
            // What comes after it is known.
            Some(last) => drop(later.drain(..=last)),
            None => {
                later.retain(|entry| match entry {
                    Entry::Known(turn, _) => !queue.turns.iter().any(|first| first.is(turn)),
                    Entry::Unknown => false,
                });
                if !is_all {
                    queue.turns.push_back(Entry::Unknown);
                }
            }
        }
        queue.turns.append(&mut later);
    }

    /// Whether a turn is in a session's queue, as far as that is known.
    pub(crate) fn has(&self, tenant: &TenantId, session: &SessionId, turn: &TurnId) -> bool {
        let known = self.lock();
        let queue = known.queues.get(&(tenant.clone(), session.clone()));
        queue.is_some_and(|queue| queue.turns.iter().any(|entry| entry.is(turn)))
    }

    /// How many turns a session's queue has; `None` if not all of them are known.
    pub(crate) fn count(&self, tenant: &TenantId, session: &SessionId) -> Option<u64> {
        let known = self.lock();
        let Some(queue) = known.queues.get(&(tenant.clone(), session.clone())) else { return Some(0) };
        let is_known = queue.turns.iter().all(|entry| matches!(entry, Entry::Known(..)));
        is_known.then_some(queue.turns.len() as u64)
    }

    /// The turn that is next in a session's queue, as far as that is known.
    pub(crate) fn next(&self, tenant: &TenantId, session: &SessionId) -> Option<Arc<QueuedTurn>> {
        let known = self.lock();
        if known.queues.is_empty() {
            return None;
        }
        match known.queues.get(&(tenant.clone(), session.clone()))?.turns.front()? {
            Entry::Known(_, turn) => turn.clone(),
            Entry::Unknown => None,
        }
    }

    pub(crate) fn contains(&self, tenant: &TenantId, session: &SessionId) -> bool {
        self.insertion(tenant, session).is_some()
    }

    /// The number of a queue's last insertion, if it is known.
    pub(crate) fn insertion(&self, tenant: &TenantId, session: &SessionId) -> Option<u64> {
        let known = self.lock();
        // Most of the time there is none, and no name need be copied to find that out.
        if known.queues.is_empty() {
            return None;
        }
        known.queues.get(&(tenant.clone(), session.clone())).map(|queue| queue.insertion)
    }

    /// Forgets a queue that was found empty, unless something was added to it since `insertion`.
    pub(crate) fn remove(&self, tenant: &TenantId, session: &SessionId, insertion: Option<u64>) {
        let mut known = self.lock();
        let name = (tenant.clone(), session.clone());
        if known.queues.get(&name).map(|queue| queue.insertion) == insertion {
            known.queues.remove(&name);
        }
    }

    /// Forgets the queue of a session that is gone.
    pub(crate) fn forget(&self, tenant: &TenantId, session: &SessionId) {
        self.lock().queues.remove(&(tenant.clone(), session.clone()));
    }
}

impl Known {
    fn inserted(&mut self, tenant: &TenantId, session: &SessionId, new: impl FnOnce() -> Queue) -> &mut Queue {
        self.insertions += 1;
        let queue = self.queues.entry((tenant.clone(), session.clone())).or_insert_with(new);
        queue.insertion = self.insertions;
        queue
    }
}

#[cfg(test)]
mod tests {
    use everturn_store::TurnStatus;

    use super::*;

    fn turn(name: &str) -> TurnId {
        TurnId::try_from(format!("turn_{name}")).unwrap()
    }

    fn queued(name: &str, bytes: usize) -> QueuedTurn {
        QueuedTurn::new(turn(name), vec![Message::user("x".repeat(bytes))], false, None, ModelOptions::default())
    }

    fn stored(name: &str) -> TurnRecord {
        TurnRecord {
            id: turn(name),
            ordinal: 1,
            status: TurnStatus::Queued,
            head: 0,
            begins_history: false,
            by: None,
            options: ModelOptions::default(),
            messages: Vec::new(),
            usage: everturn_core::Usage::default(),
            compaction: None,
            created_at: everturn_core::Timestamp(0),
            rested_at: None,
        }
    }

    fn place() -> Name {
        ("acme".parse().unwrap(), SessionId::mint())
    }

    /// Takes what is known from the front.
    fn known(queues: &Queues, (tenant, session): &Name) -> Vec<TurnId> {
        let mut turns = Vec::new();
        while let Some(next) = queues.next(tenant, session) {
            queues.left(tenant, session, &next.turn);
            turns.push(next.turn.clone());
        }
        turns
    }

    fn names(names: &[&str]) -> Vec<TurnId> {
        names.iter().map(|name| turn(name)).collect()
    }

    #[test]
    fn turns_are_known_in_the_order_in_which_they_join() {
        let (queues, place) = (Queues::default(), place());
        let (tenant, session) = &place;
        for name in ["a", "b", "c"] {
            queues.join(tenant, session, queued(name, 1));
        }
        assert_eq!(queues.count(tenant, session), Some(3));
        queues.left(tenant, session, &turn("b"));
        assert!(queues.has(tenant, session, &turn("c")) && !queues.has(tenant, session, &turn("b")));
        assert!(!queues.has(&"globex".parse().unwrap(), session, &turn("c")), "another tenant's");
        assert_eq!(known(&queues, &place), names(&["a", "c"]));
        queues.forget(tenant, session);
        assert_eq!((queues.count(tenant, session), queues.contains(tenant, session)), (Some(0), false));
    }

    #[test]
    fn what_the_store_says_is_put_together_with_what_joins() {
        let (queues, place) = (Queues::default(), place());
        let (tenant, session) = &place;
        // Some were queued before the process was started.
        queues.insert(tenant, session);
        queues.join(tenant, session, queued("d", 1));
        assert!(queues.next(tenant, session).is_none() && queues.count(tenant, session).is_none());
        // It cannot be told what is between these and the one that has joined.
        queues.learn(tenant, session, vec![stored("a"), stored("b")], false);
        assert_eq!(known(&queues, &place), names(&["a", "b"]));
        queues.learn(tenant, session, vec![stored("c"), stored("d")], false);
        queues.join(tenant, session, queued("e", 1));
        assert_eq!(queues.count(tenant, session), Some(3));
        // Another turn than the one that was thought to be first.
        queues.doubt(tenant, session);
        assert!(queues.next(tenant, session).is_none());
        queues.learn(tenant, session, vec![stored("d")], true);
        assert_eq!(known(&queues, &place), names(&["d", "e"]));
    }

    #[test]
    fn a_long_message_is_left_to_the_store() {
        let (queues, place) = (Queues::default(), place());
        let (tenant, session) = &place;
        let half = usize::try_from(MOST_BYTES / 2).unwrap();
        queues.join(tenant, session, queued("a", half));
        queues.join(tenant, session, queued("b", half));
        assert_eq!(known(&queues, &place), names(&["a"]));
        assert!(queues.has(tenant, session, &turn("b")), "it is known to be there");
        queues.left(tenant, session, &turn("b"));
        assert_eq!(queues.bytes.load(Ordering::Acquire), 0, "all of the room is given back");
        queues.join(tenant, session, queued("c", half));
        assert_eq!(known(&queues, &place), names(&["c"]));
    }
}
