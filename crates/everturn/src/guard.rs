//! This program as the guard of another, see [`everturn_mcp::guard`]. It starts itself so for every MCP server.

use std::{ffi::OsString, process::ExitCode};

use everturn_mcp::Launcher;

/// What makes it one. Not for people, so no command line tells of it.
pub(crate) const SUBCOMMAND: &str = "mcp-guard";

/// How it starts itself so.
pub(crate) fn launcher() -> Launcher {
    Launcher::this_program([SUBCOMMAND.into()])
}

/// Guards, if that is what the arguments of the program ask for.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    (arguments.next()? == SUBCOMMAND).then(|| everturn_mcp::guard::run(&launcher(), arguments))
}
