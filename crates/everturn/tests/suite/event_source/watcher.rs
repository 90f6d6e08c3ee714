//! A real client with an `EventSource`, which tells what it sees.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::suite::harness::PATIENCE;

/// How long a browser may take to be there, on a machine with much else to do.
const LAUNCH: Duration = Duration::from_secs(90);

/// A frame, as the client's `EventSource` gives it to the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) id: String,
    pub(super) data: String,
}

impl Frame {
    /// What is in it.
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Its type.
    pub(super) fn kind(&self) -> String {
        self.json()["type"].as_str().unwrap_or_else(|| panic!("no type: {self:?}")).to_owned()
    }
}

/// What came of one `EventSource`.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// All frames but heartbeats, in the order in which they came.
    pub(super) frames: Vec<Frame>,
    /// How many heartbeats have come since anything else did: the stream is open, and silent.
    pub(super) heartbeats: usize,
    /// How often the stream was opened.
    pub(super) opened: usize,
    /// The `readyState` at each error: 0 if it tries again by itself, 2 if it has given up.
    pub(super) errors: Vec<u64>,
    /// The statuses of the server's answers.
    pub(super) statuses: Vec<u64>,
}

impl Seen {
    /// Whether a frame of this type has come.
    pub(super) fn has(&self, kind: &str) -> bool {
        self.frames.iter().any(|frame| frame.kind() == kind)
    }

    /// How many pieces of the answer say this.
    pub(super) fn says(&self, content: &str) -> usize {
        self.frames.iter().filter(|frame| frame.json()["content"] == content).count()
    }

    fn take(&mut self, line: &Value) {
        if let (Some(id), Some(data)) = (line["id"].as_str(), line["data"].as_str()) {
            assert!(!id.is_empty(), "every frame says where to go on: {line}");
            let frame = Frame { id: id.to_owned(), data: data.to_owned() };
            if frame.kind() == "heartbeat" {
                self.heartbeats += 1;
                return;
            }
            self.frames.push(frame);
        } else if let Some(state) = line["error"].as_u64() {
            self.errors.push(state);
        } else if let Some(status) = line["status"].as_u64() {
            self.statuses.push(status);
        } else if line["open"] == true {
            self.opened += 1;
        } else {
            panic!("the client says {line}");
        }
        self.heartbeats = 0;
    }
}

/// A client that runs, and ends with this.
pub(super) struct Watcher {
    /// The origin of the client's page, where it has one.
    pub(super) origin: Option<String>,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Where the client keeps what it needs while it runs.
    _folder: TempDir,
}

impl Watcher {
    /// Starts a client: one of the scripts under `tests/peers`.
    #[track_caller]
    pub(super) fn start(script: &str) -> Self {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers");
        for package in ["eventsource", "playwright-core"] {
            let installed = peers.join("node_modules").join(package).exists();
            assert!(installed, "{package} is not installed under tests/peers; run: cargo xtask peers");
        }
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("node");
        command.arg(peers.join(script)).env("TMPDIR", folder.path());
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("failed to start {command:?}: {error}; is it installed?"));
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let (sender, lines) = mpsc::channel();
        // Ends with the client, or with whoever listens to it.
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut watcher = Self { origin: None, child, stdin, lines, _folder: folder };
        let first = watcher.line(Instant::now() + LAUNCH).unwrap_or_else(|| panic!("{script} takes too long to start"));
        watcher.origin = first["origin"].as_str().map(str::to_owned);
        watcher
    }

    /// Opens an `EventSource`.
    #[track_caller]
    pub(super) fn watch(&mut self, url: String) -> Source<'_> {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{url}\n").as_bytes()).expect("the client runs");
        Source { watcher: self, url, seen: Seen::default() }
    }

    /// The next thing that the client says, unless it is too late.
    #[track_caller]
    fn line(&self, deadline: Instant) -> Option<Value> {
        match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("the client has ended; see above what it says"),
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Tells it to end; the browser ends with it, also if it must be killed.
        drop(self.stdin.take());
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// An `EventSource` of the client.
pub(super) struct Source<'a> {
    watcher: &'a mut Watcher,
    url: String,
    pub(super) seen: Seen,
}

impl Source<'_> {
    /// Waits until the client has seen something.
    #[track_caller]
    pub(super) fn until(&mut self, what: &str, is_there: impl Fn(&Seen) -> bool) -> &Seen {
        let deadline = Instant::now() + PATIENCE;
        while !is_there(&self.seen) {
            match self.watcher.line(deadline) {
                // What is left of an earlier one means nothing any more.
                Some(line) if line["url"] == self.url => self.seen.take(&line),
                Some(_) => {}
                None => panic!("the client waited in vain for {what}: {:#?}", self.seen),
            }
        }
        &self.seen
    }

    /// Waits until the turn is over, and gives everything that was seen.
    #[track_caller]
    pub(super) fn whole(mut self) -> Seen {
        self.until("the end", |seen| seen.has("complete"));
        self.seen
    }
}
