//! What operators read.

use std::collections::HashSet;

use super::harness::{Home, eventually, shared_config};

/// The keys of a flat JSON object, as they stand: a parser would keep one of two that are the same.
fn keys(line: &str) -> Vec<String> {
    let entries = line.trim_start_matches('{').split(",\"");
    entries.map(|entry| entry.split("\":").next().unwrap().trim_matches('"').to_owned()).collect()
}

#[test]
fn a_failed_turn_is_logged_as_json_without_a_key_twice() {
    let home = Home::new(&shared_config(""));
    let server = home.start();
    let body = r#"{"agent":{"name":"demo"},"messages":[{"role":"user","content":"fail"}]}"#;
    assert_eq!(server.client().send("PUT", "/session", body).json()["stopReason"], "error");
    let line = eventually("the failure is logged", || {
        home.log().lines().find(|line| line.contains("a turn failed")).map(str::to_owned)
    });
    let keys = keys(&line);
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len(), "{line}");
    let entry: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(entry["message"], "a turn failed");
    assert_eq!(entry["reason"], "the demo model failed because the message asked it to");
}

#[test]
fn a_key_that_is_gone_is_told_and_a_first_start_is_not_alarming() {
    let home = Home::new(&shared_config(""));
    let mut server = home.start();
    assert!(!home.log().contains("is gone"), "{}", home.log());
    server.kill();
    std::fs::remove_file(home.path().join("everturn-data/secret.key")).unwrap();
    let server = home.start();
    assert!(home.log().contains("the key that secret options are sealed with is gone"), "{}", home.log());
    assert_eq!(server.client().send("GET", "/healthz", "").status, 200);
}
