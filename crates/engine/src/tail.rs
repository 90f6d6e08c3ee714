//! The recent events of a live turn, shared by all its readers.
//!
//! Readers hold a cursor, not a queue. Each segment is encoded once per projection. What falls out of the ring is in
//! the store.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use everturn_core::{CorruptSegment, Segment};
use tokio::sync::watch;

use crate::projection::{Conversations, Projected, Projection, TurnView};

/// How far a turn's durable log reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Seq of the last durable event.
    pub(crate) seq: u64,
    /// Whether this process will add more.
    pub(crate) open: bool,
}

#[derive(Debug)]
pub(crate) struct Tail {
    ring: Mutex<Ring>,
    head: watch::Sender<Head>,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct Ring {
    segments: VecDeque<Arc<TailSegment>>,
    bytes: usize,
}

/// Whether the ring has what a reader wants.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// The segment with the event after the cursor.
    Found(Arc<TailSegment>),
    /// No longer, or not in this process: ask the store.
    Behind,
    /// Not yet.
    Nothing,
}

impl Tail {
    /// The tail of a turn whose log ends at `seq`.
    pub(crate) fn new(seq: u64, max_bytes: usize) -> Self {
        let head = watch::Sender::new(Head { seq, open: true });
        Self { ring: Mutex::default(), head, max_bytes }
    }

    /// Shows a durable segment to everybody.
    pub(crate) fn publish(&self, segment: Segment) {
        let seq = segment.last_seq();
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.bytes += segment.bytes().len();
        ring.segments.push_back(Arc::new(TailSegment { segment, projected: Mutex::default() }));
        while ring.bytes > self.max_bytes && ring.segments.len() > 1 {
            if let Some(oldest) = ring.segments.pop_front() {
                ring.bytes -= oldest.segment.bytes().len();
            }
        }
        drop(ring);
        self.head.send_modify(|head| head.seq = seq);
    }

    /// Forgets the recent events, which the store has.
    pub(crate) fn clear(&self) {
        *self.ring.lock().unwrap_or_else(PoisonError::into_inner) = Ring::default();
    }

    /// Says that the durable log reaches at least this far, whoever wrote it.
    pub(crate) fn reach(&self, seq: u64) {
        self.head.send_if_modified(|head| {
            let further = head.seq < seq;
            head.seq = head.seq.max(seq);
            further
        });
    }

    /// Says that this process adds nothing more.
    pub(crate) fn close(&self) {
        self.head.send_modify(|head| head.open = false);
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Head> {
        self.head.subscribe()
    }

    pub(crate) fn head(&self) -> Head {
        *self.head.borrow()
    }

    pub(crate) fn after(&self, seq: u64) -> Lookup {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let index = ring.segments.partition_point(|entry| entry.segment.last_seq() <= seq);
        match ring.segments.get(index) {
            Some(entry) if entry.segment.first_seq() <= seq + 1 => Lookup::Found(Arc::clone(entry)),
            Some(_) => Lookup::Behind,
            None if self.head().seq > seq => Lookup::Behind,
            None => Lookup::Nothing,
        }
    }

    /// The first segment with an event after `seq`, whatever lies between.
    pub(crate) fn skip_to(&self, seq: u64) -> Option<Arc<TailSegment>> {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.segments.iter().find(|entry| entry.segment.last_seq() > seq).cloned()
    }
}

/// A segment in the ring, with what projections made of it.
#[derive(Debug)]
pub(crate) struct TailSegment {
    pub(crate) segment: Segment,
    projected: Mutex<Vec<(&'static str, Arc<Projected>)>>,
}

impl TailSegment {
    /// As this projection shows it. The work is done by whoever asks first; the others wait for it.
    ///
    /// The view is that of a reader who stands after `seq`. Where that matters and is within the segment, what is made is
    /// this reader's alone.
    pub(crate) fn project(
        &self,
        projection: &dyn Projection,
        view: &TurnView,
        conversations: &Conversations,
        seq: u64,
    ) -> Result<Arc<Projected>, CorruptSegment> {
        let mut cache = self.projected.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, projected)) = cache.iter().find(|(name, _)| *name == projection.name()) {
            return Ok(Arc::clone(projected));
        }
        let (mut view, whole) = (view.clone(), !projection.stands() || self.segment.first_seq() == seq + 1);
        let after = if whole { 0 } else { seq };
        let projected = Arc::new(Projected::new(projection, &mut view, conversations, &self.segment, after)?);
        if whole {
            cache.push((projection.name(), Arc::clone(&projected)));
        }
        Ok(projected)
    }

    /// Whether the work is done.
    pub(crate) fn is_projected(&self, projection: &dyn Projection) -> bool {
        let cache = self.projected.lock().unwrap_or_else(PoisonError::into_inner);
        cache.iter().any(|(name, _)| *name == projection.name())
    }
}
