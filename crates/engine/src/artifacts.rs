//! Artifacts: what agents write for people to keep. A record beside the turns, with each version's content.

use bytes::Bytes;
use everturn_core::{ArtifactId, ArtifactRef, CallId, Json, SessionId, TenantId, Timestamp, TurnId};
use everturn_store::{Record, RecordFilter, RecordKind, RecordRow, StoreError, Write};
use everturn_tools::{ArtifactInput, ArtifactType, Target};
use serde::{Deserialize, Serialize};

use crate::{Engine, turn::Turn};

/// How many versions of an artifact are kept.
const MAX_VERSIONS: usize = 100;
/// The state of every artifact.
pub(crate) const KEPT: &str = "kept";

/// One version of an artifact.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ArtifactVersion {
    /// From 1.
    pub version: u32,
    /// Its name for people.
    pub title: String,
    /// How long its content is.
    pub bytes: usize,
    /// The turn that wrote it.
    pub turn: TurnId,
    /// When.
    pub created_at: Timestamp,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Body {
    artifact_type: ArtifactType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    language: Option<String>,
    versions: Vec<ArtifactVersion>,
}

/// An artifact as it is kept.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// Its place in the list.
    pub position: u64,
    /// Its name.
    pub id: ArtifactId,
    /// The session that it belongs to.
    pub session: SessionId,
    /// What its content is.
    pub artifact_type: ArtifactType,
    /// For code: the programming language.
    pub language: Option<String>,
    /// Its versions, in order. Never empty.
    pub versions: Vec<ArtifactVersion>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl Artifact {
    fn of(row: RecordRow) -> Option<Self> {
        let Body { artifact_type, language, versions } = serde_json::from_str(row.record.body.as_str()).ok()?;
        Some(Self {
            position: row.position,
            id: row.record.id.parse().ok()?,
            session: row.record.session?,
            artifact_type,
            language,
            versions,
            created_at: row.created_at,
            updated_at: row.updated_at,
        })
    }

    /// Its last version.
    pub fn last(&self) -> Option<&ArtifactVersion> {
        self.versions.last()
    }
}

impl Engine {
    /// A page of the tenant's artifacts, newest first.
    pub async fn artifacts(
        &self,
        tenant: &TenantId,
        session: Option<SessionId>,
        below: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Artifact>, StoreError> {
        let filter = RecordFilter { session, state: None };
        let rows = self.0.store.records(tenant, RecordKind::Artifact, &filter, below, limit).await?;
        Ok(rows.into_iter().filter_map(Artifact::of).collect())
    }

    /// One artifact.
    pub async fn artifact(&self, tenant: &TenantId, id: &ArtifactId) -> Result<Option<Artifact>, StoreError> {
        Ok(self.0.store.record(tenant, RecordKind::Artifact, id.as_str()).await?.and_then(Artifact::of))
    }

    /// The content of a version.
    pub async fn artifact_content(
        &self,
        tenant: &TenantId,
        id: &ArtifactId,
        version: u32,
    ) -> Result<Option<Bytes>, StoreError> {
        self.0.store.blob(tenant, RecordKind::Artifact, id.as_str(), version).await
    }
}

/// A version that a call writes.
pub(crate) struct Written {
    pub(crate) artifact: ArtifactRef,
    pub(crate) writes: Vec<Write>,
}

impl Turn {
    /// An artifact of this session.
    pub(crate) async fn own_artifact(&self, id: &ArtifactId) -> Result<Option<Artifact>, StoreError> {
        let row = self.shared.store.record(&self.tenant, RecordKind::Artifact, id.as_str()).await?;
        Ok(row.and_then(Artifact::of).filter(|artifact| artifact.session == self.session))
    }

    /// The version that a call writes, or why it cannot; the message is for the model.
    pub(crate) async fn write_artifact(&self, tool: &str, call: &CallId, input: &Json) -> Result<Written, String> {
        let ArtifactInput { target, content } = ArtifactInput::parse(tool, input)?;
        let limit = self.shared.settings.artifact_bytes;
        if content.len() > limit {
            return Err(format!("the content has {} bytes, the limit is {limit}; make it shorter", content.len()));
        }
        let (id, mut body, title) = match target {
            Target::New { title, artifact_type, language } => {
                let body = Body { artifact_type, language, versions: Vec::new() };
                (ArtifactId::of_call(call), body, title)
            }
            Target::Existing { artifact_id, title } => {
                let found = self.own_artifact(&artifact_id).await.map_err(|error| error.to_string())?;
                let Some(Artifact { artifact_type, language, versions, .. }) = found else {
                    return Err(format!("there is no artifact {artifact_id} in this session"));
                };
                let title = title.or_else(|| versions.last().map(|last| last.title.clone())).unwrap_or_default();
                (artifact_id, Body { artifact_type, language, versions }, title)
            }
        };
        if body.versions.len() >= MAX_VERSIONS {
            return Err(format!("the artifact has {MAX_VERSIONS} versions, which is the limit; create another one"));
        }
        let version = body.versions.last().map_or(1, |last| last.version + 1);
        let (turn, created_at) = (self.log.turn().clone(), Timestamp::now());
        let content_type = body.artifact_type.content_type().to_owned();
        body.versions.push(ArtifactVersion { version, title: title.clone(), bytes: content.len(), turn, created_at });
        let record = Record {
            kind: RecordKind::Artifact,
            id: id.as_str().to_owned(),
            session: Some(self.session.clone()),
            turn: Some(self.log.turn().clone()),
            state: KEPT.to_owned(),
            body: Json::of(&body).map_err(|error| error.to_string())?,
            outcome: None,
        };
        let name = id.as_str().to_owned();
        let blob = Write::Blob { kind: RecordKind::Artifact, id: name, part: version, bytes: content.into() };
        let artifact = ArtifactRef { id, version, title, content_type };
        Ok(Written { artifact, writes: vec![Write::Record(record), blob] })
    }
}
