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
    error::{ApiError, Thing},
    paging::{List, ListQuery, Page},
    path,
    routes::Api,
    time::rfc3339,
};

#[derive(Serialize)]
struct Permissions<'a> {
    permissions: Vec<PermissionOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

#[derive(Serialize)]
struct PermissionOut<'a> {
    tool: &'a str,
    allowed: bool,
    decided_at: String,
}

impl<'a> From<&'a Permission> for PermissionOut<'a> {
    fn from(permission: &'a Permission) -> Self {
        let Permission { tool, allowed, at, .. } = permission;
        Self { tool, allowed: *allowed, decided_at: rfc3339(*at) }
    }
}

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

/// The tool asks again.
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
