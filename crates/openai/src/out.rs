//! What clients are sent in one piece.

use everturn_core::{SessionId, TurnId, Usage};
use serde::Serialize;

use crate::call_id;

/// `usage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct UsageOut {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_tokens_details: Option<CompletionDetails>,
}

/// What is known of the tokens read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct PromptDetails {
    cached_tokens: u64,
}

/// What is known of the tokens written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

impl From<Usage> for UsageOut {
    fn from(usage: Usage) -> Self {
        let (cached, reasoning) = (usage.cached_input, usage.reasoning);
        Self {
            prompt_tokens: usage.input,
            completion_tokens: usage.output,
            total_tokens: usage.total(),
            prompt_tokens_details: (cached > 0).then_some(PromptDetails { cached_tokens: cached }),
            completion_tokens_details: (reasoning > 0).then_some(CompletionDetails { reasoning_tokens: reasoning }),
        }
    }
}

/// A call of a tool of the application's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ToolCallOut {
    pub(crate) id: String,
    pub(crate) r#type: &'static str,
    pub(crate) function: FunctionOut,
}

/// What is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FunctionOut {
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// `chat.completion`.
#[derive(Debug, Serialize)]
pub(crate) struct Completion<'a> {
    pub(crate) id: String,
    pub(crate) object: &'static str,
    pub(crate) created: u64,
    pub(crate) model: &'a str,
    pub(crate) choices: [ChoiceOut<'a>; 1],
    pub(crate) usage: UsageOut,
    pub(crate) session_id: &'a str,
    pub(crate) message_id: &'a str,
    /// What was asked for and is not done, in words.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(crate) notices: &'a [String],
}

/// The one answer.
#[derive(Debug, Serialize)]
pub(crate) struct ChoiceOut<'a> {
    pub(crate) index: u32,
    pub(crate) message: MessageOut<'a>,
    pub(crate) logprobs: Option<()>,
    pub(crate) finish_reason: &'static str,
}

/// What the assistant says.
#[derive(Debug, Serialize)]
pub(crate) struct MessageOut<'a> {
    pub(crate) role: &'static str,
    pub(crate) content: Option<String>,
    pub(crate) refusal: Option<()>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reasoning_content: String,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) tool_calls: &'a [ToolCallOut],
}

/// The id of an answer: each request that goes on with a turn has one of its own, after the event that it goes on with.
pub(crate) fn completion_id(turn: &TurnId, answered_at: u64) -> String {
    let name = turn.as_str().strip_prefix("turn_").unwrap_or(turn.as_str());
    match answered_at {
        0 | 1 => format!("chatcmpl-{name}"),
        _ => format!("chatcmpl-{name}-{answered_at}"),
    }
}

/// When the turn of an answer began.
pub(crate) fn created(turn: &TurnId) -> u64 {
    call_id::begun(turn)
}

/// Where a turn can be read on.
pub(crate) fn stream_path(session: &SessionId, turn: &TurnId, seq: u64) -> String {
    format!("/api/v1/sessions/{session}/messages/{turn}/stream?as=openai&since={seq}")
}
