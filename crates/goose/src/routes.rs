//! The protocol's doors.

use std::{ops::Deref, sync::Arc, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::{Path, rejection::PathRejection},
};
use everturn_core::SessionId;
use everturn_engine::Engine;
use everturn_http::{
    BodyLimits, Caller, Keys, Object, Scope,
    document::{self, BEARER_KEY},
    parse_json, read_body,
};
use everturn_recipes::Recipes;
use http::{HeaderMap, HeaderName, StatusCode, Uri};
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    absent, agent, agent_update, apps, call_tool, config, confirmation, deeplink,
    error::{ApiError, ErrorBody},
    extensions, fork, insights, permissions, providers, recipe_list, recipe_values, reply, search, sessions, split,
    transfer,
};

/// Where Goose's clients send their key.
const SECRET_KEY: HeaderName = HeaderName::from_static("x-secret-key");
/// The ways to send a key.
const KEYS: [&str; 2] = [BEARER_KEY, document::SECRET_KEY];
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
pub(crate) struct Api {
    goose: Goose,
    /// Held while what was chosen for a session changes.
    pub(crate) choosing: Arc<Mutex<()>>,
}

impl Deref for Api {
    type Target = Goose;

    fn deref(&self) -> &Goose {
        &self.goose
    }
}

/// The one route at the root, in the shapes that the protocol's text describes, and those of the releases under `/goose`.
pub fn routes(goose: Goose) -> OpenApiRouter {
    let api = Api { goose, choosing: Arc::default() };
    let described = OpenApiRouter::default().routes(routes!(reply::described));
    let described = document::tagged(document::with_schema::<ErrorBody<'_>, _>(described), "Goose", &KEYS);
    let described = document::behind(described, |router| router.method_not_allowed_fallback(method));
    described.with_state(api.clone()).nest("/goose", released(api))
}

fn released(api: Api) -> OpenApiRouter {
    let routes = OpenApiRouter::default()
        .routes(routes!(status))
        .routes(routes!(reply::released))
        .routes(routes!(agent::start))
        .routes(routes!(agent::resume))
        .routes(routes!(agent::stop))
        .routes(routes!(agent::tools))
        .routes(routes!(agent::update_from_session))
        .routes(routes!(agent_update::restart))
        .routes(routes!(agent_update::update_session))
        .routes(routes!(agent_update::update_provider))
        .routes(routes!(agent_update::update_working_dir))
        .routes(routes!(extensions::add))
        .routes(routes!(extensions::remove))
        .routes(routes!(call_tool::call))
        .routes(routes!(apps::read_resource))
        .routes(routes!(apps::list))
        .routes(routes!(config::show))
        .routes(routes!(config::read))
        .routes(routes!(config::upsert))
        .routes(routes!(config::slash_commands))
        .routes(routes!(providers::list))
        .routes(routes!(extensions::list))
        .routes(routes!(permissions::list, permissions::change))
        .routes(routes!(confirmation::decide))
        .routes(routes!(recipe_list::list))
        .routes(routes!(deeplink::decode))
        .routes(routes!(sessions::list))
        .routes(routes!(search::search))
        .routes(routes!(insights::show))
        .routes(routes!(transfer::import))
        .routes(routes!(sessions::show, sessions::delete))
        .routes(routes!(sessions::rename))
        .routes(routes!(recipe_values::set))
        .routes(routes!(extensions::of_session))
        .routes(routes!(split::events))
        .routes(routes!(split::reply))
        .routes(routes!(split::cancel))
        .routes(routes!(fork::fork))
        .routes(routes!(transfer::export));
    document::behind(document::tagged(routes, "Goose (as released)", &KEYS), |router| {
        router.method_not_allowed_fallback(method).fallback(async |uri: Uri| absent::answer(uri.path())).with_state(api)
    })
}

/// Tell that the server is up
#[utoipa::path(
    get, path = "/status", operation_id = "goose_released_status",
    responses((status = 200, description = "It is", content_type = "text/plain", body = String, example = json!("ok"))),
    security(()),
)]
async fn status() -> &'static str {
    "ok"
}

async fn method(uri: Uri) -> ApiError {
    let reason = absent::reason(uri.path()).unwrap_or("this path does not take that method");
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, reason)
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
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<T, ApiError> {
        let body = read_body(headers, body, self.limits, &self.engine.memory_of(&caller.tenant)).await?;
        let Object(request) = parse_json(&body, self.limits)?;
        Ok(request)
    }

    /// The agent that sessions have, unless another is asked for.
    pub(crate) fn default_agent(&self) -> Result<String, ApiError> {
        let first = self.engine.agents().first().map(|agent| agent.name.clone());
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
