//! Tasks for those who work on Everturn: `cargo xtask <task>`.
//!
//! Built before anything else, so it has next to no dependencies.

mod bench;
mod fuzz;
mod peers;
mod step;
mod test;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

const HELP: &str = "\
Tasks for those who work on Everturn

Usage: cargo xtask <TASK>

Tasks:
  test [ARGUMENTS]  Run every check and every test; arguments go to the test runner
  bench [OPTIONS]   Measure the server against yardsticks of the same run; writes bench/latest.json and .svg
  fuzz [OPTIONS]    Feed damaged inputs to every parser of what strangers send; --help explains
  peers             Install what the tests talk to: programs from npm and PyPI, under tests/peers
  help              Show this text";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = match arguments.split_first() {
        Some((task, rest)) => (task.as_str(), rest),
        None => ("help", &[][..]),
    };
    let result = match task {
        "test" => test::run(rest),
        "bench" => bench::run(rest),
        "fuzz" => fuzz::run(rest),
        "peers" => peers::install(),
        "help" | "--help" | "-h" => {
            println!("{HELP}");
            Ok(())
        }
        unknown => {
            eprintln!("error: there is no task `{unknown}`\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository.
fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// The folder of the programs that tests talk to.
fn peers_folder() -> PathBuf {
    root().join("tests").join("peers")
}
