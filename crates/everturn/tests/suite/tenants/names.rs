//! Names that tenants choose themselves, and places in their lists, are each tenant's own.

use serde_json::{Value, json};

use super::{
    clients,
    things::{IDEMPOTENCY, upload},
    world,
};
use crate::suite::{
    harness::{Answer, Client, eventually},
    native::world::spawn,
};

#[track_caller]
fn send(client: &Client, method: &str, path: &str, body: &Value) -> Answer {
    let headers = [("content-type", "application/json"), ("idempotency-key", IDEMPOTENCY)];
    let answer = client.send_with(method, path, &headers, body.to_string());
    assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
    answer
}

/// What was made: the session and the turn, or whatever else has an id.
fn made(answer: &Answer) -> Vec<String> {
    let json = serde_json::from_str::<Value>(&answer.body).unwrap_or_default();
    let fields = ["session_id", "message_id", "sessionId", "document_id"].map(|name| json[name].clone());
    let id = json["id"].clone();
    let texts = fields.iter().chain([&id]).filter_map(Value::as_str).map(str::to_owned);
    texts.chain(["x-session-id", "x-message-id"].map(|name| answer.header(name).to_owned())).collect()
}

/// The same request under the same name is the same for one tenant, and another for another.
#[test]
fn names_of_requests() {
    let messages = json!([{ "role": "user", "content": "stream 1" }]);
    let said = json!({ "role": "user", "created": 1, "content": [{ "type": "text", "text": "stream 1" }] });
    let requests = [
        ("PUT", "/session", json!({ "agent": { "name": "demo" }, "messages": messages })),
        ("PUT", "/aap/v1/session", json!({ "agent": { "name": "demo" }, "messages": messages })),
        ("POST", "/aap/v3/sessions", json!({ "agent": { "name": "demo" } })),
        ("POST", "/api/v1/sessions/stream", json!({ "agent_id": "demo", "message": "stream 1" })),
        ("POST", "/reply", json!({ "agent": "demo", "user_message": said })),
        ("POST", "/goose/reply", json!({ "agent": "demo", "user_message": said })),
        ("POST", "/goose/agent/start", json!({ "agent": "demo" })),
        ("POST", "/goose/sessions/import", json!({ "conversation": [said] })),
        ("POST", "/v1/chat/completions", json!({ "model": "demo", "messages": messages })),
    ];
    for (method, path, body) in requests {
        // A name is used once; so each has a server of its own.
        let world = world();
        let [ann, bob, _] = clients(&world);
        let [hers, his, again] = [&ann, &bob, &ann].map(|client| made(&send(client, method, path, &body)));
        assert!(hers.iter().any(|id| !id.is_empty()), "{path} names nothing");
        assert_eq!(hers, again, "{path}");
        let shared: Vec<_> = hers.iter().filter(|id| !id.is_empty() && his.contains(id)).collect();
        assert!(shared.is_empty(), "{path}: both have {shared:?}");
    }
    let world = world();
    let [ann, bob, _] = clients(&world);
    let [hers, his, again] = [&ann, &bob, &ann].map(|client| made(&upload(client, IDEMPOTENCY, "the same")));
    assert_eq!(hers, again);
    assert_ne!(hers, his);
    assert_eq!(bob.send("GET", &format!("/api/v1/documents/{}", hers[0]), "").status, 404);
}

/// A session of one name is two sessions, whatever is done to one of them.
#[test]
fn names_of_sessions() {
    let world = world();
    let [ann, bob, _] = clients(&world);
    let say = |client: &Client, count: u32| {
        let text = format!("stream {count}");
        let said = json!({ "role": "user", "created": 1, "content": [{ "type": "text", "text": text }] });
        let body = json!({ "session_id": "notes", "agent": "demo", "user_message": said });
        let answer = client.send("POST", "/goose/reply", &body.to_string());
        assert_eq!((answer.status, answer.header("x-session-id")), (200, "notes"), "{answer:?}");
    };
    let told = |client: &Client| client.send("GET", "/goose/sessions/notes/export", "").body;
    say(&ann, 3);
    let hers = eventually("it has a title", || Some(told(&ann)).filter(|told| told.contains("Stream 3")));
    assert_eq!(bob.send("GET", "/goose/sessions/notes", "").status, 404);
    say(&bob, 5);
    let name = json!({ "name": "His own" }).to_string();
    assert_eq!(bob.send("PUT", "/goose/sessions/notes/name", &name).status, 200);
    assert!(told(&bob).contains("stream 5") && !told(&bob).contains("stream 3"), "{}", told(&bob));
    assert_eq!(told(&ann), hers);
    // In every dialect.
    for path in ["/api/v1/sessions/notes/messages", "/session/notes", "/aap/v3/sessions/notes/history?type=full"] {
        let [hers, his] = [&ann, &bob].map(|client| client.send("GET", path, "").body);
        assert!(hers.contains("stream 3") && !hers.contains("stream 5"), "{path}: {hers}");
        assert!(his.contains("stream 5") && !his.contains("stream 3"), "{path}: {his}");
    }
    assert_eq!(bob.send("DELETE", "/goose/sessions/notes", "").status, 200);
    assert_eq!(bob.send("GET", "/goose/sessions/notes", "").status, 404);
    assert_eq!(told(&ann), hers);
    say(&ann, 4);
    assert!(told(&ann).contains("stream 4"));
}

/// A cursor is a place in one's own list, whoever it was given to.
#[test]
fn places_in_lists() {
    let world = world();
    let [ann, bob, _] = clients(&world);
    let speak = |client: &Client| spawn(client, &json!({ "agent_id": "demo", "message": "stream 1" })).session;
    let first = speak(&bob);
    let hers = [speak(&ann), speak(&ann), speak(&ann)];
    let last = speak(&bob);
    let lists = [
        ("/api/v1/sessions?limit=1", "next_cursor", "cursor", "sessions"),
        ("/goose/sessions?limit=1", "next", "after", "sessions"),
    ];
    for (path, next, parameter, list) in lists {
        let cursor = ann.send("GET", path, "").json()[next].as_str().unwrap().to_owned();
        for path in [path.to_owned(), path.replace("limit=1", "limit=100")] {
            let page = bob.send("GET", &format!("{path}&{parameter}={cursor}"), "");
            assert_eq!(page.status, 200, "{page:?}");
            assert_eq!(page.json()[list].as_array().unwrap().len(), 1, "{page:?}");
            assert!(page.body.contains(&first) && !page.body.contains(&last), "{page:?}");
            assert!(!hers.iter().any(|session| page.body.contains(session)), "{page:?}");
        }
    }
    for path in ["/sessions", "/aap/v1/sessions", "/aap/v3/sessions"] {
        let cursor = ann.send("GET", "/goose/sessions?limit=1", "").json()["next"].as_str().unwrap().to_owned();
        let page = bob.send("GET", &format!("{path}?after={cursor}"), "");
        assert!(page.status == 200 && page.body.contains(&first) && !page.body.contains(&last), "{path}: {page:?}");
        assert!(!hers.iter().any(|session| page.body.contains(session)), "{path}: {page:?}");
    }
}

/// What opens one stream opens no other, neither its owner's nor anybody's.
#[test]
fn tokens_of_streams() {
    let world = world();
    let [ann, bob, _] = clients(&world);
    let speak = |client: &Client| spawn(client, &json!({ "agent_id": "demo", "message": "stream 1" }));
    let (hers, other, his) = (speak(&ann), speak(&ann), speak(&bob));
    let token = ann.send("POST", &format!("{}/token", hers.path()), "{}").json();
    let token = token["token"].as_str().unwrap();
    let watch = |client: &Client, path: String| client.send("GET", &format!("{path}/stream?token={token}"), "").status;
    assert_eq!(watch(&world.client(), hers.path()), 200);
    for path in [other.path(), his.path()] {
        let made_up = path.replace("turn_", "turn_0");
        for client in [&world.client(), &ann, &bob] {
            assert_eq!((watch(client, path.clone()), watch(client, made_up.clone())), (401, 401), "{path}");
        }
    }
    // A token is not a key.
    for path in [format!("/api/v1/sessions/{}", hers.session), hers.path()] {
        assert_eq!(world.client().with_key(token).send("GET", &path, "").status, 401);
        assert_eq!(world.client().send("GET", &format!("{path}?token={token}"), "").status, 401);
    }
}
