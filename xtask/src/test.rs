//! `cargo xtask test`: every check and every test.

use anyhow::{Result, bail};

use crate::{
    peers,
    step::{self, cargo, works},
};

/// Quick checks first; the test runner last, so that its summary closes the output.
pub(crate) fn run(runner_arguments: &[String]) -> Result<()> {
    components()?;
    step::run(cargo().args(["fmt", "--all", "--check"]))?;
    step::run(cargo().args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]))?;
    step::run(cargo().args(["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    peers::install()?;
    let nextest = works("cargo-nextest", &["nextest", "--version"]);
    if nextest {
        step::run(cargo().args(["test", "--workspace", "--all-features", "--locked", "--doc", "--quiet"]))?;
        step::run(
            cargo()
                .args(["nextest", "run", "--workspace", "--all-features", "--locked", "--no-fail-fast"])
                .args(runner_arguments),
        )
    } else {
        step::run(
            cargo()
                .args(["test", "--workspace", "--all-features", "--locked", "--no-fail-fast"])
                .args(runner_arguments),
        )
    }
}

/// rustfmt and clippy, which a minimal installation of Rust lacks.
fn components() -> Result<()> {
    let missing: Vec<&str> = [("rustfmt", "fmt"), ("clippy", "clippy")]
        .into_iter()
        .filter(|(_, command)| !works("cargo", &[command, "--version"]))
        .map(|(component, _)| component)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    if works("rustup", &["--version"]) {
        return step::run(std::process::Command::new("rustup").args(["component", "add"]).args(&missing));
    }
    bail!("{} not installed; with rustup: rustup component add {}", missing.join(" and "), missing.join(" "))
}
