//! Room for the question and its answer: windows, and rates that one request exceeds.

use everturn_core::context;

use super::{Attempt, MAX_CHANGES};
use crate::provider::{
    adapt,
    failure::{Rate, Report},
};

/// The shortest answer that is worth a call, in tokens.
const SHORTEST_ANSWER: u64 = 256;

/// Tokens that stay free beside the input and the answer: providers count some of their own.
const MARGIN: u64 = 16;

impl Attempt {
    /// Asks for no longer an answer than there is room for, where the window is configured or was told by an overflow.
    pub(super) fn leave_room(&mut self) {
        let windows = [self.caller.settings.context_window.or(self.learned.window), self.learned.rate];
        let Some(window) = windows.into_iter().flatten().min() else { return };
        let room = window.saturating_sub(self.careful_estimate());
        let asked = &mut self.request.options.max_output_tokens;
        if room >= SHORTEST_ANSWER && asked.is_some_and(|asked| asked > room) {
            *asked = Some(room);
        }
    }

    /// Learns from an overflow. `true` if the question itself fits: then the call is made again with room for a shorter
    /// answer.
    pub(super) fn adapt_to_window(&mut self, report: &Report) -> bool {
        if let Some(rate) = report.rate() {
            return self.adapt_to_rate(rate);
        }
        let is_quoted = report.window_words().is_some_and(|words| adapt::is_quoted(&self.body, &words));
        if report.window().is_none() && report.window_words().is_none() {
            self.remember_overflow(report);
        }
        let Some(window) = report.window().filter(|_| !is_quoted) else { return false };
        // What the model has read before fits, whatever this says.
        if window < self.learned.proven {
            return false;
        }
        // Our estimate may be too low; what the provider has counted is not.
        let counted = report.input();
        self.learn_density(counted);
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

    /// Keeps how much more the provider counts than we do, such as of tool declarations: the window holds so much less of what
    /// we count.
    fn learn_density(&self, counted: Option<u64>) {
        /// Of a shorter call an estimate says little.
        const LONG: u64 = 1000;
        /// What is counted beyond this is something else than text.
        const PLAUSIBLE: std::ops::RangeInclusive<u64> = 110..=300;
        let sent = self.estimate();
        let percent = counted.map(|counted| counted.saturating_mul(100) / sent.max(1) + 1);
        if let Some(percent) = percent.filter(|percent| sent >= LONG && PLAUSIBLE.contains(percent)) {
            self.caller.memory.learn(&self.model, |learned| {
                learned.percent_of_estimate = learned.percent_of_estimate.max(Some(percent));
            });
        }
    }

    /// Takes what has overflowed for the window, where the provider names none: later conversations are compacted before
    /// they come so far. What a user wrote about windows is no overflow.
    fn remember_overflow(&self, report: &Report) {
        let sent = self.estimate();
        let is_other = report.is_about_bytes() || report.is_echo(|words| adapt::is_quoted(&self.body, words));
        if self.is_small() || is_other || sent < self.learned.proven {
            return;
        }
        self.caller.memory.learn(&self.model, |learned| {
            learned.window = Some(learned.window.map_or(sent, |known| known.min(sent)));
        });
    }

    /// Learns from a request that is more than its rate allows in a whole minute. `true` if a shorter answer, which counts
    /// too, is enough to make it fit.
    fn adapt_to_rate(&mut self, rate: Rate) -> bool {
        if adapt::is_quoted(&self.body, &rate.words()) {
            return false;
        }
        let asked = self.request.options.max_output_tokens;
        let question = rate.requested.saturating_sub(asked.unwrap_or(0)).max(self.estimate());
        let room = rate.limit.saturating_sub(question + MARGIN);
        let is_first = self.learned.rate.is_none_or(|known| known > rate.limit);
        if is_first && room >= SHORTEST_ANSWER && asked.is_some_and(|asked| asked > room) {
            self.changes.count += 1;
            self.request.options.max_output_tokens = Some(room);
            self.learned.rate = Some(rate.limit);
            return true;
        }
        // A limit that is much larger than what was sent was not exceeded by it.
        if rate.limit <= self.estimate().saturating_mul(4) {
            self.caller.memory.learn(&self.model, |learned| learned.rate = Some(rate.limit));
        }
        false
    }

    /// Whether the call is so small that it overflows no window.
    pub(super) fn is_small(&self) -> bool {
        const SMALL: u64 = 512;
        self.estimate() < SMALL
    }

    /// Rather more than what the call sends, in tokens: as the provider has counted before, else a quarter more than ours.
    fn careful_estimate(&self) -> u64 {
        let percent = self.learned.percent_of_estimate.unwrap_or(125);
        (self.estimate().saturating_mul(percent) / 100).saturating_add(MARGIN)
    }

    /// Our estimate of what the call sends, in tokens.
    fn estimate(&self) -> u64 {
        context::estimate_text(&self.request.system)
            + self.request.messages.size().tokens
            + context::estimate_tools(&self.request.tools)
    }
}
