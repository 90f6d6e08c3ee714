//! The protocol's views of the log: one for each style, and one that goes through all turns of a session.

use std::borrow::Cow;

use bytes::Bytes;
use everturn_core::{
    Answer, CancelReason, Content, CorruptSegment, Event, FormKind, FormOpened, Json, Kind, MessagePlace, MessageRef,
    Outcome, RawEvent, Said, Standing, Timestamp, TurnEnded,
};
use everturn_engine::{Cursor, Flow, Frames, Projection, TurnView, write_json};

use crate::{
    Style,
    wire::{Conversation, Item, MessageOut, Speaker, Tokens},
};

/// `/reply`.
pub(crate) static DESCRIBED: Goose = Goose { style: Style::Described, reach: Reach::Turn };
/// `/goose/reply`.
pub(crate) static RELEASED: Goose = Goose { style: Style::Released, reach: Reach::Turn };
/// `/goose/sessions/{id}/events`.
pub(crate) static SESSION: Goose = Goose { style: Style::Released, reach: Reach::Session };

/// The protocol's views of a turn.
pub fn projections() -> [&'static dyn Projection; 2] {
    [&RELEASED, &DESCRIBED]
}

/// The protocol's view of all turns of a session.
pub fn session_projection() -> &'static dyn Projection {
    &SESSION
}

const PING: &[u8] = b"data: {\"type\":\"Ping\"}\n\n";
/// The releases kept these streams open with comments.
const COMMENT: &[u8] = b": ping\n";

/// How a turn is shown.
#[derive(Debug)]
pub(crate) struct Goose {
    style: Style,
    reach: Reach,
}

/// What one stream shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// One turn.
    Turn,
    /// All turns of a session: each event says of which request it is.
    Session,
}

impl Projection for Goose {
    fn name(&self) -> &'static str {
        match (self.style, self.reach) {
            (Style::Described, _) => "goose-seed",
            (Style::Released, Reach::Turn) => "goose",
            (Style::Released, Reach::Session) => "goose-session",
        }
    }

    fn opening(&self) -> &'static [u8] {
        match self.reach {
            Reach::Turn => PING,
            Reach::Session => COMMENT,
        }
    }

    fn heartbeat(&self, _: Cursor) -> Bytes {
        Bytes::from_static(self.opening())
    }

    fn stands(&self) -> bool {
        true
    }

    fn shows_conversation(&self, event: &RawEvent<'_>) -> bool {
        match event.kind {
            // What was shown of the step is void.
            Kind::HISTORY_COMPACTED | Kind::STEP_RESTARTED => true,
            Kind::STEP_FINISHED => {
                matches!(event.decode(), Ok(Event::StepFinished(finished)) if finished.deltas_dropped)
            }
            Kind::TURN_STARTED => {
                matches!(event.decode(), Ok(Event::TurnStarted(started)) if started.begins_history)
            }
            _ => false,
        }
    }

    fn is_session_wide(&self) -> bool {
        self.reach == Reach::Session
    }

    fn project(&self, view: &TurnView, event: &RawEvent<'_>, frames: &mut Frames<'_>) -> Result<Flow, CorruptSegment> {
        match event.kind {
            // The path of every delta.
            Kind::TEXT_DELTA => self.answer(view, frames, &[Item::Text(event.text()?)]),
            Kind::THINKING_DELTA if self.style == Style::Released => {
                self.answer(view, frames, &[Item::Thinking(event.text()?)]);
            }
            Kind::TURN_STARTED | Kind::HISTORY_COMPACTED | Kind::STEP_RESTARTED => {
                if let Some(said) = &view.conversation {
                    let conversation = Conversation { style: self.style, said };
                    let field = |out: &mut Vec<u8>| field(out, "conversation", &conversation);
                    self.show(view, frames, &Shape::new("UpdateConversation"), field);
                }
            }
            Kind::STEP_FINISHED
            | Kind::TOOL_FINISHED
            | Kind::RESUMED
            | Kind::FORM_OPENED
            | Kind::NOTIFIED
            | Kind::MODEL_CHANGED
            | Kind::TURN_ENDED => return Ok(self.decoded(view, event.at, &event.decode()?, frames)),
            _ => {}
        }
        Ok(Flow::Continue)
    }
}

/// What a frame says besides its own fields.
struct Shape<'a> {
    kind: &'static str,
    /// Whether the releases told tokens with it.
    tokens: bool,
    /// A request of its own, other than the turn's.
    request: Option<&'a str>,
}

impl Shape<'_> {
    fn new(kind: &'static str) -> Self {
        Self { kind, tokens: false, request: None }
    }

    fn with_tokens(kind: &'static str) -> Self {
        Self { kind, tokens: true, request: None }
    }
}

impl Goose {
    /// What needs a look inside.
    fn decoded(&self, view: &TurnView, at: Timestamp, event: &Event, frames: &mut Frames<'_>) -> Flow {
        match event {
            Event::StepFinished(finished) => {
                // Not as each call arrives: an attempt that breaks off takes its calls with it. The text was shown in
                // deltas, unless retention has dropped them.
                let is_new = |item: &Item<'_>| finished.deltas_dropped || matches!(item, Item::ToolRequest(_));
                let items: Vec<_> = Item::all(self.style, &finished.content).into_iter().filter(is_new).collect();
                if let Some(said) = &view.conversation {
                    // Clients put pieces of a message together: who has some of this one must forget them first.
                    let own = MessagePlace::Answer(view.standing.step);
                    let is_other = |said: &&Said| said.id.turn != view.turn || said.id.place != own;
                    let others: Vec<_> = said.iter().filter(is_other).cloned().collect();
                    let conversation = Conversation { style: self.style, said: &others };
                    let shape = Shape::new("UpdateConversation");
                    frames.aside(|out| self.write(view, out, &shape, |out| field(out, "conversation", &conversation)));
                }
                if !items.is_empty() {
                    self.answer(view, frames, &items);
                }
            }
            Event::ToolFinished { call_id, content, is_error, .. } => {
                self.result(view, frames, at, &[Item::ToolResponse { id: call_id, content, is_error: *is_error }]);
            }
            Event::Resumed { answers, .. } => self.answers(view, frames, at, answers),
            Event::FormOpened(form) => self.form(view, frames, at, form),
            Event::Notified { call_id, method, params } => {
                let own = call_id.as_ref().map_or(view.turn.as_str(), |call| call.as_str());
                let shape = Shape { kind: "Notification", tokens: false, request: Some(own) };
                self.show(view, frames, &shape, |out| notification(self.style, out, method, params));
            }
            Event::ModelChanged { model, .. } => self.show(view, frames, &Shape::new("ModelChange"), |out| {
                // As sessions name it; who provides it is not a part of its name.
                let model = model.split_once('/').map_or(model.as_str(), |(_, model)| model);
                field(out, "model", model);
                field(out, "mode", "fallback");
            }),
            Event::TurnEnded(ended) => {
                self.ended(view, frames, ended);
                return Flow::Close;
            }
            Event::TurnStarted(_)
            | Event::StepStarted { .. }
            | Event::TextDelta(_)
            | Event::ThinkingDelta(_)
            | Event::ToolCalled { .. }
            | Event::StepUsed(_)
            | Event::StepRestarted { .. }
            | Event::ToolIntended { .. }
            | Event::TimerSet { .. }
            | Event::FormClosed { .. }
            | Event::Waiting(_)
            | Event::ArtifactStarted(_)
            | Event::ArtifactDelta(_)
            | Event::ArtifactFinished(_)
            | Event::HistoryCompacted(_)
            | Event::Dropped { .. }
            | Event::Unknown { .. } => {}
        }
        Flow::Continue
    }

    /// Something that the model says in the step under way.
    fn answer(&self, view: &TurnView, frames: &mut Frames<'_>, items: &[Item<'_>]) {
        let Standing { step, step_at, .. } = view.standing;
        let id = MessageRef { turn: view.turn.clone(), place: MessagePlace::Answer(step) };
        self.message(view, frames, &self.out(&id, Speaker::Assistant, step_at, items));
    }

    fn out<'a>(&self, id: &'a MessageRef, role: Speaker, at: Timestamp, items: &'a [Item<'a>]) -> MessageOut<'a> {
        MessageOut { style: self.style, id, role, at, items, agent_visible: true }
    }

    /// Results of tools.
    fn result(&self, view: &TurnView, frames: &mut Frames<'_>, at: Timestamp, items: &[Item<'_>]) {
        let Some(Item::ToolResponse { id: call, .. }) = items.first() else { return };
        let id = MessageRef { turn: view.turn.clone(), place: MessagePlace::Result((*call).clone()) };
        self.message(view, frames, &self.out(&id, Speaker::User, at, items));
    }

    /// Calls that ended because somebody gave their results. A word on whether a tool may run is none.
    fn answers(&self, view: &TurnView, frames: &mut Frames<'_>, at: Timestamp, answers: &[Answer]) {
        let results: Vec<_> = answers
            .iter()
            .filter_map(|answer| match answer {
                Answer::Result { call_id, content } => Some((call_id, content.clone())),
                Answer::Form { call_id, value } => Some((call_id, Content::Text(value.as_str().to_owned()))),
                Answer::Permission { .. } | Answer::Expired { .. } | Answer::Elapsed { .. } => None,
            })
            .collect();
        let items: Vec<_> =
            results.iter().map(|(id, content)| Item::ToolResponse { id, content, is_error: false }).collect();
        self.result(view, frames, at, &items);
    }

    fn form(&self, view: &TurnView, frames: &mut Frames<'_>, at: Timestamp, form: &FormOpened) {
        let message: Cow<'_, str> = match &form.description {
            Some(description) => format!("{}\n\n{description}", form.title).into(),
            None => form.title.as_str().into(),
        };
        // What a person is asked about a call is not for the model; what is asked in its name is.
        let (item, agent_visible) = match (&form.asks_for, form.kind) {
            (Some(call), FormKind::Approval) => (Item::Confirmation { call, prompt: &form.title }, false),
            _ => (Item::Elicitation { id: form.form_id.as_str(), message: &message, schema: &form.schema }, true),
        };
        let (style, id, role) = (self.style, &form.form_id, Speaker::Assistant);
        self.message(view, frames, &MessageOut { style, id, role, at, items: &[item], agent_visible });
    }

    fn ended(&self, view: &TurnView, frames: &mut Frames<'_>, ended: &TurnEnded) {
        if let Some(trouble) = trouble(&ended.outcome) {
            frames.several();
            self.show(view, frames, &Shape::new("Error"), |out| field(out, "error", &*trouble));
        }
        let reason = reason(&ended.outcome);
        self.show(view, frames, &Shape::with_tokens("Finish"), |out| field(out, "reason", reason));
    }

    fn message(&self, view: &TurnView, frames: &mut Frames<'_>, message: &MessageOut<'_>) {
        self.show(view, frames, &Shape::with_tokens("Message"), |out| field(out, "message", message));
    }

    fn show(&self, view: &TurnView, frames: &mut Frames<'_>, shape: &Shape<'_>, fields: impl FnOnce(&mut Vec<u8>)) {
        frames.unnamed(|out| self.write(view, out, shape, fields));
    }

    fn write(&self, view: &TurnView, out: &mut Vec<u8>, shape: &Shape<'_>, fields: impl FnOnce(&mut Vec<u8>)) {
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(shape.kind.as_bytes());
        out.push(b'"');
        let turn = match self.reach {
            Reach::Turn => None,
            Reach::Session => Some(view.standing.request.as_deref().unwrap_or(view.turn.as_str())),
        };
        if let Some(request) = shape.request.or(turn) {
            field(out, "request_id", request);
        }
        fields(out);
        if shape.tokens || self.style == Style::Described {
            field(out, "token_state", &Tokens::of(self.style, &view.standing));
        }
        if let Some(turn) = turn {
            field(out, "chat_request_id", turn);
        }
        out.push(b'}');
    }
}

/// The whole conversation, outside the order of events: a frame without a cursor.
pub(crate) fn snapshot(standing: &Standing, said: &[Said]) -> Bytes {
    let mut out = b"data: {\"type\":\"UpdateConversation\"".to_vec();
    field(&mut out, "conversation", &Conversation { style: Style::Described, said });
    field(&mut out, "token_state", &Tokens::of(Style::Described, standing));
    out.extend_from_slice(b"}\n\n");
    out.into()
}

/// The whole conversation, in the shapes of the releases, for who cannot know what has become of it.
pub(crate) fn conversation(said: &[Said]) -> Bytes {
    let mut out = b"data: {\"type\":\"UpdateConversation\"".to_vec();
    field(&mut out, "conversation", &Conversation { style: Style::Released, said });
    out.extend_from_slice(b"}\n\n");
    out.into()
}

/// Another field of the object that is being written.
fn field(out: &mut Vec<u8>, name: &str, value: &(impl serde::Serialize + ?Sized)) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    write_json(out, value);
}

fn notification(style: Style, out: &mut Vec<u8>, method: &str, params: &Json) {
    out.extend_from_slice(b",\"message\":{\"method\":");
    write_json(out, method);
    // In the releases, a notification that says nothing more has nothing more.
    if style == Style::Described || params.as_str() != "{}" {
        field(out, "params", params);
    }
    out.push(b'}');
}

/// What went wrong in a turn, if anything did.
fn trouble(outcome: &Outcome) -> Option<Cow<'_, str>> {
    match outcome {
        Outcome::Completed | Outcome::MaxTokens => None,
        Outcome::Refused => Some("the model or its provider declined to answer".into()),
        Outcome::Failed { code, message, .. } => Some(format!("{}: {message}", code.as_str()).into()),
        Outcome::Cancelled { reason: CancelReason::Timeout } => Some("the turn took longer than a turn may".into()),
        Outcome::Cancelled {
            reason: CancelReason::UserStop | CancelReason::Superseded | CancelReason::SessionDeleted,
        } => None,
    }
}

/// Why a turn ended, in the protocol's words.
fn reason(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "stop",
        Outcome::MaxTokens => "length",
        Outcome::Refused | Outcome::Failed { .. } | Outcome::Cancelled { reason: CancelReason::Timeout } => "error",
        Outcome::Cancelled { .. } => "cancel",
    }
}
