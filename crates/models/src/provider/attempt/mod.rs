//! One call of a model, made again without what its provider refuses.
//!
//! Providers refuse a request by their status, or in the stream of an answer before they show anything of it. In both cases
//! the request is written anew; see [`super::adapt`]. Once something was shown, a failure is the engine's to judge.

mod adapting;
mod room;

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use everturn_core::Thinking;
use futures_util::StreamExt;

use self::adapting::Adapting;
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
use crate::model::{EventStream, ModelError, ModelErrorKind, ModelRequest};

/// How often one call is written anew.
const MAX_CHANGES: usize = 40;

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
    Answer(AnswerStream, Box<Attempt>),
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
                    let told = std::mem::take(&mut self.changes.notices);
                    told.into_iter().chain(notices).for_each(|notice| answer.notice(notice));
                    return Ok(Begun::Answer(answer, self));
                }
                Err(Refused { error, report }) if self.adapt(&error, &report) => {}
                Err(Refused { report, .. }) if report.is_declined() => {
                    let failures = self.caller.failures.clone();
                    let declined = AnswerStream::declined(self.wire, failures, report.words());
                    return Ok(Begun::Answer(declined, self));
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

    /// A request that has too many bytes goes without its images and documents: to summarise the conversation would not make
    /// them smaller.
    fn leave_media_out(&mut self, report: &Report) -> bool {
        let change = report.is_about_bytes().then(|| adapt::all_media(&self.request, &self.learned)).flatten();
        self.changes.count < MAX_CHANGES
            && change.is_some_and(|change| self.changes.apply(change, &self.model, &mut self.learned))
    }
}
