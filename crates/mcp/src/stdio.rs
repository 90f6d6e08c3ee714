//! A program that speaks MCP on its standard input and output.

use std::{io, path::Path, process::Stdio, time::Duration};

use rmcp::{
    RoleClient,
    model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use secrecy::ExposeSecret as _;
use tokio::{
    io::{AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::mpsc,
    task::JoinHandle,
};

use crate::{
    Confined, Endpoint, Launcher, ServerConfig,
    config::Bytes,
    confinement::Enforced,
    guard::{Bounds, User},
    lines::{Line, Lines},
    peek::may_lack,
    scan::{MAX_VALUES, Scan},
    tap::Ears,
};

/// Messages that wait to be written.
const QUEUE: usize = 256;
/// How much of a line that is no message is looked at.
const SCANNED_BYTES: usize = 64 * 1024;
/// How long a program may leave a message unread before it counts as stuck.
const STUCK: Duration = Duration::from_secs(30);
/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;
/// A shorter message cannot hold too many values.
const SMALL: usize = 1024 * 1024;

/// The program under its guard, and the way to talk to it.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) guard: Child,
    /// Reads its standard error; ends after everybody who could write to it.
    pub(crate) errors: JoinHandle<()>,
    pub(crate) transport: StdioTransport,
}

/// Starts the program of a configuration. The guard ends it when the transport is dropped.
pub(crate) fn start(config: &ServerConfig, launcher: &Launcher, ears: &Ears) -> io::Result<Started> {
    let Endpoint::Stdio { program, arguments, environment, folder } = &config.endpoint else {
        return Err(io::Error::other("it is not a program"));
    };
    if let Some(folder) = folder.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(io::Error::other(format!("there is no folder {}", folder.display())));
    }
    let confinement = &config.confinement;
    let mut home = None;
    if let Some(name) = &confinement.user {
        let user = User::find(name)?.ok_or_else(|| io::Error::other(format!("there is no user {name}")))?;
        home = Some(user.home);
    }
    let bounds = Bounds {
        report: true,
        sandbox: confinement.sandbox,
        user: confinement.user.clone(),
        folder: folder.as_deref().map(std::path::absolute).transpose()?,
        temporary: Some(std::path::absolute(&launcher.temporary)?),
        own_folder: None,
        protected: confinement.protected.clone(),
        paths: confinement.paths.iter().map(std::path::absolute).collect::<io::Result<_>>()?,
        read_paths: confinement.read_paths.iter().map(std::path::absolute).collect::<io::Result<_>>()?,
    };
    // In a folder of its own, nothing could be found by a path that begins where we are.
    let program = if folder.is_none() && program.contains('/') {
        std::path::absolute(program)?
    } else {
        Path::new(program).to_owned()
    };
    let mut command = Command::new(&launcher.program);
    command
        // What people see in a list of processes.
        .arg0("everturn")
        .args(&launcher.arguments)
        .args(bounds.arguments())
        .arg("--")
        .arg(program)
        .args(arguments)
        .env_clear()
        .envs(launcher.environment.iter().map(|(name, value)| (name, value)))
        .envs(home.map(|home| ("HOME", home)))
        .envs(environment.iter().map(|(name, value)| (name, value.expose_secret())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Signals from a terminal are for us; we end our servers ourselves.
        .process_group(0)
        // The guard needs no folder, and its children could see which one it has.
        .current_dir("/");
    let mut guard = command.spawn()?;
    let (Some(input), Some(output), Some(errors)) = (guard.stdin.take(), guard.stdout.take(), guard.stderr.take())
    else {
        return Err(io::Error::other("it has no standard streams"));
    };
    let errors = tokio::spawn(ears.chatter.clone().read(errors));
    let (queue, queued) = mpsc::channel(QUEUE);
    tokio::spawn(write(input, queued, ears.clone()));
    let lines = Lines::new(BufReader::with_capacity(READ_BYTES, output), config.max_message);
    let transport = StdioTransport { queue: Some(queue), lines, most: config.max_message, ears: ears.clone() };
    Ok(Started { guard, errors, transport })
}

/// Writes messages until there are no more, then closes the program's input.
async fn write(mut input: ChildStdin, mut queued: mpsc::Receiver<Vec<u8>>, ears: Ears) {
    while let Some(message) = queued.recv().await {
        let written = async {
            input.write_all(&message).await?;
            input.flush().await
        };
        match tokio::time::timeout(STUCK, written).await {
            Ok(Ok(())) => {}
            // The end of its output, which follows, says more.
            Ok(Err(_)) => return,
            Err(_) => {
                ears.link.cut(format!("it does not read its input: a message waited for {} s", STUCK.as_secs()));
                return;
            }
        }
    }
}

/// Lines of JSON, both ways.
#[derive(Debug)]
pub(crate) struct StdioTransport {
    queue: Option<mpsc::Sender<Vec<u8>>>,
    lines: Lines<BufReader<ChildStdout>>,
    most: usize,
    ears: Ears,
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        std::future::ready(self.enqueue(&message))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            match self.lines.next().await {
                Ok(Some(Line::Whole(line))) => {
                    if let Some(message) = self.read(&line) {
                        return Some(message);
                    }
                }
                Ok(Some(Line::TooLong(scan, length))) => {
                    self.ears.chatter.remark(&format!("a message of {length} bytes is larger than the limit"));
                    if let Some(message) = self.refuse(&scan, &too_large(self.most)) {
                        return Some(message);
                    }
                }
                Ok(None) | Err(_) => {
                    self.ears.link.cut("it ended");
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.queue = None;
        Ok(())
    }
}

/// What a call is told whose result is too large.
pub(crate) fn too_large(most: usize) -> String {
    format!("the result was larger than {}, which is the limit", Bytes(most))
}

/// What a call is told whose result has too many parts.
pub(crate) fn too_many_values() -> String {
    format!("the result had more than {MAX_VALUES} values, which is the limit")
}

/// Whether a message would take too much memory once it is read.
pub(crate) fn has_too_many_values(message: &[u8]) -> Option<Scan> {
    (message.len() > SMALL).then(|| Scan::of(message)).filter(|scan| scan.values() > MAX_VALUES)
}

/// An answer in place of one that we cannot take.
pub(crate) fn failed_answer(id: RequestId, why: &str) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(ErrorData::new(ErrorCode::INTERNAL_ERROR, why.to_owned(), None), Some(id))
}

impl StdioTransport {
    /// How the program is confined, as its guard says before the program begins. None if it does not get that far.
    pub(crate) async fn confined(&mut self, config: &ServerConfig) -> Option<Confined> {
        let Endpoint::Stdio { folder, .. } = &config.endpoint else { return None };
        let Ok(Some(Line::Whole(line))) = self.lines.next().await else { return None };
        let enforced = Enforced::parse(std::str::from_utf8(&line).ok()?)?;
        let confined = Confined {
            sandbox: config.confinement.sandbox,
            landlock: enforced.landlock,
            seccomp: enforced.seccomp,
            user: config.confinement.user.clone(),
            folder: folder.clone(),
        };
        confined.log(&config.name);
        Some(confined)
    }

    fn enqueue(&self, message: &TxJsonRpcMessage<RoleClient>) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let Some(queue) = &self.queue else { return Err(io::ErrorKind::BrokenPipe.into()) };
        queue.try_send(line).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => io::Error::other("it does not read its input"),
            mpsc::error::TrySendError::Closed(_) => io::ErrorKind::BrokenPipe.into(),
        })
    }

    fn read(&self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        if let Some(scan) = has_too_many_values(line) {
            return self.refuse(&scan, &too_many_values());
        }
        match serde_json::from_slice(line) {
            Ok(message) => {
                if may_lack(&message) {
                    self.ears.peeked.look(line);
                }
                Some(message)
            }
            Err(error) => {
                // Hidden before it is cut, so that no part of a secret is left.
                let start = String::from_utf8_lossy(&line[..line.len().min(SCANNED_BYTES)]);
                let start = self.ears.chatter.clean(&start, 100);
                self.ears.chatter.remark(&format!("not a message of MCP on its standard output: {start}"));
                // Somebody may wait for just this.
                let id = Scan::of(line).answers()?;
                Some(failed_answer(RequestId::Number(id), &format!("the server's answer cannot be read: {error}")))
            }
        }
    }

    /// The answer in place of one that is not read; none if it was no answer.
    fn refuse(&self, scan: &Scan, why: &str) -> Option<ServerJsonRpcMessage> {
        if scan.has_method() {
            return None;
        }
        let id = scan.answers().map(RequestId::Number).or_else(|| self.ears.calls.only_request())?;
        Some(failed_answer(id, why))
    }
}
