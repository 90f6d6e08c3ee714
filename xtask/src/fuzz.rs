//! `cargo xtask fuzz`: builds the fuzzer and runs it.

use anyhow::Result;

use crate::step;

/// Feeds the targets that the arguments name; the fuzzer itself explains them.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    step::run(step::cargo().args(["run", "--quiet", "--package", "everturn-fuzz", "--"]).args(arguments))
}
