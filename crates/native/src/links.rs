//! Where things can be had.

use everturn_core::ArtifactId;

/// Where a version of an artifact can be downloaded.
pub(crate) fn artifact_url(id: &ArtifactId, version: u32) -> String {
    format!("/api/v1/artifacts/{id}?version={version}")
}
