//! Token counts of the demo model: a deterministic guess, four bytes to a token.

use everturn_core::{Block, Content, Message};

use crate::model::ModelRequest;

/// What an image counts for. Its URL says nothing: a data URI holds all of its pixels.
const IMAGE_TOKENS: u64 = 256;

/// Tokens of a text of this many bytes.
pub(super) fn tokens(bytes: u64) -> u64 {
    (bytes / 4).max(1)
}

/// Tokens of a whole request.
pub(super) fn request(request: &ModelRequest) -> u64 {
    let mut bytes = request.system.len();
    let mut images = 0;
    for message in request.messages.iter() {
        let content = match message {
            Message::System { content } => {
                bytes += content.len();
                continue;
            }
            Message::User { content } | Message::Assistant { content } | Message::Tool { content, .. } => content,
        };
        match content {
            Content::Text(text) => bytes += text.len(),
            Content::Blocks(blocks) => {
                for block in blocks {
                    match block {
                        Block::Text(text) => bytes += text.len(),
                        Block::Thinking { text, .. } => bytes += text.len(),
                        Block::ToolUse(call) => bytes += call.name.len() + call.input.as_str().len(),
                        Block::Image { .. } => images += 1,
                        Block::Document { name, .. } => bytes += name.len(),
                    }
                }
            }
        }
    }
    for tool in request.tools.iter() {
        bytes += tool.name.len() + tool.description.len() + tool.input_schema.as_str().len();
    }
    tokens(bytes as u64) + images * IMAGE_TOKENS
}
