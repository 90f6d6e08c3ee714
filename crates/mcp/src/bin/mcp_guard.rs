//! A guard by itself, for the tests of this crate.

use std::process::ExitCode;

use everturn_mcp::{Launcher, guard};

fn main() -> ExitCode {
    guard::run(&Launcher::this_program([]), std::env::args_os().skip(1))
}
