//! How keys begin and end.

use serde_json::Value;

use super::{Made, create, home, keys, list, looks};
use crate::suite::harness::eventually;

#[test]
fn a_key_ends_when_its_time_is_over() {
    let home = home("");
    let server = home.start();
    let made = create(&home, &["--expires", "2s", "--scope", "admin"]);
    let lasting = create(&home, &[]);
    eventually("the key ends", || (looks(&made.client(&server)) != 200).then_some(()));
    // A request that was under way when the key ended is told something else.
    let told = made.client(&server).send("GET", "/api/v1/sessions", "");
    assert_eq!(told.status, 401);
    assert_eq!(told.json()["detail"]["message"], "the key has expired; ask for a new one");
    assert_eq!(told.header("www-authenticate"), "Bearer");
    // Nobody else is told so.
    let other = server.client().with_key(&format!("{}x", made.secret)).send("GET", "/api/v1/sessions", "");
    assert_eq!(other.json()["detail"]["message"], "the key is not valid on this server");
    assert_eq!(looks(&lasting.client(&server)), 200);
    let listed = list(&home);
    let status = |id: &str| listed.iter().find(|key| key["key_id"] == id).unwrap()["status"].clone();
    assert_eq!((status(&made.id), status(&lasting.id)), ("expired".into(), "live".into()));
}

#[test]
fn a_revoked_key_stays_so_and_is_told_so_in_every_dialect() {
    let home = home("");
    let mut server = home.start();
    let (made, admin) = (create(&home, &[]), create(&home, &["--scope", "admin"]));
    let answer = admin.client(&server).send("DELETE", &format!("/api/v1/keys/{}", made.id), "");
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
    for again in 0..2 {
        let client = made.client(&server);
        for path in ["/api/v1/sessions", "/sessions", "/aap/v3/sessions", "/goose/sessions", "/v1/models"] {
            let told = client.send("GET", path, "");
            assert_eq!(told.status, 401, "{path}: {told:?}");
            assert!(told.body.contains("the key was revoked; ask for a new one"), "{path}: {told:?}");
        }
        let by_its_own_header =
            server.client().send_with("GET", "/goose/sessions", &[("x-secret-key", &made.secret)], "");
        assert_eq!(by_its_own_header.status, 401);
        let listed = admin.client(&server).send("GET", "/api/v1/keys", "").json();
        let ids: Vec<_> = listed["keys"].as_array().unwrap().iter().map(|key| &key["key_id"]).collect();
        assert_eq!(ids, [&admin.id, &made.id], "it stays in the list");
        assert_eq!(admin.client(&server).send("DELETE", &format!("/api/v1/keys/{}", made.id), "").status, 204);
        if again == 0 {
            server.kill();
            server = home.start();
        }
    }
}

#[test]
fn a_key_survives_the_death_of_the_server() {
    let home = home("");
    let admin = create(&home, &["--scope", "admin"]);
    let mut server = home.start();
    let made = Made::of(&admin.client(&server).send("POST", "/api/v1/keys", r#"{"name":"a"}"#).json());
    server.kill();
    let mut server = home.start();
    assert_eq!(looks(&made.client(&server)), 200);
    keys(&home, &["revoke", &made.id]);
    server.kill();
    let server = home.start();
    assert_eq!(looks(&made.client(&server)), 401);
}

#[test]
fn the_last_use_is_seen_at_once_and_kept_at_the_end() {
    let home = home("");
    let admin = create(&home, &["--scope", "admin"]);
    let made = create(&home, &[]);
    let mut server = home.start();
    let client = admin.client(&server);
    let used = || client.send("GET", &format!("/api/v1/keys/{}", made.id), "").json()["last_used_at"].clone();
    assert_eq!(used(), Value::Null);
    assert_eq!(looks(&made.client(&server)), 200);
    let at = used();
    assert!(at.as_str().is_some_and(|at| at.ends_with('Z')), "{at}");
    assert!(at.as_str() >= list(&home)[0]["created_at"].as_str());
    server.terminate();
    assert!(server.ended().0.success());
    let kept = list(&home).into_iter().find(|key| key["key_id"] == made.id.as_str()).unwrap();
    assert_eq!(kept["last_used_at"], at);
}

/// Whatever is sent in the place of a key, it is refused.
#[test]
fn rubbish_for_a_key() {
    let home = home("");
    let made = create(&home, &[]);
    let server = home.start();
    let raw = |value: &[u8]| {
        let head = b"GET /api/v1/sessions HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: ".as_slice();
        server.raw(&[head, value, b"\r\n\r\n"].concat())
    };
    assert!(raw(format!("Bearer {}", made.secret).as_bytes()).starts_with("HTTP/1.1 200 "));
    assert!(raw(format!("bearer   {}  ", made.secret).as_bytes()).starts_with("HTTP/1.1 200 "));
    let long = format!("Bearer {}", "x".repeat(6000));
    let twice = format!("Bearer {0}{0}", made.secret);
    let case = format!("Bearer {}", made.secret.to_uppercase());
    for value in
        ["Bearer", "Bearer ", "", &made.secret, "Basic eDp5", "Bearer \u{1f511}", "Bearer a\tb", &long, &twice, &case]
    {
        let answer = raw(value.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 401 "), "{value:?}: {answer}");
    }
    for value in [&b"Bearer \xff\xfe"[..], b"Bearer \x80", "Bearer é".as_bytes()] {
        assert!(raw(value).starts_with("HTTP/1.1 401 "), "{value:?}");
    }
    // What no header may have is no request.
    for value in [format!("Bearer {}\0", made.secret), format!("Bearer {}\rx: y", made.secret)] {
        let answer = raw(value.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400 "), "{value:?}: {answer}");
    }
    assert_eq!(looks(&made.client(&server)), 200);
}
