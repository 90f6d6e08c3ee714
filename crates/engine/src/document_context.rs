//! The documents that a conversation speaks of, as the model is given them.

use std::{collections::HashMap, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use everturn_core::{Block, Content, DocumentId, Message};
use everturn_store::{RecordKind, StoreError};

use crate::{documents::Document, turn::Turn};

/// What was looked up, by document.
pub(crate) type Documents = HashMap<DocumentId, Block>;

/// The largest image that a model is given, in bytes. Providers take about so much.
const MAX_IMAGE: usize = 5 * 1024 * 1024;
/// How long to wait before asking a store again that does not answer.
const STORE_WAIT: Duration = Duration::from_secs(1);

impl Turn {
    /// Looks up the documents that history speaks of and that were not looked up before.
    pub(crate) async fn load_documents(&mut self) {
        let history = self.full_history();
        for (id, name) in history.iter().flat_map(mentioned) {
            if !self.documents.contains_key(id) {
                let block = self.look_up(id, name).await;
                self.documents.insert(id.clone(), block);
            }
        }
    }

    /// Waits as long as the store is in trouble: the turn must not be lost because of it.
    async fn look_up(&self, id: &DocumentId, name: &str) -> Block {
        loop {
            match self.load_document(id, name).await {
                Ok(block) => return block,
                Err(error) if error.is_retryable() => {
                    tracing::warn!(turn = %self.log.turn(), document = %id, %error, "cannot read a document yet");
                    tokio::time::sleep(STORE_WAIT).await;
                }
                Err(error) => {
                    tracing::error!(turn = %self.log.turn(), document = %id, %error, "cannot read a document");
                    return Block::Text(format!("[The document {name:?} cannot be read.]"));
                }
            }
        }
    }

    async fn load_document(&self, id: &DocumentId, name: &str) -> Result<Block, StoreError> {
        let row = self.shared.store.record(&self.tenant, RecordKind::Document, id.as_str()).await?;
        let Some(document) = row.and_then(Document::of) else {
            return Ok(Block::Text(format!("[The document {name:?} was deleted.]")));
        };
        if let Some(text) = document.text(&*self.shared.store, &self.tenant).await? {
            let max = self.shared.settings.document_context_bytes;
            let text = everturn_documents::for_model(&document.name, &document.media_type, &text, document.cut, max);
            return Ok(Block::Text(text));
        }
        if document.bytes > MAX_IMAGE {
            let text = format!(
                "[The image {name:?} has {} bytes, too many to be shown; the limit is {MAX_IMAGE}.]",
                document.bytes
            );
            return Ok(Block::Text(text));
        }
        let bytes = document.content(&*self.shared.store, &self.tenant).await?.unwrap_or_default();
        Ok(Block::Image { url: format!("data:{};base64,{}", document.media_type, STANDARD.encode(bytes)) })
    }

    /// Messages with their documents in place.
    pub(crate) fn with_documents(&self, mut messages: Vec<Message>) -> Vec<Message> {
        if self.documents.is_empty() {
            return messages;
        }
        for message in &mut messages {
            if let Message::User { content: Content::Blocks(blocks) } = message {
                for block in blocks {
                    if let Block::Document { id, .. } = block
                        && let Some(found) = self.documents.get(id)
                    {
                        *block = found.clone();
                    }
                }
            }
        }
        messages
    }
}

fn mentioned(message: &Message) -> impl Iterator<Item = (&DocumentId, &str)> {
    let blocks = match message {
        Message::User { content } => content.blocks(),
        Message::System { .. } | Message::Assistant { .. } | Message::Tool { .. } => &[],
    };
    blocks.iter().filter_map(|block| match block {
        Block::Document { id, name } => Some((id, name.as_str())),
        Block::Text(_) | Block::Thinking { .. } | Block::ToolUse(_) | Block::Image { .. } => None,
    })
}
