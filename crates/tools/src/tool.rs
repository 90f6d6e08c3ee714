//! The contract between the engine and a server-side tool.

use std::{fmt, time::Duration};

use everturn_core::{CallId, Content, EffectClass, EffectId, Json, SessionId, TenantId, ToolSpec, TurnId};
use futures_util::future::BoxFuture;

use crate::{Reporter, TimeLimit};

/// On whose behalf a tool runs.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The tenant.
    pub tenant: TenantId,
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The call.
    pub call: CallId,
    /// The same on every attempt at this effect.
    pub effect_id: EffectId,
    /// Takes what the call tells and asks while it runs.
    pub reporter: Reporter,
}

/// What a tool gives back to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutput {
    /// The result.
    pub content: Content,
    /// Whether it says that the call failed. The model is told; the turn goes on.
    pub is_error: bool,
}

impl ToolOutput {
    /// A textual result.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: Content::Text(text.into()), is_error: false }
    }
}

/// A tool that could not do what it was asked. The model is told; the turn goes on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ToolFailure(pub String);

/// How a call is resolved. All but the first are the engine's own work; their [`Tool::call`] is never made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolKind {
    /// The engine calls [`Tool::call`].
    #[default]
    Runs,
    /// A person answers a form.
    Form,
    /// Time answers it.
    Timer,
    /// The engine keeps what the model writes, and shows it to readers while it is still being written.
    Artifact,
    /// The engine reads an earlier result of the conversation.
    Result,
}

/// Where a tool comes from that is not part of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The tool server, by its configured name.
    pub server: &'a str,
    /// What that server calls the tool.
    pub tool: &'a str,
}

/// A tool that the server runs.
pub trait Tool: Send + Sync + fmt::Debug + 'static {
    /// What models and clients see of it.
    fn spec(&self) -> &ToolSpec;

    /// What a repetition would do.
    fn effect(&self) -> EffectClass;

    /// Whether it is part of the server: such tools need nobody's permission where clients cannot say whom they trust.
    fn is_builtin(&self) -> bool {
        false
    }

    /// The tool server that it comes from, if it does.
    fn origin(&self) -> Option<Origin<'_>> {
        None
    }

    /// How a call is resolved.
    fn kind(&self) -> ToolKind {
        ToolKind::Runs
    }

    /// How long one call may take.
    fn time_limit(&self) -> TimeLimit {
        TimeLimit { silence: Duration::from_secs(60), total: Duration::from_secs(60 * 60) }
    }

    /// How many bytes of text of its output the model is given; the rest is cut with a note.
    fn output_cap(&self) -> usize {
        64 * 1024
    }

    /// Runs it, if it is of the kind that runs. The input is valid against the schema. Dropping the future cancels the
    /// call and ends whatever it started.
    fn call(&self, context: ToolContext, input: Json) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>>;
}
