//! The doors of version 3. Sessions are made without a turn, so that no event needs to name them.

use axum::{
    Json,
    body::Body,
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    response::{IntoResponse, Response},
};
use everturn_core::{Content, Event, Message, SessionId, Timestamp, context, submission::Submission};
use everturn_engine::{Flow, ImportedTurn, NewConversation, Target};
use everturn_http::{
    Object, SESSION_ID, Scope,
    document::{self, Events},
    held, parse_json, read_body, submission_key,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    answer,
    error::ApiError,
    listing::ListQuery,
    meta::{MetaOut, offers},
    refusals::{BodyRefused, Conflict, Guarded, Malformed, NotThere, Public},
    request,
    routes::Aap,
    session::{HistoryOut, SessionOut, Wanted},
    turn,
    version::Version,
    wire::{
        EventV3, NewIn, TurnIn,
        tool::{V3In, V3Out},
    },
};

type Stream = Events<EventV3>;
type Session<'a> = SessionOut<'a, V3Out<'a>>;

pub(crate) fn routes() -> OpenApiRouter<Aap> {
    OpenApiRouter::default()
        .routes(routes!(show_meta))
        .routes(routes!(list, create))
        .routes(routes!(show, delete))
        .routes(routes!(history))
        .routes(routes!(turn))
}

/// Tell what there is
///
/// The agents with their tools, options and capabilities. Needs no key; with one it tells why tool servers are not there.
#[utoipa::path(
    get, path = "/meta", operation_id = "aap_v3_meta", security(()),
    responses(
        (
        status = 200, description = "The agents", body = MetaOut<'_, V3Out<'_>>,
        example = json!({
            "version": 3,
            "agents": [{
                "name": "assistant", "version": "1.0.0",
                "tools": [{ "name": "clock", "description": "Tells the time", "parameters": { "type": "object" } }],
                "capabilities": { "history": { "full": {} }, "stream": { "delta": {}, "none": {} } }
            }]
        }),
    ), Public),
)]
async fn show_meta(State(aap): State<Aap>, headers: HeaderMap) -> Result<Response, ApiError> {
    aap.keys.check_host(&headers)?;
    let offers = offers(&aap.engine, aap.keys.knows(&headers));
    Ok(Json(MetaOut::<V3Out<'_>>::new(Version::V3, &offers)).into_response())
}

/// Sessions.
#[derive(Serialize, ToSchema)]
#[schema(as = aap::v3::Sessions)]
struct SessionsOut<'a> {
    /// The sessions, newest first.
    sessions: Vec<SessionOut<'a, V3Out<'a>>>,
    /// Where the next page begins; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next: Option<String>,
}

/// List sessions
///
/// Your sessions, newest first, up to 100 a page; fewer where they have many tools.
#[utoipa::path(
    get, path = "/sessions", operation_id = "aap_v3_list_sessions",
    params(("after" = Option<String>, Query, pattern = "^(p[0-9a-f]{1,16})?$", example = "p2a",
        description = "Where the page begins: `next` of the page before. Without it, or if it is empty, the first page")),
    responses(
        (
            status = 200, description = "A page", body = SessionsOut<'_>,
            example = json!({
                "sessions": [{
                    "sessionId": "sess_0198c0de0000700080000000000000aa",
                    "agent": { "name": "demo", "tools": [{ "name": "clock", "trust": true }] }
                }],
                "next": "p2a"
            }),
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
    let mut page = aap.page(&caller, query).await?;
    page.shorten();
    let mut sessions = Vec::with_capacity(page.rows.len());
    for row in &page.rows {
        let config = &row.session.config;
        let agent = aap.agent(&caller, config).await;
        sessions.push(Session::new(&row.session, aap.enabled(agent.as_deref(), config)));
    }
    Ok(Json(SessionsOut { sessions, next: page.next() }).into_response())
}

/// A session that was made.
#[derive(Serialize, ToSchema)]
#[schema(as = aap::v3::Created)]
#[serde(rename_all = "camelCase")]
struct CreatedOut<'a> {
    /// Its id.
    session_id: &'a str,
}

/// Create a session
///
/// Nothing runs in it yet; it may begin with messages of an earlier conversation. If these end in calls of the
/// application's tools that have no result, the session waits for them.
#[utoipa::path(
    post, path = "/sessions", operation_id = "aap_v3_create_session",
    params(document::IdempotencyKey),
    request_body(content = NewIn, example = json!({
        "agent": { "name": "demo", "tools": [{ "name": "clock", "trust": true }] }
    })),
    responses(
        (
            status = 201, description = "The session is there", body = CreatedOut<'_>,
            headers(("X-Session-Id" = String, description = "The session")),
            example = json!({ "sessionId": "sess_0198c0de0000700080000000000000aa" }),
        ),
        BodyRefused, Conflict, Guarded,
    ),
)]
async fn create(State(aap): State<Aap>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = aap.caller(&headers, Scope::Chat)?;
    let body = read_body(&headers, body, aap.limits, &aap.engine.memory_of(&caller.tenant)).await?;
    let Object(request): Object<NewIn> = parse_json(&body, aap.limits)?;
    let key = submission_key(&headers, Version::V3.creation(), &body)?;
    let (name, agent) = aap.agent_for_new(&caller, &request.agent).await?;
    let seed = request::seed(request.messages.unwrap_or_default(), &agent)?;
    let is_client = |name: &str| request.tools.iter().flatten().any(|tool| tool.name() == name);
    let waits = context::unresolved(&seed).iter().any(|call| is_client(&call.name));
    let update = request::update(request.agent, request.tools);
    if waits {
        let target = Target::Seeded { agent: name };
        let submit = turn::submit(caller, target, update, Submission::Begin(seed), key);
        let started = aap.engine.submit(submit).await.map_err(|error| ApiError::submit(error, None))?;
        // The calls can be answered once this is told.
        let rests = |_, event| if matches!(event, Event::Waiting(_)) { Flow::Close } else { Flow::Continue };
        aap.engine.leg_events(&started).each(rests).await?;
        return Ok(created(&started.session));
    }
    // A call that is shown without a result waits for the client. Nobody answers those of the server's tools.
    let over = context::unresolved(&seed).into_iter().map(|call| Message::Tool {
        call_id: call.id.clone(),
        content: Content::Text(context::INTERRUPTED.to_owned()),
        is_error: true,
    });
    let over: Vec<Message> = over.collect();
    let told = (!seed.is_empty())
        .then(|| ImportedTurn { messages: seed.into_iter().chain(over).collect(), at: Timestamp::now() });
    let turns = told.into_iter().collect();
    let new = NewConversation { agent: name, id: None, title: None, update, turns };
    let made = aap.engine.create_session(&caller.tenant, new, key).await;
    let made = made.map_err(|error| ApiError::submit(error, None))?;
    Ok(created(&made.id))
}

fn created(session: &SessionId) -> Response {
    let created = CreatedOut { session_id: session.as_str() };
    let mut response = (StatusCode::CREATED, Json(created)).into_response();
    // Ids are made of characters that headers take.
    if let Ok(id) = HeaderValue::from_str(session.as_str()) {
        response.headers_mut().insert(SESSION_ID, id);
    }
    response
}

/// Show a session
///
/// Its settings; secrets are shown as `***`.
#[utoipa::path(
    get, path = "/sessions/{id}", operation_id = "aap_v3_show_session",
    params(("id" = String, Path, description = "The session", example = "sess_0198c0ffee")),
    responses(
        (
            status = 200, description = "The session", body = SessionOut<'_, V3Out<'_>>,
            example = json!({
                "sessionId": "sess_0198c0de0000700080000000000000aa",
                "agent": { "name": "demo", "tools": [{ "name": "clock", "trust": true }] }
            }),
        ),
        NotThere, Guarded,
    ),
)]
async fn show(
    State(aap): State<Aap>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let caller = aap.caller(&headers, Scope::Read)?;
    let record = aap.record(&caller, path).await?;
    let agent = aap.agent(&caller, &record.config).await;
    Ok(Json(Session::new(&record, aap.enabled(agent.as_deref(), &record.config))).into_response())
}

#[derive(Deserialize)]
struct HistoryQuery {
    r#type: Option<String>,
}

/// What was said in a session.
#[derive(Serialize, ToSchema)]
#[schema(as = aap::v3::SessionHistory)]
struct SessionHistoryOut<'a> {
    /// The wanted history.
    history: HistoryOut<'a>,
}

/// Show a session's history
///
/// Calls without a result wait for the client. A kind that the agent does not declare is not there.
#[utoipa::path(
    get, path = "/sessions/{id}/history", operation_id = "aap_v3_show_history",
    params(
        ("id" = String, Path, description = "The session", example = "sess_0198c0ffee"),
        ("type" = String, Query, pattern = "^(compacted|full)$", example = "full",
            description = "Which history is wanted: what the model is given, or all that was said"),
    ),
    responses(
        (
            status = 200, description = "The wanted history", body = SessionHistoryOut<'_>,
            example = json!({ "history": { "full": [
                { "role": "user", "content": "What time is it?" }, { "role": "assistant", "content": "It is noon." }
            ] } }),
        ),
        Malformed, NotThere, Guarded,
    ),
)]
async fn history(
    State(aap): State<Aap>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = aap.caller(&headers, Scope::Read)?;
    let Query(query) = query.map_err(|error| ApiError::bad_request(error.body_text()))?;
    let record = aap.record(&caller, path).await?;
    let word = query.r#type.ok_or_else(|| ApiError::bad_request("type is missing; use compacted or full"))?;
    let agent = aap.agent(&caller, &record.config).await;
    let declared = agent.map(|agent| agent.capabilities).unwrap_or_default();
    let wanted = Wanted::one("type", &word, declared)?;
    if !wanted.any() {
        let message = "the session's agent does not offer this kind of history; GET /meta tells which it offers";
        return Err(ApiError::new(StatusCode::NOT_FOUND, message));
    }
    let history = aap.engine.history(&caller.tenant, &record.id).await?;
    let answer = Json(SessionHistoryOut { history: HistoryOut::new(&history, wanted) }).into_response();
    Ok(held(answer, history.memory))
}

/// Run a turn
///
/// One message of the user; or, where calls wait, a result or a permission for each of them. The answer comes in the asked
/// mode: JSON when the turn has stopped, or events as they happen. The turn goes on when the client goes away.
#[utoipa::path(
    post, path = "/sessions/{id}/turns", operation_id = "aap_v3_run_turn",
    params(("id" = String, Path, description = "The session", example = "sess_0198c0ffee"), document::IdempotencyKey),
    request_body(content = TurnIn<V3In>, example = json!({ "messages": [{ "role": "user", "content": "And in Tokyo?" }] })),
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
    aap.turn::<V3In>(Version::V3, path, &headers, body).await
}

/// Delete a session
///
/// With its history, logs and artifacts. A turn that runs is cancelled.
#[utoipa::path(
    delete, path = "/sessions/{id}", operation_id = "aap_v3_delete_session",
    params(("id" = String, Path, description = "The session", example = "sess_0198c0ffee"), document::IdempotencyKey),
    responses((status = 204, description = "It is gone"), Malformed, NotThere, Conflict, Guarded),
)]
async fn delete(
    State(aap): State<Aap>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    aap.delete(Version::V3, path, &headers).await
}
