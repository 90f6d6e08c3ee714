//! The second stage of a guard: it gives up what the program shall not have, and becomes the program.

use std::{
    io::Write as _,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, ExitCode},
};

use rustix::process::{Pid, getppid};

use super::{CANNOT_RUN, NOT_FOUND, complain, task::Task, user::User};
use crate::{Landlock, Sandbox, confinement::Enforced};

/// Becomes the program.
pub(super) fn become_program(guard: i32, task: &Task) -> ExitCode {
    if !is_tied_to(guard) {
        return ExitCode::FAILURE;
    }
    match confine(guard, task) {
        Ok(Some(enforced)) if task.bounds.report => {
            let mut out = std::io::stdout();
            if writeln!(out, "{enforced}").and_then(|()| out.flush()).is_err() {
                return ExitCode::FAILURE;
            }
        }
        Ok(Some(_)) => {}
        Ok(None) => return ExitCode::FAILURE,
        Err(problem) => {
            complain(&format!("cannot start {}: {problem}", task.program.display()));
            return ExitCode::from(CANNOT_RUN);
        }
    }
    let mut command = Command::new(&task.program);
    if let Some(folder) = task.bounds.own_folder.as_ref().filter(|_| std::env::var_os("TMPDIR").is_none()) {
        command.env("TMPDIR", folder);
    }
    let error = command.args(&task.arguments).exec();
    complain(&format!("cannot start {}: {error}", task.program.display()));
    let not_found = error.kind() == std::io::ErrorKind::NotFound;
    ExitCode::from(if not_found { NOT_FOUND } else { CANNOT_RUN })
}

/// Asks the kernel to end this process with the guard. Says whether the guard is still there.
fn is_tied_to(guard: i32) -> bool {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)) {
        complain(&format!("cannot be tied to the guard: {error}"));
    }
    // It may have gone before the kernel knew that we want to follow.
    getppid().map(Pid::as_raw_pid) == Some(guard)
}

/// Takes on the user, the folder and the sandbox. Gives nothing if the guard has gone.
fn confine(guard: i32, task: &Task) -> Result<Option<Enforced>, String> {
    let bounds = &task.bounds;
    let user = bounds.user.as_deref().map(find_user).transpose()?;
    // Made with the rights that we have, since folders must be listed for it.
    #[cfg(target_os = "linux")]
    let rules = match bounds.sandbox {
        Sandbox::Off => None,
        Sandbox::Default | Sandbox::Strict => {
            let rules = super::landlock::Rules::new(bounds, &task.program, user.as_ref().map(User::ids));
            Some(rules.map_err(|error| format!("its files cannot be confined: {error}"))?)
        }
    };
    if let Some(user) = &user {
        let name = bounds.user.as_deref().unwrap_or_default();
        user.put_on().map_err(|error| format!("cannot become the user {name}: {error}"))?;
        // Another user is tied to nothing at first.
        if !is_tied_to(guard) {
            return Ok(None);
        }
    }
    if let Some(folder) = bounds.folder.as_deref().or(bounds.own_folder.as_deref()) {
        enter(folder)?;
    }
    if bounds.sandbox == Sandbox::Off {
        return Ok(Some(Enforced { landlock: Landlock::Off, seccomp: false }));
    }
    #[cfg(target_os = "linux")]
    {
        let landlock = match rules.map(super::landlock::Rules::enforce) {
            Some(enforced) => enforced.map_err(|error| format!("its files cannot be confined: {error}"))?,
            None => Landlock::Off,
        };
        super::capabilities::give_up().map_err(|error| format!("capabilities cannot be given up: {error}"))?;
        // Last, since it could refuse what comes before.
        let seccomp = super::seccomp::refuse_calls();
        if let Err(error) = &seccomp {
            complain(&format!("system calls cannot be refused: {error}"));
        }
        Ok(Some(Enforced { landlock, seccomp: seccomp.is_ok() }))
    }
    #[cfg(not(target_os = "linux"))]
    Ok(Some(Enforced { landlock: Landlock::No, seccomp: false }))
}

fn enter(folder: &Path) -> Result<(), String> {
    std::env::set_current_dir(folder).map_err(|error| format!("cannot enter its folder {}: {error}", folder.display()))
}

/// The user of this name.
pub(super) fn find_user(name: &str) -> Result<User, String> {
    match User::find(name) {
        Ok(Some(user)) => Ok(user),
        Ok(None) => Err(format!("there is no user {name}")),
        Err(error) => Err(format!("cannot find the user {name}: {error}")),
    }
}
