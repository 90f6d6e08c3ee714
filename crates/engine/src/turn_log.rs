//! The writing end of a live turn's log.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use everturn_core::{CancelReason, Event, Outcome, Segment, SegmentBuilder, Timestamp, TurnId, TurnState};
use everturn_store::{Receipt, Refusal, Rest, StoreError, Write};

use crate::{
    committer::{CommitError, Committer},
    next_turn::AndThen,
    tail::Tail,
};

/// How many bytes may wait for a commit before the turn pauses. Bounds segments, and with them what a reader takes at
/// once.
const MAX_PENDING: usize = 64 * 1024;

/// Takes events from the turn's owner and hands them to the committer; what is durable goes to the tail.
pub(crate) struct TurnLog {
    turn: TurnId,
    epoch: u64,
    committer: Committer,
    tail: Arc<Tail>,
    pending: Mutex<Pending>,
    /// The session's version since the turn rests; zero before.
    rest_version: AtomicU64,
}

struct Pending {
    builder: SegmentBuilder,
    rest: Option<Rest>,
    then: Option<AndThen>,
    writes: Vec<Write>,
    queued: bool,
    failure: Option<CommitError>,
}

impl TurnLog {
    /// The log of a turn that ends at `head`.
    pub(crate) fn new(turn: TurnId, epoch: u64, head: u64, committer: Committer, tail: Arc<Tail>) -> Self {
        let builder = SegmentBuilder::new(head + 1);
        let pending = Pending { builder, rest: None, then: None, writes: Vec::new(), queued: false, failure: None };
        Self { turn, epoch, committer, tail, pending: Mutex::new(pending), rest_version: AtomicU64::new(0) }
    }

    pub(crate) fn turn(&self) -> &TurnId {
        &self.turn
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends events, all of them within one commit, together with what changes beside the log, and the turn's rest if
    /// they bring it about, with what then comes in the same commit. Gives the seq of the last one and whether the turn should pause until a commit has made
    /// room.
    pub(crate) fn push(
        self: &Arc<Self>,
        events: &[Event],
        writes: Vec<Write>,
        rest: Option<(Rest, Option<AndThen>)>,
    ) -> Result<Pushed, CommitError> {
        let at = Timestamp::now();
        let mut pending = self.lock();
        if let Some(failure) = &pending.failure {
            return Err(failure.clone());
        }
        for event in events {
            pending.builder.push(at, event);
        }
        let (rest, then) = rest.unzip();
        (pending.rest, pending.then) = (rest, then.flatten());
        pending.writes.extend(writes);
        let pushed = Pushed { seq: pending.builder.next_seq() - 1, full: pending.builder.len() > MAX_PENDING };
        let enqueue = !std::mem::replace(&mut pending.queued, true);
        drop(pending);
        if enqueue {
            self.committer.enqueue(Arc::clone(self));
        }
        Ok(pushed)
    }

    /// Waits until the event with this seq is durable.
    pub(crate) async fn durable(&self, seq: u64) -> Result<(), CommitError> {
        let mut head = self.tail.watch();
        // The sender lives in the tail, which we hold.
        let reached = head.wait_for(|head| head.seq >= seq || !head.open).await.is_ok_and(|head| head.seq >= seq);
        match &self.lock().failure {
            Some(failure) => Err(failure.clone()),
            None if reached => Ok(()),
            None => Err(StoreError::Closed.into()),
        }
    }

    /// Takes what is pending, for a commit.
    pub(crate) fn take(&self) -> Option<Taken> {
        let mut pending = self.lock();
        pending.queued = false;
        if pending.builder.is_empty() {
            return None;
        }
        let (rest, writes) = (pending.rest.take(), std::mem::take(&mut pending.writes));
        Some(Taken { segment: pending.builder.take(), rest, then: pending.then.take(), writes })
    }

    /// The session's version since the turn rests.
    pub(crate) fn rest_version(&self) -> u64 {
        self.rest_version.load(Ordering::Acquire)
    }

    /// Shows what was committed.
    pub(crate) fn publish(&self, segment: Segment, receipt: Receipt) {
        self.rest_version.store(receipt.version, Ordering::Release);
        self.tail.publish(segment);
    }

    /// Says that nothing more can be appended: another owner has the turn, it is gone, or the store is broken.
    pub(crate) fn fail(&self, failure: CommitError) {
        let gone = matches!(failure, CommitError::Refused(Refusal::NotFound));
        let first = self.lock().failure.replace(failure).is_none();
        if gone && first {
            // The session was deleted under the turn. Nothing is kept of it any more, this end neither, but those who
            // read it must learn that it is over.
            self.tail.publish(deleted(self.tail.head().seq + 1));
        }
        self.tail.close();
    }
}

/// What is pending, see [`TurnLog::take`].
pub(crate) struct Taken {
    pub(crate) segment: Segment,
    pub(crate) rest: Option<Rest>,
    pub(crate) then: Option<AndThen>,
    pub(crate) writes: Vec<Write>,
}

/// The end of a turn whose session was deleted, for those who read it.
pub(crate) fn deleted(seq: u64) -> Segment {
    let mut builder = SegmentBuilder::new(seq);
    let outcome = Outcome::Cancelled { reason: CancelReason::SessionDeleted };
    builder.push(Timestamp::now(), &Event::TurnEnded(TurnState::default().ended(outcome)));
    builder.take()
}

/// See [`TurnLog::push`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pushed {
    pub(crate) seq: u64,
    pub(crate) full: bool,
}
