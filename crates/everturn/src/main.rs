//! The `everturn` program.

use std::process::ExitCode;

use everturn::{cli::Cli, config::Environment, guard};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything else: a guard needs no more than its arguments.
    if let Some(code) = guard::run(std::env::args_os()) {
        return code;
    }
    let cli = Cli::read(std::env::args_os());
    // Fails only if a provider is installed already, and then there is one.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    cli.run(&Environment::new(std::env::vars_os()))
}
