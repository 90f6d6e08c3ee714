//! `POST …/token`: a token that opens the stream of one turn, for readers that cannot send a key.

use std::time::Duration;

use axum::{
    Json,
    body::{Body, HttpBody as _},
    extract::State,
    response::{IntoResponse, Response},
};
use everturn_engine::TokenHolder;
use everturn_http::{Object, Scope, parse_json, read_body};
use http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Serialize};

use crate::{
    answers::{Always, NoMessage, Posted},
    error::{ApiError, Thing},
    path,
    routes::Api,
    time::rfc3339,
};

/// How long a token opens its stream, unless the client says so, in seconds.
const DEFAULT_LIFETIME: u64 = 15 * 60;
/// The longest time, in seconds.
const MAX_LIFETIME: u64 = 60 * 60;

/// For how long.
#[derive(Default, Deserialize, utoipa::ToSchema)]
#[schema(as = native::NewToken)]
struct TokenIn {
    /// How long the token opens the stream.
    #[schema(minimum = 1, maximum = 3600, default = 900)]
    ttl_seconds: Option<u64>,
}

/// A token that opens one stream.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Token)]
struct TokenOut {
    token: String,
    #[schema(format = DateTime)]
    expires_at: String,
}

impl TokenIn {
    fn lifetime(&self) -> Result<Duration, ApiError> {
        let seconds = self.ttl_seconds.unwrap_or(DEFAULT_LIFETIME);
        if !(1..=MAX_LIFETIME).contains(&seconds) {
            return Err(ApiError::invalid(format!("ttl_seconds must be from 1 to {MAX_LIFETIME}")));
        }
        Ok(Duration::from_secs(seconds))
    }
}

/// Make a token for a stream
///
/// It opens the stream of this message alone, for readers that cannot send a key, such as the EventSource of browsers.
#[utoipa::path(
    post, path = "/sessions/{session}/messages/{turn}/token", operation_id = "native_create_stream_token",
    params(
        ("session" = String, Path, description = "The session", example = "sess_0198c0ffee"),
        ("turn" = String, Path, description = "The message", example = "turn_0198c0ffee"),
    ),
    request_body(content = TokenIn, example = json!({ "ttl_seconds": 60 })),
    responses(
        (status = 201, description = "The token", body = TokenOut, example = json!({
            "token": "st_AAAA", "expires_at": "2026-07-25T17:35:00.120Z",
        })),
        Always, Posted, NoMessage,
    ),
)]
pub(crate) async fn create(
    State(api): State<Api>,
    path: path::Two,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let (session, turn) = path::turn(path)?;
    let request = if body.is_end_stream() {
        TokenIn::default()
    } else {
        let body = read_body(&headers, body, api.limits, &api.engine.memory_of(&caller.tenant)).await?;
        let Object(request) = parse_json(&body, api.limits)?;
        request
    };
    let holder = TokenHolder { tenant: caller.tenant, key: caller.account.key.clone() };
    let made = api.engine.stream_token(&holder, &session, &turn, request.lifetime()?).await?;
    let (token, expires_at) = made.ok_or_else(|| ApiError::no(Thing::Message, turn.as_str()))?;
    let body = Json(TokenOut { token, expires_at: rfc3339(expires_at) });
    Ok((StatusCode::CREATED, [(header::CACHE_CONTROL, "no-store")], body).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_live_for_a_while() {
        let lifetime = |ttl_seconds| TokenIn { ttl_seconds }.lifetime();
        assert_eq!(lifetime(None), Ok(Duration::from_secs(900)));
        assert_eq!(lifetime(Some(3600)), Ok(Duration::from_secs(3600)));
        assert!(lifetime(Some(0)).is_err());
        assert!(lifetime(Some(3601)).is_err());
    }
}
