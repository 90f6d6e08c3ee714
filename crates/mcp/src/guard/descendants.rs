//! Everything that a guard has started, however many steps away.

use rustix::process::{Pid, Signal};

/// Signals every descendant of this process.
#[cfg(target_os = "linux")]
pub(super) fn signal_all(program: Pid, signal: Signal) {
    let found = processes();
    if found.is_empty() {
        // There is no /proc here; reach at least those that did not leave the program's group.
        let _ = rustix::process::kill_process_group(program, signal);
        return;
    }
    for pid in below(rustix::process::getpid().as_raw_pid(), &found) {
        signal_one(pid, &found, signal);
    }
}

/// Signals the program and those in its group.
#[cfg(not(target_os = "linux"))]
pub(super) fn signal_all(program: Pid, signal: Signal) {
    let _ = rustix::process::kill_process_group(program, signal);
}

/// A process, as far as its descent matters. The time of its start tells it from a later one with the same id.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    started: u64,
}

#[cfg(target_os = "linux")]
impl Process {
    fn read(pid: i32) -> Option<Self> {
        Self::parse(pid, &std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads a line such as `12 (a name) S 1 …`. A name may hold anything, also parentheses.
    fn parse(pid: i32, line: &str) -> Option<Self> {
        let (_, rest) = line.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        // The 22nd field of the line; the parent is the 4th.
        let started = fields.nth(17)?.parse().ok()?;
        Some(Self { pid, parent, started })
    }
}

#[cfg(target_os = "linux")]
fn processes() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    ids.filter_map(Process::read).collect()
}

/// Whether a process was started by another one, however many steps away. What a guard has started stays below its guard.
#[cfg(target_os = "linux")]
pub fn descends_from(pid: i32, ancestor: i32) -> bool {
    /// More steps than anybody takes. A parent may change while we look, so that there could be a circle.
    const MOST_STEPS: usize = 1000;
    let parents = std::iter::successors(Process::read(pid), |process| Process::read(process.parent));
    parents.take(MOST_STEPS).any(|process| process.parent == ancestor)
}

/// Nobody can be told apart without `/proc`.
#[cfg(not(target_os = "linux"))]
pub fn descends_from(_: i32, _: i32) -> bool {
    false
}

/// Whether a guard started this process, directly or through others. The guard may belong to the server or to a command.
/// `subcommand` is the first argument of guards.
#[cfg(target_os = "linux")]
pub fn is_guarded(pid: i32, subcommand: &str) -> bool {
    const MOST_STEPS: usize = 1000;
    let is_guard = |process: &Process| {
        let line = std::fs::read(format!("/proc/{}/cmdline", process.parent)).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(subcommand.as_bytes())
    };
    let parents = std::iter::successors(Process::read(pid), |process| Process::read(process.parent));
    parents.take(MOST_STEPS).any(|process| is_guard(&process))
}

/// Nobody can be told apart without `/proc`.
#[cfg(not(target_os = "linux"))]
pub fn is_guarded(_: i32, _: &str) -> bool {
    false
}

/// Those that descend from a process.
#[cfg(target_os = "linux")]
fn below(ancestor: i32, all: &[Process]) -> Vec<i32> {
    let mut found = vec![ancestor];
    let mut looked_at = 0;
    while let Some(parent) = found.get(looked_at).copied() {
        looked_at += 1;
        let children: Vec<i32> = all
            .iter()
            .filter(|process| process.parent == parent && !found.contains(&process.pid))
            .map(|process| process.pid)
            .collect();
        found.extend(children);
    }
    found.split_off(1)
}

/// Signals a process, unless it is gone and its id belongs to another one by now.
#[cfg(target_os = "linux")]
fn signal_one(pid: i32, known: &[Process], signal: Signal) {
    use rustix::process::{PidfdFlags, kill_process, pidfd_open, pidfd_send_signal};

    let Some(target) = Pid::from_raw(pid) else { return };
    // From here on the handle stands for one process; what remains is whether it is the one that we looked at.
    let handle = pidfd_open(target, PidfdFlags::empty());
    let same = known.iter().find(|process| process.pid == pid).map(|process| process.started)
        == Process::read(pid).map(|process| process.started);
    if same {
        let _ = match handle {
            Ok(handle) => pidfd_send_signal(handle, signal),
            Err(_) => kill_process(target, signal),
        };
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let line = "42 (a) b) (c) S 7 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 0 0";
        assert_eq!(Process::parse(42, line), Some(Process { pid: 42, parent: 7, started: 123_456 }));
        for line in ["", "42 (a", "42 (a) S", "42 (a) S x 1"] {
            assert_eq!(Process::parse(42, line), None);
        }
    }

    #[test]
    fn descent() {
        let process = |pid, parent| Process { pid, parent, started: 0 };
        let all = [process(1, 0), process(5, 4), process(4, 3), process(3, 2), process(2, 1), process(9, 1)];
        assert_eq!(below(2, &all), [3, 4, 5]);
        assert_eq!(below(5, &all), [0; 0]);
        assert_eq!(below(1, &[process(1, 1), process(2, 1)]), [2]);
    }

    #[test]
    fn children_descend_from_this_process() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let id = i32::try_from(child.id()).unwrap();
        assert!(descends_from(id, own) && !descends_from(own, id) && !descends_from(own, own));
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn this_process_is_found() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(processes().iter().any(|process| process.pid == own && process.started > 0));
    }
}
