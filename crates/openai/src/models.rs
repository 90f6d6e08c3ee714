//! `GET /models`: the agents, as models.

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    response::{IntoResponse, Response},
};
use everturn_core::Timestamp;
use everturn_engine::{Agent, StoredProfile};
use everturn_http::Scope;
use http::{HeaderMap, StatusCode};
use serde::Serialize;

use crate::{
    description::{ModelErrors, ModelListSchema, ModelSchema},
    error::ApiError,
    routes::Api,
};

/// How many stored agents are listed besides those that are configured.
const MAX_STORED: usize = 1000;

/// An agent, as a model.
#[derive(Serialize)]
struct ModelOut<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    owned_by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
}

#[derive(Serialize)]
struct ModelList<'a> {
    object: &'static str,
    data: Vec<ModelOut<'a>>,
}

impl<'a> ModelOut<'a> {
    /// A configured agent, known since the server was started.
    fn configured(agent: &'a Agent, since: Timestamp) -> Self {
        Self {
            id: &agent.name,
            object: "model",
            created: since.millis() / 1000,
            owned_by: "everturn",
            name: agent.title.as_deref(),
            description: agent.description.as_deref(),
        }
    }

    fn stored(stored: &'a StoredProfile) -> Self {
        Self {
            id: &stored.id,
            object: "model",
            created: stored.created_at.millis() / 1000,
            owned_by: "tenant",
            name: Some(&stored.profile.name),
            description: stored.profile.description.as_deref(),
        }
    }
}

/// List the agents
///
/// An agent is a model here: its name is what `model` of a request names. The first one answers requests that name none.
#[utoipa::path(
    get, path = "/models", operation_id = "openai_list_models",
    responses(
        (status = 200, description = "The configured agents, then those that the tenant has stored", body = ModelListSchema,
         example = json!({ "object": "list", "data": [
             { "id": "assistant", "object": "model", "created": 1_790_000_000, "owned_by": "everturn", "name": "Assistant" },
         ] })),
        ModelErrors,
    ),
)]
pub(crate) async fn list(State(api): State<Api>, headers: HeaderMap) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let stored = api.engine.profiles(&caller.tenant, None, MAX_STORED).await?;
    let configured = api.engine.agents().all();
    let configured = configured.iter().map(|agent| ModelOut::configured(agent, api.since));
    let data = configured.chain(stored.iter().map(ModelOut::stored)).collect();
    Ok(Json(ModelList { object: "list", data }).into_response())
}

/// Show an agent
#[utoipa::path(
    get, path = "/models/{model}", operation_id = "openai_get_model",
    params(("model" = String, Path, description = "The agent's name", example = "assistant")),
    responses(
        (status = 200, description = "The agent. A name of `[openai.models]` shows the agent that it is mapped to", body = ModelSchema,
         example = json!({ "id": "assistant", "object": "model", "created": 1_790_000_000, "owned_by": "everturn" })),
        (status = 404, description = "There is no such agent", body = crate::description::ErrorSchema,
         example = json!({ "error": {
             "message": "there is no model \"gpt-4\"; this server's agents are its models: assistant. GET /v1/models lists \
                         them all, and [openai.models] in the server's configuration maps other names to them",
             "type": "not_found_error",
             "param": "model", "code": "model_not_found",
         } })),
        ModelErrors,
    ),
)]
pub(crate) async fn show(
    State(api): State<Api>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let agents = || api.engine.agents().names();
    let Path(name) = path.map_err(|_| no_model("\u{fffd}", agents()))?;
    if let Some(agent) = api.engine.agents().get(&name) {
        return Ok(Json(ModelOut::configured(&agent, api.since)).into_response());
    }
    if let Some(stored) = api.engine.profile(&caller.tenant, &name).await? {
        return Ok(Json(ModelOut::stored(&stored)).into_response());
    }
    // A mapped name is shown as itself: clients compare the answer's id with what they asked for.
    let mapped = api.mapped(&name).and_then(|agent| api.engine.agents().get(agent));
    let agent = mapped.ok_or_else(|| no_model(&name, agents()))?;
    Ok(Json(ModelOut { id: &name, ..ModelOut::configured(&agent, api.since) }).into_response())
}

/// How many agents an error names.
const MAX_NAMED: usize = 20;

/// No agent has this name, nor is it mapped to one.
pub(crate) fn no_model(name: &str, agents: Vec<String>) -> ApiError {
    let shown: String = name.chars().take(128).collect();
    let message = format!(
        "there is no model {shown:?}; this server's agents are its models: {}. GET /v1/models lists them all, and \
         [openai.models] in the server's configuration maps other names to them",
        agents[..agents.len().min(MAX_NAMED)].join(", ")
    );
    ApiError::new(StatusCode::NOT_FOUND, Some("model_not_found"), message).about("model")
}
