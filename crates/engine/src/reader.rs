//! Readers of a turn: from any point, at their own pace, without a gap.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use everturn_core::{CorruptSegment, Event, Place, RawEvent, Said, Segment, Standing, TenantId};
use everturn_store::StoreError;

use crate::{
    MemoryExhausted, conversation,
    follower::{Follower, Found},
    metrics::ReaderGuard,
    projection::{Conversations, Cursor, Flow, Projection, Shown, TurnView, show},
    tail::TailSegment,
};

/// How much a reader behind the tail is given at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// Why a reader cannot go on. The turn itself is not affected.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log cannot be decoded.
    #[error(transparent)]
    Corrupt(#[from] CorruptSegment),
    /// What was to be read takes more memory than there is for it.
    #[error(transparent)]
    Memory(#[from] MemoryExhausted),
}

/// Reads one turn as one projection shows it.
///
/// Holds a cursor and nothing else: a slow reader costs no more memory than a fast one, and slows nobody.
pub struct TurnReader {
    follower: Follower,
    tenant: TenantId,
    view: TurnView,
    /// Whether the view stands where the cursor is, for projections that look at that.
    stands: bool,
    projection: &'static dyn Projection,
    /// Read from the store and not shown yet.
    backlog: VecDeque<Segment>,
    /// What the backlog shows of conversations.
    conversations: Conversations,
    /// How far the first of them has been shown.
    place: Place,
    cursor: Cursor,
    state: Reading,
    _counted: ReaderGuard,
}

/// Whether a reader goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    On,
    /// Up to a rest of the turn, which may have gone on since.
    Paused,
    Ended,
}

impl std::fmt::Debug for TurnReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnReader").field("view", &self.view).field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

impl TurnReader {
    pub(crate) fn new(
        follower: Follower,
        tenant: TenantId,
        view: TurnView,
        projection: &'static dyn Projection,
        cursor: Cursor,
        counted: ReaderGuard,
    ) -> Self {
        Self {
            follower,
            tenant,
            view,
            stands: !projection.stands() || cursor == Cursor::default(),
            projection,
            backlog: VecDeque::new(),
            conversations: Vec::new(),
            place: Place::default(),
            cursor,
            state: Reading::On,
            _counted: counted,
        }
    }

    /// The turn that it reads.
    pub fn view(&self) -> &TurnView {
        &self.view
    }

    /// What its stream begins with.
    pub fn opening(&self) -> Bytes {
        Bytes::from_static(self.projection.opening())
    }

    /// What keeps its stream open while there is nothing to show.
    pub fn heartbeat(&self) -> Bytes {
        self.projection.heartbeat(self.cursor)
    }

    /// The next frames, as soon as there are any; never empty. `None` once the projection has ended the stream, or
    /// nothing more will come from this process. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ReadError> {
        loop {
            match self.state {
                Reading::Ended => return Ok(None),
                Reading::Paused if !self.follower.has_more(self.cursor.seq).await? => break,
                Reading::Paused | Reading::On => self.state = Reading::On,
            }
            let Some(shown) = self.shown().await? else { break };
            self.cursor = shown.cursor;
            self.state = match shown.flow {
                Flow::Continue => Reading::On,
                Flow::Pause => Reading::Paused,
                Flow::Close => Reading::Ended,
            };
            if !shown.bytes.is_empty() {
                return Ok(Some(shown.bytes));
            }
        }
        self.state = Reading::Ended;
        Ok(None)
    }

    /// Whether nothing more will come.
    pub fn has_ended(&self) -> bool {
        self.state == Reading::Ended
    }

    /// The conversation as far as this reader has seen it.
    pub async fn conversation(&self) -> Result<Arc<[Said]>, ReadError> {
        self.conversation_as_of(self.cursor.seq).await
    }

    async fn conversation_as_of(&self, seq: u64) -> Result<Arc<[Said]>, ReadError> {
        let TurnView { session, turn, .. } = &self.view;
        conversation::as_of(&self.follower.store, &self.follower, &self.tenant, session, turn, seq).await
    }

    /// The conversations that the projection wants to show with the events of segments after the cursor.
    async fn conversations_in(&self, segments: &[Segment]) -> Result<Conversations, ReadError> {
        let mut conversations = Vec::new();
        if !self.projection.stands() {
            return Ok(conversations);
        }
        for event in segments.iter().flat_map(Segment::events) {
            let event = event?;
            if event.last_seq >= self.cursor.seq && self.projection.shows_conversation(&event) {
                conversations.push((event.seq, self.conversation_as_of(event.seq).await?));
            }
        }
        Ok(conversations)
    }

    /// Makes the view stand where the cursor is: before an event of which some frames were seen, else after it.
    async fn stand(&mut self) -> Result<(), ReadError> {
        let Cursor { seq, part } = self.cursor;
        let mut standing = Standing::default();
        let last = if part > 0 { seq.saturating_sub(1) } else { seq };
        self.follower.each_until(last, |event| standing.apply(event)).await?;
        self.view.standing = standing;
        self.stands = true;
        Ok(())
    }

    async fn shown(&mut self) -> Result<Option<Shown>, ReadError> {
        // What few readers need is kept out of the state that each of them holds while it waits.
        if !self.stands {
            Box::pin(self.stand()).await?;
        }
        if self.cursor.part > 0 {
            return Box::pin(self.rest_of_event()).await.map(Some);
        }
        let seq = self.cursor.seq;
        if self.backlog.is_empty() {
            match self.follower.after(seq).await? {
                None => return Ok(None),
                Some(Found::Recent(entry)) if !self.projection.stands() => {
                    return Ok(Some(entry.project(self.projection, &self.view, &Vec::new(), seq)?.after(seq)));
                }
                Some(Found::Recent(entry)) => return Box::pin(self.recent(&entry)).await.map(Some),
                Some(Found::Stored(segments)) => {
                    if self.projection.stands() {
                        self.conversations = Box::pin(self.conversations_in(&segments)).await?;
                    }
                    self.backlog = segments.into();
                }
            }
        }
        self.next_of_backlog().map(Some)
    }

    /// The next part of what is shared with other readers, for a projection that stands.
    async fn recent(&mut self, entry: &TailSegment) -> Result<Shown, ReadError> {
        let (projection, seq) = (self.projection, self.cursor.seq);
        let known = entry.is_projected(projection);
        let segments = if known { &[] } else { std::slice::from_ref(&entry.segment) };
        let conversations = self.conversations_in(segments).await?;
        let shown = entry.project(projection, &self.view, &conversations, seq)?.after(seq);
        for event in entry.segment.events() {
            let event = event?;
            if event.last_seq > seq && event.last_seq <= shown.cursor.seq {
                self.view.standing.apply(&event)?;
            }
        }
        Ok(shown)
    }

    /// The next part of what was read from the store: a bounded one, since it is this reader's alone.
    fn next_of_backlog(&mut self) -> Result<Shown, ReadError> {
        let mut out = Vec::with_capacity(CHUNK_BYTES * 5 / 4);
        let mut shown = Shown { bytes: Bytes::new(), cursor: self.cursor, flow: Flow::Continue };
        while let Some(segment) = self.backlog.front() {
            let mut events = segment.events_from(self.place);
            while let Some(event) = events.next() {
                let event: RawEvent<'_> = event?;
                // Of what retention dropped, the cursor may be in the middle: the rest of it is still to be told.
                if event.last_seq > shown.cursor.seq {
                    shown.flow = show(self.projection, &mut self.view, &self.conversations, &event, &mut out, 0)?;
                    shown.cursor = Cursor::after(event.last_seq);
                }
                if out.len() >= CHUNK_BYTES || shown.flow != Flow::Continue {
                    shown.bytes = out.into();
                    self.place = events.place();
                    return Ok(shown);
                }
            }
            self.place = Place::default();
            self.backlog.pop_front();
        }
        shown.bytes = out.into();
        Ok(shown)
    }

    /// A cursor within an event: its other frames, which only a look at the event itself can give.
    async fn rest_of_event(&mut self) -> Result<Shown, ReadError> {
        let Cursor { seq, part } = self.cursor;
        let mut shown = Shown { bytes: Bytes::new(), cursor: Cursor::after(seq), flow: Flow::Continue };
        let Some(segment) = self.follower.segment_of(seq).await? else { return Ok(shown) };
        let conversations = self.conversations_in(std::slice::from_ref(&segment)).await?;
        for event in segment.events() {
            let event: RawEvent<'_> = event?;
            if event.last_seq == seq {
                let mut out = Vec::new();
                let flow = show(self.projection, &mut self.view, &conversations, &event, &mut out, part)?;
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
        self.each_raw(|raw, event| take(raw.seq, event)).await
    }

    /// As [`Self::each`], with what else is stored of each event.
    pub(crate) async fn each_raw(
        &mut self,
        mut take: impl FnMut(&RawEvent<'_>, Event) -> Flow,
    ) -> Result<bool, ReadError> {
        while let Some(found) = self.follower.after(self.seq).await? {
            let segments = match found {
                Found::Recent(entry) => vec![entry.segment.clone()],
                Found::Stored(segments) => segments,
            };
            for segment in segments {
                for event in segment.events() {
                    let event = event?;
                    if event.seq > self.seq {
                        self.seq = event.last_seq;
                        if take(&event, event.decode()?) == Flow::Close {
                            return Ok(true);
                        }
                    }
                }
            }
        }
        Ok(false)
    }
}
