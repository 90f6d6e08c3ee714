//! What a store is told to do. Each command is kept whole or not at all.

use bytes::Bytes;
use everturn_core::{
    CommandId, Compaction, Json, KeyId, Message, ModelOptions, Segment, SessionConfig, SessionId, TenantId, Timestamp,
    TurnId, Usage,
};

use crate::{NewSession, NodeId, Record, RecordKind, TruncateSession, TurnStatus, UsageRow};

/// One change.
///
/// Commands may be submitted again when their outcome is unknown: one that was kept already has no second effect, and
/// gives the same receipt as long as no later command has changed the same turn, or truncated or deleted the session. A
/// creation is recognised by its name and time and, as long as nothing has changed the session, its settings and turns; a
/// truncation by the version that it was decided upon, its time, how far it goes and the turn that it brings; a beginning
/// by the turn's name, a resumption by its id, an append by its epoch and seqs, an end by the version that it was decided
/// upon, its seqs and its outcome, a deletion by its name. The others say the same when they come again; see [`Put`] for
/// what that means.
///
/// What a command brings along in [`Write`]s is judged and kept with it: one that is refused writes nothing, one that is
/// recognised writes nothing a second time. A write that speaks of a session is refused as [`Refusal::NotFound`] unless
/// the tenant has that session, or the command creates it.
///
/// That is how the store's own caller tries again. Somebody further away, who has forgotten all but a name that it gave
/// to its request, is recognised by a [`CommandKey`].
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all commands are appends, which need no allocation more")]
pub enum Command {
    /// Creates a session without a turn that runs: empty, or with history that it shares with another or brings along.
    /// Refused as [`Refusal::Exists`] if the tenant has, or had, a session of that name; see [`crate::Shares`] and
    /// [`crate::EndedTurn`] for the rest.
    CreateSession(Box<NewSession>),
    /// Begins a turn, in a new or an existing session, or puts it into the session's queue.
    ///
    /// A session has at most one turn that runs or waits. A turn that shall run now is refused as [`Refusal::Changed`]
    /// while another runs, or waits and is not superseded by it, or while turns are queued. A turn that is queued is
    /// refused so if the session has another version than expected, or the command says what [`Start::Queued`] rules out.
    /// But a later version than expected is fine if the session still has a turn that runs, waits or is queued, and the
    /// settings that the command names: turns that join a queue collide neither with each other nor with those before them.
    BeginTurn(Box<BeginTurn>),
    /// Takes up a turn that waits, or the first queued turn, if no other runs or waits. Refused as
    /// [`Refusal::Changed`] if the session has another version than expected. But a later one is fine if the turn is queued
    /// and the session still has the settings that the command names: until the first turn of a queue runs, nothing else in
    /// its session does.
    ResumeTurn(Box<ResumeTurn>),
    /// Ends a turn that waits or is queued, without running it. Refused as [`Refusal::Changed`] if it does neither, or if
    /// the session has another version than expected.
    EndTurn(Box<EndTurn>),
    /// Takes the last turns of a session away, and puts an ended one in their place if one is given. That there is nothing
    /// to take away is fine; the session has another version all the same. Its records stay, and so do the tokens that it
    /// has used. Refused as [`Refusal::Changed`] if a turn of the session runs, waits or is queued, or if the session has
    /// another version than expected; see [`crate::EndedTurn`] for the rest.
    TruncateSession(Box<TruncateSession>),
    /// Appends to the log of a running turn.
    Append(Append),
    /// Changes what lies beside the turns.
    Put(Box<Put>),
    /// Deletes a session with all that belongs to it, its records included. Its running turn is fenced off: appends
    /// find it gone.
    DeleteSession(DeleteSession),
    /// Puts a shorter log in the place of an ended turn's; readers find the one or the other. Refused as
    /// [`Refusal::Changed`] unless the turn has ended, or if its log has been shortened further already, and as
    /// [`Refusal::Gap`] unless the new log has the same seqs as the old one.
    ReplaceLog(Box<ReplaceLog>),
    /// Forgets the names of sessions that were deleted before this time, see [`DeleteSession::at`]; they may be given
    /// again then.
    ForgetDeleted {
        /// The time.
        before: Timestamp,
    },
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
    /// When it runs.
    pub start: Start,
    /// Its first events, from seq 1; none if it is queued.
    pub segment: Segment,
    /// Its part of history so far: its input. Of a queued turn, what will be.
    pub messages: Vec<Message>,
    /// Whether history begins anew with it; see [`crate::TurnRecord::begins_history`].
    pub begins_history: bool,
    /// The key that it was submitted with.
    pub by: Option<KeyId>,
    /// What the turn asks of the model beyond what the agent does. Empty unless the turn is queued: one that runs has it in
    /// its log.
    pub options: ModelOptions,
    /// What else changes, all of it in the same tenant.
    pub writes: Vec<Write>,
    /// The caller's name for the command, if it has one.
    pub key: Option<CommandKey>,
    /// Now.
    pub at: Timestamp,
}

/// When a new turn runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// At once; this node owns it.
    Now(NodeId),
    /// After those before it. Nobody owns it, and its log is empty: the session must exist, `supersedes` must be `None`,
    /// and `segment` must have no events. The receipt's epoch is zero.
    Queued,
}

/// A caller's name for a command, kept with it in one transaction.
///
/// For [`CommandKey::KEPT`] another command of that name by the same tenant is refused as [`Refusal::Repeated`],
/// whatever it says and whatever became of the session meanwhile, also when that was deleted. Only the recognition of
/// the very same command, see [`Command`], comes before this; all other checks come after it. A command that is refused
/// leaves no key.
///
/// Time is what the commands say, [`BeginTurn::at`] and its like, not what a clock shows. Once a command with
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
    /// The turn.
    pub turn: TurnId,
    /// Who will run it.
    pub node: NodeId,
    /// The events that take it up.
    pub segment: Segment,
    /// What else changes, all of it in the same tenant.
    pub writes: Vec<Write>,
    /// The caller's name for the command, if it has one.
    pub key: Option<CommandKey>,
    /// Now.
    pub at: Timestamp,
}

/// See [`Command::EndTurn`].
#[derive(Clone, Debug)]
pub struct EndTurn {
    /// Owner of the session.
    pub tenant: TenantId,
    /// The session.
    pub session: SessionId,
    /// The version that the session must have.
    pub expected_version: u64,
    /// The turn.
    pub turn: TurnId,
    /// Its last events. The first ones too, if it was queued.
    pub segment: Segment,
    /// How it rests for good; [`TurnStatus::Ended`].
    pub rest: Rest,
    /// What else changes, all of it in the same tenant.
    pub writes: Vec<Write>,
    /// The caller's name for the command, if it has one.
    pub key: Option<CommandKey>,
    /// Now.
    pub at: Timestamp,
}

/// See [`Command::Put`].
///
/// It is not recognised when it comes again, and need not be: a write that says what is there already changes nothing.
/// But what it expects may not be true any more, because of itself; a key tells: one that it kept itself is refused as
/// [`Refusal::Repeated`], with its own fingerprint and outcome.
#[derive(Clone, Debug)]
pub struct Put {
    /// Whose.
    pub tenant: TenantId,
    /// What must be true, else the command is refused as [`Refusal::Changed`].
    pub expects: Vec<Expect>,
    /// What changes.
    pub writes: Vec<Write>,
    /// The caller's name for the command, if it has one.
    pub key: Option<CommandKey>,
    /// Now.
    pub at: Timestamp,
}

/// What must be true of a record for a [`Put`] to be kept.
#[derive(Clone, Debug)]
pub struct Expect {
    /// The record's kind.
    pub kind: RecordKind,
    /// The record's name.
    pub id: String,
    /// Its revision; `None` if there must be no such record.
    pub revision: Option<u64>,
}

/// One change of what lies beside the turns. Kept with the command that brings it, or not at all; several in their order.
#[derive(Clone, Debug)]
pub enum Write {
    /// Adds a record, or replaces the one of that kind and name, whose place in the list, session, turn, time of
    /// creation and blobs stay.
    Record(Record),
    /// Changes the state of a record and gives it an outcome. Without effect if there is no such record.
    Close {
        /// Its kind.
        kind: RecordKind,
        /// Its name.
        id: String,
        /// The new state.
        state: String,
        /// What came of it.
        outcome: Option<Json>,
    },
    /// Removes a record with its blobs. Without effect if there is no such record.
    Remove {
        /// Its kind.
        kind: RecordKind,
        /// Its name.
        id: String,
    },
    /// Adds or replaces a part of a record's content. Without effect if there is no such record.
    Blob {
        /// The record's kind.
        kind: RecordKind,
        /// The record's name.
        id: String,
        /// Which part.
        part: u32,
        /// The content.
        bytes: Bytes,
    },
    /// Names a session for people. Does not change its version, place or time.
    Title {
        /// The session.
        session: SessionId,
        /// The name.
        title: String,
    },
    /// Adds to what the tenant has used. Stays when the session is deleted that it was used in. Each one adds, so what
    /// brings one and may come again must be recognised: a [`Put`] needs a key for that, an [`Append`] events.
    Usage(UsageRow),
}

impl Write {
    /// The session that must be there for it.
    pub(crate) fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Record(record) => record.session.as_ref(),
            Self::Title { session, .. } => Some(session),
            Self::Close { .. } | Self::Remove { .. } | Self::Blob { .. } | Self::Usage(_) => None,
        }
    }
}

/// See [`Command::DeleteSession`].
#[derive(Clone, Debug)]
pub struct DeleteSession {
    /// Its owner.
    pub tenant: TenantId,
    /// The session.
    pub session: SessionId,
    /// Given where only an idle session may go: one without open or queued turns that has not changed since before this
    /// time (see [`crate::Store::idle_sessions`]). Any other is refused as [`Refusal::Changed`].
    pub idle_before: Option<Timestamp>,
    /// The caller's name for the command, if it has one.
    pub key: Option<CommandKey>,
    /// Now.
    pub at: Timestamp,
}

/// See [`Command::ReplaceLog`].
#[derive(Clone, Debug)]
pub struct ReplaceLog {
    /// The turn.
    pub turn: TurnId,
    /// Its log from now on: from seq 1 to the same last seq as before, without a gap (see [`everturn_core::Kind::DROPPED`]).
    pub segments: Vec<Segment>,
    /// How far it has been shortened; see [`crate::Store::old_logs`]. Never less than before.
    pub level: u8,
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
    /// What else changes, all of it in the session's tenant.
    pub writes: Vec<Write>,
    /// Now.
    pub at: Timestamp,
}

/// What is kept of a turn that comes to rest, so that nobody has to fold its log again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// [`TurnStatus::Waiting`] or [`TurnStatus::Ended`]; a turn that runs does not rest.
    pub status: TurnStatus,
    /// How many messages of its part of history, from the first one, stay as the store has them. Refused as
    /// [`Refusal::Changed`] if the store has fewer.
    pub keeps: usize,
    /// The messages after these.
    pub messages: Vec<Message>,
    /// Tokens used by the whole turn.
    pub usage: Usage,
    /// The last compaction it made.
    pub compaction: Option<Compaction>,
}

/// What a command that was kept gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The epoch of the turn that the command speaks of; zero if it has not run, and for commands on sessions alone.
    pub epoch: u64,
    /// The session's version after it; zero for a deletion and for what does not change a session, as a plain append.
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
    /// The session or record is not at the version that the command was decided upon, or its turn not in the phase:
    /// running for an append, waiting or first in the queue for a resumption.
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
