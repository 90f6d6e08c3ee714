//! Stopping what runs, waits or is queued. There is nothing to say about what is not there: it does not run.

use axum::extract::{Path, State};
use everturn_core::{SessionId, TurnId};
use everturn_http::{Scope, submission_key};
use http::{HeaderMap, StatusCode};

use crate::{error::ApiError, path, routes::Api};

/// Ends the turn of a session that runs or waits.
pub(crate) async fn session(
    State(api): State<Api>,
    path: path::One,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let session = path.ok().and_then(|Path(session)| session.parse().ok());
    api.stop(&headers, session, None).await
}

/// Ends one turn, which may also be queued.
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
