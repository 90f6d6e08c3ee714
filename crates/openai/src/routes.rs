//! The protocol's doors.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use everturn_core::Timestamp;
use everturn_engine::Engine;
use everturn_http::{BodyLimits, Caller, Keys, Scope, document};
use http::{HeaderMap, StatusCode};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{attempts::Attempts, chat, description::ErrorSchema, error::ApiError, models};

/// What the routes need.
#[derive(Clone, Debug)]
pub struct OpenAi {
    /// Runs the turns.
    pub engine: Engine,
    /// Who may call.
    pub keys: Arc<Keys>,
    /// Bounds on requests.
    pub limits: BodyLimits,
    /// After so long a silence a comment keeps the connection open.
    pub silence: Duration,
    /// How long an answer waits for people before the client gets an error.
    pub patience: Duration,
    /// Names of models that are none of agents, with the agents that answer for them; `*` is every other name.
    pub models: BTreeMap<String, String>,
}

/// What the handlers share.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) engine: Engine,
    pub(crate) keys: Arc<Keys>,
    pub(crate) limits: BodyLimits,
    pub(crate) silence: Duration,
    pub(crate) patience: Duration,
    pub(crate) models: Arc<BTreeMap<String, String>>,
    pub(crate) attempts: Attempts,
    /// When the server was started.
    pub(crate) since: Timestamp,
}

impl Api {
    pub(crate) fn caller(&self, headers: &HeaderMap, scope: Scope) -> Result<Caller, ApiError> {
        let caller = self.keys.caller(headers)?;
        caller.require(scope)?;
        Ok(caller)
    }

    /// The agent that `[openai.models]` maps a name to.
    pub(crate) fn mapped(&self, name: &str) -> Option<&str> {
        self.models.get(name).or_else(|| self.models.get("*")).map(String::as_str)
    }
}

/// The routes, under `/v1`.
pub fn routes(openai: OpenAi) -> OpenApiRouter {
    let OpenAi { engine, keys, limits, silence, patience, models } = openai;
    let (attempts, since) = (Attempts::default(), Timestamp::now());
    let api = Api { engine, keys, limits, silence, patience, models: Arc::new(models), attempts, since };
    let routes = OpenApiRouter::default()
        .routes(routes!(chat::create))
        .routes(routes!(models::list))
        .routes(routes!(models::show));
    let routes = document::with_schema::<ErrorSchema, _>(routes);
    let routes = document::tagged(routes, "OpenAI", &[document::BEARER_KEY]);
    let routes = document::behind(routes, |router| {
        router
            .method_not_allowed_fallback(async || {
                let message = "this path does not take that method";
                ApiError::new(StatusCode::METHOD_NOT_ALLOWED, Some("method_not_allowed"), message)
            })
            .fallback(nothing_here)
            .with_state(api)
    });
    // The prefix with a slash is no path of its own to the router.
    OpenApiRouter::default().route("/v1/", axum::routing::any(nothing_here)).nest("/v1", routes)
}

async fn nothing_here() -> ApiError {
    let message = "there is nothing here; this server has /v1/chat/completions and /v1/models";
    ApiError::new(StatusCode::NOT_FOUND, Some("unknown_url"), message)
}
