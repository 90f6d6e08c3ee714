//! What keeps a reading child from everything but its work.
//!
//! The limits hold on every kernel. Landlock and seccomp are there on most: either of them alone keeps the child from files
//! and sockets, and so does the limit on open files; so a fault in one of them opens nothing.

use std::{collections::BTreeMap, io};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, RulesetStatus,
    Scope,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

/// System calls that a reader makes, whatever their arguments: memory, time, and its end. Beside them, it reads and writes its
/// pipes ([`pipes_and_memory`]). All others fail as not permitted.
const CALLS: [i64; 26] = [
    libc::SYS_close,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_getrusage,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
];

/// Has this process, which has one thread, keep to its work. Says whether Landlock or seccomp help with that.
pub(crate) fn confine(memory: u64, cpu_seconds: u64) -> io::Result<bool> {
    limit(memory, cpu_seconds)?;
    // Each needs a call that the next one does not allow any more.
    let landlock = with_landlock().unwrap_or(false);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum: Some(0) })?;
    let seccomp = with_seccomp().is_some();
    Ok(landlock || seccomp)
}

/// Limits this process: memory beyond what it has now, CPU time, and nothing at all of what leaves a trace.
fn limit(memory: u64, cpu_seconds: u64) -> io::Result<()> {
    let address_space = address_space()?.saturating_add(memory);
    let limits = [
        (Resource::As, address_space, address_space),
        // The first limit ends the process with a signal that says why, the second one if that were not enough.
        (Resource::Cpu, cpu_seconds, cpu_seconds.saturating_add(1)),
        (Resource::Core, 0, 0),
        (Resource::Fsize, 0, 0),
        (Resource::Nproc, 0, 0),
    ];
    for (resource, soft, hard) in limits {
        setrlimit(resource, Rlimit { current: Some(soft), maximum: Some(hard) })?;
    }
    Ok(())
}

/// How much memory is mapped now, in bytes: the program itself, for the most part.
fn address_space() -> io::Result<u64> {
    let statistics = std::fs::read_to_string("/proc/self/statm")?;
    let pages: Option<u64> = statistics.split(' ').next().and_then(|pages| pages.parse().ok());
    let pages = pages.ok_or_else(|| io::Error::other(format!("/proc/self/statm is {statistics:?}")))?;
    Ok(pages.saturating_mul(rustix::param::page_size() as u64))
}

/// Has the kernel keep this thread from files, from ports and from sockets of other processes. Says whether it does.
fn with_landlock() -> Result<bool, landlock::RulesetError> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))?
        .handle_access(AccessNet::from_all(ABI::V4))?
        .scope(Scope::from_all(ABI::V6))?
        .create()?;
    Ok(ruleset.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

/// Has the kernel refuse this thread all calls but [`CALLS`].
fn with_seccomp() -> Option<()> {
    let mut allowed: BTreeMap<_, _> = CALLS.into_iter().map(|call| (call, Vec::new())).collect();
    allowed.extend(pipes_and_memory().ok()?);
    let refused = SeccompAction::Errno(u32::try_from(libc::EPERM).ok()?);
    let architecture = std::env::consts::ARCH.try_into().ok()?;
    let filter = SeccompFilter::new(allowed, refused, SeccompAction::Allow, architecture).ok()?;
    let program: BpfProgram = filter.try_into().ok()?;
    apply_filter(&program).ok()
}

/// Calls that a reader makes with certain arguments only: the server may have been started with files open that it knows nothing
/// of, and those are a child's too.
fn pipes_and_memory() -> Result<[(i64, Vec<SeccompRule>); 4], seccompiler::BackendError> {
    let is = |argument, value| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value);
    let one_of = |files: &[u64]| -> Result<Vec<_>, _> {
        files.iter().map(|file| SeccompRule::new(vec![is(0, *file)?])).collect()
    };
    let anonymous = u64::from(libc::MAP_ANONYMOUS.unsigned_abs());
    let flags = SeccompCondition::new(3, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(anonymous), anonymous)?;
    Ok([
        (libc::SYS_read, one_of(&[0])?),
        (libc::SYS_write, one_of(&[1, 2])?),
        (libc::SYS_writev, one_of(&[1, 2])?),
        (libc::SYS_mmap, vec![SeccompRule::new(vec![flags])?]),
    ])
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{ErrorKind, Read as _},
        net::{TcpListener, UdpSocket},
        os::unix::net::UnixStream,
        process::Command,
    };

    use super::*;

    /// What somebody would try who got the reader to do what they want. `None` is something that worked.
    fn attempts() -> [(&'static str, Option<ErrorKind>); 6] {
        let folder = std::env::temp_dir();
        [
            ("read a file", File::open("/etc/passwd").err()),
            ("write a file", File::create(folder.join("everturn-reader-fence")).err()),
            ("list a folder", std::fs::read_dir("/").err()),
            ("open a port", TcpListener::bind("127.0.0.1:0").err()),
            ("send a packet", UdpSocket::bind("127.0.0.1:0").err()),
            ("start a program", Command::new("/bin/true").spawn().err()),
        ]
        .map(|(what, error)| (what, error.map(|error| error.kind())))
    }

    /// It is of one thread; the others of this process stay as they are.
    #[test]
    fn seccomp_alone_keeps_from_everything() {
        let (fenced, others) = std::thread::spawn(|| {
            // As if it had been left open by somebody.
            let mut open = File::open("/proc/self/status").unwrap();
            assert!(with_seccomp().is_some(), "this kernel has no seccomp");
            let read = open.read(&mut [0; 10]).err().map(|error| error.kind());
            (attempts(), [UnixStream::pair().err().map(|error| error.kind()), read])
        })
        .join()
        .unwrap();
        for (what, error) in fenced {
            assert_eq!(error, Some(ErrorKind::PermissionDenied), "{what}");
        }
        assert_eq!(others, [Some(ErrorKind::PermissionDenied); 2]);
    }

    #[test]
    fn landlock_alone_keeps_from_files_and_ports() {
        let reached = std::thread::spawn(|| with_landlock().unwrap_or(false).then(attempts)).join().unwrap();
        // Some kernels do not have it.
        let Some(reached) = reached else { return };
        for (what, error) in reached.into_iter().filter(|(what, _)| what.ends_with("file") || what.ends_with("folder"))
        {
            assert_eq!(error, Some(ErrorKind::PermissionDenied), "{what}");
        }
    }
}
