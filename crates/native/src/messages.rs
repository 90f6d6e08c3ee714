//! `/sessions/{id}/messages`: the turns of a session.

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use everturn_core::Size;
use everturn_engine::MemoryKind;
use everturn_http::{Scope, held};
use http::HeaderMap;
use serde::Serialize;

use crate::{
    answers::{Always, Listed, NoMessage, NoSession},
    error::{ApiError, Thing},
    paging::{List, ListQuery, Page, Paged},
    path,
    routes::Api,
    turn_out::TurnOut,
};

/// How much memory showing a message takes, by that of what was said in it: what was said, and the answer.
const SHOWN: u64 = 2;

/// A page of messages.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Messages)]
struct Messages<'a> {
    messages: Vec<TurnOut<'a>>,
    /// For the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// List the messages of a session
///
/// Newest first. One entry for what was asked and all that came of it.
#[utoipa::path(
    get, path = "/sessions/{session}/messages", operation_id = "native_list_messages",
    params(
        ("session" = String, Path, description = "The session", example = "sess_0198c0ffee"),
        Paged<{ List::Messages.letter() }>,
    ),
    responses(
        (
            status = 200, description = "A page", body = Messages<'_>,
            example = json!({ "messages": [TurnOut::example()] }),
        ),
        Always, Listed, NoSession,
    ),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    path: path::One,
    headers: HeaderMap,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let session = path::session(path)?;
    let page = Page::new(List::Messages, &query?.0)?;
    let mut turns = api.engine.turns_below(&caller.tenant, &session, page.below, page.wanted()).await?;
    // A session that was never spoken in has no turns either.
    if turns.is_empty() && api.engine.session(&caller.tenant, &session).await?.is_none() {
        return Err(ApiError::no(Thing::Session, session.as_str()));
    }
    let next_cursor = page.cut(&mut turns, |turn| turn.ordinal);
    let messages = turns.iter().map(TurnOut::from).collect();
    let answer = Json(Messages { messages, next_cursor }).into_response();
    Ok(held(answer, turns.memory))
}

/// Show a message
///
/// What was asked and all that came of it.
#[utoipa::path(
    get, path = "/sessions/{session}/messages/{turn}", operation_id = "native_show_message",
    params(
        ("session" = String, Path, description = "The session", example = "sess_0198c0ffee"),
        ("turn" = String, Path, description = "The message", example = "turn_0198c0ffee"),
    ),
    responses(
        (status = 200, description = "The message", body = TurnOut<'_>, example = json!(TurnOut::example())),
        Always, NoMessage,
    ),
)]
pub(crate) async fn show(State(api): State<Api>, path: path::Two, headers: HeaderMap) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let (session, turn) = path::turn(path)?;
    let found = api.engine.turn(&caller.tenant, &session, &turn).await?;
    let found = found.ok_or_else(|| ApiError::no(Thing::Message, turn.as_str()))?;
    let memory = Size::of(&found.messages).memory * SHOWN;
    let memory = api.engine.memory_of(&caller.tenant).reserve(MemoryKind::Answers, memory)?;
    Ok(held(Json(TurnOut::from(&found)).into_response(), memory))
}
