//! One call of a model, made again without what its provider refuses.
//!
//! Providers refuse a request by their status, or in the stream of an answer before they show anything of it. In both cases
//! the request is written anew; see [`super::adapt`]. Once something was shown, a failure is the engine's to judge.

mod adapting;
mod image_forms;
mod media_search;
mod room;
mod search;
mod tool_search;
mod trial;
mod unfinished;
mod writing;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use everturn_core::Usage;
use futures_util::StreamExt;
use tokio::time::Instant;

use self::{
    adapting::Adapting,
    search::Search,
    trial::{Symptom, Trials},
};
pub(super) use self::{adapting::shows, unfinished::Unfinished};
use super::{
    adapt::{self, Change, Changes},
    call::{AnswerStream, Caller, Origin, Refused},
    chat,
    failure::Report,
    learned::{ImageForm, Learned, declaration},
    left_out::{self, Lighter},
    media::{self, Limits},
    responses, tool_names,
    wire::{Wire, Written},
};
use crate::model::{EventStream, ModelError, ModelErrorKind, ModelRequest};

/// Failed attempts after which a fault of the provider's is suspicious.
const FAULTS: u32 = 2;

/// How often a call must fail, while the provider answers short questions, before something of it is left out: a server that
/// fails now and then, or has just recovered, must cost the conversation nothing.
const CERTAIN: u32 = 3;

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
    /// Whether the same request was sent again after a refusal that nobody understands.
    has_asked_again: bool,
    /// When no more trials are made.
    trials_end: OnceLock<Instant>,
    /// What was known before things were left out on a guess.
    before_guesses: Option<Box<Learned>>,
    /// How often the call has failed while the provider answered a short question.
    faults: u32,
    /// What a refusal in unknown words is looked for in next.
    search: Search,
    /// How often the tools were searched for those that are refused.
    tool_searches: usize,
    /// Whether the images and documents were searched for those that are refused.
    has_searched_media: bool,
    /// The tokens that trials have used and that no event has told yet.
    used_by_trials: Mutex<Usage>,
}

/// A call that has failed, and what its trials have used.
struct Failed {
    error: ModelError,
    used: Usage,
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
        let mut request = media::readable(request, Limits::of(wire, &caller.settings)).await;
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
            has_asked_again: false,
            trials_end: OnceLock::new(),
            before_guesses: None,
            faults: 0,
            search: Search::default(),
            tool_searches: 0,
            has_searched_media: false,
            used_by_trials: Mutex::default(),
        };
        attempt.go_on_from_unfinished();
        attempt.use_known_forms().await;
        attempt.leave_room();
        let origin = (Arc::clone(&attempt.caller), attempt.model.clone());
        let answer = AnswerStream::empty(wire, attempt.caller.failures.clone());
        let mut adapting = Adapting::new(answer, origin, attempt.sent());
        match Box::new(attempt).begin(Waiting::Short).await {
            Ok(begun) => adapting.go_on(begun),
            Err(Failed { error, used }) if used.is_zero() => return Err(error),
            Err(failed) => adapting.fail(failed),
        }
        Ok(adapting.boxed())
    }

    /// Adds the tokens of a trial.
    fn count_trial(&self, usage: Usage) {
        *self.used_by_trials.lock().unwrap_or_else(PoisonError::into_inner) += usage;
    }

    /// The tokens of the trials since they were last taken.
    fn take_used_by_trials(&self) -> Usage {
        std::mem::take(&mut *self.used_by_trials.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends the request until it is answered, or until `waiting` ends.
    async fn begin(mut self: Box<Self>, waiting: Waiting) -> Result<Begun, Failed> {
        loop {
            if waiting == Waiting::Short && self.learned.fields.contains("stream") {
                return Ok(Begun::Whole(self));
            }
            self.wire = self.wire_of_choice();
            let Written { body, notices, prefix } =
                self.write().map_err(|error| Failed { error, used: self.take_used_by_trials() })?;
            self.body = Bytes::from(body);
            match self.caller.send(self.wire, &self.model, self.body.clone()).await {
                Ok(response) => {
                    let origin = Origin { wire: self.wire.name(), from: self.from.clone(), prefix };
                    let failures = self.caller.failures.clone();
                    let mut answer =
                        AnswerStream::new(self.wire, response, failures, origin).held_to(&self.request.options);
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
    async fn begin_again(mut self: Box<Self>, error: ModelError, report: Report) -> Result<Begun, Failed> {
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
                return self.adapt(error, report).await
                    || (self.is_suspicious(report) && self.leave_suspects_out().await);
            }
            ModelErrorKind::Denied
            | ModelErrorKind::RateLimited
            | ModelErrorKind::Timeout
            | ModelErrorKind::ContextOverflow => return self.adapt(error, report).await,
        }
        let is_format = adapt::is_about_format(report, &self.request, &self.body, &self.learned);
        let is_stream = adapt::is_about_stream(report, &self.body, &self.learned);
        let is_tool = !is_format && !is_stream && adapt::is_about_some_tool(report, &self.body);
        if is_tool && self.leave_refused_tools_out(Symptom::Refusal).await {
            return true;
        }
        if let Some(change) = self.change(report) {
            if self.use_other_forms(&change, report).await {
                return true;
            }
            let is_media = matches!(change, Change::MediaOfCall(_));
            if (is_media && self.leave_refused_media_out(Symptom::Refusal).await) || self.apply(change, error) {
                return true;
            }
        }
        if report.is_about_access() {
            return false;
        }
        // Some gateways refuse a request now and then. Nothing is blamed for it that is not refused again.
        if !std::mem::replace(&mut self.has_asked_again, true) {
            return true;
        }
        self.guess_what_is_refused(error, report).await || self.search_what_is_refused(error).await
    }

    /// Leaves out what vendors differ most about, one after the other.
    async fn guess_what_is_refused(&mut self, error: &ModelError, report: &Report) -> bool {
        if self.changes.count >= MAX_CHANGES {
            return false;
        }
        let Some(change) = adapt::guess(report, &self.request, &self.learned) else { return false };
        self.before_guesses.get_or_insert_with(|| Box::new(self.learned.clone()));
        if self.use_other_forms(&change, report).await {
            return true;
        }
        let is_media = matches!(change, Change::MediaOfCall(_));
        (is_media && self.leave_refused_media_out(Symptom::Refusal).await) || self.apply(change, error)
    }

    /// Whether a fault of the provider's has come so often that it may be a refusal: some servers fail at an image or a tool
    /// that they cannot read.
    fn is_suspicious(&self, report: &Report) -> bool {
        let is_fault = report.is_fault() && !report.is_busy(report.http);
        self.request.attempt >= FAULTS && is_fault && self.changes.count < MAX_CHANGES
    }

    /// Leaves out what servers fail at most often, if trials show that it is what they fail at.
    async fn leave_suspects_out(&mut self) -> bool {
        if !Trials::new(self, Symptom::Fault).is_provider_well().await {
            return false;
        }
        self.faults += 1;
        if self.faults < CERTAIN {
            return true;
        }
        self.leave_refused_media_out(Symptom::Fault).await
            || self.leave_refused_tools_out(Symptom::Fault).await
            || self.say_nothing_beside_calls(Symptom::Fault).await
    }

    /// Ends a call that cannot be mended. What the vendor's filter declines is a refusal, not a failure. What sounds like an
    /// overflow in words that nobody knows is taken for one: a conversation that is compacted for nothing goes on, one that
    /// is never compacted does not.
    fn give_up(self: Box<Self>, error: ModelError, report: &Report) -> Result<Begun, Failed> {
        if error.is_retryable() {
            self.caller.unfinished.keep(&self);
        }
        if !report.is_declined() {
            // Only at the first attempt: if a conversation that was compacted is refused in the same words, it is not that.
            let may_overflow = self.request.attempt == 0
                && report.sounds_like_overflow()
                && matches!(error.kind, ModelErrorKind::Rejected | ModelErrorKind::Unavailable);
            // A server may fail at what others ask of it at the same time: llama.cpp's slots share one window.
            let may_overflow = may_overflow && (error.kind == ModelErrorKind::Rejected || !self.is_far_below_window());
            let is_quoted = |words: &str| adapt::is_quoted(&self.body, words);
            let error = match error.kind {
                ModelErrorKind::ContextOverflow if self.is_small() && report.is_echo(is_quoted) => {
                    ModelError { kind: ModelErrorKind::Rejected, ..error }
                }
                _ if may_overflow && !self.is_small() => ModelError { kind: ModelErrorKind::ContextOverflow, ..error },
                _ => error,
            };
            return Err(Failed { error, used: self.take_used_by_trials() });
        }
        let failures = self.caller.failures.clone();
        Ok(Begun::Answer(Box::new(AnswerStream::declined(self.wire, failures, report.shown())), self))
    }

    /// The wire of the call: another one than usual where the provider has asked for it.
    fn wire_of_choice(&self) -> &'static dyn Wire {
        match self.wire.name() {
            chat::NAME if self.learned.wants_responses && !self.learned.wants_chat => &responses::Responses,
            responses::NAME if self.learned.wants_chat => &chat::Chat,
            _ => self.wire,
        }
    }

    /// What a refusal's words ask to leave out.
    fn change(&self, report: &Report) -> Option<Change> {
        if self.changes.count >= MAX_CHANGES {
            return None;
        }
        // A server that has asked for Responses itself has them.
        let may_be_chat = self.wire.name() == responses::NAME
            && !self.caller.settings.is_wire_configured
            && !self.learned.wants_responses;
        if may_be_chat && adapt::lacks_responses(report, &self.body) {
            return Some(Change::Chat);
        }
        match adapt::change(report, &self.request, &self.body, &self.learned, self.wire.required()) {
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
    async fn adapt(&mut self, error: &ModelError, report: &Report) -> bool {
        let change = match error.kind {
            ModelErrorKind::ContextOverflow => {
                return self.adapt_to_window(report) || self.leave_media_out(report).await;
            }
            // Some gateways say 404 of what a model cannot do.
            ModelErrorKind::Denied => self.change(report),
            ModelErrorKind::Unavailable if self.changes.count < MAX_CHANGES => {
                // A refusal within a stream has no status, and often no name.
                let is_told = report.http.is_none() && !report.is_fault();
                let change = is_told.then(|| self.change(report)).flatten();
                change.or_else(|| adapt::change_after_fault(report, &self.request, &self.body, &self.learned))
            }
            ModelErrorKind::Rejected
            | ModelErrorKind::RateLimited
            | ModelErrorKind::Unavailable
            | ModelErrorKind::Timeout => None,
        };
        let Some(change) = change else { return false };
        self.use_other_forms(&change, report).await || self.apply(change, error)
    }

    /// Keeps what was found out: the provider answers.
    fn succeed(mut self) {
        let media_bytes = left_out::sent_bytes(&self.request, &self.learned);
        if media_bytes > self.learned.proven_media_bytes {
            self.caller.memory.learn(&self.model, |known| {
                known.proven_media_bytes = known.proven_media_bytes.max(media_bytes);
            });
        }
        if self.changes.count > 0 {
            // A value that is refused says nothing about others.
            self.learned.fields.retain(|field| !self.changes.values.contains(field));
            // Of several images one may be fine, and somebody else's.
            self.learned.media.retain(|one| !self.changes.media_of_call.contains(one));
            self.caller.memory.learn(&self.model, |known| known.merge(self.learned));
        }
    }

    /// A request that has too many bytes goes with small images, then without the oldest images and documents, then without
    /// the last one: to summarise the conversation would not make them smaller.
    async fn leave_media_out(&mut self, report: &Report) -> bool {
        if !report.is_about_bytes() {
            return false;
        }
        if self.change_all_forms(ImageForm::Small).await {
            return true;
        }
        let change = left_out::lighter(&self.request, &self.learned).map(|lighter| match lighter {
            Lighter::Bytes(most) => Change::MaxMediaBytes(most),
            Lighter::Without(only) => Change::Media(vec![only]),
        });
        self.changes.count < MAX_CHANGES && change.is_some_and(|change| self.changes.apply(change, &mut self.learned))
    }
}
