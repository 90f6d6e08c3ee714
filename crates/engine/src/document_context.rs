//! The documents that a conversation speaks of, as the model is given them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use everturn_core::{Block, Content, DocumentId, Message, Messages, Piece, Pieces, SharedText, context};
use everturn_models::{DocumentContent, Documents as Contents};
use everturn_store::{RecordKind, StoreError};

use crate::{documents::Document, turn::Turn};

/// The largest image that a model is given, in bytes. Providers take about so much.
const MAX_IMAGE: usize = 5 * 1024 * 1024;
/// The largest PDF file that a model is given as it is, in bytes; larger ones are given as their text.
const MAX_PDF: usize = 8 * 1024 * 1024;
/// How long to wait before asking a store again that does not answer.
const STORE_WAIT: Duration = Duration::from_secs(1);
/// About how many bytes of text make a token.
const BYTES_PER_TOKEN: u64 = 4;

/// What was looked up, by document.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    /// Images, which stand in the messages themselves.
    images: HashMap<DocumentId, Vec<Block>>,
    /// All others, which the provider's wire gives whole or as their text.
    contents: Contents,
    /// A guess at the tokens of each of them.
    tokens: HashMap<DocumentId, u64>,
    /// How many bytes of text may still be given.
    room: Option<u64>,
    /// The earlier part of the conversation with its images in place, which is the same for every step.
    placed: Mutex<Option<Placed>>,
}

/// See [`Documents::placed`].
#[derive(Debug)]
struct Placed {
    of: Arc<Pieces>,
    /// How many images were known.
    images: usize,
    with_images: Arc<Pieces>,
}

impl Documents {
    /// The documents beside the messages.
    pub(crate) fn contents(&self) -> Contents {
        Arc::clone(&self.contents)
    }

    fn contains(&self, id: &DocumentId) -> bool {
        self.images.contains_key(id) || self.contents.contains_key(id)
    }

    /// A piece of a conversation with its images in place; `None` if it names none.
    fn place(&self, piece: &Piece) -> Option<Piece> {
        let is_image = |(id, _): (&DocumentId, &str)| self.images.contains_key(id);
        if !piece.messages().iter().flat_map(context::documents).any(is_image) {
            return None;
        }
        let placed = piece.messages().iter().map(|message| match message {
            Message::User { content: Content::Blocks(blocks) } => {
                let placed = blocks.iter().flat_map(|block| match block {
                    Block::Document { id, .. } => self.images.get(id).cloned().unwrap_or_else(|| vec![block.clone()]),
                    _ => vec![block.clone()],
                });
                Message::User { content: Content::Blocks(placed.collect()) }
            }
            message => message.clone(),
        });
        Some(placed.collect::<Vec<_>>().into())
    }

    /// The earlier part of a conversation with its images in place.
    fn place_earlier(&self, earlier: &Arc<Pieces>) -> Arc<Pieces> {
        let mut placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        let images = self.images.len();
        if let Some(placed) = &*placed
            && Arc::ptr_eq(&placed.of, earlier)
            && placed.images == images
        {
            return Arc::clone(&placed.with_images);
        }
        let with_images = earlier.replaced(|piece| self.place(piece)).map_or_else(|| Arc::clone(earlier), Arc::new);
        *placed = Some(Placed { of: Arc::clone(earlier), images, with_images: Arc::clone(&with_images) });
        with_images
    }

    /// A guess at the tokens of the documents that these messages name.
    pub(crate) fn estimate<'m>(&self, messages: impl IntoIterator<Item = &'m Message>) -> u64 {
        if self.contents.is_empty() {
            return 0;
        }
        messages.into_iter().flat_map(context::documents).filter_map(|(id, _)| self.tokens.get(id)).sum()
    }
}

impl Turn {
    /// Looks up the documents that history speaks of and that were not looked up before.
    pub(crate) async fn load_documents(&mut self) {
        let earlier = self.earlier.documents().iter().map(|(id, name)| (id, name.as_str()));
        let named = earlier.chain(self.state.settled().iter().flat_map(context::documents));
        let unknown = named.filter(|(id, _)| !self.documents.contains(id));
        let unknown: Vec<(DocumentId, String)> = unknown.map(|(id, name)| (id.clone(), name.to_owned())).collect();
        for (id, name) in &unknown {
            if self.documents.contains(id) {
                continue;
            }
            let max = self.document_room();
            match self.look_up(id, name, max).await {
                Loaded::Image(blocks) => drop(self.documents.images.insert(id.clone(), blocks)),
                Loaded::Content(content) => {
                    let text = context::estimate_text(&content.text);
                    let used = (content.text.len() as u64).max(text * BYTES_PER_TOKEN);
                    self.documents.room = self.documents.room.map(|room| room.saturating_sub(used));
                    // Providers read a PDF file as its text and a picture of each page.
                    let tokens = text * if content.base64.is_some() { 3 } else { 1 };
                    self.documents.tokens.insert(id.clone(), tokens);
                    Arc::make_mut(&mut self.documents.contents).insert(id.clone(), content);
                }
            }
        }
    }

    /// How much text of the next document the model is given: as much as is configured, and all of them together no more
    /// than half of its context. What an earlier document is given does not depend on later ones, so that a conversation
    /// keeps its beginning.
    fn document_room(&mut self) -> usize {
        let configured = self.shared.settings.document_context_bytes;
        let half = self.told_window().map(|window| window / 2 * BYTES_PER_TOKEN);
        let room = self.documents.room.or(half);
        self.documents.room = room;
        let share = room.map_or(u64::MAX, |room| room / 2);
        configured.min(usize::try_from(share).unwrap_or(usize::MAX))
    }

    /// Waits as long as the store is in trouble: the turn must not be lost because of it.
    async fn look_up(&self, id: &DocumentId, name: &str, max: usize) -> Loaded {
        loop {
            match self.load_document(id, name, max).await {
                Ok(loaded) => return loaded,
                Err(error) if error.is_retryable() => {
                    tracing::warn!(turn = %self.log.turn(), document = %id, %error, "cannot read a document yet");
                    tokio::time::sleep(STORE_WAIT).await;
                }
                Err(error) => {
                    tracing::error!(turn = %self.log.turn(), document = %id, %error, "cannot read a document");
                    return Loaded::note(name, format!("[The document {name:?} cannot be read.]"));
                }
            }
        }
    }

    async fn load_document(&self, id: &DocumentId, name: &str, max: usize) -> Result<Loaded, StoreError> {
        let row = self.shared.store.record(&self.tenant, RecordKind::Document, id.as_str()).await?;
        let Some(document) = row.and_then(Document::of) else {
            return Ok(Loaded::note(name, format!("[The document {name:?} was deleted.]")));
        };
        let Document { name, media_type, bytes, cut, .. } = &document;
        let (store, tenant) = (&*self.shared.store, &self.tenant);
        if let Some(text) = document.text(store, tenant).await? {
            let is_pdf = media_type == "application/pdf" && *bytes <= MAX_PDF;
            let base64 = match is_pdf && self.agent.models.iter().any(|model| model.reads_pdf()) {
                true => self.encoded(id, &document, "").await?,
                false => None,
            };
            let text = everturn_documents::for_model(name, media_type, &text, *cut, max);
            let (name, media_type) = (name.clone(), media_type.clone());
            return Ok(Loaded::Content(DocumentContent { name, media_type, text, base64 }));
        }
        if *bytes > MAX_IMAGE {
            let note =
                format!("[The image {name:?} has {bytes} bytes, too many to be shown; the limit is {MAX_IMAGE}.]");
            return Ok(Loaded::note(name, note));
        }
        let prefix = format!("data:{media_type};base64,");
        // Deleted since: an image without data, which is left out.
        let url = self.encoded(id, &document, &prefix).await?.unwrap_or_else(|| prefix.into());
        Ok(Loaded::Image(vec![Block::Text(format!("[The image {name:?}:]")), Block::Image { url }]))
    }

    /// A document in base64, after a prefix that only its type decides. Nothing if it was deleted meanwhile.
    async fn encoded(
        &self,
        id: &DocumentId,
        document: &Document,
        prefix: &str,
    ) -> Result<Option<SharedText>, StoreError> {
        let (encoded, tenant) = (&self.shared.encoded, &self.tenant);
        if let Some(known) = encoded.get(tenant, id) {
            return Ok(Some(known));
        }
        let Some(content) = document.content(&*self.shared.store, tenant).await? else { return Ok(None) };
        let mut text = String::with_capacity(prefix.len() + content.len().div_ceil(3) * 4);
        text.push_str(prefix);
        STANDARD.encode_string(content, &mut text);
        let text = SharedText::from(text);
        encoded.put(tenant, id, text.clone());
        Ok(Some(text))
    }

    /// Messages with their images in place.
    pub(crate) fn with_documents(&self, messages: Messages) -> Messages {
        let documents = &self.documents;
        if documents.images.is_empty() {
            return messages;
        }
        let earlier = documents.place_earlier(messages.earlier());
        let since = messages.since().replaced(|piece| documents.place(piece));
        Messages::after(earlier, since.unwrap_or_else(|| messages.since().clone()))
    }
}

/// What a model is given of one document.
enum Loaded {
    Image(Vec<Block>),
    Content(DocumentContent),
}

impl Loaded {
    /// A sentence instead of the document.
    fn note(name: &str, text: String) -> Self {
        Self::Content(DocumentContent { name: name.to_owned(), media_type: String::new(), text, base64: None })
    }
}
