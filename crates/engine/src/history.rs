//! What the model is given of history. `fitting.rs` keeps it within the context window.

use everturn_core::{Compaction, Message, context};

use crate::turn::Turn;

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
        // Nothing that changes while the conversation goes on stands here, such as which tool servers are down: providers
        // cache what they are sent from its beginning, and some refuse their own reasoning after another beginning.
        for message in conversation.system {
            if !system.is_empty() {
                system.push_str("\n\n");
            }
            system.push_str(&message);
        }
        (system, self.with_documents(conversation.messages))
    }

    /// How many tokens the model's context holds, as far as anybody knows.
    pub(crate) fn context_window(&self) -> Option<u64> {
        self.agent.context_window.or_else(|| self.current_model().context_window())
    }

    /// A guess at the tokens of the next call's input.
    pub(crate) fn estimated_context(&self) -> u64 {
        let (system, messages) = self.context();
        let tools = self.tool_specs();
        let documents = self.documents.estimate(&messages);
        context::estimate_text(&system) + context::estimate(&messages) + context::estimate_tools(&tools) + documents
    }
}
