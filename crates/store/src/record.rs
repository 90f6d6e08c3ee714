//! What a store gives back.

use everturn_core::{Compaction, Message, SessionConfig, SessionId, TenantId, Timestamp, TurnId, Usage, WaitingCall};
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
    /// Tokens used by all its turns, as of their last rest.
    pub usage: Usage,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// The newest turn.
    pub last_turn: Option<TurnSummary>,
}

/// The newest turn of a session, at a glance.
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
    /// It rests until these calls are answered. Nobody owns it.
    Waiting(Vec<WaitingCall>),
    /// It is over.
    Ended,
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
    /// Its place within the session, from 1.
    pub ordinal: u64,
    /// Where it stands.
    pub status: TurnStatus,
    /// Seq of the last event that is durable.
    pub head: u64,
    /// Its part of history as of its last rest; of a turn that has not rested yet, its input alone.
    pub messages: Vec<Message>,
    /// Tokens used, as of its last rest.
    pub usage: Usage,
    /// The last compaction it made, as of its last rest.
    pub compaction: Option<Compaction>,
    /// When it began.
    pub created_at: Timestamp,
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
    /// The epoch that every append must carry.
    pub epoch: u64,
    /// Seq of the last event that is durable.
    pub head: u64,
}
