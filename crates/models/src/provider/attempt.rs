//! One call of a model, made again without what its provider refuses.
//!
//! Providers refuse a request by their status, or in the stream of an answer before they show anything of it. In both cases
//! the request is written anew; see [`super::adapt`]. Once something was shown, a failure is the engine's to judge.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use everturn_core::context;
use futures_util::{FutureExt, Stream, StreamExt, future::BoxFuture};

use super::{
    adapt::{self, Changes},
    call::{AnswerStream, Caller, Origin, Refused},
    catalog, chat,
    failure::Report,
    learned::Learned,
    media::{self, Limits},
    patch::patch,
    responses,
    wire::{Ask, Wire, Written},
};
use crate::model::{EventStream, ModelError, ModelErrorKind, ModelEvent, ModelRequest};

/// How often one call is written anew.
const MAX_CHANGES: usize = 12;

/// Fields that nobody asked for, so that nobody misses them.
const OURS: &[&str] = &[
    "cache_control",
    "include",
    "options.num_ctx",
    "prompt_cache_key",
    "reasoning.summary",
    "shift",
    "store",
    "stream_options",
    "stream_options.include_obfuscation",
    "thinking.block_binding",
    "thinking.display",
    "truncate",
];

/// A call under way.
pub(super) struct Attempt {
    caller: Arc<Caller>,
    wire: &'static dyn Wire,
    /// `provider/model`.
    from: String,
    model: String,
    request: ModelRequest,
    changes: Changes,
    /// What is known of the model, and what this call found out. The latter is kept only if it helped.
    learned: Learned,
    /// The request as it was sent last.
    body: Bytes,
}

/// An answer that has begun, and its call.
type Begun = Result<(AnswerStream, Box<Attempt>), ModelError>;

impl Attempt {
    /// Calls a model. Returns when the response has begun.
    pub(super) async fn start(
        caller: Arc<Caller>,
        wire: &'static dyn Wire,
        from: String,
        model: String,
        request: ModelRequest,
    ) -> Result<EventStream, ModelError> {
        let request = media::readable(request, Limits::of(wire, caller.settings.is_official)).await;
        let (learned, changes) = (caller.memory.of(&model), Changes::default());
        let attempt = Self { caller, wire, from, model, request, changes, learned, body: Bytes::new() };
        let (answer, attempt) = Box::new(attempt).begin().await?;
        Ok(Adapting { answer, attempt: Some(attempt), again: None }.boxed())
    }

    async fn begin(mut self: Box<Self>) -> Begun {
        loop {
            self.wire = self.wire_of_choice();
            let Written { body, notices, prefix } = self.write()?;
            self.body = Bytes::from(body);
            match self.caller.send(self.wire, &self.model, self.body.clone()).await {
                Ok(response) => {
                    let origin = Origin { wire: self.wire.name(), from: self.from.clone(), prefix };
                    let failures = self.caller.failures.clone();
                    let mut answer = AnswerStream::new(self.wire, response, failures, origin);
                    let told = std::mem::take(&mut self.changes.notices);
                    told.into_iter().chain(notices).for_each(|notice| answer.notice(notice));
                    return Ok((answer, self));
                }
                Err(Refused { error, report }) if self.adapt(&error, &report) => {}
                Err(Refused { error, .. }) => return Err(error),
            }
        }
    }

    /// The wire of the call: another one than usual where the provider has asked for it.
    fn wire_of_choice(&self) -> &'static dyn Wire {
        let is_other = self.wire.name() == chat::NAME && self.learned.wants_responses;
        if is_other { &responses::Responses } else { self.wire }
    }

    fn write(&self) -> Result<Written, ModelError> {
        let learned = &self.learned;
        let ask = Ask {
            from: &self.from,
            model: &self.model,
            settings: &self.caller.settings,
            known: catalog::known(&self.model),
            learned,
            request: &self.request,
            without_proofs: self.changes.without_proofs,
        };
        let patches = [self.caller.settings.body.as_ref(), self.request.body.as_ref()];
        let written = self.wire.write(&ask).and_then(|mut written| {
            let (body, removed) = patch(written.body, &learned.fields, &patches)?;
            let fields = removed.iter().filter(|field| !OURS.contains(&field.as_str()));
            written.notices.extend(fields.map(|field| format!("{field} is not sent: {} does not take it", self.model)));
            let refused = self.request.tools.iter().filter(|tool| learned.tools.contains(&tool.name));
            written.notices.extend(refused.map(|tool| {
                let (tool, model) = (&tool.name, &self.model);
                format!("the tool {tool} is left out: the provider of {model} refuses its declaration")
            }));
            Ok(Written { body, ..written })
        });
        written.map_err(|error| {
            let message = format!("failed to write the request to {}: {error}", self.caller.failures.provider);
            ModelError::new(ModelErrorKind::Rejected, message)
        })
    }

    /// Learns from a refusal. `true` if the call shall be made again, without what was refused.
    fn adapt(&mut self, error: &ModelError, report: &Report) -> bool {
        match error.kind {
            ModelErrorKind::ContextOverflow => {
                self.learn_window(report);
                false
            }
            ModelErrorKind::Rejected if self.changes.count < MAX_CHANGES => {
                let change = adapt::change(report, &self.request, &self.body, &self.learned);
                let is_new = change.is_some_and(|change| self.changes.apply(change, &self.model, &mut self.learned));
                if is_new {
                    tracing::debug!(model = self.from, %error, "asking again without what was refused");
                }
                is_new
            }
            ModelErrorKind::Rejected
            | ModelErrorKind::RateLimited
            | ModelErrorKind::Unavailable
            | ModelErrorKind::Timeout => false,
        }
    }

    /// Keeps what was found out: the provider answers.
    fn succeed(self) {
        if self.changes.count > 0 {
            self.caller.memory.learn(&self.model, |known| known.merge(self.learned));
        }
    }

    /// Keeps what an overflow says about the model's window: the size that it names, else that it is smaller than what was
    /// sent, by our own estimate.
    fn learn_window(&self, report: &Report) {
        let sent = || {
            let tokens = context::estimate_text(&self.request.system)
                + context::estimate(&self.request.messages)
                + context::estimate_tools(&self.request.tools);
            (tokens - tokens / 10).max(1)
        };
        let window = report.window().unwrap_or_else(sent);
        self.caller.memory.learn(&self.model, |learned| {
            learned.window = Some(learned.window.map_or(window, |known| known.min(window)));
        });
    }
}

/// An answer whose call may be made again until something of it was shown.
struct Adapting {
    answer: AnswerStream,
    /// The call, with its conversation, for as long as it may be made again.
    attempt: Option<Box<Attempt>>,
    again: Option<BoxFuture<'static, Begun>>,
}

impl Stream for Adapting {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(again) = &mut this.again {
                let begun = ready!(again.poll_unpin(cx));
                this.again = None;
                match begun {
                    Ok((answer, attempt)) => (this.answer, this.attempt) = (answer, Some(attempt)),
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
            }
            match ready!(this.answer.poll_next_unpin(cx)) {
                Some(Ok(event)) => {
                    if shows(&event)
                        && let Some(attempt) = this.attempt.take()
                    {
                        attempt.succeed();
                    }
                    return Poll::Ready(Some(Ok(event)));
                }
                Some(Err(error)) => {
                    let report = this.answer.take_report();
                    let again = this.attempt.take().zip(report).and_then(|(mut attempt, report)| {
                        attempt.adapt(&error, &report).then(|| attempt.begin().boxed())
                    });
                    match again {
                        Some(again) => this.again = Some(again),
                        None => return Poll::Ready(Some(Err(error))),
                    }
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

/// Whether an event is a part of the answer.
fn shows(event: &ModelEvent) -> bool {
    match event {
        ModelEvent::Alive | ModelEvent::Notice(_) | ModelEvent::Used(_) => false,
        ModelEvent::Text(_)
        | ModelEvent::Thinking(_)
        | ModelEvent::ThinkingSignature(_)
        | ModelEvent::ToolCallStarted { .. }
        | ModelEvent::ToolInputDelta { .. }
        | ModelEvent::ToolCall { .. }
        | ModelEvent::BadToolCall { .. }
        | ModelEvent::Finished { .. } => true,
    }
}
