//! A turn driven by its plan through random answers, crashes and submissions: at every point of its log, history is
//! one that providers accept, and a crash changes nothing but what it must.

use everturn_core::{
    context::normalise,
    submission::{Admission, SessionPhase, Submission, admit, supersede},
    *,
};
use proptest::{collection::vec, prelude::*};

use super::valid::complaint;

/// What the world does next; numbers choose among what is possible.
#[derive(Clone, Debug)]
enum Fate {
    /// The model answers with so many calls, of these routes.
    Answer { text: String, thinking: String, routes: Vec<u8>, finish: u8 },
    /// The process dies in the middle of whatever comes next.
    Crash,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        4 => (".{0,4}", ".{0,3}", vec(0..5_u8, 0..4), 0..8_u8)
            .prop_map(|(text, thinking, routes, finish)| Fate::Answer { text, thinking, routes, finish }),
        1 => Just(Fate::Crash),
    ]
}

struct World {
    log: Vec<Event>,
    state: TurnState,
    fates: std::vec::IntoIter<Fate>,
    /// How often each effect ran.
    effects: std::collections::HashMap<CallId, (EffectClass, u32)>,
    calls: u32,
}

impl World {
    fn push(&mut self, event: Event) {
        self.state.apply(self.log.len() as u64 + 1, &event);
        self.log.push(event);
        let messages = normalise(&self.state.messages()).messages;
        assert_eq!(complaint(&messages), None, "{:#?}", self.log);
    }

    /// Forgets everything but the log.
    fn crash(&mut self) {
        let mut state = TurnState::default();
        for (seq, event) in (1..).zip(&self.log) {
            state.apply(seq, event);
        }
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

    fn step(&mut self, restart: bool) {
        let usage = Usage { input: 1, output: 1 };
        if restart {
            self.push(Event::StepRestarted { reason: "crash".into(), attempt: 0, usage });
        } else {
            self.push(Event::StepStarted { step: self.state.steps + 1, model: "m".into() });
        }
        let Some(Fate::Answer { text, thinking, routes, finish }) =
            self.fates.find(|fate| matches!(fate, Fate::Answer { .. }))
        else {
            return self.push(finished(Content::Text("the end".into()), Finish::Stop));
        };
        if !thinking.is_empty() {
            self.push(Event::ThinkingDelta(thinking.clone()));
        }
        self.push(Event::TextDelta(text.clone()));
        if self.crashes() {
            return;
        }
        let mut calls = Vec::new();
        for route in routes {
            self.calls += 1;
            let name = ["read", "write", "ask", "client", "unknown"][usize::from(route)].to_owned();
            let call = ToolUse { id: CallId::new(format!("c{}", self.calls)), name, input: Json::empty_object() };
            calls.push(call.clone());
            let route = match route {
                0 | 1 => CallRoute::Inline,
                2 => CallRoute::Permission,
                3 => CallRoute::Client,
                _ => CallRoute::Refused { reason: "no such tool".into() },
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

    fn resolve(&mut self, resolutions: Vec<Resolution>) {
        for resolution in resolutions {
            let (call_id, text) = match resolution {
                Resolution::Tell { call_id, text } => (call_id, text),
                Resolution::Run { call_id, repeat, .. } => {
                    let name = &self.state.calls.iter().find(|call| call.call.id == call_id).unwrap().call.name;
                    let effect = if name == "read" { EffectClass::ReadOnly } else { EffectClass::Effectful };
                    let effect_id = repeat.unwrap_or_else(EffectId::mint);
                    self.push(Event::ToolIntended { call_id: call_id.clone(), effect_id, effect });
                    self.effects.entry(call_id.clone()).or_insert((effect, 0)).1 += 1;
                    if self.crashes() {
                        return;
                    }
                    (call_id, "done".into())
                }
            };
            let content = Content::Text(text);
            self.push(Event::ToolFinished { call_id, content, is_error: false, duration_ms: 0 });
        }
    }

    fn submit(&mut self, calls: &[WaitingCall]) {
        let answer = |call: &WaitingCall| match call.waiting_for {
            WaitingFor::Result => Answer::Result { call_id: call.id.clone(), content: Content::Text("r".into()) },
            WaitingFor::Permission => Answer::Permission { call_id: call.id.clone(), granted: true, reason: None },
        };
        let answers: Vec<_> = calls.iter().map(answer).collect();
        let submission = Submission::Answers(answers.clone());
        let phase = SessionPhase::Waiting(calls);
        assert_eq!(admit(phase, &submission, |_| false), Ok(Admission::Resume));
        if self.calls.is_multiple_of(3) {
            supersede(&self.state.clone()).into_iter().for_each(|event| self.push(event));
        } else {
            self.push(Event::Resumed { answers });
        }
    }
}

fn finished(content: Content, finish: Finish) -> Event {
    Event::StepFinished(StepFinished { content, finish, usage: Usage { input: 2, output: 3 } })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn every_turn_ends_with_a_valid_history(fates in vec(fate(), 0..16)) {
        let mut world = World {
            log: Vec::new(),
            state: TurnState::default(),
            fates: fates.into_iter(),
            effects: Default::default(),
            calls: 0,
        };
        let input = vec![Message::user("go")];
        world.push(Event::TurnStarted(TurnStarted { agent: "a".into(), opens_session: true, input }));
        for _ in 0..200 {
            match next(&world.state, 6) {
                Next::Rest => match world.state.phase.clone() {
                    Phase::Waiting(calls) => world.submit(&calls),
                    phase => { prop_assert!(matches!(phase, Phase::Ended(_))); break },
                },
                Next::Step => world.step(false),
                Next::RestartStep => world.step(true),
                Next::Resolve(resolutions) => world.resolve(resolutions),
                Next::Wait(calls) => world.push(Event::Waiting { calls }),
                Next::End(outcome) => {
                    let usage = world.state.usage;
                    world.push(Event::TurnEnded(TurnEnded { outcome, usage }));
                }
            }
        }
        let ended = world.log.iter().filter(|event| matches!(event, Event::TurnEnded(_))).count();
        prop_assert_eq!(ended, 1, "exactly one end: {:#?}", world.log);
        prop_assert!(matches!(world.log.last(), Some(Event::TurnEnded(_))), "and it is last");
        for (call, (effect, runs)) in &world.effects {
            prop_assert!(effect.may_repeat() || *runs == 1, "{call} ran {runs} times");
        }
        let answered = |id: &CallId| {
            world.state.messages().iter().filter(|m| matches!(m, Message::Tool { call_id, .. } if call_id == id)).count()
        };
        for call in world.state.messages().iter().flat_map(|m| m.tool_uses().cloned().collect::<Vec<_>>()) {
            prop_assert_eq!(answered(&call.id), 1, "call {} is answered once", call.id);
        }
    }
}
