//! Agents: what is configured, as the engine runs it.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use everturn_core::{Json, ModelOptions, OptionSpec, OptionValue, SessionConfig, ToolRef, ToolSpec};
use everturn_models::Model;
use everturn_tools::ToolSet;

use crate::ClientTrust;

/// An agent.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Its name, by which sessions refer to it.
    pub name: String,
    /// Its version.
    pub version: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: Option<String>,
    /// Standing instructions; `{{option}}` stands for the value of that option.
    pub instructions: String,
    /// The model to use, then those to fall back on. Never empty.
    pub models: Vec<Arc<dyn Model>>,
    /// Tools that clients see and enable: names, or `server/tool` and `server/*` for those of tool servers.
    pub tools: Vec<String>,
    /// Of these, the ones that run inline where the client cannot say.
    pub trusted: Vec<String>,
    /// Whether the word of clients that can say counts.
    pub client_trust: ClientTrust,
    /// Tools that always run inline and are not shown.
    pub internal_tools: Vec<String>,
    /// Options that sessions may set.
    pub options: Vec<OptionSpec>,
    /// What clients may use.
    pub capabilities: Capabilities,
    /// How many model calls one turn may make.
    pub max_steps: u32,
    /// How long one leg of a turn may take.
    pub turn_timeout: Duration,
    /// Tokens of context, where configuration knows better than the provider.
    pub context_window: Option<u64>,
    /// How its models think, sample and answer, where a turn does not say.
    pub model_options: ModelOptions,
    /// Fields that are merged into the body of its model calls.
    pub body: Option<Json>,
    /// Whether a model names its sessions; else they are called by their first words.
    pub titles: bool,
}

/// What clients of an agent may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Compacted history can be read.
    pub history_compacted: bool,
    /// Full history can be read.
    pub history_full: bool,
    /// Answers can be streamed in deltas.
    pub stream_delta: bool,
    /// Answers can be streamed in messages.
    pub stream_message: bool,
    /// Answers can be had in one piece.
    pub stream_none: bool,
    /// Applications may bring tools of their own.
    pub application_tools: bool,
    /// Images by `https:` URL are taken.
    pub image_http: bool,
    /// Images by `data:` URL are taken.
    pub image_data: bool,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            history_compacted: true,
            history_full: true,
            stream_delta: true,
            stream_message: true,
            stream_none: true,
            application_tools: true,
            image_http: true,
            image_data: true,
        }
    }
}

impl Agent {
    /// The instructions with the session's option values in place. Secrets are never put in; braces that name no option
    /// stay as they are.
    pub fn instructions(&self, config: &SessionConfig) -> String {
        // A session's own are as they are.
        if let Some(own) = config.overlay.as_ref().and_then(|overlay| overlay.instructions.as_ref()) {
            return own.clone();
        }
        let mut text = String::with_capacity(self.instructions.len());
        let mut rest = self.instructions.as_str();
        while let Some((before, after)) = rest.split_once("{{") {
            text.push_str(before);
            let named =
                after.split_once("}}").and_then(|(name, after)| Some((self.value(name.trim(), config)?, after)));
            rest = match named {
                Some((value, after)) => {
                    text.push_str(value);
                    after
                }
                None => {
                    text.push_str("{{");
                    after
                }
            };
        }
        text.push_str(rest);
        text
    }

    fn value<'a>(&'a self, name: &str, config: &'a SessionConfig) -> Option<&'a str> {
        let option = self.options.iter().find(|option| option.name() == name && !option.is_secret())?;
        Some(match config.options.get(name) {
            Some(OptionValue::Plain(value)) => value,
            Some(OptionValue::Sealed(_)) | None => option.default_value(),
        })
    }

    /// The exposed tools that a session with this configuration has, and which of them it trusts. Configuration may have
    /// taken away some that the session had enabled.
    pub fn enabled(&self, config: &SessionConfig, tools: &ToolSet) -> Vec<ToolRef> {
        let offered = self.offered(tools);
        let trusted = named(&self.trusted, tools);
        let own = |name: &String| trusted.contains(name) || tools.get(name).is_some_and(|tool| tool.is_builtin());
        let judged = |tool: &ToolRef| {
            let trust = tool.trust && self.client_trust.allows(|| own(&tool.name));
            ToolRef { name: tool.name.clone(), trust }
        };
        if !config.agent_tools {
            return config.tools.iter().filter(|tool| offered.contains(&tool.name)).map(judged).collect();
        }
        let enabled = |name: &String| match config.tools.iter().find(|tool| tool.name == *name) {
            Some(chosen) => judged(chosen),
            None => ToolRef { name: name.clone(), trust: own(name) },
        };
        offered.iter().map(enabled).collect()
    }

    /// The names of the tools that clients see and enable: those of tool servers change while the server runs.
    pub fn offered(&self, tools: &ToolSet) -> Vec<String> {
        named(&self.tools, tools)
    }

    /// The names of the tools that always run inline and are not shown.
    pub(crate) fn internal(&self, tools: &ToolSet) -> Vec<String> {
        named(&self.internal_tools, tools)
    }

    /// The tool servers that it has tools of.
    pub(crate) fn servers(&self) -> Vec<&str> {
        let mut servers: Vec<_> =
            self.tools.iter().chain(&self.internal_tools).filter_map(|tool| server(tool)).collect();
        servers.sort_unstable();
        servers.dedup();
        servers
    }

    /// The tool servers that it has tools of and that have none to use now, each with what is the matter.
    pub fn troubles(&self, tools: &ToolSet) -> Vec<(String, String)> {
        let servers = self.servers();
        if servers.is_empty() {
            return Vec::new();
        }
        let known = tools.servers();
        let trouble = |name: &str| match known.get(name) {
            Some(server) => server.trouble.clone(),
            None => Some("it is not configured on this server".to_owned()),
        };
        servers.into_iter().filter_map(|name| Some((name.to_owned(), trouble(name)?))).collect()
    }

    /// The window that its calls ask for: by a field of their body, else as it is configured.
    pub(crate) fn asked_window(&self, model: &dyn Model) -> Option<u64> {
        self.body.as_ref().and_then(|body| model.window_of_body(body)).or(self.context_window)
    }

    /// The tools that the model may call in a session with this configuration.
    pub(crate) fn tool_specs(&self, config: &SessionConfig, tools: &ToolSet) -> Vec<ToolSpec> {
        let enabled = self.enabled(config, tools);
        let enabled = enabled.into_iter().map(|tool| tool.name);
        let server = enabled.chain(self.internal(tools));
        let server = server.filter_map(|name| tools.get(&name)).map(|tool| tool.spec().clone());
        server.chain(config.client_tools.iter().cloned()).collect()
    }
}

/// The tools that these patterns name; see [`ToolSet::named`]. A plain name counts whether or not there is such a tool.
fn named(patterns: &[String], tools: &ToolSet) -> Vec<String> {
    if patterns.iter().all(|pattern| server(pattern).is_none()) {
        return patterns.to_vec();
    }
    let mut names: Vec<String> = Vec::new();
    for pattern in patterns {
        let found = match server(pattern) {
            None => vec![pattern.clone()],
            Some(_) => {
                let tools = tools.named(std::slice::from_ref(pattern));
                tools.iter().map(|tool| tool.spec().name.clone()).collect()
            }
        };
        for name in found {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The tool server that a pattern speaks of.
fn server(pattern: &str) -> Option<&str> {
    pattern.split_once('/').map(|(server, _)| server)
}

/// The configured agents, in order. The first is the default. An operator may change the configuration while the server
/// runs: what is begun goes on with the agent that it was begun with.
#[derive(Debug, Default)]
pub struct Agents(RwLock<Arc<[Arc<Agent>]>>);

impl Agents {
    /// These agents; their names differ.
    pub fn new(agents: Vec<Agent>) -> Self {
        Self(RwLock::new(agents.into_iter().map(Arc::new).collect()))
    }

    /// These take the place of all there were.
    pub fn replace(&self, agents: Vec<Agent>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = agents.into_iter().map(Arc::new).collect();
    }

    /// All of them, as they are now.
    pub fn all(&self) -> Arc<[Arc<Agent>]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The agent of this name.
    pub fn get(&self, name: &str) -> Option<Arc<Agent>> {
        self.all().iter().find(|agent| agent.name == name).cloned()
    }

    /// The default agent.
    pub fn first(&self) -> Option<Arc<Agent>> {
        self.all().first().cloned()
    }

    /// All names.
    pub fn names(&self) -> Vec<String> {
        self.all().iter().map(|agent| agent.name.clone()).collect()
    }
}
