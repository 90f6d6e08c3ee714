//! The documents that a conversation speaks of, as the model is given them.

use std::{collections::HashMap, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use everturn_core::{Block, Content, DocumentId, Message};
use everturn_store::{RecordKind, StoreError};

use crate::{documents::Document, turn::Turn};

/// What was looked up, by document.
pub(crate) type Documents = HashMap<DocumentId, Vec<Block>>;

/// The largest image that a model is given, in bytes. Providers take about so much.
const MAX_IMAGE: usize = 5 * 1024 * 1024;
/// How long to wait before asking a store again that does not answer.
const STORE_WAIT: Duration = Duration::from_secs(1);

impl Turn {
    /// Looks up the documents that history speaks of and that were not looked up before.
    pub(crate) async fn load_documents(&mut self) {
        let history = self.full_history();
        let mentions: Vec<_> = history.iter().flat_map(mentioned).collect();
        let max = self.document_share(mentions.len());
        for (id, name) in mentions {
            if !self.documents.contains_key(id) {
                let blocks = self.look_up(id, name, max).await;
                self.documents.insert(id.clone(), blocks);
            }
        }
    }

    /// How much of each document the model is given: as much as is configured, and all of them together no more than
    /// half of its context.
    fn document_share(&self, mentions: usize) -> usize {
        const BYTES_PER_TOKEN: u64 = 4;
        let configured = self.shared.settings.document_context_bytes;
        let half = self.context_window().map(|window| window / 2 * BYTES_PER_TOKEN);
        let share = half.map_or(u64::MAX, |half| half / mentions.max(1) as u64);
        configured.min(usize::try_from(share).unwrap_or(usize::MAX))
    }

    /// Waits as long as the store is in trouble: the turn must not be lost because of it.
    async fn look_up(&self, id: &DocumentId, name: &str, max: usize) -> Vec<Block> {
        loop {
            match self.load_document(id, name, max).await {
                Ok(blocks) => return blocks,
                Err(error) if error.is_retryable() => {
                    tracing::warn!(turn = %self.log.turn(), document = %id, %error, "cannot read a document yet");
                    tokio::time::sleep(STORE_WAIT).await;
                }
                Err(error) => {
                    tracing::error!(turn = %self.log.turn(), document = %id, %error, "cannot read a document");
                    return text(format!("[The document {name:?} cannot be read.]"));
                }
            }
        }
    }

    async fn load_document(&self, id: &DocumentId, name: &str, max: usize) -> Result<Vec<Block>, StoreError> {
        let row = self.shared.store.record(&self.tenant, RecordKind::Document, id.as_str()).await?;
        let Some(document) = row.and_then(Document::of) else {
            return Ok(text(format!("[The document {name:?} was deleted.]")));
        };
        let Document { name, media_type, bytes, cut, .. } = &document;
        if let Some(content) = document.text(&*self.shared.store, &self.tenant).await? {
            return Ok(text(everturn_documents::for_model(name, media_type, &content, *cut, max)));
        }
        if *bytes > MAX_IMAGE {
            let told =
                format!("[The image {name:?} has {bytes} bytes, too many to be shown; the limit is {MAX_IMAGE}.]");
            return Ok(text(told));
        }
        let content = document.content(&*self.shared.store, &self.tenant).await?.unwrap_or_default();
        let url = format!("data:{media_type};base64,{}", STANDARD.encode(content));
        Ok(vec![Block::Text(format!("[The image {name:?}:]")), Block::Image { url }])
    }

    /// Messages with their documents in place.
    pub(crate) fn with_documents(&self, mut messages: Vec<Message>) -> Vec<Message> {
        if self.documents.is_empty() {
            return messages;
        }
        for message in &mut messages {
            if let Message::User { content: Content::Blocks(blocks) } = message {
                let placed = std::mem::take(blocks).into_iter().flat_map(|block| match &block {
                    Block::Document { id, .. } => self.documents.get(id).cloned().unwrap_or_else(|| vec![block]),
                    _ => vec![block],
                });
                *blocks = placed.collect();
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

fn text(text: String) -> Vec<Block> {
    vec![Block::Text(text)]
}
