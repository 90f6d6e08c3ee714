//! A server's tool, as the engine calls it.

use std::sync::Arc;

use everturn_core::{EffectClass, Json, ToolSpec};
use everturn_tools::{Origin, TimeLimit, Tool, ToolContext, ToolFailure, ToolOutput};
use futures_util::future::BoxFuture;

use crate::{health::ToolReport, server::Server};

/// A tool of an MCP server.
#[derive(Debug)]
pub(crate) struct McpTool {
    pub(crate) spec: ToolSpec,
    pub(crate) effect: EffectClass,
    /// What the server calls it.
    pub(crate) tool: String,
    pub(crate) server: Arc<Server>,
}

impl McpTool {
    pub(crate) fn report(&self) -> ToolReport {
        ToolReport {
            name: self.spec.name.clone(),
            tool: self.tool.clone(),
            effect: self.effect,
            title: self.spec.title.clone(),
            description: self.spec.description.clone(),
        }
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> EffectClass {
        self.effect
    }

    fn origin(&self) -> Option<Origin<'_>> {
        Some(Origin { server: &self.server.config.name, tool: &self.tool })
    }

    fn time_limit(&self) -> TimeLimit {
        let config = &self.server.config;
        TimeLimit { silence: config.timeout, total: config.max_timeout }
    }

    fn output_cap(&self) -> usize {
        self.server.config.output_cap
    }

    fn call(&self, context: ToolContext, input: Json) -> BoxFuture<'static, Result<ToolOutput, ToolFailure>> {
        // Whatever became of the connection that this tool was listed on, the server's present one is used.
        Box::pin(Arc::clone(&self.server).call(self.tool.clone(), context, input))
    }
}
