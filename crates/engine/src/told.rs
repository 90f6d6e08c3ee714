//! What model calls have used that are not brought to their end: what the provider told, and a guess where it did not.

use everturn_core::{Event, Usage, context};
use everturn_store::{UsageCount, Write};

use crate::turn::{Stopped, Turn};

/// How many more tokens of output are worth a place in the log, beside a quarter of those that are there.
const NEWS: u64 = 8;

/// What is known of calls under way beyond what the log says.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// The last that the provider told of the attempt at a step.
    step: Option<Usage>,
    /// The summary that is being made.
    summary: Summary,
    /// What summaries have used that were not brought to their end.
    unlogged: Usage,
}

#[derive(Debug, Default)]
struct Summary {
    /// What the attempts before this one have used.
    before: Usage,
    /// A guess at the input of this one, once it was made.
    input: u64,
    told: Option<Usage>,
    text: String,
}

/// Whether the input of a call without any answer counts as used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountInput {
    /// The call was under way when we ended it.
    Always,
    /// The provider failed before it said anything.
    IfAnswered,
}

/// What a call has used. The provider knows best what it has read; it may not have told yet all that it has written.
fn used(told: Option<Usage>, written: u64, read: impl FnOnce() -> u64, count: CountInput) -> Usage {
    match told {
        None if written == 0 && count == CountInput::IfAnswered => Usage::default(),
        Some(told) if told.input > 0 => Usage { output: told.output.max(written), ..told },
        Some(told) => Usage { input: read(), output: told.output.max(written), ..told },
        None => Usage::of(read(), written),
    }
}

impl Turn {
    /// An attempt at a step begins, or is void.
    pub(crate) fn forget_told(&mut self) {
        self.told.step = None;
    }

    /// Takes what the provider tells of the attempt under way.
    pub(crate) fn hear(&mut self, usage: Usage) {
        self.told.step = Some(self.told.step.map_or(usage, |told| told.max(usage)));
    }

    /// Writes what was told to the log where it is news, for it to outlive the process. To be called when the answer goes
    /// on: what is told with its end needs no place of its own.
    pub(crate) fn keep_told(&mut self) -> Result<(), Stopped> {
        let Some(told) = self.told.step else { return Ok(()) };
        let is_news = match self.state.step.as_ref().and_then(|step| step.told) {
            Some(kept) => told.input > kept.input || told.output >= kept.output + kept.output / 4 + NEWS,
            None => true,
        };
        if is_news {
            self.record(Event::StepUsed(told))?;
        }
        Ok(())
    }

    /// What a step that was interrupted has used. Of one that may have been waiting for its next attempt, only what was
    /// answered is known to be used.
    pub(crate) fn used_by_interrupted_step(&self) -> Usage {
        let retried = self.state.step.as_ref().is_some_and(|step| step.attempts > 0);
        self.used_by_open_step(if retried { CountInput::IfAnswered } else { CountInput::Always })
    }

    /// What the step under way has used, for providers that do not say and calls that were cut.
    pub(crate) fn used_by_open_step(&self, count: CountInput) -> Usage {
        let Some(step) = &self.state.step else { return Usage::default() };
        let calls: u64 = step.calls.iter().map(|(call, _)| context::estimate_text(call.input.as_str())).sum();
        let written = context::estimate_text(&step.text) + context::estimate_text(&step.thinking) + calls;
        // After a restart, the log is all that there is.
        used(self.told.step.or(step.told), written, || self.estimated_context(), count)
    }

    /// An attempt at a summary begins, with so many tokens of input.
    pub(crate) fn begin_summary(&mut self, input: u64) {
        self.told.summary = Summary { before: self.told.summary.before, input, ..Summary::default() };
    }

    /// Takes a piece of the summary.
    pub(crate) fn hear_summary(&mut self, piece: &str) {
        self.told.summary.text.push_str(piece);
    }

    /// Takes what the provider tells of the summary.
    pub(crate) fn hear_of_summary(&mut self, usage: Usage) {
        let told = &mut self.told.summary.told;
        *told = Some(told.map_or(usage, |told| told.max(usage)));
    }

    /// The attempt is over. Gives what the summary says; the provider may have told what it took.
    pub(crate) fn end_summary(&mut self, usage: Option<Usage>, count: CountInput) -> String {
        let usage = usage.unwrap_or_else(|| self.told.summary.used(count));
        let Summary { mut before, text, .. } = std::mem::take(&mut self.told.summary);
        before += usage;
        self.told.summary.before = before;
        text
    }

    /// What the attempts at a summary have used. They are not counted again.
    pub(crate) fn take_summary(&mut self) -> Usage {
        self.end_summary(None, CountInput::Always);
        std::mem::take(&mut self.told.summary).before
    }

    /// What is to be written for a summary that was not brought to its end. No event tells of it but the turn's end.
    pub(crate) fn spend_summary(&mut self) -> Option<Write> {
        let tokens = self.take_summary();
        self.told.unlogged += tokens;
        (!tokens.is_zero()).then(|| self.spend(UsageCount { turns: 0, calls: 1, tokens }))
    }

    /// Writes what a summary has used that was not brought to its end.
    pub(crate) fn record_spent_summary(&mut self) -> Result<(), Stopped> {
        if let Some(spent) = self.spend_summary() {
            self.record_all(&[], vec![spent])?;
        }
        Ok(())
    }

    /// What the turn has used that no event tells of.
    pub(crate) fn unlogged(&self) -> Usage {
        self.told.unlogged
    }
}

impl Summary {
    fn used(&self, count: CountInput) -> Usage {
        used(self.told, context::estimate_text(&self.text), || self.input, count)
    }
}
