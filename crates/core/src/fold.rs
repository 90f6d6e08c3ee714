//! What a turn's log folds to.

use crate::{
    Answer, CallId, CallRoute, Compaction, Content, EffectClass, EffectId, Event, Finish, Message, ToolUse, TurnEnded,
    Usage, WaitingCall,
};

/// The state of one turn, as its log tells it. The engine runs on this, recovery rebuilds it, tests compare it.
///
/// Applying events never fails: a log that was written is history, whatever it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnState {
    /// Seq of the last event applied.
    pub head: u64,
    /// Where the turn stands.
    pub phase: Phase,
    /// Seq of the event that began the current leg.
    pub leg_start: u64,
    /// Model calls begun, restarts not counted.
    pub steps: u32,
    /// All tokens used so far.
    pub usage: Usage,
    /// The model of the current step, `provider/model`.
    pub model: String,
    /// The model call under way.
    pub step: Option<StepState>,
    /// How the last finished step ended.
    pub finish: Option<Finish>,
    /// The calls of the last finished step, until the next one begins.
    pub calls: Vec<CallState>,
    /// The last compaction that this turn made.
    pub compaction: Option<Compaction>,
    settled: Vec<Message>,
}

/// Where a turn stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Nothing has happened yet.
    #[default]
    New,
    /// Somebody must work on it.
    Running,
    /// It rests until these calls are answered.
    Waiting(Vec<WaitingCall>),
    /// It is over.
    Ended(TurnEnded),
}

/// A model call under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepState {
    /// Reasoning so far.
    pub thinking: String,
    /// Answer so far.
    pub text: String,
    /// Complete calls so far.
    pub calls: Vec<(ToolUse, CallRoute)>,
    /// Failed attempts before this one.
    pub attempts: u32,
}

/// A call of the last finished step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallState {
    /// The call.
    pub call: ToolUse,
    /// Who resolves it.
    pub route: CallRoute,
    /// Set once the server meant to run it.
    pub intent: Option<(EffectId, EffectClass)>,
    /// What a person decided, for calls that need permission.
    pub granted: Option<bool>,
    /// Why it was denied, in the person's words.
    pub denial: Option<String>,
    /// The result, as history shows it.
    pub result: Option<Message>,
}

impl TurnState {
    /// Applies the event with this seq.
    pub fn apply(&mut self, seq: u64, event: &Event) {
        self.head = seq;
        match event {
            Event::TurnStarted(started) => {
                self.settled.extend_from_slice(&started.input);
                self.phase = Phase::Running;
                self.leg_start = seq;
            }
            Event::StepStarted { step, model } => {
                self.settle();
                self.steps = *step;
                self.model.clone_from(model);
                self.step = Some(StepState::default());
            }
            Event::TextDelta(text) => self.text_delta(seq, text),
            Event::ThinkingDelta(text) => self.thinking_delta(seq, text),
            Event::ToolCalled { call, route } => {
                self.step.get_or_insert_default().calls.push((call.clone(), route.clone()));
            }
            Event::StepRestarted { attempt, usage, .. } => {
                self.usage += *usage;
                self.step = Some(StepState { attempts: *attempt, ..StepState::default() });
            }
            Event::StepFinished(finished) => {
                self.usage += finished.usage;
                self.finish = Some(finished.finish);
                let step = self.step.take().unwrap_or_default();
                if !finished.content.is_empty() {
                    self.settled.push(Message::Assistant { content: finished.content.clone() });
                }
                self.calls = step.calls.into_iter().map(CallState::new).collect();
            }
            Event::ModelChanged { model, .. } => self.model.clone_from(model),
            Event::ToolIntended { call_id, effect_id, effect } => {
                if let Some(call) = self.call_mut(call_id) {
                    call.intent = Some((effect_id.clone(), *effect));
                }
            }
            Event::ToolFinished { call_id, content, is_error, .. } => {
                self.resolve(call_id, content.clone(), *is_error);
            }
            Event::Waiting { calls } => self.phase = Phase::Waiting(calls.clone()),
            Event::Resumed { answers } => {
                self.phase = Phase::Running;
                self.leg_start = seq;
                answers.iter().for_each(|answer| self.answer(answer));
            }
            Event::HistoryCompacted(compaction) => {
                self.usage += compaction.usage;
                self.compaction = Some(compaction.clone());
            }
            Event::TurnEnded(ended) => {
                self.step = None;
                self.settle();
                self.phase = Phase::Ended(ended.clone());
            }
            Event::Unknown { .. } => {}
        }
    }

    /// As [`Self::apply`] with [`Event::TextDelta`], without making one.
    pub fn text_delta(&mut self, seq: u64, text: &str) {
        self.head = seq;
        self.step.get_or_insert_default().text.push_str(text);
    }

    /// As [`Self::apply`] with [`Event::ThinkingDelta`], without making one.
    pub fn thinking_delta(&mut self, seq: u64, text: &str) {
        self.head = seq;
        self.step.get_or_insert_default().thinking.push_str(text);
    }

    /// What the turn has added to history: its input, then what was said and done. Results stand in the order of
    /// their calls; calls that wait have none yet. A step under way is not in it.
    pub fn messages(&self) -> Vec<Message> {
        let mut messages = self.settled.clone();
        messages.extend(self.calls.iter().filter_map(|call| call.result.clone()));
        messages
    }

    /// The calls that nobody has resolved, in call order.
    pub fn open_calls(&self) -> impl Iterator<Item = &CallState> {
        self.calls.iter().filter(|call| call.result.is_none())
    }

    fn call_mut(&mut self, id: &CallId) -> Option<&mut CallState> {
        self.calls.iter_mut().find(|state| state.call.id == *id)
    }

    fn resolve(&mut self, id: &CallId, content: Content, is_error: bool) {
        if let Some(state) = self.call_mut(id) {
            state.result = Some(Message::Tool { call_id: id.clone(), content, is_error });
        }
    }

    fn answer(&mut self, answer: &Answer) {
        match answer {
            Answer::Result { call_id, content } => self.resolve(call_id, content.clone(), false),
            Answer::Permission { call_id, granted, reason } => {
                if let Some(state) = self.call_mut(call_id) {
                    state.granted = Some(*granted);
                    state.denial.clone_from(reason);
                }
            }
        }
    }

    fn settle(&mut self) {
        self.settled.extend(self.calls.drain(..).filter_map(|call| call.result));
    }
}

impl StepState {
    /// The answer so far, as a message's content.
    pub fn content(&self) -> Content {
        let calls = self.calls.iter().map(|(call, _)| call.clone()).collect();
        Content::answer(self.thinking.clone(), None, self.text.clone(), calls)
    }
}

impl CallState {
    fn new((call, route): (ToolUse, CallRoute)) -> Self {
        Self { call, route, intent: None, granted: None, denial: None, result: None }
    }
}
