//! A name for every request, in the log and in the answer.

use std::time::Instant;

use axum::{extract::Request, middleware::Next, response::Response};
use everturn_core::TurnId;
use http::{HeaderName, HeaderValue};
use tracing::{Instrument as _, field::display};

use crate::proxies::ClientAddress;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Names from outside are taken up to this length.
const MAX_LENGTH: usize = 64;

/// Takes the client's name for the request, or makes one; logs the request under it and sends it back.
pub async fn request_id(request: Request, next: Next) -> Response {
    let id = name_of(&request);
    let client = request.extensions().get::<ClientAddress>().map(|client| display(client.ip));
    let span = tracing::info_span!("request", id, client, method = %request.method(), path = request.uri().path());
    let begun = Instant::now();
    let mut response = next.run(request).instrument(span.clone()).await;
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
    span.in_scope(|| tracing::debug!(status = response.status().as_u16(), milliseconds, "answered"));
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

fn name_of(request: &Request) -> String {
    let given = request.headers().get(&REQUEST_ID).and_then(|value| value.to_str().ok());
    let sound = |id: &&str| id.len() <= MAX_LENGTH && !id.is_empty() && id.bytes().all(|b| b.is_ascii_graphic());
    given.filter(sound).map_or_else(|| TurnId::mint().as_str().replace("turn_", "req_"), str::to_owned)
}
