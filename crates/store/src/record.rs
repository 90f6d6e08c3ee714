//! What a store gives back.

use everturn_core::{
    Compaction, Json, KeyId, Message, ModelOptions, Outcome, Segment, SessionConfig, SessionId, TenantId, Timestamp,
    TurnId, Usage, Wait,
};
use serde::{Deserialize, Serialize};

/// One running server. A new one at every start, so that an owner that died is never mistaken for a live one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeId(pub String);

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRecord {
    /// Its name.
    pub id: SessionId,
    /// Its owner.
    pub tenant: TenantId,
    /// Rises with every command that changes the session or the phase of its turns. Commands name the version they
    /// were decided upon.
    pub version: u64,
    /// Agent, tools and options.
    pub config: SessionConfig,
    /// Tokens used by all the turns that it ran, as of their last rest; also by those that were taken away since.
    pub usage: Usage,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Its name for people.
    pub title: Option<String>,
    /// The turn that was started last: the one that runs or waits, if any does. One that was ended while it was queued
    /// has not been started. When a session is created with turns, or truncated, it is the last that it has.
    pub last_turn: Option<TurnSummary>,
    /// How many turns are queued behind it.
    pub queued: u64,
}

/// A turn of a session, at a glance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnSummary {
    /// Its name.
    pub id: TurnId,
    /// Where it stands.
    pub status: TurnStatus,
}

/// Where a turn stands, as far as the store cares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// It has an owner, who works on it.
    Running,
    /// It rests until somebody answers or the time has come. Nobody owns it.
    Waiting(Wait),
    /// It is over.
    Ended(Outcome),
    /// It has not begun: another turn of its session comes first.
    Queued,
}

impl TurnStatus {
    /// Whether it is over.
    pub fn is_ended(&self) -> bool {
        matches!(self, Self::Ended(_))
    }
}

/// A session with its place in the list of sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// Rises with every session created; never given twice. A page goes on below the last position of the one before.
    pub position: u64,
    /// The session.
    pub session: SessionRecord,
}

/// A turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnRecord {
    /// Its name.
    pub id: TurnId,
    /// Its place within the session, from 1; the same in all sessions that share it.
    pub ordinal: u64,
    /// Where it stands.
    pub status: TurnStatus,
    /// Seq of the last event that is durable.
    pub head: u64,
    /// Whether history begins anew with it: what the turns before it left is no part of history any more.
    pub begins_history: bool,
    /// The key that it was submitted with.
    pub by: Option<KeyId>,
    /// What it asks of the model, if it was queued; see [`crate::BeginTurn::options`].
    pub options: ModelOptions,
    /// Its part of history as of its last rest; of a turn that has not rested yet, its input alone.
    pub messages: Vec<Message>,
    /// Tokens used, as of its last rest.
    pub usage: Usage,
    /// The last compaction it made, as of its last rest.
    pub compaction: Option<Compaction>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it last came to rest.
    pub rested_at: Option<Timestamp>,
}

/// What there is of a turn beside what was said in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnOutline {
    /// Its name.
    pub id: TurnId,
    /// Its place within the session, from 1; the same in all sessions that share it.
    pub ordinal: u64,
    /// Where it stands.
    pub status: TurnStatus,
    /// Seq of the last event as of its last rest, or a later one.
    pub head: u64,
    /// Whether history begins anew with it.
    pub begins_history: bool,
    /// How many messages it has in history, as of its last rest.
    pub message_count: u64,
}

impl From<TurnRecord> for TurnOutline {
    fn from(turn: TurnRecord) -> Self {
        let TurnRecord { id, ordinal, status, head, begins_history, messages, .. } = turn;
        Self { id, ordinal, status, head, begins_history, message_count: messages.len() as u64 }
    }
}

/// A waiting turn that goes on by itself at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueTurn {
    /// Owner of the session.
    pub tenant: TenantId,
    /// Its session.
    pub session: SessionId,
    /// Its name.
    pub turn: TurnId,
    /// When; see [`Wait::wake_at`].
    pub wake_at: Timestamp,
}

/// Something that lies beside the turns. What its texts mean is the caller's business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it is.
    pub kind: RecordKind,
    /// Its name, unique among the tenant's records of that kind. At most 256 bytes.
    pub id: String,
    /// The session that it belongs to, and is deleted with.
    pub session: Option<SessionId>,
    /// The turn that it came from.
    pub turn: Option<TurnId>,
    /// One of a few words, to find it by.
    pub state: String,
    /// What it says.
    pub body: Json,
    /// What came of it.
    pub outcome: Option<Json>,
}

/// What a [`Record`] is. The numbers are stored and must stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum RecordKind {
    /// Something that a person is asked.
    Form = 1,
    /// Something that an agent wrote.
    Artifact = 2,
    /// Something that a person uploaded.
    Document = 3,
    /// A stored agent.
    Agent = 4,
    /// Somebody's standing word on a tool.
    Permission = 5,
    /// Something that a dialect keeps beside a session.
    Note = 6,
    /// A key by which callers are known.
    Key = 7,
    /// News of a turn that somebody outside is to be told.
    Notice = 8,
    /// What a tool server offered when it was last asked.
    ToolList = 9,
    /// What tells whether secrets are sealed with the key that the server has.
    Canary = 10,
}

impl RecordKind {
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        let all = [
            Self::Form,
            Self::Artifact,
            Self::Document,
            Self::Agent,
            Self::Permission,
            Self::Note,
            Self::Key,
            Self::Notice,
            Self::ToolList,
            Self::Canary,
        ];
        all.into_iter().find(|kind| kind.number() == number)
    }
}

/// A record as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordRow {
    /// Whose it is.
    pub tenant: TenantId,
    /// Rises with every record created; never given twice.
    pub position: u64,
    /// Rises with every change of the record, from 1. A blob is no change, nor is what says the same as before.
    pub revision: u64,
    /// The record.
    pub record: Record,
    /// When it was created: [`crate::Put::at`] or its like of the command that did.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// Which records are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordFilter {
    /// Only those of this session.
    pub session: Option<SessionId>,
    /// Only those in this state.
    pub state: Option<String>,
}

/// A turn that this node now owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedTurn {
    /// Owner of the session.
    pub tenant: TenantId,
    /// Its session.
    pub session: SessionId,
    /// Its name.
    pub turn: TurnId,
    /// The key that it was submitted with.
    pub by: Option<KeyId>,
    /// The epoch that every append must carry.
    pub epoch: u64,
    /// Seq of the last event that is durable.
    pub head: u64,
}

/// What is needed to go on with a turn. See [`crate::Store::unfinished`].
#[derive(Clone, Debug, PartialEq)]
pub struct UnfinishedTurn {
    /// Its session.
    pub session: SessionRecord,
    /// The newest turns of the session, newest first; see [`crate::Store::turns_below`].
    pub turns: Vec<TurnRecord>,
    /// The beginning of its log; see [`crate::Store::read`].
    pub log: Vec<Segment>,
}
