//! Stream tokens: for readers that cannot send a key. One turn, for a while, and nothing else.

use serde_json::{Value, json};

use super::world::{Turn, World, config, spawn};
use crate::suite::harness::{Answer, Client, eventually, key};

fn world() -> World {
    let keys: String = [("ann", "acme", "'chat'"), ("reader", "acme", "'read'"), ("bob", "bob", "'chat'")]
        .iter()
        .map(|(who, tenant, scopes)| {
            format!("[[keys]]\nkey = '{}'\ntenant = '{tenant}'\nscopes = [{scopes}]\n", key(who))
        })
        .collect();
    World::with(&(config("") + &keys))
}

fn of(world: &World, who: &str) -> Client {
    world.client().with_key(&key(who))
}

fn turn(world: &World) -> Turn {
    let turn = spawn(&of(world, "ann"), &json!({ "agent_id": "demo", "message": "stream 2" }));
    turn.complete();
    turn
}

fn ask(turn: &Turn, body: &str) -> Answer {
    turn.client.send("POST", &format!("{}/token", turn.path()), body)
}

#[track_caller]
fn token(turn: &Turn, body: &str) -> String {
    let answer = ask(turn, body);
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.header("cache-control"), "no-store");
    answer.json()["token"].as_str().unwrap().to_owned()
}

/// Reads a turn without a key.
fn read(turn: &Turn, query: &str) -> Answer {
    Client { key: None, ..turn.client.clone() }.send("GET", &format!("{}/stream{query}", turn.path()), "")
}

#[track_caller]
fn refused(answer: &Answer) {
    assert_eq!((answer.status, &answer.json()["detail"]["code"]), (401, &json!("AUTH_TOKEN_INVALID")), "{answer:?}");
    assert_eq!(answer.header("www-authenticate"), "Bearer");
}

#[test]
fn a_token_opens_its_turn() {
    let mut world = world();
    let turn = turn(&world);
    let token = token(&turn, "");
    let whole = turn.client.send("GET", &format!("{}/stream", turn.path()), "").body;
    assert_eq!(read(&turn, &format!("?token={token}")).body, whole);
    // In every view, from everywhere.
    let resumed = read(&turn, &format!("?token={token}&since=3"));
    assert!(resumed.status == 200 && whole.ends_with(resumed.body.trim_start_matches("retry: 1000\n")), "{resumed:?}");
    assert!(read(&turn, &format!("?as=aap-delta&token={token}")).body.contains("event: turn_stop"));
    // It needs nothing of the server's memory.
    world.crash();
    assert_eq!(read(&turn.on(&world), &format!("?token={token}")).body, whole);
}

#[test]
fn and_nothing_else() {
    let world = world();
    let (turn, other) = (turn(&world), turn(&world));
    let token = token(&turn, "{}");
    refused(&read(&other, &format!("?token={token}")));
    let crossed = Turn { session: other.session.clone(), ..turn.clone() };
    refused(&read(&crossed, &format!("?token={token}")));
    // Not as a key, and not on other doors.
    let as_key = world.client().with_key(&token);
    let nobody = world.client();
    let path = turn.path();
    for route in [
        ("GET", "/api/v1/sessions".to_owned(), ""),
        ("GET", format!("/api/v1/sessions/{}", turn.session), ""),
        ("GET", path.clone(), ""),
        ("POST", format!("{path}/stop"), ""),
        ("POST", format!("{path}/token"), "{}"),
        ("POST", "/api/v1/sessions/stream".to_owned(), r#"{"message":"hi"}"#),
        ("GET", "/api/v1/forms".to_owned(), ""),
        ("GET", "/api/v1/documents".to_owned(), ""),
    ] {
        let (method, path, body) = route;
        refused(&as_key.send(method, &path, body));
        let answer = nobody.send(method, &format!("{path}?token={token}"), body);
        assert_eq!((answer.status, &answer.json()["detail"]["code"]), (401, &json!("AUTH_HEADER_MISSING")), "{path}");
    }
    // What is not quite it is not it; and a key beside it does not help.
    let mut changed = token.clone().into_bytes();
    let middle = changed.len() / 2;
    changed[middle] = if changed[middle] == b'A' { b'B' } else { b'A' };
    let changed = String::from_utf8(changed).unwrap();
    let parts = [&token[..token.len() - 1], &changed, "", "x", "v1.", "%00", "%F0%9F%98%80"].map(str::to_owned);
    for wrong in parts.into_iter().chain(["A".repeat(5000), format!("{token}AAAA")]) {
        refused(&read(&turn, &format!("?token={wrong}")));
        refused(&turn.client.send("GET", &format!("{path}/stream?token={wrong}"), ""));
    }
    let missing = read(&turn, "");
    assert_eq!((missing.status, &missing.json()["detail"]["code"]), (401, &json!("AUTH_HEADER_MISSING")));
}

#[test]
fn tokens_expire() {
    let world = world();
    let turn = turn(&world);
    let answer = ask(&turn, r#"{"ttl_seconds":1}"#).json();
    let token = answer["token"].as_str().unwrap();
    assert!(answer["expires_at"].is_string());
    let first = read(&turn, &format!("?token={token}"));
    assert!(matches!(first.status, 200 | 401), "{first:?}");
    let late = eventually("it expires", || {
        Some(read(&turn, &format!("?token={token}"))).filter(|answer| answer.status != 200)
    });
    refused(&late);
    for wrong in ["0", "3601", "-1", "1.5", "\"60\"", "null1"] {
        let answer = ask(&turn, &format!(r#"{{"ttl_seconds":{wrong}}}"#));
        assert_eq!((answer.status, &answer.json()["detail"]["code"]), (422, &json!("VALIDATION_FAILED")), "{wrong}");
    }
    assert_eq!(ask(&turn, r#"{"ttl_seconds":3600}"#).status, 201);
    assert_eq!(ask(&turn, r#"{"ttl_seconds":null}"#).status, 201);
}

#[test]
fn who_may_have_one() {
    let world = world();
    let turn = turn(&world);
    let as_ = |who: &str| ask(&Turn { client: of(&world, who), ..turn.clone() }, "{}");
    let code = |answer: &Answer| (answer.status, answer.json()["detail"]["code"].clone());
    assert_eq!(code(&as_("bob")), (404, json!("MESSAGE_NOT_FOUND")));
    assert_eq!(code(&as_("reader")), (403, json!("AUTH_PERMISSION_DENIED")));
    let nobody = ask(&Turn { client: world.client(), ..turn.clone() }, "{}");
    assert_eq!(code(&nobody), (401, json!("AUTH_HEADER_MISSING")));
    for (session, message) in [("sess_no", turn.message.as_str()), (&turn.session, "turn_no"), ("%ff", "a%20b")] {
        let answer = ask(&Turn { session: session.to_owned(), message: message.to_owned(), ..turn.clone() }, "");
        assert_eq!(answer.status, 404, "{answer:?}");
    }
    // A turn that is deleted is not there for its token either.
    let token = token(&turn, "");
    assert_eq!(turn.client.send("DELETE", &format!("/api/v1/sessions/{}", turn.session), "").status, 204);
    let gone = read(&turn, &format!("?token={token}"));
    assert_eq!((gone.status, &gone.json()["detail"]["code"]), (404, &Value::from("MESSAGE_NOT_FOUND")));
}
