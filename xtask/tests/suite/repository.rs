//! The files of the repository.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Its root.
pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// All files that are, or would be, committed; relative to the root.
pub(super) fn files() -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).unwrap();
    let files = names.split_terminator('\0').map(PathBuf::from).filter(|file| root().join(file).is_file());
    let files: Vec<_> = files.collect();
    assert!(files.iter().any(|file| file.ends_with("xtask/Cargo.toml")), "this is not the repository: {files:?}");
    files
}

/// The text files among them that have one of these extensions, with their text.
pub(super) fn texts(extensions: &[&str]) -> Vec<(PathBuf, String)> {
    let wanted = |file: &PathBuf| file.extension().is_some_and(|it| extensions.iter().any(|wanted| it == *wanted));
    files()
        .into_iter()
        .filter(wanted)
        .map(|file| {
            let text = std::fs::read_to_string(root().join(&file)).unwrap();
            (file, text)
        })
        .collect()
}

/// Fails with a list of what was found, if anything was.
#[track_caller]
pub(super) fn none(rule: &str, found: &[String]) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}
