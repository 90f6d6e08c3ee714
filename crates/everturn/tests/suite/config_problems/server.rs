//! Settings of the server itself.

use std::collections::BTreeSet;

use everturn::config::{Environment, Found, Overrides, Source, parse};
use expect_test::expect;

use super::{check, check_with};

#[test]
fn addresses() {
    check(
        "listen = '8080'",
        expect![[r#"
        error: cannot listen on `8080`
          --> everturn.toml:1:10

        hint: write an IP address and a port, such as "127.0.0.1:8080" or "[::1]:8080""#]],
    );
    check(
        "listen = 'example.org:80'",
        expect![[r#"
        error: cannot listen on `example.org:80`
          --> everturn.toml:1:10

        hint: write an IP address and a port, such as "127.0.0.1:8080" or "[::1]:8080""#]],
    );
}

#[test]
fn stores() {
    check(
        "store = 'postgres://me:password@db/everturn'",
        expect![[r#"
        error: PostgreSQL stores are not available in this version
          --> everturn.toml:1:9

        hint: use an SQLite file: "sqlite:everturn-data/everturn.db""#]],
    );
    check(
        "store = 'data.db'",
        expect![[r#"
        error: `data.db` is not a store
          --> everturn.toml:1:9

        hint: a store is a kind and a place: "sqlite:data.db""#]],
    );
    check(
        "store = 'sqlite:'",
        expect![[r#"
        error: the store `sqlite:` has no file
          --> everturn.toml:1:9

        hint: name one: "sqlite:everturn-data/everturn.db""#]],
    );
    check(
        "store = 'sqlite::memory:'",
        expect![[r#"
        error: the store `sqlite::memory:` has no file
          --> everturn.toml:1:9

        hint: name one: "sqlite:everturn-data/everturn.db""#]],
    );
    check(
        "durability = 'fsnc'",
        expect![[r#"
        error: there is no durability `fsnc`
          --> everturn.toml:1:14

        hint: did you mean `fsync`?"#]],
    );
}

#[test]
fn keys() {
    check(
        "[[keys]]\nkey = 'env:NOT_SET'\ntenant = 'acme'",
        expect![[r#"
        error: the variable `NOT_SET` is not set
          --> everturn.toml:2:7

        hint: set it before the start: export NOT_SET=…"#]],
    );
    check(
        "[[keys]]\nkey = 'short'\ntenant = 'acme'",
        expect![[r#"
        error: the key is shorter than 16 characters
          --> everturn.toml:2:7

        hint: make one with `openssl rand -hex 32`"#]],
    );
    check(
        "[[keys]]\nkey = 'with some spaces in it'\ntenant = 'acme'",
        expect![[r#"
        error: the key has characters that no HTTP header can carry
          --> everturn.toml:2:7

        hint: make one with `openssl rand -hex 32`"#]],
    );
    check(
        "[[keys]]\nkey = '0123456789abcdef'\ntenant = 'a b'",
        expect![[r#"
        error: `a b` cannot be a tenant: an id is made of A-Z a-z 0-9 . _ - only, this one has ' '
          --> everturn.toml:3:10"#]],
    );
    check(
        "[[keys]]\nkey = '0123456789abcdef'\ntenant = 'a'\nscopes = []",
        expect![[r#"
        error: the key allows nothing
          --> everturn.toml:4:10

        hint: name some of `chat`, `read` and `admin`, or leave `scopes` out for `chat` and `read`"#]],
    );
    check(
        "[[keys]]\nkey = '0123456789abcdef'\ntenant = 'a'\nscopes = ['chat', 'amdin', 'write']",
        expect![[r#"
        error: there is no scope `amdin`
          --> everturn.toml:4:19

        hint: did you mean `admin`?

        error: there is no scope `write`
          --> everturn.toml:4:28

        hint: the choices are `chat`, `read`, `admin`"#]],
    );
    check(
        "[[keys]]\nkey = '0123456789abcdef'\ntenant = 'a'\n[[keys]]\nkey = '0123456789abcdef'\ntenant = 'b'",
        expect![[r#"
            error: the key is there twice
              --> everturn.toml:5:7

            hint: give each holder a key of its own"#]],
    );
}

#[test]
fn a_key_that_is_not_set_is_not_told_twice() {
    check(
        "listen = '0.0.0.0:80'\n[[keys]]\nkey = 'env:NOT_SET'\ntenant = 'acme'",
        expect![[r#"
        error: the variable `NOT_SET` is not set
          --> everturn.toml:3:7

        hint: set it before the start: export NOT_SET=…"#]],
    );
}

#[test]
fn names_and_ends_of_keys() {
    const KEY: &str = "[[keys]]\nkey = '0123456789abcdef'\ntenant = 'acme'";
    check(
        &format!("{KEY}\nname = 'my laptop'\nexpires = 'soon'"),
        expect![[r#"
            error: `my laptop` cannot be the name of a key
              --> everturn.toml:4:8

            hint: use 1 to 64 characters of A-Z a-z 0-9 . _ -

            error: `expires` is not a point in time
              --> everturn.toml:5:11

            hint: write a time like 2027-01-31T12:00:00Z, or a day like 2027-01-31"#]],
    );
    check(
        &format!("{KEY}\nexpires = 30"),
        expect![[r#"
        error: `expires` is not a point in time
          --> everturn.toml:4:11

        hint: write a time like 2027-01-31T12:00:00Z, or a day like 2027-01-31"#]],
    );
    check(
        &format!("{KEY}\nexpires = 2027-01-31T12:00:00"),
        expect![[r#"
        error: `expires` is not a point in time
          --> everturn.toml:4:11

        hint: write a time like 2027-01-31T12:00:00Z, or a day like 2027-01-31"#]],
    );
    let other = "[[keys]]\nkey = 'fedcba9876543210'\ntenant = 'bob'\nname = 'acme-1'";
    check(
        &format!("{KEY}\n{other}"),
        expect![[r#"
        error: there are two keys `acme-1`
          --> everturn.toml:7:8

        hint: give each key a name of its own"#]],
    );
}

#[test]
fn quotas() {
    check(
        "[quotas]\ntenant = { requests_per_second = 0 }",
        expect![[r#"
        error: `requests_per_second` must be between 1 and 1000000, not 0
          --> everturn.toml:2:34

        hint: leave `requests_per_second` out for no bound; to let nobody in, take the key out or revoke it"#]],
    );
    check(
        "[quotas]\nkey = { tokens_per_day = -5, concurrent_turns = 5000000 }",
        expect![[r#"
        error: `tokens_per_day` must be between 1 and 1000000000000000, not -5
          --> everturn.toml:2:26

        error: `concurrent_turns` must be between 1 and 1000000, not 5000000
          --> everturn.toml:2:49"#]],
    );
    check(
        "[quotas]\nkey = { tokens = 5 }",
        expect![[r#"
        error: unknown key `tokens`
          --> everturn.toml:2:9

        hint: the keys here are `requests_per_second`, `concurrent_turns`, `tokens_per_day`, `storage`"#]],
    );
    check(
        "[tenants.'a b']\nquota = { concurrent_turns = 1 }",
        expect![[r#"
        error: `a b` cannot be a tenant: an id is made of A-Z a-z 0-9 . _ - only, this one has ' '
          --> everturn.toml:1:10"#]],
    );
    check(
        "[tenants.acme]\nqouta = { concurrent_turns = 1 }",
        expect![[r#"
        error: unknown key `qouta`
          --> everturn.toml:2:1

        hint: did you mean `quota`?"#]],
    );
}

#[test]
fn the_key_of_the_environment() {
    let environment = Environment::from([("EVERTURN_KEY", "short")]);
    let problems =
        parse(Source::Defaults, b"", &Overrides::default(), &environment, &BTreeSet::new(), Found::default());
    expect![[r#"
        error: in EVERTURN_KEY, the key is shorter than 16 characters

        hint: make one with `openssl rand -hex 32`"#]]
    .assert_eq(&problems.unwrap_err().to_string());
}

#[test]
fn limits() {
    check(
        "[limits]\nbody_bytes = 1\njson_depth = 1000\nretries = -1\nconnections = 0\nqueue_timeout = '30'",
        expect![[r#"
            error: `body_bytes` must be between 1024 and 1073741824, not 1
              --> everturn.toml:2:14

            error: `json_depth` must be between 8 and 127, not 1000
              --> everturn.toml:3:14

            error: `retries` must be between 0 and 100, not -1
              --> everturn.toml:4:11

            error: `connections` must be between 1 and 1000000, not 0
              --> everturn.toml:5:15

            error: `30` is not a duration for `queue_timeout`
              --> everturn.toml:6:17

            hint: write a number and a unit: `500ms`, `10s`, `5m`, `1h` or `2d`"#]],
    );
}

#[test]
fn tls() {
    check(
        "[tls]\ncert = 'cert.pem'",
        expect![[r#"
            error: [tls] has a `cert` and no `key`
              --> everturn.toml:2:8

            hint: set `key` under [tls] too (or --tls-key, EVERTURN_TLS_KEY), or neither for http"#]],
    );
    let overrides = Overrides { tls_key: Some("key.pem".to_owned()), ..Overrides::default() };
    check_with(
        "",
        &overrides,
        &Environment::default(),
        expect![[r#"
            error: [tls] has a `key` and no `cert`

            hint: set `cert` under [tls] too (or --tls-cert, EVERTURN_TLS_CERT), or neither for http"#]],
    );
    check(
        "[tls]\ncert = ''\nkey = 'key.pem'",
        expect![[r#"
            error: `cert` is empty
              --> everturn.toml:2:8

            hint: name a PEM file"#]],
    );
}

#[test]
fn proxies() {
    check(
        "[proxy]\ntrusted = ['127.0.0.1', '10.0.0.0/33', 'nginx', 'fd00::/8']\nheaders = 'x-forwarded-for'",
        expect![[r#"
            error: `10.0.0.0/33` is neither an address nor a network
              --> everturn.toml:2:25

            hint: write an address or a network, such as "127.0.0.1", "10.0.0.0/8" or "fd00::/8"

            error: `nginx` is neither an address nor a network
              --> everturn.toml:2:40

            hint: write an address or a network, such as "127.0.0.1", "10.0.0.0/8" or "fd00::/8"

            error: there is no kind of headers `x-forwarded-for`
              --> everturn.toml:3:11

            hint: did you mean `x-forwarded`?"#]],
    );
}
