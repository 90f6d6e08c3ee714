//! Projections for tests: some events give no frame, some one, some several.

use everturn_core::{CorruptSegment, Event, RawEvent, SessionId, Standing, TurnId};
use everturn_engine::{Cursor, Flow, Frames, Projection, TurnReader, TurnView, write_json};
use everturn_store::{SimStore, Store as _};

use super::in_time;

/// Ends its streams where a turn rests.
pub(crate) static FRAMES: SeveralFrames = SeveralFrames { name: "frames", at_rest: AtRest::Closes };
/// Ends its streams where a turn ends.
pub(crate) static PATIENT: SeveralFrames = SeveralFrames { name: "patient", at_rest: AtRest::GoesOn };
/// Ends its streams where somebody must do something.
pub(crate) static ASKING: SeveralFrames = SeveralFrames { name: "asking", at_rest: AtRest::ClosesIfAsked };
/// Ends its streams where a turn rests, if it still does.
pub(crate) static PAUSING: SeveralFrames = SeveralFrames { name: "pausing", at_rest: AtRest::Pauses };

#[derive(Debug)]
pub(crate) struct SeveralFrames {
    name: &'static str,
    at_rest: AtRest,
}

/// What becomes of a stream when its turn rests.
#[derive(Clone, Copy, Debug)]
enum AtRest {
    Closes,
    GoesOn,
    ClosesIfAsked,
    Pauses,
}

impl Projection for SeveralFrames {
    fn name(&self) -> &'static str {
        self.name
    }

    fn parts(&self, event: &Event) -> u32 {
        match event {
            Event::StepStarted { .. } => 0,
            Event::StepFinished(_) | Event::StepRestarted { .. } => 3,
            Event::ToolFinished { .. } | Event::Waiting(_) | Event::TurnEnded(_) => 2,
            _ => 1,
        }
    }

    fn project(&self, _: &TurnView, event: &RawEvent<'_>, frames: &mut Frames<'_>) -> Result<Flow, CorruptSegment> {
        let decoded = event.decode()?;
        let count = self.parts(&decoded);
        let flow = match (&decoded, self.at_rest) {
            (Event::Waiting(_), AtRest::Closes) | (Event::TurnEnded(_), _) => Flow::Close,
            (Event::Waiting(wait), AtRest::ClosesIfAsked) if !wait.is_timed() => Flow::Close,
            (Event::Waiting(_), AtRest::Pauses) => Flow::Pause,
            _ => Flow::Continue,
        };
        if count > 1 {
            frames.several();
        }
        let text = format!("{decoded:?}");
        for part in 1..=count {
            frames.event("event", |out| write_json(out, &format!("{}.{part} {text}", event.seq)));
        }
        Ok(flow)
    }
}

/// A frame as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) cursor: Cursor,
    pub(crate) data: String,
}

impl Frame {
    /// Whether it is the last of a turn.
    pub(crate) fn ends_turn(&self) -> bool {
        self.cursor.part == 2 && self.data.contains(" TurnEnded(")
    }

    /// Whether streams end with it.
    pub(crate) fn closes(&self) -> bool {
        self.ends_turn() || (self.cursor.part == 2 && self.data.contains(" Waiting("))
    }
}

/// The frames of a piece of a stream.
pub(crate) fn parse_frames(bytes: &[u8]) -> Vec<Frame> {
    let text = std::str::from_utf8(bytes).expect("frames are text");
    let frames = text.split_terminator("\n\n").map(|frame| {
        let mut lines = frame.lines();
        assert_eq!(lines.next(), Some("event: event"));
        let id = lines.next().and_then(|line| line.strip_prefix("id: ")).expect("an id");
        let data = lines.next().and_then(|line| line.strip_prefix("data: ")).expect("data");
        assert_eq!(lines.next(), None);
        Frame { cursor: id.parse().expect("the id is a cursor"), data: data.to_owned() }
    });
    frames.collect()
}

/// The next frames; `None` at the end of the stream.
pub(crate) async fn read_some(reader: &mut TurnReader) -> Option<Vec<Frame>> {
    let bytes = in_time("for frames", reader.next()).await.expect("the log can be read");
    bytes.map(|bytes| parse_frames(&bytes))
}

/// Everything to the end of the stream.
pub(crate) async fn read_all(reader: &mut TurnReader) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some(more) = read_some(reader).await {
        frames.extend(more);
    }
    frames
}

/// All frames of a turn's stored log, made without any reader.
pub(crate) async fn all_frames(store: &SimStore, session: &SessionId, turn: &TurnId) -> Vec<Frame> {
    let (standing, conversation) = (Standing::default(), None);
    let view = TurnView { session: session.clone(), turn: turn.clone(), standing, conversation };
    let mut out = Vec::new();
    for segment in store.read(turn, 0, usize::MAX).await.expect("the store works") {
        for event in segment.events() {
            let event = event.expect("the log is sound");
            FRAMES.project(&view, &event, &mut Frames::new(&mut out, event.last_seq, 0)).expect("the log is sound");
        }
    }
    parse_frames(&out)
}
