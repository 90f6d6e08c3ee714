//! Why the engine does not do what it was asked.

use everturn_core::{FormId, SessionId, submission};
use everturn_store::{Refusal, StoreError};

use crate::{Cursor, QuotaExceeded, committer::CommitError, reader::ReadError, session_update::UpdateError};

/// Why a submission was not accepted. Nothing has changed then, with one exception: a store that failed while it had the
/// command may have kept it all the same; the turn then runs, and the session shows it.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The tenant has no such session.
    #[error("there is no such session")]
    NotFound,
    /// The session was there, and was deleted.
    #[error("session {session} was deleted; its name cannot be used again")]
    Deleted {
        /// Its name.
        session: SessionId,
    },
    /// A repetition of what is not there any more.
    #[error(
        "this request was made before with the same idempotency key, and what it began in session {session} has been \
         deleted since; send a new key to begin anew"
    )]
    RepeatedGone {
        /// The session.
        session: SessionId,
    },
    /// There is, or was, a session of that name.
    #[error("there is, or was, a session {session}; choose another name")]
    Exists {
        /// The name.
        session: SessionId,
    },
    /// Too many standing words on tools.
    #[error("{limit} tools are allowed or denied for good, which is the limit; take some back first")]
    TooManyPermissions {
        /// How many there may be.
        limit: usize,
    },
    /// What a session shall have instead of what its agent says cannot be.
    #[error("{field}: {what}")]
    Overlay {
        /// Which part of it.
        field: &'static str,
        /// What is wrong, and what to do.
        what: String,
    },
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
    /// Too many messages wait in the session.
    #[error("{limit} messages are waiting in this session, which is the limit; wait until some have been answered")]
    QueueFull {
        /// How many may wait.
        limit: usize,
    },
    /// Too many messages wait in all sessions of the tenant.
    #[error(
        "{limit} messages are waiting in all sessions of this tenant, which is the limit (limits.tenant_queue); \
         wait until some have been answered"
    )]
    TenantQueueFull {
        /// How many may wait.
        limit: usize,
    },
    /// The session does not wait for this form.
    #[error("the form {form} is not open: it was answered before, has expired, or was never asked in this session")]
    FormClosed {
        /// The form.
        form: FormId,
    },
    /// The answer is not what the form asks for. The form stays open.
    #[error("the answer does not fit the form {form}: {}", .problems.join("; "))]
    FormInvalid {
        /// The form.
        form: FormId,
        /// What is wrong, each with its place.
        problems: Vec<String>,
    },
    /// The tenant has no such document.
    #[error("there is no document {id:?}")]
    UnknownDocument {
        /// The document.
        id: String,
    },
    /// A turn under way could not be ended.
    #[error("the turn under way could not be ended: {0}")]
    Stop(Box<StopError>),
    /// Too many turns run.
    #[error("{limit} turns are running, which is the limit, and none ended in time; try again later")]
    Overloaded {
        /// How many may run.
        limit: usize,
    },
    /// A quota of the key or the tenant is used up.
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
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

impl From<StopError> for SubmitError {
    fn from(error: StopError) -> Self {
        match error {
            StopError::Store(error) => Self::Store(error),
            StopError::Read(error) => Self::Read(error),
            other => Self::Stop(Box::new(other)),
        }
    }
}

/// Why a conversation was not cut.
#[derive(Debug, thiserror::Error)]
pub enum CutError {
    /// The tenant has no such session.
    #[error("there is no such session")]
    NotFound,
    /// The conversation has no such message.
    #[error("there is no message {id:?} in this conversation")]
    NoMessage {
        /// What was asked for.
        id: String,
    },
    /// The tenant stores as much as it may.
    #[error(transparent)]
    Quota(QuotaExceeded),
    /// A turn is under way.
    #[error("a turn is running in this session; stop it, or wait until it ends, then send this again")]
    Busy,
    /// The key of another request.
    #[error("the idempotency key {key:?} was used for another request; send a new key with a new request")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// A turn that waits could not be ended.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log of a turn cannot be read, or what is cut takes more memory than there is for it.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The store refused the command.
    #[error("the store refused the command: {0}")]
    Rejected(Refusal),
}

impl From<CommitError> for CutError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Store(error) | CommitError::Unknown { error, .. } => Self::Store(error),
            CommitError::Refused(Refusal::NotFound) => Self::NotFound,
            CommitError::Refused(refusal) => Self::Rejected(refusal),
        }
    }
}

/// Why a turn was not stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// It does not end.
    #[error("the turn did not end in time; send this again")]
    Busy,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The turn's log cannot be read.
    #[error(transparent)]
    Read(ReadError),
    /// The store refused the command.
    #[error("the store refused the command: {0}")]
    Rejected(Refusal),
    /// A fault of ours.
    #[error("the request met a fault in the server")]
    Crashed,
}

impl From<CommitError> for StopError {
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
    /// The key of another request.
    #[error("the idempotency key {key:?} was used for another request; send a new key with a new request")]
    KeyReused {
        /// The key.
        key: String,
    },
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
    /// A cursor within an event that does not have such a part.
    #[error("event {} has no part {}", .cursor.seq, .cursor.part)]
    Part {
        /// The cursor.
        cursor: Cursor,
    },
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
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
