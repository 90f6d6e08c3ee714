//! `/sessions` and `/sessions/{id}`.

use axum::{
    Json,
    body::Body,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use everturn_core::{SessionId, TenantId};
use everturn_engine::SubmitError;
use everturn_http::{Object, Scope, document, parse_json, read_body, submission_key};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    answers::{Always, Keyed, Listed, NoSession, Posted},
    error::{ApiError, Thing},
    paging::{List, ListQuery, Page, Paged},
    path,
    routes::Api,
    session_out::{SessionDetails, SessionOut},
};

/// Longest title, in characters.
const MAX_TITLE: usize = 200;

/// A page of sessions.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Sessions)]
struct Sessions<'a> {
    sessions: Vec<SessionOut<'a>>,
    /// For the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// List sessions
///
/// Newest first.
#[utoipa::path(
    get, path = "/sessions", operation_id = "native_list_sessions",
    params(Paged<{ List::Sessions.letter() }>),
    responses(
        (status = 200, description = "A page", body = Sessions<'_>, example = json!({
            "sessions": [SessionOut::example()], "next_cursor": "s1f",
        })),
        Always, Listed,
    ),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    headers: HeaderMap,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let page = Page::new(List::Sessions, &query?.0)?;
    let mut rows = api.engine.sessions(&caller.tenant, page.below, page.wanted()).await?;
    let next_cursor = page.cut(&mut rows, |row| row.position);
    let sessions = rows.iter().map(|row| SessionOut::from(&row.session)).collect();
    Ok(Json(Sessions { sessions, next_cursor }).into_response())
}

/// Show a session
#[utoipa::path(
    get, path = "/sessions/{session}", operation_id = "native_show_session",
    params(("session" = String, Path, description = "The session", example = "sess_0198c0ffee")),
    responses(
        (
            status = 200, description = "The session", body = SessionDetails<'_>,
            example = json!(SessionDetails::example()),
        ),
        Always, NoSession,
    ),
)]
pub(crate) async fn show(State(api): State<Api>, path: path::One, headers: HeaderMap) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    api.details(&caller.tenant, &path::session(path)?).await
}

/// A new title.
#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = native::Rename)]
struct RenameIn {
    #[schema(schema_with = titles, required)]
    title: Option<String>,
}

/// One short line.
fn titles() -> document::AnySchema {
    let controls = r"\u0000-\u001f\u007f-\u009f";
    let no_control = format!("^[^{controls}]*$");
    let all = [json!({ "pattern": document::NOT_BLANK }), json!({ "pattern": no_control })];
    document::schema(json!({ "type": "string", "maxLength": MAX_TITLE, "allOf": all }))
}

impl RenameIn {
    fn title(self) -> Result<String, ApiError> {
        let title = self.title.ok_or_else(|| ApiError::invalid("title is missing"))?;
        let title = title.trim();
        if title.is_empty() || title.chars().count() > MAX_TITLE || title.chars().any(char::is_control) {
            let message = format!("title must have 1 to {MAX_TITLE} characters, without line breaks");
            return Err(ApiError::invalid(message));
        }
        Ok(title.to_owned())
    }
}

/// Rename a session
#[utoipa::path(
    patch, path = "/sessions/{session}", operation_id = "native_rename_session",
    params(("session" = String, Path, description = "The session", example = "sess_0198c0ffee")),
    request_body(content = RenameIn, example = json!({ "title": "A trip to Rome" })),
    responses(
        (
            status = 200, description = "The session", body = SessionDetails<'_>,
            example = json!(SessionDetails::example()),
        ),
        Always, Posted, NoSession,
    ),
)]
pub(crate) async fn rename(
    State(api): State<Api>,
    path: path::One,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let session = path::session(path)?;
    let body = read_body(&headers, body, api.limits, &api.engine.memory_of(&caller.tenant)).await?;
    let Object(request): Object<RenameIn> = parse_json(&body, api.limits)?;
    if !api.engine.rename(&caller.tenant, &session, request.title()?).await? {
        return Err(ApiError::no(Thing::Session, session.as_str()));
    }
    api.details(&caller.tenant, &session).await
}

/// Delete a session
///
/// With all that was said in it. What runs in it ends.
#[utoipa::path(
    delete, path = "/sessions/{session}", operation_id = "native_delete_session",
    params(
        ("session" = String, Path, description = "The session", example = "sess_0198c0ffee"),
        document::IdempotencyKey,
    ),
    responses((status = 204, description = "It is deleted"), Always, Keyed, NoSession),
)]
pub(crate) async fn delete(
    State(api): State<Api>,
    path: path::One,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let session = path::session(path)?;
    let key = submission_key(&headers, &format!("DELETE /api/v1/sessions/{session}"), b"")?;
    let deleted = api.engine.delete(&caller.tenant, &session, key).await;
    deleted.map_err(|error| ApiError::delete(error, &session))?;
    Ok(StatusCode::NO_CONTENT)
}

impl Api {
    pub(crate) async fn details(&self, tenant: &TenantId, session: &SessionId) -> Result<Response, ApiError> {
        let record = self.engine.session(tenant, session).await?;
        let record = record.ok_or_else(|| ApiError::no(Thing::Session, session.as_str()))?;
        let queued = match record.queued {
            0 => Vec::new(),
            _ => self.engine.queued(tenant, session).await?,
        };
        let tools = match self.engine.agent_of_session(tenant, &record.config).await {
            Ok(agent) => agent.enabled(&record.config, self.engine.tools()),
            Err(SubmitError::Store(error)) => return Err(error.into()),
            // A session outlives its agent's configuration.
            Err(_) => record.config.tools.clone(),
        };
        Ok(Json(SessionDetails::new(&record, &queued, &tools)).into_response())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_one_short_line() {
        let title = |text: &str| RenameIn { title: Some(text.to_owned()) }.title();
        assert_eq!(title("  A trip to Rome "), Ok("A trip to Rome".to_owned()));
        assert_eq!(title(&"é".repeat(200)), Ok("é".repeat(200)));
        for wrong in ["", "  ", "two\nlines", &"x".repeat(201)] {
            assert!(title(wrong).is_err(), "{wrong:?}");
        }
        assert!(RenameIn { title: None }.title().is_err());
    }
}
