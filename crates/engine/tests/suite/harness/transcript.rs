//! Events as lines that people can read, with ids replaced by short names that are the same in every run.

use std::fmt::Write as _;

use everturn_core::{
    Answer, ArtifactRef, ArtifactStarted, Block, CallId, CallRoute, Content, Event, Message, Outcome, Usage, Wait,
    WaitingCall, WaitingFor,
};

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

    /// The form that a call opens has its number, and so has the artifact that it creates.
    fn form(&mut self, id: &str) -> String {
        let (of_call, question) = id.split_once('.').map_or((id, None), |(call, number)| (call, Some(number)));
        let name = self.call(&of_call.replacen("form_", "call_", 1)).replacen('c', "f", 1);
        question.map_or(name.clone(), |number| format!("{name}.{number}"))
    }

    fn artifact(&mut self, id: &str) -> String {
        self.call(&id.replacen("art_", "call_", 1)).replacen('c', "a", 1)
    }

    /// Puts short names into a text.
    pub(crate) fn shorten_ids(&self, text: &mut String) {
        for (index, id) in self.calls.iter().enumerate() {
            let suffix = id.trim_start_matches("call_");
            for (prefix, short) in [("call_", 'c'), ("form_", 'f'), ("art_", 'a')] {
                *text = text.replace(&format!("{prefix}{suffix}"), &format!("{short}{}", index + 1));
            }
        }
    }

    /// A text as it is the same in every run.
    fn shown(&self, text: &str) -> String {
        // What follows are times.
        if text.starts_with("The wait is over. It was until") {
            return "The wait is over.".to_owned();
        }
        let mut text = text.to_owned();
        self.shorten_ids(&mut text);
        text
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
                    CallRoute::Form => "form".to_owned(),
                    CallRoute::Refused { reason } => format!("refused: {reason:?}"),
                };
                format!("call {} {}{} ({route})", self.call(call.id.as_str()), call.name, call.input.as_str())
            }
            Event::StepUsed(told) => format!("told {}", usage(*told)),
            Event::StepFinished(step) => {
                let content = self.content(&step.content);
                format!("step finished: {:?}, {}: {content}", step.finish, usage(step.usage))
            }
            Event::StepRestarted { reason, attempt, usage: used } => {
                format!("step restarted after {attempt}, {}: {reason}", usage(*used))
            }
            Event::ModelChanged { model, reason } => format!("model changed to {model}: {reason}"),
            Event::ToolIntended { call_id, effect_id, effect, .. } => {
                let (call, id) = (self.call(call_id.as_str()), self.effect(effect_id.as_str()));
                format!("intent {call} as {id} ({effect:?})")
            }
            Event::ToolFinished { call_id, content, is_error, .. } => {
                let error = if *is_error { " error" } else { "" };
                format!("result {}{error}: {}", self.call(call_id.as_str()), self.content(content))
            }
            Event::TimerSet { call_id, .. } => format!("timer {} set", self.call(call_id.as_str())),
            Event::FormOpened(form) => {
                let (name, call) = (self.form(form.form_id.as_str()), self.call(form.call_id.as_str()));
                format!("form {name} for {call}, {}: {:?}", form.kind.as_str(), form.title)
            }
            Event::FormClosed { form_id, answer, .. } => {
                let answer = answer.as_ref().map_or("nobody".to_owned(), |answer| answer.as_str().to_owned());
                format!("form {} closed: {answer}", self.form(form_id.as_str()))
            }
            Event::Notified { call_id, method, params } => {
                let of = call_id.as_ref().map(|id| format!(" of {}", self.call(id.as_str()))).unwrap_or_default();
                format!("news{of}: {method} {}", params.as_str())
            }
            Event::Waiting(wait) => self.waiting(wait),
            Event::Resumed { answers, .. } if answers.is_empty() => "resumed".to_owned(),
            Event::Resumed { answers, .. } => {
                let answers: Vec<_> = answers.iter().map(|answer| self.answer(answer)).collect();
                format!("resumed: {}", answers.join(", "))
            }
            Event::ArtifactStarted(started) => {
                let ArtifactStarted { id, version, artifact_type, title } = started;
                format!("artifact {} version {version}, {artifact_type} {title:?}", self.artifact(id.as_str()))
            }
            Event::ArtifactDelta(delta) => {
                format!("artifact {} piece {} {:?}", self.artifact(delta.id.as_str()), delta.index, delta.text)
            }
            Event::ArtifactFinished(kept) => {
                let ArtifactRef { id, version, title, content_type } = kept;
                format!("artifact {} version {version} kept, {content_type}: {title:?}", self.artifact(id.as_str()))
            }
            Event::Dropped { count } => format!("{count} events dropped"),
            Event::HistoryCompacted(made) => {
                let left_out = if made.left_out > 0 { format!(", {} left out", made.left_out) } else { String::new() };
                let shortened = if made.shortened.is_empty() {
                    String::new()
                } else {
                    format!(", {} shortened", made.shortened.len())
                };
                let (covers, usage) = (made.covers, usage(made.usage));
                format!("history compacted, {covers} messages{left_out}{shortened}, {usage}: {:?}", made.summary)
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
                let artifacts: Vec<_> = ended
                    .artifacts
                    .iter()
                    .map(|kept| format!(", {} version {}", self.artifact(kept.id.as_str()), kept.version))
                    .collect();
                format!("ended, {}: {outcome}{}", usage(ended.usage), artifacts.concat())
            }
            Event::Unknown { kind, .. } => format!("unknown kind {kind}"),
        };
        format!("{seq} {line}")
    }

    fn waiting(&mut self, wait: &Wait) -> String {
        if wait.calls.is_empty() {
            return "waiting for the provider".to_owned();
        }
        let call = |call: &WaitingCall| {
            let what = match call.waiting_for {
                WaitingFor::Result => "result",
                WaitingFor::Permission => "permission",
                WaitingFor::Form => "form",
                WaitingFor::Timer => "timer",
            };
            format!("{what} of {} {}", self.call(call.id.as_str()), call.name)
        };
        format!("waiting for {}", wait.calls.iter().map(call).collect::<Vec<_>>().join(", "))
    }

    fn answer(&mut self, answer: &Answer) -> String {
        let call = self.call(answer.call_id().as_str());
        match answer {
            Answer::Result { content, .. } => format!("{call} gave {}", self.content(content)),
            Answer::Permission { granted, reason, .. } => {
                let verdict = if *granted { "granted" } else { "denied" };
                let reason = reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
                format!("{call} {verdict}{reason}")
            }
            Answer::Form { value, .. } => format!("{call} answered {}", value.as_str()),
            Answer::Expired { .. } => format!("{call} expired"),
            Answer::Elapsed { .. } => format!("{call} elapsed"),
        }
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
            Content::Text(text) => format!("{:?}", self.shown(text)),
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
                        Block::Document { name, .. } => format!("document {name:?}"),
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
