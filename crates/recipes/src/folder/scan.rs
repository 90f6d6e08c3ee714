//! What is in a folder, by name.

use std::{ffi::OsString, fs, path::Path};

use super::FolderError;
use crate::{bounds, name::split_stem};

/// A file that is meant to be a recipe.
pub(super) struct Candidate {
    /// The name of the file.
    pub(super) file: OsString,
    /// The name of the recipe, or what comes nearest to it.
    pub(super) name: String,
    /// The version in the name of the file.
    pub(super) version: Option<String>,
    pub(super) format: Format,
    /// Why it cannot be used, as far as its name says.
    pub(super) problem: Option<String>,
    /// What the system says about the file that is read in the end, or why it must not be read.
    pub(super) metadata: Result<fs::Metadata, String>,
}

#[derive(Clone, Copy)]
pub(super) enum Format {
    Yaml,
    Json,
}

/// All of them, by the names of the files.
pub(super) fn scan(folder: &Path) -> Result<Vec<Candidate>, FolderError> {
    let unreadable = |error| FolderError::Unreadable { folder: folder.to_owned(), error };
    let too_much = |what, limit| Err(FolderError::TooMuch { what, limit });
    let mut candidates = Vec::new();
    for (number, entry) in folder.read_dir().map_err(unreadable)?.enumerate() {
        if number >= bounds::FOLDER_ENTRIES {
            return too_much("entries", bounds::FOLDER_ENTRIES as u64);
        }
        let file = entry.map_err(unreadable)?.file_name();
        let Some(format) = format(&file) else { continue };
        if candidates.len() >= bounds::FILES {
            return too_much("recipes", bounds::FILES as u64);
        }
        candidates.push(candidate(folder, file, format));
    }
    // Those that are too long are not read, so they do not count.
    let lengths = candidates.iter().filter_map(|candidate| Some(candidate.metadata.as_ref().ok()?.len()));
    if lengths.filter(|length| *length <= bounds::FILE as u64).sum::<u64>() > bounds::FOLDER {
        return too_much("bytes of recipes", bounds::FOLDER);
    }
    candidates.sort_by(|one, other| one.file.cmp(&other.file));
    Ok(candidates)
}

fn format(file: &OsString) -> Option<Format> {
    if file.as_encoded_bytes().starts_with(b".") {
        return None;
    }
    let ending = Path::new(file).extension()?.to_str()?.to_ascii_lowercase();
    match &*ending {
        "yaml" | "yml" => Some(Format::Yaml),
        "json" => Some(Format::Json),
        _ => None,
    }
}

fn candidate(folder: &Path, file: OsString, format: Format) -> Candidate {
    let stem = Path::new(&file).file_stem().unwrap_or_default().to_string_lossy();
    let (name, version, problem) = match split_stem(&stem) {
        Ok((name, version)) => (name.to_owned(), version.map(ToOwned::to_owned), None),
        Err(problem) => (stem.chars().take(128).collect(), None, Some(problem.to_owned())),
    };
    let metadata = metadata(folder, &folder.join(&file));
    Candidate { file, name, version, format, problem, metadata }
}

fn metadata(folder: &Path, path: &Path) -> Result<fs::Metadata, String> {
    let unreadable = |error| format!("the file cannot be read: {error}");
    let mut metadata = path.symlink_metadata().map_err(unreadable)?;
    if metadata.is_symlink() {
        let target = path.canonicalize().map_err(unreadable)?;
        if !target.starts_with(folder) {
            return Err("the file is a link that leads out of the folder; copy the recipe instead".to_owned());
        }
        metadata = target.symlink_metadata().map_err(unreadable)?;
    }
    // To open something else, such as a pipe, might never come to an end.
    if metadata.is_file() { Ok(metadata) } else { Err("it is not a file".to_owned()) }
}
