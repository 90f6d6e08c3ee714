//! Stopping what runs, waits or is queued. There is nothing to say about what is not there: it does not run.

use axum::extract::{Path, State};
use everturn_core::{SessionId, TurnId};
use everturn_http::{Scope, submission_key};
use http::{HeaderMap, StatusCode};

use crate::{answers::Always, error::ApiError, path, routes::Api};

/// Stop what a session does
///
/// Ends the message that runs or waits. There is nothing to say about what is not there: it does not run.
#[utoipa::path(
    post, path = "/sessions/{session}/stop", operation_id = "native_stop_session",
    params(("session" = String, Path, description = "The session", example = "sess_0198c0ffee")),
    responses((status = 204, description = "It does not run"), Always),
)]
pub(crate) async fn session(
    State(api): State<Api>,
    path: path::One,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let session = path.ok().and_then(|Path(session)| session.parse().ok());
    api.stop(&headers, session, None).await
}

/// Stop a message
///
/// It may also be queued. There is nothing to say about what is not there: it does not run.
#[utoipa::path(
    post, path = "/sessions/{session}/messages/{turn}/stop", operation_id = "native_stop_message",
    params(
        ("session" = String, Path, description = "The session", example = "sess_0198c0ffee"),
        ("turn" = String, Path, description = "The message", example = "turn_0198c0ffee"),
    ),
    responses((status = 204, description = "It does not run"), Always),
)]
pub(crate) async fn message(
    State(api): State<Api>,
    path: path::Two,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let ids = path.ok().and_then(|Path((session, turn))| Some((session.parse().ok()?, turn.parse().ok()?)));
    let (session, turn) = ids.unzip();
    api.stop(&headers, session, turn).await
}

impl Api {
    async fn stop(
        &self,
        headers: &HeaderMap,
        session: Option<SessionId>,
        turn: Option<TurnId>,
    ) -> Result<StatusCode, ApiError> {
        let caller = self.caller(headers, Scope::Chat)?;
        if let Some(session) = session {
            let operation = match &turn {
                Some(turn) => format!("POST /api/v1/sessions/{session}/messages/{turn}/stop"),
                None => format!("POST /api/v1/sessions/{session}/stop"),
            };
            // Always 204: a key that cannot be used is no reason not to stop.
            let key = submission_key(headers, &operation, b"").unwrap_or_default();
            self.engine.stop(&caller.tenant, &session, turn.as_ref(), key).await?;
        }
        Ok(StatusCode::NO_CONTENT)
    }
}
