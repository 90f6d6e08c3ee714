//! The protocol's doors.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    response::{IntoResponse, Response},
    routing::{get, put},
};
use everturn_core::{
    SessionId, TenantId,
    submission::{OnBusy, Submission},
};
use everturn_engine::{Agent, Engine, SessionUpdate, Started, SubmissionKey, Submit, SubmitError, Target};
use everturn_http::{
    BodyLimits, Caller, Keys, Object, Scope, event_stream, identify, parse_json, read_body, submission_key,
};
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::json;

use crate::{
    answer::LegAnswer,
    cursor,
    error::ApiError,
    meta::meta,
    projection,
    request::{self, Mode},
    session::{SessionOut, Wanted},
    wire::{CreateIn, TurnIn},
};

/// How many sessions a page has.
const PAGE: usize = 100;

/// What the routes need.
#[derive(Clone, Debug)]
pub struct Aap {
    /// Runs the turns.
    pub engine: Engine,
    /// Who may call.
    pub keys: Arc<Keys>,
    /// Bounds on requests.
    pub limits: BodyLimits,
    /// After so long a silence a comment keeps the connection open.
    pub silence: Duration,
}

/// The routes of version 1, to be mounted at the root and under `/aap/v1`.
pub fn routes(aap: Aap) -> Router {
    Router::new()
        .route("/meta", get(show_meta))
        .route("/sessions", get(list))
        .route("/session", put(create))
        .route("/session/{id}", get(show).post(turn).delete(delete))
        .method_not_allowed_fallback(async || {
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take that method")
        })
        .fallback(async || {
            ApiError::new(StatusCode::NOT_FOUND, "there is nothing here; GET /meta tells what this server offers")
        })
        .with_state(aap)
}

async fn show_meta(State(aap): State<Aap>, headers: HeaderMap) -> Response {
    Json(meta(&aap.engine, aap.keys.caller(&headers).is_ok())).into_response()
}

#[derive(Deserialize)]
struct ListQuery {
    after: Option<String>,
}

async fn list(
    State(aap): State<Aap>,
    headers: HeaderMap,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = aap.caller(&headers, Scope::Read)?;
    let Query(query) = query.map_err(|error| ApiError::bad_request(error.body_text()))?;
    let below = query.after.as_deref().map(cursor::decode).transpose()?;
    let mut rows = aap.engine.sessions(&caller.tenant, below, PAGE + 1).await?;
    let more = rows.len() > PAGE;
    rows.truncate(PAGE);
    let sessions: Vec<_> = rows.iter().map(|row| row.session.id.as_str()).collect();
    let mut page = json!({ "sessions": sessions });
    if let Some(last) = rows.last().filter(|_| more) {
        page["next"] = json!(cursor::encode(last.position));
    }
    Ok(Json(page).into_response())
}

async fn create(State(aap): State<Aap>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = aap.caller(&headers, Scope::Chat)?;
    let body = read_body(&headers, body, aap.limits).await?;
    let Object(request): Object<CreateIn> = parse_json(&body, aap.limits)?;
    let key = submission_key(&headers, "PUT /session", &body)?;
    let name = request.agent.name.clone().ok_or_else(|| ApiError::bad_request("agent.name is missing"))?;
    let agent = aap.engine.agent_for_new(&caller.tenant, &name).await;
    let agent = agent.map_err(|error| ApiError::submit(error, None))?;
    let mode = request::mode(request.stream.as_deref(), &agent)?;
    let submission = request::seed(request.messages, &agent)?;
    let update = request::update(request.agent, request.tools)?;
    let target = Target::New { agent: name };
    let submit = submit(caller.tenant, target, update, submission, key);
    let started = aap.engine.submit(submit).await.map_err(|error| ApiError::submit(error, None))?;
    aap.answer(&started, mode, Created::Yes).await
}

async fn turn(
    State(aap): State<Aap>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let caller = aap.caller(&headers, Scope::Chat)?;
    let body = read_body(&headers, body, aap.limits).await?;
    let Object(request): Object<TurnIn> = parse_json(&body, aap.limits)?;
    let session = session_id(path)?;
    let key = submission_key(&headers, &format!("POST /session/{session}"), &body)?;
    let agent = aap.agent_of(&caller, &session).await?;
    let overrides = request.agent.unwrap_or_default();
    if let Some(name) = overrides.name.as_ref().filter(|name| **name != agent.name) {
        let message = format!("the agent of a session cannot be changed (it is {:?}, not {name:?})", agent.name);
        return Err(ApiError::bad_request(message));
    }
    let mode = request::mode(request.stream.as_deref(), &agent)?;
    let submission: Submission = request::turn(request.messages, &agent)?;
    let update = request::update(overrides, request.tools)?;
    let target = Target::Existing(session.clone());
    let submit = submit(caller.tenant, target, update, submission, key);
    let started = aap.engine.submit(submit).await.map_err(|error| ApiError::submit(error, Some(&session)))?;
    aap.answer(&started, mode, Created::No).await
}

#[derive(Deserialize)]
struct ShowQuery {
    history: Option<String>,
}

async fn show(
    State(aap): State<Aap>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    query: Result<Query<ShowQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = aap.caller(&headers, Scope::Read)?;
    let Query(query) = query.map_err(|error| ApiError::bad_request(error.body_text()))?;
    let session = session_id(path)?;
    let record = aap.engine.session(&caller.tenant, &session).await?;
    let record = record.ok_or_else(|| ApiError::no_session(session.as_str()))?;
    // A session outlives its agent's configuration.
    let agent = aap.engine.agent_of_session(&caller.tenant, &record.config).await.ok();
    let declared = agent.as_ref().map(|agent| agent.capabilities).unwrap_or_default();
    let wanted = Wanted::new(query.history.as_deref(), declared)?;
    let history = if wanted.any() { aap.engine.history(&caller.tenant, &session).await? } else { Default::default() };
    let enabled =
        agent.map_or_else(|| record.config.tools.clone(), |agent| agent.enabled(&record.config, aap.engine.tools()));
    Ok(Json(SessionOut::new(&record, &enabled, &history, wanted)).into_response())
}

async fn delete(
    State(aap): State<Aap>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let caller = aap.caller(&headers, Scope::Chat)?;
    let session = session_id(path)?;
    let key = submission_key(&headers, &format!("DELETE /session/{session}"), b"")?;
    let deleted = aap.engine.delete(&caller.tenant, &session, key).await;
    deleted.map_err(|error| ApiError::delete(error, &session))?;
    Ok(StatusCode::NO_CONTENT)
}

/// In this protocol a message takes the place of a turn that waits, and is refused while one runs.
fn submit(
    tenant: TenantId,
    target: Target,
    update: SessionUpdate,
    submission: Submission,
    key: Option<SubmissionKey>,
) -> Submit {
    let (on_busy, begins_history, request) = (OnBusy::Supersede, false, None);
    Submit { tenant, target, update, submission, reply: None, on_busy, begins_history, request, key }
}

/// A text that cannot be an id, or is no text at all, is the id of no session.
fn session_id(path: Result<Path<String>, PathRejection>) -> Result<SessionId, ApiError> {
    let Path(id) = path.map_err(|_| ApiError::no_session("\u{fffd}"))?;
    id.parse().map_err(|_| ApiError::no_session(&id))
}

/// Whether the request made the session, which its answer then names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Created {
    Yes,
    No,
}

impl Aap {
    fn caller(&self, headers: &HeaderMap, scope: Scope) -> Result<Caller, ApiError> {
        let caller = self.keys.caller(headers)?;
        caller.require(scope)?;
        Ok(caller)
    }

    async fn agent_of(&self, caller: &Caller, session: &SessionId) -> Result<Arc<Agent>, ApiError> {
        let record = self.engine.session(&caller.tenant, session).await?;
        let record = record.ok_or_else(|| ApiError::no_session(session.as_str()))?;
        let name = &record.config.agent;
        match self.engine.agent_of_session(&caller.tenant, &record.config).await {
            Ok(agent) => Ok(agent),
            Err(SubmitError::UnknownAgent { .. }) => Err(ApiError::bad_request(format!(
                "the session's agent {name:?} is not configured on this server any more"
            ))),
            Err(error) => Err(ApiError::submit(error, Some(session))),
        }
    }

    async fn answer(&self, started: &Started, mode: Mode, created: Created) -> Result<Response, ApiError> {
        Ok(match mode {
            Mode::Delta => event_stream(self.engine.read_leg(started, &projection::DELTA), self.silence),
            Mode::Message => event_stream(self.engine.read_leg(started, &projection::MESSAGE), self.silence),
            Mode::None => {
                let mut answer = LegAnswer::default();
                self.engine.leg_events(started).each(|_, event| answer.take(event)).await?;
                let (status, id) = match created {
                    Created::Yes => (StatusCode::CREATED, Some(&started.session)),
                    Created::No => (StatusCode::OK, None),
                };
                let response = match answer.response(id) {
                    Some(response) => (status, Json(response)).into_response(),
                    None => ApiError::unavailable(format!(
                        "the server is shutting down; the turn goes on after its restart, read it at GET /session/{}",
                        started.session
                    ))
                    .into_response(),
                };
                identify(response, &started.session, &started.turn)
            }
        })
    }
}
