//! `everturn mcp`: looks at the MCP servers of a configuration, and calls their tools by hand.

mod ask;
mod call;
mod kept_lists;
mod list;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::bail;
use clap::{Args, Subcommand};
use everturn_mcp::{Backoff, Mcp, Metrics, Parts, ServerConfig};
use everturn_tools::ToolSet;

pub(crate) use self::kept_lists::StoredLists;
use crate::{
    compose,
    config::{Config, Environment, confined_servers},
    telemetry,
    terminal::{Lines, visible},
};

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Start the servers of the configuration and list their tools
    List {
        #[command(flatten)]
        common: Common,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Start a server and call one of its tools
    ///
    /// Prints the result; progress and log messages go to stderr. Questions of the server are asked on a terminal, and
    /// declined elsewhere. The call ends after the server's `timeout` without a sign of life, or `max_timeout` in all.
    Call {
        #[command(flatten)]
        common: Common,
        /// The server's name in the configuration
        server: String,
        /// The tool, as the server calls it
        tool: String,
        /// The tool's input, a JSON object
        #[arg(value_name = "JSON", default_value = "{}")]
        input: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Configuration file [default: ./everturn.toml, if it exists]
    #[arg(long, short, value_name = "FILE", env = "EVERTURN_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,
    /// Log level; `info` shows what servers write to stderr
    #[arg(long, value_name = "LEVEL", env = "EVERTURN_LOG", hide_env_values = true, default_value = "error",
        value_parser = telemetry::log_filter)]
    pub(crate) log_level: String,
}

impl McpCommand {
    pub(crate) fn common(&self) -> &Common {
        match self {
            Self::List { common, .. } | Self::Call { common, .. } => common,
        }
    }

    /// Does it.
    pub(crate) async fn run(self, config: &Config, environment: &Environment) -> anyhow::Result<ExitCode> {
        let result = match self {
            Self::List { json, .. } => list::run(config, environment, json).await,
            Self::Call { server, tool, input, .. } => call::run(config, environment, &server, &tool, &input).await,
        };
        // An error may have words of a server in it.
        result.map_err(|error| anyhow::anyhow!(visible(&format!("{error:#}"), Lines::Kept)))
    }
}

/// Servers that were started for a command.
struct Started {
    mcp: Mcp,
    tools: Arc<ToolSet>,
}

/// Starts servers, and waits until each is ready or has failed.
async fn start(servers: Vec<ServerConfig>, environment: &Environment) -> anyhow::Result<Started> {
    let tools = compose::tools()?;
    let parts = Parts {
        tools: Arc::clone(&tools),
        launcher: compose::launcher(environment),
        metrics: Metrics::default(),
        backoff: Backoff::default(),
        lists: None,
    };
    let mcp = Mcp::start(servers, parts);
    mcp.settled().await;
    Ok(Started { mcp, tools })
}

/// The server of this name.
fn find(config: &Config, environment: &Environment, name: &str) -> anyhow::Result<ServerConfig> {
    let Some(server) = confined_servers(config, environment).into_iter().find(|server| server.name == name) else {
        let known: Vec<_> = config.mcp.iter().map(|server| format!("`{}`", server.name)).collect();
        let hint = match known.as_slice() {
            [] => "the configuration has no MCP servers; add a table [mcp.NAME] with its command or url".to_owned(),
            known => format!("the configuration has {}", known.join(", ")),
        };
        bail!("there is no MCP server `{name}`\n\nhint: {hint}");
    };
    // Who calls it by hand wants it.
    Ok(ServerConfig { enabled: true, ..server })
}
