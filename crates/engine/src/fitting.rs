//! Keeps what the model is given within its context window.

use everturn_core::{Compaction, Event, Outcome, Usage, context};

use crate::{
    summary::Span,
    turn::{Stopped, Turn},
};

/// The window of a model of which nobody knows it, in tokens. An overflow corrects it.
const GUESSED_WINDOW: u64 = 128_000;
/// How often one step may compact before it gives up.
const MAX_ROUNDS: usize = 3;

impl Turn {
    /// Makes the context fit the model's window, by compaction if need be. `overflowed` is our estimate of a context
    /// that the provider found too long: it must become clearly shorter. `false` if it cannot be made to fit; the turn
    /// has ended then.
    pub(crate) async fn fit_context(&mut self, overflowed: Option<u64>) -> Result<bool, Stopped> {
        let mut size = self.estimated_context();
        self.current_model().prepare(size).await;
        let window = self.context_window();
        let caps = [self.agent.model_options.max_output_tokens, self.current_model().max_output()];
        let answer = caps.into_iter().flatten().min();
        // Models that could fill their whole window do not: only a quarter is kept free for them.
        let reserve = |window: u64| answer.filter(|answer| *answer <= window / 2).unwrap_or(window / 4);
        let (is_guess, window) = (window.is_none(), window.unwrap_or(GUESSED_WINDOW));
        let fitting = window - reserve(window);
        let budget = overflowed.map_or(fitting, |used| (used * 3 / 4).min(fitting));
        for round in 0..MAX_ROUNDS {
            if size <= budget {
                return Ok(true);
            }
            let keep = budget / (2 << round);
            let covered = self.compaction().map_or(0, |compaction| compaction.covers);
            let Some(cut) = context::cut(&self.full_history(), covered, keep) else { break };
            let span = Span { covered, cut, budget };
            let summarised = Box::pin(self.summarise(span)).await;
            if summarised.is_err()
                && let Some(spent) = self.spend_summary()
            {
                self.record_all(&[], vec![spent])?;
            }
            match summarised {
                Ok(summary) => {
                    let usage = self.take_summary();
                    self.record(Event::HistoryCompacted(Compaction { summary, covers: cut, usage }))?;
                }
                Err(error) if self.model + 1 < self.agent.models.len() => {
                    let model = self.agent.models[self.model + 1].name().to_owned();
                    self.record(Event::ModelChanged { model, reason: error.message })?;
                    self.model += 1;
                    // Another model, another window.
                    return Box::pin(self.fit_context(overflowed)).await;
                }
                // A conversation that cannot be summarised goes on without its oldest part.
                Err(error) => {
                    tracing::warn!(turn = %self.log.turn(), %error, "history was not summarised; its oldest part is left out");
                    let (summary, usage) = (self.summary_without_model(span), Usage::default());
                    self.record(Event::HistoryCompacted(Compaction { summary, covers: cut, usage }))?;
                }
            }
            size = self.estimated_context();
        }
        // A guess must not end a turn: the provider knows better.
        if size <= budget || (is_guess && overflowed.is_none()) {
            return Ok(true);
        }
        self.close(Outcome::MaxTokens, Usage::default(), "Tool call not run: the context window is full").await?;
        Ok(false)
    }
}
