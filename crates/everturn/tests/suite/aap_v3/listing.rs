//! `GET /sessions`.

use expect_test::expect;
use serde_json::{Value, json};

use super::{application::BASE, shape};
use crate::suite::harness::{Client, Home, check, key, shared_config};

fn page(client: &Client, after: Option<&str>) -> Value {
    let path = after.map_or(format!("{BASE}/sessions"), |after| format!("{BASE}/sessions?after={after}"));
    let answer = client.send("GET", &path, "");
    assert_eq!(answer.status, 200, "{answer:?}");
    let page = answer.json();
    shape::sessions(&page);
    page
}

fn ids(page: &Value) -> Vec<String> {
    let sessions = page["sessions"].as_array().unwrap();
    sessions.iter().map(|session| session["sessionId"].as_str().unwrap().to_owned()).collect()
}

/// A server with one client, who sees nothing of other tests.
fn alone() -> (Home, crate::suite::harness::Server, Client) {
    let config = format!("[[keys]]\nkey = '{}'\ntenant = 'lister'\nscopes = ['chat']\n", key("lister"));
    let home = Home::new(&(shared_config("") + &config));
    let server = home.start();
    let client = server.client().with_key(&key("lister"));
    (home, server, client)
}

#[test]
fn pages_show_every_session_once_newest_first() {
    let (_home, _server, client) = alone();
    assert_eq!(page(&client, None), json!({ "sessions": [] }));
    let create = |index: usize| {
        let new = json!({ "agent": { "name": "demo", "options": { "nickname": index.to_string(), "token": "hush" } } });
        let answer = client.send("POST", &format!("{BASE}/sessions"), &new.to_string());
        answer.json()["sessionId"].as_str().unwrap().to_owned()
    };
    let mut made: Vec<_> = (0..205).map(create).collect();
    made.reverse();
    let first = page(&client, None);
    let second = page(&client, first["next"].as_str());
    let third = page(&client, second["next"].as_str());
    assert_eq!([&first, &second, &third].map(|page| ids(page).len()), [100, 100, 5]);
    assert_eq!([ids(&first), ids(&second), ids(&third)].concat(), made);
    assert_eq!(page(&client, Some("")), first, "an empty cursor is none");
    assert_eq!(third.get("next"), None);
    let newest = json!({
        "sessionId": made[0],
        "agent": { "name": "demo", "tools": [], "options": { "nickname": "204", "token": "***" } },
    });
    assert_eq!(first["sessions"][0], newest);
    // A cursor that names a deleted session still works.
    let last = ids(&first)[99].clone();
    assert_eq!(client.send("DELETE", &format!("{BASE}/sessions/{last}"), "").status, 204);
    assert_eq!(page(&client, first["next"].as_str()), second);
}

/// Sessions with megabytes of tools make short pages, and none is lost.
#[test]
fn long_sessions_make_short_pages() {
    let (_home, _server, client) = alone();
    let tool = json!({ "name": "big", "description": "x".repeat(1024 * 1024), "parameters": { "type": "object" } });
    let new = json!({ "agent": { "name": "demo" }, "tools": [tool] }).to_string();
    for _ in 0..6 {
        assert_eq!(client.send("POST", &format!("{BASE}/sessions"), &new).status, 201);
    }
    let first = page(&client, None);
    let second = page(&client, first["next"].as_str());
    assert_eq!((ids(&first).len(), ids(&second).len()), (3, 3), "each has a little more than a megabyte");
    assert_eq!(second.get("next"), None);
}

#[test]
fn cursors_that_are_none() {
    check(
        &["GET /aap/v3/sessions?after=x", "GET /aap/v3/sessions?after=p", "@nobody GET /aap/v3/sessions"],
        expect![[r#"
            > GET /aap/v3/sessions?after=x
            400
            content-type: application/json
            {"error":"after=\"x\" is not a cursor of this server; use `next` of the page before"}

            > GET /aap/v3/sessions?after=p
            400
            content-type: application/json
            {"error":"after=\"p\" is not a cursor of this server; use `next` of the page before"}

            > @nobody GET /aap/v3/sessions
            401
            content-type: application/json
            www-authenticate: Bearer
            {"error":"this server wants a key: send the header Authorization: Bearer <key>"}

        "#]],
    );
}
