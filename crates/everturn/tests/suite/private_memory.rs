//! What other processes of the same user can read of a running server.
#![cfg(target_os = "linux")]

use std::{
    io::{BufRead as _, BufReader},
    os::unix::fs::MetadataExt as _,
    process::{Command, Stdio},
};

/// The kernel gives the files of a process that keeps its memory to itself to root: others of its user cannot open them. Root
/// could anyway, so the server runs as somebody else.
#[test]
fn its_memory_and_environment_are_its_own() {
    let nobody = 65534;
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("everturn");
    std::fs::copy(env!("CARGO_BIN_EXE_everturn"), &program).unwrap();
    let is_root = folder.path().metadata().unwrap().uid() == 0;
    let mut command = if is_root {
        std::os::unix::fs::chown(folder.path(), Some(nobody), Some(nobody)).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(&program);
        command
    } else {
        Command::new(&program)
    };
    command.args(["--listen", "127.0.0.1:0"]).current_dir(folder.path()).env("EVERTURN_KEY", "0123456789abcdef");
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let process = format!("/proc/{}", server.id());
    let owner = |file: &str| std::fs::metadata(format!("{process}/{file}")).map(|file| file.uid());
    let owners = [owner("environ"), owner("mem")];
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(line.contains("http://127.0.0.1:"), "the server does not start: {line}");
    assert!(owners.iter().all(|owner| owner.as_ref().is_ok_and(|owner| *owner == 0)), "{owners:?}");
}
