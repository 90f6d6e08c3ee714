//! Messages and their content, in the form in which they are stored.
//!
//! The wire forms of the dialects differ from this one and from each other; each dialect converts.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{CallId, DocumentId, SharedText, ToolUse};

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Standing instructions within the conversation.
    System {
        /// The instructions.
        content: String,
    },
    /// What a person said.
    User {
        /// What was said.
        content: Content,
    },
    /// What the model answered: at most one thinking block, then text, then tool calls.
    Assistant {
        /// The answer.
        content: Content,
    },
    /// The result of one tool call.
    Tool {
        /// The call that it answers.
        call_id: CallId,
        /// The result.
        content: Content,
        /// Whether the result says that the call failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

/// Who speaks in a [`Message`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// See [`Message::System`].
    System,
    /// See [`Message::User`].
    User,
    /// See [`Message::Assistant`].
    Assistant,
    /// See [`Message::Tool`].
    Tool,
}

/// Content is a plain text or a list of blocks. The two are kept apart so that history gives back what was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// One text.
    Text(String),
    /// Blocks, in order.
    Blocks(Vec<Block>),
}

/// One piece of content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Text.
    Text(String),
    /// The model's reasoning.
    Thinking {
        /// What it thought.
        text: String,
        /// The provider's proof of it, which some providers want back. Never shown to clients.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// A tool call.
    ToolUse(ToolUse),
    /// An image, by `https:` or `data:` URL.
    Image {
        /// Where it is.
        url: SharedText,
    },
    /// A document that was uploaded. Its content is looked up when a model is called, so that what was deleted since is
    /// not there any more.
    Document {
        /// The document.
        id: DocumentId,
        /// Its name.
        name: String,
    },
}

impl Message {
    /// A user's plain text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { content: Content::Text(text.into()) }
    }

    /// An assistant's plain text.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant { content: Content::Text(text.into()) }
    }

    /// A tool's textual result.
    pub fn tool(call_id: CallId, text: impl Into<String>) -> Self {
        Self::Tool { call_id, content: Content::Text(text.into()), is_error: false }
    }

    /// Who speaks.
    pub fn role(&self) -> Role {
        match self {
            Self::System { .. } => Role::System,
            Self::User { .. } => Role::User,
            Self::Assistant { .. } => Role::Assistant,
            Self::Tool { .. } => Role::Tool,
        }
    }

    /// The tool calls that this message makes, in order.
    pub fn tool_uses(&self) -> impl Iterator<Item = &ToolUse> {
        let blocks = match self {
            Self::Assistant { content } => content.blocks(),
            Self::System { .. } | Self::User { .. } | Self::Tool { .. } => &[],
        };
        blocks.iter().filter_map(|block| match block {
            Block::ToolUse(tool_use) => Some(tool_use),
            Block::Text(_) | Block::Thinking { .. } | Block::Image { .. } | Block::Document { .. } => None,
        })
    }
}

impl Content {
    /// The blocks; a plain text has none.
    pub fn blocks(&self) -> &[Block] {
        match self {
            Self::Text(_) => &[],
            Self::Blocks(blocks) => blocks,
        }
    }

    /// All text in it, joined.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => blocks
                .iter()
                .filter_map(|block| match block {
                    Block::Text(text) => Some(text.as_str()),
                    Block::Thinking { .. } | Block::ToolUse(_) | Block::Image { .. } | Block::Document { .. } => None,
                })
                .collect(),
        }
    }

    /// All text in it, each part on lines of its own: the parts of a result or of instructions stand by themselves.
    pub fn lines(&self) -> String {
        let Self::Blocks(blocks) = self else { return self.text() };
        let texts = blocks.iter().filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            Block::Thinking { .. } | Block::ToolUse(_) | Block::Image { .. } | Block::Document { .. } => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// All text in it, with a line for each image and each document.
    pub fn text_and_media(&self) -> String {
        let Self::Blocks(blocks) = self else { return self.text() };
        let parts = blocks.iter().filter_map(|block| match block {
            Block::Text(text) => Some(Cow::Borrowed(text.as_str())),
            Block::Image { .. } => Some(Cow::Borrowed("[image]")),
            Block::Document { name, .. } => Some(Cow::Owned(format!("[document {name}]"))),
            Block::Thinking { .. } | Block::ToolUse(_) => None,
        });
        parts.collect::<Vec<_>>().join("\n")
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Blocks(blocks) => blocks.is_empty(),
        }
    }

    /// The same content as blocks.
    pub fn into_blocks(self) -> Vec<Block> {
        match self {
            Self::Text(text) if text.is_empty() => Vec::new(),
            Self::Text(text) => vec![Block::Text(text)],
            Self::Blocks(blocks) => blocks,
        }
    }

    /// The content of an assistant's message: a plain text where there is nothing else, else blocks in the order in
    /// which every dialect shows them. Empty thinking and text leave no block.
    pub fn answer(thinking: String, signature: Option<String>, text: String, calls: Vec<ToolUse>) -> Self {
        if thinking.is_empty() && signature.is_none() && calls.is_empty() {
            return Self::Text(text);
        }
        let mut blocks = Vec::with_capacity(2 + calls.len());
        if !thinking.is_empty() || signature.is_some() {
            blocks.push(Block::Thinking { text: thinking, signature });
        }
        if !text.is_empty() {
            blocks.push(Block::Text(text));
        }
        blocks.extend(calls.into_iter().map(Block::ToolUse));
        Self::Blocks(blocks)
    }
}
