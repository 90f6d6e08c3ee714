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
    held, parse_json, read_body, submission_key,
};
use everturn_recipes::{Recipe, RenderError};
use everturn_store::SessionRecord;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};

use crate::{
    answers::{Always, NoSession, NotAsked, NotMade, Posted},
    choices::Choices,
    describe::{SessionParam, recipe_in, session},
    error::ApiError,
    extensions::{ConfigIn, servers_of},
    permissions::Level,
    recipe::{Chosen, Dressing, blocking, plain_name, put_on},
    routes::{Api, nothing, session_named},
    session_out::{SessionOut, WORKING_DIR, session_example},
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
    /// The MCP servers that the session has, by name: those of its agent if this is left out. A recipe that names some comes
    /// first. Those that it cannot have are told by `/agent/resume`.
    #[schema(max_items = 64, value_type = Option<Vec<ConfigIn>>)]
    extension_overrides: Option<Vec<Object<ConfigIn>>>,
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
    let body = read_body(&headers, body, api.limits, &api.engine.memory_of(&caller.tenant)).await?;
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
    let mut choices = Choices { mode: api.default_mode(&caller).await?, ..Choices::default() };
    if let Some(extensions) = request.extension_overrides {
        api.choose_servers(&api.reach(&caller, &agent).await?, extensions, &mut choices)?;
        let has_own = chosen.as_ref().is_some_and(|chosen| chosen.recipe.extensions.is_some());
        choices.tools = choices.tools.filter(|_| !has_own);
    }
    choices.note(&mut update)?;
    if let Some(chosen) = chosen {
        let values = BTreeMap::new();
        let overlay = match api.overlay(&caller, &agent, &chosen, &values).await {
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
    Ok(Json(api.session_summary(&caller.tenant, &record).await?).into_response())
}

/// Refuses the path of a folder that is too long.
pub(crate) fn check_folder(folder: &str) -> Result<(), ApiError> {
    if folder.len() > MAX_PATH {
        return Err(ApiError::invalid(format!("working_dir has {} bytes, the limit is {MAX_PATH}", folder.len())));
    }
    Ok(())
}

/// Notes the folder that a client works in.
pub(crate) fn note_folder(update: &mut SessionUpdate, folder: &str) -> Result<(), ApiError> {
    check_folder(folder)?;
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
pub(crate) struct ExtensionResult {
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
    let ResumeIn { session_id, load_model_and_extensions } = api.read(&caller, &headers, body).await?;
    let record = api.record(&caller.tenant, &session_named(session_id)?).await?;
    let (session, memory) = api.whole_session(&caller.tenant, &record).await?;
    let extension_results = if load_model_and_extensions { Some(api.extension_results(&record).await?) } else { None };
    Ok(held(Json(Resumed { session, extension_results }).into_response(), memory))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = goose::SessionRequest)]
pub(crate) struct SessionIn {
    #[schema(schema_with = session, required)]
    pub(crate) session_id: Option<String>,
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
    let SessionIn { session_id } = api.read(&caller, &headers, body).await?;
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
    let SessionIn { session_id } = api.read(&caller, &headers, body).await?;
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
    permission: Level,
}

#[derive(Deserialize)]
pub(crate) struct ToolsQuery {
    session_id: Option<String>,
    extension_name: Option<String>,
}

/// List the tools of a session
#[utoipa::path(
    get, path = "/agent/tools", operation_id = "goose_released_list_tools",
    params(
        ("session_id" = inline(SessionParam), Query, description = "The session"),
        ("extension_name" = Option<String>, Query, description = "Only those of this MCP server", nullable = false),
    ),
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
    query: Result<Query<ToolsQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let Query(ToolsQuery { session_id, extension_name }) = query?;
    let record = api.record(&caller.tenant, &session_named(session_id)?).await?;
    let config = api.chosen_config(&record).await?;
    let agent = api.agent_of(&caller.tenant, &config).await?;
    let standing = api.standing(&caller.tenant).await?;
    let is_asked = |tool: &everturn_core::ToolRef| {
        let prefix = extension_name.as_deref().map(|name| format!("{}__", plain_name(name)));
        prefix.is_none_or(|prefix| tool.name.starts_with(&prefix))
    };
    let info = |tool: everturn_core::ToolRef| {
        let found = api.engine.tools().get(&tool.name)?;
        let spec = found.spec();
        let schema = spec.input_schema.to_value();
        let parameters = schema["properties"].as_object().map(|keys| keys.keys().cloned().collect());
        // Where the session says whom to trust, that counts before what was said for good.
        let chosen = !config.agent_tools || config.tools.iter().any(|chosen| chosen.name == tool.name);
        let trusted = if tool.trust { Level::AlwaysAllow } else { Level::AskBefore };
        let permission = standing.get(&tool.name).filter(|_| !chosen).copied().unwrap_or(trusted);
        let parameters = parameters.unwrap_or_default();
        Some(ToolInfo { name: tool.name, description: spec.description.clone(), parameters, permission })
    };
    let enabled = agent.enabled(&config, api.engine.tools()).into_iter();
    let tools: Vec<_> = enabled.filter(is_asked).filter_map(info).collect();
    Ok(Json(json!(tools)).into_response())
}

impl Api {
    pub(crate) async fn agent_of(&self, tenant: &TenantId, config: &SessionConfig) -> Result<Arc<Agent>, ApiError> {
        let agent = self.engine.agent_of_session(tenant, config).await;
        agent.map_err(|error| ApiError::submit(error, None))
    }

    /// The tool servers of a session, each with what is the matter.
    pub(crate) async fn extension_results(&self, session: &SessionRecord) -> Result<Vec<ExtensionResult>, ApiError> {
        let agent = self.agent_of(&session.tenant, &self.chosen_config(session).await?).await?;
        let servers = self.engine.tools().servers();
        let troubles: BTreeMap<_, _> = agent.troubles(self.engine.tools()).into_iter().collect();
        let result = |name: &str| {
            let error = troubles.get(name).cloned();
            ExtensionResult { name: name.to_owned(), success: error.is_none() && servers.contains_key(name), error }
        };
        let missing = self.choices(session).await?.missing.into_iter().map(|name| {
            let error = Some("this session's agent has no MCP server of this name".to_owned());
            ExtensionResult { name, success: false, error }
        });
        Ok(servers_of(&agent).into_iter().map(result).chain(missing).collect())
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
