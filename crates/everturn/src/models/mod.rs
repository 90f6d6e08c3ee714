//! `everturn models`: shows what the configured providers offer, and tries models out.

mod checks;
mod list;
mod trial;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};

use crate::{config::Config, telemetry};

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// List the models that each provider offers, and the agents that use them
    List {
        #[command(flatten)]
        common: Common,
        /// Only this provider
        #[arg(long, value_name = "NAME")]
        provider: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a few short calls to a model and say what works
    ///
    /// Asks a plain question, offers a tool, forces a tool call, asks for thinking, shows an image and wants JSON. The calls
    /// cost what the provider charges for some thousand tokens. Succeeds if the plain question is answered.
    Try {
        #[command(flatten)]
        common: Common,
        /// An agent, or provider/model [default: the first agent]
        name: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Configuration file [default: ./everturn.toml, if it exists]
    #[arg(long, short, value_name = "FILE", env = "EVERTURN_CONFIG", hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,
    /// Log level; `warn` shows what providers answer that is no error message
    #[arg(long, value_name = "LEVEL", env = "EVERTURN_LOG", hide_env_values = true, default_value = "warn",
        value_parser = telemetry::log_filter)]
    pub(crate) log_level: String,
}

impl ModelsCommand {
    pub(crate) fn common(&self) -> &Common {
        match self {
            Self::List { common, .. } | Self::Try { common, .. } => common,
        }
    }

    /// Does it.
    pub(crate) async fn run(self, config: &Config) -> anyhow::Result<ExitCode> {
        match self {
            Self::List { provider, json, .. } => list::run(config, provider.as_deref(), json).await,
            Self::Try { name, .. } => trial::run(config, name.as_deref()).await,
        }
    }
}

/// A number of tokens as people write it: `1.05M`, `128k`, `512`.
fn tokens(number: u64) -> String {
    let short = |number: f64, unit: &str| {
        let text = format!("{number:.2}");
        format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match number {
        0..1000 => number.to_string(),
        1000..1_000_000 => format!("{}k", number / 1000),
        _ => short(number as f64 / 1e6, "M"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_of_tokens() {
        let shown = [0, 999, 1000, 131_072, 999_999, 1_000_000, 1_048_576, 1_050_000].map(super::tokens);
        assert_eq!(shown, ["0", "999", "1k", "131k", "999k", "1M", "1.05M", "1.05M"]);
    }
}
