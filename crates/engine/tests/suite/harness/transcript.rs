//! Events as lines that people can read, with ids replaced by short names that are the same in every run.

use std::fmt::Write as _;

use everturn_core::{Answer, Block, CallId, CallRoute, Content, Event, Message, Outcome, Usage, WaitingFor};

/// Gives short names to ids, in order of appearance.
#[derive(Debug, Default)]
pub(crate) struct Names {
    calls: Vec<String>,
    effects: Vec<String>,
}

impl Names {
    pub(crate) fn call(&mut self, id: &str) -> String {
        short(&mut self.calls, 'c', id)
    }

    fn effect(&mut self, id: &str) -> String {
        short(&mut self.effects, 'e', id)
    }

    /// The id behind a short name.
    pub(crate) fn call_id(&self, name: &str) -> Option<CallId> {
        let index: usize = name.strip_prefix('c')?.parse().ok()?;
        self.calls.get(index - 1).map(CallId::new)
    }

    /// Puts short names into a text.
    pub(crate) fn shorten_calls(&self, text: &mut String) {
        for (index, id) in self.calls.iter().enumerate() {
            *text = text.replace(id, &format!("c{}", index + 1));
        }
    }

    /// One event on one line.
    pub(crate) fn event(&mut self, seq: u64, event: &Event) -> String {
        let line = match event {
            Event::TurnStarted(started) => {
                let opens = if started.opens_session { " in a new session" } else { "" };
                let input: Vec<_> = started.input.iter().map(|message| self.message(message)).collect();
                format!("turn started{opens}: {}", input.join(" | "))
            }
            Event::StepStarted { step, model } => format!("step {step} with {model}"),
            Event::TextDelta(text) => format!("text {text:?}"),
            Event::ThinkingDelta(text) => format!("thinking {text:?}"),
            Event::ToolCalled { call, route } => {
                let route = match route {
                    CallRoute::Inline => "inline".to_owned(),
                    CallRoute::Permission => "asks".to_owned(),
                    CallRoute::Client => "client".to_owned(),
                    CallRoute::Refused { reason } => format!("refused: {reason:?}"),
                };
                format!("call {} {}{} ({route})", self.call(call.id.as_str()), call.name, call.input.as_str())
            }
            Event::StepFinished(step) => {
                let content = self.content(&step.content);
                format!("step finished: {:?}, {}: {content}", step.finish, usage(step.usage))
            }
            Event::StepRestarted { reason, attempt, usage: used } => {
                format!("step restarted after {attempt}, {}: {reason}", usage(*used))
            }
            Event::ModelChanged { model, reason } => format!("model changed to {model}: {reason}"),
            Event::ToolIntended { call_id, effect_id, effect } => {
                let (call, id) = (self.call(call_id.as_str()), self.effect(effect_id.as_str()));
                format!("intent {call} as {id} ({effect:?})")
            }
            Event::ToolFinished { call_id, content, is_error, .. } => {
                let error = if *is_error { " error" } else { "" };
                format!("result {}{error}: {}", self.call(call_id.as_str()), self.content(content))
            }
            Event::Waiting { calls } => {
                let calls: Vec<_> = calls
                    .iter()
                    .map(|call| {
                        let what = match call.waiting_for {
                            WaitingFor::Result => "result",
                            WaitingFor::Permission => "permission",
                        };
                        format!("{what} of {} {}", self.call(call.id.as_str()), call.name)
                    })
                    .collect();
                format!("waiting for {}", calls.join(", "))
            }
            Event::Resumed { answers } => {
                let answers: Vec<_> = answers
                    .iter()
                    .map(|answer| match answer {
                        Answer::Result { call_id, content } => {
                            format!("{} gave {}", self.call(call_id.as_str()), self.content(content))
                        }
                        Answer::Permission { call_id, granted, reason } => {
                            let verdict = if *granted { "granted" } else { "denied" };
                            let reason = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
                            format!("{} {verdict}{reason}", self.call(call_id.as_str()))
                        }
                    })
                    .collect();
                format!("resumed: {}", answers.join(", "))
            }
            Event::HistoryCompacted(made) => {
                format!("history compacted, {} messages, {}: {:?}", made.covers, usage(made.usage), made.summary)
            }
            Event::TurnEnded(ended) => {
                let outcome = match &ended.outcome {
                    Outcome::Completed => "completed".to_owned(),
                    Outcome::MaxTokens => "max tokens".to_owned(),
                    Outcome::Refused => "refused".to_owned(),
                    Outcome::Failed { code, message, retryable } => {
                        let retry = if *retryable { "may be retried" } else { "for good" };
                        format!("failed {} ({retry}): {message}", code.as_str())
                    }
                    Outcome::Cancelled { reason } => format!("cancelled: {reason:?}"),
                };
                format!("ended, {}: {outcome}", usage(ended.usage))
            }
            Event::Unknown { kind, .. } => format!("unknown kind {kind}"),
        };
        format!("{seq} {line}")
    }

    /// One message on one line.
    pub(crate) fn message(&mut self, message: &Message) -> String {
        match message {
            Message::System { content } => format!("system: {content:?}"),
            Message::User { content } => format!("user: {}", self.content(content)),
            Message::Assistant { content } => format!("assistant: {}", self.content(content)),
            Message::Tool { call_id, content, is_error } => {
                let error = if *is_error { " error" } else { "" };
                format!("result {}{error}: {}", self.call(call_id.as_str()), self.content(content))
            }
        }
    }

    /// Messages, a line each.
    pub(crate) fn messages(&mut self, messages: &[Message]) -> String {
        messages.iter().fold(String::new(), |mut out, message| {
            let _ = writeln!(out, "{}", self.message(message));
            out
        })
    }

    fn content(&mut self, content: &Content) -> String {
        match content {
            Content::Text(text) => format!("{text:?}"),
            Content::Blocks(blocks) => {
                let blocks: Vec<_> = blocks
                    .iter()
                    .map(|block| match block {
                        Block::Text(text) => format!("{text:?}"),
                        Block::Thinking { text, signature } => {
                            let signed = signature.as_ref().map(|proof| format!(" signed {proof}")).unwrap_or_default();
                            format!("thinking {text:?}{signed}")
                        }
                        Block::ToolUse(call) => {
                            format!("{} {}{}", self.call(call.id.as_str()), call.name, call.input.as_str())
                        }
                        Block::Image { url } => format!("image {url}"),
                    })
                    .collect();
                format!("[{}]", blocks.join(", "))
            }
        }
    }
}

fn short(known: &mut Vec<String>, prefix: char, id: &str) -> String {
    let index = known.iter().position(|other| other == id).unwrap_or_else(|| {
        known.push(id.to_owned());
        known.len() - 1
    });
    format!("{prefix}{}", index + 1)
}

fn usage(usage: Usage) -> String {
    format!("{}+{} tokens", usage.input, usage.output)
}
