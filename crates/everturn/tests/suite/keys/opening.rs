//! A server without keys is open to this machine, until there has ever been one.

use super::{create, home, keys, looks};
use crate::suite::harness::{Home, Server, shared_config};

/// What the server says about who may call.
fn access(server: &mut Server) -> String {
    server.banner().lines().find(|line| line.contains("  access  ")).unwrap().trim().to_owned()
}

#[test]
fn the_first_key_closes_the_server_and_nothing_opens_it_again() {
    let home = home("");
    let mut server = home.start();
    assert!(access(&mut server).contains("open to everybody on this machine"));
    assert_eq!(looks(&server.client()), 200);
    let output = home.run(&["keys", "create", "--json"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("from now on every caller of the server needs one"), "{said}");
    let made = super::Made::of(&serde_json::from_slice(&output.stdout).unwrap());
    assert_eq!((looks(&server.client()), looks(&made.client(&server))), (401, 200));
    let second = home.run(&["keys", "create"]);
    assert!(!String::from_utf8(second.stderr).unwrap().contains("first key"));
    for key in super::list(&home) {
        keys(&home, &["revoke", key["key_id"].as_str().unwrap()]);
    }
    for _ in 0..2 {
        assert_eq!((looks(&server.client()), looks(&made.client(&server))), (401, 401));
        server.kill();
        server = home.start();
    }
    assert!(access(&mut server).contains("no key is valid"), "{}", access(&mut server));
    // A way back in remains.
    assert_eq!(looks(&create(&home, &[]).client(&server)), 200);
}

#[test]
fn a_key_that_has_expired_keeps_it_closed() {
    let home = home("");
    let server = home.start();
    let made = create(&home, &["--expires", "1s"]);
    crate::suite::harness::eventually("the key ends", || (looks(&made.client(&server)) == 401).then_some(()));
    assert_eq!(looks(&server.client()), 401);
    drop(server);
    assert_eq!(looks(&home.start().client()), 401);
}

/// A page in a browser can reach a server without keys; it must not lock its user out, nor keep a key.
#[test]
fn the_first_key_is_not_made_by_http() {
    let home = home("");
    let server = home.start();
    let told = server.client().send("POST", "/api/v1/keys", r#"{"name":"evil"}"#);
    assert_eq!(told.status, 403, "{told:?}");
    assert!(told.json()["detail"]["hint"].as_str().unwrap().contains("everturn keys create"), "{told:?}");
    assert_eq!(server.client().send("GET", "/api/v1/keys", "").json(), serde_json::json!({ "keys": [] }));
    assert_eq!(looks(&server.client()), 200);
}

#[test]
fn beyond_this_machine_stored_keys_count_too() {
    let home = home("");
    // Taken, so that a server that would listen there does not.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let everywhere = format!("0.0.0.0:{}", taken.local_addr().unwrap().port());
    let said = || {
        let output = home.run(&["--listen", &everywhere]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let refusal = format!("refusing to listen on {everywhere} without keys");
    assert!(said().contains(&refusal), "{}", said());
    assert!(!home.path().join("everturn-data").exists(), "nothing is made for nothing");
    // A store without keys is no better than none.
    drop(home.start());
    assert!(said().contains(&refusal) && said().contains("everturn keys create"), "{}", said());
    let made = create(&home, &[]);
    assert!(said().contains("failed to listen"), "{}", said());
    // A key that is revoked opens it to nobody.
    keys(&home, &["revoke", &made.id]);
    assert!(said().contains("failed to listen"), "{}", said());
}

#[test]
fn configured_keys_close_it_too_and_stand_beside_the_others() {
    let key = "[[keys]]\nkey = 'the-key-of-the-operator'\ntenant = 'acme'\nscopes = ['admin']\nname = 'ops'\n";
    let ended = "[[keys]]\nkey = 'the-key-that-has-ended'\ntenant = 'acme'\nexpires = 2001-01-01T00:00:00Z\n";
    let home = Home::new(&(shared_config("") + key + ended));
    let mut server = home.start();
    assert!(access(&mut server).contains("1 key;"), "{}", access(&mut server));
    let operator = server.client().with_key("the-key-of-the-operator");
    assert_eq!((looks(&server.client()), looks(&operator)), (401, 200));
    let told = server.client().with_key("the-key-that-has-ended").send("GET", "/api/v1/sessions", "");
    assert!(told.status == 401 && told.body.contains("expired"), "{told:?}");
    let made = super::Made::of(&operator.send("POST", "/api/v1/keys", r#"{"name":"a"}"#).json());
    let listed = operator.send("GET", "/api/v1/keys", "").json();
    let shown: Vec<_> =
        listed["keys"].as_array().unwrap().iter().map(|key| (&key["key_id"], &key["source"], &key["status"])).collect();
    assert_eq!(
        serde_json::json!(shown),
        serde_json::json!([
            ["key_config_acme-2", "configured", "expired"],
            ["key_config_ops", "configured", "live"],
            [made.id, "stored", "live"],
        ])
    );
    let refused = operator.send("DELETE", "/api/v1/keys/key_config_ops", "");
    assert_eq!((refused.status, &refused.json()["detail"]["code"]), (400, &"KEY_READ_ONLY".into()));
    assert_eq!(operator.send("GET", "/api/v1/keys/key_config_ops", "").json()["name"], "ops");
}
