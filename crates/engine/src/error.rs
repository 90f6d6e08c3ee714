//! Why the engine does not do what it was asked.

use everturn_core::submission;
use everturn_store::{Refusal, StoreError};

use crate::{committer::CommitError, reader::ReadError, session_update::UpdateError};

/// Why a submission was not accepted. Nothing has changed then, with one exception: a store that failed while it had the
/// command may have kept it all the same; the turn then runs, and the session shows it.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The tenant has no such session.
    #[error("there is no such session")]
    NotFound,
    /// No such agent.
    #[error("there is no agent {name:?}; there are: {available}")]
    UnknownAgent {
        /// What was asked for.
        name: String,
        /// What there is.
        available: String,
    },
    /// The session does not take it in its present phase.
    #[error(transparent)]
    Refused(#[from] submission::Refused),
    /// The settings cannot be changed so.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// The key of another submission.
    #[error("the idempotency key {key:?} was used for another request; send a new key with a new request")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// Too many turns run.
    #[error("{limit} turns are running, which is the limit, and none ended in time; try again later")]
    Overloaded {
        /// How many may run.
        limit: usize,
    },
    /// The server shuts down.
    #[error("the server is shutting down; try again in a moment")]
    ShuttingDown,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log of the waiting turn cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store refused the command for a reason that no rule above names.
    #[error("the store refused the command: {0}")]
    Rejected(Refusal),
    /// A fault of ours.
    #[error("the submission met a fault in the server")]
    Crashed,
}

impl From<CommitError> for SubmitError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Store(error) | CommitError::Unknown { error, .. } => Self::Store(error),
            CommitError::Refused(refusal) => Self::Rejected(refusal),
        }
    }
}

/// Why a session was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// The tenant has no such session.
    #[error("there is no such session")]
    NotFound,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a turn cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The tenant has no such session, or the session no such turn.
    #[error("there is no such turn")]
    NotFound,
    /// A cursor that no reader was given.
    #[error("the cursor is beyond the turn's last event, {head}")]
    Cursor {
        /// Seq of the last durable event.
        head: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
