//! `file` parts: they become documents, so that the model is given them as every other document.
//!
//! A client sends its files again with every request. What they hold names them, so that they are kept once.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use everturn_core::{Block, Content, DocumentId, Message};
use everturn_engine::{SubmitError, UploadError};
use everturn_http::{Caller, named_submission};

use crate::{
    error::ApiError,
    messages::{Conversation, News},
    request::FileIn,
    routes::Api,
};

/// What a file is called that has no name.
const UNNAMED: &str = "file";

/// A file that a request brings, or names.
#[derive(Debug)]
pub(crate) struct File {
    /// Stands for the document in the conversation until it is kept.
    id: DocumentId,
    name: String,
    source: Source,
    /// Where it stands in the request.
    param: String,
}

#[derive(Debug)]
enum Source {
    Content(Vec<u8>),
    /// A document that was uploaded before.
    Uploaded(String),
}

impl File {
    /// Reads a part; `param` is where it stands.
    pub(crate) fn of(file: FileIn, param: String) -> Result<Self, ApiError> {
        let FileIn { file_data, file_id, filename } = file;
        let source = match (file_data, file_id) {
            (Some(data), _) => Source::Content(content(&data).ok_or_else(|| {
                let message = "it must be base64, or a data:…;base64,… URL";
                ApiError::invalid(format!("{param}.file_data"), message)
            })?),
            (None, Some(id)) => Source::Uploaded(id),
            (None, None) => return Err(ApiError::invalid(param, "it has neither file_data nor file_id")),
        };
        let name = filename.filter(|name| !name.is_empty()).unwrap_or_else(|| UNNAMED.to_owned());
        Ok(Self { id: DocumentId::mint(), name, source, param })
    }

    /// What stands for it in a message.
    pub(crate) fn block(&self) -> Block {
        Block::Document { id: self.id.clone(), name: self.name.clone() }
    }
}

/// The bytes of base64, with or without what makes a URL of it.
fn content(data: &str) -> Option<Vec<u8>> {
    let digits = match data.strip_prefix("data:") {
        Some(rest) => rest.split_once(";base64,")?.1,
        None => data,
    };
    STANDARD.decode(digits.trim()).ok().filter(|bytes| !bytes.is_empty())
}

impl Api {
    /// Keeps the files of a conversation, which then speaks of documents.
    pub(crate) async fn keep_files(&self, caller: &Caller, conversation: &mut Conversation) -> Result<(), ApiError> {
        for file in std::mem::take(&mut conversation.files) {
            let document = match &file.source {
                Source::Content(bytes) => {
                    let key = named_submission(String::new(), &format!("file {}", file.name), bytes);
                    let key = named_submission(format!("openai-file-{}", key.fingerprint), &file.name, bytes);
                    let upload = |key| self.engine.upload(&caller.tenant, &file.name, bytes.clone().into(), key);
                    let kept = match upload(Some(key)).await {
                        // Somebody has deleted it since it was sent before.
                        Err(UploadError::Gone) => upload(None).await,
                        kept => kept,
                    };
                    let kept = kept.map_err(|error| match error {
                        UploadError::Document(error) => ApiError::invalid(file.param.clone(), error),
                        UploadError::Store(error) => error.into(),
                        error @ (UploadError::Busy | UploadError::NoReader) => ApiError::unavailable(error.to_string()),
                        error => ApiError::internal(&error),
                    })?;
                    Block::Document { id: kept.id, name: kept.name }
                }
                Source::Uploaded(id) => {
                    let found = self.engine.document_blocks(&caller.tenant, std::slice::from_ref(id)).await;
                    let mut found = found.map_err(|error| match error {
                        SubmitError::UnknownDocument { id } => {
                            let message = format!("there is no document {id:?}; POST /api/v1/documents uploads one");
                            ApiError::invalid(format!("{}.file_id", file.param), message)
                        }
                        error => ApiError::submit(error, None),
                    })?;
                    found.pop().ok_or_else(|| ApiError::invalid(file.param.clone(), "the document is gone"))?
                }
            };
            conversation.messages.iter_mut().filter_map(said).for_each(|content| replace(content, &file.id, &document));
            if let News::Said(content, _) = &mut conversation.news {
                replace(content, &file.id, &document);
            }
        }
        Ok(())
    }
}

/// What the user said.
fn said(message: &mut Message) -> Option<&mut Content> {
    match message {
        Message::User { content } => Some(content),
        Message::System { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
    }
}

fn replace(content: &mut Content, placeholder: &DocumentId, document: &Block) {
    let Content::Blocks(blocks) = content else { return };
    for block in blocks {
        if matches!(block, Block::Document { id, .. } if id == placeholder) {
            *block = document.clone();
        }
    }
}
