//! Artifacts: what agents write for people to keep.

use serde::{Deserialize, Serialize};

use crate::ArtifactId;

/// See [`crate::Event::ArtifactStarted`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactStarted {
    /// The artifact.
    pub id: ArtifactId,
    /// From 1.
    pub version: u32,
    /// What kind of artifact, for people and programs that show it.
    pub artifact_type: String,
    /// Its name for people.
    pub title: String,
}

/// See [`crate::Event::ArtifactDelta`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactDelta {
    /// The artifact.
    pub id: ArtifactId,
    /// Counts from 0 within the version.
    pub index: u32,
    /// The piece.
    pub text: String,
}

/// A version of an artifact that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRef {
    /// The artifact.
    pub id: ArtifactId,
    /// From 1.
    pub version: u32,
    /// Its name for people.
    pub title: String,
    /// Media type of its content.
    pub content_type: String,
}
