//! `/artifacts`: what agents have written, in all its versions.

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use everturn_core::{ArtifactId, TenantId};
use everturn_engine::{Artifact, ArtifactVersion};
use everturn_http::{Scope, document};
use everturn_tools::ArtifactType;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    answers::{Always, Listed, NoArtifact},
    code::Code,
    download::{Download, file_name},
    error::{ApiError, ErrorBody, Thing},
    links::artifact_url,
    paging::{List, ListQuery, Page, Paged},
    path,
    routes::Api,
    time::rfc3339,
};

/// A page of artifacts.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Artifacts)]
struct Artifacts<'a> {
    artifacts: Vec<ArtifactOut<'a>>,
    /// For the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

/// Something that an agent has written.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Artifact)]
struct ArtifactOut<'a> {
    artifact_id: &'a str,
    #[schema(schema_with = types)]
    artifact_type: &'static str,
    title: &'a str,
    /// Of programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    language: Option<&'a str>,
    /// The last one.
    version: u32,
    content_type: &'static str,
    session_id: &'a str,
    /// Where the last version is.
    download_url: String,
    versions: Vec<VersionOut<'a>>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

fn types() -> document::AnySchema {
    let all = ["text", "markdown", "html", "code", "csv", "json", "svg"];
    document::schema(json!({ "type": "string", "enum": all }))
}

/// A version of an artifact.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::ArtifactVersion)]
struct VersionOut<'a> {
    version: u32,
    title: &'a str,
    bytes: usize,
    /// The message that it was written in.
    message_id: &'a str,
    download_url: String,
    #[schema(format = DateTime)]
    created_at: String,
}

impl<'a> From<&'a Artifact> for ArtifactOut<'a> {
    fn from(artifact: &'a Artifact) -> Self {
        let last = artifact.last();
        let version = last.map_or(0, |last| last.version);
        let shown = |version: &'a ArtifactVersion| VersionOut {
            version: version.version,
            title: &version.title,
            bytes: version.bytes,
            message_id: version.turn.as_str(),
            download_url: artifact_url(&artifact.id, version.version),
            created_at: rfc3339(version.created_at),
        };
        Self {
            artifact_id: artifact.id.as_str(),
            artifact_type: artifact.artifact_type.as_str(),
            title: last.map_or("", |last| &last.title),
            language: artifact.language.as_deref(),
            version,
            content_type: artifact.artifact_type.content_type(),
            session_id: artifact.session.as_str(),
            download_url: artifact_url(&artifact.id, version),
            versions: artifact.versions.iter().map(shown).collect(),
            created_at: rfc3339(artifact.created_at),
            updated_at: rfc3339(artifact.updated_at),
        }
    }
}

/// List artifacts
///
/// What agents have written, newest first.
#[utoipa::path(
    get, path = "/artifacts", operation_id = "native_list_artifacts",
    params(
        Paged<{ List::Artifacts.letter() }>,
        ("session_id" = Option<String>, Query, description = "Of this session only", nullable = false),
    ),
    responses(
        (status = 200, description = "A page", body = Artifacts<'_>, example = json!({ "artifacts": [{
            "artifact_id": "art_0198c0ffee", "artifact_type": "markdown", "title": "Plan", "version": 1,
            "content_type": "text/markdown; charset=utf-8", "session_id": "sess_0198c0ffee",
            "download_url": "/api/v1/artifacts/art_0198c0ffee?version=1",
            "versions": [{
                "version": 1, "title": "Plan", "bytes": 412, "message_id": "turn_0198c0ffee",
                "download_url": "/api/v1/artifacts/art_0198c0ffee?version=1", "created_at": "2026-07-25T17:20:00.120Z",
            }],
            "created_at": "2026-07-25T17:20:00.120Z", "updated_at": "2026-07-25T17:20:00.120Z",
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
    let Query(query) = query?;
    let page = Page::new(List::Artifacts, &query)?;
    let mut artifacts = match query.session() {
        Some(session) => api.engine.artifacts(&caller.tenant, session, page.below, page.wanted()).await?,
        None => Vec::new(),
    };
    let next_cursor = page.cut(&mut artifacts, |artifact| artifact.position);
    let artifacts = artifacts.iter().map(ArtifactOut::from).collect();
    Ok(Json(Artifacts { artifacts, next_cursor }).into_response())
}

/// Show an artifact and its versions
#[utoipa::path(
    get, path = "/artifacts/{artifact}/versions", operation_id = "native_show_artifact",
    params(("artifact" = String, Path, description = "The artifact", example = "art_0198c0ffee")),
    responses(
        (status = 200, description = "The artifact", body = ArtifactOut<'_>, example = json!({
            "artifact_id": "art_0198c0ffee", "artifact_type": "markdown", "title": "Plan", "version": 1,
            "content_type": "text/markdown; charset=utf-8", "session_id": "sess_0198c0ffee",
            "download_url": "/api/v1/artifacts/art_0198c0ffee?version=1",
            "versions": [{
                "version": 1, "title": "Plan", "bytes": 412, "message_id": "turn_0198c0ffee",
                "download_url": "/api/v1/artifacts/art_0198c0ffee?version=1", "created_at": "2026-07-25T17:20:00.120Z",
            }],
            "created_at": "2026-07-25T17:20:00.120Z", "updated_at": "2026-07-25T17:20:00.120Z",
        })),
        Always, NoArtifact,
    ),
)]
pub(crate) async fn versions(
    State(api): State<Api>,
    path: path::One,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let artifact = api.artifact(&caller.tenant, path).await?;
    Ok(Json(ArtifactOut::from(&artifact)).into_response())
}

#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DownloadQuery {
    /// Which version, if not the last
    #[param(value_type = Option<u32>, nullable = false, minimum = 1)]
    version: Option<String>,
}

/// Download an artifact
#[utoipa::path(
    get, path = "/artifacts/{artifact}", operation_id = "native_download_artifact",
    params(
        ("artifact" = String, Path, description = "The artifact", example = "art_0198c0ffee"),
        DownloadQuery,
        ("If-None-Match" = Option<String>, Header, description = "The ETag of what the client has", nullable = false),
    ),
    responses(
        (
            status = 200, description = "Its content",
            headers(
                ("ETag" = String, description = "The same for the same content only"),
                ("Content-Disposition" = String, description = "The name of the file"),
            ),
            content(
                (String = "text/plain"), (String = "text/markdown"), (String = "text/html"), (String = "text/csv"),
                (String = "image/svg+xml"), ("application/json"),
            ),
        ),
        (status = 304, description = "The client has it: If-None-Match names its ETag"),
        (status = 422, description = "The query is not as it must be", body = ErrorBody, example = json!({
            "detail": { "code": "VALIDATION_FAILED", "message": "Failed to deserialize query string" },
        })),
        Always, NoArtifact,
    ),
)]
pub(crate) async fn download(
    State(api): State<Api>,
    path: path::One,
    headers: HeaderMap,
    query: Result<Query<DownloadQuery>, QueryRejection>,
) -> Result<Response, ApiError> {
    let caller = api.caller(&headers, Scope::Read)?;
    let Query(query) = query?;
    let artifact = api.artifact(&caller.tenant, path).await?;
    let found = match &query.version {
        Some(wanted) => artifact.versions.iter().find(|version| version.version.to_string() == *wanted),
        None => artifact.last(),
    };
    let version = found.ok_or_else(|| no_version(&artifact.id, query.version.as_deref().unwrap_or_default()))?;
    let name = name_of(&version.title, artifact.artifact_type);
    let tag = format!("{}-{}", artifact.id, version.version);
    let download = Download { name: &name, content_type: artifact.artifact_type.content_type(), tag };
    if download.is_known(&headers) {
        return Ok(download.unchanged());
    }
    let content = api.engine.artifact_content(&caller.tenant, &artifact.id, version.version).await?;
    // Deleted between the two looks.
    let content = content.ok_or_else(|| ApiError::no(Thing::Artifact, artifact.id.as_str()))?;
    Ok(download.answer(content))
}

impl Api {
    async fn artifact(&self, tenant: &TenantId, path: path::One) -> Result<Artifact, ApiError> {
        let name = path::name(path, Thing::Artifact)?;
        let artifact = match name.parse() {
            Ok(id) => self.engine.artifact(tenant, &id).await?,
            Err(_) => None,
        };
        artifact.ok_or_else(|| ApiError::no(Thing::Artifact, &name))
    }
}

fn no_version(artifact: &ArtifactId, wanted: &str) -> ApiError {
    let shown: String = wanted.chars().take(64).collect();
    ApiError::new(Code::ArtifactNotFound, format!("the artifact {artifact} has no version {shown:?}"))
        .hint(format!("GET /api/v1/artifacts/{artifact}/versions lists them"))
}

/// The name of the file. A program that is called by a file's name, `primes.py`, keeps it.
fn name_of(title: &str, artifact_type: ArtifactType) -> String {
    let own = title
        .rsplit_once('.')
        .map(|(_, end)| end)
        .filter(|end| (1..=5).contains(&end.len()) && end.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    match (artifact_type, own) {
        (ArtifactType::Code, Some(extension)) => file_name(title, extension),
        _ => file_name(title, artifact_type.extension()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_keep_their_names() {
        assert_eq!(name_of("primes.py", ArtifactType::Code), "primes.py");
        assert_eq!(name_of("Prime numbers", ArtifactType::Code), "Prime numbers.txt");
        assert_eq!(name_of("Version 1. Final", ArtifactType::Code), "Version 1. Final.txt");
        assert_eq!(name_of("page.exe", ArtifactType::Html), "page.exe.html");
    }
}
