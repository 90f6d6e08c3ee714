//! A configuration that has been checked.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};

use everturn_core::{Json, KeyId, ModelOptions, OptionSpec, Prices, Quota, TenantId, Timestamp};
use everturn_engine::{Capabilities, ClientTrust, Retention};
use everturn_http::{Origin, Proxies, Quotas, TlsFiles};
use everturn_mcp::ServerConfig;
use everturn_models::OpenAiWire;
use everturn_webhooks::Hook;
use secrecy::{ExposeSecret as _, SecretString};

use super::{Goose, Limits, OpenAi};

/// All that the server is told. Printing it shows no secret.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it came from.
    pub source: Source,
    /// Where to listen. Beyond loopback only if there are keys, here or in the store.
    pub listen: SocketAddr,
    /// Where to keep everything.
    pub store: StoreLocation,
    /// What is logged, where neither flag nor variable says so.
    pub log_level: Option<String>,
    /// What "kept" means.
    pub durability: Durability,
    /// `EVERTURN_SECRET_KEY`: the key that secrets are sealed with, or `file:PATH`. Without it the store keeps one in a file.
    pub secret_key: Option<SecretString>,
    /// Who may call. Empty, and none in the store: everybody who can reach us, which is this machine only.
    pub keys: Vec<ApiKey>,
    /// How much tenants and keys may use.
    pub quotas: Quotas,
    /// Model providers, by name.
    pub providers: BTreeMap<String, Provider>,
    /// What their models cost.
    pub prices: Prices,
    /// Agents, in the order of the file. Names are unique; every model's provider exists.
    pub agents: Vec<Agent>,
    /// MCP servers, in the order of their names.
    pub mcp: Vec<ServerConfig>,
    /// Files that hold secrets of the configuration.
    pub secret_files: Vec<PathBuf>,
    /// Bounds.
    pub limits: Limits,
    /// How long things are kept.
    pub retention: Retention,
    /// What Goose's clients find.
    pub goose: Goose,
    /// What clients of the chat completions find.
    pub openai: OpenAi,
    /// What https is spoken with; without it, http is.
    pub tls: Option<TlsFiles>,
    /// The proxies that are believed when they say whom they speak for.
    pub proxies: Proxies,
    /// The key that `/metrics` asks for.
    pub metrics_key: Option<SecretString>,
    /// The web origins that may call. None: all of them where callers need a key, else those of this machine.
    pub origins: Vec<Origin>,
    /// Who is told of turns, one for each tenant.
    pub webhooks: Vec<Hook>,
}

/// Where a configuration came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// This file.
    File(PathBuf),
    /// There was no file.
    Defaults,
}

/// Where a store lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreLocation {
    /// An SQLite database. A relative path begins at the working directory.
    Sqlite(PathBuf),
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
        }
    }
}

/// What a commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A crash of the machine.
    #[default]
    Fsync,
    /// A crash of the process only.
    Process,
}

/// A key that callers show, and what it opens.
#[derive(Clone, Debug)]
pub struct ApiKey {
    /// The key itself.
    pub key: SecretString,
    /// On whose behalf its holder acts.
    pub tenant: TenantId,
    /// What its holder may do. Never empty.
    pub scopes: BTreeSet<Scope>,
    /// Its name for programs. No other has it.
    pub id: KeyId,
    /// Its name for people.
    pub name: String,
    /// When it ends, if it does.
    pub expires_at: Option<Timestamp>,
    /// What it may use, as far as it has a quota of its own.
    pub quota: Quota,
}

/// Something that a key allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Create sessions, run turns, delete.
    Chat,
    /// Look at sessions.
    Read,
    /// Operate the server.
    Admin,
}

impl Scope {
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Read, Self::Admin];
}

/// A model provider.
#[derive(Clone, Debug)]
pub struct Provider {
    /// The wire that it speaks.
    pub kind: ProviderKind,
    /// Where it is, if not at its usual place. An `http:` or `https:` URL without a slash at the end.
    pub base_url: Option<String>,
    /// The key that we show it.
    pub api_key: Option<SecretString>,
    /// Tokens that the context of its models holds, if configured.
    pub context_window: Option<u64>,
    /// Tokens that its models may think with, for those that think only when told to.
    pub thinking_budget: Option<u64>,
    /// Which of OpenAI's two wires is spoken, where the address and the model shall not decide.
    pub wire: Option<OpenAiWire>,
    /// The host of the service whose rules a compatible server follows, where its address does not show it.
    pub rules_of: Option<String>,
    /// Headers of every call.
    pub headers: Vec<(String, SecretString)>,
    /// Fields that are merged into the body of every call. A JSON object.
    pub body: Option<Json>,
}

impl Provider {
    /// Whether the other is reached in the same way and behaves the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        // Printed without secrets, so these are compared beside it.
        let secrets = |provider: &Self| -> Vec<String> {
            let headers = provider.headers.iter().map(|(_, value)| value);
            headers.chain(&provider.api_key).map(|secret| secret.expose_secret().to_owned()).collect()
        };
        format!("{self:?}") == format!("{other:?}") && secrets(self) == secrets(other)
    }

    /// A provider at its usual place, without a key.
    pub fn new(kind: ProviderKind) -> Self {
        Self {
            kind,
            base_url: None,
            api_key: None,
            context_window: None,
            thinking_budget: None,
            wire: None,
            rules_of: None,
            headers: Vec::new(),
            body: None,
        }
    }
}

/// The wire that a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderKind {
    /// OpenAI, or any server that is compatible with it.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Google Gemini.
    Gemini,
    /// Ollama.
    Ollama,
    /// The offline demo, in this process.
    Demo,
}

/// A model of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// The provider's name in the configuration.
    pub provider: String,
    /// The provider's name for the model.
    pub model: String,
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// The name of an agent: 1 to 64 characters of `A-Z a-z 0-9 . _ -`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentName(String);

impl AgentName {
    /// The name, if the text can be one.
    pub fn new(text: &str) -> Option<Self> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let valid = !text.is_empty() && text.len() <= 64 && text.chars().all(allowed);
        valid.then(|| Self(text.to_owned()))
    }

    /// The nearest name to a text of any kind: `qwen3:8b` is `qwen3-8b`.
    pub(super) fn like(text: &str) -> Self {
        let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' };
        let name: String = text.chars().take(64).map(allowed).collect();
        Self(if name.is_empty() { "agent".to_owned() } else { name })
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An agent.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Its name.
    pub name: AgentName,
    /// Its semantic version.
    pub version: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it is good for.
    pub description: Option<String>,
    /// Its standing instructions. `{{name}}` stands for the value of an option that is no secret.
    pub instructions: String,
    /// The model that it asks.
    pub model: ModelName,
    /// The models that it asks, in this order, when that one fails.
    pub fallback: Vec<ModelName>,
    /// Tools that clients see and enable: the names of built-in ones, and `server/tool` or `server/*` for those of MCP
    /// servers.
    pub tools: Vec<String>,
    /// Those of them that run without asking, where the client cannot say.
    pub trusted: Vec<String>,
    /// Whether the word of clients that can say counts.
    pub client_trust: ClientTrust,
    /// Tools that always run without asking and that clients never see.
    pub internal_tools: Vec<String>,
    /// Most model calls in one turn.
    pub max_steps: u32,
    /// Longest time that a turn may run.
    pub turn_timeout: Duration,
    /// What clients may set.
    pub options: Vec<OptionSpec>,
    /// What clients may use.
    pub capabilities: Capabilities,
    /// Most tokens of one answer.
    pub max_output_tokens: Option<u64>,
    /// How its models think and sample.
    pub model_options: ModelOptions,
    /// Fields that are merged into the body of its model calls. A JSON object.
    pub body: Option<Json>,
    /// Tokens that the context of its model holds; overrides the provider's.
    pub context_window: Option<u64>,
    /// Whether its model names sessions.
    pub titles: bool,
}

impl Agent {
    /// An agent that has nothing but a name and a model.
    pub fn new(name: AgentName, model: ModelName) -> Self {
        Self {
            name,
            version: "1.0.0".to_owned(),
            title: None,
            description: None,
            instructions: String::new(),
            model,
            fallback: Vec::new(),
            tools: Vec::new(),
            trusted: Vec::new(),
            client_trust: ClientTrust::default(),
            internal_tools: Vec::new(),
            max_steps: 25,
            turn_timeout: Duration::from_secs(60 * 60),
            options: Vec::new(),
            capabilities: Capabilities::default(),
            max_output_tokens: None,
            model_options: ModelOptions::default(),
            body: None,
            context_window: None,
            titles: true,
        }
    }
}
