//! A folder of a program's own, empty at its start and gone after its end.

use std::{
    fs::{DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt as _, lchown},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

/// How often another name is tried when one is taken.
const TRIES: usize = 16;

/// The folder. It goes, with all that is in it, when this is dropped.
#[derive(Debug)]
pub(super) struct OwnFolder {
    pub(super) path: PathBuf,
    /// Held, so that those who clean folders of temporary files leave it alone.
    _lock: Option<File>,
}

impl OwnFolder {
    /// Makes one that nobody but the owner, a user and a group, can enter.
    pub(super) fn make(parent: &Path, owner: Option<(u32, u32)>) -> io::Result<Self> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        for _ in 0..TRIES {
            let path = parent.join(format!("everturn-mcp-{:016x}", rand::random::<u64>()));
            match builder.create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            let lock = File::open(&path).ok();
            if let Some(lock) = &lock {
                let _ = flock(lock, FlockOperation::NonBlockingLockShared);
            }
            let folder = Self { path, _lock: lock };
            if let Some((user, group)) = owner {
                lchown(&folder.path, Some(user), Some(group))?;
            }
            return Ok(folder);
        }
        Err(io::Error::other(format!("{TRIES} names were taken")))
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            super::complain(&format!("cannot remove {}: {error}", self.path.display()));
        }
    }
}
