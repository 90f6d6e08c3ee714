//! Trouble at the start: a clear message, exit code 1, nothing half done.

use expect_test::{Expect, expect};

use super::harness::{Home, shared_config};

#[track_caller]
fn check(home: &Home, arguments: &[&str], expected: Expect) {
    let output = home.run(arguments);
    let text = format!(
        "exit: {}\n{}{}",
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    expected.assert_eq(&text.replace(home.path().to_str().unwrap(), "<folder>"));
}

/// A file where the folder should be: like a folder that may not be written to, for every user.
#[test]
fn a_folder_that_cannot_be_written() {
    let home = Home::new(&shared_config(""));
    std::fs::write(home.path().join("everturn-data"), "in the way").unwrap();
    check(
        &home,
        &["--listen", "127.0.0.1:0"],
        expect![[r#"
        exit: 1
        error: cannot write to everturn-data: there is a file where a directory should be; give this user the right to write there, or choose another place
    "#]],
    );
}

#[test]
fn a_database_that_is_none() {
    let home = Home::new(&shared_config(""));
    let folder = home.path().join("everturn-data");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("everturn.db"), "this is no database, ".repeat(1000)).unwrap();
    check(
        &home,
        &["--listen", "127.0.0.1:0"],
        expect![[r#"
        exit: 1
        error: the database everturn-data/everturn.db is damaged: it is not a SQLite database; restore it from a backup, or move it away to begin with an empty one
    "#]],
    );
    let left = std::fs::read_to_string(folder.join("everturn.db")).unwrap();
    assert!(left.starts_with("this is no database"), "what is not ours is not touched");
}

#[test]
fn a_database_with_a_hole() {
    let home = Home::new(&shared_config(""));
    {
        let mut server = home.start();
        let body = r#"{"agent":{"name":"demo"},"messages":[{"role":"user","content":"stream 2000"}]}"#;
        assert_eq!(server.client().send("PUT", "/session", body).status, 201);
        server.terminate();
        assert!(server.ended().0.success());
    }
    let path = home.path().join("everturn-data/everturn.db");
    let mut bytes = std::fs::read(&path).unwrap();
    // The second page says where the others belong.
    bytes[8192..12288].fill(0xaa);
    std::fs::write(&path, bytes).unwrap();
    check(
        &home,
        &["--listen", "127.0.0.1:0"],
        expect![[r#"
            exit: 1
            error: the database everturn-data/everturn.db is damaged: *** in database main ***
            Tree 3 page 3: btreeInitPage() returns error code 11; restore it from a backup, or move it away to begin with an empty one
        "#]],
    );
}

#[test]
fn a_port_that_is_taken() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let home = Home::new(&shared_config(""));
    let output = home.run(&["--listen", &address]);
    let said = String::from_utf8(output.stderr).unwrap().replace(&address, "<address>");
    assert_eq!((output.status.code(), output.stdout), (Some(1), Vec::new()), "{said}");
    expect![[r#"
        error: failed to listen on <address>; is another server running there? Choose another with --listen: Address already in use (os error 98)
    "#]].assert_eq(&said);
}

/// Two servers on one folder would run every turn twice.
#[test]
fn a_folder_that_another_server_uses() {
    let home = Home::new(&shared_config(""));
    let server = home.start();
    check(
        &home,
        &["--listen", "127.0.0.1:0"],
        expect![[r#"
        exit: 1
        error: the database everturn-data/everturn.db is in use by another process; stop that one, or give this one a database of its own
    "#]],
    );
    assert_eq!(server.client().send("GET", "/healthz", "").body, "ok\n", "the first is not harmed");
}

#[test]
fn a_server_without_keys_answers_to_this_machine_only() {
    let home = Home::new(&shared_config(""));
    let server = home.start();
    let answer = server.raw(b"GET /sessions HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    for path in ["/healthz", "/readyz", "/metrics", "/meta", "/sessions"] {
        assert_eq!(server.client().send("GET", path, "").status, 200, "{path}");
    }
}
