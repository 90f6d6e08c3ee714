//! Overflows that a provider does not name: it answers a conversation that is too long with a fault of its own, with a refusal
//! in no words, or not at all.
//!
//! A fault is no proof. So the conversation is compacted only where it may be too long and the provider answers a short
//! question: a server that is simply down changes nothing.

use everturn_core::{Effort, Message, ModelOptions};
use everturn_models::{ModelError, ModelErrorKind, ModelRequest};

use crate::{
    fitting::{Carried, WithoutSummary},
    turn::{Stopped, Turn},
};

/// A shorter conversation overflows no window, in tokens.
const SHORT: u64 = 1024;
/// How often a step compacts history for such faults.
const ROUNDS: u32 = 3;

/// The notice of a conversation that was compacted for such a fault.
const MAY_BE_TOO_LONG: &str =
    "the conversation was compacted: the provider fails without a reason, and may find it too long";

/// How long conversations were that a model answered in this session, and that it failed at, in tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lengths {
    model: String,
    /// The longest that it answered.
    answered: u64,
    /// The shortest that it failed at, where it answered a shorter one right after that.
    failed: Option<u64>,
}

/// What is known in a step of faults without words.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// How many there were.
    count: u32,
    /// Whether the provider has answered a short question since.
    is_provider_well: bool,
    /// How often history was compacted for them.
    rounds: u32,
    /// How long the conversation was at the last of them.
    length: u64,
    /// How often the step has looked for earlier messages that the provider refuses.
    pub(crate) searches: u32,
}

impl Turn {
    /// The window as far as faults tell it: what the model fails at does not fit.
    pub(crate) fn window_by_faults(&self) -> Option<u64> {
        self.lengths()?.failed
    }

    /// What is known of the current model.
    fn lengths(&self) -> Option<&Lengths> {
        Some(&self.lengths).filter(|lengths| lengths.model == self.current_model().name())
    }

    /// A call of the step has failed.
    pub(crate) fn note_fault(&mut self, error: &ModelError) {
        if error.kind == ModelErrorKind::Unavailable && !error.is_busy {
            self.faults.count += 1;
        }
    }

    /// The model has answered.
    pub(crate) fn note_answer(&mut self) {
        if self.lengths.model != self.current_model().name() {
            self.lengths = Lengths { model: self.current_model().name().to_owned(), ..Lengths::default() };
        }
        let lengths = &mut self.lengths;
        lengths.answered = lengths.answered.max(self.sent);
        if self.faults.rounds > 0 && self.sent < self.faults.length {
            lengths.failed = Some(self.faults.length);
        }
        lengths.failed = lengths.failed.filter(|failed| *failed > lengths.answered);
    }

    /// Compacts history if the model may have failed at its length. `true` if the call is to be made again.
    pub(crate) async fn compact_after_faults(&mut self, error: &ModelError) -> Result<bool, Stopped> {
        let length = self.sent.max(self.estimated_context());
        if !self.may_have_overflowed(error, length) {
            return Ok(false);
        }
        if !self.faults.is_provider_well {
            self.faults.is_provider_well = self.is_provider_well().await;
            // It may have recovered in the meantime: then nothing needs to be compacted.
            return Ok(self.faults.is_provider_well);
        }
        // Where that was not enough before, the window is much smaller.
        let room = self.room(Some(if self.faults.rounds == 0 { length } else { length / 2 }));
        let Some(plan) = self.planned(&room, false) else { return Ok(false) };
        let carried = Box::pin(self.carry_out(plan, &room, length, WithoutSummary::IfAnswered, None)).await?;
        if !matches!(carried, Carried::Out) {
            return Ok(false);
        }
        self.faults.rounds += 1;
        self.faults.length = length;
        self.notice(MAY_BE_TOO_LONG.to_owned())?;
        Ok(true)
    }

    /// Whether a fault may be an overflow: of a conversation that comes near the window, or is longer than any that the model
    /// has answered in the session.
    fn may_have_overflowed(&self, error: &ModelError, length: u64) -> bool {
        let is_fault = match error.kind {
            _ if error.is_busy => false,
            ModelErrorKind::Unavailable | ModelErrorKind::Timeout => true,
            ModelErrorKind::Rejected => error.says_nothing,
            // Some gateways say after a fault that there were too many calls.
            ModelErrorKind::RateLimited => self.faults.count > 0,
            _ => false,
        };
        let answered = self.lengths().map_or(0, |lengths| lengths.answered);
        let is_long = length > self.window() / 5 * 3 || length > answered;
        is_fault && is_long && length > SHORT && self.faults.rounds < ROUNDS && !self.has_begun_to_answer()
    }

    /// Whether the provider answers a short question.
    async fn is_provider_well(&mut self) -> bool {
        let request = ModelRequest {
            messages: [Message::user("Answer with the word yes.")].into(),
            options: ModelOptions { effort: Some(Effort::Low), ..ModelOptions::default() },
            body: self.agent.side_body(),
            context_window: self.agent.context_window,
            ..ModelRequest::default()
        };
        self.is_answered(request).await == Some(true)
    }
}
