//! `/sessions/{id}/compact`: has a session's history compacted now.

use axum::{extract::State, response::Response};
use everturn_core::submission::Refused;
use everturn_engine::{Submit, SubmitError};
use everturn_http::{Scope, document, submission_key};
use http::HeaderMap;

use crate::{
    answers::{Always, Keyed, NoSession, NotCompacted},
    code::Code,
    error::ApiError,
    path,
    routes::Api,
    spawn::{Accepted, accepted},
};

/// Compact a session
///
/// Has a model summarise older messages now, so that the next turns send less. It is done by a message without input: its
/// stream has `compacted_history` with what was done, or none if there is too little to gain, then `complete`. What clients
/// read of the conversation stays as it is.
#[utoipa::path(
    post, path = "/sessions/{session}/compact", operation_id = "native_compact_session",
    params(
        ("session" = String, Path, description = "The session", example = "sess_0198c0ffee"),
        document::IdempotencyKey,
    ),
    responses(
        (
            status = 202, description = "It is taken and kept",
            headers(
                ("X-Session-Id" = String, description = "The session"),
                ("X-Message-Id" = String, description = "The message that compacts"),
            ),
            body = Accepted<'_>,
            example = json!({
                "session_id": "sess_0198c0ffee", "message_id": "turn_0198c0ffee", "kind": "new_turn",
            }),
        ),
        Always, Keyed, NoSession, NotCompacted,
    ),
)]
pub(crate) async fn compact(State(api): State<Api>, path: path::One, headers: HeaderMap) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let session = path::session(path)?;
    let key = submission_key(&headers, &format!("POST /api/v1/sessions/{session}/compact"), b"")?;
    let submit = Submit::compact(caller.tenant, caller.account, session.clone(), key);
    match api.engine.submit(submit).await {
        Ok(started) => Ok(accepted(&started)),
        Err(SubmitError::Refused(Refused::Busy)) => Err(busy()),
        Err(error) => Err(ApiError::submit(error, Some(&session))),
    }
}

/// A turn is under way: it may add to history, and compacts by itself where it must.
pub(crate) fn busy() -> ApiError {
    ApiError::new(
        Code::SessionBusy,
        "a turn runs, waits or is queued in this session; it can be compacted while it is idle",
    )
    .hint("wait until the session's status is \"idle\", or stop the turn; turns compact by themselves where they must")
}
