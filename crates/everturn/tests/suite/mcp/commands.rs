//! `everturn mcp` and `everturn config check`, as somebody uses them who sets up real servers.

use std::{path::Path, process::Command};

use expect_test::{Expect, expect};
use serde_json::Value;

use super::{
    peers::from_npm,
    world::{PYTHON, command, program, table},
};

/// A folder with this configuration, and an agent.
fn folder(servers: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let agent = "[providers.demo]\nkind = 'demo'\n[[agents]]\nname = 'a'\nmodel = 'demo/assistant'\n";
    std::fs::write(folder.path().join("everturn.toml"), format!("{agent}{servers}")).unwrap();
    folder
}

struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

fn run(folder: &Path, arguments: &[&str]) -> Ran {
    let output =
        Command::new(env!("CARGO_BIN_EXE_everturn")).args(arguments).current_dir(folder).env_clear().output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[track_caller]
fn check(folder: &Path, arguments: &[&str], expected: Expect) {
    let Ran { code, stdout, stderr } = run(folder, arguments);
    expected.assert_eq(&format!("exit: {code}\n----- stdout\n{stdout}----- stderr\n{stderr}"));
}

#[test]
fn a_server_for_files_is_tried_out() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    let root = root.to_str().unwrap();
    let folder = folder(&table("files", &[program("node"), from_npm("server-filesystem"), root.to_owned()], ""));
    let folder = folder.path();
    let listed = run(folder, &["mcp", "list"]);
    assert_eq!((listed.code, listed.stderr.as_str()), (0, ""));
    assert!(listed.stdout.starts_with("files  ready  "), "{}", listed.stdout);
    for (tool, effect) in [("read_text_file", "read_only"), ("write_file", "idempotent"), ("edit_file", "effectful")] {
        let line = listed.stdout.lines().find(|line| line.trim_start().starts_with(&format!("{tool} ")));
        assert!(line.is_some_and(|line| line.contains(effect)), "{tool}: {}", listed.stdout);
    }
    let listed: Value = serde_json::from_str(&run(folder, &["mcp", "list", "--json"]).stdout).unwrap();
    let tools = listed["servers"][0]["tools"].as_array().unwrap();
    let write = tools.iter().find(|tool| tool["tool"] == "write_file").unwrap();
    assert_eq!((&write["name"], &write["effect"]), (&"files__write_file".into(), &"idempotent".into()));

    let file = format!("{root}/notes.txt");
    let input = format!(r#"{{"path":"{file}","content":"by hand"}}"#);
    let written = run(folder, &["mcp", "call", "files", "write_file", &input]);
    assert_eq!(written.code, 0, "{} {}", written.stdout, written.stderr);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "by hand");
    let read = run(folder, &["mcp", "call", "files", "read_text_file", &format!(r#"{{"path":"{file}"}}"#)]);
    assert_eq!((read.code, read.stdout.as_str()), (0, "by hand\n"));
    let outside = run(folder, &["mcp", "call", "files", "read_text_file", r#"{"path":"/etc/passwd"}"#]);
    assert_eq!(outside.code, 1);
    assert!(outside.stdout.contains("outside allowed directories"), "{}", outside.stdout);
}

#[test]
fn mistakes_are_told_with_what_there_is() {
    let folder = folder(&table("box", &command(&[]), ""));
    let folder = folder.path();
    check(
        folder,
        &["mcp", "call", "boxes", "echo"],
        expect![[r#"
            exit: 1
            ----- stdout
            ----- stderr
            error: there is no MCP server `boxes`

            hint: the configuration has `box`
        "#]],
    );
    check(
        folder,
        &["mcp", "call", "box", "ekko"],
        expect![[r#"
            exit: 1
            ----- stdout
            ----- stderr
            error: the MCP server `box` has no tool `ekko`

            hint: it has `echo`, `spend`, `put`, `look`, `pid`, `environment`, `wait`, `parts`, `steps`, `big`, `ask`, `sample`, `grow`, `blab`
        "#]],
    );
    check(
        folder,
        &["mcp", "call", "box", "echo", r#"{"txt":"hi"}"#],
        expect![[r#"
            exit: 1
            ----- stdout
            ----- stderr
            error: the input does not fit the tool's schema:
            - at the top: Additional properties are not allowed ('txt' was unexpected)
            - at the top: "text" is a required property
        "#]],
    );
}

#[test]
fn folders_and_programs_are_looked_for() {
    let folder = folder(
        "[mcp.box]\ncommand = ['no-such-program']\ncwd = 'nowhere'\n[mcp.off]\ncommand = ['neither']\nenabled = false\n\
         [mcp.path]\ncommand = ['/no/such/program']\n[recipes]\ndir = 'no-recipes'\n",
    );
    std::fs::write(folder.path().join("everturn-data"), "a file").unwrap();
    let Ran { code, stderr, .. } = run(folder.path(), &["config", "check"]);
    assert_eq!(code, 0, "{stderr}");
    let at = folder.path().canonicalize().unwrap();
    expect![[r#"
        warning: `store`: HERE/everturn-data is not a folder
        warning: `recipes.dir`: there is no folder no-recipes; create it
        warning: `mcp.box.cwd`: there is no folder nowhere; create it
        warning: `mcp.box.command`: there is no program `no-such-program`; install it, or write its whole path
        warning: `mcp.path.command`: there is no program `/no/such/program`; check its path
    "#]]
    .assert_eq(&stderr.replace(at.to_str().unwrap(), "HERE"));
}

#[test]
fn a_configuration_is_checked_before_it_is_used() {
    let python = &*PYTHON;
    let good = folder(&format!(
        "tools = ['box/*', 'web/search']\ntrusted = ['box/echo']\n[mcp.box]\ncommand = ['{python}']\n\
         effects = {{ spend = 'effectful' }}\n[mcp.web]\nurl = 'https://mcp.example.org/mcp'\nenabled = false\n"
    ));
    let Ran { code, stdout, stderr } = run(good.path(), &["config", "check"]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.contains("mcp     box (timeout 600s, max_timeout 3600s)"), "{stdout}");
    let bad = folder(
        "tools = ['boks/*', 'box/echo']\n[mcp.box]\ncommand = ['x']\nurl = 'http://localhost/mcp'\n\
         [mcp.web]\nurl = 'https://me:hunter2@localhost/mcp'\ntimeout = 'soon'\n[mcp.Nice__Name]\ncommand = ['x']\n\
         env = { KEY = 'env:NOT_SET' }\n",
    );
    check(
        bad.path(),
        &["config", "check"],
        expect![[r#"
        exit: 1
        ----- stdout
        ----- stderr
        error: there is no MCP server `boks` for `boks/*`
          --> everturn.toml:6:10

        hint: add a table [mcp.boks] with its command or url

        error: the MCP server `box` has a `command` and a `url`
          --> everturn.toml:9:7

        hint: it is started here or listens elsewhere: keep one

        error: `url` is not an HTTP address
          --> everturn.toml:11:7

        hint: write it like "https://host/mcp", without a user and a password; those go into `headers`

        error: `soon` is not a duration for `timeout`
          --> everturn.toml:12:11

        hint: write a number and a unit: `500ms`, `10s`, `5m`, `1h` or `2d`

        error: `Nice__Name` cannot be the name of an MCP server
          --> everturn.toml:13:6

        hint: use 1 to 32 characters of a-z 0-9 _ -, and no `__`

        error: the variable `NOT_SET` is not set
          --> everturn.toml:15:15

        hint: set it before the start: export NOT_SET=…
    "#]],
    );
}
