//! `/agent/update_*` and `/agent/restart`: a session's mode, model and folder, as the desktop's controls change them.

use axum::{
    Json,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use everturn_http::{Scope, document::any_json};
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    agent::{ExtensionResult, SessionIn, check_folder},
    answers::{Always, NoSession, NotChosen, Posted},
    choices::Mode,
    describe::session,
    error::ApiError,
    routes::{Api, nothing, session_named},
};

#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = goose::UpdateSessionRequest)]
pub(crate) struct SessionUpdateIn {
    #[schema(schema_with = session, required)]
    session_id: Option<String>,
    /// Which tools run without asking: `auto`, `approve`, `smart_approve` or `chat`, which is without tools.
    #[schema(value_type = Option<Mode>)]
    goose_mode: Option<String>,
}

/// Change which tools of a session run without asking
///
/// From the next message on. What people allowed or denied for good stays.
#[utoipa::path(
    post, path = "/agent/update_session", operation_id = "goose_released_update_session",
    request_body(content = SessionUpdateIn, description = "Which session, and its mode", example = json!({
        "session_id": "20260304_1", "goose_mode": "approve",
    })),
    responses((status = 200, description = "It has it"), Always, Posted, NoSession, NotChosen),
)]
pub(crate) async fn update_session(
    State(api): State<Api>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let SessionUpdateIn { session_id, goose_mode } = api.read(&caller, &headers, body).await?;
    let mode = goose_mode.as_deref().map(mode_of).transpose()?;
    let record = api.record(&caller.tenant, &session_named(session_id)?).await?;
    let Some(mode) = mode else { return Ok(nothing().into_response()) };
    if !record.config.agent_tools {
        return Err(ApiError::conflict(
            "this session's application says which tools it trusts, so a goose_mode has no effect on it",
        ));
    }
    api.choose(&record, |choices, tools| {
        if mode == Mode::Chat {
            // So that it has them again in another mode.
            choices.tools.get_or_insert(tools);
        }
        choices.mode = Some(mode);
        Ok(())
    })
    .await?;
    Ok(nothing().into_response())
}

/// A mode by its word.
pub(crate) fn mode_of(word: &str) -> Result<Mode, ApiError> {
    Mode::of(word).ok_or_else(|| {
        let shown: String = word.chars().take(64).collect();
        ApiError::invalid(format!("mode {shown:?} is not known; use auto, approve, smart_approve or chat"))
    })
}

#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = goose::UpdateProviderRequest)]
pub(crate) struct ProviderIn {
    #[schema(schema_with = session, required)]
    session_id: Option<String>,
    /// A provider of the server.
    #[schema(required, nullable = false)]
    provider: Option<String>,
    /// One of its models; the agent's first of that provider if it is left out.
    model: Option<String>,
    /// Not used: the server knows its models.
    #[serde(rename = "context_limit")]
    #[schema(schema_with = any_json, required = false)]
    _context_limit: Option<Value>,
    /// Not used: the agent's configuration has them.
    #[serde(rename = "request_params")]
    #[schema(schema_with = any_json, required = false)]
    _request_params: Option<Value>,
}

/// Change the model of a session
///
/// From the next message on, to one that its agent has; others need the scope `admin`.
#[utoipa::path(
    post, path = "/agent/update_provider", operation_id = "goose_released_update_provider",
    request_body(content = ProviderIn, description = "Which session, and its model", example = json!({
        "session_id": "20260304_1", "provider": "demo", "model": "demo",
    })),
    responses((status = 200, description = "It has it"), Always, Posted, NoSession),
)]
pub(crate) async fn update_provider(
    State(api): State<Api>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let ProviderIn { session_id, provider, model, .. } = api.read(&caller, &headers, body).await?;
    let provider = provider.filter(|provider| !provider.is_empty());
    let provider = provider.ok_or_else(|| ApiError::invalid("provider is missing"))?;
    let record = api.record(&caller.tenant, &session_named(session_id)?).await?;
    let reach = api.reach(&caller, &record.config.agent).await?;
    let first = || {
        let mut own = reach.agent().models.iter().filter_map(|model| model.name().split_once('/'));
        own.find(|(own, _)| *own == provider).map(|(_, model)| model.to_owned())
    };
    let model = model.filter(|model| !model.is_empty()).or_else(first).ok_or_else(|| {
        let shown: String = provider.chars().take(64).collect();
        ApiError::invalid(format!("model is missing, and the agent has none of provider {shown:?}"))
    })?;
    let model = format!("{provider}/{model}");
    reach.check_model(&model)?;
    if !api.engine.has_model(&model) {
        let shown: String = model.chars().take(128).collect();
        return Err(ApiError::invalid(format!(
            "{shown:?} names no model; GET /goose/config/providers lists providers"
        )));
    }
    api.choose(&record, |choices, _| {
        choices.model = Some(model);
        Ok(())
    })
    .await?;
    Ok(nothing().into_response())
}

#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = goose::WorkingDirRequest)]
pub(crate) struct WorkingDirIn {
    #[schema(schema_with = session, required)]
    session_id: Option<String>,
    /// The folder that the client works in; told back to it, and not looked at.
    #[schema(required, nullable = false, min_length = 1, max_length = 4096)]
    working_dir: Option<String>,
}

/// Change the folder that a session's client works in
#[utoipa::path(
    post, path = "/agent/update_working_dir", operation_id = "goose_released_update_working_dir",
    request_body(content = WorkingDirIn, description = "Which session, and the folder", example = json!({
        "session_id": "20260304_1", "working_dir": "/srv/ann/project",
    })),
    responses((status = 200, description = "It has it"), Always, Posted, NoSession),
)]
pub(crate) async fn update_working_dir(
    State(api): State<Api>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let WorkingDirIn { session_id, working_dir } = api.read(&caller, &headers, body).await?;
    let folder = working_dir.filter(|folder| !folder.trim().is_empty());
    let folder = folder.ok_or_else(|| ApiError::invalid("working_dir is missing"))?;
    check_folder(&folder)?;
    let record = api.record(&caller.tenant, &session_named(session_id)?).await?;
    api.choose(&record, |choices, _| {
        choices.working_dir = Some(folder);
        Ok(())
    })
    .await?;
    Ok(nothing().into_response())
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::Restarted)]
struct Restarted {
    extension_results: Vec<ExtensionResult>,
}

/// Tell whether the tools of a session can be used
///
/// There is nothing to start again: the server keeps its tool servers running.
#[utoipa::path(
    post, path = "/agent/restart", operation_id = "goose_released_restart_agent",
    request_body(content = SessionIn, description = "Which session", example = json!({ "session_id": "20260304_1" })),
    responses(
        (status = 200, description = "Its tool servers", body = Restarted, example = json!({
            "extension_results": [{ "name": "files", "success": true, "error": null }],
        })),
        Always, Posted, NoSession,
    ),
)]
pub(crate) async fn restart(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let SessionIn { session_id } = api.read(&caller, &headers, body).await?;
    let record = api.record(&caller.tenant, &session_named(session_id)?).await?;
    let extension_results = api.extension_results(&record).await?;
    Ok(Json(Restarted { extension_results }).into_response())
}
