//! A turn as clients see it: one entry for what was asked and all that came of it.

use everturn_core::{Block, CallId, Content, FormId, Json, Message, Outcome, WaitingFor};
use everturn_http::document;
use everturn_store::{TurnRecord, TurnStatus};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    projection::{failure, reason, wake},
    time::rfc3339,
};

/// A turn.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Message)]
pub(crate) struct TurnOut<'a> {
    message_id: &'a str,
    #[schema(schema_with = statuses)]
    status: &'static str,
    #[serde(flatten)]
    #[schema(nullable = false)]
    wait: Option<WaitOut>,
    /// What was said.
    input: String,
    document_ids: Vec<&'a str>,
    /// The answer, or what there is of it.
    #[schema(required)]
    response: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<ErrorOut<'a>>,
    /// Why it was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = reasons)]
    reason: Option<&'static str>,
    total_input_tokens: u64,
    total_output_tokens: u64,
    /// Of the input, what providers had in their caches. Left out if none.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(required = false)]
    total_cached_input_tokens: u64,
    /// Of the output, what models spent on reasoning. Left out if none.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(required = false)]
    total_reasoning_tokens: u64,
    #[schema(format = DateTime)]
    created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    ended_at: Option<String>,
    messages: Vec<MessageOut<'a>>,
}

fn statuses() -> document::AnySchema {
    let words = ["queued", "running", "waiting", "completed", "cancelled", "failed"];
    document::schema(json!({ "type": "string", "enum": words }))
}

/// The reasons why turns are cancelled.
pub(crate) fn reasons() -> document::AnySchema {
    let words = ["user_stop", "timeout", "superseded", "session_deleted"];
    document::schema(json!({ "type": "string", "enum": words }))
}

/// What turns wait for.
pub(crate) fn wakes() -> document::AnySchema {
    document::schema(json!({ "type": "string", "enum": ["form", "client_tools", "timer", "rate_limit"] }))
}

impl TurnOut<'_> {
    /// For the document.
    pub(crate) fn example() -> Value {
        json!({
            "message_id": "turn_0198c0ffee", "status": "completed", "input": "What time is it?", "document_ids": [],
            "response": "It is noon.", "total_input_tokens": 120, "total_output_tokens": 48,
            "total_cached_input_tokens": 64, "total_reasoning_tokens": 32,
            "created_at": "2026-07-25T17:20:00.120Z", "ended_at": "2026-07-25T17:20:03.440Z",
            "messages": [
                { "role": "user", "content": "What time is it?" },
                { "role": "assistant", "content": "", "tool_calls": [
                    { "tool_call_id": "call_1", "tool_name": "clock", "input": {} },
                ] },
                { "role": "tool", "tool_call_id": "call_1", "success": true, "content": "12:00" },
                { "role": "assistant", "content": "It is noon." },
            ],
        })
    }
}

/// Why a message failed.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::MessageError)]
struct ErrorOut<'a> {
    code: &'a str,
    message: &'a str,
}

/// What a waiting turn waits for.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Waiting)]
pub(crate) struct WaitOut {
    #[schema(schema_with = wakes, required = false)]
    wake: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    wake_at: Option<String>,
    /// The forms that want an answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    form_ids: Vec<FormId>,
}

impl WaitOut {
    /// `None` unless the turn waits.
    pub(crate) fn of(status: &TurnStatus) -> Option<Self> {
        let TurnStatus::Waiting(wait) = status else { return None };
        let asks = |waiting_for| matches!(waiting_for, WaitingFor::Form | WaitingFor::Permission);
        let forms = wait.calls.iter().filter(|call| asks(call.waiting_for)).map(|call| FormId::of_call(&call.id));
        Some(Self { wake: wake(wait.wake()), wake_at: wait.wake_at.map(rfc3339), form_ids: forms.collect() })
    }
}

/// The word for where a turn stands.
pub(crate) fn status_word(status: &TurnStatus) -> &'static str {
    match status {
        TurnStatus::Queued => "queued",
        TurnStatus::Running => "running",
        TurnStatus::Waiting(_) => "waiting",
        TurnStatus::Ended(Outcome::Completed) => "completed",
        TurnStatus::Ended(Outcome::Cancelled { .. }) => "cancelled",
        TurnStatus::Ended(Outcome::MaxTokens | Outcome::Refused | Outcome::Failed { .. }) => "failed",
    }
}

/// Whether a detail of the tokens is left out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
pub(crate) fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

/// What the user said, in a turn's messages.
pub(crate) fn said(messages: &[Message]) -> String {
    question(messages).map(Content::text).unwrap_or_default()
}

/// The user's message: the last one, since a turn may begin with history that a client brought along.
fn question(messages: &[Message]) -> Option<&Content> {
    messages.iter().rev().find_map(|message| match message {
        Message::User { content } => Some(content),
        Message::System { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
    })
}

/// The answer, or what there is of it: the same text as the stream's last event has.
fn response(turn: &TurnRecord) -> Option<String> {
    let own = turn.messages.iter().rev().take_while(|message| !matches!(message, Message::User { .. }));
    let mut own = own.peekable();
    // An empty answer leaves no message, and what was said before its tools is not the answer.
    if turn.status == TurnStatus::Ended(Outcome::Completed) && !matches!(own.peek(), Some(Message::Assistant { .. })) {
        return Some(String::new());
    }
    own.find_map(|message| match message {
        Message::Assistant { content } => Some(content.text()),
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => None,
    })
}

fn documents(content: &Content) -> Vec<&str> {
    let ids = content.blocks().iter().filter_map(|block| match block {
        Block::Document { id, .. } => Some(id.as_str()),
        Block::Text(_) | Block::Thinking { .. } | Block::ToolUse(_) | Block::Image { .. } => None,
    });
    ids.collect()
}

impl<'a> From<&'a TurnRecord> for TurnOut<'a> {
    fn from(turn: &'a TurnRecord) -> Self {
        let (error, reason) = match &turn.status {
            TurnStatus::Ended(Outcome::Cancelled { reason: why }) => (None, Some(reason(*why))),
            TurnStatus::Ended(outcome) => (failure(outcome).map(|(code, message, _)| ErrorOut { code, message }), None),
            TurnStatus::Queued | TurnStatus::Running | TurnStatus::Waiting(_) => (None, None),
        };
        Self {
            message_id: turn.id.as_str(),
            status: status_word(&turn.status),
            wait: WaitOut::of(&turn.status),
            input: said(&turn.messages),
            document_ids: question(&turn.messages).map(documents).unwrap_or_default(),
            response: response(turn),
            error,
            reason,
            total_input_tokens: turn.usage.input,
            total_output_tokens: turn.usage.output,
            total_cached_input_tokens: turn.usage.cached_input,
            total_reasoning_tokens: turn.usage.reasoning,
            created_at: rfc3339(turn.created_at),
            ended_at: turn.rested_at.filter(|_| turn.status.is_ended()).map(rfc3339),
            messages: turn.messages.iter().map(MessageOut::from).collect(),
        }
    }
}

/// A message within a turn.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::MessagePart)]
#[serde(tag = "role", rename_all = "snake_case")]
enum MessageOut<'a> {
    System {
        content: &'a str,
    },
    User {
        content: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        document_ids: Vec<&'a str>,
    },
    Assistant {
        content: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCallOut<'a>>,
    },
    Tool {
        #[schema(value_type = String)]
        tool_call_id: &'a CallId,
        success: bool,
        content: String,
    },
}

/// What an agent wants of a tool.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::ToolCall)]
struct ToolCallOut<'a> {
    #[schema(value_type = String)]
    tool_call_id: &'a CallId,
    tool_name: &'a str,
    #[schema(schema_with = document::any_json)]
    input: &'a Json,
}

impl<'a> From<&'a Message> for MessageOut<'a> {
    fn from(message: &'a Message) -> Self {
        match message {
            Message::System { content } => Self::System { content },
            Message::User { content } => Self::User { content: content.text(), document_ids: documents(content) },
            Message::Assistant { content } => {
                let calls = message.tool_uses();
                let call = |call: &'a everturn_core::ToolUse| ToolCallOut {
                    tool_call_id: &call.id,
                    tool_name: &call.name,
                    input: &call.input,
                };
                Self::Assistant { content: content.text(), tool_calls: calls.map(call).collect() }
            }
            Message::Tool { call_id, content, is_error } => {
                Self::Tool { tool_call_id: call_id, success: !is_error, content: content.lines() }
            }
        }
    }
}
