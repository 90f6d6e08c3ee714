//! `GET /config/providers`: the providers and models that the server's agents have.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use everturn_http::Scope;
use http::HeaderMap;
use serde::Serialize;

use crate::{answers::Always, error::ApiError, routes::Api};

/// Tokens of context that the releases assume of a model that nobody knows.
const UNKNOWN_CONTEXT: u64 = 128_000;

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::Provider)]
pub(crate) struct ProviderOut {
    name: String,
    metadata: Metadata,
    /// Always: only those that can be used are listed.
    is_configured: bool,
    /// `Builtin`.
    provider_type: &'static str,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::ProviderMetadata)]
struct Metadata {
    name: String,
    display_name: String,
    description: &'static str,
    /// The first one that an agent has.
    default_model: String,
    known_models: Vec<ModelOut>,
    /// Empty.
    model_doc_link: &'static str,
    /// Empty: keys of providers are the server's business.
    config_keys: Vec<String>,
}

#[derive(Clone, Serialize, utoipa::ToSchema)]
#[schema(as = goose::ModelInfo)]
struct ModelOut {
    name: String,
    /// Tokens of context; 128000 where the server does not know.
    context_limit: u64,
}

/// List the providers whose models the agents have
#[utoipa::path(
    get, path = "/config/providers", operation_id = "goose_released_list_providers",
    responses(
        (status = 200, description = "The providers", body = Vec<ProviderOut>, example = json!([{
            "name": "demo",
            "metadata": {
                "name": "demo", "display_name": "demo", "description": "Configured on this server",
                "default_model": "demo", "known_models": [{ "name": "demo", "context_limit": 128_000 }],
                "model_doc_link": "", "config_keys": [],
            },
            "is_configured": true,
            "provider_type": "Builtin",
        }])),
        Always,
    ),
)]
pub(crate) async fn list(State(api): State<Api>, headers: HeaderMap) -> Result<Json<Vec<ProviderOut>>, ApiError> {
    api.caller(&headers, Scope::Read)?;
    let mut by_provider: BTreeMap<String, Vec<ModelOut>> = BTreeMap::new();
    for agent in api.engine.agents().all().iter() {
        for model in &agent.models {
            let Some((provider, name)) = model.name().split_once('/') else { continue };
            let known = by_provider.entry(provider.to_owned()).or_default();
            if known.iter().all(|known| known.name != name) {
                let context = agent.context_window.or_else(|| model.context_window());
                known.push(ModelOut { name: name.to_owned(), context_limit: context.unwrap_or(UNKNOWN_CONTEXT) });
            }
        }
    }
    let provider = |(name, known_models): (String, Vec<ModelOut>)| ProviderOut {
        name: name.clone(),
        metadata: Metadata {
            display_name: name.clone(),
            name,
            description: "Configured on this server",
            default_model: known_models.first().map(|model| model.name.clone()).unwrap_or_default(),
            known_models,
            model_doc_link: "",
            config_keys: Vec::new(),
        },
        is_configured: true,
        provider_type: "Builtin",
    };
    Ok(Json(by_provider.into_iter().map(provider).collect()))
}
