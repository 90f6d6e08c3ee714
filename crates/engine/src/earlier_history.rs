//! What a session's earlier turns left, as a model is given it.
//!
//! It is shared and only grows, so that a turn costs what it adds and not what its session already has.

use std::{
    collections::{BTreeSet, HashSet},
    ops::Range,
    sync::Arc,
};

use everturn_core::{
    CallId, Compaction, DocumentId, FailureCode, Message, Outcome, Piece, Pieces, Usage,
    context::{self, Before},
};
use everturn_store::{TurnOutline, TurnRecord, TurnStatus};

use crate::unnamed_overflow::Lengths;

/// History before a turn. Cheap to clone; adding to it is cheap while nobody else holds it.
#[derive(Clone, Debug, Default)]
pub(crate) struct EarlierHistory(Arc<Inner>);

#[derive(Clone, Debug, Default)]
struct Inner {
    /// All messages, a piece for each turn. A message that nobody needs any more is empty.
    full: Pieces,
    /// How many messages that is.
    count: usize,
    /// The last compaction that was made of it.
    compaction: Option<Compaction>,
    given: Given,
    /// See [`EarlierHistory::declined`].
    declined: usize,
    /// Where the turns at the end begin that were declined one after the other, if there are any.
    declined_from: Option<usize>,
    /// Which turns failed because the provider refused their request.
    refused: Vec<usize>,
    /// See [`EarlierHistory::unanswered`].
    unanswered: usize,
    /// The tools that were called.
    called: BTreeSet<String>,
    /// The documents that it speaks of, in order.
    documents: Documents,
    /// What the last turn used that used anything.
    last_used: Usage,
    /// See [`EarlierHistory::lengths`].
    lengths: Lengths,
}

/// What a model is given of a history.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Given {
    /// The system messages that it begins with.
    pub(crate) system: Vec<String>,
    /// The rest, in the form that every provider takes.
    pub(crate) messages: Arc<Pieces>,
    /// The calls in them.
    calls: Arc<HashSet<CallId>>,
    /// Bytes of what is not shared with the full history.
    own_bytes: u64,
}

#[derive(Clone, Debug, Default)]
struct Documents {
    named: Vec<(DocumentId, String)>,
    known: HashSet<DocumentId>,
}

/// An earlier turn, as it is loaded.
pub(crate) enum EarlierTurn {
    Whole(Box<TurnRecord>),
    /// Nobody needs what was said in it.
    Outline(TurnOutline),
}

impl EarlierTurn {
    pub(crate) fn whole(turn: TurnRecord) -> Self {
        Self::Whole(Box::new(turn))
    }
}

/// What a turn left that has ended.
pub(crate) struct FinishedTurn {
    pub(crate) messages: Vec<Message>,
    pub(crate) compaction: Option<Compaction>,
    pub(crate) outcome: Outcome,
    pub(crate) usage: Usage,
    /// What answers have shown of lengths, if this process has seen them.
    pub(crate) lengths: Option<Lengths>,
}

/// Stands for what was said in turns that were declined one after the other.
const DECLINED: &str = "[What was said here was declined, and is left out.]";

impl EarlierHistory {
    /// What these turns of history, in order, left, as a model is given it. A vendor's filter that declines a message
    /// declines every later turn that repeats it; so where two turns or more were declined in a row, a note stands for what
    /// was said in them.
    pub(crate) fn of(turns: impl IntoIterator<Item = EarlierTurn>) -> Self {
        let mut inner = Inner::default();
        for turn in turns {
            let outcome = |status| match status {
                TurnStatus::Ended(outcome) => Some(outcome),
                TurnStatus::Running | TurnStatus::Waiting(_) | TurnStatus::Queued => None,
            };
            match turn {
                EarlierTurn::Whole(turn) => {
                    inner.add(turn.messages, turn.usage, outcome(turn.status).as_ref());
                    inner.compaction = turn.compaction.or(inner.compaction);
                }
                EarlierTurn::Outline(turn) => {
                    let messages = vec![forgotten(); usize::try_from(turn.message_count).unwrap_or(0)];
                    inner.add(messages, Usage::default(), outcome(turn.status).as_ref());
                }
            }
        }
        inner.forget();
        inner.given = inner.given_anew();
        Self(Arc::new(inner))
    }

    /// The same after a turn that used so much.
    pub(crate) fn after(mut self, last_used: Usage) -> Self {
        Arc::make_mut(&mut self.0).last_used = last_used;
        self
    }

    /// Adds what a turn left.
    pub(crate) fn push(&mut self, turn: FinishedTurn) {
        let FinishedTurn { messages, compaction, outcome, usage, lengths } = turn;
        let inner = Arc::make_mut(&mut self.0);
        inner.lengths = lengths.unwrap_or(std::mem::take(&mut inner.lengths));
        let declined = inner.declined;
        inner.add(messages, usage, Some(&outcome));
        if compaction.is_some() || inner.declined > declined {
            inner.compaction = compaction.or(inner.compaction.take());
            inner.forget();
            inner.given = inner.given_anew();
        } else if let Some(added) = inner.full.pieces().last().cloned() {
            inner.given.push(&added);
        }
    }

    /// All messages. A message that nobody needs any more is empty.
    pub(crate) fn full(&self) -> impl DoubleEndedIterator<Item = &Message> + Clone {
        self.0.full.iter()
    }

    /// The last compaction.
    pub(crate) fn compaction(&self) -> Option<&Compaction> {
        self.0.compaction.as_ref()
    }

    /// How many messages it has.
    pub(crate) fn messages(&self) -> usize {
        self.0.count
    }

    /// Where the messages of a turn stand.
    pub(crate) fn places_of(&self, turn: usize) -> Range<usize> {
        let length = |piece: &Arc<Piece>| piece.messages().len();
        let begin = self.0.full.pieces().iter().take(turn).map(length).sum();
        begin..begin + self.0.full.pieces().get(turn).map_or(0, length)
    }

    /// The messages of the turns from one on.
    pub(crate) fn since(&self, turn: usize) -> Vec<Message> {
        self.0.full.pieces().iter().skip(turn).flat_map(|piece| piece.messages()).cloned().collect()
    }

    /// How many turns, the last ones, failed because the provider did not answer.
    pub(crate) fn unanswered(&self) -> usize {
        self.0.unanswered
    }

    /// What a model is given of it.
    pub(crate) fn given(&self) -> &Given {
        &self.0.given
    }

    /// The same with a note for what was said in turns whose request the provider refused; `None` if there are none.
    pub(crate) fn without_refused(&self) -> Option<Self> {
        if self.0.refused.is_empty() {
            return None;
        }
        let mut inner = Inner::clone(&self.0);
        let refused = std::mem::take(&mut inner.refused);
        let pieces = inner.full.pieces().iter().enumerate().map(|(at, piece)| match refused.binary_search(&at) {
            Ok(_) => Arc::new(Piece::from(piece.messages().iter().map(left_out).collect::<Vec<_>>())),
            Err(_) => Arc::clone(piece),
        });
        inner.full = pieces.collect();
        inner.given = inner.given_anew();
        Some(Self(Arc::new(inner)))
    }

    /// How many of the messages, from the first one, reach to the last one that a note stands for because it was declined.
    pub(crate) fn declined(&self) -> usize {
        self.0.declined
    }

    /// Whether a tool was called that this is true of.
    pub(crate) fn has_called(&self, is_it: impl Fn(&str) -> bool) -> bool {
        self.0.called.iter().any(|name| is_it(name))
    }

    /// The documents that it speaks of, with their names, in order.
    pub(crate) fn documents(&self) -> &[(DocumentId, String)] {
        &self.0.documents.named
    }

    /// What the last turn used that used anything.
    pub(crate) fn last_used(&self) -> Usage {
        self.0.last_used
    }

    /// How long conversations its model has answered, as far as this process has seen.
    pub(crate) fn lengths(&self) -> &Lengths {
        &self.0.lengths
    }

    /// How many turns it is made of.
    pub(crate) fn turns(&self) -> usize {
        self.0.full.pieces().len()
    }

    /// About how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> u64 {
        /// A piece and its places in the lists.
        const PER_TURN: u64 = 200;
        /// A call's place in the list of them.
        const PER_CALL: u64 = 80;
        let Inner { full, given, .. } = &*self.0;
        let lists = PER_TURN * full.pieces().len() as u64 + PER_CALL * given.calls.len() as u64;
        full.size().memory + given.own_bytes + lists
    }
}

impl Inner {
    fn add(&mut self, messages: Vec<Message>, usage: Usage, outcome: Option<&Outcome>) {
        let is_declined = outcome == Some(&Outcome::Refused);
        self.called.extend(messages.iter().flat_map(Message::tool_uses).map(|call| call.name.clone()));
        for (id, name) in messages.iter().flat_map(context::documents) {
            if self.documents.known.insert(id.clone()) {
                self.documents.named.push((id.clone(), name.to_owned()));
            }
        }
        if !usage.is_zero() {
            self.last_used = usage;
        }
        self.count += messages.len();
        self.full.push(Arc::new(messages.into()));
        let place = self.full.pieces().len() - 1;
        if outcome.is_some_and(Outcome::is_refused_request) {
            self.refused.push(place);
        }
        let is_unanswered = matches!(outcome, Some(Outcome::Failed { code: FailureCode::LlmProviderUnavailable, .. }));
        self.unanswered = if is_unanswered { self.unanswered + 1 } else { 0 };
        match self.declined_from {
            _ if !is_declined => self.declined_from = None,
            None => self.declined_from = Some(place),
            Some(from) => {
                let pieces = self.full.pieces().iter().enumerate().map(|(at, piece)| match at < from {
                    true => Arc::clone(piece),
                    false => Arc::new(Piece::from(piece.messages().iter().map(left_out).collect::<Vec<_>>())),
                });
                self.full = pieces.collect();
                self.declined = self.count;
            }
        }
    }

    /// Lets go of turns in which nothing was said that anybody needs, now that a summary stands for it.
    fn forget(&mut self) {
        let Some(compaction) = &self.compaction else { return };
        let mut end = 0;
        let pieces = self.full.pieces().iter().map(|piece| {
            let begin = end;
            end += piece.messages().len();
            match (begin..end).all(|at| compaction.is_done_with(at)) {
                true => Arc::new(Piece::from(vec![forgotten(); end - begin])),
                false => Arc::clone(piece),
            }
        });
        self.full = pieces.collect();
    }

    fn given_anew(&self) -> Given {
        let mut given = Given::default();
        if self.compaction.is_some() {
            let full: Vec<Message> = self.full.iter().cloned().collect();
            given.begin(&context::compact(&full, self.compaction.as_ref()));
        } else {
            self.full.pieces().iter().for_each(|piece| given.push(piece));
        }
        given
    }
}

impl Given {
    /// Begins with messages.
    pub(crate) fn begin(&mut self, messages: &[Message]) {
        let conversation = context::normalise(messages);
        self.system.extend(conversation.system);
        self.add_own(conversation.messages);
    }

    /// Adds the messages of a turn. They are shared where they need no change.
    fn push(&mut self, piece: &Arc<Piece>) {
        let messages = match self.before() {
            Some(before) => context::normalise_next(piece.messages(), before),
            None => {
                let conversation = context::normalise(piece.messages());
                self.system.extend(conversation.system);
                conversation.messages
            }
        };
        if messages == piece.messages() { self.add(Arc::clone(piece)) } else { self.add_own(messages) }
    }

    /// What comes next is said after this; `None` if nothing was said yet.
    pub(crate) fn before(&self) -> Option<Before<'_>> {
        let last = self.messages.iter().next_back().map(Message::role)?;
        Some(Before { last, calls: &self.calls })
    }

    fn add_own(&mut self, messages: Vec<Message>) {
        let piece = Piece::from(messages);
        self.own_bytes += piece.size().memory;
        self.add(Arc::new(piece));
    }

    fn add(&mut self, piece: Arc<Piece>) {
        let calls = piece.messages().iter().flat_map(Message::tool_uses);
        Arc::make_mut(&mut self.calls).extend(calls.map(|call| call.id.clone()));
        Arc::make_mut(&mut self.messages).push(piece);
    }
}

/// Whether a turn has said anything. One that is queued has not, nor one that was ended while it was: all there is of it
/// is its end.
pub(crate) fn has_begun(status: &TurnStatus, head: u64) -> bool {
    *status != TurnStatus::Queued && !(status.is_ended() && head <= 1)
}

/// Stands for a message that nobody needs.
fn forgotten() -> Message {
    Message::assistant("")
}

/// Those of a session's turns, in order, that history is made of.
pub(crate) fn in_history(mut turns: Vec<TurnRecord>) -> Vec<TurnRecord> {
    turns.retain(|turn| has_begun(&turn.status, turn.head));
    let begin = turns.iter().rposition(|turn| turn.begins_history).unwrap_or(0);
    turns.split_off(begin)
}

/// All messages of these turns, in order, and the last compaction.
pub(crate) fn full_history(turns: Vec<TurnRecord>) -> (Vec<Message>, Option<Compaction>) {
    let (mut messages, mut compaction) = (Vec::new(), None);
    for turn in in_history(turns) {
        messages.extend(turn.messages);
        compaction = turn.compaction.or(compaction);
    }
    (messages, compaction)
}

/// What stands for a message that was declined. Results lose their calls by it, and are left out with them.
fn left_out(message: &Message) -> Message {
    match message {
        Message::User { .. } => Message::user(DECLINED),
        Message::Assistant { .. } => Message::assistant(DECLINED),
        Message::System { .. } | Message::Tool { .. } => message.clone(),
    }
}
