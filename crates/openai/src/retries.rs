//! Refusals for clients that send requests again whatever `x-should-retry` says.
//!
//! The AI SDK repeats every 409 and every 5xx, twice. A repeated request would begin another turn: one more that waits for a
//! person, one in place of a turn that a person stopped, or one that fails again after all that its tools have done. It repeats
//! no 422, so what is final becomes a 422 for it. Nor does it number its attempts; see [`super::attempts`].

use axum::{
    extract::Request,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, StatusCode, header};

use crate::error::SHOULD_RETRY;

/// What every package of the AI SDK adds to `User-Agent`.
const AI_SDK: &str = "ai-sdk/";

/// A layer that changes the status of final conflicts and failures for the AI SDK.
pub(crate) async fn keep_from_repeating(request: Request, next: Next) -> Response {
    let repeats = is_ai_sdk(request.headers());
    let response = next.run(request).await;
    let status = response.status();
    let is_repeated = status == StatusCode::CONFLICT || status.is_server_error();
    let is_final = is_repeated && response.headers().contains_key(&SHOULD_RETRY);
    if repeats && is_final { (StatusCode::UNPROCESSABLE_ENTITY, response).into_response() } else { response }
}

/// Whether a request comes from the AI SDK.
pub(crate) fn is_ai_sdk(headers: &HeaderMap) -> bool {
    let agents = headers.get_all(header::USER_AGENT).iter();
    agents.filter_map(|agent| agent.to_str().ok()).any(|agent| agent.contains(AI_SDK))
}
