//! The split protocol: one stream for a session, and requests that only say that they were taken.

use axum::{
    Json,
    body::{Body, Bytes},
    extract::State,
    response::{IntoResponse, Response},
};
use everturn_engine::{Cursor, SessionCursor};
use everturn_http::{Object, Scope, document::Events, named_submission, parse_json, read_body, session_stream};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    answers::{Always, NoSession, NotOpened, NotSaid, Posted},
    describe::{SessionEvent, SessionParam, SessionReplyRequest},
    error::ApiError,
    projection::{self, SESSION},
    recipe::Wanted,
    reply::{Speech, the_message, unwrapped},
    routes::{Api, One, nothing, session_of},
    wire::{MessageIn, user_message},
};

/// `SessionReplyRequest`.
#[derive(Deserialize)]
struct SessionReplyIn {
    request_id: Option<String>,
    user_message: Option<Object<MessageIn>>,
    override_conversation: Option<Vec<Object<MessageIn>>>,
    recipe_name: Option<String>,
    recipe_version: Option<String>,
}

/// How a session's stream goes, for the API document.
const EXAMPLE: &str = r#": ping
id: turn_1:7
data: {"type":"Finish","request_id":"0197f2ab-0000-7abc-8def-0123456789ab","reason":"stop","token_state":{"inputTokens":12,"outputTokens":4,"totalTokens":16,"accumulatedInputTokens":12,"accumulatedOutputTokens":4,"accumulatedTotalTokens":16,"accumulatedCost":null},"chat_request_id":"0197f2ab-0000-7abc-8def-0123456789ab"}

"#;

/// What was taken.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::Taken)]
struct Taken {
    request_id: String,
}

/// What a session's stream answers.
type Stream = Events<SessionEvent>;

/// Say something in a session
///
/// What comes of it is on the session's stream. The same again has no second effect.
#[utoipa::path(
    post, path = "/sessions/{session}/reply", operation_id = "goose_released_session_reply",
    params(("session" = inline(SessionParam), Path, description = "The session")),
    request_body(content = SessionReplyRequest, description = "What is said", example = json!({
        "request_id": "0197f2ab-0000-7abc-8def-0123456789ab",
        "user_message": {
            "role": "user", "created": 1_772_618_400, "content": [{ "type": "text", "text": "What time is it?" }],
            "metadata": { "userVisible": true, "agentVisible": true },
        },
    })),
    responses(
        (status = 200, description = "It is taken", body = Taken, example = json!({
            "request_id": "0197f2ab-0000-7abc-8def-0123456789ab",
        })),
        Always, Posted, NotSaid,
    ),
)]

pub(crate) async fn reply(
    State(api): State<Api>,
    path: One,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let limits = api.message_limits();
    let body = read_body(&headers, body, limits, &api.engine.memory_of(&caller.tenant)).await?;
    let Object(request): Object<SessionReplyIn> = parse_json(&body, limits)?;
    let session = session_of(path)?;
    let id = request.request_id.filter(|id| is_uuid(id));
    let id = id.ok_or_else(|| ApiError::new(StatusCode::BAD_REQUEST, "request_id must be a valid UUID"))?;
    if api.engine.session(&caller.tenant, &session).await?.is_none() {
        return Err(ApiError::no_session(session.as_str()));
    }
    let operation = format!("POST /goose/sessions/{session}/reply");
    let speech = Speech {
        said: user_message(the_message(request.user_message)?)?,
        history: request.override_conversation.map(unwrapped),
        recipe: Wanted::new(request.recipe_name, request.recipe_version, None)?,
        agent: None,
        request: Some(id.clone()),
        // A name is the same however it is spelled.
        key: Some(named_submission(format!("goose:{session}:{}", id.to_ascii_lowercase()), &operation, &body)),
    };
    api.speak(&caller, Some(session), speech).await?;
    Ok(Json(Taken { request_id: id }).into_response())
}

#[derive(Deserialize, utoipa::ToSchema)]
#[schema(as = goose::CancelRequest)]
struct CancelIn {
    /// The request whose turn is to end.
    #[schema(required, nullable = false)]
    request_id: Option<String>,
}

/// End the turn of a request
///
/// There is nothing to say about one that does not run.
#[utoipa::path(
    post, path = "/sessions/{session}/cancel", operation_id = "goose_released_cancel_request",
    params(("session" = inline(SessionParam), Path, description = "The session")),
    request_body(content = CancelIn, description = "Which request", example = json!({
        "request_id": "0197f2ab-0000-7abc-8def-0123456789ab",
    })),
    responses((status = 200, description = "It does not run"), Always, Posted, NoSession),
)]
pub(crate) async fn cancel(
    State(api): State<Api>,
    path: One,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let CancelIn { request_id } = api.read(&caller, &headers, body).await?;
    let session = session_of(path)?;
    let request = request_id.ok_or_else(|| ApiError::invalid("request_id is missing"))?;
    if api.engine.session(&caller.tenant, &session).await?.is_none() {
        return Err(ApiError::no_session(session.as_str()));
    }
    if let Some(turn) = api.engine.turn_of_request(&caller.tenant, &session, &request).await? {
        api.engine.stop(&caller.tenant, &session, Some(&turn), None).await?;
    }
    Ok(nothing().into_response())
}

/// Watch a session
///
/// All its turns, one after the other, as long as the client stays. Without `Last-Event-ID` it begins with the last turn,
/// with a plain number, as other servers have them, with the first.
#[utoipa::path(
    get, path = "/sessions/{session}/events", operation_id = "goose_released_watch_session",
    params(
        ("session" = inline(SessionParam), Path, description = "The session"),
        (
            "Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event that was seen",
            nullable = false, example = "turn_0197f2ab000070008000000000000001:17",
        ),
    ),
    responses(
        (
            status = 200, description = "The events of the session, as server-sent events",
            content_type = "text/event-stream", body = inline(Stream), example = json!(EXAMPLE),
        ),
        Always, NotOpened,
    ),
)]
pub(crate) async fn events(State(api): State<Api>, path: One, headers: HeaderMap) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let session = session_of(path)?;
    let seen = headers.get("last-event-id").map(|value| String::from_utf8_lossy(value.as_bytes()).trim().to_owned());
    let mut conversation = Bytes::new();
    let opened = match seen.as_deref().filter(|seen| !seen.is_empty()) {
        // With the last turn, also if it is over: whoever asked and then came here must not wait for what was said already.
        None => {
            let record = api.engine.session(&caller.tenant, &session).await?;
            let last = record.and_then(|record| record.last_turn);
            let cursor = last.map(|turn| SessionCursor { turn: turn.id, cursor: Cursor::default() });
            api.engine.read_session(&caller.tenant, &session, &SESSION, cursor).await
        }
        // The releases counted. Nobody knows what such a number meant elsewhere, so nothing is left out.
        Some(seen) if seen.bytes().all(|byte| byte.is_ascii_digit()) => {
            api.engine.read_whole_session(&caller.tenant, &session, &SESSION).await
        }
        Some(seen) => {
            let cursor = seen.parse::<SessionCursor>().map_err(|_| {
                let shown: String = seen.chars().take(64).collect();
                let what = "is not the id of an event of this stream; leave it out to begin with the last turn";
                ApiError::new(StatusCode::BAD_REQUEST, format!("Last-Event-ID {shown:?} {what}"))
            })?;
            if api.engine.turn(&caller.tenant, &session, &cursor.turn).await?.is_none() {
                // The conversation was cut: what the client has of it may not be there any more.
                let said = api.engine.conversation(&caller.tenant, &session).await?;
                conversation = projection::conversation(&said);
            }
            api.engine.read_session(&caller.tenant, &session, &SESSION, Some(cursor)).await
        }
    };
    let reader = opened.map_err(|error| ApiError::open(error, &session))?;
    let active = api.engine.active_requests(&caller.tenant, &session).await?;
    let mut first = match active.as_slice() {
        [] => Vec::new(),
        active => {
            let frame = json!({ "type": "ActiveRequests", "request_ids": active });
            format!("data: {frame}\n\n").into_bytes()
        }
    };
    first.extend_from_slice(&conversation);
    Ok(session_stream(reader, first.into(), api.ping))
}

/// A UUID of any version, written with dashes or without.
fn is_uuid(text: &str) -> bool {
    let bytes = text.as_bytes();
    match bytes.len() {
        32 => bytes.iter().all(u8::is_ascii_hexdigit),
        36 => bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_told_from_other_texts() {
        assert!(is_uuid("0197f2ab-0000-7abc-8def-0123456789AB"));
        assert!(is_uuid("0197f2ab00007abc8def0123456789ab"));
        for wrong in ["", "req-1", "0197f2ab-0000-7abc-8def-0123456789A", "0197f2ab-0000-7abc-8def-0123456789AG"] {
            assert!(!is_uuid(wrong), "{wrong}");
        }
        assert!(!is_uuid("0197f2ab_0000_7abc_8def_0123456789ab"));
    }
}
