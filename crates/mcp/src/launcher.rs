//! How programs are started: always under a guard, never directly.

use std::{ffi::OsString, path::PathBuf};

/// The program that guards others, see [`crate::guard`], and what it is started with to do so.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments. The guard's own follow.
    pub arguments: Vec<OsString>,
    /// Variables that every server gets; those of its configuration win.
    pub environment: Vec<(String, String)>,
    /// Where each server gets a folder of its own.
    pub temporary: PathBuf,
}

impl Launcher {
    /// This very program, which takes these arguments to become a guard.
    pub fn this_program(arguments: impl IntoIterator<Item = OsString>) -> Self {
        // The link leads to this program even after its file was replaced by another version.
        let link = PathBuf::from("/proc/self/exe");
        let program = if link.exists() { link } else { std::env::current_exe().unwrap_or(link) };
        Self { program, arguments: arguments.into_iter().collect(), environment: Vec::new(), temporary: "/tmp".into() }
    }

    /// With these variables for every server.
    pub fn with_environment(mut self, environment: impl IntoIterator<Item = (String, String)>) -> Self {
        self.environment = environment.into_iter().collect();
        self
    }

    /// With folders of servers' own made there.
    pub fn with_temporary(mut self, folder: impl Into<PathBuf>) -> Self {
        self.temporary = folder.into();
        self
    }
}
