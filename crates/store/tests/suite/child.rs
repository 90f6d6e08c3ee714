//! Runs this test binary once more as another process, for what only another process can show.

use std::{path::Path, process::Command};

const PATH: &str = "EVERTURN_STORE_TEST_CHILD";

/// The test `name` of this binary in a process of its own, with `path` given to it.
pub(crate) fn command(name: &str, path: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", "--test-threads=1", name]).env(PATH, path);
    command
}

/// The path that this process was given, if it is such a child.
pub(crate) fn path() -> Option<std::path::PathBuf> {
    std::env::var_os(PATH).map(Into::into)
}
