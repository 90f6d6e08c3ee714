//! Calls of a session's tools outside a turn: a page that a client shows asks for them, no model does.

use everturn_core::{CallId, EffectId, Json, TurnId};
use everturn_store::{RecordKind, SessionRecord, StoreError};
use everturn_tools::{Reporter, ToolContext, ToolFailure, ToolKind, ToolOutput, cap_output};
use tokio::sync::{Semaphore, watch};

use crate::{Agent, Engine};

/// How many such calls may run in this process at once.
const MAX_CALLS: usize = 64;
static CALLS: Semaphore = Semaphore::const_new(MAX_CALLS);

/// Why a tool was not called.
#[derive(Debug, thiserror::Error)]
pub enum DirectCallError {
    /// The session has no such tool.
    #[error("this session has no tool {name:?}; it has: {available}")]
    UnknownTool {
        /// The name that was asked for.
        name: String,
        /// The tools that the session has.
        available: String,
    },
    /// A person must be asked first, and nobody can be asked outside a turn.
    #[error("tool {name:?} asks first: call it in the conversation, or allow it for good")]
    AsksFirst {
        /// The tool.
        name: String,
    },
    /// A person has said that it must never run.
    #[error("tool {name:?} was denied for good")]
    Denied {
        /// The tool.
        name: String,
    },
    /// The engine itself answers calls of this tool, within a turn.
    #[error("tool {name:?} works only in the conversation")]
    OnlyInTurn {
        /// The tool.
        name: String,
    },
    /// The arguments do not fit the tool's schema.
    #[error("arguments: {what}")]
    Input {
        /// The mismatch.
        what: String,
    },
    /// Too many of these calls run.
    #[error("{MAX_CALLS} tools are being called outside of turns; try again later")]
    Busy,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Calls a tool that the session has and that needs nobody's permission. A tool that fails gives an output that says so.
    /// Dropping the future ends the call. No log has it: only its result is known, to the caller alone.
    pub async fn call_directly(
        &self,
        session: &SessionRecord,
        agent: &Agent,
        name: &str,
        input: Json,
    ) -> Result<ToolOutput, DirectCallError> {
        let enabled = agent.enabled(&session.config, &self.0.tools);
        let found = enabled.iter().find(|tool| tool.name == name).zip(self.0.tools.get(name));
        let Some((enabled, tool)) = found else {
            let available = enabled.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>().join(", ");
            return Err(DirectCallError::UnknownTool { name: name.chars().take(64).collect(), available });
        };
        let name = || name.to_owned();
        // A permanent denial counts whatever the session trusts; a permanent permission counts where it does not.
        let standing = self.0.store.record(&session.tenant, RecordKind::Permission, &enabled.name).await?;
        match standing.map(|row| row.record.state == crate::permissions::ALLOWED) {
            Some(false) => return Err(DirectCallError::Denied { name: name() }),
            None if !enabled.trust => return Err(DirectCallError::AsksFirst { name: name() }),
            Some(true) | None => {}
        }
        if tool.kind() != ToolKind::Runs {
            return Err(DirectCallError::OnlyInTurn { name: name() });
        }
        let fits = self.0.tools.validate(session.tenant.as_str(), &enabled.name, &input).await;
        fits.map_err(|what| DirectCallError::Input { what })?;
        let _place = CALLS.try_acquire().map_err(|_| DirectCallError::Busy)?;
        let reporter = Reporter::default();
        let life = reporter.life();
        // Nobody can be asked.
        let (_asking, is_asking) = watch::channel(false);
        let context = ToolContext {
            tenant: session.tenant.clone(),
            session: session.id.clone(),
            turn: TurnId::mint(),
            call: CallId::mint(),
            effect_id: EffectId::mint(),
            reporter,
        };
        let output = match tool.time_limit().hold(&life, is_asking, tool.call(context, input)).await {
            Ok(Ok(output)) => output,
            Ok(Err(ToolFailure(text))) => failed(text),
            Err(limit) => failed(limit.told(tool.effect())),
        };
        Ok(ToolOutput { content: cap_output(output.content, tool.output_cap()), ..output })
    }
}

fn failed(text: String) -> ToolOutput {
    ToolOutput { is_error: true, ..ToolOutput::text(text) }
}
