//! What the model is given of history, kept within its context window.

use std::sync::Arc;

use everturn_core::{Compaction, Event, Message, Messages, Outcome, Pieces, Usage, context};

use crate::{
    earlier_history::Given,
    summary::Span,
    turn::{Stopped, Turn},
};

/// The window of a model of which nobody knows it, in tokens. An overflow corrects it.
const GUESSED_WINDOW: u64 = 128_000;
/// How often one step may compact before it gives up.
const MAX_ROUNDS: usize = 3;

/// What the model is given, as far as it will not change any more: earlier turns, and the complete steps of this one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spoken {
    /// Earlier turns; of a turn that has compacted history, also what it had said by then.
    given: Given,
    /// What came since.
    since: Pieces,
    /// How many of the turn's own messages are in both.
    included: usize,
}

impl Spoken {
    /// Adds messages of the turn.
    fn add(&mut self, messages: &[Message]) {
        match self.next(messages) {
            Some(next) => self.since.push(Arc::new(next.into())),
            None => self.given.begin(messages),
        }
    }

    /// Messages of the turn as the model is given them after all that; `None` if nothing was said before them.
    fn next(&self, messages: &[Message]) -> Option<Vec<Message>> {
        let mut before = self.given.before()?;
        if let Some(last) = self.since.iter().next_back() {
            before.last = last.role();
        }
        Some(context::normalise_next(messages, before))
    }
}

impl Turn {
    /// All messages of the session.
    pub(crate) fn full_history(&self) -> Vec<Message> {
        self.earlier.full().cloned().chain(self.state.messages()).collect()
    }

    pub(crate) fn compaction(&self) -> Option<&Compaction> {
        self.state.compaction.as_ref().or(self.earlier.compaction())
    }

    /// Adds the steps that are complete by now to what the model is given.
    pub(crate) fn settle_context(&mut self) {
        let complete = self.state.complete();
        let mut spoken = self.spoken.take().unwrap_or_else(|| self.begin_context(complete));
        if complete > spoken.included {
            let messages = self.state.messages_between(spoken.included, complete);
            spoken.add(&messages);
            spoken.included = complete;
        }
        self.spoken = Some(spoken);
    }

    /// What the model is given at first: of a turn that has compacted history, everything anew.
    fn begin_context(&self, complete: usize) -> Spoken {
        if self.state.compaction.is_none() {
            let given = self.earlier.given().clone();
            return Spoken { given, ..Spoken::default() };
        }
        let own = self.state.messages_between(0, complete);
        let history: Vec<Message> = self.earlier.full().cloned().chain(own).collect();
        let mut given = Given::default();
        given.begin(&context::compact(&history, self.compaction()));
        Spoken { given, included: complete, ..Spoken::default() }
    }

    /// Instructions and conversation as the model is given them, with more messages after them.
    pub(crate) fn context(&self, more: impl IntoIterator<Item = Message>) -> (String, Messages) {
        let mut system = self.agent.instructions(&self.config);
        let fresh;
        let spoken = match &self.spoken {
            Some(spoken) => spoken,
            None => {
                fresh = self.begin_context(self.state.complete());
                &fresh
            }
        };
        let Spoken { given, since, included } = spoken;
        // Nothing that changes while the conversation goes on stands here, such as which tool servers are down: providers
        // cache what they are sent from its beginning, and some refuse their own reasoning after another beginning.
        for message in &given.system {
            if !system.is_empty() {
                system.push_str("\n\n");
            }
            system.push_str(message);
        }
        let open = self.state.messages_between(*included, usize::MAX);
        let open = spoken.next(&open).unwrap_or_else(|| context::normalise(&open).messages);
        let mut since = since.clone();
        since.push(Arc::new(open.into_iter().chain(more).collect::<Vec<_>>().into()));
        (system, self.with_documents(Messages::after(Arc::clone(&given.messages), since)))
    }

    /// How many tokens the model's context holds, as far as anybody knows.
    pub(crate) fn context_window(&self) -> Option<u64> {
        self.agent.context_window.or_else(|| self.current_model().context_window())
    }

    /// A guess at the tokens of the next call's input.
    pub(crate) fn estimated_context(&self) -> u64 {
        let (system, messages) = self.context([]);
        let tools = self.agent.tool_specs(&self.config, &self.shared.tools);
        let documents = self.documents.estimate(&messages);
        context::estimate_text(&system) + messages.size().tokens + context::estimate_tools(&tools) + documents
    }

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
                    self.compacted(Compaction { summary, covers: cut, usage })?;
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
                    self.compacted(Compaction { summary, covers: cut, usage })?;
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

    /// Records a compaction; the model is given another beginning from now on.
    fn compacted(&mut self, compaction: Compaction) -> Result<(), Stopped> {
        self.record(Event::HistoryCompacted(compaction))?;
        self.spoken = None;
        self.settle_context();
        Ok(())
    }
}
