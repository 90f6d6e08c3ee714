//! A projection that looks at where the turn stands, and shows the conversation with some events.

use everturn_core::{
    CorruptSegment, Event, Kind, Message, RawEvent, Said, SessionId, Standing, TenantId, TurnId, TurnState,
};
use everturn_engine::{Cursor, Engine, Flow, Frames, Projection, SessionCursor, TurnView, write_json};
use everturn_store::{SimStore, Store as _, TurnStatus};

/// Of one turn.
pub(crate) static STANDING: Views = Views { name: "standing", session_wide: false };
/// Of one turn after the other.
pub(crate) static SESSION_WIDE: Views = Views { name: "session-wide", session_wide: true };

#[derive(Debug)]
pub(crate) struct Views {
    name: &'static str,
    session_wide: bool,
}

impl Projection for Views {
    fn name(&self) -> &'static str {
        self.name
    }

    fn parts(&self, event: &Event) -> u32 {
        parts(event)
    }

    fn stands(&self) -> bool {
        true
    }

    fn shows_conversation(&self, event: &RawEvent<'_>) -> bool {
        shows_conversation(event)
    }

    fn is_session_wide(&self) -> bool {
        self.session_wide
    }

    fn project(&self, view: &TurnView, event: &RawEvent<'_>, frames: &mut Frames<'_>) -> Result<Flow, CorruptSegment> {
        let decoded = event.decode()?;
        let count = parts(&decoded);
        if count > 1 {
            frames.several();
        }
        let conversation = view.conversation.as_ref().map(|said| said.iter().collect::<Vec<_>>());
        for part in 1..=count {
            let data = data(event.seq, part, &view.standing, conversation.as_deref());
            frames.event("event", |out| write_json(out, &data));
        }
        Ok(if matches!(decoded, Event::TurnEnded(_)) { Flow::Close } else { Flow::Continue })
    }
}

/// Some events give no frame, some one, some several.
fn parts(event: &Event) -> u32 {
    match event {
        Event::StepStarted { .. } => 0,
        Event::StepFinished(_) | Event::ToolCalled { .. } => 3,
        Event::TurnStarted(_) | Event::TurnEnded(_) => 2,
        _ => 1,
    }
}

fn shows_conversation(event: &RawEvent<'_>) -> bool {
    let kinds = [Kind::TURN_STARTED, Kind::TEXT_DELTA, Kind::STEP_FINISHED, Kind::TOOL_FINISHED, Kind::TURN_ENDED];
    kinds.contains(&event.kind)
}

/// What a frame shows: where it is, and all that the projection was told.
fn data(seq: u64, part: u32, standing: &Standing, conversation: Option<&[&Said]>) -> String {
    let said = conversation.map(|said| said.iter().map(|said| said_line(said)).collect::<Vec<_>>().join(" | "));
    format!("{seq}.{part} {standing:?} {said:?}")
}

fn said_line(said: &Said) -> String {
    format!("{} {:?}", said.id, said.message)
}

/// A frame of such a projection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) turn: TurnId,
    pub(crate) cursor: Cursor,
    pub(crate) data: String,
}

/// The frames of a piece of a stream; of one that names no turns, of this turn.
pub(crate) fn shown_frames(bytes: &[u8], turn: Option<&TurnId>) -> Vec<Shown> {
    let text = std::str::from_utf8(bytes).expect("frames are text");
    let frames = text.split_terminator("\n\n").map(|frame| {
        let mut lines = frame.lines();
        assert_eq!(lines.next(), Some("event: event"));
        let id = lines.next().and_then(|line| line.strip_prefix("id: ")).expect("an id");
        let data = lines.next().and_then(|line| line.strip_prefix("data: ")).expect("data").to_owned();
        match turn {
            Some(turn) => Shown { turn: turn.clone(), cursor: id.parse().expect("a cursor"), data },
            None => {
                let SessionCursor { turn, cursor } = id.parse().expect("a session's cursor");
                Shown { turn, cursor, data }
            }
        }
    });
    frames.collect()
}

/// All frames of a turn's stored log, made without any reader: standing and conversation are folded anew for each event.
pub(crate) async fn shown_in_log(
    store: &SimStore,
    engine: &Engine,
    tenant: &TenantId,
    session: &SessionId,
    turn: &TurnId,
) -> Vec<Shown> {
    let turns = store.turns(tenant, session).await.unwrap();
    let own = turns.iter().position(|other| other.id == *turn).expect("the turn is there");
    // What was said before, by the engine's own account: a fork that ends there.
    let before: Vec<Said> = if turns[own].begins_history || own == 0 {
        Vec::new()
    } else {
        let is_before = |said: &Said| turns[..own].iter().any(|other| other.id == said.id.turn);
        engine.conversation(tenant, session).await.unwrap().value.into_iter().filter(is_before).collect()
    };
    let (mut state, mut standing) = (TurnState::default(), Standing::default());
    let (mut frames, mut began) = (Vec::new(), None);
    for segment in store.read(turn, 0, usize::MAX).await.unwrap() {
        for event in segment.events() {
            let event = event.expect("the log is sound");
            let decoded = event.decode().expect("the log is sound");
            state.apply(event.seq, &decoded);
            standing.apply(&event).expect("the log is sound");
            let began = *began.get_or_insert(event.at);
            let mut messages = state.messages();
            let answer = state.step.as_ref().map(everturn_core::StepState::content);
            messages.extend(answer.filter(|content| !content.is_empty()).map(|content| Message::Assistant { content }));
            let own = Said::of_turn(turn, began, event.at, messages);
            let all: Vec<_> = before.iter().chain(&own).collect();
            let conversation = shows_conversation(&event).then_some(all.as_slice());
            let count = parts(&decoded);
            for part in 1..=count {
                let data = serde_json::to_string(&data(event.seq, part, &standing, conversation)).unwrap();
                let cursor = Cursor { seq: event.last_seq, part: if count > 1 { part } else { 0 } };
                frames.push(Shown { turn: turn.clone(), cursor, data });
            }
        }
    }
    assert!(turns[own].status != TurnStatus::Queued);
    frames
}
