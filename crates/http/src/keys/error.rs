//! Why a key was not made, found or taken back.

use everturn_store::{Refusal, StoreError};

/// Why a key was not made, found or taken back.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    /// Something about the new key is not as it must be.
    #[error("{field}: {what}")]
    Invalid {
        /// Which part of it.
        field: &'static str,
        /// What is wrong.
        what: String,
    },
    /// The tenant has as many keys as it may.
    #[error("this tenant has {limit} keys that are not revoked, which is the limit; revoke some that nobody uses")]
    TooMany {
        /// How many it may have.
        limit: usize,
    },
    /// No such key.
    #[error("there is no key {id:?}; `everturn keys list` and GET /api/v1/keys show them")]
    NotFound {
        /// What was asked for.
        id: String,
    },
    /// A key of the configuration, which cannot be taken back here.
    #[error("the key {id} stands in the configuration; take it out there and restart the server")]
    Configured {
        /// Which.
        id: String,
    },
    /// The request's name was used for another request.
    #[error("the Idempotency-Key {key:?} was used for another request; use a new one")]
    KeyReused {
        /// The name.
        key: String,
    },
    /// The same request was made before. Its secret is not known any more.
    #[error(
        "this request was made before and gave the key {id}, whose secret is not shown again; if it is lost, revoke \
         that key and make another one, with another Idempotency-Key"
    )]
    MadeBefore {
        /// The key.
        id: String,
    },
    /// Somebody else changed the key at the same time, again and again.
    #[error("the key {id} was changed by somebody else at the same time; try again")]
    Conflict {
        /// Which.
        id: String,
    },
    /// These keys are kept nowhere.
    #[error("this server has no store for keys; put them into its configuration")]
    NoBook,
    /// The system gave no random bytes.
    #[error("the system gives no random bytes, without which no key can be made: {0}")]
    Random(String),
    /// The store is in trouble.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store would not have it.
    #[error("the store refused the key: {0}")]
    Rejected(Refusal),
}
