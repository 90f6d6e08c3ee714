//! `cargo xtask bench`: builds the server and what measures it, and runs the measurement.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{root, step};

const HELP: &str = "\
Measures the server against yardsticks of the same run, in about two minutes after the build

Usage: cargo xtask bench

Builds the release binary and the load generator, starts the server on a temporary folder beside the binary, and measures
each row of bench/latest.json; shows a table and writes bench/latest.json and bench/latest.svg. Leave the machine idle
meanwhile. `target/release/everturn-bench rows target/release/everturn 5` measures one row and keeps nothing.";

/// Measures the release build; the figures go to `bench/`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    match arguments.first().map(String::as_str) {
        None => {}
        Some("--help" | "-h" | "help") => {
            println!("{HELP}");
            return Ok(());
        }
        Some(other) => bail!("bench takes no argument `{other}`\n\n{HELP}"),
    }
    step::run(step::cargo().args(["build", "--release", "--package", "everturn", "--package", "everturn-bench"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let built = |name: &str| target.join("release").join(name);
    step::run(Command::new(built("everturn-bench")).arg("run").arg(built("everturn")).arg(root().join("bench")))
}
