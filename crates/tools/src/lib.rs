//! The tool trait, the set of tools that a server has, and the built-in tools.
//!
//! [`Tool`] is what the engine calls, with a [`Reporter`] for what a call has to tell or ask while it runs. [`ToolSet`]
//! finds a tool by name and says, in words for a model, what is wrong with an input. [`TimeLimit`] ends calls that take too long. [`SchemaCheck`] compiles schemas that come from outside within bounds,
//! [`Schemas`] keeps them and sees to it that nobody waits long for another's. The built-in tools here have
//! no effect on anything but the conversation: [`Clock`] and [`Calculator`] run, the others ([`FormTool`], [`WaitTool`],
//! [`ArtifactTool`], [`ReadResult`]) say what the engine is to do, and their inputs are read here ([`FormRequest`], [`WaitRequest`],
//! [`ArtifactInput`], [`ResultRequest`]; [`InputStream`] while a model still writes one).

mod artifact;
mod calculator;
mod cap;
mod clock;
mod form;
mod form_answer;
mod input;
mod input_stream;
mod read_result;
mod report;
mod resources;
mod schema;
mod schemas;
mod time_limit;
mod tool;
mod tool_set;
mod wait;

use std::sync::Arc;

pub use artifact::{ArtifactInput, ArtifactTool, ArtifactType, Target};
pub use calculator::Calculator;
pub use cap::cap_output;
pub use clock::Clock;
pub use form::{FormRequest, FormTool, approval_schema};
pub use form_answer::{answer_from_text, check_answer};
pub use input_stream::{InputStream, NotAnObject, Piece};
pub use read_result::{ReadResult, ResultRequest};
pub use report::{Question, Reply, Report, Reporter};
pub use resources::{ResourceInfo, ResourceText, Resources};
pub use schema::{Schema, SchemaCheck, SchemaError};
pub use schemas::{RefusedSchema, Schemas};
pub use time_limit::{LifeSign, TimeLimit, TimedOut};
pub use tool::{Origin, Tool, ToolContext, ToolFailure, ToolKind, ToolOutput};
pub use tool_set::{ServerTools, ToolSet, ToolSetError, is_tool_name};
pub use wait::{Pause, WaitRequest, WaitTool};

/// The tools that every server has.
pub fn builtin_tools() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Clock::new()),
        Arc::new(Calculator::new()),
        Arc::new(FormTool::new()),
        Arc::new(WaitTool::new()),
        Arc::new(ArtifactTool::create()),
        Arc::new(ArtifactTool::update()),
        Arc::new(ReadResult::new()),
    ]
}
