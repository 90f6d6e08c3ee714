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
//! The seq of the first event is kept beside the bytes. Compatibility: kinds are never reused, a reader keeps events
//! of kinds that it does not know, and fields are only ever added to payloads, with a default. A layout that old
//! readers cannot take gets a new version byte.

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Answer, CallId, CallRoute, Content, EffectClass, EffectId, Event, Timestamp, ToolUse, Usage, WaitingCall};

const VERSION: u8 = 1;

/// The number under which a kind of event is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind(pub u16);

// Persisted, so they must stay as they are.
impl Kind {
    /// [`Event::TurnStarted`].
    pub const TURN_STARTED: Self = Self(1);
    /// [`Event::StepStarted`].
    pub const STEP_STARTED: Self = Self(2);
    /// [`Event::TextDelta`].
    pub const TEXT_DELTA: Self = Self(3);
    /// [`Event::ThinkingDelta`].
    pub const THINKING_DELTA: Self = Self(4);
    /// [`Event::ToolCalled`].
    pub const TOOL_CALLED: Self = Self(5);
    /// [`Event::StepFinished`].
    pub const STEP_FINISHED: Self = Self(6);
    /// [`Event::StepRestarted`].
    pub const STEP_RESTARTED: Self = Self(7);
    /// [`Event::ModelChanged`].
    pub const MODEL_CHANGED: Self = Self(8);
    /// [`Event::ToolIntended`].
    pub const TOOL_INTENDED: Self = Self(9);
    /// [`Event::ToolFinished`].
    pub const TOOL_FINISHED: Self = Self(10);
    /// [`Event::Waiting`].
    pub const WAITING: Self = Self(11);
    /// [`Event::Resumed`].
    pub const RESUMED: Self = Self(12);
    /// [`Event::HistoryCompacted`].
    pub const HISTORY_COMPACTED: Self = Self(13);
    /// [`Event::TurnEnded`].
    pub const TURN_ENDED: Self = Self(14);
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
        Events { segment: self, offset: 0, index: 0, at: 0 }
    }
}

/// Iterates over the events of a [`Segment`] without copying them.
#[derive(Debug)]
pub struct Events<'a> {
    segment: &'a Segment,
    offset: usize,
    index: u32,
    at: i64,
}

impl<'a> Events<'a> {
    fn corrupt(&self, what: impl Into<String>) -> CorruptSegment {
        CorruptSegment { what: what.into(), offset: self.offset }
    }

    fn varint(&mut self) -> Result<u64, CorruptSegment> {
        let bytes = &self.segment.bytes;
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let Some(&byte) = bytes.get(self.offset) else { return Err(self.corrupt("cut short")) };
            self.offset += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.corrupt("number too long"))
    }

    fn read(&mut self) -> Result<RawEvent<'a>, CorruptSegment> {
        if self.offset == 0 {
            match self.segment.bytes.first() {
                Some(&VERSION) => self.offset = 1,
                Some(version) => {
                    return Err(self.corrupt(format!("version {version} is newer than {VERSION}, the last one known")));
                }
                None => return Err(self.corrupt("empty")),
            }
        }
        let kind = u16::try_from(self.varint()?).map_err(|_| self.corrupt("kind out of range"))?;
        let elapsed = i64::try_from(self.varint()?).map_err(|_| self.corrupt("time out of range"))?;
        self.at = self.at.checked_add(elapsed).ok_or_else(|| self.corrupt("time out of range"))?;
        let length = usize::try_from(self.varint()?).map_err(|_| self.corrupt("length out of range"))?;
        let end = self.offset.checked_add(length).ok_or_else(|| self.corrupt("length out of range"))?;
        let payload = self.segment.bytes.get(self.offset..end).ok_or_else(|| self.corrupt("cut short"))?;
        let seq = self.segment.first_seq + u64::from(self.index);
        let event = RawEvent { seq, kind: Kind(kind), at: Timestamp(self.at), payload, offset: self.offset };
        self.offset = end;
        self.index += 1;
        Ok(event)
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<RawEvent<'a>, CorruptSegment>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.index == self.segment.count {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.index = self.segment.count;
        }
        Some(read)
    }
}

/// One stored event, borrowed from its segment.
#[derive(Clone, Copy, Debug)]
pub struct RawEvent<'a> {
    /// Its place in the turn, from 1.
    pub seq: u64,
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

    /// The text of a delta, without copying it.
    pub fn text(&self) -> Result<&'a str, CorruptSegment> {
        std::str::from_utf8(self.payload).map_err(|error| self.corrupt(error))
    }

    fn json<T: DeserializeOwned>(&self) -> Result<T, CorruptSegment> {
        serde_json::from_slice(self.payload).map_err(|error| self.corrupt(error))
    }

    /// The event, as a value of its own.
    pub fn decode(&self) -> Result<Event, CorruptSegment> {
        Ok(match self.kind {
            Kind::TURN_STARTED => Event::TurnStarted(self.json()?),
            Kind::STEP_STARTED => {
                let StepStartedForm { step, model } = self.json()?;
                Event::StepStarted { step, model }
            }
            Kind::TEXT_DELTA => Event::TextDelta(self.text()?.to_owned()),
            Kind::THINKING_DELTA => Event::ThinkingDelta(self.text()?.to_owned()),
            Kind::TOOL_CALLED => {
                let ToolCalledForm { call, route } = self.json()?;
                Event::ToolCalled { call, route }
            }
            Kind::STEP_FINISHED => Event::StepFinished(self.json()?),
            Kind::STEP_RESTARTED => {
                let StepRestartedForm { reason, attempt, usage } = self.json()?;
                Event::StepRestarted { reason, attempt, usage }
            }
            Kind::MODEL_CHANGED => {
                let ModelChangedForm { model, reason } = self.json()?;
                Event::ModelChanged { model, reason }
            }
            Kind::TOOL_INTENDED => {
                let ToolIntendedForm { call_id, effect_id, effect } = self.json()?;
                Event::ToolIntended { call_id, effect_id, effect }
            }
            Kind::TOOL_FINISHED => {
                let ToolFinishedForm { call_id, content, is_error, duration_ms } = self.json()?;
                Event::ToolFinished { call_id, content, is_error, duration_ms }
            }
            Kind::WAITING => Event::Waiting { calls: self.json()? },
            Kind::RESUMED => Event::Resumed { answers: self.json()? },
            Kind::HISTORY_COMPACTED => Event::HistoryCompacted(self.json()?),
            Kind::TURN_ENDED => Event::TurnEnded(self.json()?),
            Kind(kind) => Event::Unknown { kind, payload: Bytes::copy_from_slice(self.payload) },
        })
    }
}

#[derive(Serialize, Deserialize)]
struct StepStartedForm<S = String> {
    step: u32,
    model: S,
}

#[derive(Serialize, Deserialize)]
struct ToolCalledForm<C = ToolUse, R = CallRoute> {
    call: C,
    route: R,
}

#[derive(Serialize, Deserialize)]
struct StepRestartedForm<S = String> {
    reason: S,
    attempt: u32,
    usage: Usage,
}

#[derive(Serialize, Deserialize)]
struct ModelChangedForm<S = String> {
    model: S,
    reason: S,
}

#[derive(Serialize, Deserialize)]
struct ToolIntendedForm<I = CallId, E = EffectId> {
    call_id: I,
    effect_id: E,
    effect: EffectClass,
}

#[derive(Serialize, Deserialize)]
struct ToolFinishedForm<I = CallId, C = Content> {
    call_id: I,
    content: C,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    duration_ms: u64,
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

    /// Adds an event. Times never go back within a segment, whatever the clock does.
    pub fn push(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::TextDelta(text) => self.push_payload(Kind::TEXT_DELTA, at, text.as_bytes()),
            Event::ThinkingDelta(text) => self.push_payload(Kind::THINKING_DELTA, at, text.as_bytes()),
            Event::Unknown { kind, payload } => self.push_payload(Kind(*kind), at, payload),
            Event::TurnStarted(form) => self.push_json(Kind::TURN_STARTED, at, form),
            Event::StepStarted { step, model } => {
                self.push_json(Kind::STEP_STARTED, at, &StepStartedForm { step: *step, model });
            }
            Event::ToolCalled { call, route } => self.push_json(Kind::TOOL_CALLED, at, &ToolCalledForm { call, route }),
            Event::StepFinished(form) => self.push_json(Kind::STEP_FINISHED, at, form),
            Event::StepRestarted { reason, attempt, usage } => {
                let form = StepRestartedForm { reason, attempt: *attempt, usage: *usage };
                self.push_json(Kind::STEP_RESTARTED, at, &form);
            }
            Event::ModelChanged { model, reason } => {
                self.push_json(Kind::MODEL_CHANGED, at, &ModelChangedForm { model, reason });
            }
            Event::ToolIntended { call_id, effect_id, effect } => {
                let form = ToolIntendedForm { call_id, effect_id, effect: *effect };
                self.push_json(Kind::TOOL_INTENDED, at, &form);
            }
            Event::ToolFinished { call_id, content, is_error, duration_ms } => {
                let form = ToolFinishedForm { call_id, content, is_error: *is_error, duration_ms: *duration_ms };
                self.push_json(Kind::TOOL_FINISHED, at, &form);
            }
            Event::Waiting { calls } => self.push_json::<[WaitingCall]>(Kind::WAITING, at, calls),
            Event::Resumed { answers } => self.push_json::<[Answer]>(Kind::RESUMED, at, answers),
            Event::HistoryCompacted(form) => self.push_json(Kind::HISTORY_COMPACTED, at, form),
            Event::TurnEnded(form) => self.push_json(Kind::TURN_ENDED, at, form),
        }
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
