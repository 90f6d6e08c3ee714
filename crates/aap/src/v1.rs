//! The doors of version 1.

use axum::{
    Json,
    body::Body,
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    response::{IntoResponse, Response},
};
use everturn_engine::Target;
use everturn_http::{
    Object, Scope,
    document::{self, Events},
    held, parse_json, read_body, submission_key,
};
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    answer::{self, CreatedResponse},
    error::ApiError,
    listing::ListQuery,
    meta::{MetaOut, offers},
    refusals::{BodyRefused, Conflict, Guarded, Malformed, NotThere, Public},
    request,
    routes::Aap,
    session::{HistoryOut, SessionOut, Wanted},
    turn::{Created, submit},
    version::Version,
    wire::{
        EventV1, NewWithTurnIn, TurnIn,
        tool::{V1In, V1Out},
    },
};

type Stream = Events<EventV1>;

pub(crate) fn routes() -> OpenApiRouter<Aap> {
    OpenApiRouter::default()
        .routes(routes!(show_meta))
        .routes(routes!(list))
        .routes(routes!(create))
        .routes(routes!(show, turn, delete))
}

/// Tell what there is
///
/// The agents with their tools, options and capabilities. Needs no key; with one it tells why tool servers are not there.
#[utoipa::path(
    get, path = "/meta", operation_id = "aap_v1_meta", security(()),
    responses(
        (
        status = 200, description = "The agents", body = MetaOut<'_, V1Out<'_>>,
        example = json!({
            "version": 1,
            "agents": [{
                "name": "assistant", "version": "1.0.0",
                "tools": [{ "name": "clock", "description": "Tells the time", "inputSchema": { "type": "object" } }],
                "capabilities": { "history": { "full": {} }, "stream": { "delta": {}, "none": {} } }
            }]
        }),
    ), Public),
)]
async fn show_meta(State(aap): State<Aap>, headers: HeaderMap) -> Result<Response, ApiError> {
    aap.keys.check_host(&headers)?;
    let offers = offers(&aap.engine, aap.keys.knows(&headers));
    Ok(Json(MetaOut::<V1Out<'_>>::new(Version::V1, &offers)).into_response())
}

/// Ids of sessions.
#[derive(Serialize, ToSchema)]
#[schema(as = aap::v1::Sessions)]
struct SessionsOut<'a> {
    /// Their ids, newest first.
    sessions: Vec<&'a str>,
    /// Where the next page begins; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next: Option<String>,
}

/// List sessions
///
/// The ids of your sessions, newest first, 100 a page.
#[utoipa::path(
    get, path = "/sessions", operation_id = "aap_v1_list_sessions",
    params(("after" = Option<String>, Query, pattern = "^(p[0-9a-f]{1,16})?$", example = "p2a",
        description = "Where the page begins: `next` of the page before. Without it, or if it is empty, the first page")),
    responses(
        (
            status = 200, description = "A page", body = SessionsOut<'_>,
            example = json!({ "sessions": ["sess_0198c0de0000700080000000000000aa"], "next": "p2a" }),
        ),
        Malformed, Guarded,
    ),
)]
async fn list(
    State(aap): State<Aap>,
    headers: HeaderMap,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = aap.caller(&headers, Scope::Read)?;
    let page = aap.page(&caller, query).await?;
    let sessions = page.rows.iter().map(|row| row.session.id.as_str()).collect();
    Ok(Json(SessionsOut { sessions, next: page.next() }).into_response())
}

/// Create a session and run its first turn
///
/// The answer comes in the asked mode: JSON when the turn has stopped, or events as they happen. The turn goes on when the
/// client goes away.
#[utoipa::path(
    put, path = "/session", operation_id = "aap_v1_create_session",
    params(document::IdempotencyKey),
    request_body(content = NewWithTurnIn, example = json!({
        "agent": { "name": "demo", "tools": [{ "name": "clock", "trust": true }] },
        "messages": [{ "role": "user", "content": "What time is it?" }]
    })),
    responses(
        (
            status = 201, description = "Modes `none`: what was said", body = CreatedResponse<'_>,
            headers(
                ("X-Session-Id" = String, description = "The session"),
                ("X-Message-Id" = String, description = "The turn; with the session it opens any view of it"),
            ),
            example = json!({
                "sessionId": "sess_0198c0de0000700080000000000000aa", "stopReason": "end_turn",
                "messages": [{ "role": "assistant", "content": "It is noon." }]
            }),
        ),
        (
            status = 200, description = "Modes `delta` and `message`: what happens", content_type = "text/event-stream",
            body = inline(Stream),
            headers(
                ("X-Session-Id" = String, description = "The session"),
                ("X-Message-Id" = String, description = "The turn; with the session it opens any view of it"),
            ),
            example = json!("event: turn_start\nid: 1.2\ndata: {}\n\nevent: turn_stop\nid: 5\ndata: {\"stopReason\":\"end_turn\"}\n\n"),
        ),
        BodyRefused, Conflict, Guarded,
    ),
)]
async fn create(State(aap): State<Aap>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = aap.caller(&headers, Scope::Chat)?;
    let body = read_body(&headers, body, aap.limits, &aap.engine.memory_of(&caller.tenant)).await?;
    let Object(request): Object<NewWithTurnIn> = parse_json(&body, aap.limits)?;
    let key = submission_key(&headers, Version::V1.creation(), &body)?;
    let (name, agent) = aap.agent_for_new(&caller, &request.agent).await?;
    let mode = request::mode(request.stream.as_deref(), &agent)?;
    let submission = request::seed_with_user(request.messages, &agent)?;
    let update = request::update(request.agent, request.tools);
    let submit = submit(caller, Target::New { agent: name }, update, submission, key);
    let started = aap.engine.submit(submit).await.map_err(|error| ApiError::submit(error, None))?;
    // The turn has what it said, and may take long.
    drop(body);
    aap.answer(&started, mode, Created::Yes, Version::V1).await
}

/// Run a turn
///
/// One message of the user; or, where calls wait, a result or a permission for each of them.
#[utoipa::path(
    post, path = "/session/{id}", operation_id = "aap_v1_run_turn",
    params(("id" = String, Path, description = "The session", example = "sess_0198c0ffee"), document::IdempotencyKey),
    request_body(content = TurnIn<V1In>, example = json!({ "messages": [{ "role": "user", "content": "And in Tokyo?" }] })),
    responses(
        (
            status = 200, description = "What was said, or what happens, in the asked mode",
            headers(
                ("X-Session-Id" = String, description = "The session"),
                ("X-Message-Id" = String, description = "The turn; with the session it opens any view of it"),
            ),
            content(
                (answer::Response<'_> = "application/json", example = json!({
                    "stopReason": "end_turn", "messages": [{ "role": "assistant", "content": "It is noon." }]
                })),
                (inline(Stream) = "text/event-stream", example = json!(
                    "event: turn_start\nid: 1\ndata: {}\n\nevent: text_delta\nid: 3\ndata: {\"delta\":\"It is noon.\"}\n\n"
                )),
            ),
        ),
        BodyRefused, NotThere, Conflict, Guarded,
    ),
)]
async fn turn(
    State(aap): State<Aap>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    aap.turn::<V1In>(Version::V1, path, &headers, body).await
}

#[derive(Deserialize)]
struct ShowQuery {
    history: Option<String>,
}

/// A session with its history.
#[derive(Serialize, ToSchema)]
#[schema(as = aap::v1::SessionWithHistory)]
struct SessionWithHistory<'a> {
    #[serde(flatten)]
    session: SessionOut<'a, V1Out<'a>>,
    /// The wanted history; absent if the agent offers none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    history: Option<HistoryOut<'a>>,
}

/// Show a session
///
/// Its settings and its history; secrets are shown as `***`.
#[utoipa::path(
    get, path = "/session/{id}", operation_id = "aap_v1_show_session",
    params(
        ("id" = String, Path, description = "The session", example = "sess_0198c0ffee"),
        ("history" = Option<String>, Query, pattern = "^(compacted|full)$",
            description = "Which history is wanted; a kind that the agent does not offer is left out. Without it, every kind that the agent offers"),
    ),
    responses(
        (
            status = 200, description = "The session", body = SessionWithHistory<'_>,
            example = json!({
                "sessionId": "sess_0198c0de0000700080000000000000aa",
                "agent": { "name": "demo", "tools": [{ "name": "clock", "trust": true }] },
                "history": { "full": [{ "role": "user", "content": "What time is it?" }] }
            }),
        ),
        Malformed, NotThere, Guarded,
    ),
)]
async fn show(
    State(aap): State<Aap>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    query: Result<Query<ShowQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = aap.caller(&headers, Scope::Read)?;
    let Query(query) = query.map_err(|error| ApiError::bad_request(error.body_text()))?;
    let record = aap.record(&caller, path).await?;
    let agent = aap.agent(&caller, &record.config).await;
    let declared = agent.as_ref().map(|agent| agent.capabilities).unwrap_or_default();
    let wanted = match query.history.as_deref() {
        Some(word) => Wanted::one("history", word, declared)?,
        None => Wanted::all(declared),
    };
    let history = if wanted.any() { Some(aap.engine.history(&caller.tenant, &record.id).await?) } else { None };
    let session = SessionOut::new(&record, aap.enabled(agent.as_deref(), &record.config));
    let shown = history.as_ref().map(|history| HistoryOut::new(history, wanted));
    let answer = Json(SessionWithHistory { session, history: shown }).into_response();
    Ok(held(answer, history.map(|history| history.memory)))
}

/// Delete a session
///
/// With its history, logs and artifacts. A turn that runs is cancelled.
#[utoipa::path(
    delete, path = "/session/{id}", operation_id = "aap_v1_delete_session",
    params(("id" = String, Path, description = "The session", example = "sess_0198c0ffee"), document::IdempotencyKey),
    responses((status = 204, description = "It is gone"), Malformed, NotThere, Conflict, Guarded),
)]
async fn delete(
    State(aap): State<Aap>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    aap.delete(Version::V1, path, &headers).await
}
