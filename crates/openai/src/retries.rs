//! Refusals for clients that send requests again whatever `x-should-retry` says.
//!
//! The AI SDK repeats every 409, twice. A repeated request would begin another turn: one more that waits for a person, or one
//! in place of a turn that a person stopped. It repeats no 422, so a 409 that is final becomes a 422 for it.

use axum::{
    extract::Request,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, StatusCode, header};

use crate::error::SHOULD_RETRY;

/// What every package of the AI SDK adds to `User-Agent`.
const AI_SDK: &str = "ai-sdk/";

/// A layer that changes the status of final conflicts for the AI SDK.
pub(crate) async fn keep_from_repeating(request: Request, next: Next) -> Response {
    let repeats = is_ai_sdk(request.headers());
    let response = next.run(request).await;
    let is_final = response.status() == StatusCode::CONFLICT && response.headers().contains_key(&SHOULD_RETRY);
    if repeats && is_final { (StatusCode::UNPROCESSABLE_ENTITY, response).into_response() } else { response }
}

fn is_ai_sdk(headers: &HeaderMap) -> bool {
    let agents = headers.get_all(header::USER_AGENT).iter();
    agents.filter_map(|agent| agent.to_str().ok()).any(|agent| agent.contains(AI_SDK))
}
