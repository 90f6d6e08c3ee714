//! What clients are sent.

use everturn_core::{Block, CallId, Content, Json, Message, Outcome, ToolRef};
use serde::{Serialize, Serializer, ser::SerializeSeq as _};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{Array, OneOf, Ref, RefOr, Schema, schema::ObjectBuilder, schema::Type},
};

/// Why a leg stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = aap::StopReason)]
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

impl PartialSchema for ContentOut<'_> {
    fn schema() -> RefOr<Schema> {
        let blocks = Array::new(Ref::from_schema_name(BlockOut::name()));
        let text = ObjectBuilder::new().schema_type(Type::String);
        RefOr::T(OneOf::builder().item(text).item(blocks).build().into())
    }
}

impl ToSchema for ContentOut<'_> {
    fn name() -> std::borrow::Cow<'static, str> {
        "aap.Content".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((BlockOut::name().into_owned(), BlockOut::schema()));
        BlockOut::schemas(schemas);
    }
}

/// `ContentBlock`.
#[derive(Serialize, ToSchema)]
#[schema(as = aap::ContentBlock)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum BlockOut<'a> {
    /// What is said.
    Text { text: &'a str },
    /// What is thought.
    Thinking { thinking: &'a str },
    /// A call of a tool.
    #[serde(rename_all = "camelCase")]
    ToolUse {
        #[schema(value_type = String)]
        tool_call_id: &'a CallId,
        name: &'a str,
        #[schema(value_type = Object)]
        input: &'a Json,
    },
    /// An image, by its `https://` or `data:` URL.
    Image { url: &'a str },
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
#[derive(Serialize, ToSchema)]
#[schema(as = aap::Message)]
#[serde(tag = "role", rename_all = "snake_case")]
pub(crate) enum MessageOut<'a> {
    /// What the model is told beforehand.
    System { content: &'a str },
    /// What the user said.
    User { content: ContentOut<'a> },
    /// What the model said.
    Assistant { content: ContentOut<'a> },
    /// What a tool gave.
    #[serde(rename_all = "camelCase")]
    Tool {
        #[schema(value_type = String)]
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

/// `ServerToolRef`.
#[derive(Serialize, ToSchema)]
#[schema(as = aap::EnabledTool)]
pub(crate) struct ToolRefOut {
    /// Name of the tool.
    name: String,
    /// Whether it runs without asking.
    trust: bool,
}

impl From<ToolRef> for ToolRefOut {
    fn from(tool: ToolRef) -> Self {
        let ToolRef { name, trust } = tool;
        Self { name, trust }
    }
}
