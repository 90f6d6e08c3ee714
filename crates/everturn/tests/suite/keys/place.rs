//! Which database the commands go to, by whatever name, and what they say when they cannot see it.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        process::CommandExt as _,
    },
    process::{Command, Output},
};

use super::{create, home, keys, list, looks};
use crate::suite::harness::Home;

const LINKED: [&str; 2] = ["--store", "sqlite:link.db"];

/// Runs a command that must fail, and gives what it says.
#[track_caller]
fn fails(home: &Home, arguments: &[&str]) -> String {
    let output = home.run(arguments);
    assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_link_to_the_database_leads_to_the_server_that_has_it() {
    let home = home("");
    let mut server = home.start();
    symlink("everturn-data/everturn.db", home.path().join("link.db")).unwrap();
    assert_eq!(looks(&server.client()), 200);
    let made = create(&home, &LINKED);
    assert_eq!((looks(&server.client()), looks(&made.client(&server))), (401, 200), "at once");
    keys(&home, &[&["revoke", &made.id], &LINKED[..]].concat());
    assert_eq!(looks(&made.client(&server)), 401, "at once");
    let said = fails(&home, &[&["--listen", "127.0.0.1:0"], &LINKED[..]].concat());
    assert!(said.contains("everturn-data/everturn.db is in use by another process"), "{said}");
    server.terminate();
    assert!(server.ended().0.success());
    // The other way round.
    let server = home.start_with(&LINKED);
    let made = create(&home, &[]);
    assert_eq!(looks(&made.client(&server)), 200);
    let beside: Vec<_> = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!beside.iter().any(|name| name == "link.db.lock" || name == "link.db.sock"), "{beside:?}");
}

#[test]
fn another_name_for_the_file_is_refused() {
    let home = home("");
    let server = home.start();
    let made = create(&home, &[]);
    fs::hard_link(home.path().join("everturn-data/everturn.db"), home.path().join("hard.db")).unwrap();
    let elsewhere = ["--store", "sqlite:hard.db"];
    for arguments in [&["keys", "revoke", &made.id][..], &["keys", "create"], &["keys", "list"], &[]] {
        let said = fails(&home, &[arguments, &elsewhere[..]].concat());
        assert!(said.contains("hard.db has 2 names (hard links)"), "{arguments:?}: {said}");
    }
    assert_eq!(looks(&made.client(&server)), 200);
    assert_eq!(list(&home).len(), 1, "its own name is as good as before");
}

/// That a folder cannot be seen does not mean that there are no keys in it.
#[test]
fn a_folder_that_cannot_be_read_is_no_empty_one() {
    let home = home("");
    let made = create(&home, &[]);
    let folder = home.path().join("everturn-data");
    let mode = |path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(home.path(), 0o755);
    mode(&folder, 0o000);
    let is_root = fs::read_dir(&folder).is_ok();
    let told = [&["list"][..], &["list", "--json"], &["revoke", &made.id], &["create"]].map(|arguments| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_everturn"));
        command.arg("keys").args(arguments).current_dir(home.path()).env_clear();
        // Whoever is root sees everything, and so must become somebody else.
        if is_root {
            command.uid(65_534).gid(65_534);
        }
        command.output().unwrap()
    });
    mode(&folder, 0o700);
    for Output { status, stdout, stderr } in told {
        let said = String::from_utf8(stderr).unwrap();
        assert!(!status.success() && stdout.is_empty(), "{said}");
        assert!(said.contains("cannot look for the database everturn-data/everturn.db: Permission denied"), "{said}");
        assert!(said.contains("run this as the server's user"), "{said}");
    }
    assert_eq!(list(&home).len(), 1);
}
