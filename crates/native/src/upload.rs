//! `POST /documents`: takes a document.
//!
//! It is read as it comes, and no further than documents may be long. Only a few are read at once, since each is held in
//! memory until it is stored ([`TenantSlots`]); the others wait. A connection that has sent nothing yet takes no slot, and one that
//! falls silent gives its slot back. What has arrived counts as memory of its tenant.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Json,
    body::{Body, BodyDataStream},
    extract::{FromRequest as _, Multipart, Request, State, multipart::Field},
    response::{IntoResponse, Response},
};
use bytes::{Bytes, BytesMut};
use everturn_engine::{MemoryKind, Reservation, SubmissionKey, TenantSlots};
use everturn_http::{IDEMPOTENCY_KEY, Scope, document, submission_key};
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, StatusCode};
use tokio::time::timeout;

use crate::{
    answers::{Always, NotTaken},
    code::Code,
    documents::DocumentOut,
    error::ApiError,
    routes::Api,
};

/// Uploads at once.
const IN_ALL: usize = 4;
/// Uploads of one tenant at once.
const OF_A_TENANT: usize = 2;
/// How much of a body may be something else than the file, in bytes.
pub(crate) const AROUND_THE_FILE: usize = 1024 * 1024;
/// How long an upload waits until others are done.
const QUEUE_PATIENCE: Duration = Duration::from_secs(30);
/// How long an upload may take.
const UPLOAD_PATIENCE: Duration = Duration::from_secs(5 * 60);
/// How long a client may send nothing.
const SILENCE: Duration = Duration::from_secs(30);

/// Bounds how many are read at once.
pub(crate) fn slots() -> TenantSlots {
    TenantSlots::new(IN_ALL, OF_A_TENANT)
}

/// A form with a file.
#[derive(utoipa::ToSchema)]
#[schema(as = native::Upload)]
#[expect(dead_code, reason = "the form, for the document")]
struct UploadForm {
    /// The document, with its name.
    #[schema(value_type = String, min_length = 1, content_media_type = "application/octet-stream")]
    file: Bytes,
}

/// A file as it was sent.
struct Upload {
    name: String,
    content: Bytes,
}

/// Upload a document
#[utoipa::path(
    post, path = "/documents", operation_id = "native_upload_document",
    params(document::IdempotencyKey),
    request_body(
        content = UploadForm, content_type = "multipart/form-data",
        example = json!({ "file": "(the bytes of report.pdf)" }),
    ),
    responses(
        (status = 201, description = "The document", body = DocumentOut<'_>, example = json!({
            "document_id": "doc_0198c0ffee", "name": "report.pdf", "content_type": "application/pdf", "bytes": 48213,
            "pages": 12, "created_at": "2026-07-25T17:20:00.120Z",
        })),
        Always, NotTaken,
    ),
)]
pub(crate) async fn upload(State(api): State<Api>, headers: HeaderMap, request: Request) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let (parts, body) = request.into_parts();
    let mut chunks = body.into_data_stream();
    let first = timeout(SILENCE, chunks.next()).await.map_err(|_elapsed| silent())?;
    let was_silent = Arc::new(AtomicBool::new(false));
    let body = Body::from_stream(stream::iter(first).chain(stream::unfold(Rest::new(chunks, &was_silent), Rest::next)));
    let form = Multipart::from_request(Request::from_parts(parts, body), &()).await.map_err(|error| {
        ApiError::new(Code::MediaTypeUnsupported, error.body_text())
            .hint("send the document as the field \"file\" of multipart/form-data")
    })?;
    let slot = timeout(QUEUE_PATIENCE, api.uploads.acquire(&caller.tenant)).await.ok().flatten();
    let Some(_slot) = slot else {
        let message = "too many documents are being uploaded at the moment; try again later";
        return Err(ApiError::new(Code::Overloaded, message));
    };
    let memory = api.engine.memory_of(&caller.tenant).nothing(MemoryKind::Uploads);
    let Upload { name, content } = match timeout(UPLOAD_PATIENCE, read(form, api.document_bytes, memory)).await {
        Ok(Err(_)) if was_silent.load(Ordering::Relaxed) => return Err(silent()),
        Ok(read) => read?,
        Err(_elapsed) => return Err(too_slow()),
    };
    let key = key(headers, name.clone(), content.clone()).await?;
    let document = Box::pin(api.engine.upload(&caller.tenant, &name, content, key)).await?;
    Ok((StatusCode::CREATED, Json(DocumentOut::from(&document))).into_response())
}

/// A body after its first chunk. It ends with an error if the client is silent for too long, whichever field that is in.
struct Rest {
    chunks: BodyDataStream,
    was_silent: Arc<AtomicBool>,
}

impl Rest {
    fn new(chunks: BodyDataStream, was_silent: &Arc<AtomicBool>) -> Self {
        Self { chunks, was_silent: Arc::clone(was_silent) }
    }

    async fn next(mut self) -> Option<(Result<Bytes, axum::Error>, Self)> {
        let chunk = match timeout(SILENCE, self.chunks.next()).await {
            Ok(chunk) => chunk?,
            Err(_elapsed) => {
                self.was_silent.store(true, Ordering::Relaxed);
                Err(axum::Error::new(io::Error::from(io::ErrorKind::TimedOut)))
            }
        };
        Some((chunk, self))
    }
}

/// Reads to the end of the form; all but the file is passed over.
async fn read(mut form: Multipart, limit: usize, memory: Reservation) -> Result<Upload, ApiError> {
    let (mut upload, mut memory) = (None, Some(memory));
    while let Some(field) = form.next_field().await? {
        if field.name() != Some("file") {
            continue;
        }
        let Some(memory) = memory.take() else {
            return Err(ApiError::invalid("there are two fields \"file\"; send one document at a time"));
        };
        let name = field.file_name().unwrap_or_default().to_owned();
        upload = Some(Upload { name, content: read_file(field, limit, memory).await? });
    }
    upload.ok_or_else(|| ApiError::invalid("the field \"file\" is missing; send the document in it"))
}

async fn read_file(mut field: Field<'_>, limit: usize, mut memory: Reservation) -> Result<Bytes, ApiError> {
    let mut content = BytesMut::new();
    while let Some(chunk) = field.chunk().await? {
        if content.len() + chunk.len() > limit {
            return Err(ApiError::new(
                Code::DocumentSizeExceeded,
                format!("the document has more than {}, which is the limit", in_words(limit)),
            )
            .hint("split it, or leave out what is not needed"));
        }
        // It is copied as it grows.
        let held = content.capacity().max(content.len() + chunk.len()).saturating_mul(2);
        memory.resize(held as u64)?;
        content.extend_from_slice(&chunk);
    }
    memory.shrink_to(content.capacity() as u64);
    Ok(Bytes::from_owner(Held { content, _memory: memory }))
}

/// A document, and its memory: until the last who works with it is done, also where the client has gone.
struct Held {
    content: BytesMut,
    _memory: Reservation,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.content
    }
}

/// The key covers the file alone: the rest of the body differs each time that a client sends it.
async fn key(headers: HeaderMap, name: String, content: Bytes) -> Result<Option<SubmissionKey>, ApiError> {
    if !headers.contains_key(IDEMPOTENCY_KEY) {
        return Ok(None);
    }
    // A long document takes a moment, which others need not wait for.
    let digest = move || submission_key(&headers, &format!("POST /api/v1/documents {name}"), &content);
    let key = tokio::task::spawn_blocking(digest).await.map_err(|error| ApiError::internal(&error))?;
    Ok(key?)
}

fn too_slow() -> ApiError {
    let seconds = UPLOAD_PATIENCE.as_secs();
    ApiError::new(
        Code::BodyTooSlow,
        format!("the document did not arrive: {seconds} s have passed, which is the limit"),
    )
}

fn silent() -> ApiError {
    let seconds = SILENCE.as_secs();
    let message =
        format!("the document did not arrive: nothing was sent for {seconds} s, which is the limit; send it again");
    ApiError::new(Code::BodyTooSlow, message)
}

/// A number of bytes as people say it.
fn in_words(bytes: usize) -> String {
    const UNITS: [(usize, &str); 2] = [(1_000_000, "MB"), (1_000, "kB")];
    let unit = UNITS.iter().find(|(size, _)| bytes >= *size && bytes.is_multiple_of(*size));
    match unit {
        Some((size, name)) => format!("{} {name}", bytes / size),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_told_in_words() {
        assert_eq!(in_words(50_000_000), "50 MB");
        assert_eq!(in_words(2_500_000), "2500 kB");
        assert_eq!(in_words(1_048_576), "1048576 bytes");
        assert_eq!(in_words(10), "10 bytes");
    }
}
