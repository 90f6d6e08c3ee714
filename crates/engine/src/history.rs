//! What the model is given of history. `fitting.rs` keeps it within the context window.

use std::sync::Arc;

use everturn_core::{Compaction, Message, Messages, Pieces, context};

use crate::{
    earlier_history::{EarlierHistory, Given},
    turn::Turn,
};

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
        self.earlier_given().full().cloned().chain(self.state.messages()).collect()
    }

    /// What earlier turns left, without what the provider refuses.
    pub(crate) fn earlier_given(&self) -> &EarlierHistory {
        self.without_refused.as_ref().unwrap_or(&self.earlier)
    }

    /// Leaves out what was said in earlier turns whose request the provider refused. `false` if there are none, or they are
    /// left out already.
    pub(crate) fn leave_refused_turns_out(&mut self) -> bool {
        if self.without_refused.is_some() {
            return false;
        }
        self.without_refused = self.earlier.without_refused();
        if self.without_refused.is_some() {
            self.spoken = None;
            self.settle_context();
        }
        self.without_refused.is_some()
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
            let given = self.earlier_given().given().clone();
            return Spoken { given, ..Spoken::default() };
        }
        let own = self.state.messages_between(0, complete);
        let history: Vec<Message> = self.earlier_given().full().cloned().chain(own).collect();
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
        let replaced = self.config.overlay.as_ref().and_then(|overlay| overlay.system.as_ref());
        let said = replaced.map_or(given.system.as_slice(), std::slice::from_ref);
        for message in said.iter().filter(|message| !message.is_empty()) {
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
    pub(crate) fn told_window(&self) -> Option<u64> {
        let model = self.current_model();
        let asked = self.agent.asked_window(&**model);
        let asked = asked.map(|asked| model.refused_window().map_or(asked, |refused| asked.min(refused)));
        asked.or_else(|| model.context_window())
    }

    /// The same in tokens as we count them: where a conversation is denser than we think, as Chinese or base64 is, the window
    /// holds less of it.
    pub(crate) fn context_window(&self) -> Option<u64> {
        let density = self.current_model().density(Some(&self.cache_key));
        let known = self.told_window().map(|window| window.saturating_mul(100) / density.max(100));
        [known, self.window_by_faults()].into_iter().flatten().min()
    }

    /// The most tokens that the declarations of tools may have: three quarters of the window. Once a call has overflowed, they
    /// have less than it must shrink to, so that there is room for what was said.
    pub(crate) fn most_tools(&self) -> Option<u64> {
        let of_window = self.context_window().map(|window| window / 4 * 3);
        let of_overflow = self.overflowed.filter(|(model, _)| *model == self.model).map(|(_, tokens)| {
            let instructions = context::estimate_text(&self.agent.instructions(&self.config));
            (tokens / 8 * 5).saturating_sub(instructions)
        });
        [of_window, of_overflow].into_iter().flatten().min()
    }

    /// A guess at the tokens of the next call's input.
    pub(crate) fn estimated_context(&self) -> u64 {
        let (system, messages) = self.context([]);
        let tools = self.tool_specs();
        let documents = self.documents.estimate(messages.iter());
        context::estimate_text(&system) + messages.size().tokens + context::estimate_tools(&tools) + documents
    }
}
