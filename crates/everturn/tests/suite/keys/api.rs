//! `/api/v1/keys`.

use serde_json::{Value, json};

use super::{Made, create, home, looks};
use crate::suite::harness::{Answer, Client};

fn post(client: &Client, body: &Value) -> Answer {
    client.send("POST", "/api/v1/keys", &body.to_string())
}

#[test]
fn keys_are_made_shown_listed_and_revoked() {
    let home = home("");
    let admin = create(&home, &["--tenant", "acme", "--scope", "admin"]);
    let server = home.start();
    let client = admin.client(&server);
    let end = jiff::Timestamp::now() + std::time::Duration::from_secs(1000);
    let wanted = json!({
        "name": " Köln \u{1f511} ", "scopes": ["read"], "expires_at": format!("{end:.3}"),
        "quota": { "requests_per_second": 1000, "tokens_per_day": 5 },
    });
    let answer = post(&client, &wanted);
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.header("cache-control"), "no-store");
    let told = answer.json();
    let made = Made::of(&told);
    assert_eq!(made.secret.len(), 47);
    let mut shown = told.clone();
    shown.as_object_mut().unwrap().remove("secret");
    let expected = json!({
        "key_id": made.id, "name": "Köln \u{1f511}", "tenant": "acme", "prefix": &made.secret[..10],
        "scopes": ["read"], "status": "live", "source": "stored",
        "quota": { "requests_per_second": 1000, "tokens_per_day": 5 }, "created_at": told["created_at"],
        "expires_at": format!("{end:.3}"), "last_used_at": null,
    });
    assert_eq!(shown, expected);
    let path = format!("/api/v1/keys/{}", made.id);
    assert_eq!(client.send("GET", &path, "").json(), shown);
    assert_eq!(client.send("GET", "/api/v1/keys", "").json()["keys"][0], shown);
    assert_eq!(looks(&made.client(&server)), 200);
    // The secret is shown to nobody again, nor does anybody but an administrator see any of this.
    assert_eq!(made.client(&server).send("GET", &path, "").status, 403);
    assert_eq!(client.send("DELETE", &path, "").status, 204);
    assert_eq!(looks(&made.client(&server)), 401);
    assert_eq!(client.send("GET", &path, "").json()["status"], "revoked");
    // Whoever wants may take back their own.
    assert_eq!(client.send("DELETE", &format!("/api/v1/keys/{}", admin.id), "").status, 204);
    assert_eq!(looks(&client), 401);
}

#[test]
fn a_request_that_is_repeated_makes_no_second_key_and_does_not_show_the_secret() {
    let home = home("");
    let admin = create(&home, &["--scope", "admin"]);
    let mut server = home.start();
    let send = |server: &crate::suite::harness::Server, body: &str| {
        let headers = [("content-type", "application/json"), ("idempotency-key", "order-17")];
        admin.client(server).send_with("POST", "/api/v1/keys", &headers, body.to_owned())
    };
    let made = Made::of(&send(&server, r#"{"name":"a"}"#).json());
    for _ in 0..2 {
        let again = send(&server, r#"{"name":"a"}"#);
        assert_eq!((again.status, &again.json()["detail"]["code"]), (409, &json!("KEY_MADE_BEFORE")), "{again:?}");
        assert!(again.body.contains(&made.id) && !again.body.contains("evt_"), "{again:?}");
        let other = send(&server, r#"{"name":"b"}"#);
        assert_eq!((other.status, &other.json()["detail"]["code"]), (409, &json!("IDEMPOTENCY_KEY_REUSED")));
        server.kill();
        server = home.start();
    }
    assert_eq!(super::list(&home).len(), 2);
    // At once, only one is made.
    let made: Vec<Answer> = std::thread::scope(|scope| {
        let send = || {
            let headers = [("content-type", "application/json"), ("idempotency-key", "order-18")];
            admin.client(&server).send_with("POST", "/api/v1/keys", &headers, r#"{"name":"c"}"#)
        };
        let all: Vec<_> = (0..8).map(|_| scope.spawn(send)).collect();
        all.into_iter().map(|answer| answer.join().unwrap()).collect()
    });
    assert_eq!(made.iter().filter(|answer| answer.status == 201).count(), 1, "{made:?}");
    assert_eq!(super::list(&home).len(), 3);
}

#[test]
fn what_cannot_be_made() {
    let home = home("");
    let admin = create(&home, &["--scope", "admin"]);
    let server = home.start();
    let client = admin.client(&server);
    for (body, told) in [
        (json!({}), "name is missing"),
        (json!({ "name": null }), "name is missing"),
        (json!({ "name": "" }), "1 to 100 characters"),
        (json!({ "name": "x".repeat(101) }), "not 101"),
        (json!({ "name": "\u{3000}" }), "blank"),
        (json!({ "name": "a\r\nSet-Cookie: x" }), "control character"),
        (json!({ "name": "a\u{0}" }), "control character"),
        (json!({ "name": "a", "scopes": [] }), "must allow something"),
        (json!({ "name": "a", "scopes": ["root"] }), "root"),
        (json!({ "name": "a", "expires_at": "2001-01-01T00:00:00Z" }), "in the past"),
        (json!({ "name": "a", "expires_at": "9999-01-01T00:00:00Z" }), "ten years"),
        (json!({ "name": "a", "expires_at": "soon" }), "expires_at"),
        (json!({ "name": "a", "expires_at": 5 }), "expires_at"),
        (json!({ "name": "a", "quota": { "concurrent_turns": 0 } }), "concurrent_turns"),
        (json!({ "name": "a", "quota": { "tokens_per_day": -1 } }), "tokens_per_day"),
        (json!({ "name": "a", "quota": { "tokens_per_day": 1e300 } }), "tokens_per_day"),
        (json!({ "name": "a", "quota": { "requests_per_second": 1_000_001 } }), "at most 1000000"),
        (json!({ "name": "a", "quota": { "money": 1 } }), "money"),
        (json!({ "name": "a", "tenant": "somebody" }), "your own tenant"),
        (json!([]), "object"),
    ] {
        let answer = post(&client, &body);
        assert_eq!(
            (answer.status, &answer.json()["detail"]["code"]),
            (422, &json!("VALIDATION_FAILED")),
            "{body} {answer:?}"
        );
        let message = answer.json()["detail"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(told), "{body}: {message}");
    }
    assert_eq!(super::list(&home).len(), 1);
    for id in ["key_none", "x", "%00", "..%2f", &"k".repeat(2000), "\u{1f511}".escape_unicode().to_string().as_str()] {
        let path = format!("/api/v1/keys/{}", id.replace(['\\', '{', '}'], "_"));
        for method in ["GET", "DELETE"] {
            let answer = client.send(method, &path, "");
            assert_eq!(
                (answer.status, &answer.json()["detail"]["code"]),
                (404, &json!("KEY_NOT_FOUND")),
                "{method} {path}"
            );
        }
    }
}

#[test]
fn a_tenant_sees_its_own_keys_only() {
    let home = home("");
    let [ann, bob] = ["ann", "bob"].map(|tenant| create(&home, &["--tenant", tenant, "--scope", "admin"]));
    let server = home.start();
    let (anns, bobs) = (ann.client(&server), bob.client(&server));
    let hidden = Made::of(&post(&anns, &json!({ "name": "hidden" })).json());
    let listed = bobs.send("GET", "/api/v1/keys", "");
    assert_eq!(listed.json()["keys"].as_array().unwrap().len(), 1, "{listed:?}");
    for id in [&hidden.id, &ann.id, &format!("{}.use", ann.id)] {
        for method in ["GET", "DELETE"] {
            let told = bobs.send(method, &format!("/api/v1/keys/{id}"), "");
            let unknown = bobs.send(method, "/api/v1/keys/key_unknown", "");
            assert_eq!(told.status, 404);
            assert_eq!(told.body.replace(id.as_str(), ""), unknown.body.replace("key_unknown", ""));
        }
    }
    assert_eq!((looks(&anns), looks(&hidden.client(&server))), (200, 200));
}

#[test]
fn lists_come_in_pages() {
    let home = home("");
    let admin = create(&home, &["--scope", "admin"]);
    let server = home.start();
    let client = admin.client(&server);
    let made: Vec<_> = (0..7).map(|n| Made::of(&post(&client, &json!({ "name": n.to_string() })).json())).collect();
    for index in [2, 5, 3] {
        assert_eq!(client.send("DELETE", &format!("/api/v1/keys/{}", made[index].id), "").status, 204);
    }
    for limit in [1, 3, 200] {
        let (mut names, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = client.send("GET", &format!("/api/v1/keys?limit={limit}{cursor}"), "").json();
            names.extend(page["keys"].as_array().unwrap().iter().map(|key| key["name"].as_str().unwrap().to_owned()));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(names.join(" "), "6 4 1 0 unnamed 3 5 2", "{limit}");
    }
    for query in ["limit=0", "limit=201", "cursor=s1", "cursor=k", "cursor=kxyz"] {
        let answer = client.send("GET", &format!("/api/v1/keys?{query}"), "");
        assert!([400, 422].contains(&answer.status), "{query}: {answer:?}");
    }
}
