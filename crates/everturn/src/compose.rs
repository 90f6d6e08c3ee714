//! Makes the engine's parts out of the configuration.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context as _, bail};
use everturn_engine::{Agent, Agents, Settings};
use everturn_http::{Key, Keys, Scope};
use everturn_models::{Model, Provider, ProviderConfig, ProviderKind};
use everturn_store::Durability;
use everturn_tools::{ToolSet, builtin_tools};
use secrecy::ExposeSecret as _;

use crate::config::{self, Config, Limits, ModelName};

/// The tools that agents may name.
pub(crate) fn tools() -> anyhow::Result<ToolSet> {
    ToolSet::new(builtin_tools()).context("failed to set up the built-in tools")
}

/// The agents, each with its models.
pub(crate) fn agents(config: &Config) -> anyhow::Result<Agents> {
    let providers = providers(&config.providers)?;
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
            max_output_tokens: agent.max_output_tokens,
        })
    };
    Ok(Agents::new(config.agents.iter().map(agent).collect::<Result<_, _>>()?))
}

fn providers(configured: &BTreeMap<String, config::Provider>) -> anyhow::Result<BTreeMap<&str, Provider>> {
    let mut providers = BTreeMap::new();
    for (name, provider) in configured {
        let kind = match provider.kind {
            config::ProviderKind::OpenAi => ProviderKind::OpenAi,
            config::ProviderKind::Anthropic => ProviderKind::Anthropic,
            config::ProviderKind::Gemini => ProviderKind::Gemini,
            config::ProviderKind::Ollama => ProviderKind::Ollama,
            config::ProviderKind::Demo => ProviderKind::Demo,
        };
        let wire = ProviderConfig {
            base_url: provider.base_url.clone(),
            api_key: provider.api_key.clone(),
            context_window: provider.context_window,
            thinking_budget: provider.thinking_budget,
            ..ProviderConfig::new(kind)
        };
        providers.insert(name.as_str(), Provider::new(name, wire)?);
    }
    Ok(providers)
}

/// The keys, or none.
pub(crate) fn keys(config: &Config) -> Keys {
    if config.keys.is_empty() {
        return Keys::Open;
    }
    let scope = |scope: &config::Scope| match scope {
        config::Scope::Chat => Scope::Chat,
        config::Scope::Read => Scope::Read,
        config::Scope::Admin => Scope::Admin,
    };
    let key = |key: &config::ApiKey| {
        Key::new(key.key.expose_secret(), key.tenant.clone(), key.scopes.iter().map(scope).collect())
    };
    Keys::Closed(config.keys.iter().map(key).collect())
}

/// What the engine needs of the limits.
pub(crate) fn settings(limits: &Limits) -> Settings {
    Settings {
        concurrent_turns: limits.concurrent_turns,
        queued_turns: limits.queued_turns,
        queue_timeout: limits.queue_timeout,
        step_idle_timeout: limits.step_idle_timeout,
        retries: limits.retries,
        ring_bytes: limits.ring_bytes,
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
