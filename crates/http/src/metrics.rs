//! Counts answers by status.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// What is counted of HTTP. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct HttpMetrics {
    answers: Family<Labels, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    status: u16,
}

impl HttpMetrics {
    /// Adds them to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("everturn_http_answers", "Requests answered, by status", self.answers.clone());
    }
}

/// Counts the answer that comes from within.
pub async fn count_answers(State(metrics): State<HttpMetrics>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    metrics.answers.get_or_create(&Labels { status: response.status().as_u16() }).inc();
    response
}
