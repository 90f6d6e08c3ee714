//! The user that a program runs as.

use std::{io, path::PathBuf};

/// A user of this machine.
#[derive(Clone, Debug)]
pub struct User {
    /// The user's folder.
    pub home: PathBuf,
    #[cfg(target_os = "linux")]
    entry: nix::unistd::User,
}

impl User {
    /// The user of this name, if there is one.
    pub fn find(name: &str) -> io::Result<Option<Self>> {
        #[cfg(target_os = "linux")]
        {
            let found = nix::unistd::User::from_name(name)?;
            Ok(found.map(|entry| Self { home: entry.dir.clone(), entry }))
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = name;
            Err(io::Error::other("programs can be started as another user on Linux only"))
        }
    }

    /// Whether this process may start programs as other users.
    pub fn may_be_changed() -> bool {
        cfg!(target_os = "linux") && rustix::process::geteuid().is_root()
    }
}

#[cfg(target_os = "linux")]
impl User {
    /// The ids of the user and of the user's group.
    pub(super) fn ids(&self) -> (u32, u32) {
        (self.entry.uid.as_raw(), self.entry.gid.as_raw())
    }

    /// Makes this process the user's, with all the user's groups. There is no way back.
    pub(super) fn put_on(&self) -> io::Result<()> {
        let name = std::ffi::CString::new(self.entry.name.as_str())?;
        nix::unistd::initgroups(&name, self.entry.gid)?;
        nix::unistd::setgid(self.entry.gid)?;
        nix::unistd::setuid(self.entry.uid)?;
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
impl User {
    pub(super) fn ids(&self) -> (u32, u32) {
        (u32::MAX, u32::MAX)
    }

    pub(super) fn put_on(&self) -> io::Result<()> {
        Err(io::Error::other("programs can be started as another user on Linux only"))
    }
}
