//! Any view of any turn: one door through which every dialect's projection can be read, from any cursor.
//!
//! A client that lost its stream, in whatever dialect, goes on here with the ids of the answer's headers and the last
//! frame's `id:`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path, Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
    routing::get,
};
use everturn_core::{SessionId, TurnId};
use everturn_engine::{Cursor, Engine, OpenError, Projection};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::json;

use crate::{AuthError, Keys, Scope, event_stream};

/// After so long a silence a comment keeps the connection open.
const SILENCE: Duration = Duration::from_secs(15);

/// What the route needs.
#[derive(Clone)]
pub struct Views {
    engine: Engine,
    keys: Arc<Keys>,
    projections: Arc<BTreeMap<&'static str, &'static dyn Projection>>,
}

impl std::fmt::Debug for Views {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Views").field("projections", &self.names()).finish_non_exhaustive()
    }
}

impl Views {
    /// The projections of all dialects; the names of two never agree.
    pub fn new(
        engine: Engine,
        keys: Arc<Keys>,
        projections: impl IntoIterator<Item = &'static dyn Projection>,
    ) -> Self {
        let projections = projections.into_iter().map(|projection| (projection.name(), projection)).collect();
        Self { engine, keys, projections: Arc::new(projections) }
    }

    fn names(&self) -> String {
        self.projections.keys().copied().collect::<Vec<_>>().join(", ")
    }
}

/// `GET /api/v1/sessions/{session}/messages/{turn}/stream?as=<view>`, with `Last-Event-ID` or `?since=`.
pub fn views(views: Views) -> Router {
    Router::new().route("/api/v1/sessions/{session}/messages/{turn}/stream", get(view)).with_state(views)
}

#[derive(Deserialize)]
struct ViewQuery {
    r#as: Option<String>,
    since: Option<String>,
}

async fn view(
    State(views): State<Views>,
    Path((session, turn)): Path<(String, String)>,
    headers: HeaderMap,
    query: Result<Query<ViewQuery>, QueryRejection>,
) -> Result<Response, ViewError> {
    let caller = views.keys.caller(&headers)?;
    caller.require(Scope::Read)?;
    let Query(query) = query.map_err(|error| ViewError::invalid("QUERY_INVALID", error.body_text()))?;
    let name = query.r#as.unwrap_or_default();
    let projection = *views.projections.get(name.as_str()).ok_or_else(|| {
        let shown: String = name.chars().take(64).collect();
        ViewError::invalid("VIEW_UNKNOWN", format!("as={shown:?} is not a view; there are: {}", views.names()))
    })?;
    // A header that is not text is no cursor either.
    let resumed = headers.get("last-event-id").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let cursor = match resumed.or(query.since) {
        Some(text) => text.parse::<Cursor>().map_err(|error| ViewError::cursor(&text, &error))?,
        None => Cursor::default(),
    };
    let ids = session.parse::<SessionId>().ok().zip(turn.parse::<TurnId>().ok());
    let (session, turn) = ids.ok_or(OpenError::NotFound)?;
    let reader = views.engine.read_turn(&caller.tenant, &session, &turn, projection, cursor).await?;
    Ok(event_stream(reader, Bytes::from_static(b": keep-alive\n\n"), SILENCE))
}

/// `{"detail":{"code":…,"message":…}}`.
struct ViewError {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl ViewError {
    fn invalid(code: &'static str, message: String) -> Self {
        Self { status: StatusCode::BAD_REQUEST, code, message }
    }

    fn cursor(text: &str, error: &dyn std::fmt::Display) -> Self {
        let shown: String = text.chars().take(64).collect();
        Self::invalid("CURSOR_INVALID", format!("{shown:?} cannot be resumed from: {error}"))
    }
}

impl From<AuthError> for ViewError {
    fn from(error: AuthError) -> Self {
        let (status, code) = match error {
            AuthError::Missing => (StatusCode::UNAUTHORIZED, "AUTH_HEADER_MISSING"),
            AuthError::Invalid => (StatusCode::UNAUTHORIZED, "AUTH_TOKEN_INVALID"),
            AuthError::Scope { .. } | AuthError::Host => (StatusCode::FORBIDDEN, "AUTH_PERMISSION_DENIED"),
        };
        Self { status, code, message: error.to_string() }
    }
}

impl From<OpenError> for ViewError {
    fn from(error: OpenError) -> Self {
        let (status, code) = match error {
            OpenError::NotFound => (StatusCode::NOT_FOUND, "MESSAGE_NOT_FOUND"),
            OpenError::Cursor { .. } => (StatusCode::BAD_REQUEST, "CURSOR_INVALID"),
            OpenError::Store(_) => (StatusCode::SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE"),
        };
        Self { status, code, message: error.to_string() }
    }
}

impl IntoResponse for ViewError {
    fn into_response(self) -> Response {
        let body = json!({ "detail": { "code": self.code, "message": self.message } });
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
