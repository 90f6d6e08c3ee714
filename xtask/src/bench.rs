//! `cargo xtask bench`: builds the server and what measures it, and runs the measurement.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{root, step};

const HELP: &str = "\
Measures the server against yardsticks of the same run, in about four minutes after the build

Usage: cargo xtask bench [--only <NUMBERS>]

Options:
  --only <NUMBERS>  Measure some rows, such as 3,3b,10; they are shown and not kept

Builds the release binary and the load generator, starts the server on a temporary folder beside the binary, and measures
each row of bench/latest.json; shows a table and writes bench/latest.json and bench/latest.svg. Leave the machine idle
meanwhile.";

/// Measures the release build; the figures go to `bench/`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let only = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => None,
        ["--only", numbers] => Some(*numbers),
        ["--help" | "-h" | "help"] => {
            println!("{HELP}");
            return Ok(());
        }
        other => bail!("bench takes no arguments `{}`\n\n{HELP}", other.join(" ")),
    };
    step::run(step::cargo().args(["build", "--release", "--package", "everturn", "--package", "everturn-bench"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let built = |name: &str| target.join("release").join(name);
    let mut bench = Command::new(built("everturn-bench"));
    match only {
        Some(numbers) => bench.arg("rows").arg(built("everturn")).args(numbers.split(',')),
        None => bench.arg("run").arg(built("everturn")).arg(root().join("bench")),
    };
    step::run(&mut bench)
}
