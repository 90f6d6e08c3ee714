//! Projections: how a dialect shows a turn's events.
//!
//! A projection is a pure function from one event, and what came before it, to frames. It keeps no state between events,
//! so a reader can begin anywhere, and what one reader was shown can be shown to all others without doing the work again.

use std::{io::Write, ops::Range, str::FromStr, sync::Arc};

use bytes::Bytes;
use everturn_core::{CorruptSegment, Event, RawEvent, Said, Segment, SessionId, Standing, TurnId};

/// What a projection may know besides the event.
#[derive(Clone, Debug)]
pub struct TurnView {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// Where the turn stands with the event. Only for projections that say [`Projection::stands`].
    pub standing: Standing,
    /// The conversation as of the event, where the projection said [`Projection::shows_conversation`].
    pub conversation: Option<Arc<[Said]>>,
}

impl TurnView {
    pub(crate) fn new(session: SessionId, turn: TurnId) -> Self {
        Self { session, turn, standing: Standing::default(), conversation: None }
    }
}

/// Whether a stream goes on after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// More may come.
    Continue,
    /// The dialect ends its stream here.
    Close,
    /// The dialect ends its stream here if the turn still rests; one that has gone on since is shown further.
    Pause,
}

/// A dialect's view of the log.
pub trait Projection: Send + Sync + 'static {
    /// Tells projections apart. Two projections with one name must show the same.
    fn name(&self) -> &'static str;

    /// How many parts of an event a cursor may name. Views that number them alike can use each other's cursors.
    fn parts(&self, event: &Event) -> u32 {
        event.parts()
    }

    /// What every stream begins with. A field such as `retry:` has no empty line after it, so that it belongs to the first
    /// event: in a block of its own, some clients take it for an event without data.
    fn opening(&self) -> &'static [u8] {
        b""
    }

    /// What keeps a silent stream open. `cursor` is where its reader stands. A comment has no empty line after it: OpenAI's
    /// Python client takes that line for an event without data, and fails.
    fn heartbeat(&self, _cursor: Cursor) -> Bytes {
        Bytes::from_static(b": keep-alive\n")
    }

    /// Whether it looks at [`TurnView::standing`], which costs its readers a look at the events before the first that they
    /// are shown.
    fn stands(&self) -> bool {
        false
    }

    /// Whether it shows the whole conversation with this event. Asked only if it [`Self::stands`].
    fn shows_conversation(&self, _event: &RawEvent<'_>) -> bool {
        false
    }

    /// Whether its streams go from one turn of a session to the next: the cursors of its frames then name the turn.
    fn is_session_wide(&self) -> bool {
        false
    }

    /// Writes the frames of one event: none, one or several.
    fn project(&self, view: &TurnView, event: &RawEvent<'_>, frames: &mut Frames<'_>) -> Result<Flow, CorruptSegment>;
}

/// Where a reader stands: it has seen everything up to and including event `seq`, or, if `part` is not zero, the first
/// `part` frames of that event and everything before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The event.
    pub seq: u64,
    /// How many of its frames, where it gives several; zero for all.
    pub part: u32,
}

impl Cursor {
    /// After all of this event.
    pub fn after(seq: u64) -> Self {
        Self { seq, part: 0 }
    }
}

/// A text that is no cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cursor is the id of a frame, such as 17 or 17.2")]
pub struct CursorError;

impl FromStr for Cursor {
    type Err = CursorError;

    /// Takes the `id:` of a frame back.
    fn from_str(text: &str) -> Result<Self, CursorError> {
        // As it was written, and no other way: `03`, `3.0` and `0.3` were never given out.
        let number =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
        let (seq, part) = match text.split_once('.') {
            Some((seq, part)) if part != "0" && seq != "0" => (seq, part),
            Some(_) => return Err(CursorError),
            None => (text, "0"),
        };
        if !number(seq) || !number(part) {
            return Err(CursorError);
        }
        Ok(Self { seq: seq.parse().map_err(|_| CursorError)?, part: part.parse().map_err(|_| CursorError)? })
    }
}

/// Takes the frames of one event.
#[derive(Debug)]
pub struct Frames<'a> {
    out: &'a mut Vec<u8>,
    /// Seq of the event; of one that stands for several, of the last of them.
    last_seq: u64,
    several: bool,
    part: u32,
    skip: u32,
    /// Named in cursors.
    turn: Option<&'a TurnId>,
}

impl<'a> Frames<'a> {
    /// Frames of the event with this seq, without the first `skip`.
    pub fn new(out: &'a mut Vec<u8>, last_seq: u64, skip: u32) -> Self {
        Self { out, last_seq, several: false, part: 0, skip, turn: None }
    }

    /// Frames of an event as a projection shows it to those who have seen the first `skip`.
    pub(crate) fn of(
        projection: &dyn Projection,
        turn: &'a TurnId,
        out: &'a mut Vec<u8>,
        last_seq: u64,
        skip: u32,
    ) -> Self {
        Self { turn: projection.is_session_wide().then_some(turn), ..Self::new(out, last_seq, skip) }
    }

    /// Says that this event gives several frames, so that each gets a cursor of its own.
    pub fn several(&mut self) {
        self.several = true;
    }

    /// Says which part of the event the next frame shows; see [`everturn_core::Event::parts`]. Without it parts are
    /// counted.
    pub fn part(&mut self, part: u32) {
        self.part = part.saturating_sub(1);
    }

    /// Writes one server-sent event. `data` writes its JSON, on one line.
    pub fn event(&mut self, name: &str, data: impl FnOnce(&mut Vec<u8>)) {
        self.frame(Some(name), data);
    }

    /// Writes one server-sent event without a name.
    pub fn unnamed(&mut self, data: impl FnOnce(&mut Vec<u8>)) {
        self.frame(None, data);
    }

    fn frame(&mut self, name: Option<&str>, data: impl FnOnce(&mut Vec<u8>)) {
        self.part += 1;
        // What another view showed in several frames may be one here: who has not seen all of it is shown it.
        if self.several && self.part <= self.skip {
            return;
        }
        if let Some(name) = name {
            self.out.extend_from_slice(b"event: ");
            self.out.extend_from_slice(name.as_bytes());
            self.out.push(b'\n');
        }
        let part = if self.several { self.part } else { 0 };
        self.out.extend_from_slice(b"id: ");
        if let Some(turn) = self.turn {
            self.out.extend_from_slice(turn.as_str().as_bytes());
            self.out.push(b':');
        }
        write_cursor(self.out, Cursor { seq: self.last_seq, part });
        self.out.extend_from_slice(b"\ndata: ");
        data(self.out);
        self.out.extend_from_slice(b"\n\n");
    }

    /// Writes one server-sent event without a name and without a cursor: who loses the stream after it is shown it again,
    /// with what comes after it.
    pub fn aside(&mut self, data: impl FnOnce(&mut Vec<u8>)) {
        self.out.extend_from_slice(b"data: ");
        data(self.out);
        self.out.extend_from_slice(b"\n\n");
    }

    /// Writes an event as [`Self::aside`] does that belongs to the next one with a cursor: a reader who has seen that one is
    /// not shown it again.
    pub fn aside_of_next(&mut self, data: impl FnOnce(&mut Vec<u8>)) {
        if !self.several || self.part >= self.skip {
            self.aside(data);
        }
    }

    /// Writes a comment, which clients skip, before the next event; see [`Projection::heartbeat`].
    pub fn comment(&mut self, text: &str) {
        self.out.extend_from_slice(b": ");
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'\n');
    }
}

/// Writes a cursor as frames carry it.
pub fn write_cursor(out: &mut Vec<u8>, cursor: Cursor) {
    // Writing to memory does not fail.
    let _ = write!(out, "{}", cursor.seq);
    if cursor.part > 0 {
        let _ = write!(out, ".{}", cursor.part);
    }
}

/// Writes a value as JSON. For types that cannot fail to serialise.
pub fn write_json(out: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    let _ = serde_json::to_writer(out, value);
}

/// A segment as one projection shows it: all frames, and where those of each event begin.
#[derive(Debug)]
pub(crate) struct Projected {
    first_seq: u64,
    bytes: Bytes,
    starts: Vec<u32>,
    /// The events that may end a stream.
    stops: Vec<(u64, Flow)>,
}

impl Projected {
    /// Shows the events after `seq`; the view stands there. Before it there is nothing.
    pub(crate) fn new(
        projection: &dyn Projection,
        view: &mut TurnView,
        conversations: &Conversations,
        segment: &Segment,
        seq: u64,
    ) -> Result<Self, CorruptSegment> {
        let mut out = Vec::with_capacity(segment.bytes().len() * 3);
        let mut starts = Vec::with_capacity(segment.count() as usize + 1);
        let mut stops = Vec::new();
        for event in segment.events() {
            let event = event?;
            (event.seq..=event.last_seq).for_each(|_| starts.push(offset(&out)));
            if event.last_seq <= seq {
                continue;
            }
            match show(projection, view, conversations, &event, &mut out, 0)? {
                Flow::Continue => {}
                flow @ (Flow::Close | Flow::Pause) => stops.push((event.seq, flow)),
            }
        }
        starts.push(offset(&out));
        Ok(Self { first_seq: segment.first_seq(), bytes: out.into(), starts, stops })
    }

    /// The frames after event `seq`, up to the one that ends the stream, and the cursor after them.
    pub(crate) fn after(&self, seq: u64) -> Shown {
        let last_seq = self.first_seq + self.starts.len() as u64 - 2;
        let stop = self.stops.iter().copied().find(|(stop, _)| *stop > seq);
        let (last, flow) = stop.unwrap_or((last_seq, Flow::Continue));
        let bytes = self.bytes.slice(self.range(seq.max(self.first_seq - 1) + 1, last));
        Shown { bytes, cursor: Cursor::after(last), flow }
    }

    fn range(&self, first: u64, last: u64) -> Range<usize> {
        let start =
            |seq: u64| self.starts.get((seq - self.first_seq) as usize).map_or(self.bytes.len(), |s| *s as usize);
        start(first)..start(last + 1)
    }
}

/// Conversations as of some events, by seq.
pub(crate) type Conversations = Vec<(u64, Arc<[Said]>)>;

/// Writes the frames of the next event, without the first `skip`. The view goes on to it.
pub(crate) fn show(
    projection: &dyn Projection,
    view: &mut TurnView,
    conversations: &Conversations,
    event: &RawEvent<'_>,
    out: &mut Vec<u8>,
    skip: u32,
) -> Result<Flow, CorruptSegment> {
    if projection.stands() {
        view.standing.apply(event)?;
        let known = conversations.iter().find(|(seq, _)| *seq == event.seq);
        view.conversation = known.map(|(_, conversation)| Arc::clone(conversation));
    }
    projection.project(view, event, &mut Frames::of(projection, &view.turn, out, event.last_seq, skip))
}

fn offset(out: &[u8]) -> u32 {
    // A segment holds a few MiB at most; see `turn_log::MAX_PENDING` and the limit on bodies.
    u32::try_from(out.len()).unwrap_or(u32::MAX)
}

/// What a reader is shown next.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) bytes: Bytes,
    pub(crate) cursor: Cursor,
    pub(crate) flow: Flow,
}
