//! This program as the reader of one document, see [`everturn_reader`]. The server starts it so for every document that is
//! parsed.

use std::{ffi::OsString, process::ExitCode, sync::Arc};

use anyhow::Context as _;
use everturn_mcp::Launcher;
use everturn_reader::{ChildLimits, ChildReader};

use crate::config::Limits;

/// What makes it one. Not for people, so no command line tells of it.
const SUBCOMMAND: &str = "document-reader";

/// Reads, if that is what the arguments of the program ask for.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter().skip(1);
    (arguments.next()? == SUBCOMMAND).then(|| everturn_reader::run(arguments))
}

/// Has documents read by this program, started anew for each.
pub(crate) fn start(limits: &Limits) -> anyhow::Result<Arc<ChildReader>> {
    let Launcher { program, arguments, .. } = Launcher::this_program([SUBCOMMAND.into()]);
    let limits = ChildLimits { memory: limits.document_memory as u64, time: limits.document_time };
    let reader =
        ChildReader::start(program, arguments, limits).context("failed to start a thread that starts readers")?;
    Ok(Arc::new(reader))
}
