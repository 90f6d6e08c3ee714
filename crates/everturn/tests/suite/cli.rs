//! The program, as a user runs it.

use std::{path::Path, process::Command};

use expect_test::{Expect, expect};

/// Runs the program in a folder, with these variables only.
#[track_caller]
fn check(folder: &Path, arguments: &[&str], variables: &[(&str, &str)], expected: Expect) {
    let output = Command::new(env!("CARGO_BIN_EXE_everturn"))
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = format!(
        "exit: {}\n----- stdout\n{}----- stderr\n{}",
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    // The help pads its empty lines.
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    expected.assert_eq(&(lines.join("\n") + "\n"));
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

const GOOD: &str = "\
listen = '127.0.0.1:8081'
[providers.demo]
kind = 'demo'
[[agents]]
name = 'first'
model = 'demo/assistant'
[[agents]]
name = 'second'
model = 'demo/load'
";

#[test]
fn help() {
    check(
        folder().path(),
        &["--help"],
        &[],
        expect![[r#"
            exit: 0
            ----- stdout
            A durable agent server: every turn runs to its end, whatever happens to the client, the network or the server

            Usage: everturn [OPTIONS]
                   everturn <COMMAND>

            Commands:
              serve    Run the server [default]
              config   Look at the configuration
              keys     Make, list and revoke the keys that callers show
              mcp      Look at MCP servers
              models   List what model providers offer, and try models out
              secrets  Change the key that secrets in the database are sealed with
              vacuum   Give the database's free space back to the disk at once
              version  Show the version
              help     Print this message or the help of the given subcommand(s)

            Options:
              -c, --config <FILE>
                      Configuration file [default: ./everturn.toml, if it exists]

                      [env: EVERTURN_CONFIG]

                  --listen <ADDRESS>
                      Address and port to listen on [default: 127.0.0.1:8080]

                      [env: EVERTURN_LISTEN]

                  --store <STORE>
                      Where to keep sessions and turns [default: sqlite:everturn-data/everturn.db]

                      [env: EVERTURN_STORE]

                  --durability <WORD>
                      What a commit survives: a crash of the machine (fsync) or of the server only (process) [default: fsync]

                      [env: EVERTURN_DURABILITY]

                  --tls-cert <FILE>
                      Certificate to speak https with, and those that vouch for it: a PEM file

                      [env: EVERTURN_TLS_CERT]

                  --tls-key <FILE>
                      The certificate's private key: a PEM file

                      [env: EVERTURN_TLS_KEY]

                  --log-level <LEVEL>
                      Log level, or directives such as `info,everturn_store=debug` [default: `log_level` of the file, else info]

                      [env: EVERTURN_LOG]

                  --log-format <FORMAT>
                      Log format

                      Possible values:
                      - auto: Text on a terminal, JSON elsewhere
                      - text: Text
                      - json: One JSON object per line

                      [env: EVERTURN_LOG_FORMAT]
                      [default: auto]

              -h, --help
                      Print help (see a summary with '-h')

              -V, --version
                      Print version

            Without a configuration file, the server listens on 127.0.0.1:8080, keeps its data in
            ./everturn-data and has a demo agent that works offline. Agents are added for keys in the
            environment (OPENAI_API_KEY, ANTHROPIC_API_KEY, GOOGLE_API_KEY or GEMINI_API_KEY,
            OPENROUTER_API_KEY, DEEPSEEK_API_KEY, MISTRAL_API_KEY, XAI_API_KEY, GROQ_API_KEY; for Azure
            AZURE_OPENAI_API_KEY, AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_DEPLOYMENT) and for an Ollama that
            runs here or at OLLAMA_HOST.

            Exit codes: 0 success, 1 failure, 2 wrong usage
            ----- stderr
        "#]],
    );
}

#[test]
fn short_help() {
    check(
        folder().path(),
        &["-h"],
        &[],
        expect![[r#"
            exit: 0
            ----- stdout
            A durable agent server: every turn runs to its end, whatever happens to the client, the network or the server

            Usage: everturn [OPTIONS]
                   everturn <COMMAND>

            Commands:
              serve    Run the server [default]
              config   Look at the configuration
              keys     Make, list and revoke the keys that callers show
              mcp      Look at MCP servers
              models   List what model providers offer, and try models out
              secrets  Change the key that secrets in the database are sealed with
              vacuum   Give the database's free space back to the disk at once
              version  Show the version
              help     Print this message or the help of the given subcommand(s)

            Options:
              -c, --config <FILE>        Configuration file [default: ./everturn.toml, if it exists] [env: EVERTURN_CONFIG]
                  --listen <ADDRESS>     Address and port to listen on [default: 127.0.0.1:8080] [env: EVERTURN_LISTEN]
                  --store <STORE>        Where to keep sessions and turns [default: sqlite:everturn-data/everturn.db] [env: EVERTURN_STORE]
                  --durability <WORD>    What a commit survives: a crash of the machine (fsync) or of the server only (process) [default: fsync] [env: EVERTURN_DURABILITY]
                  --tls-cert <FILE>      Certificate to speak https with, and those that vouch for it: a PEM file [env: EVERTURN_TLS_CERT]
                  --tls-key <FILE>       The certificate's private key: a PEM file [env: EVERTURN_TLS_KEY]
                  --log-level <LEVEL>    Log level, or directives such as `info,everturn_store=debug` [default: `log_level` of the file, else info] [env: EVERTURN_LOG]
                  --log-format <FORMAT>  Log format [env: EVERTURN_LOG_FORMAT] [default: auto] [possible values: auto, text, json]
              -h, --help                 Print help (see more with '--help')
              -V, --version              Print version

            Use `--help` for the whole story
            ----- stderr
        "#]],
    );
}

#[test]
fn help_of_config_check() {
    check(
        folder().path(),
        &["config", "check", "--help"],
        &[],
        expect![[r#"
            exit: 0
            ----- stdout
            Check a configuration file and explain every mistake in it

            Usage: everturn config check [OPTIONS] [FILE]

            Arguments:
              [FILE]  The file [default: ./everturn.toml] [env: EVERTURN_CONFIG]

            Options:
              -c, --config <FILE>      The same, as other commands take it
                  --listen <ADDRESS>   Address and port to listen on [default: 127.0.0.1:8080] [env: EVERTURN_LISTEN]
                  --store <STORE>      Where to keep sessions and turns [default: sqlite:everturn-data/everturn.db] [env: EVERTURN_STORE]
                  --durability <WORD>  What a commit survives: a crash of the machine (fsync) or of the server only (process) [default: fsync] [env: EVERTURN_DURABILITY]
                  --tls-cert <FILE>    Certificate to speak https with, and those that vouch for it: a PEM file [env: EVERTURN_TLS_CERT]
                  --tls-key <FILE>     The certificate's private key: a PEM file [env: EVERTURN_TLS_KEY]
              -h, --help               Print help
            ----- stderr
        "#]],
    );
}

#[test]
fn version() {
    check(
        folder().path(),
        &["version"],
        &[],
        expect![[r#"
        exit: 0
        ----- stdout
        everturn 0.1.0
        ----- stderr
    "#]],
    );
    check(
        folder().path(),
        &["--version"],
        &[],
        expect![[r#"
        exit: 0
        ----- stdout
        everturn 0.1.0
        ----- stderr
    "#]],
    );
}

#[test]
fn wrong_usage() {
    check(
        folder().path(),
        &["serv"],
        &[],
        expect![[r#"
        exit: 2
        ----- stdout
        ----- stderr
        error: unrecognized subcommand 'serv'

          tip: some similar subcommands exist: 'secrets', 'serve'

        Usage: everturn [OPTIONS]
               everturn <COMMAND>

        For more information, try '--help'.
    "#]],
    );
    check(
        folder().path(),
        &["--lisen", "x"],
        &[],
        expect![[r#"
        exit: 2
        ----- stdout
        ----- stderr
        error: unexpected argument '--lisen' found

          tip: a similar argument exists: '--listen'

        Usage: everturn --listen <ADDRESS>

        For more information, try '--help'.
    "#]],
    );
}

#[test]
fn a_good_file() {
    let folder = folder();
    std::fs::write(folder.path().join("everturn.toml"), GOOD).unwrap();
    check(
        folder.path(),
        &["config", "check"],
        &[],
        expect![[r#"
            exit: 0
            ----- stdout
            everturn.toml is fine

            listen  127.0.0.1:8081
            store   sqlite:everturn-data/everturn.db
            keys    none here; without any in the store, open to this machine
            agents  first (demo/assistant)
                    second (demo/load)
            ----- stderr
        "#]],
    );
    std::fs::write(folder.path().join("other.toml"), GOOD).unwrap();
    check(
        folder.path(),
        &["config", "check", "other.toml"],
        &[],
        expect![[r#"
            exit: 0
            ----- stdout
            other.toml is fine

            listen  127.0.0.1:8081
            store   sqlite:everturn-data/everturn.db
            keys    none here; without any in the store, open to this machine
            agents  first (demo/assistant)
                    second (demo/load)
            ----- stderr
        "#]],
    );
}

#[test]
fn a_bad_file() {
    let folder = folder();
    std::fs::write(folder.path().join("bad.toml"), GOOD.replace("demo/load", "dmo/load")).unwrap();
    let expected = expect![[r#"
        exit: 1
        ----- stdout
        ----- stderr
        error: there is no provider `dmo` for the model `dmo/load`
          --> bad.toml:9:9

        hint: did you mean `demo/load`?
    "#]];
    check(folder.path(), &["config", "check"], &[("EVERTURN_CONFIG", "bad.toml")], expected);
    check(
        folder.path(),
        &["serve", "--config", "bad.toml"],
        &[],
        expect![[r#"
        exit: 1
        ----- stdout
        ----- stderr
        error: there is no provider `dmo` for the model `dmo/load`
          --> bad.toml:9:9

        hint: did you mean `demo/load`?
    "#]],
    );
}

/// The file may stand before the command, as for the server itself.
#[test]
fn a_file_before_the_command() {
    let folder = folder();
    std::fs::write(folder.path().join("bad.toml"), GOOD.replace("demo/load", "dmo/load")).unwrap();
    for arguments in [
        &["-c", "bad.toml", "config", "check"][..],
        &["-cbad.toml", "config", "check", "--listen", "127.0.0.1:8082"],
        &["--config", "bad.toml", "serve"],
        &["--config=bad.toml", "mcp", "list"],
        &["-c", "bad.toml", "models", "list"],
        &["-c", "bad.toml"],
    ] {
        check(
            folder.path(),
            arguments,
            &[],
            expect![[r#"
                exit: 1
                ----- stdout
                ----- stderr
                error: there is no provider `dmo` for the model `dmo/load`
                  --> bad.toml:9:9

                hint: did you mean `demo/load`?
            "#]],
        );
    }
    // These read the store's place in it alone.
    std::fs::write(folder.path().join("elsewhere.toml"), "store = 'sqlite:elsewhere/keys.db'").unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everturn"));
        command.args(arguments).current_dir(folder.path()).env_clear().output().unwrap().status
    };
    assert!(run(&["-c", "elsewhere.toml", "keys", "create", "--quiet"]).success());
    assert!(folder.path().join("elsewhere/keys.db").exists());
    assert!(run(&["-c", "elsewhere.toml", "vacuum"]).success());
}

#[test]
fn a_file_that_is_not_there() {
    check(
        folder().path(),
        &["config", "check", "nowhere.toml"],
        &[],
        expect![[r#"
        exit: 1
        ----- stdout
        ----- stderr
        error: cannot read the configuration file nowhere.toml: No such file or directory (os error 2)
    "#]],
    );
    check(
        folder().path(),
        &["--config", "nowhere.toml"],
        &[],
        expect![[r#"
        exit: 1
        ----- stdout
        ----- stderr
        error: cannot read the configuration file nowhere.toml: No such file or directory (os error 2)
    "#]],
    );
}

#[test]
fn beyond_loopback_without_keys() {
    check(
        folder().path(),
        &[],
        &[("EVERTURN_LISTEN", "0.0.0.0:8080")],
        expect![[r#"
            exit: 1
            ----- stdout
            ----- stderr
            error: refusing to listen on 0.0.0.0:8080 without keys: everybody who reaches this machine could use your agents and read all sessions

            hint: make a key:

                everturn keys create

            or set one that callers must show:

                export EVERTURN_KEY=$(openssl rand -hex 32)

            or listen on this machine only: 127.0.0.1:8080
        "#]],
    );
}

#[test]
fn a_log_level_that_is_none() {
    check(
        folder().path(),
        &["--log-level", "everturn=loud"],
        &[],
        expect![[r#"
            exit: 2
            ----- stdout
            ----- stderr
            error: invalid value 'everturn=loud' for '--log-level <LEVEL>': error parsing level filter: expected one of "off", "error", "warn", "info", "debug", "trace", or a number 0-5

            For more information, try '--help'.
        "#]],
    );
}
