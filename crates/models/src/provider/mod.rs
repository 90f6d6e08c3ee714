//! Providers: services that serve models, each in the wire that it speaks.
//!
//! A wire is a request builder and a [`Decoder`](answer::Decoder); the HTTP call, the cutting into frames, the
//! building of tool calls and the reading of errors are shared. The wires are our own: they pass tool input and
//! schemas through as text, keep the ids of calls as they are, bound what they hold, and know a cut stream from a
//! complete one.

mod adapt;
mod answer;
mod anthropic;
mod attempt;
mod binding;
mod call;
mod call_ids;
mod calls_as_text;
mod catalog;
mod chat;
mod describe;
mod failure;
mod frames;
mod gemini;
mod history;
mod image;
mod instructions;
mod learned;
mod left_out;
mod media;
mod model_list;
mod ollama;
mod openai;
mod patch;
mod proof;
mod responses;
mod schema;
mod stop_texts;
mod tool_names;
mod vendors;
mod wire;

#[cfg(test)]
mod stream_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod written_tests;

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use everturn_core::Json;
use futures_util::{FutureExt, StreamExt, future::BoxFuture};
use http::HeaderName;
use reqwest::Url;
use secrecy::SecretString;
use serde::Deserialize;

pub use self::{anthropic::anthropic_base, model_list::can_chat, wire::ListedModel};
use self::{
    attempt::{Attempt, Unfinished},
    call::Caller,
    catalog::Known,
    describe::Questions,
    failure::Failures,
    learned::Memory,
    wire::{Settings, Wire, secret_header},
};
use crate::{
    demo::{DemoModel, Pace},
    model::{EventStream, Model, ModelError, ModelRequest},
};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Calls of fewer tokens fit into every model's window.
const SHORT: u64 = 3000;

/// How often an idle connection is asked whether its peer still lives.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Which wire a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// OpenAI's Responses and chat completions, and every server that is compatible with them.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// Google's Gemini.
    Gemini,
    /// Ollama's own chat.
    Ollama,
    /// None: the offline demo model in this process.
    Demo,
}

impl ProviderKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::OpenAi, Self::Anthropic, Self::Gemini, Self::Ollama, Self::Demo];

    /// Its name in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
            Self::Demo => "demo",
        }
    }

    /// The wire of a model of such a provider; nothing for the demo, which is called in process.
    fn wire(self) -> Option<&'static dyn Wire> {
        match self {
            Self::OpenAi => Some(&chat::Chat),
            Self::Anthropic => Some(&anthropic::Anthropic),
            Self::Gemini => Some(&gemini::Gemini),
            Self::Ollama => Some(&ollama::Ollama),
            Self::Demo => None,
        }
    }
}

impl fmt::Display for ProviderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ProviderKind {
    type Err = ProviderError;

    fn from_str(text: &str) -> Result<Self, ProviderError> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| ProviderError::Kind(text.to_owned()))
    }
}

/// How to reach a provider.
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    /// Which wire it speaks.
    pub kind: ProviderKind,
    /// Where it is; the provider's own address where there is none. An address without a path gets the wire's usual
    /// one, such as `/v1`.
    pub base_url: Option<String>,
    /// Its key. Needed for the public services.
    pub api_key: Option<SecretString>,
    /// How many tokens its models' contexts hold, where their names do not tell. Ollama is told to use as many.
    pub context_window: Option<u64>,
    /// How many tokens models may spend on thinking, for those that take such a number: older ones of Anthropic's and
    /// Gemini's. Newer ones take an effort.
    pub thinking_budget: Option<u64>,
    /// Which of OpenAI's two wires is spoken; chosen by address and model where it is absent.
    pub wire: Option<OpenAiWire>,
    /// Whose rules a compatible server follows where its address does not show it, such as a gateway before another
    /// service: the host of that service, such as `api.deepseek.com`.
    pub rules_of: Option<String>,
    /// Headers of every call, which win over our own.
    pub headers: Vec<(String, SecretString)>,
    /// Fields that are merged into the body of every call.
    pub body: Option<Json>,
}

/// OpenAI's two wires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OpenAiWire {
    /// Chat completions, which every compatible server speaks.
    Chat,
    /// Responses, which OpenAI's own models want for reasoning with tools.
    Responses,
}

impl ProviderConfig {
    /// The usual address, and no key.
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

/// Why there can be no such provider. Never holds the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// No such kind.
    #[error("{0:?} is no kind of provider; the kinds are openai, anthropic, gemini, ollama and demo")]
    Kind(String),
    /// Not an address.
    #[error("base_url {url:?} of provider {provider:?} cannot be used: {reason}")]
    BaseUrl {
        /// The provider.
        provider: String,
        /// The address, or nothing where it holds a password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A public service without a key.
    #[error("provider {provider:?} needs an api_key, or the base_url of a server that needs none")]
    MissingKey {
        /// The provider.
        provider: String,
    },
    /// A header that cannot be sent.
    #[error(
        "the header {header:?} of provider {provider:?} is none: a name has characters of A-Z a-z 0-9 -, a value no line breaks"
    )]
    Header {
        /// The provider.
        provider: String,
        /// The header's name.
        header: String,
    },
    /// A key that cannot be sent.
    #[error("the api_key of provider {provider:?} holds characters that no HTTP header can; check it for line breaks")]
    Key {
        /// The provider.
        provider: String,
    },
    /// The HTTP client could not be made.
    #[error("failed to set up HTTP for provider {provider:?}: {reason}")]
    Client {
        /// The provider.
        provider: String,
        /// What went wrong.
        reason: String,
    },
}

/// A provider, ready to be called. Cheap to clone; its models share its connections.
#[derive(Clone)]
pub struct Provider {
    name: String,
    kind: ProviderKind,
    wire: Option<OpenAiWire>,
    /// Nothing for the demo, which is called in process.
    caller: Option<Arc<Caller>>,
}

impl Provider {
    /// The provider that configuration calls `name`.
    pub fn new(name: impl Into<String>, config: ProviderConfig) -> Result<Self, ProviderError> {
        let name = name.into();
        let (kind, wire) = (config.kind, config.wire);
        let caller = match kind.wire() {
            None => None,
            Some(wire) => Some(Arc::new(caller(&name, wire, config)?)),
        };
        Ok(Self { name, kind, wire, caller })
    }

    /// The name that configuration gives it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which wire it speaks.
    pub fn kind(&self) -> ProviderKind {
        self.kind
    }

    /// One of its models. Whether there is such a model shows when it is called.
    pub fn model(&self, model: &str) -> Arc<dyn Model> {
        let name = format!("{}/{model}", self.name);
        match (&self.caller, self.wire_of(model)) {
            (Some(caller), Some(wire)) => Arc::new(RemoteModel::new(name, model, wire, self.kind, Arc::clone(caller))),
            _ if model == "load" => Arc::new(DemoModel::new(name, Pace::Unpaced)),
            _ => Arc::new(DemoModel::new(name, Pace::PLEASANT)),
        }
    }

    /// The models that it offers, as its own list tells.
    pub async fn models(&self) -> Result<Vec<ListedModel>, ModelError> {
        match (&self.caller, self.kind.wire()) {
            (Some(caller), Some(wire)) => {
                let mut models = caller.list(wire).await?;
                if self.kind == ProviderKind::Ollama {
                    self.tell_windows(&mut models).await;
                }
                Ok(models)
            }
            _ => Ok(["assistant", "load"].map(|id| ListedModel { id: id.to_owned(), ..ListedModel::default() }).into()),
        }
    }

    /// Sets each model's window to the one that calls use, instead of the one that it was trained with.
    async fn tell_windows(&self, models: &mut [ListedModel]) {
        /// Models that the provider is asked about at once.
        const AT_ONCE: usize = 8;
        let asked: Vec<_> = models.iter_mut().map(|listed| self.tell_window(listed)).collect();
        futures_util::stream::iter(asked).buffer_unordered(AT_ONCE).collect::<()>().await;
    }

    async fn tell_window(&self, listed: &mut ListedModel) {
        let model = self.model(&listed.id);
        model.prepare(0).await;
        listed.context_window = model.context_window();
    }

    /// The wire of a model.
    fn wire_of(&self, model: &str) -> Option<&'static dyn Wire> {
        let openai = self.caller.as_ref().filter(|_| self.kind == ProviderKind::OpenAi);
        match openai.map(|caller| self.wire.unwrap_or_else(|| openai::wire_of(&caller.base, model))) {
            Some(OpenAiWire::Responses) => Some(&responses::Responses),
            Some(OpenAiWire::Chat) | None => self.kind.wire(),
        }
    }
}

/// What calls a provider over HTTP.
fn caller(name: &str, wire: &'static dyn Wire, config: ProviderConfig) -> Result<Caller, ProviderError> {
    let provider = || name.to_owned();
    let ProviderConfig { base_url, api_key, context_window, thinking_budget, headers: added, body, rules_of, .. } =
        config;
    let is_wire_configured = config.wire.is_some();
    if base_url.is_none() && api_key.is_none() && added.is_empty() && wire.needs_key() {
        return Err(ProviderError::MissingKey { provider: provider() });
    }
    let base = base_url.as_deref().unwrap_or(wire.default_base());
    let base = parse_base(base, wire).map_err(|reason| {
        // An address that does not parse may hold a password where we would not find it.
        let url = if base.contains('@') { String::new() } else { base.to_owned() };
        ProviderError::BaseUrl { provider: provider(), url, reason }
    })?;
    let mut headers = wire.headers(api_key.as_ref(), &base).map_err(|_| ProviderError::Key { provider: provider() })?;
    for (header, value) in &added {
        let unusable = || ProviderError::Header { provider: provider(), header: header.clone() };
        let field = HeaderName::from_bytes(header.as_bytes()).map_err(|_| unusable())?;
        headers.insert(field, secret_header("", value).map_err(|_| unusable())?);
    }
    let client = reqwest::Client::builder()
        .user_agent(concat!("everturn/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_keepalive(KEEPALIVE)
        // A redirect would turn the POST into a GET, and could take the key elsewhere.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| ProviderError::Client { provider: provider(), reason: error.to_string() })?;
    let secrets = api_key.into_iter().chain(added.into_iter().map(|(_, value)| value)).collect();
    let host = rules_of.as_deref().or(base.host_str()).unwrap_or_default().to_ascii_lowercase();
    let settings =
        Settings { context_window, thinking_budget, is_official: base_url.is_none(), is_wire_configured, host, body };
    let failures = Failures { provider: provider(), secrets };
    Ok(Caller {
        base,
        client,
        failures,
        settings,
        memory: Memory::default(),
        unfinished: Unfinished::default(),
        questions: Questions::default(),
    })
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = self.caller.as_ref().map(|caller| caller.base.as_str());
        f.debug_struct("Provider").field("name", &self.name).field("kind", &self.kind).field("base", &base).finish()
    }
}

/// The address with the wire's usual path where it has none, and no slash at its end.
fn parse_base(base: &str, wire: &dyn Wire) -> Result<Url, String> {
    let mut url = Url::parse(base).map_err(|error| error.to_string())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("it must begin with http:// or https://".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it must not hold a user name or password; use api_key".to_owned());
    }
    let path = url.path().trim_end_matches('/').to_owned();
    let path = match openai::azure_path(&url) {
        Some(azure) => azure,
        None if path.is_empty() => wire.default_path(),
        None => &wire.path_below(path),
    };
    url.set_path(path);
    url.set_fragment(None);
    Ok(url)
}

/// A model behind a wire.
struct RemoteModel {
    name: String,
    model: String,
    wire: &'static dyn Wire,
    kind: ProviderKind,
    known: Known,
    caller: Arc<Caller>,
}

impl RemoteModel {
    fn new(name: String, model: &str, wire: &'static dyn Wire, kind: ProviderKind, caller: Arc<Caller>) -> Self {
        Self { name, model: model.to_owned(), wire, kind, known: catalog::known(model), caller }
    }
}

impl fmt::Debug for RemoteModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteModel").field("name", &self.name).field("known", &self.known).finish_non_exhaustive()
    }
}

impl Model for RemoteModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn context_window(&self) -> Option<u64> {
        let facts = |learned: &learned::Learned| (learned.window, learned.rate);
        let (learned, rate) = self.caller.memory.look(&self.model, facts).unwrap_or_default();
        // The windows of Ollama's models are what its operator lets them be.
        let known = || self.known.window.filter(|_| self.kind != ProviderKind::Ollama);
        let fallback = || self.wire.default_window();
        let asked = self.caller.settings.body.as_ref().and_then(|body| self.window_of_body(body));
        let configured = asked.or(self.caller.settings.context_window);
        let window = configured.or(learned).or_else(known).or_else(fallback);
        // A rate may allow less in a minute than the window holds, and what is configured may be wrong.
        [window, rate, self.refused_window()].into_iter().flatten().min()
    }

    fn refused_window(&self) -> Option<u64> {
        self.caller.memory.look(&self.model, |learned| learned.refused_window).flatten()
    }

    fn window_of_body(&self, body: &Json) -> Option<u64> {
        self.wire.window_of_body(body)
    }

    fn density(&self, conversation: Option<&str>) -> u64 {
        self.caller.memory.density(&self.model, conversation).unwrap_or(100).max(100)
    }

    fn max_output(&self) -> Option<u64> {
        let learned = self.caller.memory.look(&self.model, |learned| (learned.max_output, learned.lowered_output));
        let (learned, lowered) = learned.unwrap_or_default();
        [learned.or(self.known.max_output), lowered].into_iter().flatten().min()
    }

    fn thinks(&self) -> bool {
        let learned = self.caller.memory.look(&self.model, |learned| learned.thinks).flatten();
        learned.or(self.known.thinks).unwrap_or(true)
    }

    fn reads_pdf(&self) -> bool {
        self.known.pdf == Some(true)
    }

    fn slow_start(&self) -> bool {
        self.kind == ProviderKind::Ollama || is_this_machine(&self.caller.settings.host)
    }

    fn prepare(&self, tokens: u64) -> BoxFuture<'static, ()> {
        // Every window holds a short conversation; only Ollama is told how large a window to use.
        if tokens < SHORT && self.kind != ProviderKind::Ollama {
            return Box::pin(std::future::ready(()));
        }
        let caller = Arc::clone(&self.caller);
        let (wire, model) = (self.wire, self.model.clone());
        async move { caller.describe(wire, &model).await }.boxed()
    }

    fn stream(&self, request: ModelRequest) -> BoxFuture<'static, Result<EventStream, ModelError>> {
        let caller = Arc::clone(&self.caller);
        let (wire, from, model) = (self.wire, self.name.clone(), self.model.clone());
        Attempt::start(caller, wire, from, model, request).boxed()
    }
}

/// Whether a host is this machine, whose model servers load a model when it is first called.
fn is_this_machine(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
