//! `/permissions`: the tools that somebody has allowed or denied for good.

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse as _, Response},
};
use everturn_engine::Permission;
use everturn_http::Scope;
use http::{HeaderMap, StatusCode};
use serde::Serialize;

use crate::{
    answers::{Always, Listed, NoPermission},
    error::{ApiError, Thing},
    paging::{List, ListQuery, Page, Paged},
    path,
    routes::Api,
    time::rfc3339,
};

/// A page of permissions.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Permissions)]
struct Permissions<'a> {
    permissions: Vec<PermissionOut<'a>>,
    /// For the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// What was decided about a tool.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Permission)]
struct PermissionOut<'a> {
    tool: &'a str,
    allowed: bool,
    #[schema(format = DateTime)]
    decided_at: String,
}

impl<'a> From<&'a Permission> for PermissionOut<'a> {
    fn from(permission: &'a Permission) -> Self {
        let Permission { tool, allowed, at, .. } = permission;
        Self { tool, allowed: *allowed, decided_at: rfc3339(*at) }
    }
}

/// List permissions
///
/// The tools that somebody has allowed or denied for good, newest first.
#[utoipa::path(
    get, path = "/permissions", operation_id = "native_list_permissions",
    params(Paged<{ List::Permissions.letter() }>),
    responses(
        (status = 200, description = "A page", body = Permissions<'_>, example = json!({ "permissions": [
            { "tool": "clock", "allowed": true, "decided_at": "2026-07-25T17:20:00.120Z" },
        ] })),
        Always, Listed,
    ),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    headers: HeaderMap,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let page = Page::new(List::Permissions, &query?.0)?;
    let mut rows = api.engine.permissions(&caller.tenant, page.below, page.wanted()).await?;
    let next_cursor = page.cut(&mut rows, |row| row.position);
    let permissions = rows.iter().map(PermissionOut::from).collect();
    Ok(Json(Permissions { permissions, next_cursor }).into_response())
}

/// Forget what was decided about a tool
///
/// The tool asks again.
#[utoipa::path(
    delete, path = "/permissions/{tool}", operation_id = "native_delete_permission",
    params(("tool" = String, Path, description = "The tool", example = "clock")),
    responses((status = 204, description = "It is forgotten"), Always, NoPermission),
)]
pub(crate) async fn delete(
    State(api): State<Api>,
    path: path::One,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let tool = path::name(path, Thing::Permission)?;
    let forgotten = api.engine.forget_permission(&caller.tenant, &tool).await;
    match forgotten.map_err(|error| ApiError::submit(error, None))? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ApiError::no(Thing::Permission, &tool)),
    }
}
