//! `/agent/*`: sessions that are made before anything is said, and what their agents can do.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    body::Body,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use everturn_core::{Json as Text, SessionConfig, TenantId};
use everturn_engine::{Agent, NewConversation, SessionUpdate};
use everturn_http::{
    Object, Scope,
    document::{self, AnySchema, IdempotencyKey},
    parse_json, read_body, submission_key,
};
use everturn_recipes::{Recipe, RenderError};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};

use crate::{
    answers::{Always, NoSession, NotAsked, NotMade, Posted},
    describe::{SessionParam, recipe_in, session},
    error::ApiError,
    recipe::{Chosen, Dressing, blocking, put_on},
    routes::{Api, nothing, session_named},
    session_out::{SessionOut, WORKING_DIR, session_example},
    sessions::Detail,
};

/// Longest path of a working directory, in bytes.
const MAX_PATH: usize = 4096;

/// What a new session is to have.
#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = goose::StartRequest)]
struct StartIn {
    /// The folder that the client works in; told back to it, and not looked at.
    #[schema(max_length = 4096)]
    working_dir: Option<String>,
    #[schema(schema_with = recipe_in, required = false)]
    recipe: Option<Box<RawValue>>,
    /// A recipe of the server, by its `id` in the list, or by its name; comes before `recipe`.
    recipe_id: Option<String>,
    /// Links to recipes are not read.
    #[schema(schema_with = nothing_here, required = false)]
    recipe_deeplink: Option<String>,
    /// Which agent: ours, since the releases had one only.
    agent: Option<String>,
}

fn nothing_here() -> AnySchema {
    document::schema(json!({ "type": "null" }))
}

/// Make a session
///
/// A recipe whose parameters need values gets them by `user_recipe_values`, or with the first message.
#[utoipa::path(
    post, path = "/agent/start", operation_id = "goose_released_start_agent",
    params(IdempotencyKey),
    request_body(content = StartIn, description = "What the session is to have", example = json!({
        "working_dir": "/srv/ann/project",
    })),
    responses(
        (status = 200, description = "The session", body = SessionOut<'_>, example = json!(session_example(false))),
        Always, Posted, NotMade,
    ),
)]
pub(crate) async fn start(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let body = read_body(&headers, body, api.limits).await?;
    let Object(request): Object<StartIn> = parse_json(&body, api.limits)?;
    let key = submission_key(&headers, "POST /goose/agent/start", &body)?;
    if request.recipe_deeplink.is_some() {
        let message = "recipe_deeplink: links to recipes are not read here; send the recipe itself in \"recipe\", or the \
            id of one of this server's in \"recipe_id\"";
        return Err(ApiError::invalid(message));
    }
    let agent = request.agent.map_or_else(|| api.default_agent(), Ok)?;
    let mut update = SessionUpdate { agent_tools: true, titled: true, ..SessionUpdate::default() };
    if let Some(folder) = request.working_dir {
        note_folder(&mut update, &folder)?;
    }
    let chosen = match (request.recipe_id, request.recipe) {
        (Some(id), _) => Some(api.recipe_by_id(&id).await?),
        (None, Some(recipe)) => {
            let recipe = blocking(move || Recipe::from_json(recipe.get())).await?;
            let recipe = recipe.map_err(|error| ApiError::new(StatusCode::BAD_REQUEST, format!("recipe: {error}")))?;
            Some(Chosen { recipe: Arc::new(recipe), name: None })
        }
        (None, None) => None,
    };
    if let Some(chosen) = chosen {
        let values = BTreeMap::new();
        let overlay = match api.overlay(&agent, &chosen.recipe, &values).await {
            Ok(overlay) => Some(overlay),
            // They come later, with user_recipe_values or the first message.
            Err(Dressing::Render(RenderError::MissingParameters { .. })) => None,
            Err(error) => return Err(error.told()),
        };
        put_on(&mut update, &chosen, &values, overlay)?;
    }
    let new = NewConversation { agent, update, ..NewConversation::default() };
    let record = api.engine.create_session(&caller.tenant, new, key).await;
    let record = record.map_err(|error| ApiError::submit(error, None))?;
    Ok(Json(api.session_json(&caller.tenant, &record, Detail::Summary).await?).into_response())
}

/// Notes the folder that a client works in.
pub(crate) fn note_folder(update: &mut SessionUpdate, folder: &str) -> Result<(), ApiError> {
    if folder.len() > MAX_PATH {
        return Err(ApiError::invalid(format!("working_dir has {} bytes, the limit is {MAX_PATH}", folder.len())));
    }
    update.notes.insert(WORKING_DIR.to_owned(), Text::of(&folder).map_err(|error| ApiError::internal(&error))?);
    Ok(())
}

#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = goose::ResumeRequest)]
pub(crate) struct ResumeIn {
    #[schema(schema_with = session, required)]
    session_id: Option<String>,
    /// Whether to tell how the tool servers of its agent are.
    #[serde(default)]
    load_model_and_extensions: bool,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::Resumed)]
struct Resumed {
    #[schema(value_type = SessionOut<'_>)]
    session: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    extension_results: Option<Vec<ExtensionResult>>,
}

/// Whether the tools of a server can be used.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::ExtensionResult)]
struct ExtensionResult {
    name: String,
    success: bool,
    /// What is the matter with it.
    #[schema(required)]
    error: Option<String>,
}

/// Show a session, and whether its tools can be used
#[utoipa::path(
    post, path = "/agent/resume", operation_id = "goose_released_resume_agent",
    request_body(content = ResumeIn, description = "Which session", example = json!({
        "session_id": "20260304_1", "load_model_and_extensions": true,
    })),
    responses(
        (status = 200, description = "The session with its conversation", body = Resumed, example = json!({
            "session": session_example(true),
            "extension_results": [{ "name": "files", "success": true, "error": null }],
        })),
        Always, Posted, NoSession,
    ),
)]
pub(crate) async fn resume(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let ResumeIn { session_id, load_model_and_extensions } = api.read(&headers, body).await?;
    let record = api.record(&caller.tenant, &session_named(session_id)?).await?;
    let session = api.session_json(&caller.tenant, &record, Detail::Conversation).await?;
    let extension_results = if load_model_and_extensions {
        let agent = api.agent_of(&caller.tenant, &record.config).await?;
        Some(api.extension_results(&agent))
    } else {
        None
    };
    Ok(Json(Resumed { session, extension_results }).into_response())
}

#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = goose::SessionRequest)]
pub(crate) struct SessionIn {
    #[schema(schema_with = session, required)]
    session_id: Option<String>,
}

/// Give a session what its recipe says
///
/// There is nothing to do: a session has what its recipe says from the moment that it has the recipe.
#[utoipa::path(
    post, path = "/agent/update_from_session", operation_id = "goose_released_update_from_session",
    request_body(content = SessionIn, description = "Which session", example = json!({ "session_id": "20260304_1" })),
    responses((status = 200, description = "It has"), Always, Posted, NoSession),
)]
pub(crate) async fn update_from_session(
    State(api): State<Api>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let SessionIn { session_id } = api.read(&headers, body).await?;
    api.record(&caller.tenant, &session_named(session_id)?).await?;
    Ok(nothing().into_response())
}

/// End the turn of a session
///
/// Whether it runs or waits. The session stays.
#[utoipa::path(
    post, path = "/agent/stop", operation_id = "goose_released_stop_agent",
    request_body(content = SessionIn, description = "Which session", example = json!({ "session_id": "20260304_1" })),
    responses((status = 200, description = "No turn runs or waits in it"), Always, Posted, NoSession),
)]
pub(crate) async fn stop(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let SessionIn { session_id } = api.read(&headers, body).await?;
    let record = api.record(&caller.tenant, &session_named(session_id)?).await?;
    api.engine.stop(&caller.tenant, &record.id, None, None).await?;
    Ok(nothing().into_response())
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::Tool)]
struct ToolInfo {
    name: String,
    description: String,
    /// The names of its parameters.
    parameters: Vec<String>,
    /// Whether it asks first.
    #[schema(schema_with = permission)]
    permission: &'static str,
}

fn permission() -> AnySchema {
    document::schema(json!({ "enum": ["always_allow", "ask_before"], "description": "Whether it asks first" }))
}

/// List the tools of a session
#[utoipa::path(
    get, path = "/agent/tools", operation_id = "goose_released_list_tools",
    params(("session_id" = inline(SessionParam), Query, description = "The session")),
    responses(
        (status = 200, description = "Its tools", body = Vec<ToolInfo>, example = json!([{
            "name": "clock", "description": "Tells the time", "parameters": ["timezone"], "permission": "ask_before",
        }])),
        Always, NotAsked,
    ),
)]
pub(crate) async fn tools(
    State(api): State<Api>,
    headers: HeaderMap,
    query: Result<Query<SessionIn>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let Query(SessionIn { session_id }) = query?;
    let record = api.record(&caller.tenant, &session_named(session_id)?).await?;
    let agent = api.agent_of(&caller.tenant, &record.config).await?;
    let enabled = agent.enabled(&record.config, api.engine.tools());
    let info = |tool: everturn_core::ToolRef| {
        let found = api.engine.tools().get(&tool.name)?;
        let spec = found.spec();
        let schema = spec.input_schema.to_value();
        let parameters = schema["properties"].as_object().map(|keys| keys.keys().cloned().collect());
        Some(ToolInfo {
            name: tool.name,
            description: spec.description.clone(),
            parameters: parameters.unwrap_or_default(),
            permission: if tool.trust { "always_allow" } else { "ask_before" },
        })
    };
    let tools: Vec<_> = enabled.into_iter().filter_map(info).collect();
    Ok(Json(json!(tools)).into_response())
}

impl Api {
    async fn agent_of(&self, tenant: &TenantId, config: &SessionConfig) -> Result<Arc<Agent>, ApiError> {
        let agent = self.engine.agent_of_session(tenant, config).await;
        agent.map_err(|error| ApiError::submit(error, None))
    }

    /// The tool servers of an agent, each with what is the matter.
    fn extension_results(&self, agent: &Agent) -> Vec<ExtensionResult> {
        let servers = self.engine.tools().servers();
        let troubles: BTreeMap<_, _> = agent.troubles(self.engine.tools()).into_iter().collect();
        let mut names: Vec<_> =
            agent.tools.iter().filter_map(|tool| tool.split_once('/')).map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        let result = |name: &str| {
            let error = troubles.get(name).cloned();
            ExtensionResult { name: name.to_owned(), success: error.is_none() && servers.contains_key(name), error }
        };
        names.into_iter().map(result).collect()
    }

    /// A recipe by its id in the list: `name@version`, or its name alone.
    async fn recipe_by_id(&self, id: &str) -> Result<Chosen, ApiError> {
        let (name, version) = match id.split_once('@') {
            Some((name, version)) => (name, Some(version.to_owned())),
            None => (id, None),
        };
        self.find_recipe(name.to_owned(), version).await
    }
}
