//! What clients are sent.

use everturn_core::{Block, CallId, Content, Json, Message, Outcome, ToolSpec};
use serde::{Serialize, Serializer, ser::SerializeSeq as _};

/// Why a leg stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StopReason {
    EndTurn,
    ToolUse,
    MaxTokens,
    Refusal,
    Error,
}

/// How a turn's end is told. The protocol has no word for a cancelled turn.
pub(crate) fn stop_reason(outcome: &Outcome) -> StopReason {
    match outcome {
        Outcome::Completed => StopReason::EndTurn,
        Outcome::MaxTokens => StopReason::MaxTokens,
        Outcome::Refused => StopReason::Refusal,
        Outcome::Failed { .. } | Outcome::Cancelled { .. } => StopReason::Error,
    }
}

/// `string | ContentBlock[]`, in the form in which it was sent or made.
pub(crate) struct ContentOut<'a>(pub(crate) &'a Content);

impl Serialize for ContentOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Content::Text(text) => serializer.serialize_str(text),
            Content::Blocks(blocks) => {
                let shown: Vec<_> = blocks.iter().filter_map(BlockOut::of).collect();
                let mut seq = serializer.serialize_seq(Some(shown.len()))?;
                for block in &shown {
                    seq.serialize_element(block)?;
                }
                seq.end()
            }
        }
    }
}

/// `ContentBlock`.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum BlockOut<'a> {
    Text {
        text: &'a str,
    },
    Thinking {
        thinking: &'a str,
    },
    #[serde(rename_all = "camelCase")]
    ToolUse {
        tool_call_id: &'a CallId,
        name: &'a str,
        input: &'a Json,
    },
    Image {
        url: &'a str,
    },
}

impl<'a> BlockOut<'a> {
    /// A block as clients see it. Reasoning that the provider keeps to itself (a signature without text) is not shown.
    pub(crate) fn of(block: &'a Block) -> Option<Self> {
        Some(match block {
            Block::Text(text) => Self::Text { text },
            Block::Thinking { text, .. } if text.is_empty() => return None,
            Block::Thinking { text, .. } => Self::Thinking { thinking: text },
            Block::ToolUse(call) => Self::ToolUse { tool_call_id: &call.id, name: &call.name, input: &call.input },
            Block::Image { url } => Self::Image { url },
            // The protocol has no word for documents; people know them by name.
            Block::Document { name, .. } => Self::Text { text: name },
        })
    }
}

/// `HistoryMessage`.
#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub(crate) enum MessageOut<'a> {
    System {
        content: &'a str,
    },
    User {
        content: ContentOut<'a>,
    },
    Assistant {
        content: ContentOut<'a>,
    },
    #[serde(rename_all = "camelCase")]
    Tool {
        tool_call_id: &'a CallId,
        content: ContentOut<'a>,
    },
}

impl<'a> From<&'a Message> for MessageOut<'a> {
    fn from(message: &'a Message) -> Self {
        match message {
            Message::System { content } => Self::System { content },
            Message::User { content } => Self::User { content: ContentOut(content) },
            Message::Assistant { content } => Self::Assistant { content: ContentOut(content) },
            Message::Tool { call_id, content, .. } => {
                Self::Tool { tool_call_id: call_id, content: ContentOut(content) }
            }
        }
    }
}

/// `ToolSpec`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolOut<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    description: &'a str,
    input_schema: &'a Json,
}

impl<'a> From<&'a ToolSpec> for ToolOut<'a> {
    fn from(tool: &'a ToolSpec) -> Self {
        Self {
            name: &tool.name,
            title: tool.title.as_deref(),
            description: &tool.description,
            input_schema: &tool.input_schema,
        }
    }
}
