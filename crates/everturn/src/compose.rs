//! Makes the engine's parts out of the configuration.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use anyhow::{Context as _, bail};
use everturn_core::ModelOptions;
use everturn_documents::Reader;
use everturn_engine::{Agent, Models, Notices, Settings};
use everturn_http::{Key, Keys, Report, Scope};
use everturn_mcp::{Launcher, Mcp, ServerHealth};
use everturn_models::{Model, Provider, ProviderConfig, ProviderKind};
use everturn_recipes::Recipes;
use everturn_store::{Durability, Store};
use everturn_tools::{ToolSet, builtin_tools};
use secrecy::ExposeSecret as _;
use serde_json::json;

use crate::{
    config::{self, Config, Environment, ModelName},
    guard, machine_memory,
};

/// The tools that agents may name.
pub(crate) fn tools() -> anyhow::Result<Arc<ToolSet>> {
    ToolSet::new(builtin_tools()).map(Arc::new).context("failed to set up the built-in tools")
}

/// How MCP servers are started: by this program, as their guard, with next to nothing of its environment.
pub(crate) fn launcher(environment: &Environment) -> Launcher {
    let inherited = ["PATH", "HOME"].into_iter();
    let inherited = inherited.filter_map(|name| Some((name.to_owned(), environment.get(name)?.to_owned())));
    let temporary = environment.get("TMPDIR").unwrap_or("/tmp");
    guard::launcher().with_environment(inherited).with_temporary(temporary)
}

/// How MCP servers are, for everybody to see: without what they wrote.
pub(crate) fn mcp_health(mcp: &Mcp) -> Report {
    let mcp = mcp.clone();
    Report::new(move || {
        let told = |health: ServerHealth| {
            let state = json!({ "state": health.state.as_str(), "tools": health.tools, "restarts": health.restarts });
            (health.name, state)
        };
        mcp.health().into_iter().map(told).collect()
    })
}

/// The agents, each with its models.
pub(crate) fn agents(config: &Config, providers: &Providers) -> anyhow::Result<Vec<Agent>> {
    let providers = &providers.0;
    let model = |name: &ModelName| -> anyhow::Result<Arc<dyn Model>> {
        match providers.get(name.provider.as_str()) {
            Some(provider) => Ok(provider.model(&name.model)),
            None => bail!("model {name}: there is no provider {:?}", name.provider),
        }
    };
    let agent = |agent: &config::Agent| -> anyhow::Result<Agent> {
        let models = std::iter::once(&agent.model).chain(&agent.fallback).map(model);
        Ok(Agent {
            name: agent.name.as_str().to_owned(),
            version: agent.version.clone(),
            title: agent.title.clone(),
            description: agent.description.clone(),
            instructions: agent.instructions.clone(),
            models: models.collect::<Result<_, _>>()?,
            tools: agent.tools.clone(),
            trusted: agent.trusted.clone(),
            internal_tools: agent.internal_tools.clone(),
            options: agent.options.clone(),
            capabilities: agent.capabilities,
            max_steps: agent.max_steps,
            turn_timeout: agent.turn_timeout,
            context_window: agent.context_window,
            model_options: ModelOptions { max_output_tokens: agent.max_output_tokens, ..agent.model_options.clone() },
            body: agent.body.clone(),
            titles: agent.titles,
            client_trust: agent.client_trust,
        })
    };
    config.agents.iter().map(agent).collect()
}

/// The providers, by name.
pub(crate) struct Providers(BTreeMap<String, Provider>);

/// The providers that are configured now.
pub(crate) struct CurrentProviders(RwLock<Arc<Providers>>);

impl CurrentProviders {
    pub(crate) fn new(providers: Providers) -> Self {
        Self(RwLock::new(Arc::new(providers)))
    }

    pub(crate) fn now(&self) -> Arc<Providers> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn replace(&self, providers: Providers) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(providers);
    }
}

impl Models for CurrentProviders {
    fn find(&self, name: &str) -> Option<Arc<dyn Model>> {
        self.now().find(name)
    }

    fn providers(&self) -> Vec<String> {
        self.now().0.keys().cloned().collect()
    }
}

impl Providers {
    /// The provider of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Provider> {
        self.0.get(name)
    }

    /// The model of this name, `provider/model`.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<dyn Model>> {
        let (provider, model) = name.split_once('/')?;
        let named = !model.trim().is_empty() && model.len() <= 256;
        self.get(provider).filter(|_| named).map(|provider| provider.model(model))
    }

    /// All of them, in the order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Provider> {
        self.0.values()
    }
}

/// The providers that are configured.
pub(crate) fn providers(config: &Config) -> anyhow::Result<Providers> {
    providers_after(config, |_, _| None)
}

/// The same on a reload. A provider whose configuration has not changed keeps what it has learned of its models.
pub(crate) fn providers_after(
    config: &Config,
    before: impl Fn(&str, &config::Provider) -> Option<Provider>,
) -> anyhow::Result<Providers> {
    let mut providers = BTreeMap::new();
    for (name, provider) in &config.providers {
        if let Some(same) = before(name, provider) {
            providers.insert(name.clone(), same);
            continue;
        }
        let kind = match provider.kind {
            config::ProviderKind::OpenAi => ProviderKind::OpenAi,
            config::ProviderKind::Anthropic => ProviderKind::Anthropic,
            config::ProviderKind::Gemini => ProviderKind::Gemini,
            config::ProviderKind::Ollama => ProviderKind::Ollama,
            config::ProviderKind::Demo => ProviderKind::Demo,
        };
        let config = ProviderConfig {
            kind,
            base_url: provider.base_url.clone(),
            api_key: provider.api_key.clone(),
            context_window: provider.context_window,
            thinking_budget: provider.thinking_budget,
            wire: provider.wire,
            rules_of: provider.rules_of.clone(),
            headers: provider.headers.clone(),
            body: provider.body.clone(),
        };
        providers.insert(name.clone(), Provider::new(name, config)?);
    }
    Ok(Providers(providers))
}

/// The folder of recipes, if one is named.
pub(crate) fn recipes(config: &Config) -> anyhow::Result<Option<Arc<Recipes>>> {
    let folder = config.goose.recipes.as_deref();
    let recipes = folder.map(Recipes::open).transpose().context("set [recipes] dir to a folder that is there")?;
    Ok(recipes.map(Arc::new))
}

/// The keys of the configuration and those of the store, or none.
pub(crate) async fn keys(config: &Config, store: Arc<dyn Store>) -> anyhow::Result<Arc<Keys>> {
    let configured = configured_keys(config);
    let keys = Keys::load(store, configured, config.quotas.clone()).await.context("failed to read the keys")?;
    Ok(Arc::new(keys))
}

/// The keys of the configuration.
pub(crate) fn configured_keys(config: &Config) -> Vec<Key> {
    let scope = |scope: &config::Scope| match scope {
        config::Scope::Chat => Scope::Chat,
        config::Scope::Read => Scope::Read,
        config::Scope::Admin => Scope::Admin,
    };
    let key = |key: &config::ApiKey| {
        Key::new(key.key.expose_secret(), key.tenant.clone(), key.scopes.iter().map(scope).collect())
            .named(key.id.clone(), &key.name)
            .until(key.expires_at)
            .with_quota(key.quota)
    };
    config.keys.iter().map(key).collect()
}

/// Whose turns are told of, and what of them.
pub(crate) fn notices(config: &Config) -> Notices {
    let wanted = config.webhooks.iter().map(|hook| (hook.tenant.clone(), hook.events.clone()));
    Notices::new(wanted.collect())
}

/// What the engine needs of the limits and times.
pub(crate) fn settings(config: &Config, document_reader: Arc<dyn Reader>) -> Settings {
    let limits = &config.limits;
    Settings {
        pause_max: limits.pause_max,
        session_queue: limits.session_queue,
        tenant_queue: limits.tenant_queue,
        form_expiry: limits.form_expiry,
        approval_expiry: limits.approval_expiry,
        question_patience: limits.question_expiry,
        artifact_bytes: limits.artifact_bytes,
        document_bytes: limits.document_bytes,
        document_reader,
        document_context_bytes: limits.document_context_bytes,
        form_answer_bytes: limits.form_answer_bytes,
        retention: config.retention,
        concurrent_turns: limits.concurrent_turns,
        queued_turns: limits.queued_turns,
        queue_timeout: limits.queue_timeout,
        first_byte_timeout: limits.first_byte_timeout,
        step_idle_timeout: limits.step_idle_timeout,
        retries: limits.retries,
        retry_max: limits.retry_max,
        ring_bytes: limits.ring_bytes,
        memory_bytes: limits.memory_of(machine_memory::total()),
        warm_bytes: limits.warm_sessions as u64,
        ..Settings::default()
    }
}

/// What a commit survives.
pub(crate) fn durability(durability: config::Durability) -> Durability {
    match durability {
        config::Durability::Fsync => Durability::Fsync,
        config::Durability::Process => Durability::Process,
    }
}
