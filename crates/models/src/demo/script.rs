//! The demo model's answer to a request, as a sequence of events.

use std::{collections::VecDeque, fmt::Write, num::NonZeroU32};

use everturn_core::Usage;

use super::{estimate, intent::Intent, mention::Call, words};
use crate::model::{ModelError, ModelErrorKind, ModelEvent, ModelFinish, ModelRequest};

/// How many bytes of a tool's input come in one piece.
const INPUT_PIECE: usize = 8;

/// An answer, given one event at a time.
pub(super) struct Script {
    body: Body,
    finish: ModelFinish,
    rate: Option<NonZeroU32>,
    input_tokens: u64,
    output_bytes: u64,
    max_output_tokens: u64,
    ended: bool,
}

enum Body {
    /// Events made beforehand.
    Events(VecDeque<ModelEvent>),
    /// `word 1 `, `word 2 ` and so on; made one by one, for a million of them must cost nothing beforehand.
    Count { given: u64, of: u64 },
}

impl Script {
    /// The answer to `request`, which has `input_tokens`.
    pub(super) fn new(request: &ModelRequest, input_tokens: u64) -> Result<Self, ModelError> {
        let mut finish = ModelFinish::Stop;
        let mut rate = None;
        let body = match Intent::of(request) {
            Intent::Stream { pieces, rate: named } => {
                rate = named;
                Body::Count { given: 0, of: pieces }
            }
            Intent::Fail => return Err(ModelError::new(ModelErrorKind::Rejected, words::FAILURE)),
            Intent::Refuse => {
                finish = ModelFinish::Refusal;
                text(words::REFUSAL)
            }
            Intent::MaxTokens => {
                finish = ModelFinish::MaxTokens;
                text(words::CUT_SHORT)
            }
            Intent::Results => text(&words::results(request)),
            Intent::Summary => text(&words::summary(request)),
            Intent::Images(count) => text(&words::images(count)),
            Intent::Help => text(&words::help(&request.tools)),
            Intent::Echo => text(&words::echo(request)),
            Intent::Think => {
                let mut events = pieces(&words::thoughts(request), ModelEvent::Thinking);
                events.extend(pieces(words::AFTER_THINKING, ModelEvent::Text));
                Body::Events(events)
            }
            Intent::Call { calls, think } => Body::Events(call_events(request, calls, think)),
        };
        Ok(Self {
            body,
            finish,
            rate,
            input_tokens,
            output_bytes: 0,
            max_output_tokens: request.max_output_tokens.unwrap_or(u64::MAX),
            ended: false,
        })
    }

    /// The pace that the request names, in pieces a second.
    pub(super) fn rate(&self) -> Option<NonZeroU32> {
        self.rate
    }

    fn finished(&mut self, finish: ModelFinish) -> ModelEvent {
        self.ended = true;
        let usage = Usage { input: self.input_tokens, output: estimate::tokens(self.output_bytes) };
        ModelEvent::Finished { finish, usage: Some(usage) }
    }
}

impl Iterator for Script {
    type Item = Result<ModelEvent, ModelError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let Some(event) = self.body.next() else {
            return Some(Ok(self.finished(self.finish)));
        };
        let bytes = self.output_bytes + event_bytes(&event);
        if estimate::tokens(bytes) > self.max_output_tokens {
            return Some(Ok(self.finished(ModelFinish::MaxTokens)));
        }
        self.output_bytes = bytes;
        Some(Ok(event))
    }
}

impl Iterator for Body {
    type Item = ModelEvent;

    fn next(&mut self) -> Option<ModelEvent> {
        match self {
            Self::Events(events) => events.pop_front(),
            Self::Count { given, of } if given == of => None,
            Self::Count { given, .. } => {
                *given += 1;
                let mut word = String::with_capacity(16);
                // Writing to a string does not fail.
                let _ = write!(word, "word {given} ");
                Some(ModelEvent::Text(word))
            }
        }
    }
}

/// The bytes that the model wrote for an event. A whole call repeats what its pieces said.
fn event_bytes(event: &ModelEvent) -> u64 {
    let bytes = match event {
        ModelEvent::Text(text) | ModelEvent::Thinking(text) => text.len(),
        ModelEvent::ToolCallStarted { name, .. } => name.len(),
        ModelEvent::ToolInputDelta { json, .. } => json.len(),
        ModelEvent::ThinkingSignature(_)
        | ModelEvent::ToolCall { .. }
        | ModelEvent::BadToolCall { .. }
        | ModelEvent::Finished { .. } => 0,
    };
    bytes as u64
}

fn text(text: &str) -> Body {
    Body::Events(pieces(text, ModelEvent::Text))
}

/// A text word by word.
fn pieces(text: &str, event: fn(String) -> ModelEvent) -> VecDeque<ModelEvent> {
    text.split_inclusive(' ').map(|word| event(word.to_owned())).collect()
}

fn call_events(request: &ModelRequest, calls: Vec<Call>, think: bool) -> VecDeque<ModelEvent> {
    let mut events = VecDeque::new();
    if think {
        events.extend(pieces(&words::thoughts(request), ModelEvent::Thinking));
    }
    let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
    events.extend(pieces(&words::before_calls(&names), ModelEvent::Text));
    for (part, Call { name, input }) in (0..).zip(calls) {
        events.push_back(ModelEvent::ToolCallStarted { part, name: name.clone() });
        let mut rest = input.as_str();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.ceil_char_boundary(INPUT_PIECE));
            events.push_back(ModelEvent::ToolInputDelta { part, json: piece.to_owned() });
            rest = after;
        }
        events.push_back(ModelEvent::ToolCall { part, name, input });
    }
    events
}
