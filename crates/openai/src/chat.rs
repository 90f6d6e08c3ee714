//! `POST /chat/completions`: begins a turn, or goes on with one, and shows what comes of it.

use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use everturn_core::{
    Content, Json as RawJson, Message, SessionId, WaitingFor,
    submission::{OnBusy, Submission},
};
use everturn_engine::{Agent, SessionUpdate, Started, SubmissionKey, Submit, SubmitError, Target};
use everturn_http::{
    Caller, Object, Patience, Scope, document::IdempotencyKey, identify, impatient_event_stream, parse_json, read_body,
    submission_key,
};
use everturn_store::{SessionRecord, TurnStatus};
use http::HeaderMap;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::{
    answer::LegAnswer,
    attempts::Attempt,
    content::check_images,
    delivery::until_delivered,
    description::{ChatErrors, ChatSchema, ChunkEvents, CompletionSchema},
    error::ApiError,
    follow_up::{Waiting, missing_results},
    messages::{Conversation, News, ToolResult, check_history},
    models::no_model,
    parameters::Parameters,
    projection::projection,
    request::ChatIn,
    routes::Api,
    waiting,
};

/// What the command is called, for keys.
const OPERATION: &str = "POST /v1/chat/completions";
/// The note on sessions that were made here.
const NOTE: &str = "openai";
/// A short answer in chunks.
const STREAM: &str = r#"id: 1
data: {"id":"chatcmpl-0197f2ab00007abc8def000000000001","object":"chat.completion.chunk","created":1790000000,"model":"assistant","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"session_id":"sess_0197f2ab00007abc8def000000000000","message_id":"turn_0197f2ab00007abc8def000000000001"}

id: 3
data: {"id":"chatcmpl-0197f2ab00007abc8def000000000001","object":"chat.completion.chunk","created":1790000000,"model":"assistant","choices":[{"index":0,"delta":{"content":"42"},"logprobs":null,"finish_reason":null}]}

id: 5.1
data: {"id":"chatcmpl-0197f2ab00007abc8def000000000001","object":"chat.completion.chunk","created":1790000000,"model":"assistant","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"session_id":"sess_0197f2ab00007abc8def000000000000","message_id":"turn_0197f2ab00007abc8def000000000001"}

id: 5.3
data: [DONE]

"#;
/// Longest name of an agent that is looked for.
const MAX_NAME: usize = 256;

/// Ask an agent
///
/// Without `session_id` the request is whole in itself: the messages are a new session's history, and the last one drives
/// the turn. With it only what is new is taken: the last user message, or the results of tool calls. `tools` run in the
/// application: a call comes back with `finish_reason` `tool_calls`, and the same request with its results, sent with or
/// without `session_id`, goes on with the very turn that waits for them. The turn runs to its end whatever becomes of the
/// connection; `X-Session-Id` and `X-Message-Id` say where it can be read.
#[utoipa::path(
    post, path = "/chat/completions", operation_id = "openai_chat",
    params(IdempotencyKey),
    request_body(content = ChatSchema, example = json!({
        "model": "assistant", "messages": [{ "role": "user", "content": "What is 6 * 7?" }],
    })),
    responses(
        (status = 200, description = "The answer: in one piece, or in chunks if `stream` is set", content(
            (CompletionSchema = "application/json", example = json!({
                "id": "chatcmpl-0197f2ab00007abc8def000000000001", "object": "chat.completion", "created": 1_790_000_000,
                "model": "assistant",
                "choices": [{
                    "index": 0, "message": { "role": "assistant", "content": "42", "refusal": null }, "logprobs": null,
                    "finish_reason": "stop",
                }],
                "usage": { "prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 13 },
                "session_id": "sess_0197f2ab00007abc8def000000000000",
                "message_id": "turn_0197f2ab00007abc8def000000000001",
            })),
            (inline(ChunkEvents) = "text/event-stream", example = json!(STREAM)),
        ), headers(
            ("X-Session-Id" = String, description = "The session"),
            ("X-Message-Id" = String, description = "The turn"),
        )),
        ChatErrors,
    ),
)]
pub(crate) async fn create(State(api): State<Api>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let body = read_body(&headers, body, api.limits, &api.engine.memory_of(&caller.tenant)).await?;
    let Object(mut request): Object<ChatIn> = parse_json(&body, api.limits)?;
    let parameters = Parameters::of(&mut request)?;
    let mut conversation = Conversation::of(request.messages, api.limits.depth)?;
    if conversation.goes_on && request.session_id.is_some() {
        let message =
            "it brings nothing new to its session; end it with a message of the user's, or with results of tool calls";
        return Err(ApiError::invalid("messages", message));
    }
    api.keep_files(&caller, &mut conversation).await?;
    let key = submission_key(&headers, OPERATION, &body)?;
    let attempt = match key {
        Some(_) => None,
        None => api.attempts.begin(&api.engine, &caller, &headers, &body).await?,
    };
    let key = key.or_else(|| attempt.as_ref().map(|attempt| attempt.key(OPERATION, &body)));
    let asked = Asked { caller, model: request.model, parameters, key };
    match Box::pin(api.start(&asked, request.session_id.as_deref(), conversation)).await {
        Ok(running) => {
            // The turn has what it said, and may take long.
            drop(body);
            Ok(api.answer(&running, &asked.parameters, attempt).await)
        }
        Err(refused) => {
            // Of one whose outcome a failing store left unknown, the next attempt will find what became of it.
            if let Some(mut attempt) = attempt.filter(|_| !refused.status.is_server_error()) {
                attempt.forget();
            }
            Err(refused)
        }
    }
}

/// Who asks for what, besides what is said.
pub(crate) struct Asked {
    pub(crate) caller: Caller,
    model: Option<String>,
    parameters: Parameters,
    key: Option<SubmissionKey>,
}

/// A turn under way.
pub(crate) struct Running {
    pub(crate) started: Started,
    pub(crate) agent: Arc<Agent>,
}

impl Api {
    async fn start(
        &self,
        asked: &Asked,
        session: Option<&str>,
        mut conversation: Conversation,
    ) -> Result<Running, ApiError> {
        if let Some(name) = session {
            let session: SessionId = name.parse().map_err(|_| ApiError::no_session(name))?;
            let record = self.engine.session(&asked.caller.tenant, &session).await?;
            let record = record.ok_or_else(|| ApiError::no_session(name))?;
            return self.start_in(asked, record, conversation).await;
        }
        let system = conversation.system();
        if let News::Results(results) = &mut conversation.news
            && let Some(waiting) = self.find_waiting(&asked.caller, results).await?
            && self.is_for_agent_of(asked, &waiting).await?
            && let Some(running) = self.go_on(asked, &waiting, results, system.as_deref()).await?
        {
            return Ok(running);
        }
        self.start_anew(asked, conversation).await
    }

    /// A new session, of all that was said.
    async fn start_anew(&self, asked: &Asked, mut conversation: Conversation) -> Result<Running, ApiError> {
        check_history(&conversation.messages)?;
        let missing = conversation.missing();
        if !missing.is_empty() {
            return Err(missing_results(&missing));
        }
        self.restore_reasoning(&asked.caller, &mut conversation).await?;
        let agent = self.agent_of_model(asked).await?;
        check_images(contents(&conversation.messages), &agent)?;
        let Parameters { tools, .. } = &asked.parameters;
        let update = SessionUpdate {
            agent_tools: true,
            client_tools: Some(tools.clone()),
            overlay: Some(asked.parameters.overlay(None, agent.max_steps, 0)),
            notes: [(NOTE.to_owned(), note(&conversation.system().unwrap_or_default()))].into(),
            ..SessionUpdate::default()
        };
        let target = Target::New { agent: agent.name.clone() };
        let submission = Submission::Begin(conversation.messages);
        let submit = submit(asked, target, update, submission, asked.key.clone());
        let started = self.engine.submit(submit).await.map_err(|error| ApiError::submit(error, None))?;
        Ok(Running { started, agent })
    }

    /// What is new, in a session that is there.
    async fn start_in(
        &self,
        asked: &Asked,
        record: SessionRecord,
        conversation: Conversation,
    ) -> Result<Running, ApiError> {
        let (content, results) = match conversation.news {
            News::Results(mut results) => {
                let waiting = self.waiting_in(&asked.caller, record, &mut results).await?;
                let over = "the turn that these results are for is over, and the session has gone on without them; send a \
                            user message instead";
                let running = self.go_on(asked, &waiting, &results, None).await?;
                return running.ok_or_else(|| ApiError::conflict("turn_superseded", over).about("messages").for_good());
            }
            News::Said(content, results) => (content, results),
        };
        check_unused(&record, &results)?;
        let agent = self.agent_of(asked, &record).await?;
        check_images([&content], &agent)?;
        let target = Target::Existing(record.id.clone());
        let update = update(asked, &record, &agent, 0, None);
        let submission = Submission::Begin(vec![Message::User { content }]);
        let submit = submit(asked, target, update, submission, asked.key.clone());
        let started = self.engine.submit(submit).await.map_err(|error| ApiError::submit(error, Some(&record.id)))?;
        Ok(Running { started, agent })
    }

    /// The agent that `model` names, by its own name or one that is mapped to it; without a name, the first one.
    async fn agent_of_model(&self, asked: &Asked) -> Result<Arc<Agent>, ApiError> {
        if let Some(agent) = self.agent_named(asked).await? {
            return Ok(agent);
        }
        let agents = self.engine.agents().all();
        let name = match asked.model.as_deref().filter(|name| !name.is_empty()) {
            None => agents.first().map(|agent| agent.name.clone()).unwrap_or_default(),
            Some(name) => match self.mapped(name) {
                Some(agent) => agent.to_owned(),
                None => return Err(no_model(name, self.engine.agents().names())),
            },
        };
        let found = self.engine.agent_for_new(&asked.caller.tenant, &name).await;
        found.map_err(|error| ApiError::submit(error, None))
    }

    /// The agent that `model` names, if there is one.
    async fn agent_named(&self, asked: &Asked) -> Result<Option<Arc<Agent>>, ApiError> {
        let Some(name) = asked.model.as_ref().filter(|name| name.len() <= MAX_NAME) else { return Ok(None) };
        match self.engine.agent_for_new(&asked.caller.tenant, name).await {
            Ok(agent) => Ok(Some(agent)),
            Err(SubmitError::UnknownAgent { .. }) => Ok(None),
            Err(error) => Err(ApiError::submit(error, None)),
        }
    }

    /// Whether a request that is whole in itself asks the agent that waits for its results, by that name or one that is mapped to
    /// it. Another one goes on with the conversation as its client has it.
    async fn is_for_agent_of(&self, asked: &Asked, waiting: &Waiting) -> Result<bool, ApiError> {
        if asked.model.as_ref().is_none_or(String::is_empty) {
            return Ok(true);
        }
        Ok(self.agent_of_model(asked).await?.name == waiting.record.config.agent)
    }

    /// The agent of a session, as it is without what the session has instead. It can be named, not changed.
    pub(crate) async fn agent_of(&self, asked: &Asked, record: &SessionRecord) -> Result<Arc<Agent>, ApiError> {
        let name = &record.config.agent;
        let named = match self.agent_named(asked).await? {
            Some(named) => Some(named.name.clone()),
            None => asked.model.as_deref().and_then(|model| self.mapped_by_name(model)).map(str::to_owned),
        };
        if let Some(named) = named.filter(|named| named != name) {
            let message = format!("the session's agent is {name:?} and cannot be changed to {named:?}");
            return Err(ApiError::invalid("model", message));
        }
        let mut config = record.config.clone();
        config.overlay = None;
        match self.engine.agent_of_session(&asked.caller.tenant, &config).await {
            Ok(agent) => Ok(agent),
            Err(SubmitError::UnknownAgent { .. }) => {
                let message = format!("the session's agent {name:?} is not configured on this server any more");
                Err(ApiError::invalid("session_id", message))
            }
            Err(error) => Err(ApiError::submit(error, Some(&record.id))),
        }
    }

    async fn answer(&self, running: &Running, parameters: &Parameters, attempt: Option<Attempt>) -> Response {
        let started = &running.started;
        if parameters.mode.stream {
            let reader = self.engine.read_leg(started, projection(parameters.mode));
            let patience = Patience { limit: self.patience, last_words: waiting::last_words };
            return until_delivered(impatient_event_stream(reader, self.silence, patience), attempt);
        }
        let has_format = parameters.options.output.is_some();
        let response = Box::pin(self.whole_answer(running, has_format)).await;
        let response = response.unwrap_or_else(IntoResponse::into_response);
        identify(until_delivered(response, attempt), &started.session, &started.turn)
    }

    /// The answer in one piece, once the leg stops; or an error, if it waits for somebody else for too long.
    async fn whole_answer(&self, running: &Running, has_format: bool) -> Result<Response, ApiError> {
        let Running { started, agent } = running;
        let mut answer = LegAnswer::new(started, &agent.name, has_format);
        let mut events = self.engine.leg_events(started);
        while !answer.has_stopped() {
            let patience = answer.waits().then(|| Instant::now() + self.patience);
            let reading = events.each(|seq, event| answer.take(seq, event));
            let goes_on = match patience {
                None => reading.await?,
                Some(deadline) => match tokio::time::timeout_at(deadline, reading).await {
                    Ok(read) => read?,
                    Err(_elapsed) => break,
                },
            };
            if !goes_on {
                break;
            }
        }
        let shutting_down = || {
            // Whoever sent it again would begin a second turn.
            let message = "the server is shutting down; the turn goes on after its restart and can be read then, under the \
                           ids in the headers";
            ApiError::unavailable(message).for_good()
        };
        let completion = answer.completion().unwrap_or_else(|| Err(shutting_down()))?;
        Ok(Json(completion).into_response())
    }
}

/// What is noted of a session that a request has made: which system messages it began with.
fn note(system: &str) -> RawJson {
    let digest: [u8; 32] = Sha256::digest(system.as_bytes()).into();
    let digest: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    RawJson::of(&serde_json::json!({ "system": digest })).unwrap_or_else(|_| RawJson::empty_object())
}

/// The settings of a session that goes on: those of the request, where they are the session's to have. `system` is what a
/// request that is whole in itself begins with: it counts from now on.
pub(crate) fn update(
    asked: &Asked,
    record: &SessionRecord,
    agent: &Agent,
    steps_done: u32,
    system: Option<&str>,
) -> SessionUpdate {
    let (parameters, own) = (&asked.parameters, record.config.overlay.as_ref());
    let overlay = if let Some(noted) = record.config.notes.get(NOTE) {
        let mut overlay = parameters.overlay(own, agent.max_steps, steps_done);
        if let Some(system) = system {
            // Most clients say the same again.
            overlay.system = (note(system) != *noted).then(|| system.to_owned());
        }
        Some(overlay)
    } else {
        parameters.overlay_of_other(own, agent.max_steps, steps_done)
    };
    SessionUpdate { client_tools: Some(parameters.tools.clone()), overlay, ..SessionUpdate::default() }
}

/// As in other protocols where the client waits for the answer, a message takes the place of a turn that waits, and is
/// refused while one runs.
pub(crate) fn submit(
    asked: &Asked,
    target: Target,
    update: SessionUpdate,
    submission: Submission,
    key: Option<SubmissionKey>,
) -> Submit {
    Submit {
        tenant: asked.caller.tenant.clone(),
        account: Arc::clone(&asked.caller.account),
        target,
        update,
        submission,
        reply: None,
        on_busy: OnBusy::Supersede,
        begins_history: false,
        request: None,
        options: asked.parameters.options.clone(),
        // Every request is whole in itself.
        options_of_answers: true,
        key,
    }
}

/// Refuses a message that would end the very turn which waits for the results before it.
fn check_unused(record: &SessionRecord, results: &[ToolResult]) -> Result<(), ApiError> {
    let Some(TurnStatus::Waiting(wait)) = record.last_turn.as_ref().map(|turn| &turn.status) else { return Ok(()) };
    let waits = |result: &&ToolResult| {
        wait.calls.iter().any(|call| call.waiting_for == WaitingFor::Result && result.answers(&call.id))
    };
    match results.iter().find(waits) {
        Some(result) => {
            let what = "the session waits for this result; send the results first, without a user message after them, and \
                        the message when they are answered";
            Err(ApiError::invalid(format!("messages[{}]", result.index), what))
        }
        None => Ok(()),
    }
}

fn contents(messages: &[Message]) -> impl Iterator<Item = &Content> {
    messages.iter().filter_map(|message| match message {
        Message::User { content } | Message::Assistant { content } | Message::Tool { content, .. } => Some(content),
        Message::System { .. } => None,
    })
}
