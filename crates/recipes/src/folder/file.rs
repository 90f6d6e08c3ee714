//! Reading a recipe file, and knowing when to read it again.

use std::{
    fs::{File, Metadata},
    io::Read,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::scan::{Candidate, Format};
use crate::{Recipe, RecipeError, bounds, read, text::Shown};

/// What was in a file.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub(super) recipe: Result<Arc<Recipe>, String>,
    /// What the file was like. None if it had changed so shortly before that a later change would look the same.
    stamp: Option<Stamp>,
}

#[derive(Clone, Debug, PartialEq)]
struct Stamp {
    length: u64,
    modified: SystemTime,
    identity: Identity,
}

/// Clocks of file systems go in steps. Two seconds is the longest known.
const STEP: Duration = Duration::from_secs(2);

impl Loaded {
    /// Whether the file is still the one that was read.
    pub(super) fn is_of(&self, metadata: &Metadata) -> bool {
        self.stamp.is_some() && self.stamp == stamp(metadata)
    }
}

fn stamp(metadata: &Metadata) -> Option<Stamp> {
    let modified = metadata.modified().ok()?;
    Some(Stamp { length: metadata.len(), modified, identity: identity(metadata) })
}

#[cfg(unix)]
type Identity = (u64, u64, i64, i64);

/// Which file it is, and when anything about it changed: a file that is put in its place may be as long and as old.
#[cfg(unix)]
fn identity(metadata: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
type Identity = ();

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {}

/// Reads the file.
pub(super) fn load(folder: &Path, candidate: &Candidate, metadata: &Metadata) -> Loaded {
    let settled = SystemTime::now().checked_sub(STEP);
    let stamp = stamp(metadata).filter(|stamp| settled.is_some_and(|settled| stamp.modified < settled));
    Loaded { recipe: recipe(folder, candidate).map(Arc::new), stamp }
}

fn recipe(folder: &Path, candidate: &Candidate) -> Result<Recipe, String> {
    let bytes = bytes(&folder.join(&candidate.file))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("the file is not text in UTF-8: byte {at} does not belong there")
    })?;
    let document = match candidate.format {
        Format::Yaml => read::read_yaml(&text),
        Format::Json => read::read_json(&text),
    };
    let version = candidate.version.as_deref();
    let recipe = document
        .and_then(|document| Recipe::from_document_or_version(document, version.unwrap_or("1.0.0")))
        .map_err(|error| error.to_string())?;
    match version {
        Some(version) if version != recipe.version => Err(format!(
            "the version is {} by the name of the file but {} inside of it; change one of them",
            Shown(version),
            Shown(&recipe.version)
        )),
        _ => Ok(recipe.in_folder(folder)),
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let unreadable = |error| format!("the file cannot be read: {error}");
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    // It may grow while it is read.
    file.take(bounds::FILE as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > bounds::FILE {
        return Err(RecipeError::TooLarge { limit: bounds::FILE }.to_string());
    }
    Ok(bytes)
}
