//! Webhooks.

use everturn::config::{Environment, Overrides};
use expect_test::expect;

use super::{check, check_with};

#[test]
fn receivers() {
    check(
        "[webhooks.acme]\nurl = 'http://169.254.169.254/latest'\nsecret = 'a-secret-of-24-bytes-ok!'",
        expect![[r#"
            error: the address 169.254.169.254 is link-local, and not one of the internet; if you mean it, set allow_private = true
              --> everturn.toml:2:7

            hint: hooks go to the internet only, unless `allow_private` says otherwise"#]],
    );
    check(
        "[webhooks.acme]\nurl = 'https://me:pass@example.org'\nsecret = 'a-secret-of-24-bytes-ok!'",
        expect![[r#"
            error: the URL of the receiver has a user or a password in it; messages are signed, and need neither
              --> everturn.toml:2:7

            hint: write where the receiver is, such as "https://example.org/hooks/everturn""#]],
    );
    check(
        "[webhooks.'a b']\nurl = 'example.org'\nsecret = 'short'\nevents = ['turn.complete']\ntimeout = '1'",
        expect![[r#"
            error: `a b` cannot be a tenant: an id is made of A-Z a-z 0-9 . _ - only, this one has ' '
              --> everturn.toml:1:11

            hint: write [webhooks.TENANT], with the tenant of a key

            error: the URL of the receiver cannot be read; write one such as https://example.org/hooks
              --> everturn.toml:2:7

            hint: write where the receiver is, such as "https://example.org/hooks/everturn"

            error: the secret has 5 bytes; it must have at least 24
              --> everturn.toml:3:10

            hint: make one with `echo whsec_$(openssl rand -base64 32)`, and give it to the receiver

            error: there is no event `turn.complete`
              --> everturn.toml:4:11

            hint: did you mean `turn.completed`?

            error: `1` is not a duration for `timeout`
              --> everturn.toml:5:11

            hint: write a number and a unit: `500ms`, `10s`, `5m`, `1h` or `2d`"#]],
    );
}

#[test]
fn secrets() {
    check(
        "[webhooks.acme]\nurl = 'https://example.org'\nsecret = 'env:HOOK'",
        expect![[r#"
            error: the variable `HOOK` is not set
              --> everturn.toml:3:10

            hint: set it before the start: export HOOK=…"#]],
    );
    let environment = Environment::from([("HOOK", "whsec_!")]);
    check_with(
        "[webhooks.acme]\nurl = 'https://example.org'\nsecret = 'env:HOOK'\nevents = []",
        &Overrides::default(),
        &environment,
        expect![[r#"
            error: what follows `whsec_` in the secret is not base64
              --> everturn.toml:3:10

            hint: make one with `echo whsec_$(openssl rand -base64 32)`, and give it to the receiver

            error: the webhook tells of nothing
              --> everturn.toml:4:10

            hint: name some events, or leave `events` out for all"#]],
    );
}
