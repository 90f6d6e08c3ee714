//! What each scope allows, over all doors of the API document.

use super::{create, home};
use crate::suite::harness::Client;

/// A door: its method, its path with names of nothing, its name.
struct Door {
    method: String,
    path: String,
    id: String,
    has_body: bool,
}

impl Door {
    /// What somebody with this key is told.
    fn knock(&self, client: &Client) -> u16 {
        let body = if self.has_body { "{}" } else { "" };
        client.send(&self.method, &self.path, body).status
    }
}

/// The doors that want a key.
fn doors(client: &Client) -> Vec<Door> {
    let document = client.send("GET", "/openapi.json", "").json();
    let mut doors = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        // The names in a path, such as {session}.
        let parts = path.split('/').map(|part| if part.starts_with('{') { "none" } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        for (method, operation) in item.as_object().unwrap() {
            let ways = operation["security"].as_array().unwrap();
            if ways.iter().all(|way| !way.as_object().unwrap().is_empty()) {
                doors.push(Door {
                    method: method.to_uppercase(),
                    path: path.clone(),
                    id: operation["operationId"].as_str().unwrap().to_owned(),
                    has_body: operation.get("requestBody").is_some(),
                });
            }
        }
    }
    doors
}

/// What a door must want: to look is for readers, to change for those who chat, and what concerns the tenant as a whole
/// for administrators.
fn wanted(door: &Door) -> &'static str {
    const ADMIN: [&str; 8] = [
        "native_list_keys",
        "native_show_key",
        "native_create_key",
        "native_revoke_key",
        "native_create_agent",
        "native_change_agent",
        "native_delete_agent",
        "native_usage",
    ];
    match door.id.as_str() {
        id if ADMIN.contains(&id) => "admin",
        // It looks, by its nature; Goose's clients post it.
        "goose_released_resume_agent" | "goose_released_read_config" => "read",
        _ if door.method == "GET" => "read",
        _ => "chat",
    }
}

#[test]
fn every_door_wants_the_scope_that_it_should() {
    let home = home("");
    let [read, chat, admin] = ["read", "chat", "admin"].map(|scope| create(&home, &["--scope", scope]));
    let server = home.start();
    let doors = doors(&server.client());
    assert!(doors.len() > 50, "{}", doors.len());
    let mut problems = Vec::new();
    for door in &doors {
        let told = [None, Some(&read), Some(&chat), Some(&admin)]
            .map(|made| door.knock(&made.map_or_else(|| server.client(), |made| made.client(&server))));
        let let_in = told.map(|status| !matches!(status, 401 | 403 | 429 | 500..));
        let expected = match wanted(door) {
            "read" => [false, true, true, true],
            "chat" => [false, false, true, true],
            _ => [false, false, false, true],
        };
        let refusals = told.iter().zip(expected).skip(1).filter(|(_, expected)| !expected);
        if let_in != expected || told[0] != 401 || refusals.into_iter().any(|(status, _)| *status != 403) {
            problems.push(format!("{} {} ({}): {told:?}", door.method, door.path, door.id));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

/// One request is one request, at whatever door; and each door says no in the same way.
#[test]
fn every_door_counts_once() {
    let home = home("");
    let admin = create(&home, &["--scope", "admin"]);
    let server = home.start();
    let doors = doors(&server.client());
    let mut problems = Vec::new();
    for door in &doors {
        let body = r#"{"name":"once","scopes":["admin"],"quota":{"requests_per_second":1}}"#;
        let made = super::Made::of(&admin.client(&server).send("POST", "/api/v1/keys", body).json());
        let client = made.client(&server);
        let first = door.knock(&client);
        if matches!(first, 401 | 403 | 429 | 500..) {
            problems.push(format!("{} {}: the first is told {first}", door.method, door.path));
        }
        // The second is too early, unless a second has passed.
        let second = (0..50).map(|_| client.send(&door.method, &door.path, if door.has_body { "{}" } else { "" }));
        let refused = second.into_iter().find(|answer| answer.status == 429);
        let says = |answer: &crate::suite::harness::Answer| {
            answer.header("retry-after") == "1" && answer.body.contains("this key may make 1 request a second")
        };
        if !refused.as_ref().is_some_and(says) {
            problems.push(format!("{} {}: no 429 as it should be: {refused:?}", door.method, door.path));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}
