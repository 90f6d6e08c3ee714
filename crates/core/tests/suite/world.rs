//! A turn that does what its plan says, in a world that answers, interrupts and forgets it.

use std::{collections::HashMap, iter::Cycle, vec::IntoIter};

use everturn_core::{
    context::normalise,
    submission::{Admission, OnBusy, SessionPhase, Submission, admit, close, supersede},
    *,
};
use proptest::{collection::vec, prelude::*};

use super::valid::complaint;

/// How many model calls the turn may make.
pub(super) const MAX_STEPS: u32 = 6;

/// What the world does next; numbers choose among what is possible.
#[derive(Clone, Debug)]
pub(super) enum Fate {
    /// The model answers with so many calls, of these routes.
    Answer { text: String, thinking: String, routes: Vec<u8>, finish: u8 },
    /// The provider asks to come back later.
    Pause,
    /// The process dies in the middle of whatever comes next.
    Crash,
}

pub(super) fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => (".{0,4}", ".{0,3}", vec(0..8_u8, 0..4), 0..8_u8)
            .prop_map(|(text, thinking, routes, finish)| Fate::Answer { text, thinking, routes, finish }),
        1 => Just(Fate::Pause),
        2 => Just(Fate::Crash),
    ]
}

/// What it takes to make a world: its fates, and what is chosen where there is a choice.
pub(super) fn world() -> impl Strategy<Value = World> {
    (vec(fate(), 0..16), vec(any::<u8>(), 1..12)).prop_map(|(fates, choices)| World {
        log: Vec::new(),
        state: TurnState::default(),
        fates: fates.into_iter(),
        choices: choices.into_iter().cycle(),
        effects: HashMap::new(),
        calls: 0,
        now: 1000,
    })
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) log: Vec<Event>,
    pub(super) state: TurnState,
    fates: IntoIter<Fate>,
    choices: Cycle<IntoIter<u8>>,
    /// How often each effect ran.
    pub(super) effects: HashMap<CallId, (EffectClass, u32)>,
    calls: u32,
    now: i64,
}

impl World {
    /// Runs the turn until it has ended, or gives up.
    pub(super) fn run(&mut self) {
        let input = vec![Message::user("go")];
        self.push(Event::TurnStarted(TurnStarted {
            agent: "a".into(),
            opens_session: true,
            input,
            ..TurnStarted::default()
        }));
        for _ in 0..300 {
            match next(&self.state, MAX_STEPS) {
                Next::Rest => match self.state.phase.clone() {
                    Phase::Waiting(wait) => self.go_on(&wait),
                    Phase::Ended(_) => return,
                    phase @ (Phase::New | Phase::Running) => panic!("it rests while it is {phase:?}"),
                },
                Next::Step => {
                    self.push(Event::StepStarted { step: self.state.steps + 1, model: "m".into() });
                    self.step();
                }
                Next::RestartStep => {
                    let usage = Usage::of(1, 1);
                    let attempt = self.state.step.as_ref().map_or(0, |step| step.attempts);
                    self.push(Event::StepRestarted { reason: "crash".into(), attempt, usage });
                    self.step();
                }
                Next::RetryStep => self.step(),
                Next::Resolve(resolutions) => self.resolve(resolutions),
                Next::OpenForms(calls) => self.ask(&calls),
                Next::Wait(wait) => self.rest(wait),
                Next::End(outcome) => self.push(Event::TurnEnded(self.state.ended(outcome))),
                Next::Compact => self.push(Event::HistoryCompacted(Compaction::default())),
            }
        }
        panic!("the turn goes on for ever: {:#?}", self.log);
    }

    fn push(&mut self, event: Event) {
        self.state.apply(self.log.len() as u64 + 1, &event);
        self.log.push(event);
        let messages = normalise(&self.state.messages()).messages;
        assert_eq!(complaint(&messages), None, "{:#?}", self.log);
    }

    fn push_all(&mut self, events: Vec<Event>) {
        events.into_iter().for_each(|event| self.push(event));
    }

    fn choose(&mut self, among: u8) -> u8 {
        self.choices.next().unwrap_or_default() % among
    }

    /// Forgets everything but the log.
    fn crash(&mut self) {
        let state = folded(&self.log);
        assert_eq!(state, self.state, "the state is the fold of the log");
        self.state = state;
    }

    fn crashes(&mut self) -> bool {
        let crashes = matches!(self.fates.as_slice().first(), Some(Fate::Crash));
        if crashes {
            self.fates.next();
            self.crash();
        }
        crashes
    }

    /// One attempt at a model call that was announced.
    fn step(&mut self) {
        assert_eq!(self.state.step.as_ref().map(StepState::content), Some(Content::Text(String::new())), "afresh");
        let (text, thinking, routes, finish) = match self.fates.next() {
            Some(Fate::Answer { text, thinking, routes, finish }) => (text, thinking, routes, finish),
            Some(Fate::Crash) => return self.crash(),
            Some(Fate::Pause) => {
                let attempt = self.state.step.as_ref().map_or(0, |step| step.attempts) + 1;
                self.push(Event::StepRestarted { reason: "slow down".into(), attempt, usage: Usage::default() });
                return self.rest(Wait { calls: Vec::new(), wake_at: Some(Timestamp(self.now + 5)) });
            }
            None => return self.push(finished(Content::Text("the end".into()), Finish::Stop)),
        };
        if self.choose(3) == 0 {
            self.push(Event::StepUsed(Usage::of(5, 1)));
            if self.crashes() {
                return;
            }
        }
        if !thinking.is_empty() {
            self.push(Event::ThinkingDelta(thinking.clone()));
        }
        if !text.is_empty() {
            self.push(Event::TextDelta(text.clone()));
        }
        if self.crashes() {
            return;
        }
        let mut calls = Vec::new();
        for route in routes {
            self.calls += 1;
            let names = ["read", "write", "ask", "client", "unknown", "form", "wait", "artifact"];
            let name = names[usize::from(route)].to_owned();
            let call = ToolUse { id: CallId::new(format!("c{}", self.calls)), name, input: Json::empty_object() };
            if call.name == "artifact" {
                self.draft(&call.id);
                if self.crashes() {
                    return;
                }
            }
            calls.push(call.clone());
            let route = match route {
                2 => CallRoute::Permission,
                3 => CallRoute::Client,
                4 => CallRoute::Refused { reason: "no such tool".into() },
                5 => CallRoute::Form,
                _ => CallRoute::Inline,
            };
            self.push(Event::ToolCalled { call, route });
        }
        let finish = match finish {
            0 => Finish::MaxTokens,
            1 => Finish::Refusal,
            _ if calls.is_empty() => Finish::Stop,
            _ => Finish::ToolUse,
        };
        let content = Content::answer(thinking, None, text, calls);
        assert_eq!(self.state.step.as_ref().map(StepState::content), Some(content.clone()), "deltas make the answer");
        self.push(finished(content, finish));
    }

    fn draft(&mut self, call: &CallId) {
        let (id, title) = (ArtifactId::of_call(call), "T".to_owned());
        let started = ArtifactStarted { id: id.clone(), version: 1, artifact_type: "text".into(), title };
        self.push(Event::ArtifactStarted(started));
        self.push(Event::ArtifactDelta(ArtifactDelta { id, index: 0, text: "x".into() }));
    }

    fn resolve(&mut self, resolutions: Vec<Resolution>) {
        for resolution in resolutions {
            let (call_id, text) = match resolution {
                Resolution::Tell { call_id, text } => (call_id, text),
                Resolution::Elapsed { call_id } => (call_id, "it is time".into()),
                Resolution::Run { call_id, repeat, .. } => {
                    let name = self.name_of(&call_id);
                    let effect = match name.as_str() {
                        "read" | "wait" => EffectClass::ReadOnly,
                        "artifact" => EffectClass::Idempotent,
                        _ => EffectClass::Effectful,
                    };
                    let effect_id = repeat.unwrap_or_else(EffectId::mint);
                    let (step, label) = (self.state.steps, name.clone());
                    let (id, tool) = (call_id.clone(), name.clone());
                    self.push(Event::ToolIntended { call_id: id, effect_id, effect, tool, label, step });
                    self.effects.entry(call_id.clone()).or_insert((effect, 0)).1 += 1;
                    if self.crashes() {
                        return;
                    }
                    match name.as_str() {
                        "wait" => {
                            let wake_at = Timestamp(self.now + i64::from(self.choose(9)));
                            self.push(Event::TimerSet { call_id, from: Timestamp(self.now), wake_at });
                            continue;
                        }
                        "artifact" => {
                            let (id, content_type) = (ArtifactId::of_call(&call_id), "text/plain".to_owned());
                            let artifact = ArtifactRef { id, version: 1, title: "T".into(), content_type };
                            self.push(Event::ArtifactFinished(artifact));
                        }
                        _ => {}
                    }
                    (call_id, "done".into())
                }
            };
            let (tool, content) = (self.name_of(&call_id), Content::Text(text));
            self.push(finished_tool(call_id, tool, content));
        }
    }

    fn name_of(&self, call: &CallId) -> String {
        self.state.calls.iter().find(|state| state.call.id == *call).expect("a call of the step").call.name.clone()
    }

    fn ask(&mut self, calls: &[CallId]) {
        for call_id in calls {
            let expires = self.choose(2) == 0;
            self.push(Event::FormOpened(FormOpened {
                form_id: FormId::of_call(call_id),
                call_id: call_id.clone(),
                kind: FormKind::Clarify,
                title: "?".into(),
                description: None,
                schema: Json::empty_object(),
                asks_for: None,
                expires_at: expires.then_some(Timestamp(self.now + 3)),
            }));
            if self.crashes() {
                return;
            }
        }
    }

    /// Comes to rest. Whatever it waits for, somebody or something can wake it, and nothing is forgotten.
    fn rest(&mut self, wait: Wait) {
        let by_others = |call: &WaitingCall| call.waiting_for != WaitingFor::Timer;
        assert!(wait.wake_at.is_some() || wait.calls.iter().any(by_others), "nothing wakes it: {wait:?}");
        assert_ne!(wait.is_timed(), wait.calls.iter().any(by_others));
        let open: Vec<_> = self.state.open_calls().map(|call| &call.call.id).collect();
        assert_eq!(wait.calls.iter().map(|call| &call.id).collect::<Vec<_>>(), open, "it waits for all open calls");
        for call in self.state.open_calls() {
            let asked = call.form.is_some();
            let asks = matches!(call.route, CallRoute::Form | CallRoute::Permission);
            assert_eq!(asked, asks, "who must answer was asked: {call:?}");
        }
        self.push(Event::Waiting(wait));
    }

    /// What becomes of a turn that waits.
    fn go_on(&mut self, wait: &Wait) {
        let phase = SessionPhase::Waiting(wait);
        let begin = Submission::Begin(vec![Message::user("else")]);
        assert_eq!(admit(phase, &begin, OnBusy::Supersede, |_| false), Ok(Admission::Supersede));
        self.crashes();
        match self.choose(8) {
            0 => self.push_all(supersede(&self.state.clone(), Timestamp(self.now))),
            1 => self.stop(),
            2 | 3 => self.wake(wait),
            chosen => {
                let mut answers: Vec<_> = wait.calls.iter().filter_map(|call| self.answer(call)).collect();
                if answers.is_empty() {
                    return self.wake(wait);
                }
                let whole = chosen < 6;
                if !whole {
                    answers.truncate(1);
                }
                let submission = if whole { Submission::Answers } else { Submission::SomeAnswers }(answers.clone());
                assert_eq!(admit(phase, &submission, OnBusy::Supersede, |_| false), Ok(Admission::Resume));
                self.push(Event::Resumed { answers, options: None });
            }
        }
    }

    fn stop(&mut self) {
        self.push_all(close(&self.state.clone(), "stopped", CancelReason::UserStop, Timestamp(self.now)));
    }

    /// Lets time pass until the turn is due, if it ever is; then gives the answers that time gives.
    fn wake(&mut self, wait: &Wait) {
        let Some(wake_at) = wait.wake_at else {
            // Nobody comes: somebody stops it.
            return self.stop();
        };
        self.now = self.now.max(wake_at.millis());
        let due = |call: &&WaitingCall| call.until.is_some_and(|until| until.millis() <= self.now);
        let give = |call: &WaitingCall| match call.waiting_for {
            WaitingFor::Timer => Answer::Elapsed { call_id: call.id.clone() },
            _ => Answer::Expired { call_id: call.id.clone() },
        };
        let answers: Vec<_> = wait.calls.iter().filter(due).map(give).collect();
        assert!(!answers.is_empty() || wait.calls.is_empty(), "woken for nothing: {wait:?}");
        self.push(Event::Resumed { answers, options: None });
    }

    fn answer(&mut self, call: &WaitingCall) -> Option<Answer> {
        let call_id = call.id.clone();
        Some(match call.waiting_for {
            WaitingFor::Result => Answer::Result { call_id, content: Content::Text("r".into()) },
            WaitingFor::Permission => Answer::Permission { call_id, granted: self.choose(2) == 0, reason: None },
            WaitingFor::Form => Answer::Form { call_id, value: Json::empty_object() },
            WaitingFor::Timer => return None,
        })
    }
}

fn finished(content: Content, finish: Finish) -> Event {
    let (usage, withheld) = (Usage::of(2, 3), Vec::new());
    Event::StepFinished(StepFinished { content, finish, usage, deltas_dropped: false, step: 0, withheld })
}

fn finished_tool(call_id: CallId, tool: String, content: Content) -> Event {
    let (is_error, duration_ms, never_began, application) = (false, 0, None, false);
    Event::ToolFinished { call_id, tool, content, is_error, duration_ms, never_began, application }
}

/// What a whole log folds to. A run that was dropped counts as the events that it stands for.
pub(super) fn folded(log: &[Event]) -> TurnState {
    let mut state = TurnState::default();
    for event in log {
        state.apply(state.head + 1, event);
    }
    state
}
