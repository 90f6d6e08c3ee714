//! What operators look at: is it up, does it take work, what does it count.

use std::sync::Arc;

use axum::{Router, extract::State, response::IntoResponse, routing::get};
use everturn_engine::Engine;
use http::{StatusCode, header};
use prometheus_client::{encoding::text::encode, registry::Registry};

/// What the routes need.
#[derive(Clone, Debug)]
pub struct Operations {
    /// Whose readiness is told.
    pub engine: Engine,
    /// What is counted.
    pub registry: Arc<Registry>,
}

/// `/healthz`, `/readyz`, `/metrics`. Open without a key: they hold no content of anybody's.
pub fn operations(operations: Operations) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(operations)
}

async fn ready(State(operations): State<Operations>) -> impl IntoResponse {
    match operations.engine.trouble() {
        None => (StatusCode::OK, "ready\n".to_owned()),
        Some(trouble) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {trouble}\n")),
    }
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
