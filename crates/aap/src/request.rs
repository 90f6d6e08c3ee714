//! Turns requests into commands, refusing what the protocol does not allow.

use std::collections::{BTreeMap, HashSet};

use everturn_core::{
    Answer, Block, CallId, Content, Json, Message, ToolRef, ToolSpec, ToolUse, submission::Submission,
};
use everturn_engine::{Agent, Capabilities, SessionUpdate};

use crate::{
    error::ApiError,
    wire::{AgentIn, BlockIn, ContentIn, MessageIn},
};

/// How many messages one request may bring.
pub(crate) const MAX_MESSAGES: usize = 10_000;
/// How long a tool call's id may be.
pub(crate) const MAX_CALL_ID: usize = 256;

/// What a message without content is told.
const BLANK: &str = "the user message is empty; send a text, or blocks with at least one text or image";

/// How the client wants the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Delta,
    Message,
    None,
}

/// The asked mode, if the agent has it.
pub(crate) fn mode(word: Option<&str>, agent: &Agent) -> Result<Mode, ApiError> {
    let Capabilities { stream_delta, stream_message, stream_none, .. } = agent.capabilities;
    let (mode, declared) = match word {
        None | Some("none") => (Mode::None, stream_none),
        Some("delta") => (Mode::Delta, stream_delta),
        Some("message") => (Mode::Message, stream_message),
        Some(other) => {
            return Err(ApiError::bad_request(format!(
                "stream cannot be {other:?}; use \"delta\", \"message\" or \"none\""
            )));
        }
    };
    if declared {
        return Ok(mode);
    }
    let word = word.unwrap_or("none");
    Err(ApiError::bad_request(format!(
        "agent {:?} does not offer stream {word:?}; GET /meta tells what it offers",
        agent.name
    )))
}

/// The settings that a request changes. On creation, absent means none.
pub(crate) fn update<T: Into<ToolSpec>>(agent: AgentIn, tools: Option<Vec<T>>) -> SessionUpdate {
    let enabled = agent.tools.map(|tools| {
        let enabled = tools.into_iter().map(|tool| ToolRef { name: tool.name, trust: tool.trust.unwrap_or(false) });
        enabled.collect::<Vec<_>>()
    });
    let client_tools = tools.map(|tools| tools.into_iter().map(T::into).collect());
    let options: BTreeMap<_, _> = agent.options.unwrap_or_default();
    SessionUpdate { tools: enabled, client_tools, options, ..SessionUpdate::default() }
}

/// History that a new session begins with.
pub(crate) fn seed(messages: Vec<MessageIn>, agent: &Agent) -> Result<Vec<Message>, ApiError> {
    within_bounds(&messages)?;
    let mut seed = Vec::with_capacity(messages.len());
    let mut calls = HashSet::new();
    for (index, message) in messages.into_iter().enumerate() {
        let place = Place { index };
        if message.role == "tool_permission" {
            return Err(place.error("a tool_permission cannot be part of a new session's history"));
        }
        let message = place.message(message, agent)?;
        // Two calls of one id could not be told apart, by anybody.
        if let Some(call) = message.tool_uses().find(|call| !calls.insert(call.id.clone())) {
            return Err(place.error(format!("toolCallId {:?} is used by an earlier call", call.id)));
        }
        seed.push(message);
    }
    Ok(seed)
}

/// Such history whose last message, the user's, begins a turn.
pub(crate) fn seed_with_user(messages: Vec<MessageIn>, agent: &Agent) -> Result<Submission, ApiError> {
    let seed = seed(messages, agent)?;
    match seed.last() {
        Some(Message::User { content }) if is_blank(content) => Err(ApiError::bad_request(BLANK)),
        Some(Message::User { .. }) => Ok(Submission::Begin(seed)),
        Some(_) => Err(ApiError::bad_request("the last message must be from the user")),
        None => Err(ApiError::bad_request("messages is empty; send at least one user message")),
    }
}

fn within_bounds(messages: &[MessageIn]) -> Result<(), ApiError> {
    if messages.len() > MAX_MESSAGES {
        let message = format!("{} messages are too many, the limit is {MAX_MESSAGES}", messages.len());
        return Err(ApiError::bad_request(message));
    }
    Ok(())
}

/// One user message, or tool results and permissions.
pub(crate) fn turn(messages: Vec<MessageIn>, agent: &Agent) -> Result<Submission, ApiError> {
    const SHAPE: &str = "send either one user message, or a list of tool results and tool permissions";
    within_bounds(&messages)?;
    let users = messages.iter().filter(|message| message.role == "user").count();
    if messages.is_empty() || users > 1 || (users == 1 && messages.len() > 1) {
        return Err(ApiError::bad_request(SHAPE));
    }
    let mut answers = Vec::with_capacity(messages.len());
    for (index, message) in messages.into_iter().enumerate() {
        let place = Place { index };
        match message.role.as_str() {
            "user" => match place.message(message, agent)? {
                Message::User { content } if is_blank(&content) => return Err(ApiError::bad_request(BLANK)),
                message => return Ok(Submission::Begin(vec![message])),
            },
            "tool_permission" => answers.push(place.permission(message)?),
            "tool" => match place.message(message, agent)? {
                Message::Tool { call_id, content, .. } => answers.push(Answer::Result { call_id, content }),
                Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => {
                    return Err(ApiError::bad_request(SHAPE));
                }
            },
            other => return Err(place.error(format!("role {other:?} cannot be submitted to a session; {SHAPE}"))),
        }
    }
    Ok(Submission::Answers(answers))
}

/// Whether nothing is said: models take no empty messages.
fn is_blank(content: &Content) -> bool {
    match content {
        Content::Text(text) => text.is_empty(),
        Content::Blocks(blocks) => blocks.iter().all(|block| matches!(block, Block::Text(text) if text.is_empty())),
    }
}

/// Where in the request something stands, for errors.
#[derive(Clone, Copy)]
struct Place {
    index: usize,
}

impl Place {
    fn error(self, what: impl std::fmt::Display) -> ApiError {
        ApiError::bad_request(format!("messages[{}]: {what}", self.index))
    }

    fn call_id(self, id: Option<String>) -> Result<CallId, ApiError> {
        match id {
            Some(id) if id.is_empty() || id.len() > MAX_CALL_ID => {
                Err(self.error(format!("toolCallId must have 1 to {MAX_CALL_ID} bytes")))
            }
            Some(id) => Ok(CallId::new(id)),
            None => Err(self.error("toolCallId is missing")),
        }
    }

    fn permission(self, message: MessageIn) -> Result<Answer, ApiError> {
        let call_id = self.call_id(message.tool_call_id)?;
        let granted = message.granted.ok_or_else(|| self.error("granted is missing; send true or false"))?;
        Ok(Answer::Permission { call_id, granted, reason: message.reason })
    }

    fn message(self, message: MessageIn, agent: &Agent) -> Result<Message, ApiError> {
        let content = message.content.ok_or_else(|| self.error("content is missing"))?;
        Ok(match message.role.as_str() {
            "system" => match content {
                ContentIn::Text(content) => Message::System { content },
                ContentIn::Blocks(_) => return Err(self.error("the content of a system message must be a string")),
            },
            "user" => Message::User { content: self.content(content, Allowed::USER, agent)? },
            "assistant" => Message::Assistant { content: self.content(content, Allowed::ASSISTANT, agent)? },
            "tool" => {
                let call_id = self.call_id(message.tool_call_id)?;
                let content = self.content(content, Allowed::USER, agent)?;
                Message::Tool { call_id, content, is_error: false }
            }
            other => {
                let shown: String = other.chars().take(64).collect();
                return Err(self.error(format!("role {shown:?} is not known; use system, user, assistant or tool")));
            }
        })
    }

    fn content(self, content: ContentIn, allowed: Allowed, agent: &Agent) -> Result<Content, ApiError> {
        match content {
            ContentIn::Text(text) => Ok(Content::Text(text)),
            ContentIn::Blocks(blocks) => {
                let blocks = blocks.into_iter().map(|block| self.block(block, allowed, agent));
                Ok(Content::Blocks(blocks.collect::<Result<_, _>>()?))
            }
        }
    }

    fn block(self, block: BlockIn, allowed: Allowed, agent: &Agent) -> Result<Block, ApiError> {
        let missing = |field: &str| self.error(format!("a block of type {} needs {field:?}", block.r#type));
        match block.r#type.as_str() {
            "text" => Ok(Block::Text(block.text.ok_or_else(|| missing("text"))?)),
            "thinking" if allowed.thinking_and_calls => {
                Ok(Block::Thinking { text: block.thinking.ok_or_else(|| missing("thinking"))?, signature: None })
            }
            "tool_use" if allowed.thinking_and_calls => {
                let input = Json::from(block.input.ok_or_else(|| missing("input"))?);
                if !input.is_object() {
                    return Err(self.error("the input of a tool_use block must be an object"));
                }
                let name = block.name.ok_or_else(|| missing("name"))?;
                Ok(Block::ToolUse(ToolUse { id: self.call_id(block.tool_call_id)?, name, input }))
            }
            "image" if allowed.images => {
                let url = block.url.ok_or_else(|| missing("url"))?;
                self.image(&url, agent)?;
                Ok(Block::Image { url: url.into() })
            }
            "thinking" | "tool_use" | "image" => {
                Err(self.error(format!("a block of type {} cannot stand in a message of this role", block.r#type)))
            }
            other => {
                let shown: String = other.chars().take(64).collect();
                Err(self
                    .error(format!("content block type {shown:?} is not known; use text, thinking, tool_use or image")))
            }
        }
    }

    fn image(self, url: &str, agent: &Agent) -> Result<(), ApiError> {
        let Capabilities { image_http, image_data, .. } = agent.capabilities;
        let (kind, declared) = if url.starts_with("https://") {
            ("https", image_http)
        } else if is_image_data(url) {
            ("data", image_data)
        } else {
            let shown: String = url.chars().take(40).collect();
            let what = format!("image url {shown:?} is neither an https:// URL nor a data:image/…;base64,… URI");
            return Err(self.error(what));
        };
        if declared { Ok(()) } else { Err(self.error(format!("agent {:?} takes no {kind} images", agent.name))) }
    }
}

/// `data:image/<type>;base64,<data>`.
fn is_image_data(url: &str) -> bool {
    let Some((kind, data)) = url.strip_prefix("data:image/").and_then(|rest| rest.split_once(";base64,")) else {
        return false;
    };
    let digits = data.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !kind.is_empty() && !digits.is_empty() && data.len() - digits.len() <= 2 && digits.bytes().all(is_digit)
}

/// Which blocks a role may have besides text.
#[derive(Clone, Copy)]
struct Allowed {
    thinking_and_calls: bool,
    images: bool,
}

impl Allowed {
    const USER: Self = Self { thinking_and_calls: false, images: true };
    const ASSISTANT: Self = Self { thinking_and_calls: true, images: false };
}
