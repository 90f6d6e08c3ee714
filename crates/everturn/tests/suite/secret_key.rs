//! The key that secrets are sealed with: a wrong one is found at the start, and a new one takes its place whole or not at
//! all.

use std::{fs, path::PathBuf, process::Output};

use super::harness::{Home, Reply, Server, eventually, script, shared_config};

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const OTHER: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";
const VARIABLE: &str = "EVERTURN_SECRET_KEY";

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A session with a secret option.
fn keep_secret(server: &Server) -> String {
    script("secret-key", [Reply::says(&["Kept."])]);
    let body = r#"{"agent":{"name":"scripted","options":{"token":"hunter2"}},"stream":"delta","messages":[{"role":"user","content":"play secret-key"}]}"#;
    let made = server.client().send("PUT", "/session", body);
    assert_eq!(made.status, 200, "{made:?}");
    made.header("x-session-id").to_owned()
}

/// Whether the secret opens: a fork leaves out what does not.
fn opens(server: &Server, session: &str) -> bool {
    let fork = server.client().send("POST", &format!("/api/v1/sessions/{session}/fork"), "{}");
    assert_eq!(fork.status, 201, "{fork:?}");
    let fork = fork.json();
    let id = fork["session_id"].as_str().unwrap();
    server.client().send("GET", &format!("/session/{id}"), "").json()["agent"]["options"]["token"] == "***"
}

fn stop(mut server: Server) {
    server.terminate();
    assert!(server.ended().0.success());
}

fn key_file(home: &Home) -> PathBuf {
    home.path().join("everturn-data/secret.key")
}

#[test]
fn a_wrong_key_is_named_at_the_start() {
    let home = Home::new(&shared_config(""));
    let server = home.start_in(&[(VARIABLE, HEX)], &[]);
    let session = keep_secret(&server);
    stop(server);

    let wrong = home.run_in(&[(VARIABLE, OTHER)], &["--listen", "127.0.0.1:0"]);
    assert_eq!(wrong.status.code(), Some(1));
    let told = text(&wrong);
    assert!(
        told.contains("EVERTURN_SECRET_KEY is not the key that the secrets in this database are sealed with"),
        "{told}"
    );
    assert!(!told.contains(OTHER) && !told.contains(HEX), "{told}");
    let none = text(&home.run(&["--listen", "127.0.0.1:0"]));
    assert!(none.contains("sealed with a key from EVERTURN_SECRET_KEY, which is not set"), "{none}");

    assert!(!key_file(&home).exists(), "no key is made in vain");

    let file = home.path().join("key.txt");
    fs::write(&file, format!("{HEX}\n")).unwrap();
    let in_file = format!("file:{}", file.display());
    let server = home.start_in(&[(VARIABLE, &in_file)], &[]);
    assert!(opens(&server, &session));
    stop(server);
    let missing = text(&home.run_in(&[(VARIABLE, "file:/nowhere/key")], &["--listen", "127.0.0.1:0"]));
    assert!(missing.contains("EVERTURN_SECRET_KEY (the file /nowhere/key) cannot be used"), "{missing}");

    // The key is lost.
    let accepted = home.run_in(&[(VARIABLE, OTHER)], &["secrets", "accept"]);
    assert!(accepted.status.success(), "{accepted:?}");
    let server = home.start_in(&[(VARIABLE, OTHER)], &[]);
    assert!(!opens(&server, &session));
}

#[test]
fn secrets_rotate_to_a_new_key_in_the_same_file() {
    let home = Home::new(&shared_config(""));
    let server = home.start();
    let session = keep_secret(&server);
    let busy = text(&home.run(&["secrets", "rotate"]));
    assert!(busy.contains("is in use") && busy.contains("stop the server first"), "{busy}");
    stop(server);
    let old = fs::read(key_file(&home)).unwrap();
    let rotated = home.run(&["secrets", "rotate"]);
    assert!(rotated.status.success() && text(&rotated).contains("secrets sealed with the new key: 1;"), "{rotated:?}");
    let new = fs::read(key_file(&home)).unwrap();
    assert_ne!(new, old);
    let server = home.start();
    assert!(opens(&server, &session));
    stop(server);

    // As a crash between the commit and the renaming leaves it.
    let next = key_file(&home).with_extension("key.new");
    fs::rename(key_file(&home), &next).unwrap();
    fs::write(key_file(&home), &old).unwrap();
    set_private(&home);
    let server = home.start();
    assert!(opens(&server, &session));
    assert!(!next.exists() && fs::read(key_file(&home)).unwrap() == new);
    stop(server);

    // As a crash before the commit leaves it.
    fs::write(&next, OTHER).unwrap();
    let server = home.start();
    assert!(opens(&server, &session));
    assert!(!next.exists() && fs::read(key_file(&home)).unwrap() == new);
}

fn set_private(home: &Home) {
    use std::os::unix::fs::PermissionsExt as _;

    fs::set_permissions(key_file(home), fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_rotation_that_is_killed_leaves_all_secrets_readable() {
    let home = Home::new(&shared_config(""));
    let server = home.start();
    let session = keep_secret(&server);
    stop(server);
    let next = key_file(&home).with_extension("key.new");
    for _ in 0..3 {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_everturn"));
        command.args(["secrets", "rotate"]).current_dir(home.path()).env_clear();
        let mut rotation = command.spawn().unwrap();
        eventually("the new key is there", || (next.exists() || rotation.try_wait().unwrap().is_some()).then_some(()));
        let _ = rotation.kill();
        rotation.wait().unwrap();
        let server = home.start();
        assert!(opens(&server, &session));
        assert!(!next.exists());
        stop(server);
    }
}

#[test]
fn a_key_in_a_variable_rotates_to_one_that_is_named() {
    let home = Home::new(&shared_config(""));
    let server = home.start_in(&[(VARIABLE, HEX)], &[]);
    let session = keep_secret(&server);
    stop(server);
    let refused = text(&home.run_in(&[(VARIABLE, HEX)], &["secrets", "rotate"]));
    assert!(refused.contains("--new-key"), "{refused}");
    let shown = home.run_in(&[(VARIABLE, HEX)], &["secrets", "rotate", "--new-key", OTHER]);
    assert_eq!(shown.status.code(), Some(2), "a key is not given on the command line");
    let variables = [(VARIABLE, HEX), ("NEXT", OTHER)];
    let rotated = home.run_in(&variables, &["secrets", "rotate", "--new-key", "env:NEXT"]);
    assert!(rotated.status.success(), "{rotated:?}");
    let server = home.start_in(&[(VARIABLE, OTHER)], &[]);
    assert!(opens(&server, &session));
    stop(server);
    assert!(!home.run_in(&[(VARIABLE, HEX)], &["--listen", "127.0.0.1:0"]).status.success());
}
