//! The API's doors.

use std::{ops::Deref, sync::Arc};

use axum::{
    Router,
    extract::DefaultBodyLimit,
    routing::{delete, get, post},
};
use everturn_engine::Engine;
use everturn_http::{BodyLimits, Caller, Keys, Scope};
use http::HeaderMap;
use tokio::sync::Semaphore;

use crate::{
    agents, artifacts, code::Code, cut, documents, error::ApiError, forms, messages, permissions, sessions, spawn,
    stop, token, upload,
};

/// How many documents may be on their way to us at once: each is held in memory until it is kept.
const UPLOADS: usize = 4;

/// What the routes need.
#[derive(Clone, Debug)]
pub struct Native {
    /// Runs the turns.
    pub engine: Engine,
    /// Who may call.
    pub keys: Arc<Keys>,
    /// Bounds on requests.
    pub limits: BodyLimits,
    /// Largest document, in bytes.
    pub document_bytes: usize,
}

/// What the handlers work with.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    native: Native,
    pub(crate) uploads: Arc<Semaphore>,
}

impl Deref for Api {
    type Target = Native;

    fn deref(&self) -> &Native {
        &self.native
    }
}

impl Api {
    /// Who calls, if they may do this.
    pub(crate) fn caller(&self, headers: &HeaderMap, scope: Scope) -> Result<Caller, ApiError> {
        let caller = self.keys.caller(headers)?;
        caller.require(scope)?;
        Ok(caller)
    }
}

/// The routes under `/api/v1`, all but the stream of a turn.
pub fn routes(native: Native) -> Router {
    let body = DefaultBodyLimit::max(native.document_bytes.saturating_add(upload::AROUND_THE_FILE));
    let api = Api { native, uploads: Arc::new(Semaphore::new(UPLOADS)) };
    let version_1 = Router::new()
        .route("/sessions/stream", post(spawn::spawn))
        .route("/sessions", get(sessions::list))
        .route("/sessions/{session}", get(sessions::show).patch(sessions::rename).delete(sessions::delete))
        .route("/sessions/{session}/stop", post(stop::session))
        .route("/sessions/{session}/fork", post(cut::fork))
        .route("/sessions/{session}/truncate", post(cut::truncate))
        .route("/sessions/{session}/messages", get(messages::list))
        .route("/sessions/{session}/messages/{turn}", get(messages::show))
        .route("/sessions/{session}/messages/{turn}/stop", post(stop::message))
        .route("/sessions/{session}/messages/{turn}/token", post(token::create))
        .route("/forms", get(forms::list))
        .route("/forms/{form}", get(forms::show))
        .route("/artifacts", get(artifacts::list))
        .route("/artifacts/{artifact}", get(artifacts::download))
        .route("/artifacts/{artifact}/versions", get(artifacts::versions))
        .route("/documents", get(documents::list).post(upload::upload))
        .route("/documents/{document}", get(documents::show).delete(documents::delete))
        .route("/documents/{document}/content", get(documents::download))
        .route("/agents", get(agents::list).post(agents::create))
        .route("/agents/{agent}", get(agents::show).patch(agents::change).delete(agents::delete))
        .route("/permissions", get(permissions::list))
        .route("/permissions/{tool}", delete(permissions::delete))
        .method_not_allowed_fallback(async || {
            ApiError::new(Code::MethodNotAllowed, "this path does not take that method")
        })
        .fallback(async || ApiError::new(Code::NotFound, "there is nothing at this path"))
        .layer(body)
        .with_state(api);
    Router::new().nest("/api/v1", version_1)
}
