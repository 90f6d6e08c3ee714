//! System calls that no MCP server needs: they look into or change other processes, change the machine, or load code into its
//! kernel.
//! They fail as if they were not permitted.

use std::collections::BTreeMap;

use libc::{EPERM, c_long};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

/// The calls.
const REFUSED: &[c_long] = &[
    // Other processes' memory and files.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_perf_event_open,
    // Files past their names.
    libc::SYS_open_by_handle_at,
    // Code in the kernel, or another kernel.
    libc::SYS_bpf,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    // What is mounted, and other namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_setns,
    // Keys that the kernel keeps.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // The machine as a whole.
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    libc::SYS_vhangup,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[c_long] = &[libc::SYS_kexec_file_load, libc::SYS_iopl, libc::SYS_ioperm];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[c_long] = &[];

/// Calls that change a process, by the place of the argument that says which one: zero is the one that calls. Another one may
/// be Everturn, which would be left without files or time.
const OWN_ONLY: &[(c_long, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_ioprio_set, 1),
    (libc::SYS_migrate_pages, 0),
    (libc::SYS_move_pages, 0),
];

/// On x86-64 most calls have a second number, with this bit, for programs with short pointers.
#[cfg(target_arch = "x86_64")]
const SHORT_POINTERS: c_long = 0x4000_0000;
/// Those whose second number is another one: `ptrace`, `process_vm_readv`, `process_vm_writev` and `kexec_load`.
#[cfg(target_arch = "x86_64")]
const OTHER_NUMBERS: &[c_long] = &[521, 539, 540, 528];

/// All numbers under which calls can be made.
fn numbers(calls: impl IntoIterator<Item = c_long>) -> Vec<c_long> {
    #[cfg(target_arch = "x86_64")]
    let calls = calls.into_iter().flat_map(|number| [number, number | SHORT_POINTERS]);
    calls.into_iter().collect()
}

/// The second numbers that are other ones.
fn other_numbers() -> Vec<c_long> {
    #[cfg(target_arch = "x86_64")]
    return OTHER_NUMBERS.iter().map(|number| number | SHORT_POINTERS).collect();
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}

/// Refuses the calls, from now on and in everything that this process starts. Programs of another architecture than ours end.
pub(super) fn refuse_calls() -> Result<(), String> {
    let words = |error: seccompiler::BackendError| error.to_string();
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(words)?;
    let mut rules: BTreeMap<i64, _> = numbers(REFUSED.iter().chain(REFUSED_HERE).copied())
        .into_iter()
        .chain(other_numbers())
        .map(|number| (number, Vec::new()))
        .collect();
    for (call, argument) in OWN_ONLY {
        let is_other = SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, 0).map_err(words)?;
        let rule = SeccompRule::new(vec![is_other]).map_err(words)?;
        rules.extend(numbers([*call]).into_iter().map(|number| (number, vec![rule.clone()])));
    }
    let refused = SeccompAction::Errno(EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, architecture).map_err(words)?;
    let program = BpfProgram::try_from(filter).map_err(words)?;
    apply_filter(&program).map_err(|error| error.to_string())
}
