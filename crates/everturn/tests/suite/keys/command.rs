//! `everturn keys`, with and without a running server.

use expect_test::expect;

use super::{Made, create, home, keys, list, looks};
use crate::suite::harness::{Home, shared_config};

#[test]
fn a_key_that_was_made_before_the_start_opens_the_server() {
    let home = home("");
    assert_eq!(keys(&home, &["list"]), "");
    assert!(!home.path().join("everturn-data").exists(), "a look makes nothing");
    let made = create(&home, &["--tenant", "acme", "--name", "laptop", "--scope", "admin", "--expires", "30d"]);
    let server = home.start();
    assert_eq!((looks(&server.client()), looks(&made.client(&server))), (401, 200));
    assert!(!home.log().contains("sealed"), "the store is complete: {}", home.log());
    let shown = &made.client(&server).send("GET", &format!("/api/v1/keys/{}", made.id), "").json();
    assert_eq!(
        (&shown["name"], &shown["tenant"], &shown["scopes"]),
        (&"laptop".into(), &"acme".into(), &["admin"].into())
    );
}

#[test]
fn a_key_that_is_made_while_the_server_runs_works_at_once_and_so_does_its_end() {
    let home = home("");
    let server = home.start();
    let made = create(&home, &[]);
    assert_eq!((looks(&server.client()), looks(&made.client(&server))), (401, 200));
    let quiet = keys(&home, &["create", "--quiet"]);
    let secret = quiet.strip_suffix('\n').unwrap();
    assert_eq!(looks(&server.client().with_key(secret)), 200);
    keys(&home, &["revoke", &made.id]);
    assert_eq!((looks(&made.client(&server)), looks(&server.client().with_key(secret))), (401, 200));
    // Again is fine, and says when it was.
    let again = keys(&home, &["revoke", &made.id]);
    assert!(again.contains(&made.id) && again.contains("was revoked at "), "{again}");
}

/// The same commands say the same, whoever answers them.
#[test]
fn lists_are_the_same_with_and_without_a_server() {
    let home = home("");
    let made: Vec<Made> = ["ann", "bob"].iter().map(|tenant| create(&home, &["--tenant", tenant])).collect();
    keys(&home, &["revoke", &made[0].id]);
    let quota = ["--requests-per-second", "5", "--concurrent-turns", "2", "--tokens-per-day", "1000"];
    let third = create(&home, &[&["--tenant", "ann", "--name", "third"], &quota[..]].concat());
    let mut server = home.start();
    let running = (list(&home), keys(&home, &["list"]));
    server.terminate();
    assert!(server.ended().0.success());
    let stopped = (list(&home), keys(&home, &["list"]));
    assert_eq!(running, stopped);
    let ids: Vec<_> = stopped.0.iter().map(|key| key["key_id"].as_str().unwrap()).collect();
    assert_eq!(ids, [&*third.id, &*made[0].id, &*made[1].id], "by tenant, those that are revoked last");
    let statuses: Vec<_> = stopped.0.iter().map(|key| key["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["live", "revoked", "live"]);
    assert!(stopped.1.contains("5 requests/s, 2 turns, 1000 tokens/day"), "{}", stopped.1);
    assert_eq!(keys(&home, &["list", "--tenant", "bob"]).lines().count(), 2);
}

#[test]
fn the_secret_is_shown_once_and_kept_nowhere() {
    let home = home("");
    let before = create(&home, &["--scope", "admin"]);
    let mut server = home.start();
    let meanwhile = create(&home, &[]);
    let by_http = before.client(&server).send("POST", "/api/v1/keys", r#"{"name":"third"}"#);
    let by_http = Made::of(&by_http.json());
    let all = [&before, &meanwhile, &by_http];
    for made in all {
        assert_eq!(looks(&made.client(&server)), 200);
        assert_eq!(made.client(&server).send("POST", "/api/v1/nothing", "").status, 404);
    }
    let listed = keys(&home, &["list"]) + &before.client(&server).send("GET", "/api/v1/keys", "").body;
    for made in all {
        assert!(listed.contains(&made.secret[..10]) && !listed.contains(&made.secret[..14]), "{listed}");
    }
    server.terminate();
    assert!(server.ended().0.success());
    let folder = home.path().join("everturn-data");
    let files = std::fs::read_dir(folder).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap());
    for bytes in files.chain([home.log().into_bytes()]) {
        for made in all {
            // Neither whole nor what follows the part that is shown.
            let hidden = &made.secret.as_bytes()[10..];
            assert!(!bytes.windows(hidden.len()).any(|window| window == hidden));
        }
    }
}

#[test]
fn what_is_printed() {
    let home = home("");
    let output = home.run(&["keys", "create", "--name", "laptop", "--tokens-per-day", "500"]);
    let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let id = stdout.split([' ', '\n']).find(|word| word.starts_with("key_")).unwrap().to_owned();
    let secret = stdout.split([' ', '\n']).find(|word| word.starts_with("evt_")).unwrap().to_owned();
    expect![[r#"
        key      <id> (laptop)
        tenant   local
        scopes   read,chat
        expires  never
        quota    500 tokens/day
        secret   <secret>
    "#]]
    .assert_eq(&stdout.replace(&id, "<id>").replace(&secret, "<secret>"));
    expect![[r#"

        The secret is shown this once. Callers send it as: Authorization: Bearer <secret>
        It is the first key in this store: from now on every caller of the server needs one.
        It does not allow to make further keys by HTTP; `everturn keys create` always does.
    "#]]
    .assert_eq(&stderr);
    let listed = keys(&home, &["list"]).replace(&id, "<id>").replace(&secret[..10], "<prefix>");
    expect![[r#"
        ID                                    TENANT  NAME    SECRET       SCOPES     STATUS  EXPIRES  LAST USED  QUOTA
        <id>  local   laptop  <prefix>…  read,chat  live    never    never      500 tokens/day
    "#]]
    .assert_eq(&listed);
}

#[test]
fn what_cannot_be() {
    let home = home("");
    let said = |arguments: &[&str]| {
        let output = home.run(&[&["keys"], arguments].concat());
        assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let long = "x".repeat(101);
    for (arguments, expected) in [
        (&["create", "--name", "a\r\nb"][..], "control character"),
        (&["create", "--name", &long][..], "1 to 100 characters, not 101"),
        (&["create", "--name", " "][..], "must not be blank"),
        (&["create", "--scope", "root"][..], "a scope is read, chat or admin"),
        (&["create", "--expires", "yesterday"][..], "such as 12h or 30d"),
        (&["create", "--expires", "2001-01-01"][..], "in the past"),
        (&["create", "--tenant", "a b"][..], "A-Z a-z 0-9"),
        (&["create", "--requests-per-second", "0"][..], "zero"),
        (&["create", "--concurrent-turns", "2000000"][..], "at most 1000000"),
        (&["revoke", "key_nobodys"][..], "there is no"),
        (&["revoke"][..], "required"),
    ] {
        let said = said(arguments);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    // Nor while the server runs.
    let _server = home.start();
    assert!(said(&["create", "--name", "a\r\nb"]).contains("control character"));
    assert!(said(&["revoke", "key_nobodys"]).contains("there is no key"));
    assert_eq!(list(&home), Vec::<serde_json::Value>::new());
    let unicode = create(&home, &["--name", "Schlüssel \u{1f511}"]);
    assert_eq!(list(&home)[0]["name"], "Schlüssel \u{1f511}");
    keys(&home, &["revoke", &unicode.id]);
}

/// Whoever looks after keys need not have the variables that the server needs.
#[test]
fn only_the_store_must_be_configured() {
    let home = Home::new("store = 'sqlite:data/keys.db'\n[[keys]]\nkey = 'env:NOT_SET'\ntenant = 'acme'");
    create(&home, &["--tenant", "acme"]);
    assert!(home.path().join("data/keys.db").exists());
    assert_eq!(list(&home).len(), 1);
    let elsewhere = ["--store", "sqlite:other/keys.db"];
    create(&home, &elsewhere);
    create(&home, &elsewhere);
    let told = keys(&home, &[&["list"], &elsewhere[..]].concat());
    assert_eq!(told.lines().count(), 3, "{told}");
    home.configure("store = 'postgres://db'");
    let output = home.run(&["keys", "list"]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("PostgreSQL"));
}

/// Many at once wait for each other, with a server and without.
#[test]
fn many_at_once() {
    let home = Home::new(&shared_config(""));
    let at_once = || {
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..6).map(|_| scope.spawn(|| create(&home, &[]))).collect();
            all.into_iter().map(|made| made.join().unwrap()).collect::<Vec<_>>()
        })
    };
    let mut all = at_once();
    let server = home.start();
    all.extend(at_once());
    for made in &all {
        assert_eq!(looks(&made.client(&server)), 200);
    }
    assert_eq!(list(&home).len(), 12);
}

#[test]
fn the_summary_of_a_configuration_has_keys_and_quotas() {
    let listen = "listen = '0.0.0.0:8081'\n";
    let agents = "[providers.demo]\nkind = 'demo'\n[[agents]]\nname = 'first'\nmodel = 'demo/load'\n";
    let quotas = "[quotas]\ntenant = { requests_per_second = 9 }\n[tenants.acme]\nquota = { tokens_per_day = 5000 }\n";
    let key = "[[keys]]\nkey = '0123456789abcdef'\ntenant = 'acme'\n";
    let told = |config: String| {
        let output = Home::new(&config).run(&["config", "check"]);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    expect![[r#"
        everturn.toml is fine

        listen  0.0.0.0:8081
        store   sqlite:everturn-data/everturn.db
        keys    none here; starts only with some in the store, see `everturn keys create`
        quotas  every tenant: 9 requests/s
                tenant acme: 5000 tokens/day
        agents  first (demo/load)
    "#]]
    .assert_eq(&told([listen, quotas, agents].concat()));
    expect![[r#"
        everturn.toml is fine

        listen  127.0.0.1:8080
        store   sqlite:everturn-data/everturn.db
        keys    1, besides those in the store
        agents  first (demo/load)
    "#]]
    .assert_eq(&told([key, agents].concat()));
}
