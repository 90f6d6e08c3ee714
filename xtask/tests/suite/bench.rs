//! `cargo xtask bench --help`.

use std::{path::Path, process::Command};

#[test]
fn help_explains_and_measures_nothing() {
    let latest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/latest.json");
    let before = std::fs::read(&latest).ok();
    for flag in ["--help", "-h"] {
        // Without a path there is no cargo, so that nothing can be built or measured.
        let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(["bench", flag]).env("PATH", "").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        assert!(text.contains("Usage: cargo xtask bench"), "{text}");
    }
    assert!(std::fs::read(&latest).ok() == before, "it measured");
}
