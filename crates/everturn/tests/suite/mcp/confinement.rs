//! What programs that the server has started can reach of it. Each attempt that fails in a sandbox succeeds without one, as far as the
//! user may make it at all.
#![cfg(target_os = "linux")]

use std::{
    collections::BTreeMap,
    fs::Permissions,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use super::world::{PYTHON, Traces, World, config, only, table};
use crate::suite::harness::Home;

type Outcomes = BTreeMap<String, String>;

/// A server whose `box` is a spy with these lines in its table.
fn world(lines: &str) -> World {
    let home = Home::new("");
    let spy = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/mcp/spy.py")).unwrap();
    let at = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let (database, file, secret) = (at("everturn-data/everturn.db"), at("everturn.toml"), at("metrics.key"));
    std::fs::write(&secret, "metrics-0123456789abcdef").unwrap();
    std::fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    // As text, so that other users can run it too.
    let command = [PYTHON.as_str(), "-I", "-S", "-c", &spy, &database, &file, &secret].map(str::to_owned);
    let metrics = "[metrics]\nkey = 'file:metrics.key'\n";
    home.configure(&config("", &table("box", &command, lines), metrics));
    // For its user alone, as the data is.
    std::fs::set_permissions(home.path().join("everturn.toml"), Permissions::from_mode(0o600)).unwrap();
    // Something to be read from its environment.
    let server = home.start_in(&[("PATH", "/usr/bin:/bin"), ("HOME", "/nowhere")], &[]);
    let world = World { server, home, traces: Traces::new() };
    world.ready("box");
    world
}

fn outcomes(world: &World, name: &str) -> Outcomes {
    world.call(name, &[("box__try", json!({}))]);
    serde_json::from_str(&only(name)).unwrap()
}

fn succeeded(outcomes: &Outcomes) -> Vec<&str> {
    outcomes.iter().filter(|(_, outcome)| *outcome == "succeeded").map(|(name, _)| name.as_str()).collect()
}

/// How the server tells that it confines `box`.
fn logged(world: &World) -> String {
    let log = world.home.log();
    let line = log.lines().find(|line| line.contains("an MCP server was started"));
    line.unwrap_or_else(|| panic!("it does not say so: {log}")).to_owned()
}

/// Whether files are confined here; says so where they are not.
fn has_landlock(world: &World) -> bool {
    let has = !logged(world).contains("landlock no");
    if !has {
        eprintln!("skipped: this kernel has no Landlock");
    }
    has
}

#[test]
fn a_program_reaches_nothing_of_the_server() {
    for (sandbox, name) in [("default", "mcp-spy-default"), ("strict", "mcp-spy-strict")] {
        let python = PathBuf::from(PYTHON.as_str()).canonicalize().unwrap();
        let installed = python.parent().unwrap().parent().unwrap().to_str().unwrap();
        let lines = if sandbox == "strict" { format!("read_paths = [{installed:?}]") } else { String::new() };
        let world = world(&format!("sandbox = '{sandbox}'\n{lines}"));
        if !has_landlock(&world) {
            return;
        }
        assert!(logged(&world).contains(&format!("sandbox {sandbox}: landlock ")), "{}", logged(&world));
        let outcomes = outcomes(&world, name);
        let partly = logged(&world).contains("landlock partly");
        let mut expected = Vec::new();
        if partly && outcomes["guard_signal"] == "succeeded" {
            // Older kernels confine files only.
            expected.push("guard_signal");
        }
        assert_eq!(succeeded(&outcomes), expected, "{outcomes:?}");
        assert_eq!(outcomes["own_child_trace"], "EPERM", "{outcomes:?}");
        if cfg!(target_arch = "x86_64") {
            assert_eq!(outcomes["own_child_trace_by_other_number"], "EPERM", "{outcomes:?}");
        }
        assert_eq!((&*outcomes["database"], &*outcomes["config"]), ("EACCES", "EACCES"));
    }
}

/// The counterpart: without it, the attempts above succeed where this test's own user may make them.
#[test]
fn without_a_sandbox_a_program_reaches_what_its_user_can() {
    let world = world("sandbox = 'off'");
    let outcomes = outcomes(&world, "mcp-spy-off");
    for name in [
        "database",
        "secret_key",
        "secret_file",
        "config",
        "config_write",
        "config_swap",
        "own_child_trace",
        "guard_signal",
        "server_limits",
        "server_priority",
    ] {
        assert_eq!(outcomes[name], "succeeded", "{name} {outcomes:?}");
    }
    assert_ne!(outcomes["own_child_trace_by_other_number"], "EPERM");
    // Closed by other means, unless for root.
    let open = std::fs::read(format!("/proc/{}/environ", world.server.pid())).is_ok();
    for name in
        ["server_environment", "guard_environment", "guard_memory", "server_trace", "guard_trace", "through_proc"]
    {
        assert_eq!(outcomes[name] == "succeeded", open, "{name} {outcomes:?}");
    }
    assert_ne!(outcomes["socket"], "succeeded", "the server knows its own children");
    assert!(logged(&world).contains("sandbox off: landlock off, seccomp off; Everturn's user; cwd its own"));
}

#[test]
fn a_program_runs_in_an_empty_folder_of_its_own() {
    let mut world = world("");
    world.call("mcp-spy-folder", &[("box__where", json!({}))]);
    let seen: Value = serde_json::from_str(&only("mcp-spy-folder")).unwrap();
    assert_eq!(seen["entries"], json!([]), "{seen}");
    let folder = PathBuf::from(seen["cwd"].as_str().unwrap());
    assert!(folder.is_dir() && !folder.starts_with(world.home.path()), "{seen}");
    world.server.terminate();
    world.server.ended();
    assert!(!folder.exists(), "it ends with the program");
}

#[test]
fn a_program_runs_as_the_user_that_is_configured() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start programs as another user");
        return;
    }
    // An interpreter that others may run.
    let others =
        Command::new("setpriv").args(["--reuid=65534", "--clear-groups", "--", PYTHON.as_str(), "-V"]).output();
    if !others.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: {} is for root alone", *PYTHON);
        return;
    }
    let world = world("user = 'nobody'\nsandbox = 'off'");
    world.call("mcp-spy-user", &[("box__where", json!({}))]);
    let seen: Value = serde_json::from_str(&only("mcp-spy-user")).unwrap();
    let id = String::from_utf8(Command::new("id").args(["-u", "nobody"]).output().unwrap().stdout).unwrap();
    assert_eq!(seen["uid"].to_string(), id.trim(), "{seen}");
    assert_ne!(seen["home"], "/root");
    let outcomes = outcomes(&world, "mcp-spy-user-tries");
    assert_eq!(succeeded(&outcomes), ["own_child_trace"], "{outcomes:?}");
    assert!(logged(&world).contains("user nobody"), "{}", logged(&world));
}

/// What `config check` says of a server that shall run as this user; here it is asked by somebody who is not root.
fn checked_by_nobody(user: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("everturn");
    std::fs::copy(env!("CARGO_BIN_EXE_everturn"), &program).unwrap();
    std::fs::write(folder.path().join("everturn.toml"), format!("[mcp.box]\ncommand = ['sh']\nuser = '{user}'\n"))
        .unwrap();
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(&program);
        command
    } else {
        Command::new(&program)
    };
    let output = command.args(["config", "check"]).current_dir(folder.path()).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn only_root_starts_programs_as_other_users() {
    let words = checked_by_nobody("nobody");
    assert!(words.contains("a program cannot be started as `nobody`: only root can do so"), "{words}");
    assert!(words.contains("everturn.toml:3:8") && words.contains("leave `user` out"), "{words}");
    if rustix::process::geteuid().is_root() {
        let home = Home::new("[mcp.box]\ncommand = ['sh']\nuser = 'no-such-user'\n");
        let words = String::from_utf8(home.run(&["config", "check"]).stderr).unwrap();
        assert!(words.contains("there is no user `no-such-user`") && words.contains("useradd"), "{words}");
    }
}

#[test]
fn paths_that_would_not_be_found_are_told() {
    let home = Home::new(
        "[mcp.box]\ncommand = ['/bin/sh', 'server.sh', './files', 'other', '-c']\n\
         [mcp.there]\ncommand = ['/bin/sh', 'server.sh']\ncwd = '.'\nsandbox = 'strict'\npaths = ['nowhere']\n",
    );
    std::fs::write(home.path().join("server.sh"), "").unwrap();
    let output = home.run(&["config", "check"]);
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        words,
        "warning: `mcp.box.command`: `server.sh` is here, but the program runs in an empty folder of its own; write its whole \
         path, or set `cwd`\nwarning: `mcp.there.paths`: there is no nowhere; create it\n"
    );
}
