//! Extensions: the MCP servers of this server's configuration, as sessions have them.

use std::collections::BTreeSet;

use axum::{
    Json,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use everturn_engine::Agent;
use everturn_http::{Object, Scope};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};

use crate::{
    answers::{Always, NoSession, Posted},
    choices::Choices,
    describe::{SessionParam, session},
    error::ApiError,
    reach::Reach,
    recipe::plain_name,
    routes::{Api, One, nothing, session_named, session_of},
};

/// Most extensions that a session can be begun with.
const MAX_OVERRIDES: usize = 64;

/// An MCP server, in the shape of the releases' built-in extensions: how it is reached is the server's business.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::Extension)]
pub(crate) struct ExtensionOut {
    /// `builtin`.
    r#type: &'static str,
    name: String,
    display_name: String,
    description: String,
    bundled: bool,
    /// Its tools; none means all.
    available_tools: Vec<String>,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::ExtensionEntry)]
struct ExtensionEntry {
    #[serde(flatten)]
    extension: ExtensionOut,
    /// Whether new sessions have it.
    enabled: bool,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::Extensions)]
pub(crate) struct Extensions {
    extensions: Vec<ExtensionEntry>,
    /// What is the matter with those that cannot be used now.
    warnings: Vec<String>,
}

/// List the MCP servers that sessions can have
///
/// Those of the default agent; with the scope `admin` also the others, which are not enabled.
#[utoipa::path(
    get, path = "/config/extensions", operation_id = "goose_released_list_extensions",
    responses(
        (status = 200, description = "The MCP servers", body = Extensions, example = json!({
            "extensions": [{
                "type": "builtin", "name": "files", "display_name": "files", "description": "MCP server of this server",
                "bundled": true, "available_tools": [], "enabled": true,
            }],
            "warnings": [],
        })),
        Always,
    ),
)]
pub(crate) async fn list(State(api): State<Api>, headers: HeaderMap) -> Result<Json<Extensions>, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let reach = api.reach(&caller, &api.default_agent()?).await?;
    let own = servers_of(reach.agent());
    let mut extensions: Vec<_> = own.iter().map(|name| entry(extension(reach.agent(), name), true)).collect();
    if caller.require(Scope::Admin).is_ok() {
        let others = api.engine.tools().servers().into_keys().filter(|name| !own.contains(name.as_str()));
        extensions.extend(others.map(|name| entry(extension_named(&name, Vec::new()), false)));
    }
    let troubles = reach.agent().troubles(api.engine.tools()).into_iter();
    let warnings = troubles.map(|(server, trouble)| format!("MCP server {server:?}: {trouble}")).collect();
    Ok(Json(Extensions { extensions, warnings }))
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::SessionExtensions)]
struct SessionExtensions {
    extensions: Vec<ExtensionOut>,
}

/// List the MCP servers of a session
#[utoipa::path(
    get, path = "/sessions/{session}/extensions", operation_id = "goose_released_list_session_extensions",
    params(("session" = inline(SessionParam), Path, description = "The session")),
    responses(
        (status = 200, description = "Its MCP servers", body = SessionExtensions, example = json!({
            "extensions": [{
                "type": "builtin", "name": "files", "display_name": "files", "description": "MCP server of this server",
                "bundled": true, "available_tools": ["read"],
            }],
        })),
        Always, NoSession,
    ),
)]
pub(crate) async fn of_session(State(api): State<Api>, path: One, headers: HeaderMap) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let record = api.record(&caller.tenant, &session_of(path)?).await?;
    let agent = api.agent_of(&caller.tenant, &api.chosen_config(&record).await?).await?;
    let extensions = servers_of(&agent).into_iter().map(|name| extension(&agent, name)).collect();
    Ok(Json(SessionExtensions { extensions }).into_response())
}

/// An extension as clients write it. How it would be reached is not looked at.
#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = goose::ExtensionConfig)]
pub(crate) struct ConfigIn {
    /// The name of an MCP server of this server's configuration.
    #[schema(required, nullable = false)]
    name: Option<String>,
}

#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = goose::AddExtensionRequest)]
pub(crate) struct AddIn {
    #[schema(schema_with = session, required)]
    session_id: Option<String>,
    #[schema(required, value_type = ConfigIn)]
    config: Option<Object<ConfigIn>>,
}

/// Give a session an MCP server
///
/// From the next message on: one of the server's configuration that the session's agent has. Others need the scope `admin`.
#[utoipa::path(
    post, path = "/agent/add_extension", operation_id = "goose_released_add_extension",
    request_body(content = AddIn, description = "Which session, and which MCP server", example = json!({
        "session_id": "20260304_1", "config": { "type": "builtin", "name": "files", "description": "Files" },
    })),
    responses((status = 200, description = "It has it"), Always, Posted, NoSession),
)]
pub(crate) async fn add(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let AddIn { session_id, config } = api.read(&caller, &headers, body).await?;
    let Object(ConfigIn { name }) = config.ok_or_else(|| ApiError::invalid("config is missing"))?;
    let name = name.ok_or_else(|| ApiError::invalid("config.name is missing"))?;
    let record = api.record(&caller.tenant, &session_named(session_id)?).await?;
    let added = api.reach(&caller, &record.config.agent).await?.tools(vec![api.server_named(&name)?])?;
    api.choose(&record, |choices, mut tools| {
        let new: Vec<_> = added.into_iter().filter(|tool| !tools.contains(tool)).collect();
        if !new.is_empty() {
            tools.extend(new);
            choices.tools = Some(tools);
        }
        Ok(())
    })
    .await?;
    Ok(nothing().into_response())
}

#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = goose::RemoveExtensionRequest)]
pub(crate) struct RemoveIn {
    #[schema(schema_with = session, required)]
    session_id: Option<String>,
    /// The name of an MCP server.
    #[schema(required, nullable = false)]
    name: Option<String>,
}

/// Take an MCP server from a session
///
/// From the next message on. One that it does not have is no trouble.
#[utoipa::path(
    post, path = "/agent/remove_extension", operation_id = "goose_released_remove_extension",
    request_body(content = RemoveIn, description = "Which session, and which MCP server", example = json!({
        "session_id": "20260304_1", "name": "files",
    })),
    responses((status = 200, description = "It has it no more"), Always, Posted, NoSession),
)]
pub(crate) async fn remove(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let RemoveIn { session_id, name } = api.read(&caller, &headers, body).await?;
    let name = name.ok_or_else(|| ApiError::invalid("name is missing"))?;
    let record = api.record(&caller.tenant, &session_named(session_id)?).await?;
    let names = [plain_name(&name), name];
    api.choose(&record, |choices, tools| {
        let is_left =
            |tool: &String| !tool.split_once('/').is_some_and(|(own, _)| names.iter().any(|name| name == own));
        let left: Vec<_> = tools.iter().filter(|tool| is_left(tool)).cloned().collect();
        if left.len() < tools.len() {
            choices.tools = Some(left);
        }
        Ok(())
    })
    .await?;
    Ok(nothing().into_response())
}

impl Api {
    /// All tools of a configured MCP server, as a pattern.
    fn server_named(&self, name: &str) -> Result<String, ApiError> {
        let servers = self.engine.tools().servers();
        let plain = plain_name(name);
        let found = [name, plain.as_str()].into_iter().find(|name| servers.contains_key(*name));
        found.map(|name| format!("{name}/*")).ok_or_else(|| {
            let known = servers.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let known = if known.is_empty() { "none" } else { &known };
            let shown: String = name.chars().take(64).collect();
            let message = format!(
                "{shown:?} is not an MCP server of this server ({known}); clients cannot bring servers of their own: add \
                 [mcp.{plain}] to the server's configuration"
            );
            ApiError::new(StatusCode::FORBIDDEN, message)
        })
    }

    /// Has a session begin with these MCP servers of its agent and no others. Its other tools stay. Those that it cannot have
    /// are no reason not to begin it: they are noted, so that the client can be told.
    pub(crate) fn choose_servers(
        &self,
        reach: &Reach,
        extensions: Vec<Object<ConfigIn>>,
        choices: &mut Choices,
    ) -> Result<(), ApiError> {
        if extensions.len() > MAX_OVERRIDES {
            let (count, most) = (extensions.len(), MAX_OVERRIDES);
            return Err(ApiError::invalid(format!("extension_overrides: {count} are too many, the limit is {most}")));
        }
        let mut tools: Vec<String> = reach.agent().tools.iter().filter(|tool| !tool.contains('/')).cloned().collect();
        for Object(ConfigIn { name }) in extensions {
            let name = name.ok_or_else(|| ApiError::invalid("extension_overrides: a name is missing"))?;
            match self.server_named(&name).and_then(|server| reach.tools(vec![server])) {
                Ok(found) => tools.extend(found),
                Err(_) => choices.missing.push(name.chars().take(64).collect()),
            }
        }
        tools.dedup();
        choices.tools = Some(tools);
        Ok(())
    }
}

/// The MCP servers that an agent has tools of.
pub(crate) fn servers_of(agent: &Agent) -> BTreeSet<&str> {
    agent.tools.iter().filter_map(|tool| tool.split_once('/')).map(|(server, _)| server).collect()
}

fn extension(agent: &Agent, server: &str) -> ExtensionOut {
    let patterns = agent.tools.iter().filter_map(|tool| tool.split_once('/')).filter(|(own, _)| *own == server);
    let tools: Vec<_> = patterns.map(|(_, tool)| tool.to_owned()).collect();
    extension_named(server, if tools.iter().any(|tool| tool == "*") { Vec::new() } else { tools })
}

fn extension_named(server: &str, available_tools: Vec<String>) -> ExtensionOut {
    ExtensionOut {
        r#type: "builtin",
        name: server.to_owned(),
        display_name: server.to_owned(),
        description: "MCP server of this server".to_owned(),
        bundled: true,
        available_tools,
    }
}

fn entry(extension: ExtensionOut, enabled: bool) -> ExtensionEntry {
    ExtensionEntry { extension, enabled }
}
