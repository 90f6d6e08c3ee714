//! MCP servers, and the agents that use them.

use everturn::config::{Environment, Overrides};
use expect_test::{Expect, expect};

use super::{check, check_with};

/// A file whose only server has these lines.
#[track_caller]
fn check_server(lines: &str, expected: Expect) {
    check(&format!("[mcp.files]\n{lines}"), expected);
}

#[test]
fn names() {
    check(
        "[mcp.Files]\ncommand = ['x']\n[mcp.a__b]\ncommand = ['x']",
        expect![[r#"
        error: `Files` cannot be the name of an MCP server
          --> everturn.toml:1:6

        hint: use 1 to 32 characters of a-z 0-9 _ -, and no `__`

        error: `a__b` cannot be the name of an MCP server
          --> everturn.toml:3:6

        hint: use 1 to 32 characters of a-z 0-9 _ -, and no `__`"#]],
    );
}

#[test]
fn how_a_server_is_reached() {
    check_server(
        "timeout = '5s'",
        expect![[r#"
        error: the MCP server `files` has neither `command` nor `url`
          --> everturn.toml:1:6

        hint: give it the program to start, such as command = ["npx", "-y", "some-server"], or the address of one that runs, such as url = "https://host/mcp""#]],
    );
    check_server(
        "command = ['x']\nurl = 'http://localhost/mcp'",
        expect![[r#"
        error: the MCP server `files` has a `command` and a `url`
          --> everturn.toml:3:7

        hint: it is started here or listens elsewhere: keep one"#]],
    );
    check_server(
        "command = []",
        expect![[r#"
        error: `command` names no program
          --> everturn.toml:2:11

        hint: name a program and its arguments: ["npx", "-y", "some-server"]"#]],
    );
    check_server(
        "command = 'npx server'",
        expect![[r#"
            error: `command`: expected an array, found a string
              --> everturn.toml:2:11"#]],
    );
    check_server(
        "command = ['']",
        expect![[r#"
        error: `command` names no program
          --> everturn.toml:2:11

        hint: name a program and its arguments: ["npx", "-y", "some-server"]"#]],
    );
}

#[test]
fn addresses() {
    check_server(
        "url = 'localhost/mcp'",
        expect![[r#"
        error: `url` is not an HTTP address
          --> everturn.toml:2:7

        hint: write it like "https://host/mcp", without a user and a password; those go into `headers`"#]],
    );
    check_server(
        "url = 'https://me:password@localhost/mcp'",
        expect![[r#"
        error: `url` is not an HTTP address
          --> everturn.toml:2:7

        hint: write it like "https://host/mcp", without a user and a password; those go into `headers`"#]],
    );
}

#[test]
fn variables_and_headers() {
    check_server(
        "command = ['x']\nenv = { A = 'env:NOT_SET', 'B=C' = 'x' }",
        expect![[r#"
        error: the variable `NOT_SET` is not set
          --> everturn.toml:3:13

        hint: set it before the start: export NOT_SET=…

        error: `B=C` cannot be the name of a variable
          --> everturn.toml:3:28"#]],
    );
    check_server(
        "command = ['x']\nheaders = { A = 'b' }",
        expect![[r#"
        error: the header `A` has no use here
          --> everturn.toml:3:13

        hint: a program is sent none; give it variables by `env`"#]],
    );
    check_server(
        "url = 'http://localhost/mcp'\ncwd = '.'\nenv = { A = 'b' }\nheaders = { 'a b' = 'c', Accept = 'x' }",
        expect![[r#"
            error: `cwd` is for programs that we start
              --> everturn.toml:3:7

            error: the variable `A` has no use here
              --> everturn.toml:4:9

            hint: a server elsewhere has none of ours; send it `headers`

            error: `a b` cannot be the name of a header
              --> everturn.toml:5:13

            error: `Accept` is a header that MCP sets itself
              --> everturn.toml:5:26"#]],
    );
    let environment = Environment::from([("TOKEN", "hunter2\n")]);
    check_with(
        "[mcp.files]\nurl = 'http://localhost/mcp'\nheaders = { Authorization = 'env:TOKEN' }",
        &Overrides::default(),
        &environment,
        expect![[r#"
            error: `Authorization` has a value that no header can carry
              --> everturn.toml:3:13"#]],
    );
}

#[test]
fn bounds_and_effects() {
    check_server(
        "command = ['x']\ntimeout = '5'\nstart_timeout = 'soon'\noutput_cap = 0\nmax_message = 1\n\
         effects = { a = 'readonly', b = 'read_only' }\ncolour = 'red'",
        expect![[r#"
            error: `5` is not a duration for `timeout`
              --> everturn.toml:3:11

            hint: write a number and a unit: `500ms`, `10s`, `5m`, `1h` or `2d`

            error: `soon` is not a duration for `start_timeout`
              --> everturn.toml:4:17

            hint: write a number and a unit: `500ms`, `10s`, `5m`, `1h` or `2d`

            error: `output_cap` must be between 1 and 16777216, not 0
              --> everturn.toml:5:14

            error: `max_message` must be between 4096 and 268435456, not 1
              --> everturn.toml:6:15

            error: there is no class of effects `readonly`
              --> everturn.toml:7:17

            hint: did you mean `read_only`?

            error: unknown key `colour`
              --> everturn.toml:8:1

            hint: the keys here are `command`, `env`, `cwd`, `url`, `headers`, `timeout`, `max_timeout`, `start_timeout`, `output_cap`, `max_message`, `effects`, `enabled`, `sandbox`, `paths`, `read_paths`, `user`"#]],
    );
    check_server(
        "command = ['x']\ntimeout = '5'\nstart_timeout = 'soon'\noutput_cap = 0\nmax_message = 1\n\
         effects = { a = 'readonly', b = 'read_only' }",
        expect![[r#"
            error: `5` is not a duration for `timeout`
              --> everturn.toml:3:11

            hint: write a number and a unit: `500ms`, `10s`, `5m`, `1h` or `2d`

            error: `soon` is not a duration for `start_timeout`
              --> everturn.toml:4:17

            hint: write a number and a unit: `500ms`, `10s`, `5m`, `1h` or `2d`

            error: `output_cap` must be between 1 and 16777216, not 0
              --> everturn.toml:5:14

            error: `max_message` must be between 4096 and 268435456, not 1
              --> everturn.toml:6:15

            error: there is no class of effects `readonly`
              --> everturn.toml:7:17

            hint: did you mean `read_only`?"#]],
    );
}

#[test]
fn a_call_in_all_is_no_shorter_than_a_silence() {
    check_server(
        "command = ['x']\ntimeout = '5m'\nmax_timeout = '1m'",
        expect![[r#"
            error: `max_timeout` is 60s, which is less than `timeout` (300s)
              --> everturn.toml:4:15

            hint: `timeout` is how long a call may go without a sign of life, `max_timeout` how long it may take in all"#]],
    );
}

#[test]
fn tools_of_servers() {
    let agent = |lines: &str| {
        format!(
            "[mcp.files]\ncommand = ['x']\n[providers.demo]\nkind = 'demo'\n[[agents]]\nname = 'a'\n\
             model = 'demo/assistant'\n{lines}"
        )
    };
    check(
        &agent("tools = ['fils/*', 'web/search', 'files/', 'files/re*', 'files__read']"),
        expect![[r#"
        error: there is no MCP server `fils` for `fils/*`
          --> everturn.toml:8:10

        hint: did you mean `files/*`?

        error: there is no MCP server `web` for `web/search`
          --> everturn.toml:8:20

        hint: add a table [mcp.web] with its command or url

        error: `files/` names no tool
          --> everturn.toml:8:34

        hint: write `files/*` for all of its tools, or `files/name` for one

        error: `files/re*` names no tool
          --> everturn.toml:8:44

        hint: write `files/*` for all of its tools, or `files/name` for one

        error: there is no tool `files__read`
          --> everturn.toml:8:57

        hint: a tool of an MCP server is written `files/read` here"#]],
    );
    check(
        &agent("tools = ['files/*', 'clock']\ntrusted = ['files/read', 'web/x']"),
        expect![[r#"
        error: the trusted tool `web/x` is not one of the agent's tools
          --> everturn.toml:9:26

        hint: add it to `tools` as well, or to `internal_tools` if clients shall not see it"#]],
    );
    check(
        &agent("tools = ['files/read']\ninternal_tools = ['files/*']"),
        expect![[r#"
        error: the tool `files/*` is in `tools` and in `internal_tools`
          --> everturn.toml:9:19

        hint: clients see it, or they do not: keep one"#]],
    );
    let fine =
        agent("tools = ['files/*', 'clock']\ntrusted = ['files/read', 'files/*']\ninternal_tools = ['calculator']");
    let config = super::read(fine.as_bytes(), &Overrides::default(), &Environment::default()).unwrap();
    assert_eq!(config.agents[0].tools, ["files/*", "clock"]);
}

#[test]
fn what_a_server_is_kept_from() {
    check_server(
        "command = ['x']\nsandbox = 'strickt'\npaths = ['files']",
        expect![[r#"
        error: there is no sandbox `strickt`
          --> everturn.toml:3:11

        hint: did you mean `strict`?"#]],
    );
    check_server(
        "command = ['x']\npaths = ['files']\nread_paths = ['tools']",
        expect![[r#"
        error: `paths` has a meaning in a strict sandbox only
          --> everturn.toml:3:9

        hint: set sandbox = "strict", which opens nothing else but the files of the system

        error: `read_paths` has a meaning in a strict sandbox only
          --> everturn.toml:4:14

        hint: set sandbox = "strict", which opens nothing else but the files of the system"#]],
    );
    check_server(
        "command = ['x']\nsandbox = 'off'\npaths = ['files']",
        expect![[r#"
        error: `paths` has a meaning in a strict sandbox only
          --> everturn.toml:4:9

        hint: set sandbox = "strict", which opens nothing else but the files of the system"#]],
    );
    check_server(
        "url = 'http://localhost/mcp'\nsandbox = 'off'\nuser = 'nobody'\npaths = ['a']\nread_paths = ['b']",
        expect![[r#"
            error: `sandbox` is for programs that we start
              --> everturn.toml:3:11

            error: `user` is for programs that we start
              --> everturn.toml:4:8

            error: `paths` is for programs that we start
              --> everturn.toml:5:9

            error: `read_paths` is for programs that we start
              --> everturn.toml:6:14"#]],
    );
}
