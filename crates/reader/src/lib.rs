//! Reads documents from strangers in child processes, so that a file that breaks its reader breaks nothing else.
//!
//! A child is this program again, started for one document. It is sent the bytes on its standard input and answers on its
//! standard output with what it found. Before it looks at the first byte it gives up what a reader does not need: files,
//! sockets, other processes, and memory and CPU beyond its limits (`confinement.rs`). The server (`parent.rs`) waits for a
//! limited time, takes an answer of a limited length, and believes nothing else of it.
//!
//! Kinds of documents that are only decoded and not parsed are read in this process: see
//! [`everturn_documents::read_plain`].

mod child;
#[cfg(target_os = "linux")]
mod confinement;
mod message;
mod parent;

pub use child::run;
pub use parent::{ChildLimits, ChildReader};
