//! `POST /sessions/stream`: begins a turn, takes one up with an answer to its form, or puts one into the queue. It does
//! not stream; it tells where the stream is.

use axum::{
    Json,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use everturn_core::{
    Block, Content, Message, SessionId, TenantId,
    submission::{OnBusy, Submission},
};
use everturn_engine::{Reply, SessionUpdate, Started, Submit, SubmitError, Target};
use everturn_http::{Object, Scope, document, identify, parse_json, read_body, submission_key};
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde_json::json;

use crate::{
    answers::{Always, NotSpawned, Posted},
    code::Code,
    error::{ApiError, Thing},
    routes::Api,
    spawn_request::{Said, Spawn, SpawnBody, SpawnIn, in_words},
};

/// Send a message
///
/// Begins a turn, takes one up with an answer to its form, or puts one into the queue. It does not stream: it tells where
/// the stream is.
#[utoipa::path(
    post, path = "/sessions/stream", operation_id = "native_send_message",
    params(document::IdempotencyKey),
    request_body(content = SpawnBody, examples(
        ("A new session" = (value = json!({ "message": "Hello", "agent_id": "demo" }))),
        ("An answer to a form" = (value = json!({
            "session_id": "sess_0198c0ffee", "form_id": "form_0198c0ffee", "form_answer": { "city": "Rome" },
        }))),
    )),
    responses(
        (
            status = 202, description = "It is taken and kept",
            headers(
                ("X-Session-Id" = String, description = "The session"),
                ("X-Message-Id" = String, description = "The message"),
            ),
            body = Accepted<'_>,
            example = json!({
                "session_id": "sess_0198c0ffee", "message_id": "turn_0198c0ffee", "kind": "new_turn",
            }),
        ),
        Always, Posted, NotSpawned,
    ),
)]
pub(crate) async fn spawn(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let body = read_body(&headers, body, api.limits, &api.engine.memory_of(&caller.tenant)).await?;
    let Object(request): Object<SpawnIn> = parse_json(&body, api.limits)?;
    let key = submission_key(&headers, "POST /api/v1/sessions/stream", &body)?;
    let Spawn { session, agent, said, on_busy, options, tools, model_options } = request.try_into()?;
    let (tenant, account) = (caller.tenant, caller.account);
    let target = api.target(&tenant, session.clone(), agent).await?;
    let update = SessionUpdate {
        agent_tools: session.is_none() || tools.is_some(),
        titled: true,
        tools,
        options,
        ..SessionUpdate::default()
    };
    let nothing = Submission::Begin(Vec::new());
    let mut submit = Submit {
        tenant,
        account,
        target,
        update,
        submission: nothing,
        reply: None,
        on_busy,
        begins_history: false,
        request: None,
        options: model_options,
        options_of_answers: false,
        key,
    };
    match said {
        Said::Message { text, documents } => {
            let input = match api.user_message(&submit.tenant, text.as_deref(), &documents).await {
                Ok(message) => message,
                Err(error) => return api.repetition(submit, error, session.as_ref()).await,
            };
            submit.submission = Submission::Begin(vec![input]);
            // A plain message may be the answer that the session waits for.
            if let (Some(_), Some(text), []) = (&session, text, documents.as_slice()) {
                submit.reply = Some(Reply { form: None, value: in_words(&text)? });
            }
        }
        Said::Answer { form, value } => {
            submit.reply = Some(Reply { form, value });
            // What is no answer is refused: it is not to begin a turn, whatever the session does.
            submit.on_busy = OnBusy::Reject;
        }
    }
    let tenant = submit.tenant.clone();
    match api.engine.submit(submit).await {
        Ok(started) => Ok(accepted(&started)),
        Err(error) => Err(api.told(&tenant, error, session.as_ref()).await),
    }
}

impl Api {
    /// The session that a spawn goes to. The agent of one that exists can be named, not changed.
    async fn target(
        &self,
        tenant: &TenantId,
        session: Option<SessionId>,
        agent: Option<String>,
    ) -> Result<Target, ApiError> {
        let default = || self.engine.agents().first().map(|agent| agent.name.clone());
        match (session, agent) {
            (None, agent) => {
                let agent = agent.or_else(default);
                let agent = agent.ok_or_else(|| ApiError::new(Code::AgentNotFound, "this server has no agents"))?;
                Ok(Target::New { agent })
            }
            (Some(session), None) => Ok(Target::Existing(session)),
            (Some(session), Some(agent)) => {
                let config = self.engine.session_config(tenant, &session).await?;
                let config = config.ok_or_else(|| ApiError::no(Thing::Session, session.as_str()))?;
                if config.agent != agent {
                    let (own, agent) = (&config.agent, agent.chars().take(128).collect::<String>());
                    let message =
                        format!("agent_id: the session's agent is {own:?} and cannot be changed to {agent:?}");
                    return Err(ApiError::invalid(message).hint("leave agent_id out, or begin a new session"));
                }
                Ok(Target::Existing(session))
            }
        }
    }

    async fn user_message(
        &self,
        tenant: &TenantId,
        text: Option<&str>,
        documents: &[String],
    ) -> Result<Message, SubmitError> {
        let content = match text {
            Some(text) if documents.is_empty() => Content::Text(text.to_owned()),
            text => {
                let mut blocks = self.engine.document_blocks(tenant, documents).await?;
                blocks.extend(text.map(|text| Block::Text(text.to_owned())));
                Content::Blocks(blocks)
            }
        };
        Ok(Message::User { content })
    }

    /// A request that was accepted once is answered so again, also if one of its documents was deleted since. One that was
    /// not has no effect: it says nothing.
    async fn repetition(
        &self,
        submit: Submit,
        error: SubmitError,
        session: Option<&SessionId>,
    ) -> Result<Response, ApiError> {
        if submit.key.is_some() {
            match self.engine.submit(submit).await {
                Ok(started) => return Ok(accepted(&started)),
                Err(reused @ SubmitError::KeyReused { .. }) => return Err(ApiError::submit(reused, session)),
                Err(_) => {}
            }
        }
        Err(ApiError::submit(error, session))
    }

    /// Tells a form that is not open from one that never was.
    async fn told(&self, tenant: &TenantId, error: SubmitError, session: Option<&SessionId>) -> ApiError {
        if let SubmitError::FormClosed { form } = &error {
            match self.engine.form(tenant, form).await {
                Ok(Some(_)) => {}
                Ok(None) => return ApiError::no(Thing::Form, form.as_str()),
                Err(error) => return error.into(),
            }
        }
        ApiError::submit(error, session)
    }
}

/// Where the stream is.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Accepted)]
pub(crate) struct Accepted<'a> {
    session_id: &'a str,
    message_id: &'a str,
    #[schema(schema_with = kinds)]
    kind: &'static str,
}

fn kinds() -> document::AnySchema {
    document::schema(json!({ "type": "string", "enum": ["new_turn", "form_answer", "queued"] }))
}

/// The answer to a submission that was accepted.
pub(crate) fn accepted(started: &Started) -> Response {
    let (session_id, message_id) = (started.session.as_str(), started.turn.as_str());
    let kind = match (started.is_queued(), started.is_resumed()) {
        (true, _) => "queued",
        (false, true) => "form_answer",
        (false, false) => "new_turn",
    };
    let body = Json(Accepted { session_id, message_id, kind });
    identify((StatusCode::ACCEPTED, body).into_response(), &started.session, &started.turn)
}
