//! Language models behind one streaming trait.
//!
//! The engine sees [`Model`], [`ModelEvent`] and [`ModelError`] only. The client library that speaks the providers'
//! wires does not leak out of this crate.

mod model;

pub use model::{EventStream, Model, ModelError, ModelErrorKind, ModelEvent, ModelFinish, ModelRequest};
