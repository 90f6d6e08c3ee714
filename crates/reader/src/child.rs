//! The child: reads one document and ends.

use std::{
    ffi::OsString,
    io::{self, BufRead as _, Read as _, Write as _},
    process::ExitCode,
};

use everturn_documents::read;

use crate::message::{Answer, Found, MAX_LINE, Task};

/// How much nicer to others a child is than the server.
#[cfg(target_os = "linux")]
const NICER: i32 = 10;

/// Reads the document that comes on standard input. `arguments` has the server's process id.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let server = arguments.into_iter().next();
    let server = server.as_deref().and_then(|id| id.to_str()).and_then(|id| id.parse().ok());
    match server.ok_or_else(|| io::Error::other("the server's process id is missing")).and_then(serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(server: i32) -> io::Result<()> {
    follow(server)?;
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
    let task: Task = serde_json::from_slice(&line)?;
    // From here on there are bytes of strangers.
    let is_fenced = confine(&task)?;
    let mut document = Vec::with_capacity(task.length);
    input.take(task.length as u64).read_to_end(&mut document)?;
    if document.len() < task.length {
        return Err(io::Error::other("the document ends too early"));
    }
    let (result, text) = match read(&task.name, &document, task.bounds()) {
        Ok(document) => {
            let (found, text) = Found::of(document);
            (Ok(found), text.unwrap_or_default())
        }
        Err(error) => (Err(error), String::new()),
    };
    let mut answer = serde_json::to_vec(&Answer { result, is_fenced })?;
    answer.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&answer)?;
    output.write_all(text.as_bytes())?;
    output.flush()
}

/// Sees to it that this process ends with the server.
#[cfg(target_os = "linux")]
fn follow(server: i32) -> io::Result<()> {
    use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have gone before the kernel knew that we want to follow.
    if getppid().map(Pid::as_raw_pid) != Some(server) {
        return Err(io::Error::other("the server is gone"));
    }
    Ok(())
}

/// Elsewhere the end of the input and the limit on CPU time end it.
#[cfg(not(target_os = "linux"))]
fn follow(_: i32) -> io::Result<()> {
    Ok(())
}

/// Gives up what a reader does not need.
#[cfg(target_os = "linux")]
fn confine(task: &Task) -> io::Result<bool> {
    // Whoever waits for an answer of the server goes first.
    let _ = rustix::process::nice(NICER);
    let memory = task.memory.saturating_add(task.length as u64);
    crate::confinement::confine(memory, task.cpu_seconds)
}

/// Other systems have the limits on CPU time and open files only.
#[cfg(not(target_os = "linux"))]
fn confine(task: &Task) -> io::Result<bool> {
    use rustix::process::{Resource, Rlimit, setrlimit};

    for (resource, most) in [(Resource::Cpu, task.cpu_seconds), (Resource::Core, 0), (Resource::Nofile, 3)] {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(false)
}
