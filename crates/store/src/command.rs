//! What a store is told to do. Each command is kept whole or not at all.

use everturn_core::{
    CommandId, Compaction, Message, Segment, SessionConfig, SessionId, TenantId, Timestamp, TurnId, Usage,
};

use crate::{NodeId, TurnStatus};

/// One change.
///
/// Commands may be submitted again when their outcome is unknown: one that was kept already has no second effect, and
/// gives the same receipt as long as no later command has changed the same turn or deleted the session. A creation is
/// recognised by its name and time, a beginning by the turn's name, a resumption by its id, an append
/// by its epoch and seqs, a deletion by its name.
///
/// That is how the store's own caller tries again. Somebody further away, who has forgotten all but a name that it gave
/// to its request, is recognised by a [`CommandKey`].
#[derive(Clone, Debug)]
pub enum Command {
    /// Creates a session without a turn.
    CreateSession(NewSession),
    /// Begins a turn, in a new or an existing session. A session has at most one turn that has not ended: while its last
    /// turn runs, or waits and is not superseded by the new one, the command is refused as [`Refusal::Changed`].
    BeginTurn(Box<BeginTurn>),
    /// Takes up a waiting turn.
    ResumeTurn(Box<ResumeTurn>),
    /// Appends to the log of a running turn.
    Append(Append),
    /// Deletes a session with all that belongs to it. Its running turn is fenced off: appends find it gone.
    DeleteSession {
        /// Its owner.
        tenant: TenantId,
        /// The session.
        session: SessionId,
    },
}

/// See [`Command::CreateSession`].
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Its owner.
    pub tenant: TenantId,
    /// Its name. Refused if the tenant has, or had, a session of that name.
    pub id: SessionId,
    /// Agent, tools and options.
    pub config: SessionConfig,
    /// Now.
    pub at: Timestamp,
}

/// See [`Command::BeginTurn`].
#[derive(Clone, Debug)]
pub struct BeginTurn {
    /// Owner of the session.
    pub tenant: TenantId,
    /// The session.
    pub session: SessionId,
    /// The version that the session must have; `None` creates the session.
    pub expected_version: Option<u64>,
    /// The session's settings from now on.
    pub config: SessionConfig,
    /// A waiting turn that this one takes the place of, ended by the same command.
    pub supersedes: Option<Supersede>,
    /// The new turn's name.
    pub turn: TurnId,
    /// Who will run it.
    pub node: NodeId,
    /// Its first events, from seq 1.
    pub segment: Segment,
    /// Its part of history so far: its input.
    pub messages: Vec<Message>,
    /// The caller's name for the command, if it has one.
    pub key: Option<CommandKey>,
    /// Now.
    pub at: Timestamp,
}

/// A caller's name for a command, kept with it in one transaction.
///
/// For [`CommandKey::KEPT`] another command of that name by the same tenant is refused as [`Refusal::Repeated`],
/// whatever it says and whatever became of the session meanwhile, also when that was deleted. Only the recognition of
/// the very same command, see [`Command`], comes before this; all other checks come after it. A command that is refused
/// leaves no key.
///
/// Time is what the commands say, [`BeginTurn::at`] and [`ResumeTurn::at`], not what a clock shows. Once a command with
/// a key was kept, keys that are too old for it may be forgotten for good, also by those that say an earlier time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandKey {
    /// Unique among the tenant's commands.
    pub key: String,
    /// Tells what the command says, so that a repetition can be told from another use of the key.
    pub fingerprint: String,
    /// What the second one is given.
    pub outcome: String,
}

impl CommandKey {
    /// How long keys are kept, in milliseconds.
    pub const KEPT: i64 = 24 * 60 * 60 * 1000;

    /// Keys of this time and before do not count at the time `at`.
    pub(crate) fn forgotten(at: Timestamp) -> Timestamp {
        Timestamp(at.millis().saturating_sub(Self::KEPT))
    }
}

/// The end of a waiting turn. See [`BeginTurn::supersedes`].
#[derive(Clone, Debug)]
pub struct Supersede {
    /// The waiting turn.
    pub turn: TurnId,
    /// Its last events.
    pub segment: Segment,
    /// How it rests for good.
    pub rest: Rest,
}

/// See [`Command::ResumeTurn`].
#[derive(Clone, Debug)]
pub struct ResumeTurn {
    /// Tells it from another resumption that says the same: two clicks on one button must not both be taken for the one
    /// that counts.
    pub id: CommandId,
    /// Owner of the session.
    pub tenant: TenantId,
    /// The session.
    pub session: SessionId,
    /// The version that the session must have.
    pub expected_version: u64,
    /// The session's settings from now on.
    pub config: SessionConfig,
    /// The waiting turn.
    pub turn: TurnId,
    /// Who will run it.
    pub node: NodeId,
    /// The events that take it up.
    pub segment: Segment,
    /// The caller's name for the command, if it has one.
    pub key: Option<CommandKey>,
    /// Now.
    pub at: Timestamp,
}

/// See [`Command::Append`].
#[derive(Clone, Debug)]
pub struct Append {
    /// The turn.
    pub turn: TurnId,
    /// The epoch that its owner was given.
    pub epoch: u64,
    /// The next events, without a gap.
    pub segment: Segment,
    /// Given when these events bring the turn to rest.
    pub rest: Option<Rest>,
    /// Now.
    pub at: Timestamp,
}

/// What is kept of a turn that comes to rest, so that nobody has to fold its log again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// [`TurnStatus::Waiting`] or [`TurnStatus::Ended`]; a turn that runs does not rest.
    pub status: TurnStatus,
    /// Its part of history.
    pub messages: Vec<Message>,
    /// Tokens used by the whole turn.
    pub usage: Usage,
    /// The last compaction it made.
    pub compaction: Option<Compaction>,
}

/// What a command that was kept gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The epoch of the turn that the command speaks of; zero for commands on sessions alone.
    pub epoch: u64,
    /// The session's version after it; zero for a plain append and for a deletion.
    pub version: u64,
}

/// Why a command was not kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The tenant has no such session, or the session no such turn.
    #[error("not found")]
    NotFound,
    /// The tenant has, or had, a session of that name; or another session has a turn of that name.
    #[error("the session or turn exists already")]
    Exists,
    /// The session is not at the version that the command was decided upon, or its turn not in the phase: running for
    /// an append, waiting for a resumption.
    #[error("the session has changed meanwhile")]
    Changed,
    /// A command of that key was kept for the tenant not long ago. See [`CommandKey`].
    #[error("a command with this key was kept before")]
    Repeated {
        /// What that command said; see [`CommandKey::fingerprint`].
        fingerprint: String,
        /// What it gave; see [`CommandKey::outcome`].
        outcome: String,
    },
    /// Another owner has taken the turn over. Whoever sees this must stop working on it.
    #[error("the turn has another owner")]
    Fenced,
    /// The events do not follow the last durable one, or go beyond what a log can hold.
    #[error("the log ends at {head}, these events begin at {first_seq}")]
    Gap {
        /// Seq of the last durable event.
        head: u64,
        /// Where the refused events began.
        first_seq: u64,
    },
}
