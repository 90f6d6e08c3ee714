//! One call of a model, made again without what its provider refuses.
//!
//! Providers refuse a request by their status, or in the stream of an answer before they show anything of it. In both cases
//! the request is written anew; see [`super::adapt`]. Once something was shown, a failure is the engine's to judge.

mod adapting;
mod media_search;
mod room;
mod tool_search;
mod trial;
mod writing;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;

use self::{
    adapting::Adapting,
    trial::{Symptom, Trials},
};
use super::{
    adapt::{self, Change, Changes},
    call::{AnswerStream, Caller, Origin, Refused},
    chat,
    failure::Report,
    learned::{Learned, declaration},
    media::{self, Limits},
    responses, tool_names,
    wire::{Wire, Written},
};
use crate::model::{EventStream, ModelError, ModelErrorKind, ModelRequest};

/// Failed attempts after which a fault of the provider's is suspicious.
const FAULTS: u32 = 2;

/// How often one call is written anew.
const MAX_CHANGES: usize = 40;

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
    /// How often the tools were searched for those that are refused.
    tool_searches: usize,
    /// Whether the images and documents were searched for those that are refused.
    has_searched_media: bool,
    /// Whether the provider seems to fail because the conversation is too long.
    is_too_long: bool,
}

/// How far a call has come.
enum Begun {
    /// The answer has begun.
    Answer(Box<AnswerStream>, Box<Attempt>),
    /// The provider does not stream, and is not asked yet: its answer takes as long to begin as to end.
    Whole(Box<Attempt>),
}

/// How long a call may wait for its answer to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// As long as a stream takes to begin.
    Short,
    /// As long as an answer takes.
    Long,
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
        let mut request = media::readable(request, Limits::of(wire, caller.settings.is_official)).await;
        tool_names::correct(&mut request, wire.name());
        let (mut learned, changes) = (caller.memory.of(&model), Changes::default());
        if !learned.declarations.is_empty() {
            let refused = request.tools.iter().filter(|tool| learned.declarations.contains(&declaration(tool)));
            learned.tools = refused.map(|tool| tool.name.clone()).collect();
        }
        let mut attempt = Self {
            caller,
            wire,
            from,
            model,
            request,
            changes,
            learned,
            body: Bytes::new(),
            tool_searches: 0,
            has_searched_media: false,
            is_too_long: false,
        };
        attempt.leave_room();
        let origin = (Arc::clone(&attempt.caller), attempt.model.clone());
        let answer = AnswerStream::empty(wire, attempt.caller.failures.clone());
        let mut adapting = Adapting::new(answer, origin);
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
                    notices.into_iter().for_each(|notice| answer.notice(notice));
                    return Ok(Begun::Answer(Box::new(answer), self));
                }
                Err(Refused { error, report }) => {
                    if !self.mend(&error, &report).await {
                        return self.give_up(error, &report);
                    }
                }
            }
        }
    }

    /// Makes the call again after its answer was refused before anything of it was shown.
    async fn begin_again(mut self: Box<Self>, error: ModelError, report: Report) -> Result<Begun, ModelError> {
        if self.mend(&error, &report).await { self.begin(Waiting::Short).await } else { self.give_up(error, &report) }
    }

    /// Learns from a refusal. `true` if the call shall be made again, without what was refused.
    async fn mend(&mut self, error: &ModelError, report: &Report) -> bool {
        // Whatever is left out, what the vendor's filter declines stays.
        if report.is_declined() {
            return false;
        }
        match error.kind {
            ModelErrorKind::Rejected => {}
            ModelErrorKind::Unavailable => {
                return self.adapt(error, report) || (self.is_suspicious(report) && self.leave_suspects_out().await);
            }
            ModelErrorKind::Denied
            | ModelErrorKind::RateLimited
            | ModelErrorKind::Timeout
            | ModelErrorKind::ContextOverflow => return self.adapt(error, report),
        }
        let is_format = adapt::is_about_format(report, &self.request, &self.body, &self.learned);
        let is_tool = !is_format && adapt::is_about_some_tool(report, &self.body);
        if is_tool && self.leave_refused_tools_out(Symptom::Refusal).await {
            return true;
        }
        let change = self.change(report);
        if matches!(change, Some(Change::MediaOfCall(_))) && self.leave_refused_media_out(Symptom::Refusal).await {
            return true;
        }
        change.is_some_and(|change| self.apply(change, error))
            || (adapt::is_bare(report) && self.leave_refused_tools_out(Symptom::Refusal).await)
    }

    /// Whether a fault of the provider's has come so often that it may be a refusal: some servers fail at an image or a tool
    /// that they cannot read.
    fn is_suspicious(&self, report: &Report) -> bool {
        self.request.attempt >= FAULTS && matches!(report.http, Some(500 | 502)) && self.changes.count < MAX_CHANGES
    }

    /// Leaves out what servers fail at most often, if trials show that it is what they fail at.
    async fn leave_suspects_out(&mut self) -> bool {
        if self.leave_refused_media_out(Symptom::Fault).await || self.leave_refused_tools_out(Symptom::Fault).await {
            return true;
        }
        // A server that answers a short question, and fails at a long conversation again and again, has no room for it.
        self.is_too_long = self.request.attempt == FAULTS
            && !self.is_small()
            && Trials::new(self, Symptom::Fault).is_provider_well().await;
        false
    }

    /// Ends a call that cannot be mended. What the vendor's filter declines is a refusal, not a failure. What sounds like an
    /// overflow in words that nobody knows is taken for one: a conversation that is compacted for nothing goes on, one that
    /// is never compacted does not.
    fn give_up(self: Box<Self>, error: ModelError, report: &Report) -> Result<Begun, ModelError> {
        if !report.is_declined() {
            // Only at the first attempt: if a conversation that was compacted is refused in the same words, it is not that.
            let sounds_so = self.request.attempt == 0 && report.sounds_like_overflow();
            let may_overflow = match error.kind {
                ModelErrorKind::Rejected => sounds_so,
                ModelErrorKind::Unavailable => sounds_so || self.is_too_long,
                _ => false,
            };
            let is_quoted = |words: &str| adapt::is_quoted(&self.body, words);
            return Err(match error.kind {
                ModelErrorKind::ContextOverflow if self.is_small() && report.is_echo(is_quoted) => {
                    ModelError { kind: ModelErrorKind::Rejected, ..error }
                }
                _ if may_overflow && !self.is_small() => ModelError { kind: ModelErrorKind::ContextOverflow, ..error },
                _ => error,
            });
        }
        let failures = self.caller.failures.clone();
        Ok(Begun::Answer(Box::new(AnswerStream::declined(self.wire, failures, report.words())), self))
    }

    /// The wire of the call: another one than usual where the provider has asked for it.
    fn wire_of_choice(&self) -> &'static dyn Wire {
        let is_other = self.wire.name() == chat::NAME && self.learned.wants_responses;
        if is_other { &responses::Responses } else { self.wire }
    }

    /// What a refusal's words ask to leave out.
    fn change(&self, report: &Report) -> Option<Change> {
        if self.changes.count >= MAX_CHANGES {
            return None;
        }
        match adapt::change(report, &self.request, &self.body, &self.learned) {
            Some(Change::Media(_) | Change::MediaOfCall(_)) if self.changes.has_had_enough_media() => {
                adapt::all_media(&self.request, &self.learned)
            }
            change => change,
        }
    }

    /// Makes a change. `true` if it is new.
    fn apply(&mut self, change: Change, error: &ModelError) -> bool {
        let is_new = self.changes.apply(change, &mut self.learned);
        if is_new {
            tracing::debug!(model = self.from, %error, "asking again without what was refused");
        }
        is_new
    }

    /// Finds out from the words of a failure that is no refusal what to leave out. `true` if that is new.
    fn adapt(&mut self, error: &ModelError, report: &Report) -> bool {
        match error.kind {
            ModelErrorKind::ContextOverflow => self.adapt_to_window(report) || self.leave_media_out(report),
            // Some gateways say 404 of what a model cannot do.
            ModelErrorKind::Denied => self.change(report).is_some_and(|change| self.apply(change, error)),
            ModelErrorKind::Unavailable if self.changes.count < MAX_CHANGES => {
                let change = adapt::change_after_fault(report, &self.request, &self.body, &self.learned);
                change.is_some_and(|change| self.apply(change, error))
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
            // Of several images one may be fine, and somebody else's.
            self.learned.media.retain(|one| !self.changes.media_of_call.contains(one));
            self.caller.memory.learn(&self.model, |known| known.merge(self.learned));
        }
    }

    /// A request that has too many bytes goes without its images and documents: to summarise the conversation would not make
    /// them smaller.
    fn leave_media_out(&mut self, report: &Report) -> bool {
        let change = report.is_about_bytes().then(|| adapt::all_media(&self.request, &self.learned)).flatten();
        self.changes.count < MAX_CHANGES && change.is_some_and(|change| self.changes.apply(change, &mut self.learned))
    }
}
