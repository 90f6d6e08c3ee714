//! `/config`: the settings that the released desktop looks at before it shows a chat.
//!
//! There is no file of settings for each user here. What is asked for is answered from the server's configuration; of what
//! is sent, only the mode of new sessions is kept, for the tenant.

use axum::{
    Json,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use everturn_core::Json as Text;
use everturn_http::{Caller, Scope, document::any_json};
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    agent_update::mode_of,
    answers::{Always, Posted},
    error::ApiError,
    routes::Api,
};

/// The note that keeps the mode of a tenant's new sessions.
pub(crate) const MODE: &str = "goose.mode";
/// Longest name of a setting, in bytes.
const MAX_KEY: usize = 256;

#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = goose::ConfigKey)]
pub(crate) struct KeyIn {
    /// The setting's name.
    #[schema(required, nullable = false, min_length = 1, max_length = 256)]
    key: Option<String>,
    /// Whether it is a secret. Those of the server are told to nobody.
    #[serde(default)]
    is_secret: bool,
}

/// Tell a setting
///
/// `null` for those that this server does not have.
#[utoipa::path(
    post, path = "/config/read", operation_id = "goose_released_read_config",
    request_body(content = KeyIn, description = "Which setting", example = json!({
        "key": "GOOSE_PROVIDER", "is_secret": false,
    })),
    responses(
        (status = 200, description = "Its value", body = inline(AnyValue), content_type = "application/json", example = json!("openai")),
        Always, Posted,
    ),
)]
pub(crate) async fn read(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Json<Value>, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let KeyIn { key, is_secret } = api.read(&caller, &headers, body).await?;
    let key = checked_key(key)?;
    if is_secret {
        return Ok(Json(Value::Null));
    }
    Ok(Json(api.settings(&caller).await?.remove(&key).unwrap_or_default()))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = goose::ConfigValue)]
pub(crate) struct ValueIn {
    /// The setting's name.
    #[schema(required, nullable = false, min_length = 1, max_length = 256)]
    key: Option<String>,
    /// Its value.
    #[serde(default)]
    #[schema(schema_with = any_json)]
    value: Value,
    /// Whether it is a secret. Secrets are not kept.
    #[serde(default)]
    is_secret: bool,
}

/// Change a setting
///
/// `GOOSE_MODE` is kept: it is the mode of the tenant's new sessions. Everything else is set in the server's configuration:
/// it is taken, so that clients go on, and not kept.
#[utoipa::path(
    post, path = "/config/upsert", operation_id = "goose_released_upsert_config",
    request_body(content = ValueIn, description = "The setting and its value", example = json!({
        "key": "GOOSE_MODE", "value": "approve", "is_secret": false,
    })),
    responses(
        (status = 200, description = "What became of it", content_type = "text/plain", body = String, example = json!("Upserted key GOOSE_MODE")),
        Always, Posted,
    ),
)]
pub(crate) async fn upsert(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let ValueIn { key, value, is_secret } = api.read(&caller, &headers, body).await?;
    let key = checked_key(key)?;
    if is_secret || key != "GOOSE_MODE" {
        return Ok(format!("{key} is set in this server's configuration; what was sent is not kept").into_response());
    }
    let word = value.as_str().ok_or_else(|| ApiError::invalid("value: a mode is a text"))?;
    let mode = Text::of(&mode_of(word)?).map_err(|error| ApiError::internal(&error))?;
    let kept = api.engine.keep_tenant_note(&caller.tenant, MODE, mode).await;
    kept.map_err(|error| ApiError::submit(error, None))?;
    Ok(format!("Upserted key {key}").into_response())
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::Config)]
pub(crate) struct ConfigOut {
    /// Values by the settings' names.
    #[schema(value_type = std::collections::HashMap<String, Value>)]
    config: Map<String, Value>,
}

/// Tell all settings
#[utoipa::path(
    get, path = "/config", operation_id = "goose_released_show_config",
    responses(
        (status = 200, description = "The settings", body = ConfigOut, example = json!({ "config": {
            "GOOSE_PROVIDER": "openai", "GOOSE_MODEL": "gpt-5", "GOOSE_MODE": "smart_approve",
            "GOOSE_TELEMETRY_ENABLED": false,
        } })),
        Always,
    ),
)]
pub(crate) async fn show(State(api): State<Api>, headers: HeaderMap) -> Result<Json<ConfigOut>, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    Ok(Json(ConfigOut { config: api.settings(&caller).await? }))
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::SlashCommands)]
pub(crate) struct SlashCommands {
    commands: Vec<SlashCommand>,
}

/// Words that begin with a slash. This server has none.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::SlashCommand)]
struct SlashCommand {
    command: String,
    help: String,
    command_type: String,
}

/// List the commands that begin with a slash
///
/// There are none: what is sent is said to the agent, whatever it begins with.
#[utoipa::path(
    get, path = "/config/slash_commands", operation_id = "goose_released_list_slash_commands",
    responses((status = 200, description = "None", body = SlashCommands, example = json!({ "commands": [] })), Always),
)]
pub(crate) async fn slash_commands(
    State(api): State<Api>,
    headers: HeaderMap,
) -> Result<Json<SlashCommands>, ApiError> {
    api.caller(&headers, Scope::Read)?;
    Ok(Json(SlashCommands { commands: Vec::new() }))
}

impl Api {
    /// The settings that this server has an answer to.
    async fn settings(&self, caller: &Caller) -> Result<Map<String, Value>, ApiError> {
        let name = self.default_agent()?;
        let model = self.engine.agents().get(&name).and_then(|agent| agent.models.first().cloned());
        let (provider, model) = model.as_ref().and_then(|model| model.name().split_once('/')).unwrap_or(("", ""));
        let mode = self.default_mode(caller).await?.unwrap_or_default();
        let settings = json!({
            "GOOSE_PROVIDER": provider,
            "GOOSE_MODEL": model,
            "GOOSE_MODE": mode.as_str(),
            // There is nowhere to send it.
            "GOOSE_TELEMETRY_ENABLED": false,
        });
        Ok(match settings {
            Value::Object(settings) => settings,
            _ => Map::new(),
        })
    }
}

fn checked_key(key: Option<String>) -> Result<String, ApiError> {
    let key = key.ok_or_else(|| ApiError::invalid("key is missing"))?;
    if key.is_empty() || key.len() > MAX_KEY {
        return Err(ApiError::invalid(format!("key: a setting's name has 1 to {MAX_KEY} bytes")));
    }
    Ok(key)
}

/// Any JSON.
pub(crate) struct AnyValue;

impl utoipa::PartialSchema for AnyValue {
    fn schema() -> everturn_http::document::AnySchema {
        any_json()
    }
}

impl utoipa::ToSchema for AnyValue {}
