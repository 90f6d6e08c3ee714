//! `everturn mcp list` and `everturn mcp call`, word by word.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use expect_test::{Expect, expect};
use serde_json::Value;

use super::world::PYTHON;

fn server() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcp/tests/suite/server.py")
}

/// A folder with a configuration that has these lines after a server called `bad`.
fn folder(options: &[&str], more: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut command =
        vec![PYTHON.as_str(), server().to_str().unwrap()].into_iter().map(str::to_owned).collect::<Vec<_>>();
    command.extend(options.iter().map(|option| (*option).to_owned()));
    let text = format!(
        "[providers.demo]\nkind = 'demo'\n[[agents]]\nname = 'a'\nmodel = 'demo/assistant'\n[mcp.bad]\ncommand = {command:?}\n{more}"
    );
    std::fs::write(folder.path().join("everturn.toml"), text).unwrap();
    folder
}

fn everturn(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_everturn"));
    command
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
        .env("HOME", "/nowhere")
        .env("OPENAI_API_KEY", "sk-secret")
        .env("EVERTURN_SECRET_KEY", "00".repeat(32))
        .stdin(Stdio::null());
    command
}

fn run(folder: &Path, arguments: &[&str]) -> String {
    let output = everturn(folder, arguments).output().unwrap();
    let text = format!(
        "exit: {}\n----- stdout\n{}----- stderr\n{}",
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    // That depends on the kernel.
    let text = ["yes", "partly", "no"].into_iter().fold(text, |text, word| {
        text.replace(&format!("landlock {word},"), "landlock …,")
            .replace(&format!(r#""landlock": "{word}""#), r#""landlock": "…""#)
    });
    text.replace("seccomp no", "seccomp yes").replace(r#""seccomp": false"#, r#""seccomp": true"#)
}

#[track_caller]
fn check(folder: &Path, arguments: &[&str], expected: Expect) {
    expected.assert_eq(&run(folder, arguments));
}

fn list_file(folder: &Path, tools: &str) -> String {
    let file = folder.join("list.json");
    std::fs::write(&file, tools).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn a_list_of_servers_and_tools() {
    let lists = tempfile::tempdir().unwrap();
    let tools = r#"[[
        {"name": "read", "title": "Read", "description": "Reads a file.\nSlowly.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
        {"name": "write", "description": "Writes a file.", "inputSchema": {"type": "object"}},
        {"name": "broken", "inputSchema": {"type": "string"}}
    ]]"#;
    let file = list_file(lists.path(), tools);
    let more = "[mcp.gone]\ncommand = ['no-such-program']\n[mcp.off]\ncommand = ['x']\nenabled = false";
    let folder = folder(&["--list", &file], more);
    check(
        folder.path(),
        &["mcp", "list"],
        expect![[r#"
            exit: 1
            ----- stdout
            bad  ready  bad-server 1.2.3
              sandbox default: landlock …, seccomp yes; Everturn's user; cwd its own
              read   read_only   Read: Reads a file.
              write  effectful   Writes a file.
              left out: broken: its input schema does not describe an object

            gone  failed
              it ended (exit code 127); it wrote: cannot start no-such-program: No such file or directory (os error 2)
              sandbox default: landlock …, seccomp yes; Everturn's user; cwd its own

            off  disabled
            ----- stderr
        "#]],
    );
    check(
        folder.path(),
        &["mcp", "list", "--json"],
        expect![[r#"
            exit: 1
            ----- stdout
            {
              "servers": [
                {
                  "confinement": {
                    "cwd": null,
                    "landlock": "…",
                    "sandbox": "default",
                    "seccomp": true,
                    "user": null
                  },
                  "left_out": [
                    {
                      "reason": "its input schema does not describe an object",
                      "tool": "broken"
                    }
                  ],
                  "name": "bad",
                  "software": {
                    "name": "bad-server",
                    "version": "1.2.3"
                  },
                  "state": "ready",
                  "tools": [
                    {
                      "description": "Reads a file.\nSlowly.",
                      "effect": "read_only",
                      "name": "bad__read",
                      "title": "Read",
                      "tool": "read"
                    },
                    {
                      "description": "Writes a file.",
                      "effect": "effectful",
                      "name": "bad__write",
                      "title": null,
                      "tool": "write"
                    }
                  ],
                  "trouble": null
                },
                {
                  "confinement": {
                    "cwd": null,
                    "landlock": "…",
                    "sandbox": "default",
                    "seccomp": true,
                    "user": null
                  },
                  "left_out": [],
                  "name": "gone",
                  "software": null,
                  "state": "failed",
                  "tools": [],
                  "trouble": "it ended (exit code 127); it wrote: cannot start no-such-program: No such file or directory (os error 2)"
                },
                {
                  "name": "off",
                  "state": "disabled"
                }
              ]
            }
            ----- stderr
        "#]],
    );
}

#[test]
fn a_list_of_none() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("everturn.toml"),
        "[providers.demo]\nkind = 'demo'\n[[agents]]\nname = 'a'\nmodel = 'demo/x'",
    )
    .unwrap();
    check(
        folder.path(),
        &["mcp", "list"],
        expect![[r#"
        exit: 0
        ----- stdout
        There are no MCP servers in the configuration; add a table [mcp.NAME] with a command or a url
        ----- stderr
    "#]],
    );
    check(
        folder.path(),
        &["mcp", "call", "files", "read"],
        expect![[r#"
        exit: 1
        ----- stdout
        ----- stderr
        error: there is no MCP server `files`

        hint: the configuration has no MCP servers; add a table [mcp.NAME] with its command or url
    "#]],
    );
}

#[test]
fn calls() {
    let folder = folder(&[], "timeout = '2s'\n[mcp.off]\ncommand = ['no-such-program']\nenabled = false");
    let folder = folder.path();
    check(
        folder,
        &["mcp", "call", "bad", "echo", r#"{"text": "hello"}"#],
        expect![[r#"
        exit: 0
        ----- stdout
        hello
        ----- stderr
    "#]],
    );
    check(
        folder,
        &["mcp", "call", "bad", "steps", r#"{"count": 2}"#],
        expect![[r#"
        exit: 0
        ----- stdout
        done
        ----- stderr
        progress 1 of 2: step 1
        progress 2 of 2: step 2
    "#]],
    );
    check(
        folder,
        &["mcp", "call", "bad", "chatter"],
        expect![[r#"
        exit: 0
        ----- stdout
        done
        ----- stderr
        warning: {"a":1}
        notifications/resources/updated {"uri":"file:///a"}
        notifications/resources/list_changed {}
    "#]],
    );
    check(
        folder,
        &["mcp", "call", "bad", "image"],
        expect![[r#"
        exit: 0
        ----- stdout
        [an image: image/png, 30 bytes as text]
        ----- stderr
    "#]],
    );
    check(
        folder,
        &["mcp", "call", "bad", "fail"],
        expect![[r#"
        exit: 1
        ----- stdout
        that went wrong
        ----- stderr
    "#]],
    );
    check(
        folder,
        &["mcp", "call", "bad", "refuse"],
        expect![[r#"
        exit: 1
        ----- stdout
        ----- stderr
        error: MCP server "bad": it is Sunday (code -32602)
    "#]],
    );
    check(
        folder,
        &["mcp", "call", "bad", "hang"],
        expect![[r#"
        exit: 1
        ----- stdout
        ----- stderr
        progress 0
        error: Tool call timed out: it gave no sign of life for 2s, which is its limit (`timeout`). Whether it had its effect is unknown; check before you call it again
    "#]],
    );
    let question = r#"{"message": "Which?", "requestedSchema": {"type": "object", "properties": {}}}"#;
    check(
        folder,
        &["mcp", "call", "bad", "ask", question],
        expect![[r#"
        exit: 0
        ----- stdout
        {"action": "decline"}
        ----- stderr
        declined, since nobody can be asked: Which?
    "#]],
    );
}

#[test]
fn calls_that_cannot_be_made() {
    let lists = tempfile::tempdir().unwrap();
    let tools = r#"[[
        {"name": "read", "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}},
        {"name": "write", "inputSchema": {"type": "object"}}
    ]]"#;
    let file = list_file(lists.path(), tools);
    let folder = folder(&["--list", &file], "[mcp.gone]\ncommand = ['no-such-program']");
    let folder = folder.path();
    check(
        folder,
        &["mcp", "call", "bed", "read"],
        expect![[r#"
        exit: 1
        ----- stdout
        ----- stderr
        error: there is no MCP server `bed`

        hint: the configuration has `bad`, `gone`
    "#]],
    );
    check(
        folder,
        &["mcp", "call", "bad", "reed"],
        expect![[r#"
        exit: 1
        ----- stdout
        ----- stderr
        error: the MCP server `bad` has no tool `reed`

        hint: it has `read`, `write`
    "#]],
    );
    check(
        folder,
        &["mcp", "call", "bad", "*"],
        expect![[r#"
        exit: 1
        ----- stdout
        ----- stderr
        error: the MCP server `bad` has no tool `*`

        hint: it has `read`, `write`
    "#]],
    );
    check(
        folder,
        &["mcp", "call", "bad", "read", "{"],
        expect![[r#"
        exit: 1
        ----- stdout
        ----- stderr
        error: the input is not JSON: EOF while parsing an object at line 1 column 1
    "#]],
    );
    check(
        folder,
        &["mcp", "call", "bad", "read", "[]"],
        expect![[r#"
        exit: 1
        ----- stdout
        ----- stderr
        error: the input is not a JSON object, such as {"path": "a.txt"}
    "#]],
    );
    check(
        folder,
        &["mcp", "call", "bad", "read", "{}"],
        expect![[r#"
        exit: 1
        ----- stdout
        ----- stderr
        error: the input does not fit the tool's schema:
        - at the top: "path" is a required property
    "#]],
    );
    check(
        folder,
        &["mcp", "call", "gone", "read"],
        expect![[r#"
        exit: 1
        ----- stdout
        ----- stderr
        error: the MCP server `gone` does not work: it ended (exit code 127); it wrote: cannot start no-such-program: No such file or directory (os error 2)
    "#]],
    );
}

/// Escape sequences set the clipboard of a terminal, rewrite what stands on it, or turn the direction of writing.
#[test]
fn no_control_characters_reach_the_terminal() {
    const HOSTILE: &str = "a\u{1b}]52;c;cm0=\u{7}\u{9b}2J\u{7f}\u{202e}b\u{2066}\rc";
    let is_control =
        |c: &char| c.is_control() && *c != '\n' || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let lists = tempfile::tempdir().unwrap();
    let tool = |name: &str| serde_json::json!({ "name": name, "title": HOSTILE, "description": HOSTILE, "inputSchema": { "type": "object" } });
    let file = list_file(lists.path(), &serde_json::json!([[tool("plain"), tool(HOSTILE)]]).to_string());
    let hostile = folder(&["--list", &file], "");
    let json = format!("{{\"text\": {}}}", serde_json::to_string(HOSTILE).unwrap());
    let plain = folder(&[], "");
    for (folder, arguments) in [
        (&hostile, vec!["mcp", "list"]),
        (&hostile, vec!["mcp", "list", "--json"]),
        (&hostile, vec!["mcp", "call", "bad", "no-such-tool"]),
        (&plain, vec!["mcp", "call", "bad", "echo", &json]),
    ] {
        let shown = run(folder.path(), &arguments);
        assert_eq!(shown.chars().find(is_control), None, "{arguments:?}: {shown:?}");
    }
    let shown = run(plain.path(), &["mcp", "call", "bad", "echo", &json]);
    assert!(shown.contains("a␛]52;c;cm0=␇<U+009B>2J␡<U+202E>b<U+2066>␍c\n"), "{shown}");
    let listed = run(hostile.path(), &["mcp", "list", "--json"]);
    assert!(listed.contains("\\u009b2J\\u007f\\u202e"), "{listed}");
}

#[test]
fn a_server_sees_nothing_of_our_environment() {
    let folder = folder(&[], "env = { TOKEN = 'mine' }");
    let output = everturn(folder.path(), &["mcp", "call", "bad", "environment"]).output().unwrap();
    let variables: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut names: Vec<_> = variables.as_object().unwrap().keys().map(String::as_str).collect();
    // Python sets this one itself where there is no locale.
    names.retain(|name| *name != "LC_CTYPE");
    assert_eq!(names, ["HOME", "PATH", "TMPDIR", "TOKEN"]);
    assert_eq!((&variables["HOME"], &variables["TOKEN"]), (&"/nowhere".into(), &"mine".into()));
}

#[test]
fn what_servers_write_is_logged_without_secrets_and_within_bounds() {
    let folder = folder(&[], "env = { SECRET = 'hunter2hunter2' }");
    let call = ["mcp", "call", "--log-level", "info", "bad", "complain", r#"{"lines": 5000}"#];
    let output = everturn(folder.path(), &call).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "done\n");
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("line 0 with •••"), "{log}");
    assert!(log.contains(r#"server="bad""#) && !log.contains("hunter2"), "{log}");
    let lines = log.lines().count();
    assert!((90..300).contains(&lines), "{lines}");
}
