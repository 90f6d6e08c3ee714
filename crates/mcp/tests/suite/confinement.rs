//! What guarded programs are kept from. Each attempt that fails in a sandbox succeeds without one.
#![cfg(target_os = "linux")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

use super::harness::python;

const GUARD: &str = env!("CARGO_BIN_EXE_mcp-guard");

/// Runs a script in a shell under a guard with these bounds.
fn run(bounds: &[&str], script: &str) -> Output {
    run_in(&std::env::var("HOME").unwrap_or_default(), bounds, script)
}

/// The same, for somebody whose folder is this one.
fn run_in(home: &str, bounds: &[&str], script: &str) -> Output {
    let mut command = Command::new(GUARD);
    command.args(bounds).args(["--", "sh", "-c", script]).env_remove("TMPDIR").env("HOME", home);
    // The guard ends what it guards when its input does.
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(input);
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What the kernel enforces; says so where a test cannot be run.
fn has_landlock() -> bool {
    let enforced = said(&run(&["--report", "--sandbox", "default"], "true"));
    let has = !enforced.starts_with("everturn-guard no");
    if !has {
        eprintln!("skipped: this kernel has no Landlock");
    }
    has
}

/// A folder with data, a configuration, a folder to work in, and a link to the data.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["data/open", "files", "elsewhere"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["data/db", "data/open/note", "everturn.toml", "files/note", "beside"] {
            fs::write(at(name), "content").unwrap();
        }
        std::os::unix::fs::symlink("data", at("link")).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Which of these scripts succeed in the place, each started anew.
    fn tried<'s>(&self, bounds: &[&str], scripts: &[&'s str]) -> Vec<&'s str> {
        let (data, file) = (self.path("data"), self.path("everturn.toml"));
        let mut all = vec!["--protect", &data, "--protect", &file];
        all.extend(bounds);
        let succeeds = |script: &str| run(&all, &format!("cd {} && {script}", self.path(""))).status.success();
        scripts.iter().copied().filter(|script| succeeds(script)).collect()
    }
}

/// None of these takes anything away that another one needs.
const FORBIDDEN: &[&str] = &[
    "cat data/db",
    "cat link/db",
    "cat everturn.toml",
    "cat data/open/note",
    "echo x >>data/db",
    "echo x >>everturn.toml",
    "touch data/db-journal",
    "ln -s /dev/null data/db-wal",
    "ln everturn.toml files/copy",
    "mv everturn.toml files/ && mv files/everturn.toml .",
    "mv data files/ && mv files/data .",
    "mv everturn.toml x && mv x everturn.toml",
    "rm -f everturn.toml && echo content >everturn.toml",
];

const ALLOWED: &[&str] = &[
    "ls data",
    "cat beside",
    "echo x >>beside",
    "cat files/note",
    "echo x >files/new && cat files/new && mv files/new elsewhere/new",
    "ls . | grep files",
    "sleep 100 & kill $!",
];

#[test]
fn what_is_protected_is_closed_and_the_rest_is_open() {
    let place = Place::new();
    assert_eq!(place.tried(&[], FORBIDDEN), FORBIDDEN);
    let place = Place::new();
    assert_eq!(place.tried(&[], ALLOWED), ALLOWED);
    if has_landlock() {
        let place = Place::new();
        assert_eq!(place.tried(&["--sandbox", "default"], FORBIDDEN), [""; 0]);
        assert_eq!(place.tried(&["--sandbox", "default"], ALLOWED), ALLOWED);
    }
}

/// A folder that has something to protect is opened entry by entry.
#[test]
fn what_is_made_later_beside_what_is_protected_stays_closed() {
    let place = Place::new();
    let scripts = ["echo x >new", "mkdir folder"];
    assert_eq!(place.tried(&[], &scripts), scripts);
    if has_landlock() {
        let place = Place::new();
        assert_eq!(place.tried(&["--sandbox", "default"], &scripts), [""; 0]);
    }
}

/// As npx and uvx do when they first run.
#[test]
fn caches_can_be_begun_in_a_home_that_has_the_data() {
    if !has_landlock() {
        return;
    }
    let place = Place::new();
    let bounds = ["--sandbox", "default", "--protect", &place.path("data")];
    let script = "cd && mkdir -p .npm/_cacache .cache/uv .local/share .config/x && echo x >.npm/_cacache/y && cat .npm/_cacache/y";
    let output = run_in(&place.path(""), &bounds, script);
    assert_eq!(said(&output), "x\n", "{output:?}");
    let output = run_in(&place.path(""), &bounds, "cat $HOME/data/db");
    assert!(!output.status.success() && output.stdout.is_empty());
    // A home that has nothing to protect is left as it is.
    run_in(&place.path("files"), &bounds, "true");
    assert_eq!(fs::read_dir(place.path("files")).unwrap().count(), 1);
}

#[test]
fn a_folder_with_too_many_entries_is_refused_in_words() {
    let place = Place::new();
    for number in 0..20_000 {
        fs::write(place.0.path().join(format!("file-{number}")), "").unwrap();
    }
    let output = run(&["--sandbox", "default", "--protect", &place.path("data")], "echo started");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("more than 20000 entries") && words.contains("sandbox = \"off\""), "{words}");
    assert_eq!((output.status.code(), said(&output)), (Some(126), String::new()));
}

#[test]
fn a_folder_within_the_data_that_is_named_is_open() {
    if !has_landlock() {
        return;
    }
    let place = Place::new();
    let bounds = ["--sandbox", "default", "--folder", &place.path("data/open")];
    let scripts = ["cat data/open/note", "echo x >data/open/new", "cat data/db", "cat data/open/../db"];
    assert_eq!(place.tried(&bounds, &scripts), scripts[..2]);
    // Whoever names all of it does not get it.
    let bounds = ["--sandbox", "strict", "--path", &place.path("data"), "--path", &place.path("everturn.toml")];
    assert_eq!(place.tried(&bounds, &["cat data/db", "cat everturn.toml"]), [""; 0]);
}

#[test]
fn a_strict_sandbox_opens_only_what_is_named() {
    let place = Place::new();
    let (read, write) = (place.path("elsewhere"), place.path("files"));
    fs::write(place.0.path().join("elsewhere/note"), "content").unwrap();
    let allowed = ["cat elsewhere/note", "echo x >files/new", "cat files/note", "cat /etc/passwd", "echo x >/dev/null"];
    let forbidden = ["cat beside", "ls .", "echo x >elsewhere/new", "cat data/db", "touch /usr/x && rm /usr/x"];
    let both = [allowed, forbidden].concat();
    let may_write_system = rustix::process::geteuid().is_root();
    let without = if may_write_system { &both[..] } else { &both[..both.len() - 1] };
    assert_eq!(place.tried(&[], &both), without);
    if has_landlock() {
        let place_bounds = ["--sandbox", "strict", "--read-path", &read, "--path", &write];
        assert_eq!(place.tried(&place_bounds, &both), allowed);
    }
}

#[test]
fn a_folder_of_its_own_begins_empty_and_ends_with_the_program() {
    for sandbox in ["off", "default", "strict"] {
        let parent = tempfile::tempdir().unwrap();
        let temporary = parent.path().canonicalize().unwrap();
        let script = "pwd; echo $TMPDIR; ls -A; stat -c %a .; mkdir -p a/b && echo x >a/b/c && cat a/b/c";
        let output = run(&["--temporary", temporary.to_str().unwrap(), "--sandbox", sandbox], script);
        let said = said(&output);
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines.len(), 4, "{output:?}");
        assert!(Path::new(lines[0]).parent() == Some(&temporary) && lines[0] == lines[1], "{lines:?}");
        assert_eq!(lines[2..], ["700", "x"]);
        assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "nothing of it is left");
    }
    let output = run(&["--temporary", "/no/such/folder"], "true");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("cannot make a folder in /no/such/folder") && words.contains("set TMPDIR"), "{words}");
    assert_eq!(output.status.code(), Some(126));
}

#[test]
fn a_guard_says_what_is_enforced_before_the_program_speaks() {
    let said = |bounds: &[&str]| said(&run(bounds, "echo hello"));
    assert_eq!(said(&["--report"]), "everturn-guard off false\nhello\n");
    assert_eq!(said(&["--sandbox", "default"]), "hello\n");
    let confined = said(&["--report", "--sandbox", "strict"]);
    let (first, rest) = confined.split_once('\n').unwrap();
    assert!(first.starts_with("everturn-guard ") && first != "everturn-guard off false", "{confined}");
    assert_eq!(rest, "hello\n");
}

/// Makes the kernel say that it has no Landlock, and becomes the program behind it.
const WITHOUT_LANDLOCK: &str = r#"
import ctypes, os, struct, sys
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LANDLOCK_CREATE_RULESET, ENOSYS = 444, 38
code = [(0x20, 0, 0, 0), (0x15, 0, 1, LANDLOCK_CREATE_RULESET), (0x06, 0, 0, 0x50000 | ENOSYS), (0x06, 0, 0, 0x7fff0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
program = Program(4, ctypes.addressof(code))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn a_kernel_without_landlock_starts_the_program_all_the_same() {
    let mut command = Command::new(python());
    command.args(["-c", WITHOUT_LANDLOCK, GUARD, "--report", "--sandbox", "default", "--", "echo", "hello"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let input = child.stdin.take();
    assert_eq!(said(&child.wait_with_output().unwrap()), "everturn-guard no true\nhello\n");
    drop(input);
}

#[test]
fn bounds_that_a_guard_does_not_know_start_nothing() {
    for bounds in [&["--sandbox", "loose"][..], &["--protect-from", "x"], &["--user", "no-such-user"]] {
        let output = run(bounds, "echo started");
        assert!(!output.status.success() && output.stdout.is_empty(), "{bounds:?} {output:?}");
    }
}

/// The program has the user, the user's groups and nothing of root's.
#[test]
fn another_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start programs as another user");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let secret = place.path().join("secret");
    fs::write(&secret, "content").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let temporary = std::env::temp_dir();
    let secret = secret.to_str().unwrap();
    let bounds = ["--user", "nobody", "--temporary", temporary.to_str().unwrap()];
    let script = format!("id -u; id -un; id -G; stat -c %u .; cat {secret}; kill -0 $PPID; echo x >own && cat own");
    let output = run(&bounds, &script);
    let nobody = Command::new("id").args(["-G", "nobody"]).output().unwrap();
    let id = String::from_utf8(Command::new("id").args(["-u", "nobody"]).output().unwrap().stdout).unwrap();
    let expected = format!("{id}nobody\n{}{id}x\n", String::from_utf8(nobody.stdout).unwrap());
    assert_eq!(said(&output), expected, "{output:?}");
    assert!(said(&run(&["--temporary", temporary.to_str().unwrap()], &format!("cat {secret}"))).contains("content"));
}
