//! Documents: what people give agents to read. A record, with the content in parts beside it.

use std::time::Duration;

use bytes::Bytes;
use everturn_core::{Block, DocumentId, Json, TenantId, Timestamp};
use everturn_documents::{Bounds, DocumentError, ReadError, clean_name};
use everturn_store::{
    Command, CommandKey, Expect, Put, Record, RecordFilter, RecordKind, RecordRow, Refusal, Store, StoreError, Write,
};
use serde::{Deserialize, Serialize};

use crate::{Engine, QuotaExceeded, SubmissionKey, SubmitError, TenantSlot, TenantSlots, committer::CommitError};

/// Content is kept in parts of this size, each by a commit of its own, so that a large document holds nobody up.
const PART_BYTES: usize = 1024 * 1024;
/// The part that holds extracted text. Content begins at part 1.
const TEXT_PART: u32 = 0;

/// The gate of a tenant's documents while they are stored. No session has this name.
const STORING: &str = "/documents";
/// Documents that are read at once.
const READERS: usize = 4;
/// Documents of one tenant that are read at once.
const READERS_OF_A_TENANT: usize = 2;
/// How long a document waits until others have been read.
const READER_PATIENCE: Duration = Duration::from_secs(30);

/// Bounds how many documents are read at once.
pub(crate) fn reader_slots() -> TenantSlots {
    TenantSlots::new(READERS, READERS_OF_A_TENANT)
}

/// States of a document.
pub(crate) const PARTIAL: &str = "partial";
const READY: &str = "ready";

#[derive(Serialize, Deserialize)]
struct Body {
    name: String,
    media_type: String,
    bytes: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pages: Option<u32>,
    has_text: bool,
    /// Whether the document had more text than was kept.
    #[serde(default)]
    cut: bool,
}

/// A document as it is kept.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its place in the list.
    pub position: u64,
    /// Its name for programs.
    pub id: DocumentId,
    /// Its name for people.
    pub name: String,
    /// What it is, by its content.
    pub media_type: String,
    /// How long it is.
    pub bytes: usize,
    /// How many pages it has, if it has pages.
    pub pages: Option<u32>,
    /// Whether it had more text than was kept of it.
    pub cut: bool,
    /// When it was uploaded.
    pub created_at: Timestamp,
    has_text: bool,
}

impl Document {
    /// The document in a record, if it is complete.
    pub(crate) fn of(row: RecordRow) -> Option<Self> {
        if row.record.state != READY {
            return None;
        }
        let Body { name, media_type, bytes, pages, has_text, cut } =
            serde_json::from_str(row.record.body.as_str()).ok()?;
        let id = row.record.id.parse().ok()?;
        Some(Self {
            position: row.position,
            id,
            name,
            media_type,
            bytes,
            pages,
            cut,
            created_at: row.created_at,
            has_text,
        })
    }

    /// Its text, if it has any.
    pub(crate) async fn text(&self, store: &dyn Store, tenant: &TenantId) -> Result<Option<String>, StoreError> {
        if !self.has_text {
            return Ok(None);
        }
        let text = store.blob(tenant, RecordKind::Document, self.id.as_str(), TEXT_PART).await?.unwrap_or_default();
        Ok(Some(String::from_utf8_lossy(&text).into_owned()))
    }

    /// How many parts its content has.
    pub fn parts(&self) -> u32 {
        u32::try_from(self.bytes.div_ceil(PART_BYTES)).unwrap_or(u32::MAX)
    }

    /// Its content.
    pub(crate) async fn content(&self, store: &dyn Store, tenant: &TenantId) -> Result<Option<Bytes>, StoreError> {
        let mut content = Vec::with_capacity(self.bytes);
        for part in 1..=self.parts() {
            match store.blob(tenant, RecordKind::Document, self.id.as_str(), part).await? {
                Some(bytes) => content.extend_from_slice(&bytes),
                None => return Ok(None),
            }
        }
        Ok(Some(content.into()))
    }
}

/// Why a document was not taken.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// It is not one that can be read.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// The tenant stores as much as it may, or would with this document.
    #[error(transparent)]
    Quota(QuotaExceeded),
    /// The key of another request.
    #[error("the idempotency key {key:?} was used for another request; send a new key with a new request")]
    KeyReused {
        /// The key.
        key: String,
    },
    /// What the key stands for was deleted since.
    #[error("the document that was uploaded with this idempotency key has been deleted")]
    Gone,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store refused it, for a reason that is ours.
    #[error("the store refused the document: {0}")]
    Rejected(Refusal),
    /// Too many others are being read.
    #[error("too many documents are being read at the moment; try again later")]
    Busy,
    /// No reader could be started. The log says why.
    #[error("the document could not be read because no reader could be started; try again later")]
    NoReader,
    /// A fault of ours.
    #[error("the document could not be read because of a fault in the server")]
    Crashed,
}

impl From<CommitError> for UploadError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Store(error) | CommitError::Unknown { error, .. } => Self::Store(error),
            CommitError::Refused(refusal) => Self::Rejected(refusal),
        }
    }
}

impl Engine {
    /// Takes a document. What it is, its content tells, not its name.
    pub async fn upload(
        &self,
        tenant: &TenantId,
        name: &str,
        content: Bytes,
        key: Option<SubmissionKey>,
    ) -> Result<Document, UploadError> {
        if let Some(key) = &key
            && let Some(kept) = self.0.store.kept(tenant, &key.key, Timestamp::now()).await?
        {
            return self.uploaded_before(tenant, key, &kept.fingerprint, &kept.outcome).await;
        }
        self.check_storage(tenant, content.len() as u64).await?;
        // A client that goes away while it waits takes its document with it.
        let slot = tokio::time::timeout(READER_PATIENCE, self.0.readers.acquire(tenant)).await.ok().flatten();
        let slot = slot.ok_or(UploadError::Busy)?;
        let (engine, tenant, name) = (self.clone(), tenant.clone(), clean_name(name));
        // To its end, whether or not the client stays.
        let task = self.0.tasks.spawn(async move { engine.keep_document(&tenant, name, content, key, slot).await });
        task.await.unwrap_or(Err(UploadError::Crashed))
    }

    async fn keep_document(
        &self,
        tenant: &TenantId,
        name: String,
        content: Bytes,
        key: Option<SubmissionKey>,
        slot: TenantSlot,
    ) -> Result<Document, UploadError> {
        let bounds = Bounds { bytes: self.0.settings.document_bytes, ..Bounds::default() };
        let reading = self.0.settings.document_reader.read(name.clone(), content.clone(), bounds);
        let read = reading.await.map_err(|error| match error {
            ReadError::Document(error) => UploadError::Document(error),
            ReadError::Failed(error) => {
                tracing::error!(error, "no reader of documents could be started");
                UploadError::NoReader
            }
        })?;
        drop(slot);
        // One after the other, so that two together do not pass a limit that each of them keeps.
        let storing = self.0.sessions.of(tenant, STORING);
        let _alone = storing.lock().await;
        let text = read.text.as_ref().map_or(0, String::len);
        self.check_storage(tenant, (content.len() + text) as u64).await?;
        let id = DocumentId::mint();
        let body = Body {
            name,
            media_type: read.media_type.to_owned(),
            bytes: content.len(),
            pages: read.pages,
            has_text: read.text.is_some(),
            cut: read.cut,
        };
        let record = |state: &str, body: &Body| {
            Ok::<_, UploadError>(Write::Record(Record {
                kind: RecordKind::Document,
                id: id.as_str().to_owned(),
                session: None,
                turn: None,
                state: state.to_owned(),
                body: Json::of(body).map_err(|_| UploadError::Crashed)?,
                outcome: None,
            }))
        };
        let blob = |part: u32, bytes: Bytes| Write::Blob {
            kind: RecordKind::Document,
            id: id.as_str().to_owned(),
            part,
            bytes,
        };
        let mut first = vec![record(PARTIAL, &body)?];
        first.extend(read.text.map(|text| blob(TEXT_PART, text.into())));
        self.put(tenant, first, None).await?;
        for (part, start) in (1..).zip((0..content.len()).step_by(PART_BYTES)) {
            let bytes = content.slice(start..content.len().min(start + PART_BYTES));
            self.put(tenant, vec![blob(part, bytes)], None).await?;
        }
        let kept = key.as_ref().map(|key| CommandKey {
            key: key.key.clone(),
            fingerprint: key.fingerprint.clone(),
            outcome: id.as_str().to_owned(),
        });
        match self.put(tenant, vec![record(READY, &body)?], kept).await {
            // Two at once: the other one was first.
            Err(CommitError::Refused(Refusal::Repeated { fingerprint, outcome })) if outcome != id.as_str() => {
                self.remove(tenant, &id).await?;
                match &key {
                    Some(key) => return self.uploaded_before(tenant, key, &fingerprint, &outcome).await,
                    None => return Err(UploadError::Crashed),
                }
            }
            Ok(()) | Err(CommitError::Refused(Refusal::Repeated { .. })) => {}
            Err(error) => return Err(error.into()),
        }
        self.document(tenant, &id).await?.ok_or(UploadError::Gone)
    }

    async fn uploaded_before(
        &self,
        tenant: &TenantId,
        key: &SubmissionKey,
        fingerprint: &str,
        outcome: &str,
    ) -> Result<Document, UploadError> {
        if key.fingerprint != fingerprint {
            return Err(UploadError::KeyReused { key: key.key.clone() });
        }
        let id: DocumentId = outcome.parse().map_err(|_| UploadError::KeyReused { key: key.key.clone() })?;
        self.document(tenant, &id).await?.ok_or(UploadError::Gone)
    }

    pub(crate) async fn put(
        &self,
        tenant: &TenantId,
        writes: Vec<Write>,
        key: Option<CommandKey>,
    ) -> Result<(), CommitError> {
        self.put_if(tenant, Vec::new(), writes, key).await
    }

    pub(crate) async fn put_if(
        &self,
        tenant: &TenantId,
        expects: Vec<Expect>,
        writes: Vec<Write>,
        key: Option<CommandKey>,
    ) -> Result<(), CommitError> {
        let put = Put { tenant: tenant.clone(), expects, writes, key, at: Timestamp::now() };
        self.0.committer.commit(Command::Put(Box::new(put))).await.map(drop)
    }

    async fn remove(&self, tenant: &TenantId, id: &DocumentId) -> Result<(), CommitError> {
        let remove = Write::Remove { kind: RecordKind::Document, id: id.as_str().to_owned() };
        self.put(tenant, vec![remove], None).await
    }

    /// A page of the tenant's documents, newest first.
    pub async fn documents(
        &self,
        tenant: &TenantId,
        below: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Document>, StoreError> {
        let filter = RecordFilter { session: None, state: Some(READY.to_owned()) };
        let rows = self.0.store.records(tenant, RecordKind::Document, &filter, below, limit).await?;
        Ok(rows.into_iter().filter_map(Document::of).collect())
    }

    /// One document.
    pub async fn document(&self, tenant: &TenantId, id: &DocumentId) -> Result<Option<Document>, StoreError> {
        Ok(self.0.store.record(tenant, RecordKind::Document, id.as_str()).await?.and_then(Document::of))
    }

    /// A part of a document's content, from 1; `None` if it was deleted meanwhile.
    pub async fn document_part(
        &self,
        tenant: &TenantId,
        document: &DocumentId,
        part: u32,
    ) -> Result<Option<Bytes>, StoreError> {
        self.0.store.blob(tenant, RecordKind::Document, document.as_str(), part).await
    }

    /// Deletes a document; `false` if there is none. Turns that spoke of it find it deleted.
    pub async fn delete_document(
        &self,
        tenant: &TenantId,
        id: &DocumentId,
        key: Option<SubmissionKey>,
    ) -> Result<bool, UploadError> {
        let kept = key.as_ref().map(|key| CommandKey {
            key: key.key.clone(),
            fingerprint: key.fingerprint.clone(),
            outcome: id.as_str().to_owned(),
        });
        if let Some(key) = &key
            && let Some(kept) = self.0.store.kept(tenant, &key.key, Timestamp::now()).await?
        {
            let same = kept.fingerprint == key.fingerprint;
            return if same { Ok(true) } else { Err(UploadError::KeyReused { key: key.key.clone() }) };
        }
        if self.document(tenant, id).await?.is_none() {
            return Ok(false);
        }
        let remove = Write::Remove { kind: RecordKind::Document, id: id.as_str().to_owned() };
        match self.put(tenant, vec![remove], kept).await {
            Ok(()) | Err(CommitError::Refused(Refusal::Repeated { .. })) => {
                self.0.encoded.forget(tenant, id);
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The blocks of a message that speaks of these documents.
    pub async fn document_blocks(&self, tenant: &TenantId, ids: &[String]) -> Result<Vec<Block>, SubmitError> {
        let mut blocks = Vec::with_capacity(ids.len());
        for id in ids {
            let unknown = || SubmitError::UnknownDocument { id: id.chars().take(128).collect() };
            let id: DocumentId = id.parse().map_err(|_| unknown())?;
            let document = self.document(tenant, &id).await?.ok_or_else(unknown)?;
            blocks.push(Block::Document { id, name: document.name });
        }
        Ok(blocks)
    }
}
