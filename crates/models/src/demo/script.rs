//! The demo model's answer to a request, as a sequence of events.

use std::{collections::VecDeque, fmt::Write, num::NonZeroU32};

use everturn_core::Usage;

use super::{estimate, intent::Intent, mention::Call, results, title, words};
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
            Intent::Results => text(&results::tell(request)),
            Intent::Summary => text(&words::summary(request)),
            Intent::Title => text(&title::of(request.messages.iter())),
            Intent::Images(count) => text(&words::images(count)),
            Intent::Help => text(&words::help(&request.tools)),
            Intent::Json(json) => text(&json),
            Intent::Echo => text(&words::echo(request)),
            Intent::Think => {
                let mut events = pieces(&words::thoughts(request), ModelEvent::Thinking);
                events.extend(pieces(words::AFTER_THINKING, ModelEvent::Text));
                Body::Events(events)
            }
            Intent::Call { calls, think } => Body::Events(call_events(request, calls, think)),
        };
        let body = body.until(&request.options.stop);
        Ok(Self {
            body,
            finish,
            rate,
            input_tokens,
            output_bytes: 0,
            max_output_tokens: request.options.max_output_tokens.unwrap_or(u64::MAX),
            ended: false,
        })
    }

    /// The pace that the request names, in pieces a second.
    pub(super) fn rate(&self) -> Option<NonZeroU32> {
        self.rate
    }

    fn finished(&mut self, finish: ModelFinish) -> ModelEvent {
        self.ended = true;
        let usage = Usage::of(self.input_tokens, estimate::tokens(self.output_bytes));
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

impl Body {
    /// The same up to the first of these texts in what is said, without it.
    fn until(self, stops: &[String]) -> Self {
        let Self::Events(events) = self else { return self };
        let said: String = events.iter().filter_map(said).collect();
        let Some(end) = stops.iter().filter_map(|stop| said.find(stop.as_str())).min() else {
            return Self::Events(events);
        };
        let mut left = end;
        let shortened = events.into_iter().map_while(|event| match event {
            ModelEvent::Text(text) if left > 0 => {
                let kept = text[..left.min(text.len())].to_owned();
                left -= kept.len();
                Some(ModelEvent::Text(kept))
            }
            event @ ModelEvent::Thinking(_) => Some(event),
            _ => None,
        });
        Self::Events(shortened.collect())
    }
}

fn said(event: &ModelEvent) -> Option<&str> {
    match event {
        ModelEvent::Text(text) => Some(text),
        _ => None,
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
        ModelEvent::Alive
        | ModelEvent::Notice(_)
        | ModelEvent::ThinkingSignature(_)
        | ModelEvent::ToolCall { .. }
        | ModelEvent::BadToolCall { .. }
        | ModelEvent::Used(_)
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
        let pieces = input_pieces(input.as_str());
        events.extend(pieces.map(|piece| ModelEvent::ToolInputDelta { part, json: piece.to_owned() }));
        events.push_back(ModelEvent::ToolCall { part, name, input });
    }
    events
}

/// A tool's input in small pieces. The first escape in it is cut in two: a reader must be able to deal with that, and
/// other providers cut anywhere.
fn input_pieces(json: &str) -> impl Iterator<Item = &str> {
    let (mut rest, mut escape) = (json, json.find('\\').map(|at| at + 1));
    std::iter::from_fn(move || {
        let end = rest.ceil_char_boundary(INPUT_PIECE);
        let end = escape.take_if(|cut| *cut <= end).unwrap_or(end);
        escape = escape.map(|cut| cut - end);
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece).filter(|piece| !piece.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_come_in_small_pieces_and_cut_an_escape() {
        for (json, expected) in [
            ("{}", vec!["{}"]),
            (r#"{"a":"12345678"}"#, vec![r#"{"a":"12"#, r#"345678"}"#]),
            (r#"{"a":"\nb\nc"}"#, vec![r#"{"a":"\"#, r#"nb\nc"}"#]),
            (r#"{"abcde":"é\u00e9"}"#, vec![r#"{"abcde""#, r#":"é\"#, r#"u00e9"}"#]),
            (r#"{"abc":"\n"}"#, vec![r#"{"abc":""#, r"\", r#"n"}"#]),
        ] {
            assert_eq!(input_pieces(json).collect::<Vec<_>>(), expected, "{json}");
        }
    }

    #[test]
    fn an_answer_stops_where_it_was_asked_to() {
        let said = |stops: &[&str]| {
            let stops: Vec<String> = stops.iter().map(|stop| (*stop).to_owned()).collect();
            text("one two three").until(&stops).filter_map(|event| said(&event).map(str::to_owned)).collect::<String>()
        };
        assert_eq!(said(&[]), "one two three");
        assert_eq!(said(&["three", "e t"]), "on");
        assert_eq!(said(&["one"]), "");
        assert_eq!(said(&["four"]), "one two three");
    }

    proptest::proptest! {
        #[test]
        fn the_pieces_are_the_whole(json in r"[\\é😀a-z]{0,60}") {
            let pieces: Vec<&str> = input_pieces(&json).collect();
            proptest::prop_assert_eq!(pieces.concat(), json.as_str());
            proptest::prop_assert!(pieces.iter().all(|piece| (1..=INPUT_PIECE + 3).contains(&piece.len())));
        }
    }
}
