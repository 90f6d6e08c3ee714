//! Which file a path leads to, and the lock that keeps others away from it.
//!
//! What belongs to a database lies beside it and goes by its name: the log, the lock, the socket of a server. So the
//! same file must be known under each of its names. Links to folders on the way need no care: beside is beside.
//!
//! The database itself is not locked. On many systems a lock on the whole of it would be in the way of SQLite's own, and
//! closing a second descriptor of it, at any time, would take those away.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use super::{OpenError, SqliteStore};

/// How many links a path may go through, as on Linux.
const MAX_LINKS: usize = 40;

impl SqliteStore {
    /// The path of the database itself, where `path` is a symbolic link to it. It need not be there yet. What belongs to
    /// the database lies beside it, not beside the link.
    pub fn real_path(path: impl AsRef<Path>) -> io::Result<PathBuf> {
        let mut path = path.as_ref().to_owned();
        for _ in 0..MAX_LINKS {
            match fs::read_link(&path) {
                Ok(target) => path.set_file_name(target),
                // No link. What else may be wrong with it shows when it is opened.
                Err(_) => return Ok(path),
            }
        }
        Err(io::Error::other(format!("it goes through more than {MAX_LINKS} symbolic links")))
    }
}

/// Takes the lock file beside the database. The system frees it when the process ends, however it ends.
pub(super) fn lock(path: &Path) -> Result<File, OpenError> {
    let name = beside(path, ".lock");
    refuse_other_name(path, &name)?;
    let file = private_file(&name).map_err(|error| OpenError::io(&name, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(OpenError::io(&name, &error)),
    }
}

/// A file with several names (hard links) is opened by the one that it was used by, which has a lock file beside it, and
/// by no other. Nothing tells whether it is in use by that one, and its log is there, too: without it, commits are lost
/// now, and it overwrites later ones when it is found again.
fn refuse_other_name(path: &Path, lock: &Path) -> Result<(), OpenError> {
    #[cfg(unix)]
    if let Ok(found) = fs::metadata(path)
        && found.is_file()
        && let names = std::os::unix::fs::MetadataExt::nlink(&found)
        && names > 1
        && matches!(lock.try_exists(), Ok(false))
    {
        return Err(OpenError::OtherName { path: path.to_owned(), names });
    }
    Ok(())
}

/// Opens a file, or makes one for this user alone. One that is there stays as it is.
pub(super) fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The path with something added to its name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
