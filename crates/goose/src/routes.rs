//! The protocol's doors.

use std::{ops::Deref, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    extract::{Path, rejection::PathRejection},
    routing::{get, post, put},
};
use everturn_core::SessionId;
use everturn_engine::Engine;
use everturn_http::{BodyLimits, Caller, Keys, Object, Scope, parse_json, read_body};
use everturn_recipes::Recipes;
use http::{HeaderMap, HeaderName, StatusCode};
use serde::de::DeserializeOwned;

use crate::{agent, confirmation, error::ApiError, fork, recipe_list, recipe_values, reply, sessions, split, transfer};

/// Where Goose's clients send their key.
const SECRET_KEY: HeaderName = HeaderName::from_static("x-secret-key");
/// How large a request may be that brings messages, in bytes, if requests in general may not be larger.
const MESSAGE_BYTES: usize = 50 * 1024 * 1024;

/// A path with a session in it.
pub(crate) type One = Result<Path<String>, PathRejection>;

/// What the routes need.
#[derive(Clone, Debug)]
pub struct Goose {
    /// Runs the turns.
    pub engine: Engine,
    /// Who may call.
    pub keys: Arc<Keys>,
    /// Bounds on requests.
    pub limits: BodyLimits,
    /// After so long a silence a stream says that it is still there.
    pub ping: Duration,
    /// How often `/reply` shows the whole conversation while something new is said.
    pub snapshot: Duration,
    /// The recipes, if there is a folder of them.
    pub recipes: Option<Arc<Recipes>>,
}

/// What the handlers work with.
#[derive(Clone, Debug)]
pub(crate) struct Api(Goose);

impl Deref for Api {
    type Target = Goose;

    fn deref(&self) -> &Goose {
        &self.0
    }
}

/// The one route at the root, in the shapes that the protocol's text describes, and those of the releases under `/goose`.
pub fn routes(goose: Goose) -> Router {
    let api = Api(goose);
    let described = Router::new().route("/reply", post(reply::described)).method_not_allowed_fallback(method);
    described.with_state(api.clone()).nest("/goose", released(api))
}

fn released(api: Api) -> Router {
    Router::new()
        .route("/status", get(async || "ok"))
        .route("/reply", post(reply::released))
        .route("/agent/start", post(agent::start))
        .route("/agent/resume", post(agent::resume))
        .route("/agent/stop", post(agent::stop))
        .route("/agent/tools", get(agent::tools))
        .route("/agent/update_from_session", post(agent::update_from_session))
        .route("/action-required/tool-confirmation", post(confirmation::decide))
        .route("/recipes/list", get(recipe_list::list))
        .route("/sessions", get(sessions::list))
        .route("/sessions/import", post(transfer::import))
        .route("/sessions/{session}", get(sessions::show).delete(sessions::delete))
        .route("/sessions/{session}/name", put(sessions::rename))
        .route("/sessions/{session}/user_recipe_values", put(recipe_values::set))
        .route("/sessions/{session}/events", get(split::events))
        .route("/sessions/{session}/reply", post(split::reply))
        .route("/sessions/{session}/cancel", post(split::cancel))
        .route("/sessions/{session}/fork", post(fork::fork))
        .route("/sessions/{session}/export", get(transfer::export))
        .method_not_allowed_fallback(method)
        .fallback(async || ApiError::not_found("there is nothing here; this server's Goose API is in docs/goose.md"))
        .with_state(api)
}

async fn method() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take that method")
}

impl Api {
    /// Who calls, if they may do this.
    pub(crate) fn caller(&self, headers: &HeaderMap, scope: Scope) -> Result<Caller, ApiError> {
        let caller = self.keys.caller_by_header(headers, &SECRET_KEY)?;
        caller.require(scope)?;
        Ok(caller)
    }

    /// Bounds on requests that bring messages.
    pub(crate) fn message_limits(&self) -> BodyLimits {
        BodyLimits { bytes: self.limits.bytes.max(MESSAGE_BYTES), ..self.limits }
    }

    /// A request of the ordinary size.
    pub(crate) async fn read<T: DeserializeOwned>(&self, headers: &HeaderMap, body: Body) -> Result<T, ApiError> {
        let body = read_body(headers, body, self.limits).await?;
        let Object(request) = parse_json(&body, self.limits)?;
        Ok(request)
    }

    /// The agent that sessions have, unless another is asked for.
    pub(crate) fn default_agent(&self) -> Result<String, ApiError> {
        let first = self.engine.agents().iter().next().map(|agent| agent.name.clone());
        first.ok_or_else(|| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "this server has no agents"))
    }
}

/// The session in a path. A text that cannot be an id, or is no text at all, is the id of no session.
pub(crate) fn session_of(path: One) -> Result<SessionId, ApiError> {
    let Path(id) = path.map_err(|_| ApiError::no_session("\u{fffd}"))?;
    id.parse().map_err(|_| ApiError::no_session(&id))
}

/// A session that a body names.
pub(crate) fn session_named(id: Option<String>) -> Result<SessionId, ApiError> {
    let id = id.ok_or_else(|| ApiError::invalid("session_id is missing"))?;
    id.parse().map_err(|_| ApiError::no_session(&id))
}

/// No body, as most of the releases' answers that say yes.
pub(crate) fn nothing() -> (StatusCode, &'static str) {
    (StatusCode::OK, "")
}

/// An empty object.
pub(crate) fn empty() -> Json<serde_json::Value> {
    Json(serde_json::json!({}))
}
