//! Logs: to stderr, for people on a terminal, as JSON elsewhere.

use std::io::{self, IsTerminal};

use anstream::{AutoStream, ColorChoice};
use anyhow::Context as _;
use tracing_subscriber::{EnvFilter, Registry, fmt, layer::SubscriberExt as _, reload, util::SubscriberInitExt as _};

/// What is logged where nobody says so.
pub const DEFAULT_LEVEL: &str = "info";

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere
    #[default]
    Auto,
    /// Text
    Text,
    /// One JSON object per line
    Json,
}

/// The text, if it is a level or directives such as `info,everturn_store=debug`.
pub fn log_filter(text: &str) -> Result<String, String> {
    match EnvFilter::try_new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// What is logged, which can change.
#[derive(Clone, Debug)]
pub struct LogLevel(reload::Handle<EnvFilter, Registry>);

impl LogLevel {
    /// Logs this from now on: a level, or directives.
    pub fn set(&self, filter: &str) -> anyhow::Result<()> {
        self.0.reload(directives(filter)?).context("cannot change what is logged")
    }
}

/// The filter, as it is used.
fn directives(filter: &str) -> anyhow::Result<EnvFilter> {
    let directives = EnvFilter::try_new(filter)?;
    // What the MCP SDK has to say, and every notification of every server, unless it is asked for; we tell what matters.
    Ok(if filter.contains("rmcp") { directives } else { directives.add_directive("rmcp=off".parse()?) })
}

/// Starts logging.
pub fn init(filter: &str, format: LogFormat) -> anyhow::Result<LogLevel> {
    let (directives, handle) = reload::Layer::new(directives(filter)?);
    let as_text = match format {
        LogFormat::Auto => io::stderr().is_terminal(),
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let registry = tracing_subscriber::registry().with(directives);
    let started = if as_text {
        let colour = AutoStream::choice(&io::stderr()) != ColorChoice::Never;
        registry.with(fmt::layer().with_writer(io::stderr).with_ansi(colour).with_target(false)).try_init()
    } else {
        registry.with(fmt::layer().json().flatten_event(true).with_writer(io::stderr)).try_init()
    };
    started.context("cannot start logging")?;
    Ok(LogLevel(handle))
}
