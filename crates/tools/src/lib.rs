//! The tool trait and the built-in tools.

mod tool;

pub use tool::{Tool, ToolContext, ToolFailure, ToolOutput};
