//! The server's side: starts a child for each document, and judges how it ended.

use std::{
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt as _,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

use bytes::Bytes;
use everturn_documents::{Bounds, Document, DocumentError, ReadError, Reader, Reading, read_plain};
use rustix::process::Signal;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{Child, Command},
    runtime::Handle,
    sync::oneshot,
    time::timeout,
};

use crate::message::{Answer, MAX_LINE, Task};

/// How much of what a child complains about is read.
const MAX_COMPLAINT: u64 = 4096;
/// What Rust's allocator says before it gives up.
const OUT_OF_MEMORY: &str = "memory allocation of";
/// What to do with a document that cannot be read for what is in it.
const ADVICE: &str = "print it to a new PDF, or save it as text, and send that";

/// What reading a document may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildLimits {
    /// Memory beside the document itself, in bytes. Holds on Linux.
    pub memory: u64,
    /// How long it may take. The CPU time has the same limit, in whole seconds.
    pub time: Duration,
}

/// Reads documents in child processes.
#[derive(Debug)]
pub struct ChildReader(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: ChildLimits,
    /// Asks for a child.
    starts: mpsc::Sender<oneshot::Sender<io::Result<Child>>>,
    /// Whether the log has said that children are not fenced.
    has_warned: AtomicBool,
}

impl ChildReader {
    /// Children are `program` with these arguments, and the server's process id after them, which [`crate::run`] expects.
    /// Must be called within a Tokio runtime.
    pub fn start(program: PathBuf, arguments: Vec<OsString>, limits: ChildLimits) -> io::Result<Self> {
        let (starts, asked) = mpsc::channel::<oneshot::Sender<io::Result<Child>>>();
        let runtime = Handle::current();
        // The kernel ends a child when the thread that started it ends. So that is one that lasts as long as the server.
        std::thread::Builder::new().name("start-readers".to_owned()).spawn(move || {
            let _entered = runtime.enter();
            while let Ok(answer) = asked.recv() {
                // Whoever asked may have gone; then the child goes too.
                let _ = answer.send(command(&program, &arguments).spawn());
            }
        })?;
        Ok(Self(Arc::new(Shared { limits, starts, has_warned: AtomicBool::new(false) })))
    }
}

fn command(program: &PathBuf, arguments: &[OsString]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).arg(std::process::id().to_string()).env_clear().current_dir("/");
    // The allocator maps a gibibyte at first, which the limit on memory could not tell from memory in use.
    command.env("MIMALLOC_ARENA_RESERVE", "0");
    // Signals from a terminal are for the server: it must not take a child that they end for one that crashed.
    command.process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

impl Reader for ChildReader {
    fn read(&self, name: String, bytes: Bytes, bounds: Bounds) -> Reading {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let (shown, looked_at) = (name.clone(), bytes.clone());
            // Decoding a large text takes a while, and must not hold up others.
            let plain = tokio::task::spawn_blocking(move || read_plain(&shown, &looked_at, bounds)).await;
            match plain.map_err(|error| ReadError::Failed(error.to_string()))? {
                Some(result) => result.map_err(ReadError::Document),
                None => shared.read(name, bytes, bounds).await,
            }
        })
    }
}

/// How a child ended, with all that it said.
struct End {
    status: ExitStatus,
    output: Vec<u8>,
    complaint: Vec<u8>,
}

impl Shared {
    async fn read(&self, name: String, bytes: Bytes, bounds: Bounds) -> Result<Document, ReadError> {
        let cpu_seconds = self.limits.time.as_secs() + u64::from(self.limits.time.subsec_nanos() > 0);
        let task = Task {
            name,
            length: bytes.len(),
            text_bytes: bounds.text_bytes,
            memory: self.limits.memory,
            cpu_seconds: cpu_seconds.max(1),
        };
        let mut child = self.child().await.map_err(|error| ReadError::Failed(error.to_string()))?;
        let Ok(ended) = timeout(self.limits.time, talk(&mut child, &task, &bytes)).await else {
            // Also waits until it is gone: its memory is the server's no longer, and its place is free.
            let _ = child.kill().await;
            return Err(self.took_too_long());
        };
        let end = ended.map_err(|error| ReadError::Failed(error.to_string()))?;
        match answer(&end, bounds) {
            Some(answer) => {
                let (result, is_fenced) = answer;
                if !is_fenced && !self.has_warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        "this kernel has neither Landlock nor seccomp: processes that read documents are kept from files \
                         and sockets by the limit on open files alone"
                    );
                }
                result.map_err(ReadError::Document)
            }
            None => Err(self.failed(&end)),
        }
    }

    async fn child(&self) -> io::Result<Child> {
        let (answer, started) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts readers has ended");
        self.starts.send(answer).map_err(|_| gone())?;
        started.await.map_err(|_| gone())?
    }

    fn took_too_long(&self) -> ReadError {
        let limit = self.limits.time;
        unreadable(format!(
            "reading it takes longer than {limit:?}, which is the limit (limits.document_time); {ADVICE}"
        ))
    }

    /// Why a child ended without an answer.
    fn failed(&self, end: &End) -> ReadError {
        let complaint = String::from_utf8_lossy(&end.complaint);
        tracing::warn!(status = %end.status, complaint = ?complaint.trim(), "a document could not be read");
        if complaint.contains(OUT_OF_MEMORY) {
            let limit = self.limits.memory;
            return unreadable(format!(
                "reading it takes more than {limit} bytes of memory, which is the limit (limits.document_memory); {ADVICE}"
            ));
        }
        match end.status.signal() {
            Some(signal) if signal == Signal::XCPU.as_raw() => self.took_too_long(),
            Some(signal) => unreadable(format!("its reader was ended by signal {signal}; {ADVICE}")),
            None => unreadable(format!("its reader crashed; {ADVICE}")),
        }
    }
}

fn unreadable(what: String) -> ReadError {
    ReadError::Document(DocumentError::Unreadable { what })
}

/// Gives a child its task, and waits until it has ended.
async fn talk(child: &mut Child, task: &Task, bytes: &[u8]) -> io::Result<End> {
    let (mut input, output, complaint) = match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
        (Some(input), Some(output), Some(complaint)) => (input, output, complaint),
        _ => return Err(io::Error::other("a pipe to the reader is missing")),
    };
    let mut line = serde_json::to_vec(task)?;
    line.push(b'\n');
    let give = async {
        // A child that ended before it has read everything says why elsewhere.
        if input.write_all(&line).await.is_ok() {
            let _ = input.write_all(bytes).await;
        }
        drop(input);
    };
    // One byte more than is taken shows that there is more.
    let longest = MAX_LINE + task.text_bytes as u64 + 1;
    let ((), output, complaint) = tokio::join!(give, take(output, longest), take(complaint, MAX_COMPLAINT));
    Ok(End { status: child.wait().await?, output: output?, complaint: complaint? })
}

/// What comes from a pipe, up to a length. Then the pipe is closed.
async fn take(pipe: impl AsyncRead + Unpin, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.take(length).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

/// What a child answered, if it ended well and this is an answer.
fn answer(end: &End, bounds: Bounds) -> Option<(Result<Document, DocumentError>, bool)> {
    let line_end = end.output.iter().position(|byte| *byte == b'\n')?;
    let (line, text) = end.output.split_at(line_end);
    let answer: Answer = serde_json::from_slice(line).ok()?;
    let text = str::from_utf8(&text[1..]).ok()?;
    if !end.status.success() || text.len() > bounds.text_bytes {
        return None;
    }
    Some((answer.result.map(|found| found.with(text.to_owned())), answer.is_fenced))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer in these bytes of a child that ended with this status, if it is one.
    fn parsed(output: &str, status: i32) -> Option<Result<Document, DocumentError>> {
        let output = output.as_bytes().to_vec();
        let end = End { status: ExitStatus::from_raw(status), output, complaint: Vec::new() };
        answer(&end, Bounds { bytes: 100, text_bytes: 5 }).map(|(result, _)| result)
    }

    #[test]
    fn only_whole_answers_of_processes_that_ended_well_count() {
        let line = r#"{"result":{"Ok":{"kind":"Pdf","pages":2,"cut":false,"has_text":true}},"is_fenced":true}"#;
        let document = parsed(&format!("{line}\nfive!"), 0).unwrap().unwrap();
        assert_eq!((document.text.as_deref(), document.pages), (Some("five!"), Some(2)));
        let refusal = parsed("{\"result\":{\"Err\":\"PasswordProtected\"},\"is_fenced\":true}\n", 0).unwrap();
        assert_eq!(refusal, Err(DocumentError::PasswordProtected));
        for (output, status) in [
            ("", 0),
            (line, 0),
            ("\n", 0),
            ("{}\n", 0),
            (&*format!("{line}\nmore than five"), 0),
            (&*format!("{line}\nfive!"), 9),
            (&*format!("{line}\nfive!"), 1 << 8),
        ] {
            assert_eq!(parsed(output, status), None, "{output:?} {status}");
        }
    }
}
