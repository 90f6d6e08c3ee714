//! The command line.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use everturn_http::{Quotas, TlsFiles};
use everturn_mcp::ServerConfig;

use crate::{
    config::{self, Config, Environment, LoadError, Overrides, Source},
    keys::{self, KeysCommand, Reach},
    mcp::McpCommand,
    models::ModelsCommand,
    reload::Origin,
    secrets::{SecretsCommand, VARIABLE},
    serve,
    telemetry::{self, DEFAULT_LEVEL, LogFormat},
    vacuum,
};

const AFTER_HELP: &str = "\
Without a configuration file, the server listens on 127.0.0.1:8080, keeps its data in
./everturn-data and has a demo agent that works offline. Agents are added for keys in the
environment (OPENAI_API_KEY, ANTHROPIC_API_KEY, GOOGLE_API_KEY or GEMINI_API_KEY,
OPENROUTER_API_KEY, DEEPSEEK_API_KEY, MISTRAL_API_KEY, XAI_API_KEY, GROQ_API_KEY; for Azure
AZURE_OPENAI_API_KEY, AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_DEPLOYMENT) and for an Ollama that
runs here or at OLLAMA_HOST.

Exit codes: 0 success, 1 failure, 2 wrong usage";

/// A durable agent server: every turn runs to its end, whatever happens to the client, the network or the server
#[derive(Debug, Parser)]
#[command(name = "everturn", version, args_conflicts_with_subcommands = true)]
#[command(after_long_help = AFTER_HELP, after_help = "Use `--help` for the whole story")]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server [default]
    Serve(ServeArgs),
    /// Look at the configuration
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Make, list and revoke the keys that callers show
    Keys {
        #[command(subcommand)]
        command: KeysCommand,
    },
    /// Look at MCP servers
    Mcp {
        #[command(subcommand)]
        command: McpCommand,
    },
    /// List what model providers offer, and try models out
    Models {
        #[command(subcommand)]
        command: ModelsCommand,
    },
    /// Change the key that secrets in the database are sealed with
    Secrets {
        #[command(subcommand)]
        command: SecretsCommand,
    },
    /// Give the database's free space back to the disk at once
    ///
    /// Writes the database anew, without free space and without copies of what was deleted. No server may run on it
    /// meanwhile; a running one gives free space back by itself, a little at a time. Takes up to twice the size of the
    /// database on the same disk while it runs.
    Vacuum(keys::Common),
    /// Show the version
    Version,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Check a configuration file and explain every mistake in it
    Check {
        /// The file [default: ./everturn.toml]
        #[arg(env = "EVERTURN_CONFIG", hide_env_values = true)]
        file: Option<PathBuf>,
        /// The same, as other commands take it
        #[arg(short, long, value_name = "FILE")]
        config: Option<PathBuf>,
        #[command(flatten)]
        settings: SettingArgs,
    },
}

/// What wins over the file, wherever it is read.
#[derive(Debug, Args)]
struct SettingArgs {
    /// Address and port to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS", env = "EVERTURN_LISTEN", hide_env_values = true)]
    listen: Option<String>,
    /// Where to keep sessions and turns [default: sqlite:everturn-data/everturn.db]
    #[arg(long, value_name = "STORE", env = "EVERTURN_STORE", hide_env_values = true)]
    store: Option<String>,
    /// What a commit survives: a crash of the machine (fsync) or of the server only (process) [default: fsync]
    #[arg(long, value_name = "WORD", env = "EVERTURN_DURABILITY", hide_env_values = true)]
    #[arg(value_parser = ["fsync", "process"], hide_possible_values = true)]
    durability: Option<String>,
    /// Certificate to speak https with, and those that vouch for it: a PEM file
    #[arg(long, value_name = "FILE", env = "EVERTURN_TLS_CERT", hide_env_values = true)]
    tls_cert: Option<String>,
    /// The certificate's private key: a PEM file
    #[arg(long, value_name = "FILE", env = "EVERTURN_TLS_KEY", hide_env_values = true)]
    tls_key: Option<String>,
}

impl From<SettingArgs> for Overrides {
    fn from(arguments: SettingArgs) -> Self {
        let SettingArgs { listen, store, durability, tls_cert, tls_key } = arguments;
        Self { listen, store, durability, tls_cert, tls_key }
    }
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// Configuration file [default: ./everturn.toml, if it exists]
    #[arg(long, short, value_name = "FILE", env = "EVERTURN_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingArgs,
    /// Log level, or directives such as `info,everturn_store=debug` [default: `log_level` of the file, else info]
    #[arg(long, value_name = "LEVEL", env = "EVERTURN_LOG", hide_env_values = true,
        value_parser = telemetry::log_filter)]
    log_level: Option<String>,
    /// Log format
    #[arg(long, value_name = "FORMAT", env = "EVERTURN_LOG_FORMAT", hide_env_values = true, default_value = "auto")]
    log_format: LogFormat,
}

impl Cli {
    /// Reads the command line; ends the process where it is wrong, or asks for help.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Self {
        Self::parse_from(config_after_command(arguments.into_iter().collect()))
    }

    /// Does what the command line asks for.
    pub fn run(self, environment: &Environment) -> ExitCode {
        let done = |()| ExitCode::SUCCESS;
        let result = match self.command {
            None => run_server(self.serve, environment).map(done),
            Some(Command::Serve(arguments)) => run_server(arguments, environment).map(done),
            Some(Command::Config { command: ConfigCommand::Check { file, config, settings } }) => {
                check_config(config.or(file), settings, environment).map(done)
            }
            Some(Command::Keys { command }) => run_keys(command, environment).map(done),
            Some(Command::Mcp { command }) => run_mcp(command, environment),
            Some(Command::Models { command }) => run_models(command, environment),
            Some(Command::Secrets { command }) => run_secrets(command, environment).map(done),
            Some(Command::Vacuum(common)) => run_vacuum(&common).map(done),
            Some(Command::Version) => {
                anstream::print!("{}", Self::command().render_version());
                Ok(ExitCode::SUCCESS)
            }
        };
        match result {
            Ok(code) => code,
            Err(Failure::Explained(explanation)) => {
                anstream::eprintln!("{explanation}");
                ExitCode::FAILURE
            }
            Err(Failure::Error(error)) => {
                anstream::eprintln!("error: {error:#}");
                ExitCode::FAILURE
            }
        }
    }
}

/// Moves a `--config FILE` that stands before a command behind it, where every command that reads the configuration takes it.
fn config_after_command(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let flag = match arguments.get(1).and_then(|flag| flag.to_str()) {
        Some("-c" | "--config") => 2,
        Some(flag) if flag.starts_with("--config=") || (flag.starts_with("-c") && flag.len() > 2) => 1,
        _ => return arguments,
    };
    let command = arguments.get(1 + flag).and_then(|word| word.to_str());
    if command.is_some_and(|word| Cli::command().find_subcommand(word).is_some()) {
        let moved: Vec<OsString> = arguments.drain(1..=flag).collect();
        let end = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
        arguments.splice(end..end, moved);
    }
    arguments
}

/// Why a command did not do what it was asked.
enum Failure {
    /// Something with its own form, which says "error:" itself.
    Explained(String),
    /// Anything else.
    Error(anyhow::Error),
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Error(error)
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Problems(problems) => Self::Explained(problems.to_string()),
            LoadError::Read { .. } => Self::Error(error.into()),
        }
    }
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

fn run_server(arguments: ServeArgs, environment: &Environment) -> Result<(), Failure> {
    let ServeArgs { config: file, settings, log_level, log_format } = arguments;
    let log = telemetry::init(log_level.as_deref().unwrap_or(DEFAULT_LEVEL), log_format)?;
    let origin =
        Origin { file, overrides: Overrides::from(settings), environment: environment.clone(), log_level, log };
    let runtime = runtime()?;
    let config = runtime.block_on(origin.load())?;
    runtime.block_on(serve::run(config, origin))?;
    Ok(())
}

fn run_keys(command: KeysCommand, environment: &Environment) -> Result<(), Failure> {
    telemetry::init("warn", LogFormat::Text)?;
    let common = command.common();
    let overrides = Overrides { store: common.store.clone(), ..Overrides::default() };
    let (store, durability) = config::load_store(common.config.as_deref(), &overrides)?;
    let reach = Reach::new(&store, durability, environment.get(VARIABLE).is_some());
    Ok(runtime()?.block_on(command.run(reach))?)
}

fn run_secrets(command: SecretsCommand, environment: &Environment) -> Result<(), Failure> {
    telemetry::init("warn", LogFormat::Text)?;
    let common = command.common();
    let overrides = Overrides { store: common.store.clone(), ..Overrides::default() };
    let (store, _) = config::load_store(common.config.as_deref(), &overrides)?;
    Ok(command.run(&store, environment)?)
}

fn run_vacuum(common: &keys::Common) -> Result<(), Failure> {
    telemetry::init("warn", LogFormat::Text)?;
    let overrides = Overrides { store: common.store.clone(), ..Overrides::default() };
    let (store, _) = config::load_store(common.config.as_deref(), &overrides)?;
    Ok(vacuum::run(&store)?)
}

fn run_mcp(command: McpCommand, environment: &Environment) -> Result<ExitCode, Failure> {
    let common = command.common();
    telemetry::init(&common.log_level, LogFormat::Text)?;
    let runtime = runtime()?;
    let overrides = Overrides::default();
    let config = runtime.block_on(config::load(common.config.as_deref(), &overrides, environment))?;
    Ok(runtime.block_on(command.run(&config, environment))?)
}

fn run_models(command: ModelsCommand, environment: &Environment) -> Result<ExitCode, Failure> {
    let common = command.common();
    telemetry::init(&common.log_level, LogFormat::Text)?;
    let runtime = runtime()?;
    let config = runtime.block_on(config::load(common.config.as_deref(), &Overrides::default(), environment))?;
    Ok(runtime.block_on(command.run(&config))?)
}

fn check_config(file: Option<PathBuf>, settings: SettingArgs, environment: &Environment) -> Result<(), Failure> {
    let config = runtime()?.block_on(config::load(file.as_deref(), &Overrides::from(settings), environment))?;
    let untimely = config.tls.as_ref().map(TlsFiles::check).transpose().map_err(anyhow::Error::from)?;
    if let Some(untimely) = untimely.flatten() {
        anstream::eprintln!("warning: {untimely}");
    }
    for missing in config::missing_surroundings(&config, environment) {
        anstream::eprintln!("warning: {missing}");
    }
    anstream::println!("{}", summary(&config));
    Ok(())
}

fn summary(config: &Config) -> String {
    let source = match &config.source {
        Source::File(file) => format!("{} is fine", file.display()),
        Source::Defaults => "There is no everturn.toml here; the defaults apply".to_owned(),
    };
    let agents: Vec<_> = config.agents.iter().map(|agent| format!("{} ({})", agent.name, agent.model)).collect();
    let keys = match config.keys.len() {
        0 if config.listen.ip().is_loopback() => "none here; without any in the store, open to this machine".to_owned(),
        0 => "none here; starts only with some in the store, see `everturn keys create`".to_owned(),
        count => format!("{count}, besides those in the store"),
    };
    let quotas = quotas(&config.quotas);
    let server = |server: &ServerConfig| {
        format!("{} (timeout {:?}, max_timeout {:?})", server.name, server.timeout, server.max_timeout)
    };
    let servers: Vec<_> = config.mcp.iter().map(server).collect();
    let servers = if servers.is_empty() { String::new() } else { format!("\nmcp     {}", servers.join("\n        ")) };
    let tls = config.tls.as_ref().map(|tls| format!("\ntls     {}", tls.cert.display())).unwrap_or_default();
    format!(
        "{source}\n\nlisten  {}{tls}\nstore   {}\nkeys    {keys}{quotas}\nagents  {}{servers}",
        config.listen,
        config.store,
        agents.join("\n        ")
    )
}

fn quotas(quotas: &Quotas) -> String {
    let own = quotas.tenants.iter().map(|(tenant, quota)| (format!("tenant {tenant}"), quota));
    let all = [("every tenant".to_owned(), &quotas.tenant), ("every key".to_owned(), &quotas.key)].into_iter();
    let bounded = all.chain(own).filter(|(_, quota)| !quota.is_unbounded());
    let lines: Vec<_> = bounded.map(|(whose, quota)| format!("{whose}: {}", keys::bounds(quota))).collect();
    if lines.is_empty() { String::new() } else { format!("\nquotas  {}", lines.join("\n        ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
