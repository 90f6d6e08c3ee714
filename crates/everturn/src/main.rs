//! The `everturn` program.

use std::process::ExitCode;

use everturn::{cli::Cli, config::Environment, document_reader, guard};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything else: a guard and a reader need no more than their arguments.
    let other = guard::run(std::env::args_os()).or_else(|| document_reader::run(std::env::args_os()));
    if let Some(code) = other {
        return code;
    }
    let cli = Cli::read(std::env::args_os());
    // Fails only if a provider is installed already, and then there is one.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    cli.run(&Environment::new(std::env::vars_os()))
}
