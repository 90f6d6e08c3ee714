//! `cargo xtask bench`: builds the server and what measures it, and runs the measurement.

use std::process::Command;

use anyhow::Result;

use crate::{root, step};

/// Measures the release build; the figures go to `bench/`.
pub(crate) fn run() -> Result<()> {
    step::run(step::cargo().args(["build", "--release", "--package", "everturn", "--package", "everturn-bench"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let built = |name: &str| target.join("release").join(name);
    step::run(Command::new(built("everturn-bench")).arg("run").arg(built("everturn")).arg(root().join("bench")))
}
