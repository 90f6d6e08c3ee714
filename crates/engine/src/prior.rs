//! What a session's earlier turns left.

use everturn_core::{Compaction, Message};
use everturn_store::{TurnRecord, TurnStatus};

/// History before a turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prior {
    /// All of it.
    pub(crate) messages: Vec<Message>,
    /// The last compaction that was made of it.
    pub(crate) compaction: Option<Compaction>,
}

impl Prior {
    /// What these turns, in order, left.
    pub(crate) fn of(turns: Vec<TurnRecord>) -> Self {
        let mut prior = Self::default();
        // What is queued has not been said yet.
        for turn in turns.into_iter().filter(|turn| turn.status != TurnStatus::Queued) {
            prior.messages.extend(turn.messages);
            prior.compaction = turn.compaction.or(prior.compaction);
        }
        prior
    }
}
