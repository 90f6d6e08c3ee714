//! `/sessions/{id}/fork` and `/sessions/{id}/truncate`.

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse as _, Response},
};
use everturn_core::{SessionId, TenantId, TurnId};
use everturn_engine::{Cut, CutError, SubmissionKey};
use everturn_http::{Object, Scope, document, parse_json, read_body, submission_key};
use http::{HeaderMap, StatusCode};
use http_body::Body as _;
use serde::Deserialize;

use crate::{
    answers::{Always, Busy, NoMessage, Posted},
    code::Code,
    error::{ApiError, Thing},
    path,
    routes::Api,
    session_out::SessionDetails,
};

/// Where to cut.
#[derive(Default, Deserialize, utoipa::ToSchema)]
#[schema(as = native::Cut)]
struct CutIn {
    /// The last message that stays.
    at_message_id: Option<String>,
}

/// Fork a session
///
/// Makes a session that begins with this one's conversation: all of it, or up to and including a message.
#[utoipa::path(
    post, path = "/sessions/{session}/fork", operation_id = "native_fork_session",
    params(
        ("session" = String, Path, description = "The session", example = "sess_0198c0ffee"),
        document::IdempotencyKey,
    ),
    request_body(content = CutIn, example = json!({ "at_message_id": "turn_0198c0ffee" })),
    responses(
        (
            status = 201, description = "The new session", body = SessionDetails<'_>,
            example = json!(SessionDetails::example()),
        ),
        Always, Posted, Busy, NoMessage,
    ),
)]
pub(crate) async fn fork(
    State(api): State<Api>,
    path: path::One,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let session = path::session(path)?;
    let (request, key) =
        api.cut_in(&caller.tenant, &headers, body, &format!("POST /api/v1/sessions/{session}/fork")).await?;
    let cut = match request.at_message_id {
        Some(id) => Cut::Through(message(&id)?),
        None => Cut::Nothing,
    };
    let fork = api.engine.fork(&caller.tenant, &session, cut, key).await;
    let fork = fork.map_err(|error| told(error, &session))?;
    Ok((StatusCode::CREATED, api.details(&caller.tenant, &fork).await?).into_response())
}

/// Truncate a session
///
/// Takes away what was said after a message.
#[utoipa::path(
    post, path = "/sessions/{session}/truncate", operation_id = "native_truncate_session",
    params(
        ("session" = String, Path, description = "The session", example = "sess_0198c0ffee"),
        document::IdempotencyKey,
    ),
    request_body(content = inline(Truncate), example = json!({ "at_message_id": "turn_0198c0ffee" })),
    responses(
        (
            status = 200, description = "The session", body = SessionDetails<'_>,
            example = json!(SessionDetails::example()),
        ),
        Always, Posted, Busy, NoMessage,
    ),
)]
pub(crate) async fn truncate(
    State(api): State<Api>,
    path: path::One,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let session = path::session(path)?;
    let (request, key) =
        api.cut_in(&caller.tenant, &headers, body, &format!("POST /api/v1/sessions/{session}/truncate")).await?;
    let id = request.at_message_id.ok_or_else(|| {
        ApiError::invalid("at_message_id is missing").hint("name the last message that shall stay, by its message_id")
    })?;
    let cut = api.engine.truncate(&caller.tenant, &session, Cut::Through(message(&id)?), key).await;
    cut.map_err(|error| told(error, &session))?;
    api.details(&caller.tenant, &session).await
}

/// A cut that says where.
#[derive(utoipa::ToSchema)]
#[schema(as = native::Truncate)]
#[expect(dead_code, reason = "the request of truncate, for the document")]
struct Truncate {
    /// The last message that stays.
    at_message_id: String,
}

impl Api {
    /// What a request says; one without a body says nothing.
    async fn cut_in(
        &self,
        tenant: &TenantId,
        headers: &HeaderMap,
        body: Body,
        operation: &str,
    ) -> Result<(CutIn, Option<SubmissionKey>), ApiError> {
        if body.is_end_stream() {
            return Ok((CutIn::default(), submission_key(headers, operation, b"")?));
        }
        let body = read_body(headers, body, self.limits, &self.engine.memory_of(tenant)).await?;
        let Object(request): Object<CutIn> = parse_json(&body, self.limits)?;
        Ok((request, submission_key(headers, operation, &body)?))
    }
}

fn message(id: &str) -> Result<TurnId, ApiError> {
    id.parse().map_err(|_| ApiError::no(Thing::Message, id))
}

fn told(error: CutError, session: &SessionId) -> ApiError {
    let text = error.to_string();
    match error {
        CutError::NotFound => ApiError::no(Thing::Session, session.as_str()),
        CutError::NoMessage { id } => ApiError::no(Thing::Message, &id),
        CutError::Quota(quota) => quota.into(),
        CutError::Busy => ApiError::new(Code::SessionBusy, text),
        CutError::KeyReused { .. } => ApiError::new(Code::IdempotencyKeyReused, text),
        CutError::Stop(error) => error.into(),
        CutError::Store(error) => error.into(),
        CutError::Read(error) => error.into(),
        CutError::Rejected(_) => ApiError::internal(&error),
    }
}
