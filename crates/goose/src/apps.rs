//! `/agent/read_resource` and `/agent/list_apps`: texts and pages that a session's MCP servers have beside their tools.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use everturn_core::SessionConfig;
use everturn_engine::Agent;
use everturn_http::{Caller, Scope};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};

use crate::{
    agent::SessionIn,
    answers::{Always, NotAsked, NotRead, Posted},
    describe::{SessionParam, session},
    error::ApiError,
    extensions::servers_of,
    recipe::plain_name,
    routes::{Api, session_named},
};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest address, in bytes.
const MAX_URI: usize = 2048;
/// Most apps that are listed.
const MAX_APPS: usize = 50;
/// What addresses of apps begin with.
const APP: &str = "ui://";

#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = goose::ReadResourceRequest)]
pub(crate) struct ReadIn {
    #[schema(schema_with = session, required)]
    session_id: Option<String>,
    /// An MCP server of the session.
    #[schema(required, nullable = false)]
    extension_name: Option<String>,
    /// The address of a resource at that server.
    #[schema(required, nullable = false, min_length = 1, max_length = 2048)]
    uri: Option<String>,
}

#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = goose::ResourceContent)]
struct ResourceOut {
    uri: String,
    #[schema(required)]
    mime_type: Option<String>,
    text: String,
}

/// Read a resource of a session's MCP server
#[utoipa::path(
    post, path = "/agent/read_resource", operation_id = "goose_released_read_resource",
    request_body(content = ReadIn, description = "Which session, MCP server and resource", example = json!({
        "session_id": "20260304_1", "extension_name": "files", "uri": "ui://files/browser",
    })),
    responses(
        (status = 200, description = "Its text", body = ResourceOut, example = json!({
            "uri": "ui://files/browser", "mimeType": "text/html", "text": "<p>Files</p>",
        })),
        Always, Posted, NotRead,
    ),
)]
pub(crate) async fn read_resource(
    State(api): State<Api>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let ReadIn { session_id, extension_name, uri } = api.read(&caller, &headers, body).await?;
    let name = extension_name.ok_or_else(|| ApiError::invalid("extension_name is missing"))?;
    let uri = uri.filter(|uri| (1..=MAX_URI).contains(&uri.len()));
    let uri = uri.ok_or_else(|| ApiError::invalid(format!("uri: it has 1 to {MAX_URI} bytes")))?;
    let agent = api.agent_now(&caller, session_id).await?;
    let servers = servers_of(&agent);
    let plain = plain_name(&name);
    let found = [name.as_str(), plain.as_str()].into_iter().find(|name| servers.contains(name));
    let resources = found.and_then(|name| api.engine.tools().resources(name)).ok_or_else(|| {
        let shown: String = name.chars().take(64).collect();
        let known = servers.iter().copied().collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "none" } else { &known };
        ApiError::not_found(format!("this session has no MCP server {shown:?}; it has: {known}"))
    })?;
    let read = tokio::time::timeout(PATIENCE, resources.read(uri)).await;
    let read = read.map_err(|_| {
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the MCP server did not answer in time; try again later")
    })?;
    let read = read.map_err(|error| ApiError::not_found(format!("the resource cannot be read: {error}")))?;
    Ok(Json(ResourceOut { uri: read.uri, mime_type: read.mime_type, text: read.text }).into_response())
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::Apps)]
struct Apps {
    apps: Vec<App>,
}

/// A page that an MCP server has.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = goose::App)]
struct App {
    uri: String,
    name: String,
    #[schema(required)]
    description: Option<String>,
    mime_type: String,
    /// Read it by `/agent/read_resource`.
    #[schema(required)]
    text: Option<String>,
    mcp_servers: Vec<String>,
}

/// List the pages that a session's MCP servers have
///
/// Those whose addresses begin with `ui://`, without their text. Of the default agent if no session is named. A server that
/// does not answer is left out.
#[utoipa::path(
    get, path = "/agent/list_apps", operation_id = "goose_released_list_apps",
    params(("session_id" = inline(Option<SessionParam>), Query, description = "The session")),
    responses(
        (status = 200, description = "The pages", body = Apps, example = json!({ "apps": [{
            "uri": "ui://files/browser", "name": "browser", "description": null, "mimeType": "text/html", "text": null,
            "mcpServers": ["files"],
        }] })),
        Always, NotAsked,
    ),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    headers: HeaderMap,
    query: Result<Query<SessionIn>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let Query(SessionIn { session_id }) = query?;
    let agent = api.agent_now(&caller, session_id).await?;
    let servers = servers_of(&agent).into_iter().filter_map(|name| Some((name, api.engine.tools().resources(name)?)));
    // All at once, so that one slow server costs its own time only.
    let asked: Vec<_> = servers
        .map(|(name, resources)| (name.to_owned(), tokio::spawn(tokio::time::timeout(PATIENCE, resources.list()))))
        .collect();
    let mut apps = Vec::new();
    for (server, listed) in asked {
        let Ok(Ok(Ok(listed))) = listed.await else { continue };
        let pages = listed.into_iter().filter(|resource| resource.uri.starts_with(APP));
        apps.extend(pages.map(|resource| App {
            uri: resource.uri,
            name: resource.name,
            description: resource.description,
            mime_type: resource.mime_type.unwrap_or_else(|| "text/html".to_owned()),
            text: None,
            mcp_servers: vec![server.clone()],
        }));
    }
    apps.truncate(MAX_APPS);
    Ok(Json(Apps { apps }).into_response())
}

impl Api {
    /// The agent of a session as it is from the next message on, or the default agent.
    async fn agent_now(&self, caller: &Caller, session: Option<String>) -> Result<Arc<Agent>, ApiError> {
        let config = match session {
            Some(session) => {
                let record = self.record(&caller.tenant, &session_named(Some(session))?).await?;
                self.chosen_config(&record).await?
            }
            None => SessionConfig { agent: self.default_agent()?, ..SessionConfig::default() },
        };
        self.agent_of(&caller.tenant, &config).await
    }
}
