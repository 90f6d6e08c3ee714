//! What root keeps in a sandbox: what programs that are installed as root need, and nothing that leads around rules for files or into
//! other processes. Without `CAP_PERFMON` and `CAP_SYS_ADMIN`, for one: those read the environment of every process, past Landlock.

use std::io;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_no_new_privs};

const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_NICE);

/// Gives the others up. No program that is started from here gets them back.
pub(super) fn give_up() -> io::Result<()> {
    set_no_new_privs(true)?;
    let mut sets = capabilities(None)?;
    for set in [&mut sets.effective, &mut sets.permitted, &mut sets.inheritable] {
        *set &= KEPT;
    }
    Ok(set_capabilities(None, sets)?)
}
