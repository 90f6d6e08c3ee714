//! Inputs to begin with: one file each, in a folder for each target.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// The folder of a target's corpus.
pub fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target)
}

/// The inputs of a target, in the order of their names.
pub fn load(target: &str) -> anyhow::Result<Vec<Vec<u8>>> {
    let folder = folder(target);
    let entries = std::fs::read_dir(&folder).with_context(|| format!("there is no corpus {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.sort();
    let read = |file: PathBuf| std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()));
    files.into_iter().map(read).collect()
}

/// Keeps an input that was read wrongly. Its name follows from what is in it, so that it is kept once.
pub fn save(target: &str, input: &[u8]) -> anyhow::Result<PathBuf> {
    // FNV-1a: a name, not a proof.
    let digest = input
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    let file = folder(target).join(format!("found-{digest:016x}"));
    std::fs::write(&file, input).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}
