//! What operators look at: is it up, does it take work, what does it count.

use std::{collections::BTreeMap, fmt, sync::Arc};

use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::get,
};
use everturn_engine::Engine;
use http::{StatusCode, header};
use prometheus_client::{encoding::text::encode, registry::Registry};
use serde_json::{Value, json};

/// What the routes need.
#[derive(Clone, Debug)]
pub struct Operations {
    /// Whose readiness is told.
    pub engine: Engine,
    /// What is counted.
    pub registry: Arc<Registry>,
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
pub fn operations(operations: Operations) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(operations)
}

async fn ready(State(operations): State<Operations>) -> Response {
    let trouble = operations.engine.trouble();
    let status = if trouble.is_none() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mcp = (operations.mcp.0)();
    if mcp.is_empty() {
        let text = trouble.map_or_else(|| "ready\n".to_owned(), |trouble| format!("not ready: {trouble}\n"));
        return (status, text).into_response();
    }
    let told = match trouble {
        None => json!({ "status": "ready", "mcp": mcp }),
        Some(trouble) => json!({ "status": "not ready", "trouble": trouble.to_string(), "mcp": mcp }),
    };
    (status, Json(told)).into_response()
}

async fn metrics(State(operations): State<Operations>) -> impl IntoResponse {
    let mut text = String::new();
    match encode(&mut text, &operations.registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            (StatusCode::OK, [(header::CONTENT_TYPE, kind)], text)
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, [(header::CONTENT_TYPE, "text/plain")], format!("{error}\n")),
    }
}
