//! `/config/permissions`: what people have said about tools for good.

use std::collections::BTreeMap;

use axum::{
    Json,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use everturn_core::TenantId;
use everturn_http::{Object, Scope};
use http::HeaderMap;
use serde::{Deserialize, Serialize};

use crate::{
    answers::{Always, NotChosen, Posted},
    error::ApiError,
    routes::Api,
};

/// How many can be listed; tenants have no more.
const MAX_PERMISSIONS: usize = 1000;
/// How many can be changed at once.
const MAX_CHANGES: usize = 100;

/// What was said about a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = goose::PermissionLevel)]
pub(crate) enum Level {
    /// It runs without asking.
    AlwaysAllow,
    /// It asks first, unless the agent trusts it.
    AskBefore,
    /// It never runs.
    NeverAllow,
}

#[derive(Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = goose::ToolPermission)]
struct ToolPermission {
    tool_name: String,
    permission: Level,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::ToolPermissions)]
pub(crate) struct Permissions {
    tool_permissions: Vec<ToolPermission>,
}

/// List what was said about tools for good
#[utoipa::path(
    get, path = "/config/permissions", operation_id = "goose_released_list_permissions",
    responses(
        (status = 200, description = "The tools that were allowed or denied", body = Permissions, example = json!({
            "tool_permissions": [{ "tool_name": "files__write", "permission": "always_allow" }],
        })),
        Always,
    ),
)]
pub(crate) async fn list(State(api): State<Api>, headers: HeaderMap) -> Result<Json<Permissions>, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let standing = api.standing(&caller.tenant).await?.into_iter();
    let permission = |(tool_name, permission)| ToolPermission { tool_name, permission };
    Ok(Json(Permissions { tool_permissions: standing.map(permission).collect() }))
}

impl Api {
    /// What was said about tools for good, by tool.
    pub(crate) async fn standing(&self, tenant: &TenantId) -> Result<BTreeMap<String, Level>, ApiError> {
        let standing = self.engine.permissions(tenant, None, MAX_PERMISSIONS).await?;
        let level = |allowed| if allowed { Level::AlwaysAllow } else { Level::NeverAllow };
        Ok(standing.into_iter().map(|standing| (standing.tool, level(standing.allowed))).collect())
    }
}

#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = goose::PermissionsRequest)]
pub(crate) struct ChangesIn {
    /// Each with a tool of this server.
    #[schema(required, max_items = 100, value_type = Vec<ToolPermission>)]
    tool_permissions: Option<Vec<Object<ToolPermission>>>,
}

/// Say something about tools for good
///
/// It counts for all later calls in all sessions of the tenant.
#[utoipa::path(
    post, path = "/config/permissions", operation_id = "goose_released_change_permissions",
    request_body(content = ChangesIn, description = "Tools, and what is said about them", example = json!({
        "tool_permissions": [{ "tool_name": "files__write", "permission": "always_allow" }],
    })),
    responses(
        (status = 200, description = "It is kept", content_type = "text/plain", body = String, example = json!("Permissions updated successfully")),
        Always, Posted, NotChosen,
    ),
)]
pub(crate) async fn change(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let ChangesIn { tool_permissions } = api.read(&caller, &headers, body).await?;
    let changes = tool_permissions.ok_or_else(|| ApiError::invalid("tool_permissions is missing"))?;
    if changes.len() > MAX_CHANGES {
        let count = changes.len();
        return Err(ApiError::invalid(format!("tool_permissions: {count} are too many, the limit is {MAX_CHANGES}")));
    }
    // All are looked at before any counts.
    if let Some(Object(unknown)) =
        changes.iter().find(|Object(change)| api.engine.tools().get(&change.tool_name).is_none())
    {
        let shown: String = unknown.tool_name.chars().take(64).collect();
        let message =
            format!("tool_permissions: there is no tool {shown:?}; GET /goose/agent/tools lists those of a session");
        return Err(ApiError::invalid(message));
    }
    for Object(ToolPermission { tool_name, permission }) in changes {
        let changed = match permission {
            Level::AlwaysAllow => api.engine.remember(&caller.tenant, &tool_name, true).await,
            Level::NeverAllow => api.engine.remember(&caller.tenant, &tool_name, false).await,
            Level::AskBefore => api.engine.forget_permission(&caller.tenant, &tool_name).await.map(drop),
        };
        changed.map_err(|error| ApiError::submit(error, None))?;
    }
    Ok("Permissions updated successfully".into_response())
}
