//! What operators look at: is it up, does it take work, what does it count.

use std::{collections::BTreeMap, fmt, sync::Arc};

use axum::{
    Json,
    extract::State,
    middleware::from_fn_with_state,
    response::{IntoResponse, Response},
};
use everturn_engine::Engine;
use http::{HeaderMap, StatusCode, header};
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde::Serialize;
use serde_json::Value;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Keys, MetricsKey, RefusedOpenly, document, own_host,
    problem::{NoMetricsKey, Problem, problem},
};

/// What the routes need.
#[derive(Clone, Debug)]
pub struct Operations {
    /// Whose readiness is told.
    pub engine: Engine,
    /// What is counted.
    pub registry: Arc<Registry>,
    /// Without keys, only requests for this machine are answered.
    pub keys: Arc<Keys>,
    /// The key that `/metrics` asks for.
    pub metrics_key: Option<MetricsKey>,
    /// How the MCP servers are. They do not make this server unready: turns can do without.
    pub mcp: Report,
}

/// Tells how something is, by the names of its parts, when asked.
#[derive(Clone)]
pub struct Report(Arc<dyn Fn() -> BTreeMap<String, Value> + Send + Sync>);

impl Report {
    /// Tells what the function tells.
    pub fn new(tell: impl Fn() -> BTreeMap<String, Value> + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries((self.0)()).finish()
    }
}

/// `/healthz`, `/readyz`, `/metrics`. Open without a key: they hold no content of anybody's.
pub fn operations(operations: Operations) -> OpenApiRouter {
    let guarded = OpenApiRouter::default().routes(routes!(ready)).routes(routes!(metrics));
    let keys = Arc::clone(&operations.keys);
    let guarded = document::behind(guarded, |router| router.layer(from_fn_with_state(keys, own_host)));
    let routes = OpenApiRouter::default().routes(routes!(healthy)).merge(guarded);
    let routes = document::with_schema::<Problem<'_>, _>(routes);
    document::tagged(routes, "Operations", &[]).with_state(operations)
}

/// Tell that the server is up
#[utoipa::path(
    get, path = "/healthz", operation_id = "ops_health",
    responses((status = 200, description = "It is", content_type = "text/plain", body = String, example = json!("ok\n"))),
    security(()),
)]
async fn healthy() -> &'static str {
    "ok\n"
}

/// How the server is.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = operations::Readiness)]
struct Readiness {
    #[schema(schema_with = readiness)]
    status: &'static str,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    trouble: Option<String>,
    /// The MCP servers, by name. They do not make this server unready.
    #[schema(value_type = BTreeMap<String, ServerReport>)]
    mcp: BTreeMap<String, Value>,
}

fn readiness() -> document::AnySchema {
    document::schema(serde_json::json!({ "type": "string", "enum": ["ready", "not ready"] }))
}

/// How an MCP server is.
#[derive(utoipa::ToSchema)]
#[schema(as = operations::McpServer)]
#[expect(dead_code, reason = "what the report's values look like, for the document")]
struct ServerReport {
    /// `starting`, `ready`, or `failed`: it is started again and again.
    state: String,
    /// How many tools it offers.
    tools: usize,
    /// How often it was started again.
    restarts: u64,
}

/// Tell whether the server takes work
///
/// In words, or in JSON if there are MCP servers to tell of.
#[utoipa::path(
    get, path = "/readyz", operation_id = "ops_readiness",
    responses(
        (status = 200, description = "It does", content(
            (String = "text/plain", example = json!("ready\n")),
            (Readiness = "application/json", example = json!({
                "status": "ready",
                "mcp": { "time": { "state": "ready", "tools": 2, "restarts": 0 } },
            })),
        )),
        (status = 503, description = "It does not: it is stopping, or its store is in trouble", content(
            (String = "text/plain", example = json!("not ready: the server is shutting down\n")),
            (Readiness = "application/json", example = json!({
                "status": "not ready",
                "trouble": "the server is shutting down",
                "mcp": { "time": { "state": "failed", "tools": 0, "restarts": 1 } },
            })),
        )),
        RefusedOpenly,
    ),
    security(()),
)]
async fn ready(State(operations): State<Operations>) -> Response {
    let trouble = operations.engine.trouble();
    let status = if trouble.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mcp = (operations.mcp.0)();
    if mcp.is_empty() {
        let text = trouble.map_or_else(|| "ready\n".to_owned(), |trouble| format!("not ready: {trouble}\n"));
        return (status, text).into_response();
    }
    let told = match trouble {
        None => Readiness { status: "ready", trouble: None, mcp },
        Some(trouble) => Readiness { status: "not ready", trouble: Some(trouble.to_string()), mcp },
    };
    (status, Json(told)).into_response()
}

/// Tell what is counted
///
/// For Prometheus, in the OpenMetrics text format. Open to everybody, unless `[metrics] key` is configured.
#[utoipa::path(
    get, path = "/metrics", operation_id = "ops_metrics",
    responses(
        (
            status = 200, description = "All counters and gauges",
            content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8",
            body = String, example = json!("# TYPE everturn_http_answers counter\n# EOF\n"),
        ),
        NoMetricsKey,
        RefusedOpenly,
    ),
    security(()),
)]
async fn metrics(State(operations): State<Operations>, headers: HeaderMap) -> Response {
    if operations.metrics_key.as_ref().is_some_and(|key| !key.is_shown(&headers)) {
        let message = "/metrics of this server wants a key of its own, that of [metrics] key in the configuration: send the \
                       header Authorization: Bearer <key>";
        let refused = problem(StatusCode::UNAUTHORIZED, "AUTH_TOKEN_INVALID", message);
        return ([(header::WWW_AUTHENTICATE, "Bearer")], refused).into_response();
    }
    let mut text = String::new();
    match encode(&mut text, &operations.registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
