//! Any view of any turn: one door through which every dialect's projection can be read, from any cursor.
//!
//! A client that lost its stream, in whatever dialect, goes on here with the ids of the answer's headers and the last
//! frame's `id:`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    response::{IntoResponse, Response},
    routing::get,
};
use everturn_core::{SessionId, TurnId};
use everturn_engine::{Cursor, Engine, OpenError, Projection};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::json;

use crate::{AuthError, Keys, Scope, event_stream, stream::no_more};

/// The view of those who do not say which.
const DEFAULT_VIEW: &str = "native";

/// What the route needs.
#[derive(Clone)]
pub struct Views {
    engine: Engine,
    keys: Arc<Keys>,
    silence: Duration,
    projections: Arc<BTreeMap<&'static str, &'static dyn Projection>>,
}

impl std::fmt::Debug for Views {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Views").field("projections", &self.names()).finish_non_exhaustive()
    }
}

impl Views {
    /// The projections of all dialects; the names of two never agree. A heartbeat comes after so long a silence.
    pub fn new(
        engine: Engine,
        keys: Arc<Keys>,
        silence: Duration,
        projections: impl IntoIterator<Item = &'static dyn Projection>,
    ) -> Self {
        let projections = projections.into_iter().map(|projection| (projection.name(), projection)).collect();
        Self { engine, keys, silence, projections: Arc::new(projections) }
    }

    fn names(&self) -> String {
        self.projections.keys().copied().collect::<Vec<_>>().join(", ")
    }
}

/// `GET /api/v1/sessions/{session}/messages/{turn}/stream?as=<view>`, with `Last-Event-ID` or `?since=`, and with a key in
/// the header or a stream token in `?token=`.
pub fn views(views: Views) -> Router {
    Router::new()
        .route("/api/v1/sessions/{session}/messages/{turn}/stream", get(view))
        .method_not_allowed_fallback(async || ViewError::method())
        .with_state(views)
}

#[derive(Deserialize)]
struct ViewQuery {
    r#as: Option<String>,
    since: Option<String>,
    token: Option<String>,
}

async fn view(
    State(views): State<Views>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    query: Result<Query<ViewQuery>, QueryRejection>,
) -> Result<Response, ViewError> {
    let query = query.map_err(|error| ViewError::invalid("QUERY_INVALID", error.body_text()));
    // Whoever may not see it learns nothing of what else is wrong.
    let ids: Option<(SessionId, TurnId)> =
        path.ok().and_then(|Path((session, turn))| Some((session.parse().ok()?, turn.parse().ok()?)));
    let token = query.as_ref().ok().and_then(|Query(query)| query.token.as_deref());
    let tenant = match (token, &ids) {
        (Some(token), Some((session, turn))) => {
            let tenant = views.engine.open_stream_token(token, session, turn);
            tenant.ok_or(ViewError::token())?
        }
        (Some(_), None) => return Err(ViewError::token()),
        (None, _) => {
            let caller = views.keys.caller(&headers)?;
            caller.require(Scope::Read)?;
            caller.tenant
        }
    };
    let Query(query) = query?;
    let name = query.r#as.as_deref().unwrap_or(DEFAULT_VIEW);
    let projection = *views.projections.get(name).ok_or_else(|| {
        let shown: String = name.chars().take(64).collect();
        ViewError::invalid("VIEW_UNKNOWN", format!("as={shown:?} is not a view; there are: {}", views.names()))
    })?;
    // A header that is not text is no cursor either.
    let resumed = headers.get("last-event-id").map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let cursor = match resumed.or(query.since) {
        Some(text) => text.parse::<Cursor>().map_err(|error| ViewError::cursor(&text, &error))?,
        None => Cursor::default(),
    };
    let (session, turn) = ids.ok_or(OpenError::NotFound)?;
    Ok(match views.engine.read_turn(&tenant, &session, &turn, projection, cursor).await? {
        Some(reader) => event_stream(reader, views.silence),
        None => no_more(&session, &turn),
    })
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

    fn method() -> Self {
        let message = "this path does not take that method".to_owned();
        Self { status: StatusCode::METHOD_NOT_ALLOWED, code: "METHOD_NOT_ALLOWED", message }
    }

    fn token() -> Self {
        let message = "the stream token is not valid for this turn, or has expired; ask for another one".to_owned();
        Self { status: StatusCode::UNAUTHORIZED, code: "AUTH_TOKEN_INVALID", message }
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
            OpenError::Cursor { .. } | OpenError::Part { .. } => (StatusCode::BAD_REQUEST, "CURSOR_INVALID"),
            OpenError::Store(_) | OpenError::Read(_) => (StatusCode::SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE"),
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
