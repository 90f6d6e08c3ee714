//! Readers of a turn: from any point, at their own pace, without a gap.

use std::sync::Arc;

use bytes::Bytes;
use everturn_core::{CorruptSegment, Event, RawEvent};
use everturn_store::StoreError;

use crate::{
    follower::{Follower, Found},
    metrics::ReaderGuard,
    projection::{Cursor, Flow, Frames, Projected, Projection, Shown, TurnView},
};

/// Why a reader cannot go on. The turn itself is not affected.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log cannot be decoded.
    #[error(transparent)]
    Corrupt(#[from] CorruptSegment),
}

/// Reads one turn as one projection shows it.
///
/// Holds a cursor and nothing else: a slow reader costs no more memory than a fast one, and slows nobody.
pub struct TurnReader {
    follower: Follower,
    view: Arc<TurnView>,
    projection: &'static dyn Projection,
    cursor: Cursor,
    ended: bool,
    _counted: ReaderGuard,
}

impl std::fmt::Debug for TurnReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnReader").field("view", &self.view).field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

impl TurnReader {
    pub(crate) fn new(
        follower: Follower,
        view: Arc<TurnView>,
        projection: &'static dyn Projection,
        cursor: Cursor,
        counted: ReaderGuard,
    ) -> Self {
        Self { follower, view, projection, cursor, ended: false, _counted: counted }
    }

    /// The turn that it reads.
    pub fn view(&self) -> &TurnView {
        &self.view
    }

    /// The next frames, as soon as there are any; never empty. `None` once the projection has ended the stream, or
    /// nothing more will come from this process. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ReadError> {
        while !self.ended {
            let Some(shown) = self.shown().await? else { break };
            self.cursor = shown.cursor;
            self.ended = shown.flow == Flow::Close;
            if !shown.bytes.is_empty() {
                return Ok(Some(shown.bytes));
            }
        }
        self.ended = true;
        Ok(None)
    }

    async fn shown(&mut self) -> Result<Option<Shown>, ReadError> {
        if self.cursor.part > 0 {
            return self.rest_of_event().await.map(Some);
        }
        let seq = self.cursor.seq;
        Ok(match self.follower.after(seq).await? {
            None => None,
            Some(Found::Recent(entry)) => Some(entry.project(self.projection, &self.view)?.after(seq)),
            Some(Found::Stored(segments)) => {
                let mut shown = Shown { bytes: Bytes::new(), cursor: self.cursor, flow: Flow::Continue };
                let mut pieces = Vec::with_capacity(segments.len());
                for segment in segments {
                    if shown.flow == Flow::Continue {
                        shown = Projected::new(self.projection, &self.view, &segment)?.after(shown.cursor.seq);
                        pieces.push(std::mem::take(&mut shown.bytes));
                    }
                }
                shown.bytes = if pieces.len() == 1 { pieces.remove(0) } else { pieces.concat().into() };
                Some(shown)
            }
        })
    }

    /// A cursor within an event: its other frames, which only a look at the event itself can give.
    async fn rest_of_event(&mut self) -> Result<Shown, ReadError> {
        let Cursor { seq, part } = self.cursor;
        let mut shown = Shown { bytes: Bytes::new(), cursor: Cursor::after(seq), flow: Flow::Continue };
        let Some(segment) = self.follower.segment_of(seq).await? else { return Ok(shown) };
        for event in segment.events() {
            let event: RawEvent<'_> = event?;
            if event.seq == seq {
                let mut out = Vec::new();
                let flow = self.projection.project(&self.view, &event, &mut Frames::new(&mut out, seq, part))?;
                // Who has seen all of an event that ends streams is past it, as with a cursor after the event.
                shown.flow = if out.is_empty() { Flow::Continue } else { flow };
                shown.bytes = out.into();
            }
        }
        Ok(shown)
    }
}

/// Gives the events of a turn after a seq, as they become durable.
pub struct EventReader {
    follower: Follower,
    seq: u64,
}

impl std::fmt::Debug for EventReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventReader").field("seq", &self.seq).finish_non_exhaustive()
    }
}

impl EventReader {
    pub(crate) fn new(follower: Follower, seq: u64) -> Self {
        Self { follower, seq }
    }

    /// Passes events to `take` until it says stop; `false` if nothing more will come from this process before it did.
    pub async fn each(&mut self, mut take: impl FnMut(u64, Event) -> Flow) -> Result<bool, ReadError> {
        while let Some(found) = self.follower.after(self.seq).await? {
            let segments = match found {
                Found::Recent(entry) => vec![entry.segment.clone()],
                Found::Stored(segments) => segments,
            };
            for segment in segments {
                for event in segment.events() {
                    let event = event?;
                    if event.seq > self.seq {
                        self.seq = event.seq;
                        if take(event.seq, event.decode()?) == Flow::Close {
                            return Ok(true);
                        }
                    }
                }
            }
        }
        Ok(false)
    }
}
