//! What a turn's log folds to.

use crate::{
    Answer, ArtifactRef, CallId, CallRoute, Compaction, Content, EffectClass, EffectId, Event, Finish, FormOpened,
    KeyId, Message, ModelOptions, Outcome, Size, Timestamp, ToolUse, TurnEnded, Usage, Wait,
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
    /// The key that the turn was submitted with.
    pub by: Option<KeyId>,
    /// What the turn asks of the model beyond what the agent does.
    pub options: ModelOptions,
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
    /// Whether the turn compacts history and does nothing else.
    pub compacts: bool,
    /// The last compaction that this turn made.
    pub compaction: Option<Compaction>,
    /// The text of the last finished step.
    pub response: String,
    /// The artifacts that it made or changed, each in its last version.
    pub artifacts: Vec<ArtifactRef>,
    settled: Vec<Message>,
    /// How many of them were settled when the turn was last taken up.
    kept: usize,
}

/// Where a turn stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Nothing has happened yet.
    #[default]
    New,
    /// Somebody must work on it.
    Running,
    /// It rests.
    Waiting(Wait),
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
    /// What the provider has told of its tokens.
    pub told: Option<Usage>,
    /// Failed attempts before this one.
    pub attempts: u32,
    /// Whether the turn has rested before the next attempt, which is to be made without further ado.
    pub paused: bool,
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
    /// The form that a person was asked to answer.
    pub form: Option<FormOpened>,
    /// What the tool asks a person while it runs.
    pub question: Option<FormOpened>,
    /// Set once the call is a running timer.
    pub timer: Option<Timer>,
    /// What a person decided, for calls that need permission.
    pub granted: Option<bool>,
    /// Why it was denied, in the person's words.
    pub denial: Option<String>,
    /// The result, as history shows it.
    pub result: Option<Message>,
    /// Whether the result has its place in history.
    settled: bool,
}

/// A call that time resolves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timer {
    /// When it was set.
    pub from: Timestamp,
    /// When it elapses.
    pub wake_at: Timestamp,
    /// Whether it has.
    pub elapsed: bool,
}

impl Timer {
    /// How long it has run, in milliseconds.
    pub fn ran_until(&self, now: Timestamp) -> u64 {
        u64::try_from(now.millis().saturating_sub(self.from.millis())).unwrap_or(0)
    }
}

impl TurnState {
    /// Applies the event with this seq.
    pub fn apply(&mut self, seq: u64, event: &Event) {
        self.head = seq;
        match event {
            Event::TurnStarted(started) => {
                self.settled.extend_from_slice(&started.input);
                self.by.clone_from(&started.by);
                self.options.clone_from(&started.options);
                self.compacts = started.compacts;
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
                self.answering().calls.push((call.clone(), route.clone()));
            }
            Event::StepUsed(told) => self.answering().told = Some(*told),
            Event::StepRestarted { attempt, usage, .. } => {
                self.usage += *usage;
                self.step = Some(StepState { attempts: *attempt, ..StepState::default() });
            }
            Event::StepFinished(finished) => {
                self.usage += finished.usage;
                self.finish = Some(finished.finish);
                self.response = finished.content.text();
                let step = self.step.take().unwrap_or_default();
                if !finished.content.is_empty() {
                    self.settled.push(Message::Assistant { content: finished.content.clone() });
                }
                self.calls = step.calls.into_iter().map(CallState::new).collect();
                // A call of the application's is forced until it is made, and no longer: a model that must call in every step
                // would never answer. Calls of the agent's own tools may come before it.
                let is_on_the_way =
                    |call: &CallState| !matches!(call.route, CallRoute::Client | CallRoute::Refused { .. });
                let is_made = self.calls.iter().any(|call| call.route == CallRoute::Client);
                if is_made || !self.calls.iter().any(is_on_the_way) {
                    self.options.tool_choice.take_if(|choice| choice.is_forced());
                }
            }
            Event::ModelChanged { model, .. } => self.model.clone_from(model),
            Event::ToolIntended { call_id, effect_id, effect, .. } => {
                if let Some(call) = self.call_mut(call_id) {
                    call.intent = Some((effect_id.clone(), *effect));
                }
            }
            Event::ToolFinished { call_id, content, is_error, .. } => {
                self.resolve(call_id, content.clone(), *is_error);
            }
            Event::TimerSet { call_id, from, wake_at } => {
                if let Some(call) = self.call_mut(call_id) {
                    call.timer = Some(Timer { from: *from, wake_at: *wake_at, elapsed: false });
                }
            }
            Event::FormOpened(form) => {
                if let Some(call) = self.call_mut(&form.call_id) {
                    let asked = if call.intent.is_some() { &mut call.question } else { &mut call.form };
                    *asked = Some(form.clone());
                }
            }
            Event::FormClosed { call_id, .. } => {
                if let Some(call) = self.call_mut(call_id) {
                    call.question = None;
                }
            }
            Event::Waiting(wait) => {
                if !wait.is_timed() {
                    self.settle_results();
                }
                self.phase = Phase::Waiting(wait.clone());
                if let Some(step) = &mut self.step {
                    step.paused = true;
                }
            }
            Event::Resumed { answers, options } => {
                if let Some(options) = options {
                    self.options.clone_from(options);
                }
                self.phase = Phase::Running;
                self.leg_start = seq;
                self.kept = self.settled.len();
                answers.iter().for_each(|answer| self.answer(answer));
            }
            Event::HistoryCompacted(compaction) => {
                self.usage += compaction.usage;
                self.compaction = Some(compaction.clone());
            }
            Event::ArtifactFinished(artifact) => {
                self.artifacts.retain(|other| other.id != artifact.id);
                self.artifacts.push(artifact.clone());
            }
            Event::TurnEnded(ended) => {
                self.step = None;
                self.settle();
                // Calls may have used something that no other event tells of.
                self.usage = self.usage.max(ended.usage);
                self.phase = Phase::Ended(ended.clone());
            }
            // Narrative, but the model has begun to answer.
            Event::ArtifactStarted(_) | Event::ArtifactDelta(_) => self.step.iter_mut().for_each(StepState::unpause),
            Event::Notified { .. } | Event::Unknown { .. } => {}
            // Counts as the events that it stands for.
            Event::Dropped { count } => self.head = seq + u64::from(count.saturating_sub(1)),
        }
    }

    /// The end of the turn, if it ends now like this.
    pub fn ended(&self, outcome: Outcome) -> TurnEnded {
        TurnEnded { outcome, usage: self.usage, response: self.response.clone(), artifacts: self.artifacts.clone() }
    }

    /// As [`Self::apply`] with [`Event::TextDelta`], without making one.
    pub fn text_delta(&mut self, seq: u64, text: &str) {
        self.head = seq;
        self.answering().text.push_str(text);
    }

    /// As [`Self::apply`] with [`Event::ThinkingDelta`], without making one.
    pub fn thinking_delta(&mut self, seq: u64, text: &str) {
        self.head = seq;
        self.answering().thinking.push_str(text);
    }

    /// What the turn has added to history: its input, then what was said and done. A step under way is not in it, and
    /// calls that wait have no result yet. Results stand in the order of their calls, but for those that came after the
    /// turn had waited for somebody: these come after what was there while it waited, so that nothing moves.
    pub fn messages(&self) -> Vec<Message> {
        let mut messages = self.settled.clone();
        let results = self.calls.iter().filter(|call| !call.settled).filter_map(|call| call.result.clone());
        messages.extend(results);
        messages
    }

    /// Some of [`Self::messages`], by their places.
    pub fn messages_between(&self, from: usize, to: usize) -> Vec<Message> {
        let results = self.calls.iter().filter(|call| !call.settled).filter_map(|call| call.result.as_ref());
        self.settled.iter().chain(results).take(to).skip(from).cloned().collect()
    }

    /// How many of [`Self::messages`], from the first one, will stay as they are: all but those of a step whose calls have
    /// not all been resolved.
    pub fn complete(&self) -> usize {
        if self.open_calls().next().is_some() {
            let step = self.settled.iter().rposition(|message| matches!(message, Message::Assistant { .. }));
            return step.unwrap_or(self.settled.len());
        }
        self.settled.len() + self.calls.iter().filter(|call| !call.settled && call.result.is_some()).count()
    }

    /// How many of [`Self::messages`], from the first one, are as they were when the turn last rested.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// About how many bytes of memory it takes.
    pub fn memory(&self) -> u64 {
        let results = self.calls.iter().filter_map(|call| call.result.as_ref());
        let results: u64 = results.map(|result| Size::of(std::slice::from_ref(result)).memory).sum();
        size_of::<Self>() as u64 + Size::of(&self.settled).memory + results
    }

    /// What has its place in history for good.
    pub fn settled(&self) -> &[Message] {
        &self.settled
    }

    /// As [`Self::messages`], without a step whose calls have not all been resolved, unless it is others who must resolve
    /// them: a call without a result is then one that waits for somebody.
    pub fn complete_messages(&self) -> Vec<Message> {
        let waits = matches!(&self.phase, Phase::Waiting(wait) if !wait.is_timed());
        if waits || self.open_calls().next().is_none() {
            return self.messages();
        }
        let step = self.settled.iter().rposition(|message| matches!(message, Message::Assistant { .. }));
        self.settled[..step.unwrap_or(self.settled.len())].to_vec()
    }

    /// The step of a call that the server has not begun to run.
    pub fn never_began(&self, call: &CallState) -> Option<u32> {
        call.intent.is_none().then_some(self.steps)
    }

    /// The calls that nobody has resolved, in call order.
    pub fn open_calls(&self) -> impl Iterator<Item = &CallState> {
        self.calls.iter().filter(|call| call.result.is_none())
    }

    /// The step under way, which has begun to answer.
    fn answering(&mut self) -> &mut StepState {
        let step = self.step.get_or_insert_default();
        step.unpause();
        step
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
            Answer::Form { call_id, value } => {
                self.resolve(call_id, Content::Text(value.as_str().to_owned()), false);
            }
            Answer::Expired { call_id } => self.expire(call_id),
            Answer::Elapsed { call_id } => {
                if let Some(timer) = self.call_mut(call_id).and_then(|state| state.timer.as_mut()) {
                    timer.elapsed = true;
                }
            }
        }
    }

    /// Nobody has answered in time.
    fn expire(&mut self, id: &CallId) {
        let Some(state) = self.call_mut(id) else { return };
        if state.route == CallRoute::Permission {
            state.granted = Some(false);
            state.denial = Some("nobody answered in time".to_owned());
        } else {
            let text = "The form was not answered in time; it cannot be answered any more".to_owned();
            self.resolve(id, Content::Text(text), true);
        }
    }

    /// Gives the results that there are their places in history.
    fn settle_results(&mut self) {
        for call in self.calls.iter_mut().filter(|call| !call.settled) {
            if let Some(result) = &call.result {
                self.settled.push(result.clone());
                call.settled = true;
            }
        }
    }

    fn settle(&mut self) {
        self.settle_results();
        self.calls.clear();
    }
}

impl StepState {
    /// The next attempt has begun: another one must make it void first.
    fn unpause(&mut self) {
        self.paused = false;
    }

    /// The answer so far, as a message's content.
    pub fn content(&self) -> Content {
        let calls = self.calls.iter().map(|(call, _)| call.clone()).collect();
        Content::answer(self.thinking.clone(), None, self.text.clone(), calls)
    }
}

impl CallState {
    fn new((call, route): (ToolUse, CallRoute)) -> Self {
        Self {
            call,
            route,
            intent: None,
            form: None,
            question: None,
            timer: None,
            granted: None,
            denial: None,
            result: None,
            settled: false,
        }
    }
}
