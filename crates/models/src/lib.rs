//! Language models behind one streaming trait.
//!
//! The engine sees [`Model`], [`ModelEvent`] and [`ModelError`] only. What the providers' wires look like does not leak
//! out of this crate.

mod demo;
mod model;
mod provider;

pub use demo::{DemoModel, Pace};
pub use model::{
    DocumentContent, Documents, EventStream, Model, ModelError, ModelErrorKind, ModelEvent, ModelFinish, ModelRequest,
};
pub use provider::{
    ListedModel, OpenAiWire, Provider, ProviderConfig, ProviderError, ProviderKind, anthropic_base, can_chat,
};
