//! `POST /reply`: says something to the agent and streams what comes of it.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    body::{Body, Bytes},
    extract::State,
    response::Response,
};
use everturn_core::{
    Block, Content, Message, Said, SessionId, TenantId,
    submission::{OnBusy, Submission},
};
use everturn_engine::{Reply, SessionUpdate, Started, SubmissionKey, Submit, SubmitError, Target, TurnView};
use everturn_http::{
    Caller, Object, Scope, Snapshots,
    document::{Events, IdempotencyKey},
    event_stream, frame_stream, named_submission, parse_json, read_body, submission_key,
};
use everturn_store::SessionRecord;
use http::{HeaderMap, HeaderValue, Version, header};
use serde::Deserialize;

use crate::{
    Style,
    answers::{Always, Posted, Refused},
    describe::{Event, ReleasedEvent, ReplyRequest},
    error::ApiError,
    projection::{DESCRIBED, RELEASED, snapshot},
    recipe::Wanted,
    refusal::takes_events,
    routes::Api,
    scalar::Scalar,
    wire::{MessageIn, UserSaid, Visible, history, user_message},
};

/// Largest frame that shows the whole conversation now and then, in bytes: what clients that read by network chunk get in
/// one piece.
const MAX_SNAPSHOT: usize = 60_000;
/// How long the id of a message may be, in bytes.
const MAX_MESSAGE_ID: usize = 256;
/// What cannot be the name of a session: its paths mean something else.
const RESERVED: [&str; 2] = ["import", "stream"];
/// How often a message can be taken away and sent again under its name within a day.
const MAX_CUTS: u32 = 50;

/// How `/reply` goes, for the API document.
const EXAMPLE: &str = r#"data: {"type":"Ping"}

id: 3
data: {"type":"Message","message":{"role":"assistant","content":[{"type":"text","text":"Hello"}],"created_at":"2026-03-04T10:00:00Z","id":"turn_1.a1"},"token_state":{"input_tokens":0,"output_tokens":0,"total_tokens":0,"accumulated_input_tokens":0,"accumulated_output_tokens":0,"accumulated_total_tokens":0}}

id: 7
data: {"type":"Finish","reason":"stop","token_state":{"input_tokens":12,"output_tokens":4,"total_tokens":16,"accumulated_input_tokens":12,"accumulated_output_tokens":4,"accumulated_total_tokens":16}}

"#;
/// How `/goose/reply` goes.
const RELEASED_EXAMPLE: &str = r#"data: {"type":"Ping"}

id: 3
data: {"type":"Message","message":{"id":"turn_1.a1","role":"assistant","created":1772618400,"content":[{"type":"text","text":"Hello"}],"metadata":{"userVisible":true,"agentVisible":true}},"token_state":{"inputTokens":0,"outputTokens":0,"totalTokens":0,"accumulatedInputTokens":0,"accumulatedOutputTokens":0,"accumulatedTotalTokens":0,"accumulatedCost":null}}

id: 7
data: {"type":"Finish","reason":"stop","token_state":{"inputTokens":12,"outputTokens":4,"totalTokens":16,"accumulatedInputTokens":12,"accumulatedOutputTokens":4,"accumulatedTotalTokens":16,"accumulatedCost":null}}

"#;

/// `ChatRequest`.
#[derive(Deserialize)]
struct ReplyIn {
    user_message: Option<Object<MessageIn>>,
    session_id: Option<String>,
    override_conversation: Option<Vec<Object<MessageIn>>>,
    recipe_name: Option<String>,
    recipe_version: Option<String>,
    recipe_parameters: Option<BTreeMap<String, Scalar>>,
    agent: Option<String>,
}

/// What `/reply` answers.
type DescribedStream = Events<Event>;
/// What `/goose/reply` answers.
type ReleasedStream = Events<ReleasedEvent>;

/// What `/reply` answers where nothing comes of it.
type DescribedRefusal = Refused<Event>;
/// What `/goose/reply` answers then.
type ReleasedRefusal = Refused<ReleasedEvent>;

/// Something that a client says.
pub(crate) struct Speech {
    pub(crate) said: UserSaid,
    /// The history to begin with instead of the session's.
    pub(crate) history: Option<Vec<MessageIn>>,
    pub(crate) recipe: Option<Wanted>,
    pub(crate) agent: Option<String>,
    /// The client's name for what comes of it.
    pub(crate) request: Option<String>,
    pub(crate) key: Option<SubmissionKey>,
}

/// Say something to the agent
///
/// The answer is a stream of what comes of it, and ends when the turn does. A client that goes away loses nothing: the
/// turn goes on, and the same request with the same `Idempotency-Key`, or with the same `session_id` and
/// `user_message.id`, shows it again from its beginning.
#[utoipa::path(
    post, path = "/reply", operation_id = "goose_reply",
    params(IdempotencyKey),
    request_body(content = ReplyRequest, description = "What is said, and where", example = json!({
        "user_message": {
            "role": "user", "content": [{ "type": "text", "text": "List files in current directory" }],
        },
        "session_id": "session-abc123",
    })),
    responses(
        (
            status = 200, description = "The turn, as server-sent events",
            headers(
                ("X-Session-Id" = String, description = "The session"),
                ("X-Message-Id" = String, description = "The turn"),
            ),
            content_type = "text/event-stream", body = inline(DescribedStream),
            example = json!(EXAMPLE),
        ),
        Always, Posted, DescribedRefusal,
    ),
)]
pub(crate) async fn described(
    api: State<Api>,
    version: Version,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let mut response = reply(api, headers, body, Style::Described).await?;
    // As the text has it; later versions of HTTP have no word for it.
    if version == Version::HTTP_11 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("keep-alive"));
    }
    Ok(response)
}

/// Say something to the agent
///
/// As `POST /reply`, in the shapes of released Goose.
#[utoipa::path(
    post, path = "/reply", operation_id = "goose_released_reply",
    params(IdempotencyKey),
    request_body(content = ReplyRequest, description = "What is said, and where", example = json!({
        "user_message": {
            "role": "user", "created": 1_772_618_400, "content": [{ "type": "text", "text": "What time is it?" }],
            "metadata": { "userVisible": true, "agentVisible": true },
        },
        "session_id": "20260304_1",
    })),
    responses(
        (
            status = 200, description = "The turn, as server-sent events",
            headers(
                ("X-Session-Id" = String, description = "The session"),
                ("X-Message-Id" = String, description = "The turn"),
            ),
            content_type = "text/event-stream", body = inline(ReleasedStream),
            example = json!(RELEASED_EXAMPLE),
        ),
        Always, Posted, ReleasedRefusal,
    ),
)]
pub(crate) async fn released(api: State<Api>, headers: HeaderMap, body: Body) -> Result<Response, ApiError> {
    reply(api, headers, body, Style::Released).await
}

async fn reply(State(api): State<Api>, headers: HeaderMap, body: Body, style: Style) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let limits = api.message_limits();
    let body = read_body(&headers, body, limits, &api.engine.memory_of(&caller.tenant)).await?;
    let Object(request): Object<ReplyIn> = parse_json(&body, limits)?;
    let session = request.session_id.as_deref().map(str::parse::<SessionId>).transpose();
    let session = session.map_err(|error| ApiError::invalid(format!("session_id: {error}")))?;
    if let Some(taken) = session.as_ref().filter(|session| RESERVED.contains(&session.as_str())) {
        return Err(ApiError::invalid(format!("session_id: {taken} is a path of this API; choose another name")));
    }
    let message = the_message(request.user_message)?;
    let key = submission_key(&headers, "POST /reply", &body)?;
    let key = key.or_else(|| named(session.as_ref()?, &message, &body));
    let speech = Speech {
        said: user_message(message)?,
        history: request.override_conversation.map(unwrapped),
        recipe: Wanted::new(request.recipe_name, request.recipe_version, request.recipe_parameters)?,
        agent: request.agent,
        request: None,
        key,
    };
    let started = match api.speak(&caller, session.clone(), speech).await {
        Err(error) if error.is_busy() && takes_events(&headers, style) => {
            return api.busy_events(&caller, session.as_ref(), style, &error).await;
        }
        result => result?,
    };
    Ok(match style {
        Style::Described => {
            let snapshots = Snapshots { every: api.snapshot, show: shown };
            frame_stream(api.engine.read_leg(&started, &DESCRIBED), api.ping, snapshots)
        }
        Style::Released => event_stream(api.engine.read_leg(&started, &RELEASED), api.ping),
    })
}

fn shown(view: &TurnView, said: &[Said]) -> Option<Bytes> {
    Some(snapshot(&view.standing, said)).filter(|frame| frame.len() <= MAX_SNAPSHOT)
}

pub(crate) fn the_message(message: Option<Object<MessageIn>>) -> Result<MessageIn, ApiError> {
    let Object(message) = message.ok_or_else(|| ApiError::invalid("user_message is missing"))?;
    if message.id.as_ref().is_some_and(|id| id.is_empty() || id.len() > MAX_MESSAGE_ID) {
        return Err(ApiError::invalid(format!("user_message.id: a message's id has 1 to {MAX_MESSAGE_ID} bytes")));
    }
    Ok(message)
}

pub(crate) fn unwrapped(messages: Vec<Object<MessageIn>>) -> Vec<MessageIn> {
    messages.into_iter().map(|Object(message)| message).collect()
}

/// A message that has a name is taken once under it, within its session. One that begins a session is the first there: two
/// people may well have the same name for it.
fn named(session: &SessionId, message: &MessageIn, body: &[u8]) -> Option<SubmissionKey> {
    let id = message.id.as_ref()?;
    let key = format!("goose:{session}:{id}");
    Some(named_submission(key, "POST /reply", body))
}

impl Api {
    /// Says something in a session, which is made if it is not there; in a new one if none is named.
    pub(crate) async fn speak(
        &self,
        caller: &Caller,
        session: Option<SessionId>,
        speech: Speech,
    ) -> Result<Started, ApiError> {
        let message = match speech.said {
            UserSaid::Message(message) => message,
            UserSaid::Answer { form, value } => {
                let Ok(form) = form.parse() else { return Err(no_form(&form)) };
                let session = session.ok_or_else(|| ApiError::invalid("session_id is missing"))?;
                let reply = Reply { form: Some(form), value };
                let submit = Submit::reply(
                    caller.tenant.clone(),
                    Arc::clone(&caller.account),
                    session.clone(),
                    reply,
                    speech.key,
                );
                return self.submit(submit, Some(&session)).await;
            }
        };
        let known = match &session {
            Some(session) => self.engine.session(&caller.tenant, session).await?,
            None => None,
        };
        let agent = self.agent_named(known.as_ref(), speech.agent)?;
        if has_image(&message) {
            self.check_images(caller, known.as_ref(), &agent).await?;
        }
        let mut update = match &known {
            Some(_) => SessionUpdate::default(),
            None => SessionUpdate { agent_tools: true, titled: true, ..SessionUpdate::default() },
        };
        self.take_recipe(caller, &agent, known.as_ref(), speech.recipe, &mut update).await?;
        if let Some(known) = &known {
            let choices = self.choices(known).await?;
            self.take_choices(known, &choices, &mut update).await?;
        }
        let begins_history = speech.history.is_some();
        let mut messages = Vec::new();
        if let Some(given) = speech.history {
            // Whoever may replace what was said may put words into anybody's mouth.
            caller.require(Scope::Admin)?;
            let given = history("override_conversation", given, Visible::ToAgents)?;
            messages.extend(given.into_iter().map(|(_, message)| message));
        }
        messages.push(message);
        let submit = Submit {
            tenant: caller.tenant.clone(),
            account: Arc::clone(&caller.account),
            target: match session.clone() {
                Some(session) => Target::Named { session, agent },
                None => Target::New { agent },
            },
            update,
            submission: Submission::Begin(messages),
            reply: None,
            on_busy: OnBusy::Supersede,
            begins_history,
            request: speech.request,
            options: everturn_core::ModelOptions::default(),
            options_of_answers: false,
            key: speech.key,
        };
        self.submit(submit, session.as_ref()).await
    }

    async fn submit(&self, mut submit: Submit, session: Option<&SessionId>) -> Result<Started, ApiError> {
        let tenant = submit.tenant.clone();
        if let Some(key) = &mut submit.key {
            self.free_name(&tenant, key).await?;
        }
        match self.engine.submit(submit).await {
            Ok(started) => Ok(started),
            Err(SubmitError::FormClosed { form }) if self.engine.form(&tenant, &form).await?.is_none() => {
                Err(no_form(form.as_str()))
            }
            Err(error) => Err(ApiError::submit(error, session)),
        }
    }

    /// Whoever cuts a conversation before a message and sends it again, changed or not, under the name that it had, means
    /// another one: the turn of the first is not there any more.
    async fn free_name(&self, tenant: &TenantId, key: &mut SubmissionKey) -> Result<(), ApiError> {
        let name = key.key.clone();
        for again in 2..=MAX_CUTS {
            if !self.engine.was_taken_away(tenant, &key.key).await? {
                return Ok(());
            }
            key.key = format!("{name}~{again}");
        }
        Ok(())
    }

    /// The agent of a session, or the one that a new session is to have.
    fn agent_named(&self, known: Option<&SessionRecord>, wanted: Option<String>) -> Result<String, ApiError> {
        match (known, wanted) {
            (None, Some(agent)) => Ok(agent),
            (None, None) => self.default_agent(),
            (Some(known), wanted) => {
                let own = &known.config.agent;
                match wanted.filter(|wanted| wanted != own) {
                    Some(_) => Err(ApiError::conflict(format!("agent: a session keeps its agent, which is {own:?}"))),
                    None => Ok(own.clone()),
                }
            }
        }
    }

    async fn check_images(&self, caller: &Caller, known: Option<&SessionRecord>, agent: &str) -> Result<(), ApiError> {
        let found = match known {
            Some(known) => self.engine.agent_of_session(&caller.tenant, &known.config).await,
            None => self.engine.agent_for_new(&caller.tenant, agent).await,
        };
        let found = found.map_err(|error| ApiError::submit(error, None))?;
        if found.capabilities.image_data {
            return Ok(());
        }
        Err(ApiError::invalid(format!("user_message.content: agent {agent:?} takes no images")))
    }
}

fn no_form(form: &str) -> ApiError {
    let shown: String = form.chars().take(128).collect();
    ApiError::not_found(format!("there is no request {shown:?} to answer; GET /api/v1/forms lists those that are open"))
}

fn has_image(message: &Message) -> bool {
    let content = match message {
        Message::User { content } | Message::Assistant { content } | Message::Tool { content, .. } => content,
        Message::System { .. } => return false,
    };
    match content {
        Content::Text(_) => false,
        Content::Blocks(blocks) => blocks.iter().any(|block| matches!(block, Block::Image { .. })),
    }
}
