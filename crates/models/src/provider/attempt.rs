//! One call of a model, made again without what its provider refuses.
//!
//! Providers refuse a request by their status, or in the stream of an answer before they show anything of it. In both cases
//! the request is written anew; see [`super::adapt`]. Once something was shown, a failure is the engine's to judge.

use std::{
    borrow::Cow,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use everturn_core::{Thinking, context};
use futures_util::{FutureExt, Stream, StreamExt, future::BoxFuture};
use tokio::time::{Instant, Interval};

use super::{
    adapt::{self, Change, Changes},
    call::{AnswerStream, Caller, Origin, Refused},
    catalog, chat,
    failure::Report,
    instructions,
    learned::{Learned, declaration},
    media::{self, Limits},
    patch::patch,
    responses,
    wire::{Ask, Wire, Written},
};
use crate::model::{EventStream, ModelError, ModelErrorKind, ModelEvent, ModelRequest};

/// How often one call is written anew.
const MAX_CHANGES: usize = 40;

/// The shortest answer that is worth a call, in tokens.
const SHORTEST_ANSWER: u64 = 256;

/// Tokens that stay free beside the input and the answer: providers count some of their own.
const MARGIN: u64 = 16;

/// How often a call whose answer comes whole counts as alive: nothing is heard of it until it is over.
const ALIVE_EVERY: Duration = Duration::from_secs(20);

/// How long such a call counts as alive.
const LONGEST_WHOLE_ANSWER: Duration = Duration::from_secs(15 * 60);

/// Fields that nobody asked for, so that nobody misses them.
const OURS: &[&str] = &[
    "cache_control",
    "include",
    "options.num_ctx",
    "prompt_cache_key",
    "reasoning.summary",
    "shift",
    "store",
    "stream",
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

/// How far a call has come.
enum Begun {
    /// The answer has begun.
    Answer(Box<AnswerStream>, Box<Attempt>),
    /// The provider does not stream, and is not asked yet: its answer takes as long to begin as to end.
    Whole(Box<Attempt>),
}

impl Attempt {
    /// Calls a model. Returns when the response has begun, or at once where the answer comes whole.
    pub(super) async fn start(
        caller: Arc<Caller>,
        wire: &'static dyn Wire,
        from: String,
        model: String,
        request: ModelRequest,
    ) -> Result<EventStream, ModelError> {
        let request = media::readable(request, Limits::of(wire, caller.settings.is_official)).await;
        let (mut learned, changes) = (caller.memory.of(&model), Changes::default());
        if !learned.declarations.is_empty() {
            let refused = request.tools.iter().filter(|tool| learned.declarations.contains(&declaration(tool)));
            learned.tools = refused.map(|tool| tool.name.clone()).collect();
        }
        let mut attempt = Self { caller, wire, from, model, request, changes, learned, body: Bytes::new() };
        attempt.leave_room();
        let origin = (Arc::clone(&attempt.caller), attempt.model.clone());
        let answer = AnswerStream::empty(wire, attempt.caller.failures.clone());
        let mut adapting = Adapting { answer, origin, attempt: None, again: None, alive: None };
        let begun = Box::new(attempt).begin(Waiting::Short).await?;
        adapting.go_on(begun);
        Ok(adapting.boxed())
    }

    /// Sends the request until it is answered, or until `waiting` ends.
    async fn begin(mut self: Box<Self>, waiting: Waiting) -> Result<Begun, ModelError> {
        loop {
            if waiting == Waiting::Short && self.learned.fields.contains("stream") {
                return Ok(Begun::Whole(self));
            }
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
                    return Ok(Begun::Answer(Box::new(answer), self));
                }
                Err(Refused { error, report }) if self.adapt(&error, &report) => {}
                Err(Refused { report, .. }) if report.is_declined() => {
                    let failures = self.caller.failures.clone();
                    let declined = AnswerStream::declined(self.wire, failures, report.words());
                    return Ok(Begun::Answer(Box::new(declined), self));
                }
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
        let asked = self.request.options.effort;
        let nearest = asked.and_then(|asked| learned.efforts.get(&asked).copied());
        let mut request = Cow::Borrowed(&self.request);
        if nearest.is_some() {
            request.to_mut().options.effort = nearest;
        }
        if learned.refuses_system {
            instructions::from_user(request.to_mut());
        }
        let ask = Ask {
            from: &self.from,
            model: &self.model,
            settings: &self.caller.settings,
            known: catalog::known(&self.model),
            learned,
            request: &request,
            without_proofs: self.changes.without_proofs,
        };
        let patches = [self.caller.settings.body.as_ref(), self.request.body.as_ref()];
        let written = self.wire.write(&ask).and_then(|mut written| {
            let (body, removed) = patch(written.body, &learned.fields, &patches)?;
            let wants_summary = self.request.options.thinking == Some(Thinking::Summary);
            let is_asked = |field: &&String| {
                !OURS.contains(&field.as_str()) || (wants_summary && field.as_str() == "reasoning.summary")
            };
            let fields = removed.iter().filter(is_asked);
            written.notices.extend(fields.map(|field| format!("{field} is not sent: {} does not take it", self.model)));
            if let (Some(asked), Some(nearest)) = (asked, nearest) {
                let (asked, nearest) = (asked.as_str(), nearest.as_str());
                written.notices.push(format!("effort is {nearest}: {} does not know {asked}", self.model));
            }
            if removed.iter().any(|field| field == "stream") {
                written.notices.push(format!("the answer comes in one piece: {} does not stream it", self.from));
            }
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
            ModelErrorKind::ContextOverflow => self.adapt_to_window(report) || self.leave_media_out(report),
            ModelErrorKind::Rejected if self.changes.count < MAX_CHANGES => {
                let change = adapt::change(report, &self.request, &self.body, &self.learned);
                let change = match change {
                    Some(Change::Media(_)) if self.changes.has_had_enough_media() => {
                        adapt::all_media(&self.request, &self.learned)
                    }
                    change => change,
                };
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
    fn succeed(mut self) {
        if self.changes.count > 0 {
            // A value that is refused says nothing about others.
            self.learned.fields.retain(|field| !self.changes.values.contains(field));
            self.caller.memory.learn(&self.model, |known| known.merge(self.learned));
        }
    }

    /// Asks for no longer an answer than there is room for, where the window is configured or was told by an overflow.
    fn leave_room(&mut self) {
        let Some(window) = self.caller.settings.context_window.or(self.learned.window) else { return };
        let room = window.saturating_sub(self.careful_estimate());
        let asked = &mut self.request.options.max_output_tokens;
        if room >= SHORTEST_ANSWER && asked.is_some_and(|asked| asked > room) {
            *asked = Some(room);
        }
    }

    /// Learns from an overflow. `true` if the question itself fits: then the call is made again with room for a shorter
    /// answer.
    fn adapt_to_window(&mut self, report: &Report) -> bool {
        let is_quoted = report.window_words().is_some_and(|words| adapt::is_quoted(&self.body, &words));
        let Some(window) = report.window().filter(|_| !is_quoted) else { return false };
        // What the model has read before fits, whatever this says.
        if window < self.learned.proven {
            return false;
        }
        // Our estimate may be too low; what the provider has counted is not.
        let counted = report.input();
        let sent = counted.unwrap_or_else(|| self.careful_estimate());
        let asked = self.request.options.max_output_tokens.unwrap_or(u64::MAX);
        let room = window.saturating_sub(sent + MARGIN);
        // Where that was not enough before, half of it may be.
        let room = if room >= asked && self.changes.count > 0 { asked / 2 } else { room };
        if room >= SHORTEST_ANSWER && room < asked && self.changes.count < MAX_CHANGES {
            self.changes.count += 1;
            self.request.options.max_output_tokens = Some(room);
            self.learned.window = Some(self.learned.window.map_or(window, |known| known.min(window)));
            let percent = counted.map(|counted| counted.saturating_mul(100) / self.estimate().max(1) + 1);
            self.learned.percent_of_estimate = percent.max(self.learned.percent_of_estimate);
            return true;
        }
        // A window that is much larger than what was sent cannot have overflowed.
        if window <= self.estimate().saturating_mul(4) {
            self.caller.memory.learn(&self.model, |learned| {
                learned.window = Some(learned.window.map_or(window, |known| known.min(window)));
            });
        }
        false
    }

    /// A request that has too many bytes goes without its images and documents: to summarise the conversation would not make
    /// them smaller.
    fn leave_media_out(&mut self, report: &Report) -> bool {
        let change = report.is_about_bytes().then(|| adapt::all_media(&self.request, &self.learned)).flatten();
        self.changes.count < MAX_CHANGES
            && change.is_some_and(|change| self.changes.apply(change, &self.model, &mut self.learned))
    }

    /// Rather more than what the call sends, in tokens: as the provider has counted before, else a quarter more than ours.
    fn careful_estimate(&self) -> u64 {
        let percent = self.learned.percent_of_estimate.unwrap_or(125);
        (self.estimate().saturating_mul(percent) / 100).saturating_add(MARGIN)
    }

    /// Our estimate of what the call sends, in tokens.
    fn estimate(&self) -> u64 {
        context::estimate_text(&self.request.system)
            + context::estimate(&self.request.messages)
            + context::estimate_tools(&self.request.tools)
    }
}

/// An answer whose call may be made again until something of it was shown.
struct Adapting {
    answer: AnswerStream,
    origin: (Arc<Caller>, String),
    /// The call, with its conversation, for as long as it may be made again.
    attempt: Option<Box<Attempt>>,
    again: Option<BoxFuture<'static, Result<Begun, ModelError>>>,
    /// Set while an answer is awaited that comes whole.
    alive: Option<Alive>,
}

/// How long a call may wait for its answer to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// As long as a stream takes to begin.
    Short,
    /// As long as an answer takes.
    Long,
}

/// Stands in for the signs of life of an answer that comes whole.
struct Alive {
    ticks: Interval,
    left: u64,
}

impl Alive {
    fn new() -> Self {
        let ticks = tokio::time::interval_at(Instant::now() + ALIVE_EVERY, ALIVE_EVERY);
        Self { ticks, left: LONGEST_WHOLE_ANSWER.as_secs() / ALIVE_EVERY.as_secs() }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.left > 0 {
            ready!(self.ticks.poll_tick(cx));
            self.left -= 1;
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

impl Stream for Adapting {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(again) = &mut this.again {
                let Poll::Ready(begun) = again.poll_unpin(cx) else {
                    return match &mut this.alive {
                        Some(alive) => alive.poll(cx).map(|()| Some(Ok(ModelEvent::Alive))),
                        None => Poll::Pending,
                    };
                };
                (this.again, this.alive) = (None, None);
                match begun {
                    Ok(begun) => this.go_on(begun),
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
                continue;
            }
            match ready!(this.answer.poll_next_unpin(cx)) {
                Some(Ok(event)) => {
                    if let ModelEvent::Finished { usage: Some(usage), .. } = &event {
                        this.prove(usage.input);
                    }
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
                        attempt.adapt(&error, &report).then(|| attempt.begin(Waiting::Short).boxed())
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

impl Adapting {
    fn go_on(&mut self, begun: Begun) {
        match begun {
            Begun::Answer(answer, attempt) => (self.answer, self.attempt) = (*answer, Some(attempt)),
            Begun::Whole(attempt) => {
                self.again = Some(attempt.begin(Waiting::Long).boxed());
                self.alive = Some(Alive::new());
            }
        }
    }

    /// Keeps how much the model has read, as it tells itself.
    fn prove(&self, input: u64) {
        let (caller, model) = &self.origin;
        if caller.memory.look(model, |learned| learned.proven).unwrap_or(0) < input {
            caller.memory.learn(model, |learned| learned.proven = learned.proven.max(input));
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
