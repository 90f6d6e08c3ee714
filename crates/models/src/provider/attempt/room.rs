//! Room for the question and its answer: windows, and rates that one request exceeds.

use everturn_core::{Block, Message, context};

use super::{Attempt, MAX_CHANGES, adapting::Sent};
use crate::provider::{
    SHORT, adapt, catalog,
    failure::{Rate, Report},
};

/// The shortest answer that is worth a call, in tokens.
const SHORTEST_ANSWER: u64 = 256;

/// Tokens that stay free beside the input and the answer: providers count some of their own.
const MARGIN: u64 = 16;

impl Attempt {
    /// Asks for no longer an answer than there is room for, where the window is configured, was told by an overflow, or must
    /// hold the cap as well.
    pub(super) fn leave_room(&mut self) {
        let known = || catalog::known(&self.model).window.filter(|_| self.wire.counts_cap(&self.model));
        let window = self.asked_window().or(self.learned.window).or_else(known);
        let Some(window) = [window, self.learned.rate].into_iter().flatten().min() else { return };
        let room = window.saturating_sub(self.careful_estimate());
        // A guess shall not cut an answer short: a provider that refuses the call says how much room there is.
        let least = if self.density().is_some() { SHORTEST_ANSWER } else { (window / 16).clamp(SHORTEST_ANSWER, 4096) };
        let asked = self.request.options.max_output_tokens.or_else(|| self.usual_cap());
        if room >= least && asked.is_some_and(|asked| asked > room) {
            self.request.options.max_output_tokens = Some(room);
        }
    }

    /// The window that configuration names.
    fn asked_window(&self) -> Option<u64> {
        let settings = &self.caller.settings;
        let bodies = [self.request.body.as_ref(), settings.body.as_ref()];
        let asked = bodies.into_iter().flatten().find_map(|body| self.wire.window_of_body(body));
        asked.or(settings.context_window)
    }

    /// What the provider is to be measured by, if the call is one of a conversation, and of text for the most part.
    pub(super) fn sent(&self) -> Option<Sent> {
        const TOKENS_OF_IMAGE: u64 = 1000;
        let estimate = self.estimate();
        let is_image = |block: &&Block| matches!(block, Block::Image { .. });
        let images = |message: &Message| match message {
            Message::User { content } | Message::Tool { content, .. } => {
                content.blocks().iter().filter(is_image).count()
            }
            Message::System { .. } | Message::Assistant { .. } => 0,
        };
        let images = self.request.messages.iter().map(images).sum::<usize>() as u64;
        let has_files = self.request.documents.values().any(|document| document.base64.is_some());
        let is_text = !has_files && images * TOKENS_OF_IMAGE * 4 <= estimate;
        let conversation = self.request.cache_key.clone().filter(|_| is_text)?;
        Some(Sent { conversation, estimate })
    }

    /// Learns from an overflow. `true` if the question itself fits: then the call is made again with room for a shorter
    /// answer.
    pub(super) fn adapt_to_window(&mut self, report: &Report) -> bool {
        // Where an answer has filled the window, a shorter one would only be cut off earlier.
        if report.is_window_filled() {
            return false;
        }
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
            self.learned.learn_window(window);
            let percent = counted.map(|counted| counted.saturating_mul(100) / self.estimate().max(1) + 1);
            self.learned.percent_of_estimate = percent.max(self.learned.percent_of_estimate);
            return true;
        }
        // A window that is much larger than what was sent cannot have overflowed.
        if window <= self.estimate().saturating_mul(4) {
            self.learn_window(window);
        }
        false
    }

    fn learn_window(&self, window: u64) {
        self.caller.memory.learn(&self.model, |learned| learned.learn_window(window));
    }

    /// Keeps how much more the provider counts than we do, such as of tool declarations: the window holds so much less of what
    /// we count.
    fn learn_density(&self, counted: Option<u64>) {
        /// Of a shorter call an estimate says little.
        const LONG: u64 = 1000;
        /// What is counted beyond this is something else than text.
        const PLAUSIBLE: std::ops::RangeInclusive<u64> = 110..=300;
        let sent = self.estimate();
        if let (Some(counted), Some(conversation)) = (counted, &self.request.cache_key) {
            self.caller.memory.measure(&self.model, conversation, sent, counted);
        }
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
        let estimate = self.estimate();
        let is_other = report.is_about_bytes() || report.is_echo(|words| adapt::is_quoted(&self.body, words));
        if self.is_small() || is_other {
            return;
        }
        // The model has read more than we take this call for: its text is denser than we think.
        let sent = estimate.saturating_mul(self.density().unwrap_or(100).max(100)) / 100;
        let window = sent.max(self.learned.proven);
        if let Some(conversation) = self.request.cache_key.as_deref().filter(|_| window > sent) {
            self.caller.memory.measure(&self.model, conversation, estimate, window);
        }
        self.learn_window(window);
    }

    /// Learns from a request that is more than its rate allows in a whole minute. `true` if a shorter answer, which counts
    /// too, is enough to make it fit.
    fn adapt_to_rate(&mut self, rate: Rate) -> bool {
        if adapt::is_quoted(&self.body, &rate.words()) {
            return false;
        }
        let asked = self.request.options.max_output_tokens;
        let counted = asked.map(|asked| rate.requested.saturating_sub(asked));
        self.learn_density(counted);
        let question = counted.unwrap_or(rate.requested).max(self.estimate());
        let room = rate.limit.saturating_sub(question + MARGIN);
        if self.changes.count < MAX_CHANGES && room >= SHORTEST_ANSWER && asked.is_some_and(|asked| asked > room) {
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

    /// Whether the call has less than half of the window that its server or its model's name tells, or is so short that nobody was
    /// asked.
    pub(super) fn is_far_below_window(&self) -> bool {
        if self.estimate() < SHORT {
            return true;
        }
        let window = self.asked_window().or(self.learned.window).or_else(|| catalog::known(&self.model).window);
        window.is_some_and(|window| self.careful_estimate() < window / 2)
    }

    /// Whether the call is so small that it overflows no window.
    pub(super) fn is_small(&self) -> bool {
        const SMALL: u64 = 512;
        self.estimate() < SMALL
    }

    /// Rather more than what the call sends, in tokens: as the provider has counted before, else a quarter more than ours.
    fn careful_estimate(&self) -> u64 {
        let percent = self.density().unwrap_or(125);
        (self.estimate().saturating_mul(percent) / 100).saturating_add(MARGIN)
    }

    /// Tokens that the provider counts for a hundred of our estimate, as far as it has told.
    fn density(&self) -> Option<u64> {
        self.caller.memory.density(&self.model, self.request.cache_key.as_deref()).or(self.learned.percent_of_estimate)
    }

    /// Our estimate of what the call sends, in tokens.
    fn estimate(&self) -> u64 {
        // Messages may have been summarised whose documents are still at hand.
        let named = |message: &Message| match message {
            Message::User { content } if !self.request.documents.is_empty() => content
                .blocks()
                .iter()
                .filter_map(|block| match block {
                    Block::Document { id, .. } => self.request.documents.get(id),
                    _ => None,
                })
                .map(|document| context::estimate_text(&document.text))
                .sum::<u64>(),
            _ => 0,
        };
        let documents = self.request.messages.iter().map(named);
        context::estimate_text(&self.request.system)
            + self.request.messages.size().tokens
            + context::estimate_tools(&self.request.tools)
            + documents.sum::<u64>()
    }
}
