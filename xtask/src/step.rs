//! Runs one program as a step of a task, in sight of whoever waits for it.

use std::{
    ffi::OsStr,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

/// Runs a program at the root of the repository, with its output shown. An exit code other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = line(command);
    eprintln!("\n$ {shown}");
    let status = command.current_dir(crate::root()).status().with_context(|| format!("cannot run `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// What a program prints, if it is there and succeeds.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.current_dir(crate::root()).stderr(Stdio::null()).output().ok()?;
    if !output.status.success() {
        return None;
    }
    String::from_utf8(output.stdout).ok()
}

/// Whether a program is there and succeeds.
pub(crate) fn works(program: &str, arguments: &[&str]) -> bool {
    output(Command::new(program).args(arguments)).is_some()
}

/// `cargo`, the same that runs us.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn line(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    // Without the folder: it says nothing to the reader, and differs between machines.
    let program = program
        .strip_prefix(crate::root())
        .unwrap_or_else(|_| if program.file_stem() == Some(OsStr::new("cargo")) { "cargo".as_ref() } else { program });
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|argument| {
        let argument = std::path::Path::new(argument);
        argument.strip_prefix(crate::root()).unwrap_or(argument).to_string_lossy().into_owned()
    }));
    words.join(" ")
}
