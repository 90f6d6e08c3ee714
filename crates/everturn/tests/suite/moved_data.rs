//! The data folder is moved, deleted or replaced while the server runs.

use std::fs;

use super::harness::{Answer, Home, Server, eventually, shared_config};

const HELLO: &str = r#"{"agent":{"name":"demo"},"messages":[{"role":"user","content":"hello"}]}"#;
const WORDS: &str = "its files were moved, deleted or replaced while the server was running";
const LOGGED: &str = "the database was moved, deleted or replaced while it is in use";

fn ready(server: &Server, status: u16) -> Answer {
    eventually("/readyz changes", || {
        let answer = server.client().send("GET", "/readyz", "");
        (answer.status == status).then_some(answer)
    })
}

fn refused(server: &Server) {
    let answer = ready(server, 503);
    assert!(answer.body.contains(WORDS), "{answer:?}");
    for (method, path, body) in
        [("PUT", "/session", HELLO), ("POST", "/api/v1/sessions/stream", r#"{"agent_id":"demo","message":"hello"}"#)]
    {
        let answer = server.client().send(method, path, body);
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.body.contains(WORDS), "{answer:?}");
    }
}

#[test]
fn a_folder_that_is_moved_away_stops_commands_until_it_is_back() {
    let home = Home::new(&shared_config(""));
    let server = home.start();
    let session = server.client().send("PUT", "/session", HELLO).json()["sessionId"].as_str().unwrap().to_owned();
    let (folder, away) = (home.path().join("everturn-data"), home.path().join("away"));

    fs::rename(&folder, &away).unwrap();
    refused(&server);
    refused(&server);
    assert!(!folder.exists(), "nothing is made in its place");
    let log = home.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("\"ERROR\"") || line.contains(LOGGED)).collect();
    assert!(lines.len() == 1 && lines[0].contains(LOGGED) && lines[0].contains("everturn.db"), "{lines:?}");

    fs::rename(&away, &folder).unwrap();
    ready(&server, 200);
    assert_eq!(server.client().send("PUT", "/session", HELLO).status, 201);
    let found = server.client().send("GET", &format!("/session/{session}"), "");
    assert_eq!(found.status, 200, "{found:?}");
}

#[test]
fn another_database_in_its_place_is_neither_read_nor_harmed() {
    let home = Home::new(&shared_config(""));
    let folder = home.path().join("everturn-data");
    let mut first = home.start();
    fs::rename(&folder, home.path().join("away")).unwrap();
    refused(&first);

    let second = home.start();
    assert_eq!(second.client().send("PUT", "/session", HELLO).status, 201);
    first.terminate();
    assert!(first.ended().0.success());
    assert!(folder.join("everturn.db-wal").exists(), "the first took the log of the second along");
    assert_eq!(second.client().send("PUT", "/session", HELLO).status, 201);
    assert_eq!(second.client().send("GET", "/readyz", "").status, 200);
}

#[test]
fn a_folder_that_is_deleted_stops_commands() {
    let home = Home::new(&shared_config(""));
    let server = home.start();
    fs::remove_dir_all(home.path().join("everturn-data")).unwrap();
    refused(&server);
}
