//! Follows a turn's durable log: from the tail where it reaches, else from the store.

use std::sync::Arc;

use everturn_core::{CorruptSegment, Kind, RawEvent, Segment, TurnId};
use everturn_store::{Store, StoreError};
use tokio::sync::watch;

use crate::{
    Cursor, Projection, ReadError,
    tail::{Head, Lookup, Tail, TailSegment},
};

/// How much of the log one read from the store brings.
pub(crate) const READ_BYTES: usize = 32 * 1024;

/// Gives the segments after any seq, and waits for those to come.
pub(crate) struct Follower {
    pub(crate) store: Arc<dyn Store>,
    turn: TurnId,
    live: Option<(Arc<Tail>, watch::Receiver<Head>)>,
}

/// The next part of a log.
pub(crate) enum Found {
    /// Recent, shared with other readers.
    Recent(Arc<TailSegment>),
    /// From the store. Not empty.
    Stored(Vec<Segment>),
}

impl Follower {
    /// Follows a turn; without a tail, as far as it is stored.
    pub(crate) fn new(store: Arc<dyn Store>, turn: TurnId, tail: Option<Arc<Tail>>) -> Self {
        let live = tail.map(|tail| {
            let head = tail.watch();
            (tail, head)
        });
        Self { store, turn, live }
    }

    /// What comes after `seq`, as soon as there is something; `None` if nothing more will come from this process.
    /// Segments may begin at or before `seq`. Cancel-safe.
    pub(crate) async fn after(&mut self, seq: u64) -> Result<Option<Found>, StoreError> {
        while let Some((tail, head)) = &mut self.live {
            // Looked at before the ring, so that what is published just before a close is not missed.
            let open = head.borrow_and_update().open;
            let next = match tail.after(seq) {
                Lookup::Found(entry) => return Ok(Some(Found::Recent(entry))),
                Lookup::Nothing => None,
                Lookup::Behind => {
                    let segments = self.store.read(&self.turn, seq, READ_BYTES).await?;
                    if !segments.is_empty() {
                        if !open {
                            // All that is left is in the store: whoever lags behind an ended turn need not keep its tail.
                            self.live = None;
                        }
                        return Ok(Some(Found::Stored(segments)));
                    }
                    // The session was deleted. What is left to be told is the end.
                    tail.skip_to(seq)
                }
            };
            match next {
                Some(entry) => return Ok(Some(Found::Recent(entry))),
                None if !open => return Ok(None),
                // The sender lives in the tail, which we hold: this cannot fail.
                None => drop(head.changed().await),
            }
        }
        let segments = self.store.read(&self.turn, seq, READ_BYTES).await?;
        Ok(if segments.is_empty() { None } else { Some(Found::Stored(segments)) })
    }

    /// Whether there is anything after `seq` by now.
    pub(crate) async fn has_more(&self, seq: u64) -> Result<bool, StoreError> {
        match &self.live {
            Some((tail, _)) if tail.head().open => Ok(tail.head().seq > seq),
            Some(_) | None => Ok(!self.store.read(&self.turn, seq, 1).await?.is_empty()),
        }
    }

    /// Whether the event at a cursor has the part that the cursor names. What retention has dropped may have had it.
    pub(crate) async fn has_part(&self, projection: &dyn Projection, cursor: Cursor) -> Result<bool, ReadError> {
        let Some(segment) = self.segment_of(cursor.seq).await? else { return Ok(false) };
        for event in segment.events() {
            let event = event?;
            if event.seq == cursor.seq && event.kind != Kind::DROPPED {
                return Ok(cursor.part <= projection.parts(&event.decode()?));
            }
        }
        Ok(true)
    }

    /// Passes the durable events up to and including `last` to `take`, in order.
    pub(crate) async fn each_until(
        &self,
        last: u64,
        mut take: impl FnMut(&RawEvent<'_>) -> Result<(), CorruptSegment>,
    ) -> Result<(), ReadError> {
        let mut seen = 0;
        while seen < last {
            let segments = self.store.read(&self.turn, seen, READ_BYTES).await?;
            if segments.is_empty() {
                // The session was deleted.
                return Ok(());
            }
            for segment in segments {
                for event in segment.events() {
                    let event = event?;
                    if event.seq > last {
                        return Ok(());
                    }
                    if event.seq > seen {
                        take(&event)?;
                        seen = event.last_seq;
                    }
                }
            }
        }
        Ok(())
    }

    /// The stored segment with the event `seq`.
    pub(crate) async fn segment_of(&self, seq: u64) -> Result<Option<Segment>, StoreError> {
        let segments = self.store.read(&self.turn, seq.saturating_sub(1), 1).await?;
        Ok(segments.into_iter().find(|segment| (segment.first_seq()..=segment.last_seq()).contains(&seq)))
    }
}
