//! `POST /sessions/{id}/fork`: a copy of a session, a session without its end, or both.

use axum::{
    Json,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use everturn_core::Timestamp;
use everturn_engine::Cut;
use everturn_http::{Object, Scope, document::IdempotencyKey, parse_json, read_body, submission_key};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::json;

use crate::{
    answers::{Always, NotCut, Posted},
    describe::{Fork, SessionParam},
    error::ApiError,
    routes::{Api, One, session_of},
    time::{Moment, seconds},
};

#[derive(Deserialize)]
struct ForkIn {
    /// What was said in this second and later goes.
    timestamp: Option<Moment>,
    /// This message and all after it go. Exact, and ours.
    message_id: Option<String>,
    #[serde(default)]
    truncate: bool,
    #[serde(default)]
    copy: bool,
}

impl ForkIn {
    fn cut(&self) -> Result<Cut, ApiError> {
        match (self.truncate, &self.message_id, self.timestamp) {
            (false, _, _) => Ok(Cut::Nothing),
            (true, Some(id), _) => id.parse().map(Cut::Before).map_err(|error| {
                let shown: String = id.chars().take(64).collect();
                ApiError::not_found(format!("message_id: there is no message {shown:?}: {error}"))
            }),
            (true, None, Some(Moment(time))) => Ok(Cut::BeforeTime(Timestamp(seconds(time).saturating_mul(1000)))),
            (true, None, None) => {
                let message = "truncate=true requires a timestamp, or a message_id";
                Err(ApiError::new(StatusCode::BAD_REQUEST, message))
            }
        }
    }
}

/// Which session it is now.
#[derive(utoipa::ToSchema)]
#[schema(as = goose::Forked)]
#[expect(dead_code, reason = "what the answer looks like, for the document")]
struct ForkOut {
    #[schema(rename = "sessionId")]
    session: String,
}

/// Copy a session, cut it, or both
#[utoipa::path(
    post, path = "/sessions/{session}/fork", operation_id = "goose_released_fork_session",
    params(("session" = inline(SessionParam), Path, description = "The session"), IdempotencyKey),
    request_body(content = Fork, description = "What is to become of it", example = json!({
        "timestamp": 1_772_618_400, "truncate": true, "copy": true,
    })),
    responses(
        (status = 200, description = "The copy, or the session itself", body = ForkOut, example = json!({
            "sessionId": "sess_0197f2ab000070008000000000000001",
        })),
        Always, Posted, NotCut,
    ),
)]
pub(crate) async fn fork(
    State(api): State<Api>,
    path: One,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let body = read_body(&headers, body, api.limits, &api.engine.memory_of(&caller.tenant)).await?;
    let Object(request): Object<ForkIn> = parse_json(&body, api.limits)?;
    let session = session_of(path)?;
    let key = submission_key(&headers, &format!("POST /goose/sessions/{session}/fork"), &body)?;
    let cut = request.cut()?;
    let (engine, tenant) = (&api.engine, &caller.tenant);
    let id = match (request.copy, request.truncate) {
        (true, _) => engine.fork(tenant, &session, cut, key).await.map_err(|error| ApiError::cut(error, &session))?,
        (false, true) => {
            engine.truncate(tenant, &session, cut, key).await.map_err(|error| ApiError::cut(error, &session))?;
            session
        }
        (false, false) => api.record(tenant, &session).await?.id,
    };
    Ok(Json(json!({ "sessionId": id })).into_response())
}
