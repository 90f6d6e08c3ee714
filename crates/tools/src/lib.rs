//! The tool trait, the set of tools that a server has, and the built-in tools.
//!
//! [`Tool`] is what the engine calls. [`ToolSet`] finds a tool by name and says, in words for a model, what is wrong
//! with an input. [`SchemaCheck`] compiles schemas that come from outside within bounds. The built-in tools here have
//! no effect on anything.

mod calculator;
mod cap;
mod clock;
mod schema;
mod schema_walk;
mod tool;
mod tool_set;

use std::sync::Arc;

pub use calculator::Calculator;
pub use cap::cap_output;
pub use clock::Clock;
pub use schema::{Schema, SchemaCheck, SchemaError};
pub use tool::{Tool, ToolContext, ToolFailure, ToolOutput};
pub use tool_set::{ToolSet, ToolSetError, is_tool_name};

/// The tools that every server has.
pub fn builtin_tools() -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(Clock::new()), Arc::new(Calculator::new())]
}
