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
    /// How many of the messages, from the first one, reach to the last one that a note stands for because it was declined.
    pub(crate) declined: usize,
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

/// Stands for what was said in turns that were declined one after the other.
const DECLINED: &str = "[What was said here was declined, and is left out.]";

impl Prior {
    /// What these turns, in order, left.
    pub(crate) fn of(turns: Vec<TurnRecord>) -> Self {
        Self::from_history(in_history(turns))
    }

    /// What these turns left, as a model is given it. A vendor's filter that declines a message declines every later turn
    /// that repeats it; so where two turns or more were declined in a row, a note stands for what was said in them.
    pub(crate) fn for_model(turns: Vec<TurnRecord>) -> Self {
        let mut turns = in_history(turns);
        let is_declined =
            |turn: &TurnRecord| matches!(&turn.status, TurnStatus::Ended(outcome) if outcome.is_declined());
        let (mut count, mut declined) = (0, 0);
        for run in turns.chunk_by_mut(|one, next| is_declined(one) && is_declined(next)) {
            count += run.iter().map(|turn| turn.messages.len()).sum::<usize>();
            if run.len() > 1 {
                run.iter_mut().flat_map(|turn| &mut turn.messages).for_each(leave_out);
                declined = count;
            }
        }
        Self { declined, ..Self::from_history(turns) }
    }

    fn from_history(turns: Vec<TurnRecord>) -> Self {
        let mut prior = Self::default();
        for turn in turns {
            prior.messages.extend(turn.messages);
            prior.compaction = turn.compaction.or(prior.compaction);
        }
        prior
    }
}

/// Replaces what a message says. Results lose their calls by it, and are left out with them.
fn leave_out(message: &mut Message) {
    match message {
        Message::User { .. } => *message = Message::user(DECLINED),
        Message::Assistant { .. } => *message = Message::assistant(DECLINED),
        Message::System { .. } | Message::Tool { .. } => {}
    }
}
