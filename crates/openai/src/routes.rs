//! The protocol's doors.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::extract::OriginalUri;
use everturn_core::Timestamp;
use everturn_engine::Engine;
use everturn_http::{BodyLimits, Caller, Keys, Scope, document};
use http::{HeaderMap, StatusCode};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{attempts::Attempts, chat, description::ErrorSchema, error::ApiError, models, retries};

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
    /// The agent that this very name is mapped to.
    pub(crate) fn mapped_by_name(&self, name: &str) -> Option<&str> {
        self.models.get(name).map(String::as_str)
    }

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
            .layer(axum::middleware::from_fn(retries::keep_from_repeating))
            .with_state(api)
    });
    // The prefix with a slash is no path of its own to the router.
    OpenApiRouter::default().route("/v1/", axum::routing::any(nothing_here)).nest("/v1", routes)
}

/// What there is, for clients that look for something else.
const PATHS: &str = "this server has POST /v1/chat/completions, GET /v1/models and GET /v1/models/{model}";
/// How clients that use the Responses API by default are told to use chat completions.
const INSTEAD: &str = "the Responses API is not served here; use chat completions, POST /v1/chat/completions: \
    client.chat.completions.create(…) with OpenAI's SDKs, openai.chat(model) with the AI SDK's @ai-sdk/openai, \
    OpenAIChatCompletionsModel with the Agents SDK, OpenAIChatModel with pydantic-ai, use_responses_api=False with LangChain";

async fn nothing_here(OriginalUri(uri): OriginalUri) -> ApiError {
    let path = uri.path();
    let is_responses = path.strip_prefix("/v1/responses").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let message = if is_responses {
        INSTEAD.to_owned()
    } else {
        let shown: String = path.chars().take(128).collect();
        format!("there is nothing at {shown}; {PATHS}")
    };
    ApiError::new(StatusCode::NOT_FOUND, Some("unknown_url"), message)
}
