//! The protocol's types, as they are on the wire.

mod content;
mod message;
mod object;
mod out;
mod schema;
pub(crate) mod tool;

pub(crate) use content::{BlockIn, ContentIn};
pub(crate) use message::{AgentIn, MessageIn, NewIn, NewWithTurnIn, TurnIn};
pub(crate) use out::{BlockOut, ContentOut, MessageOut, StopReason, ToolRefOut, stop_reason};
pub(crate) use schema::{EventV1, EventV3};
