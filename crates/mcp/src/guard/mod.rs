//! A process that stands between this server and a program that it starts, so that the program and all that it starts in
//! turn end when they should, whatever becomes of this server.
//!
//! The guard starts the program, passes its own standard input on to it, and sees its descendants even when their parents
//! are gone (on Linux, where it makes itself their reaper). When its input ends, because the server closed it or died by
//! whatever means, or when it is told to terminate, it closes the program's input, waits a little, asks everything to
//! terminate, waits a little more, and then kills until nothing is left. When the program ends by itself, the guard ends
//! what it left behind, and itself with the program's exit code.
//!
//! Should the guard itself be killed, the program is too (on Linux): a second stage of the guard asks the kernel for that,
//! confines itself as the program shall be, and then becomes the program.
//!
//! The guard's environment is the program's. It writes nothing to standard output.

#[cfg(target_os = "linux")]
mod capabilities;
mod descendants;
mod folder;
#[cfg(target_os = "linux")]
mod landlock;
mod program;
#[cfg(target_os = "linux")]
mod seccomp;
mod task;
mod user;

pub use descendants::{descends_from, is_guarded};
pub(crate) use task::Bounds;
pub use user::User;

use std::{
    ffi::OsString,
    fs::File,
    io::{Read as _, Write as _},
    os::{fd::AsFd as _, unix::process::CommandExt as _},
    process::{ChildStdin, Command, ExitCode, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    process::{Pid, Signal, WaitOptions, getpid},
};
use tokio::signal::unix::{SignalKind, signal};

use crate::Launcher;
use descendants::signal_all;
use folder::OwnFolder;
use program::{become_program, find_user};
use task::{STAGE_TWO, Task};

/// How long a program may take to end after its input has.
const AFTER_END_OF_INPUT: Duration = Duration::from_secs(2);
/// How long it may take to end after it was told to.
const AFTER_TERMINATE: Duration = Duration::from_secs(2);
/// How long those that it left behind may take. Nobody can use them any more.
const FOR_LEFTOVERS: Duration = Duration::from_millis(200);
/// How long to kill. Only a process that the kernel holds survives a kill for longer.
const KILLING: Duration = Duration::from_secs(5);
/// Between two looks at who is left.
const BETWEEN_KILLS: Duration = Duration::from_millis(10);

/// What shells say of a program that cannot be run.
const CANNOT_RUN: u8 = 126;
/// What shells say of a program that is not there.
const NOT_FOUND: u8 = 127;

/// Guards the program that the arguments name: `[BOUNDS] [--] PROGRAM [ARGUMENTS]`. Comes back when nothing of it is left.
pub fn run(launcher: &Launcher, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Some(task) = Task::parse(arguments) else {
        complain("there is no program to guard");
        return ExitCode::from(2);
    };
    match task.guard {
        Some(guard) => become_program(guard, &task),
        None => supervise(launcher, task),
    }
}

fn complain(message: &str) {
    let _ = writeln!(std::io::stderr(), "{message}");
}

/// Something that the guard notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The server has gone, or has closed our input; what it wrote before may still be on its way.
    ServerGone,
    /// Nothing more comes from the server.
    InputEnded,
    /// We are told to terminate.
    Terminate,
    /// The program ended, with this code.
    ProgramEnded(u8),
    /// No process is left.
    NobodyLeft,
}

/// Makes the program's own folder, if it shall have one.
fn own_folder(task: &Task) -> Result<Option<OwnFolder>, String> {
    let Some(parent) = &task.bounds.temporary else { return Ok(None) };
    let user = task.bounds.user.as_deref().map(find_user).transpose()?;
    let folder = OwnFolder::make(parent, user.as_ref().map(User::ids));
    folder.map(Some).map_err(|error| {
        format!("cannot make a folder in {} ({error}); set TMPDIR to one that can be written", parent.display())
    })
}

fn supervise(launcher: &Launcher, mut task: Task) -> ExitCode {
    // The program and what it starts shall not look into their guard.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_child_subreaper(Some(getpid())) {
        complain(&format!("cannot see descendants whose parents are gone: {error}"));
    }
    let (events, noticed) = channel();
    if let Err(error) = watch_signals(events.clone()) {
        complain(&format!("cannot be told to terminate: {error}"));
    }
    let folder = match own_folder(&task) {
        Ok(folder) => folder,
        Err(problem) => {
            complain(&format!("cannot start {}: {problem}", task.program.display()));
            return ExitCode::from(CANNOT_RUN);
        }
    };
    task.bounds.own_folder = folder.as_ref().map(|folder| folder.path.clone());
    task.bounds.temporary = None;
    let spawned = Command::new(&launcher.program)
        .args(&launcher.arguments)
        .arg(STAGE_TWO)
        .arg(getpid().as_raw_pid().to_string())
        .args(task.bounds.arguments())
        .arg("--")
        .arg(&task.program)
        .args(&task.arguments)
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            complain(&format!("cannot start {}: {error}", task.program.display()));
            return ExitCode::from(CANNOT_RUN);
        }
    };
    // The server shall see the end of the program's output, not of ours.
    if let Ok(nowhere) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(nowhere);
    }
    let Some(program) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return ExitCode::FAILURE;
    };
    let input = Arc::new(Mutex::new(child.stdin.take()));
    relay(Arc::clone(&input), events.clone());
    watch_server(events.clone());
    thread::spawn(move || reap(program, &events));
    let code = Watch { noticed, program, input, code: None }.until_nobody_is_left();
    drop(folder);
    ExitCode::from(code)
}

/// Tells when a signal asks us to end.
fn watch_signals(events: Sender<Event>) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut signals = {
        let _entered = runtime.enter();
        [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()].map(signal)
    };
    thread::spawn(move || {
        runtime.block_on(async {
            let [terminate, interrupt, hangup, quit] = &mut signals;
            let (Ok(terminate), Ok(interrupt), Ok(hangup), Ok(quit)) = (terminate, interrupt, hangup, quit) else {
                return;
            };
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {}
                _ = quit.recv() => {}
            }
            let _ = events.send(Event::Terminate);
            // Further signals change nothing, but must not end us either.
            std::future::pending::<()>().await;
        });
    });
    Ok(())
}

/// Tells when the other end of our input is closed, also while the program does not take what came before.
fn watch_server(events: Sender<Event>) {
    let Ok(input) = std::io::stdin().as_fd().try_clone_to_owned() else { return };
    thread::spawn(move || {
        loop {
            // A hangup is told without being asked for.
            let mut watched = [PollFd::new(&input, PollFlags::empty())];
            match poll(&mut watched, None) {
                Ok(_) if watched[0].revents().contains(PollFlags::HUP) => break,
                Ok(_) if watched[0].revents().is_empty() => {}
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
        let _ = events.send(Event::ServerGone);
    });
}

/// Passes our input on, and tells when it ends.
fn relay(input: Arc<Mutex<Option<ChildStdin>>>, events: Sender<Event>) {
    thread::spawn(move || {
        // Without the buffer and lock that the library puts around it.
        if let Ok(own) = std::io::stdin().as_fd().try_clone_to_owned() {
            let mut own = File::from(own);
            let mut buffer = vec![0; 64 * 1024];
            loop {
                let bytes = match own.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(length) => &buffer[..length],
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(_) => break,
                };
                let Ok(mut input) = input.lock() else { break };
                // A program that does not read any more may still have something to say.
                if input.as_mut().is_some_and(|input| input.write_all(bytes).is_err()) {
                    *input = None;
                }
            }
        }
        if let Ok(mut input) = input.lock() {
            *input = None;
        }
        let _ = events.send(Event::InputEnded);
    });
}

/// Waits for children, our own and those that were left to us. As long as there is a descendant, there is a child.
fn reap(program: Pid, events: &Sender<Event>) {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => {
                let code = status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
                let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
                let _ = events.send(Event::ProgramEnded(code));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => {
                let _ = events.send(Event::NobodyLeft);
                return;
            }
        }
    }
}

/// The guard's own course.
struct Watch {
    noticed: Receiver<Event>,
    program: Pid,
    input: Arc<Mutex<Option<ChildStdin>>>,
    code: Option<u8>,
}

impl Watch {
    fn until_nobody_is_left(mut self) -> u8 {
        match self.next(None) {
            Some(Event::ServerGone | Event::InputEnded | Event::ProgramEnded(_)) => {}
            Some(Event::Terminate) => {
                // Held only by a write that the program does not take; then it does not look at its input anyway.
                if let Ok(mut input) = self.input.try_lock() {
                    *input = None;
                }
            }
            Some(Event::NobodyLeft) | None => return self.code(),
        }
        if self.code.is_none() && self.gone_within(AFTER_END_OF_INPUT) {
            return self.code();
        }
        signal_all(self.program, Signal::TERM);
        if self.gone_within(if self.code.is_some() { FOR_LEFTOVERS } else { AFTER_TERMINATE }) {
            return self.code();
        }
        let until = Instant::now() + KILLING;
        while Instant::now() < until {
            signal_all(self.program, Signal::KILL);
            if self.gone_within(BETWEEN_KILLS) {
                break;
            }
        }
        self.code()
    }

    /// The next event; none if there is none within the time.
    fn next(&mut self, within: Option<Duration>) -> Option<Event> {
        let event = match within {
            Some(within) => self.noticed.recv_timeout(within),
            None => self.noticed.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        if let Ok(Event::ProgramEnded(code)) = event {
            self.code = Some(code);
        }
        event.ok()
    }

    /// Whether nobody is left within the time. Comes back earlier when only leftovers of the program are.
    fn gone_within(&mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        loop {
            match self.next(Some(until.saturating_duration_since(Instant::now()))) {
                Some(Event::NobodyLeft) => return true,
                Some(Event::ProgramEnded(_)) => return self.next(Some(FOR_LEFTOVERS)) == Some(Event::NobodyLeft),
                Some(Event::ServerGone | Event::InputEnded | Event::Terminate) => {}
                None => return false,
            }
        }
    }

    fn code(&self) -> u8 {
        self.code.unwrap_or(1)
    }
}
