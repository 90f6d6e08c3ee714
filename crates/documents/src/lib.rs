//! Says what uploaded bytes are, and what text is in them, so that a model can be given them.
//!
//! [`read`] looks at the bytes: the name only helps to tell apart the kinds of plain text. [`for_model`] puts a
//! document's text the way a model is given it. Nothing here reads a file or a socket, and what an input costs is
//! bounded by its length and by [`Bounds`], whatever is in it. [`read_plain`] stops before the kinds that are parsed, which a
//! server has read elsewhere: see [`Reader`].

mod binary;
mod csv;
mod document;
mod html;
mod image;
mod markdown;
mod name;
mod pdf;
mod plain;
mod prompt;
mod read;
mod reader;

pub use document::{Bounds, Document, DocumentError, ImageFormat, Kind};
pub use name::clean_name;
pub use prompt::for_model;
pub use read::{read, read_plain};
pub use reader::{ReadError, Reader, Reading};
