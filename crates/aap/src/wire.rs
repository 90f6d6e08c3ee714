//! The protocol's types, as they are on the wire.

mod content;
mod message;
mod object;
mod out;

pub(crate) use content::{BlockIn, ContentIn};
pub(crate) use message::{AgentIn, CreateIn, MessageIn, ToolIn, TurnIn};
pub(crate) use out::{BlockOut, ContentOut, MessageOut, StopReason, ToolOut, stop_reason};
