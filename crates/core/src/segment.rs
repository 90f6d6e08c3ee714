//! The stored form of events.
//!
//! Events are stored in segments: the events of one turn that one commit made durable. A segment is
//!
//! ```text
//! version  u8      1
//! then, for each event in order of its seq:
//! kind     varint  see `Kind`
//! time     varint  milliseconds: since the Unix epoch for the first event, since the event before for the others
//! length   varint  of the payload, in bytes
//! payload  bytes   UTF-8 text for deltas, JSON for the rest
//! ```
//!
//! Each event has the next seq, but for those of kind [`Kind::DROPPED`]: one of them stands for as many events as it
//! says, and the count of a segment counts them all.
//!
//! The seq of the first event is kept beside the bytes. Compatibility: kinds are never reused, a reader keeps events
//! of kinds that it does not know, and fields are only ever added to payloads, with a default. A layout that old
//! readers cannot take gets a new version byte.

mod forms;

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use self::forms::DroppedForm;
use crate::Timestamp;

const VERSION: u8 = 1;

/// The number under which a kind of event is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind(pub u16);

// Persisted, so they must stay as they are.
impl Kind {
    /// [`crate::Event::TurnStarted`].
    pub const TURN_STARTED: Self = Self(1);
    /// [`crate::Event::StepStarted`].
    pub const STEP_STARTED: Self = Self(2);
    /// [`crate::Event::TextDelta`].
    pub const TEXT_DELTA: Self = Self(3);
    /// [`crate::Event::ThinkingDelta`].
    pub const THINKING_DELTA: Self = Self(4);
    /// [`crate::Event::ToolCalled`].
    pub const TOOL_CALLED: Self = Self(5);
    /// [`crate::Event::StepFinished`].
    pub const STEP_FINISHED: Self = Self(6);
    /// [`crate::Event::StepRestarted`].
    pub const STEP_RESTARTED: Self = Self(7);
    /// [`crate::Event::ModelChanged`].
    pub const MODEL_CHANGED: Self = Self(8);
    /// [`crate::Event::ToolIntended`].
    pub const TOOL_INTENDED: Self = Self(9);
    /// [`crate::Event::ToolFinished`].
    pub const TOOL_FINISHED: Self = Self(10);
    /// [`crate::Event::Waiting`].
    pub const WAITING: Self = Self(11);
    /// [`crate::Event::Resumed`].
    pub const RESUMED: Self = Self(12);
    /// [`crate::Event::HistoryCompacted`].
    pub const HISTORY_COMPACTED: Self = Self(13);
    /// [`crate::Event::TurnEnded`].
    pub const TURN_ENDED: Self = Self(14);
    /// [`crate::Event::TimerSet`].
    pub const TIMER_SET: Self = Self(15);
    /// [`crate::Event::FormOpened`].
    pub const FORM_OPENED: Self = Self(16);
    /// [`crate::Event::ArtifactStarted`].
    pub const ARTIFACT_STARTED: Self = Self(17);
    /// [`crate::Event::ArtifactDelta`].
    pub const ARTIFACT_DELTA: Self = Self(18);
    /// [`crate::Event::ArtifactFinished`].
    pub const ARTIFACT_FINISHED: Self = Self(19);
    /// [`crate::Event::Dropped`].
    pub const DROPPED: Self = Self(20);
    /// [`crate::Event::FormClosed`].
    pub const FORM_CLOSED: Self = Self(21);
    /// [`crate::Event::Notified`].
    pub const NOTIFIED: Self = Self(22);
    /// [`crate::Event::StepUsed`].
    pub const STEP_USED: Self = Self(23);
}

/// Bytes that are not a segment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("corrupt log segment: {what} at byte {offset}")]
pub struct CorruptSegment {
    what: String,
    offset: usize,
}

/// Consecutive events of one turn in their stored form. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    first_seq: u64,
    count: u32,
    bytes: Bytes,
}

impl Segment {
    /// Takes stored bytes back. They are looked at only when the events are read.
    pub fn from_stored(first_seq: u64, count: u32, bytes: Bytes) -> Self {
        Self { first_seq, count, bytes }
    }

    /// Seq of its first event.
    pub fn first_seq(&self) -> u64 {
        self.first_seq
    }

    /// Seq of its last event; one less than the first if there is none.
    pub fn last_seq(&self) -> u64 {
        self.first_seq + u64::from(self.count) - 1
    }

    /// How many events it has.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The stored form.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its events, in order.
    pub fn events(&self) -> Events<'_> {
        self.events_from(Place::default())
    }

    /// Its events from a place that was reached before.
    pub fn events_from(&self, place: Place) -> Events<'_> {
        Events { segment: self, place }
    }
}

/// How far a segment has been read. Means something to the segment that it is of, and to no other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    offset: usize,
    index: u32,
    at: i64,
}

/// Iterates over the events of a [`Segment`] without copying them.
#[derive(Debug)]
pub struct Events<'a> {
    segment: &'a Segment,
    place: Place,
}

impl<'a> Events<'a> {
    /// How far they have been read.
    pub fn place(&self) -> Place {
        self.place
    }

    fn corrupt(&self, what: impl Into<String>) -> CorruptSegment {
        CorruptSegment { what: what.into(), offset: self.place.offset }
    }

    fn varint(&mut self) -> Result<u64, CorruptSegment> {
        let bytes = &self.segment.bytes;
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let Some(&byte) = bytes.get(self.place.offset) else { return Err(self.corrupt("cut short")) };
            self.place.offset += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.corrupt("number too long"))
    }

    fn read(&mut self) -> Result<RawEvent<'a>, CorruptSegment> {
        if self.place.offset == 0 {
            match self.segment.bytes.first() {
                Some(&VERSION) => self.place.offset = 1,
                Some(version) => {
                    return Err(self.corrupt(format!("version {version} is newer than {VERSION}, the last one known")));
                }
                None => return Err(self.corrupt("empty")),
            }
        }
        let kind = u16::try_from(self.varint()?).map_err(|_| self.corrupt("kind out of range"))?;
        let elapsed = i64::try_from(self.varint()?).map_err(|_| self.corrupt("time out of range"))?;
        self.place.at = self.place.at.checked_add(elapsed).ok_or_else(|| self.corrupt("time out of range"))?;
        let length = usize::try_from(self.varint()?).map_err(|_| self.corrupt("length out of range"))?;
        let end = self.place.offset.checked_add(length).ok_or_else(|| self.corrupt("length out of range"))?;
        let payload = self.segment.bytes.get(self.place.offset..end).ok_or_else(|| self.corrupt("cut short"))?;
        let seq = self.segment.first_seq + u64::from(self.place.index);
        let (kind, at, offset) = (Kind(kind), Timestamp(self.place.at), self.place.offset);
        let mut event = RawEvent { seq, last_seq: seq, kind, at, payload, offset };
        self.place.offset = end;
        self.place.index += 1;
        if kind == Kind::DROPPED {
            self.skip_dropped(&mut event)?;
        }
        Ok(event)
    }

    /// An event that stands for several takes their places.
    #[cold]
    fn skip_dropped(&mut self, event: &mut RawEvent<'a>) -> Result<(), CorruptSegment> {
        let DroppedForm { count } = event.json()?;
        let more = count.checked_sub(1).filter(|more| *more <= self.segment.count - self.place.index);
        let more = more.ok_or_else(|| self.corrupt("more events than the segment has"))?;
        event.last_seq += u64::from(more);
        self.place.index += more;
        Ok(())
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<RawEvent<'a>, CorruptSegment>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.place.index == self.segment.count {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.place.index = self.segment.count;
        }
        Some(read)
    }
}

/// One stored event, borrowed from its segment.
#[derive(Clone, Copy, Debug)]
pub struct RawEvent<'a> {
    /// Its place in the turn, from 1.
    pub seq: u64,
    /// The last place that it takes: another one only where retention has dropped events.
    pub last_seq: u64,
    /// What it is.
    pub kind: Kind,
    /// When it was made.
    pub at: Timestamp,
    payload: &'a [u8],
    offset: usize,
}

impl<'a> RawEvent<'a> {
    fn corrupt(&self, what: impl ToString) -> CorruptSegment {
        CorruptSegment { what: what.to_string(), offset: self.offset }
    }

    /// The payload of an artifact's delta, without copying more than its escapes.
    pub fn artifact_delta(&self) -> Result<ArtifactPiece<'a>, CorruptSegment> {
        serde_json::from_slice(self.payload).map_err(|error| self.corrupt(error))
    }

    /// The text of a delta, without copying it.
    pub fn text(&self) -> Result<&'a str, CorruptSegment> {
        std::str::from_utf8(self.payload).map_err(|error| self.corrupt(error))
    }

    fn json<T: DeserializeOwned>(&self) -> Result<T, CorruptSegment> {
        serde_json::from_slice(self.payload).map_err(|error| self.corrupt(error))
    }
}

/// A piece of an artifact, borrowed from its segment.
#[derive(Debug, Deserialize)]
pub struct ArtifactPiece<'a> {
    /// The artifact.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// Counts from 0 within the version.
    pub index: u32,
    /// The piece.
    #[serde(borrow)]
    pub text: Cow<'a, str>,
}

/// Gathers events into the next [`Segment`] of a turn.
#[derive(Debug)]
pub struct SegmentBuilder {
    first_seq: u64,
    count: u32,
    at: i64,
    bytes: BytesMut,
}

impl SegmentBuilder {
    /// An empty segment whose first event will have this seq.
    pub fn new(first_seq: u64) -> Self {
        Self { first_seq, count: 0, at: 0, bytes: BytesMut::new() }
    }

    /// Seq that the next event will get.
    pub fn next_seq(&self) -> u64 {
        self.first_seq + u64::from(self.count)
    }

    /// Whether it has no event yet.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Size of the stored form so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    fn push_json<T: Serialize + ?Sized>(&mut self, kind: Kind, at: Timestamp, form: &T) {
        // Our own types with string keys: writing them to memory cannot fail.
        let json = serde_json::to_vec(form).unwrap_or_default();
        self.push_payload(kind, at, &json);
    }

    fn push_payload(&mut self, kind: Kind, at: Timestamp, payload: &[u8]) {
        if self.count == 0 {
            self.bytes.put_u8(VERSION);
        }
        let now = at.millis().max(self.at);
        self.varint(u64::from(kind.0));
        self.varint(u64::try_from(now - self.at).unwrap_or(0));
        self.varint(payload.len() as u64);
        self.bytes.put_slice(payload);
        self.at = now;
        self.count += 1;
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.put_u8((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.put_u8(value as u8);
    }

    /// Takes the segment out; the builder goes on with the next one.
    pub fn take(&mut self) -> Segment {
        let segment = Segment { first_seq: self.first_seq, count: self.count, bytes: self.bytes.split().freeze() };
        *self = Self { first_seq: self.next_seq(), count: 0, at: 0, bytes: std::mem::take(&mut self.bytes) };
        segment
    }
}
