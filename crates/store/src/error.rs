//! What can go wrong with a store as a whole, as opposed to with one command.

/// A failure of the store. Nothing of the batch or query that met it was kept or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot work now: disk full, database locked, connection lost. The same call may succeed later.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// What it holds cannot be read. A repetition does not help.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// It was closed.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Corrupt(_) | Self::Closed => false,
        }
    }
}
