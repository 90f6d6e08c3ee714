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

/// Those of a session's turns, in order, that history is made of.
pub(crate) fn in_history(mut turns: Vec<TurnRecord>) -> Vec<TurnRecord> {
    turns.retain(has_begun);
    let begin = turns.iter().rposition(|turn| turn.begins_history).unwrap_or(0);
    turns.split_off(begin)
}

impl Prior {
    /// What these turns, in order, left.
    pub(crate) fn of(turns: Vec<TurnRecord>) -> Self {
        let mut prior = Self::default();
        for turn in in_history(turns) {
            prior.messages.extend(turn.messages);
            prior.compaction = turn.compaction.or(prior.compaction);
        }
        prior
    }
}
