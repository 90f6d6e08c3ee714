//! `GET /sessions/insights`: how many sessions there are, and what they used.

use axum::{Json, extract::State};
use everturn_core::Usage;
use everturn_http::Scope;
use http::HeaderMap;
use serde::Serialize;

use crate::{answers::Always, error::ApiError, routes::Api};

/// How many sessions are counted.
const MAX_SESSIONS: u64 = 10_000;
/// How many of them at a time.
const PAGE: usize = 1000;

#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = goose::SessionInsights)]
pub(crate) struct Insights {
    total_sessions: u64,
    total_tokens: u64,
}

/// Tell how many sessions there are, and how many tokens they used
///
/// The newest 10000 are counted.
#[utoipa::path(
    get, path = "/sessions/insights", operation_id = "goose_released_session_insights",
    responses(
        (status = 200, description = "The sums", body = Insights, example = json!({
            "totalSessions": 12, "totalTokens": 34_567,
        })),
        Always,
    ),
)]
pub(crate) async fn show(State(api): State<Api>, headers: HeaderMap) -> Result<Json<Insights>, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let (mut total_sessions, mut used, mut below) = (0, Usage::default(), None);
    while total_sessions < MAX_SESSIONS {
        let rows = api.engine.sessions(&caller.tenant, below, PAGE).await?;
        let Some(last) = rows.last() else { break };
        below = Some(last.position);
        total_sessions += rows.len() as u64;
        rows.iter().for_each(|row| used += row.session.usage);
    }
    Ok(Json(Insights { total_sessions, total_tokens: used.total() }))
}
