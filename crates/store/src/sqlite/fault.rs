//! What SQLite's errors mean to the users of a store.

use rusqlite::{Error, ErrorCode};

use crate::StoreError;

/// Damage is told apart from everything else; the rest (disk full, locked, I/O) may pass.
impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        match &error {
            Error::SqliteFailure(cause, _) => match cause.code {
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Self::Corrupt(error.to_string()),
                // Our own rows contradict each other: what is there is not what was written.
                ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch => Self::Corrupt(error.to_string()),
                ErrorCode::DiskFull => Self::Unavailable(format!("{error}; free some space on the disk")),
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                    Self::Unavailable(format!("{error}; another program holds the database"))
                }
                _ => Self::Unavailable(error.to_string()),
            },
            Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::Utf8Error(..)
            | Error::InvalidColumnType(..)
            | Error::QueryReturnedNoRows => Self::Corrupt(error.to_string()),
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

/// A stored value that cannot be what was written.
pub(super) fn corrupt(what: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt(what.to_string())
}
