//! The answer to a call as a stream that begins again where its provider refuses the call before it shows anything.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use everturn_core::Usage;
use futures_util::{FutureExt, Stream, StreamExt, future::BoxFuture};
use tokio::time::{Instant, Interval};

use super::{Attempt, Begun, Failed, Waiting};
use crate::{
    model::{ModelError, ModelEvent},
    provider::{
        call::{AnswerStream, Caller},
        failure::Report,
    },
};

/// How often a call whose answer comes whole counts as alive: nothing is heard of it until it is over.
const ALIVE_EVERY: Duration = Duration::from_secs(20);

/// How long such a call counts as alive.
const LONGEST_WHOLE_ANSWER: Duration = Duration::from_secs(15 * 60);

/// An answer whose call may be made again until something of it was shown.
pub(super) struct Adapting {
    answer: AnswerStream,
    origin: (Arc<Caller>, String),
    /// What the provider's count of the call is compared with.
    sent: Option<Sent>,
    /// The call, with its conversation, for as long as it may be made again.
    attempt: Option<Box<Attempt>>,
    again: Option<BoxFuture<'static, Result<Begun, Failed>>>,
    /// What trials have used, which the call's own usage does not count.
    used_by_trials: Usage,
    /// Given out before anything else.
    ready: VecDeque<Result<ModelEvent, ModelError>>,
    /// Set while an answer is awaited that comes whole.
    alive: Option<Alive>,
}

/// What a call has sent, as we count it.
pub(super) struct Sent {
    pub(super) conversation: String,
    pub(super) estimate: u64,
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
            if let Some(item) = this.ready.pop_front() {
                return Poll::Ready(Some(item));
            }
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
                    Err(failed) => this.fail(failed),
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
                    return Poll::Ready(Some(Ok(this.with_trials(event))));
                }
                Some(Err(error)) => {
                    let report = this.answer.take_report();
                    if let Some(report) = report.as_ref().filter(|report| report.is_window_filled()) {
                        this.learn_window(report);
                    }
                    match this.attempt.take().zip(report) {
                        Some((attempt, report)) => this.again = Some(attempt.begin_again(error, report).boxed()),
                        None => return Poll::Ready(Some(Err(error))),
                    }
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Adapting {
    /// No answer yet.
    pub(super) fn new(answer: AnswerStream, origin: (Arc<Caller>, String), sent: Option<Sent>) -> Self {
        Self {
            answer,
            origin,
            sent,
            attempt: None,
            again: None,
            used_by_trials: Usage::default(),
            ready: VecDeque::new(),
            alive: None,
        }
    }

    pub(super) fn go_on(&mut self, begun: Begun) {
        match begun {
            Begun::Answer(answer, attempt) => {
                self.used_by_trials += attempt.take_used_by_trials();
                (self.answer, self.attempt) = (*answer, Some(attempt));
            }
            Begun::Whole(attempt) => {
                self.again = Some(attempt.begin(Waiting::Long).boxed());
                self.alive = Some(Alive::new());
            }
        }
    }

    /// Ends the answer with an error, after what the trials have used.
    pub(super) fn fail(&mut self, Failed { error, used }: Failed) {
        self.used_by_trials += used;
        if !self.used_by_trials.is_zero() {
            self.ready.push_back(Ok(ModelEvent::Used(self.used_by_trials)));
        }
        self.ready.push_back(Err(error));
    }

    /// An event whose usage counts the trials too.
    fn with_trials(&self, mut event: ModelEvent) -> ModelEvent {
        if let ModelEvent::Used(usage) | ModelEvent::Finished { usage: Some(usage), .. } = &mut event {
            *usage += self.used_by_trials;
        }
        event
    }

    /// Keeps how much the model has read, as it tells itself, and how that compares with what we count.
    fn prove(&self, input: u64) {
        let (caller, model) = &self.origin;
        if let Some(Sent { conversation, estimate }) = &self.sent {
            caller.memory.measure(model, conversation, *estimate, input);
        }
        if caller.memory.look(model, |learned| learned.proven).unwrap_or(0) < input {
            caller.memory.learn(model, |learned| {
                learned.proven = learned.proven.max(input);
                // A window that an overflow made us guess is larger after all.
                learned.window = learned.window.map(|window| window.max(input));
                learned.refused_window = learned.refused_window.map(|window| window.max(input));
            });
        }
    }

    /// Keeps the window that question and answer have filled.
    fn learn_window(&self, report: &Report) {
        let (caller, model) = &self.origin;
        if let Some(input) = report.input() {
            self.prove(input);
        }
        if let Some(window) = report.window() {
            caller.memory.learn(model, |learned| learned.learn_window(window));
        }
    }
}

/// Whether an event is a part of the answer.
pub(in crate::provider) fn shows(event: &ModelEvent) -> bool {
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
