//! What a server and its child say to each other: a line of JSON each way, with the document's bytes after the server's and
//! its text after the child's.

use everturn_documents::{Bounds, Document, DocumentError, Kind};
use serde::{Deserialize, Serialize};

/// The longest line, in bytes. A document's name has 255 bytes at most, an error is a sentence.
pub(crate) const MAX_LINE: u64 = 16 * 1024;

/// What a child is given.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) name: String,
    /// How many bytes of document follow.
    pub(crate) length: usize,
    /// How many bytes of text are kept of it.
    pub(crate) text_bytes: usize,
    /// Memory for all but the document itself, in bytes.
    pub(crate) memory: u64,
    /// CPU time, in seconds.
    pub(crate) cpu_seconds: u64,
}

impl Task {
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds { bytes: self.length, text_bytes: self.text_bytes }
    }
}

/// What a child answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) result: Result<Found, DocumentError>,
    /// Whether the kernel keeps it from opening files and sockets, beyond the limit on open files.
    pub(crate) is_fenced: bool,
}

/// A document without its text, which follows.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Found {
    kind: Kind,
    pages: Option<u32>,
    cut: bool,
    has_text: bool,
}

impl Found {
    /// The document's parts: what is told of it, and its text.
    pub(crate) fn of(document: Document) -> (Self, Option<String>) {
        let Document { kind, media_type: _, text, pages, cut } = document;
        (Self { kind, pages, cut, has_text: text.is_some() }, text)
    }

    /// The document with this text.
    pub(crate) fn with(self, text: String) -> Document {
        let Self { kind, pages, cut, has_text } = self;
        Document { kind, media_type: kind.media_type(), text: has_text.then_some(text), pages, cut }
    }
}
