//! `/documents`: what people have given agents to read. `upload.rs` takes them.

use std::io;

use axum::{
    Json,
    body::Bytes,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use everturn_core::TenantId;
use everturn_engine::{Document, Engine};
use everturn_http::{Scope, document, submission_key};
use futures_util::{Stream, StreamExt as _, stream};
use http::{HeaderMap, StatusCode};
use serde::Serialize;

use crate::{
    answers::{Always, Keyed, Listed, NoDocument},
    download::Download,
    error::{ApiError, Thing},
    paging::{List, ListQuery, Page, Paged},
    path,
    routes::Api,
    time::rfc3339,
};

/// A page of documents.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Documents)]
struct Documents<'a> {
    documents: Vec<DocumentOut<'a>>,
    /// For the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// A document.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Document)]
pub(crate) struct DocumentOut<'a> {
    document_id: &'a str,
    name: &'a str,
    content_type: &'a str,
    bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pages: Option<u32>,
    /// Whether it has more text than agents are given; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    text_cut: bool,
    #[schema(format = DateTime)]
    created_at: String,
}

impl<'a> From<&'a Document> for DocumentOut<'a> {
    fn from(document: &'a Document) -> Self {
        Self {
            document_id: document.id.as_str(),
            name: &document.name,
            content_type: &document.media_type,
            bytes: document.bytes,
            pages: document.pages,
            text_cut: document.cut,
            created_at: rfc3339(document.created_at),
        }
    }
}

/// List documents
///
/// What people have given agents to read, newest first.
#[utoipa::path(
    get, path = "/documents", operation_id = "native_list_documents",
    params(Paged<{ List::Documents.letter() }>),
    responses(
        (status = 200, description = "A page", body = Documents<'_>, example = json!({ "documents": [{
            "document_id": "doc_0198c0ffee", "name": "report.pdf", "content_type": "application/pdf", "bytes": 48213,
            "pages": 12, "created_at": "2026-07-25T17:20:00.120Z",
        }] })),
        Always, Listed,
    ),
)]
pub(crate) async fn list(
    State(api): State<Api>,
    headers: HeaderMap,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let page = Page::new(List::Documents, &query?.0)?;
    let mut documents = api.engine.documents(&caller.tenant, page.below, page.wanted()).await?;
    let next_cursor = page.cut(&mut documents, |document| document.position);
    let documents = documents.iter().map(DocumentOut::from).collect();
    Ok(Json(Documents { documents, next_cursor }).into_response())
}

/// Show a document
#[utoipa::path(
    get, path = "/documents/{document}", operation_id = "native_show_document",
    params(("document" = String, Path, description = "The document", example = "doc_0198c0ffee")),
    responses(
        (status = 200, description = "The document", body = DocumentOut<'_>, example = json!({
            "document_id": "doc_0198c0ffee", "name": "report.pdf", "content_type": "application/pdf", "bytes": 48213,
            "pages": 12, "created_at": "2026-07-25T17:20:00.120Z",
        })),
        Always, NoDocument,
    ),
)]
pub(crate) async fn show(State(api): State<Api>, path: path::One, headers: HeaderMap) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let document = api.document(&caller.tenant, path).await?;
    Ok(Json(DocumentOut::from(&document)).into_response())
}

/// Download a document
///
/// As it was uploaded.
#[utoipa::path(
    get, path = "/documents/{document}/content", operation_id = "native_download_document",
    params(
        ("document" = String, Path, description = "The document", example = "doc_0198c0ffee"),
        ("If-None-Match" = Option<String>, Header, description = "The ETag of what the client has", nullable = false),
    ),
    responses(
        (
            status = 200, description = "Its content, of the type that it has",
            headers(
                ("ETag" = String, description = "The same for the same content only"),
                ("Content-Disposition" = String, description = "The name of the file"),
            ),
            content_type = "*/*",
        ),
        (status = 304, description = "The client has it: If-None-Match names its ETag"),
        Always, NoDocument,
    ),
)]
pub(crate) async fn download(
    State(api): State<Api>,
    path: path::One,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let document = api.document(&caller.tenant, path).await?;
    let (content_type, tag) = (document.media_type.as_str(), document.id.to_string());
    let download = Download { name: &document.name, content_type, tag };
    if download.is_known(&headers) {
        return Ok(download.unchanged());
    }
    let first = api.engine.document_part(&caller.tenant, &document.id, 1).await?;
    // Deleted between the two looks.
    let first = first.ok_or_else(|| ApiError::no(Thing::Document, document.id.as_str()))?;
    Ok(download.stream(document.bytes, parts(api.engine.clone(), caller.tenant, document.clone(), first)))
}

/// The content part by part, so that a slow client holds no more than one of them in memory.
fn parts(
    engine: Engine,
    tenant: TenantId,
    document: Document,
    first: Bytes,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let rest = stream::unfold((engine, tenant, document, 2), async |(engine, tenant, document, part)| {
        if part > document.parts() {
            return None;
        }
        let read = match engine.document_part(&tenant, &document.id, part).await {
            Ok(Some(bytes)) => Ok(bytes),
            // The client learns by the length that it has not got it all.
            Ok(None) => Err(io::Error::other("the document was deleted")),
            Err(error) => Err(io::Error::other(error)),
        };
        Some((read, (engine, tenant, document, part + 1)))
    });
    stream::once(std::future::ready(Ok(first))).chain(rest)
}

/// Delete a document
#[utoipa::path(
    delete, path = "/documents/{document}", operation_id = "native_delete_document",
    params(
        ("document" = String, Path, description = "The document", example = "doc_0198c0ffee"),
        document::IdempotencyKey,
    ),
    responses((status = 204, description = "It is deleted"), Always, Keyed, NoDocument),
)]
pub(crate) async fn delete(
    State(api): State<Api>,
    path: path::One,
    headers: HeaderMap,
) -> Result<StatusCode, ApiError> {
    let caller = api.caller(&headers, Scope::Chat)?;
    let name = path::name(path, Thing::Document)?;
    let id = name.parse().map_err(|_| ApiError::no(Thing::Document, &name))?;
    let key = submission_key(&headers, &format!("DELETE /api/v1/documents/{id}"), b"")?;
    if api.engine.delete_document(&caller.tenant, &id, key).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(ApiError::no(Thing::Document, &name))
    }
}

impl Api {
    async fn document(&self, tenant: &TenantId, path: path::One) -> Result<Document, ApiError> {
        let name = path::name(path, Thing::Document)?;
        let document = match name.parse() {
            Ok(id) => self.engine.document(tenant, &id).await?,
            Err(_) => None,
        };
        document.ok_or_else(|| ApiError::no(Thing::Document, &name))
    }
}
