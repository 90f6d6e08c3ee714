//! `/sessions` and `/sessions/{id}`.

use axum::{
    Json,
    body::Body,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use everturn_core::{SessionId, TenantId};
use everturn_engine::SubmitError;
use everturn_http::{Object, Scope, parse_json, read_body, submission_key};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};

use crate::{
    error::{ApiError, Thing},
    paging::{List, ListQuery, Page},
    path,
    routes::Api,
    session_out::{SessionDetails, SessionOut},
};

/// Longest title, in characters.
const MAX_TITLE: usize = 200;

#[derive(Serialize)]
struct Sessions<'a> {
    sessions: Vec<SessionOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

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

pub(crate) async fn show(State(api): State<Api>, path: path::One, headers: HeaderMap) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    api.details(&caller.tenant, &path::session(path)?).await
}

#[derive(Deserialize)]
struct RenameIn {
    title: Option<String>,
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

pub(crate) async fn rename(
    State(api): State<Api>,
    path: path::One,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let session = path::session(path)?;
    let body = read_body(&headers, body, api.limits).await?;
    let Object(request): Object<RenameIn> = parse_json(&body, api.limits)?;
    if !api.engine.rename(&caller.tenant, &session, request.title()?).await? {
        return Err(ApiError::no(Thing::Session, session.as_str()));
    }
    api.details(&caller.tenant, &session).await
}

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
