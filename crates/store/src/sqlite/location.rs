//! Notices that the database was moved, deleted or replaced while it is in use.
//!
//! SQLite writes into the files that it has open, wherever they are by now: into a folder that was moved away, or into
//! files without a name, which vanish with the process. So the names are compared with the files that were opened. They
//! are looked up, never opened: closing a second descriptor of the database would drop SQLite's POSIX locks.

use std::{
    fs::Metadata,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use super::place::beside;
use crate::StoreError;

/// What callers read. It has no path: callers may be tenants. The log has the path.
const MISPLACED: &str = "its files were moved, deleted or replaced while the server was running; put them back where they \
                         were, or restart the server if that is not possible";

/// Device and inode.
type FileId = (u64, u64);

/// Where the files of an open database were when it was opened.
#[derive(Debug)]
pub(super) struct Location {
    files: [(PathBuf, FileId); 3],
    /// The result of the last look.
    misplaced: Mutex<bool>,
}

impl Location {
    /// Remembers the database at `path`, which is open, with its write-ahead log and its lock file.
    pub(super) fn remember(path: &Path) -> io::Result<Self> {
        let identify = |path: PathBuf| identity(&path).map(|id| (path, id));
        let files = [identify(path.to_owned())?, identify(beside(path, "-wal"))?, identify(beside(path, ".lock"))?];
        Ok(Self { files, misplaced: Mutex::new(false) })
    }

    /// The path of the database.
    pub(super) fn database(&self) -> &Path {
        &self.files[0].0
    }

    /// The result of the last look.
    pub(super) fn health(&self) -> Result<(), StoreError> {
        let misplaced = *self.misplaced.lock().unwrap_or_else(PoisonError::into_inner);
        if misplaced { Err(StoreError::Unavailable(MISPLACED.to_owned())) } else { Ok(()) }
    }

    /// Compares the names with the files, remembers the result and logs a change. Only the writer calls it.
    pub(super) fn look(&self) {
        let found = self.compare();
        let misplaced = found.is_err();
        let before = std::mem::replace(&mut *self.misplaced.lock().unwrap_or_else(PoisonError::into_inner), misplaced);
        match found {
            Err((file, what)) if !before => tracing::error!(
                file = %file.display(), what,
                "the database was moved, deleted or replaced while it is in use: commands are refused and running turns \
                 wait until its files are back where they were"
            ),
            Ok(()) if before => tracing::info!("the files of the database are back; the store works again"),
            Ok(()) | Err(_) => {}
        }
    }

    /// Compares the names with the files now. For those who are about to open the database by its name.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.compare().map_err(|_| StoreError::Unavailable(MISPLACED.to_owned()))
    }

    /// The first file that is not in its place, and what is there.
    fn compare(&self) -> Result<(), (&Path, String)> {
        for (path, id) in &self.files {
            match identity(path) {
                Ok(found) if found == *id => {}
                Ok(_) => return Err((path, "another file is there".to_owned())),
                Err(error) => return Err((path, error.to_string())),
            }
        }
        Ok(())
    }
}

fn identity(path: &Path) -> io::Result<FileId> {
    std::fs::metadata(path).map(|metadata| identity_of(&metadata))
}

#[cfg(unix)]
fn identity_of(metadata: &Metadata) -> FileId {
    use std::os::unix::fs::MetadataExt as _;

    (metadata.dev(), metadata.ino())
}

/// Elsewhere a file that is open cannot be moved or replaced.
#[cfg(not(unix))]
fn identity_of(_: &Metadata) -> FileId {
    (0, 0)
}
