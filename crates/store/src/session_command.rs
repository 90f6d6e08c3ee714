//! Commands that make sessions of what is there already.

use everturn_core::{Segment, SessionConfig, SessionId, TenantId, Timestamp, TurnId};

use crate::{CommandKey, Rest};

/// See [`crate::Command::CreateSession`].
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Its owner.
    pub tenant: TenantId,
    /// Its name. Refused if the tenant has, or had, a session of that name.
    pub id: SessionId,
    /// Agent, tools and options.
    pub config: SessionConfig,
    /// Its name for people.
    pub title: Option<String>,
    /// The history that it begins with, if that is another session's.
    pub shares: Option<Shares>,
    /// Turns that come next, in order, each over already.
    pub turns: Vec<EndedTurn>,
    /// The caller's name for the command, if it has one.
    pub key: Option<CommandKey>,
    /// Now.
    pub at: Timestamp,
}

impl NewSession {
    /// Whether a session with so many turns may be what it makes.
    pub(crate) fn may_have_made(&self, turns: u64) -> bool {
        let shared = turns.checked_sub(self.turns.len() as u64);
        let most = self.shares.as_ref().map_or(0, |shares| shares.through);
        shared.is_some_and(|shared| shared <= most)
    }
}

/// History that a session has in common with another of the same tenant.
///
/// The turns are shared, not copied: both sessions have them, under the same names and ordinals, until both have let go of
/// them, by deletion or truncation. What either adds or takes away later is not the other's; a log that is replaced
/// ([`crate::Command::ReplaceLog`]) is replaced for both. Shared turns are read through either session; tokens are counted
/// in the one that ran them, and records belong to the one that made them. The other session does not change by it.
#[derive(Clone, Debug)]
pub struct Shares {
    /// The other session. Refused as [`crate::Refusal::NotFound`] if the tenant has no such session.
    pub session: SessionId,
    /// The version that it must have, else the command is refused as [`crate::Refusal::Changed`].
    pub expected_version: u64,
    /// Its turns up to this ordinal, or all that it has, if those are fewer. All of them must have ended, else the command
    /// is refused as [`crate::Refusal::Changed`].
    pub through: u64,
}

/// A turn that nobody runs: it is there with its end. Its epoch is zero, and its tokens are not counted as the session's.
#[derive(Clone, Debug)]
pub struct EndedTurn {
    /// Its name. Refused as [`crate::Refusal::Exists`] if any session has a turn of that name, or the command brings two.
    pub turn: TurnId,
    /// All its events, from seq 1, else the command is refused as [`crate::Refusal::Gap`]. Readers are given a segment
    /// whole, however large it is.
    pub segment: Segment,
    /// How it rests for good; refused as [`crate::Refusal::Changed`] unless that is [`crate::TurnStatus::Ended`].
    pub rest: Rest,
    /// Whether history begins anew with it.
    pub begins_history: bool,
    /// When it was accepted, and when it ended: it may tell of something that happened long ago.
    pub at: Timestamp,
}

/// See [`crate::Command::TruncateSession`].
#[derive(Clone, Debug)]
pub struct TruncateSession {
    /// Owner of the session.
    pub tenant: TenantId,
    /// The session.
    pub session: SessionId,
    /// The version that it must have.
    pub expected_version: u64,
    /// Its turns up to this ordinal stay; those after it are gone, for this session. New ones go on after the last that
    /// stays.
    pub through: u64,
    /// A turn to put after them.
    pub turn: Option<EndedTurn>,
    /// The caller's name for the command, if it has one.
    pub key: Option<CommandKey>,
    /// Now.
    pub at: Timestamp,
}
