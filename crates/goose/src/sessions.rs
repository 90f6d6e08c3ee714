//! `/sessions` and `/sessions/{id}`.

use axum::{
    Json,
    body::Body,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use everturn_core::{SessionId, TenantId, Usage};
use everturn_engine::{Reservation, SubmitError};
use everturn_http::{Scope, document::IdempotencyKey, held, submission_key};
use everturn_store::SessionRecord;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    answers::{Always, NoSession, NotDeleted, NotListed, Posted},
    describe::SessionParam,
    error::ApiError,
    routes::{Api, One, nothing, session_of},
    session_out::{Around, SessionOut, session_example},
};

/// How many sessions a page has, unless the client says so.
const DEFAULT_LIMIT: usize = 100;
/// How many it may have.
const MAX_LIMIT: usize = 200;
/// Longest name of a session, in bytes.
const MAX_NAME: usize = 200;

#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// How many sessions a page has
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200, default = 100, nullable = false)]
    limit: Option<String>,
    /// `next` of the page before
    #[param(nullable = false, pattern = "^p[0-9a-fA-F]{1,16}$", example = "p1f")]
    after: Option<String>,
}

#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::SessionPage)]
struct Page {
    #[schema(value_type = Vec<SessionOut<'_>>)]
    sessions: Vec<Box<RawValue>>,
    /// Where the next page begins, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next: Option<String>,
}

/// List sessions
///
/// Newest first; within a page, those in which something happened last come first.
#[utoipa::path(
    get, path = "/sessions", operation_id = "goose_released_list_sessions",
    params(ListQuery),
    responses(
        (status = 200, description = "A page of them, without what was said", body = Page, example = json!({
            "sessions": [session_example(false)], "next": "p1f",
        })),
        Always, NotListed,
    ),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    headers: HeaderMap,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let Query(ListQuery { limit, after }) = query?;
    let limit = limit.as_deref().map_or(Ok(DEFAULT_LIMIT), read_limit)?;
    let below = after.as_deref().map(position).transpose()?;
    let mut rows = api.engine.sessions(&caller.tenant, below, limit + 1).await?;
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| more).map(|row| format!("p{:x}", row.position));
    rows.sort_by_key(|row| std::cmp::Reverse(row.session.updated_at));
    let mut sessions = Vec::with_capacity(rows.len());
    for row in &rows {
        sessions.push(api.session_summary(&caller.tenant, &row.session).await?);
    }
    Ok(Json(Page { sessions, next }).into_response())
}

/// Show a session with its conversation
#[utoipa::path(
    get, path = "/sessions/{session}", operation_id = "goose_released_show_session",
    params(("session" = inline(SessionParam), Path, description = "The session")),
    responses(
        (status = 200, description = "The session", body = SessionOut<'_>, example = json!(session_example(true))),
        Always, NoSession,
    ),
)]
pub(crate) async fn show(State(api): State<Api>, path: One, headers: HeaderMap) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let record = api.record(&caller.tenant, &session_of(path)?).await?;
    let (session, memory) = api.whole_session(&caller.tenant, &record).await?;
    Ok(held(Json(session).into_response(), memory))
}

#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = goose::NameRequest)]
pub(crate) struct NameIn {
    /// One line.
    #[schema(
        required,
        nullable = false,
        min_length = 1,
        max_length = 200,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\x00-\x20\x7f-\x9f\s][^\x00-\x1f\x7f-\x9f]*$"
    )]
    name: Option<String>,
}

/// Give a session a name
#[utoipa::path(
    put, path = "/sessions/{session}/name", operation_id = "goose_released_rename_session",
    params(("session" = inline(SessionParam), Path, description = "The session")),
    request_body(content = NameIn, description = "The name", example = json!({ "name": "Tidy the notes" })),
    responses((status = 200, description = "It has it"), Always, Posted, NoSession),
)]
pub(crate) async fn rename(
    State(api): State<Api>,
    path: One,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let NameIn { name } = api.read(&caller, &headers, body).await?;
    let session = session_of(path)?;
    let name = checked_name(name.as_deref())?;
    if !api.engine.rename(&caller.tenant, &session, name).await? {
        return Err(ApiError::no_session(session.as_str()));
    }
    Ok(nothing().into_response())
}

/// Delete a session
#[utoipa::path(
    delete, path = "/sessions/{session}", operation_id = "goose_released_delete_session",
    params(("session" = inline(SessionParam), Path, description = "The session"), IdempotencyKey),
    responses((status = 200, description = "It is gone"), Always, NotDeleted),
)]
pub(crate) async fn delete(State(api): State<Api>, path: One, headers: HeaderMap) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let session = session_of(path)?;
    let key = submission_key(&headers, &format!("DELETE /goose/sessions/{session}"), b"")?;
    let deleted = api.engine.delete(&caller.tenant, &session, key).await;
    deleted.map_err(|error| ApiError::delete(error, &session))?;
    Ok(nothing().into_response())
}

/// How much of a session is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// What a list shows.
    Summary,
    /// Also what was said.
    Conversation,
}

impl Api {
    pub(crate) async fn record(&self, tenant: &TenantId, session: &SessionId) -> Result<SessionRecord, ApiError> {
        let record = self.engine.session(tenant, session).await?;
        record.ok_or_else(|| ApiError::no_session(session.as_str()))
    }

    /// A session as lists show it.
    pub(crate) async fn session_summary(
        &self,
        tenant: &TenantId,
        record: &SessionRecord,
    ) -> Result<Box<RawValue>, ApiError> {
        let json = |session: &SessionOut<'_>| serde_json::value::to_raw_value(session);
        Ok(self.show_session(tenant, record, Detail::Summary, json).await?.0)
    }

    /// A session with its conversation, and the memory that it takes.
    pub(crate) async fn whole_session(
        &self,
        tenant: &TenantId,
        record: &SessionRecord,
    ) -> Result<(Box<RawValue>, Option<Reservation>), ApiError> {
        self.show_session(tenant, record, Detail::Conversation, |session| serde_json::value::to_raw_value(session))
            .await
    }

    /// What the last turn of a session used; of one that has used nothing yet, what the turn before it did.
    pub(crate) async fn last_used(&self, record: &SessionRecord) -> Result<Option<Usage>, ApiError> {
        let turns = self.engine.turns_below(&record.tenant, &record.id, None, 2).await?;
        let used = turns.iter().map(|turn| turn.usage);
        Ok(used.clone().find(|usage| !usage.is_zero()).or(used.clone().next()))
    }

    /// Writes a session in some way. With its conversation there comes the memory that it takes.
    pub(crate) async fn show_session<T>(
        &self,
        tenant: &TenantId,
        record: &SessionRecord,
        detail: Detail,
        write: impl FnOnce(&SessionOut<'_>) -> Result<T, serde_json::Error>,
    ) -> Result<(T, Option<Reservation>), ApiError> {
        let choices = self.choices(record).await?;
        let record = &SessionRecord { config: self.shown_config(record, &choices)?, ..record.clone() };
        let agent = match self.engine.agent_of_session(tenant, &record.config).await {
            Ok(agent) => Some(agent),
            Err(SubmitError::Store(error)) => return Err(error.into()),
            // A session outlives its agent's configuration.
            Err(_) => None,
        };
        let message_count = self.engine.message_count(tenant, &record.id).await?;
        let mode = choices.mode.unwrap_or_default();
        let mut around = Around { agent: agent.as_deref(), message_count, mode, ..Around::default() };
        let said = match detail {
            Detail::Summary => None,
            Detail::Conversation => {
                around.last_turn = self.last_used(record).await?;
                Some(self.engine.conversation(tenant, &record.id).await?)
            }
        };
        around.conversation = said.as_ref().map(|said| said.value.as_slice());
        let written = write(&SessionOut::new(record, &around)).map_err(|error| ApiError::internal(&error))?;
        Ok((written, said.map(|said| said.memory)))
    }
}

/// A name that sessions may have.
pub(crate) fn checked_name(name: Option<&str>) -> Result<String, ApiError> {
    let name = name.ok_or_else(|| ApiError::invalid("name is missing"))?.trim();
    if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        let message = format!("name must have 1 to {MAX_NAME} bytes, without line breaks");
        return Err(ApiError::new(StatusCode::BAD_REQUEST, message));
    }
    Ok(name.to_owned())
}

fn read_limit(text: &str) -> Result<usize, ApiError> {
    let limit = text.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        ApiError::invalid(format!("limit={shown:?} is not a number from 1 to {MAX_LIMIT}"))
    })
}

/// The position in a cursor that we gave out.
fn position(text: &str) -> Result<u64, ApiError> {
    let digits = text.strip_prefix('p').filter(|digits| !digits.starts_with('+'));
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or_else(|| {
        let shown: String = text.chars().take(64).collect();
        ApiError::invalid(format!("after={shown:?} is not a cursor of this server; use `next` of the page before"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_short_line() {
        assert_eq!(checked_name(Some(" A trip ")), Ok("A trip".to_owned()));
        for wrong in [None, Some(""), Some("  "), Some("two\nlines"), Some(&"x".repeat(201))] {
            assert!(checked_name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn pages_are_bounded() {
        assert_eq!(read_limit("200"), Ok(200));
        assert_eq!(position("p1f"), Ok(31));
        for wrong in ["0", "201", "-1", "", "ten"] {
            assert!(read_limit(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "p", "1f", "p+1", "pg"] {
            assert!(position(wrong).is_err(), "{wrong}");
        }
    }
}
