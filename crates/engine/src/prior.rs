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

/// Whether a turn has said anything. One that is queued has not, nor one that was ended while it was: all there is of it
/// is its end.
fn has_begun(turn: &TurnRecord) -> bool {
    turn.status != TurnStatus::Queued && !(turn.status.is_ended() && turn.head <= 1)
}

impl Prior {
    /// What these turns, in order, left.
    pub(crate) fn of(turns: Vec<TurnRecord>) -> Self {
        let mut prior = Self::default();
        for turn in turns.into_iter().filter(has_begun) {
            prior.messages.extend(turn.messages);
            prior.compaction = turn.compaction.or(prior.compaction);
        }
        prior
    }
}
