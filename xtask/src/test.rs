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
    // Installing mostly waits for the network and the disk, so the compiler works meanwhile.
    std::thread::scope(|scope| {
        let installing = scope.spawn(peers::install);
        let checked = check();
        let installed = installing.join().unwrap_or_else(|_| bail!("the installation of peers crashed"));
        checked.and(installed)
    })?;
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

/// Everything that the compiler finds without running anything. Both steps use the same features, so that dependencies are
/// checked once.
fn check() -> Result<()> {
    let workspace = ["--workspace", "--all-features", "--locked"];
    step::run(cargo().arg("clippy").args(workspace).args(["--all-targets", "--", "-D", "warnings"]))?;
    step::run(cargo().args(["doc", "--no-deps"]).args(workspace).env("RUSTDOCFLAGS", "-D warnings"))
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
