//! Guards, and what becomes of what they guard.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    time::Instant,
};

use super::harness::{bad_server, eventually, is_alive, pids, python};

const GUARD: &str = env!("CARGO_BIN_EXE_mcp-guard");

fn guard(program: &[&str]) -> Command {
    let mut command = Command::new(GUARD);
    command.arg("--").args(program).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// A guarded server with descendants of every kind, and their process ids.
async fn family(folder: &Path, options: &[&str]) -> (Child, Vec<i32>) {
    let file = folder.join("pids");
    let server = bad_server();
    let mut program = vec![python(), server.to_str().unwrap(), "--children", file.to_str().unwrap()];
    program.extend(options);
    let child = guard(&program).spawn().unwrap();
    let family = pids(&file).await;
    assert!(family.iter().all(|pid| is_alive(*pid)), "{family:?}");
    (child, family)
}

async fn all_gone(family: &[i32]) {
    eventually("everybody is gone", || family.iter().all(|pid| !is_alive(*pid))).await;
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status().unwrap().success());
}

#[test]
fn input_output_and_exit_code_pass_through() {
    let mut child = guard(&["sh", "-c", "read line; echo \"got $line\"; exit 42"]).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"hello\n").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "got hello\n");
    assert_eq!(child.wait().unwrap().code(), Some(42));
}

#[test]
fn much_input_passes_through() {
    let mut child = guard(&["sh", "-c", "wc -c"]).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for _ in 0..100 {
        input.write_all(&[b'x'; 100_000]).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "10000000");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn programs_that_cannot_be_started() {
    let run = |program: &str| {
        let output = guard(&[program]).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(
        run("no-such-program"),
        (Some(127), "cannot start no-such-program: No such file or directory (os error 2)\n".to_owned())
    );
    let (code, words) = run("/");
    assert_eq!(code, Some(126), "{words}");
    let nothing = Command::new(GUARD).stdin(Stdio::null()).output().unwrap();
    assert_eq!(nothing.status.code(), Some(2));
}

#[test]
fn a_program_that_dies_by_a_signal() {
    let status = guard(&["sh", "-c", "kill -9 $$"]).spawn().unwrap().wait().unwrap();
    assert_eq!(status.code(), Some(128 + 9));
}

#[tokio::test]
async fn the_end_of_the_input_ends_everything() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, family) = family(folder.path(), &[]).await;
    drop(child.stdin.take());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(family.into_iter().filter(|pid| is_alive(*pid)).collect::<Vec<_>>(), [0; 0]);
}

#[tokio::test]
async fn the_end_of_the_input_ends_those_who_ignore_everything() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, family) = family(folder.path(), &["--stubborn"]).await;
    let begun = Instant::now();
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(family.into_iter().filter(|pid| is_alive(*pid)).collect::<Vec<_>>(), [0; 0]);
    // Two seconds to end by itself, two after it was told to.
    assert!((4..8).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

/// The guard itself has more to pass on than the program takes.
#[test]
fn the_end_of_the_input_ends_a_program_that_does_not_read_it() {
    for end in [None, Some("TERM")] {
        let mut child = guard(&["sleep", "1000"]).spawn().unwrap();
        // What both pipes and the guard can hold, and no more: the guard is stuck, and we are not.
        child.stdin.as_mut().unwrap().write_all(&[b'x'; 190_000]).unwrap();
        match end {
            None => drop(child.stdin.take()),
            Some(name) => signal(&child, name),
        }
        let begun = Instant::now();
        child.wait().unwrap();
        assert!(begun.elapsed().as_secs() < 8, "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_signal_ends_everything() {
    for name in ["TERM", "INT", "HUP"] {
        let folder = tempfile::tempdir().unwrap();
        let (mut child, family) = family(folder.path(), &[]).await;
        signal(&child, name);
        child.wait().unwrap();
        assert_eq!(family.into_iter().filter(|pid| is_alive(*pid)).collect::<Vec<_>>(), [0; 0], "{name}");
    }
}

#[tokio::test]
async fn a_program_that_ends_leaves_nobody_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, family) = family(folder.path(), &["--die", "bye"]).await;
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert_eq!(family.into_iter().filter(|pid| is_alive(*pid)).collect::<Vec<_>>(), [0; 0]);
}

#[tokio::test]
async fn when_the_one_who_started_it_is_killed_everything_ends() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    // Stands in for this server: starts a guard, and is killed without a chance to do anything about it.
    let parent = "import subprocess, sys, time\n\
                  subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n\
                  time.sleep(1000)";
    let mut parent = Command::new(python())
        .args(["-c", parent, GUARD, "--", python(), bad_server().to_str().unwrap(), "--stubborn", "--children"])
        .arg(&file)
        .spawn()
        .unwrap();
    let family = pids(&file).await;
    assert!(family.iter().all(|pid| is_alive(*pid)));
    signal(&parent, "KILL");
    parent.wait().unwrap();
    all_gone(&family).await;
}

#[tokio::test]
async fn when_the_guard_is_killed_the_program_ends() {
    let folder = tempfile::tempdir().unwrap();
    let (mut child, family) = family(folder.path(), &["--stubborn"]).await;
    signal(&child, "KILL");
    child.wait().unwrap();
    all_gone(&family[..1]).await;
    // Nobody is there to look for the others; end them.
    for pid in &family[1..] {
        let _ = Command::new("kill").arg("-KILL").arg(pid.to_string()).stderr(Stdio::null()).status();
    }
    all_gone(&family).await;
}
