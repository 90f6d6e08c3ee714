//! Where documents are read.

use std::{fmt, future::Future, pin::Pin};

use bytes::Bytes;

use crate::{Bounds, Document, DocumentError};

/// Reads documents, as [`crate::read`] does, in a place where a hostile one does no harm.
pub trait Reader: fmt::Debug + Send + Sync {
    /// Says what the bytes are, and what text is in them.
    fn read(&self, name: String, bytes: Bytes, bounds: Bounds) -> Reading;
}

/// A document that is being read.
pub type Reading = Pin<Box<dyn Future<Output = Result<Document, ReadError>> + Send>>;

/// Why a document was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// For what is in it.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// For a reason of ours: no reader could be started.
    #[error("no reader of documents could be started: {0}")]
    Failed(String),
}
