//! Turns, behind the doors of every version.

use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    extract::{Path, rejection::PathRejection},
    response::{IntoResponse, Response},
};
use everturn_core::{
    SessionId, ToolSpec,
    submission::{OnBusy, Submission},
};
use everturn_engine::{Agent, SessionUpdate, Started, SubmissionKey, Submit, SubmitError, Target};
use everturn_http::{Caller, Object, Scope, event_stream, identify, parse_json, read_body, submission_key};
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use crate::{
    answer::{CreatedResponse, LegAnswer},
    error::ApiError,
    projection,
    request::{self, Mode},
    routes::Aap,
    version::Version,
    wire::{AgentIn, TurnIn},
};

/// Whether the request made the session, which its answer then names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Created {
    Yes,
    No,
}

/// A text that cannot be an id, or is no text at all, is the id of no session.
pub(crate) fn session_id(path: Result<Path<String>, PathRejection>) -> Result<SessionId, ApiError> {
    let Path(id) = path.map_err(|_| ApiError::no_session("\u{fffd}"))?;
    id.parse().map_err(|_| ApiError::no_session(&id))
}

/// In this protocol a message takes the place of a turn that waits, and is refused while one runs.
pub(crate) fn submit(
    caller: Caller,
    target: Target,
    update: SessionUpdate,
    submission: Submission,
    key: Option<SubmissionKey>,
) -> Submit {
    let Caller { tenant, account, .. } = caller;
    let (on_busy, begins_history, request) = (OnBusy::Supersede, false, None);
    let options = everturn_core::ModelOptions::default();
    Submit {
        tenant,
        account,
        target,
        update,
        submission,
        reply: None,
        on_busy,
        begins_history,
        request,
        options,
        options_of_answers: false,
        key,
    }
}

impl Aap {
    pub(crate) fn caller(&self, headers: &HeaderMap, scope: Scope) -> Result<Caller, ApiError> {
        let caller = self.keys.caller(headers)?;
        caller.require(scope)?;
        Ok(caller)
    }

    /// Runs a turn, or takes up the one that waits. `T` is a tool in the version's words.
    pub(crate) async fn turn<T: DeserializeOwned + Into<ToolSpec>>(
        &self,
        version: Version,
        path: Result<Path<String>, PathRejection>,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Response, ApiError> {
        let caller = self.caller(headers, Scope::Chat)?;
        let body = read_body(headers, body, self.limits, &self.engine.memory_of(&caller.tenant)).await?;
        let Object(request): Object<TurnIn<T>> = parse_json(&body, self.limits)?;
        let session = session_id(path)?;
        let key = submission_key(headers, &version.turn(&session), &body)?;
        let agent = self.agent_of(&caller, &session).await?;
        let overrides = request.agent.unwrap_or_default();
        if let Some(name) = overrides.name.as_ref().filter(|name| **name != agent.name) {
            let message = format!("the agent of a session cannot be changed (it is {:?}, not {name:?})", agent.name);
            return Err(ApiError::bad_request(message));
        }
        let mode = request::mode(request.stream.as_deref(), &agent)?;
        let submission = request::turn(request.messages, &agent)?;
        let update = request::update(overrides, request.tools);
        let submit = submit(caller, Target::Existing(session.clone()), update, submission, key);
        let started = self.engine.submit(submit).await.map_err(|error| ApiError::submit(error, Some(&session)))?;
        // The turn has what it said, and may take long.
        drop(body);
        self.answer(&started, mode, Created::No, version).await
    }

    /// The agent that a new session shall have, and its name.
    pub(crate) async fn agent_for_new(
        &self,
        caller: &Caller,
        wanted: &AgentIn,
    ) -> Result<(String, Arc<Agent>), ApiError> {
        let name = wanted.name.clone().ok_or_else(|| ApiError::bad_request("agent.name is missing"))?;
        let agent = self.engine.agent_for_new(&caller.tenant, &name).await;
        Ok((name, agent.map_err(|error| ApiError::submit(error, None))?))
    }

    async fn agent_of(&self, caller: &Caller, session: &SessionId) -> Result<Arc<Agent>, ApiError> {
        let config = self.engine.session_config(&caller.tenant, session).await?;
        let config = config.ok_or_else(|| ApiError::no_session(session.as_str()))?;
        let name = &config.agent;
        match self.engine.agent_of_session(&caller.tenant, &config).await {
            Ok(agent) => Ok(agent),
            Err(SubmitError::UnknownAgent { .. }) => Err(ApiError::bad_request(format!(
                "the session's agent {name:?} is not configured on this server any more"
            ))),
            Err(error) => Err(ApiError::submit(error, Some(session))),
        }
    }

    /// What a client gets of the leg that its request began.
    pub(crate) async fn answer(
        &self,
        started: &Started,
        mode: Mode,
        created: Created,
        version: Version,
    ) -> Result<Response, ApiError> {
        Ok(match mode {
            Mode::Delta => event_stream(self.engine.read_leg(started, &projection::DELTA), self.silence),
            Mode::Message => event_stream(self.engine.read_leg(started, &projection::MESSAGE), self.silence),
            Mode::None => {
                let mut answer = LegAnswer::default();
                self.engine.leg_events(started).each(|_, event| answer.take(event)).await?;
                let response = match (answer.response(), created) {
                    (Some(response), Created::Yes) => {
                        let session_id = started.session.as_str();
                        (StatusCode::CREATED, Json(CreatedResponse { session_id, response })).into_response()
                    }
                    (Some(response), Created::No) => Json(response).into_response(),
                    (None, _) => ApiError::unavailable(format!(
                        "the server is shutting down; the turn goes on after its restart, read it at {}",
                        version.history(&started.session)
                    ))
                    .into_response(),
                };
                identify(response, &started.session, &started.turn)
            }
        })
    }
}
