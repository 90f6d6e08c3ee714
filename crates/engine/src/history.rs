//! What the model is given of history, kept within its context window.

use everturn_core::{Compaction, Event, FailureCode, Message, Outcome, Usage, context};

use crate::{
    summary::Span,
    turn::{Stopped, Turn},
};

/// How often one step may compact before it gives up.
const MAX_ROUNDS: usize = 3;

impl Turn {
    pub(crate) fn full_history(&self) -> Vec<Message> {
        let mut history = self.prior.messages.clone();
        history.extend(self.state.messages());
        history
    }

    pub(crate) fn compaction(&self) -> Option<&Compaction> {
        self.state.compaction.as_ref().or(self.prior.compaction.as_ref())
    }

    /// Instructions and conversation as the model is given them.
    pub(crate) fn context(&self) -> (String, Vec<Message>) {
        let conversation = context::normalise(&context::compact(&self.full_history(), self.compaction()));
        let mut system = self.agent.instructions(&self.config);
        // Without the reason: it quotes the server, and the model obeys what stands here.
        let troubles = self.agent.troubles(&self.shared.tools).into_iter();
        let troubles = troubles.map(|(server, _)| format!("The tools of {server} cannot be used at the moment."));
        for message in conversation.system.into_iter().chain(troubles) {
            if !system.is_empty() {
                system.push_str("\n\n");
            }
            system.push_str(&message);
        }
        (system, self.with_documents(conversation.messages))
    }

    /// How many tokens the model's context holds, if anybody knows.
    pub(crate) fn context_window(&self) -> Option<u64> {
        self.agent.context_window.or_else(|| self.agent.models[self.model].context_window())
    }

    /// A guess at the tokens of the next call's input.
    pub(crate) fn estimated_context(&self) -> u64 {
        let (system, messages) = self.context();
        let tools = self.agent.tool_specs(&self.config, &self.shared.tools);
        context::estimate_text(&system) + context::estimate(&messages) + context::estimate_tools(&tools)
    }

    /// Makes the context fit the model's window, by compaction if need be. `overflowed` is our estimate of a context
    /// that the provider found too long: it must become clearly shorter. `false` if it cannot be made to fit; the turn
    /// has ended then.
    pub(crate) async fn fit_context(&mut self, overflowed: Option<u64>) -> Result<bool, Stopped> {
        let window = self.context_window();
        let reserve = |window: u64| self.agent.model_options.max_output_tokens.unwrap_or(window / 4).min(window / 2);
        let budget = match (overflowed, window) {
            (None, None) => return Ok(true),
            (None, Some(window)) => window - reserve(window),
            (Some(used), None) => used * 3 / 4,
            (Some(used), Some(window)) => (used * 3 / 4).min(window - reserve(window)),
        };
        for round in 0..MAX_ROUNDS {
            if self.estimated_context() <= budget {
                return Ok(true);
            }
            let keep = budget / (2 << round);
            let covered = self.compaction().map_or(0, |compaction| compaction.covers);
            let Some(cut) = context::cut(&self.full_history(), covered, keep) else { break };
            let summarised = Box::pin(self.summarise(Span { covered, cut, budget })).await;
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
                Err(error) => {
                    let message = format!("history must be summarised to go on, but that failed: {error}");
                    let retryable = error.is_retryable();
                    self.fail(FailureCode::LlmProviderError, message, retryable, Usage::default()).await?;
                    return Ok(false);
                }
            }
        }
        if self.estimated_context() <= budget {
            return Ok(true);
        }
        self.close(Outcome::MaxTokens, Usage::default(), "Tool call not run: the context window is full").await?;
        Ok(false)
    }
}
