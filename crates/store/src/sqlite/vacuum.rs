//! Writes a whole file anew, for those who do not want to wait until it has shrunk by itself.

use std::path::{Path, PathBuf};

use super::{
    Durability, OpenError, SqliteStore,
    open::{self, Opened},
    place::beside,
};

/// How large a file was and is, in bytes, with its write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vacuumed {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
}

impl SqliteStore {
    /// Writes the database at `path` anew: without free space, without copies of what was deleted, and such that it gives
    /// space back by itself from now on. Nobody else may have it open. Takes up to twice its size on the same disk
    /// meanwhile; a crash leaves it as it was. Blocks.
    pub fn vacuum(path: impl AsRef<Path>) -> Result<Vacuumed, OpenError> {
        let path = Self::real_path(&path).map_err(|error| OpenError::io(path.as_ref(), &error))?;
        let before = size(&path);
        let Opened { path, connection, lock, .. } = open::open(&path, Durability::Fsync)?;
        let failed = |error: rusqlite::Error| OpenError::sqlite(&path, &error);
        // The copy is as large as the database: beside it, not in memory.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).map_or(".".into(), PathBuf::from);
        if let Some(folder) = folder.to_str() {
            connection.pragma_update(None, "temp_store_directory", folder).map_err(failed)?;
        }
        connection.pragma_update(None, "temp_store", "FILE").map_err(failed)?;
        connection.execute_batch("VACUUM").map_err(failed)?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(failed)?;
        connection.close().map_err(|(_, error)| failed(error))?;
        let after = size(&path);
        drop(lock);
        Ok(Vacuumed { before, after })
    }
}

fn size(path: &Path) -> u64 {
    let of = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    of(path) + of(&beside(path, "-wal"))
}
