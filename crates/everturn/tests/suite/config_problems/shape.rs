//! Files that cannot be read as a configuration at all.

use everturn::config::{Environment, Overrides};
use expect_test::expect;

use super::{super::config_values::read, check, check_agent};

#[test]
fn toml_that_is_none() {
    check(
        "listen = ",
        expect![[r#"
        error: string values must be quoted, expected literal string
          --> everturn.toml:1:10"#]],
    );
    check(
        "listen = \"127.0.0.1\n",
        expect![[r#"
        error: invalid basic string, expected `"`
          --> everturn.toml:1:20"#]],
    );
    check(
        "[providers\n",
        expect![[r#"
        error: unclosed table, expected `]`
          --> everturn.toml:1:11"#]],
    );
    check(
        "listen = 'a'\nlisten = 'b'",
        expect![[r#"
            error: cannot listen on `a`
              --> everturn.toml:1:10

            hint: write an IP address and a port, such as "127.0.0.1:8080" or "[::1]:8080"

            error: duplicate key
              --> everturn.toml:2:1"#]],
    );
}

#[test]
fn text_that_is_none() {
    let problems = read(b"# \xc3\xa9\nlisten = '\xff'", &Overrides::default(), &Environment::default()).unwrap_err();
    expect![[r#"
        error: the file is not UTF-8 text: the byte 0xff cannot stand here
          --> everturn.toml:2:11"#]]
    .assert_eq(&problems.to_string());
}

/// One mistake does not hide the next, nor is one made of what stands after it.
#[test]
fn several_mistakes() {
    check(
        "lisen = 'x'\nlisten = 7\n[limit]\nretries = 1\n[limits]\nretries = 'many'\n[[agents]]\nnme = 'a'\nmodel = 1",
        expect![[r#"
            error: unknown key `lisen`
              --> everturn.toml:1:1

            hint: did you mean `listen`?

            error: `listen`: expected a string, found an integer
              --> everturn.toml:2:10

            hint: put it in quotes

            error: unknown key `limit`
              --> everturn.toml:3:2

            hint: did you mean `limits`?

            error: `retries`: expected an integer, found a string
              --> everturn.toml:6:11

            error: unknown key `nme`
              --> everturn.toml:8:1

            hint: did you mean `name`?

            error: `model`: expected a string, found an integer
              --> everturn.toml:9:9

            hint: put it in quotes"#]],
    );
}

/// A mistake in the shape does not hide one in the meaning elsewhere, and makes none: nothing is said of what stands in its lines.
#[test]
fn mistakes_of_both_kinds_at_once() {
    check(
        "listen = 'here'\n[retention]\ndeltas = 30\n[limits]\nretries = 1000\nqueue_timeout = 5\nconcurrent_turns = '7'\n\
         [providers.demo]\nkind = 7\n[[agents]]\nname = 'a'\nmodel = 'demo/x'\ntools = ['clok']",
        expect![[r#"
            error: cannot listen on `here`
              --> everturn.toml:1:10

            hint: write an IP address and a port, such as "127.0.0.1:8080" or "[::1]:8080"

            error: `deltas`: expected a string, found an integer
              --> everturn.toml:3:10

            hint: write a number and a unit: `deltas = "30d"`

            error: `retries` must be between 0 and 100, not 1000
              --> everturn.toml:5:11

            error: `queue_timeout`: expected a string, found an integer
              --> everturn.toml:6:17

            hint: write a number and a unit: `queue_timeout = "5s"`

            error: `concurrent_turns`: expected an integer, found a string
              --> everturn.toml:7:20

            hint: leave the quotes out: `concurrent_turns = 7`

            error: `kind`: expected a string, found an integer
              --> everturn.toml:9:8

            hint: put it in quotes

            error: there is no tool `clok`
              --> everturn.toml:13:10

            hint: did you mean `clock`?"#]],
    );
}

#[test]
fn unknown_keys() {
    check(
        "lisen = '127.0.0.1:8080'",
        expect![[r#"
        error: unknown key `lisen`
          --> everturn.toml:1:1

        hint: did you mean `listen`?"#]],
    );
    check(
        "colour = 'red'",
        expect![[r#"
            error: unknown key `colour`
              --> everturn.toml:1:1

            hint: the keys here are `listen`, `store`, `durability`, `log_level`, `keys`, `quotas`, `tenants`, `providers`, `prices`, `agents`, `mcp`, `limits`, `retention`, `recipes`, `goose`, `openai`, `tls`, `proxy`, `metrics`, `cors`, `webhooks`"#]],
    );
    check_agent(
        "tols = ['clock']",
        expect![[r#"
        error: unknown key `tols`
          --> everturn.toml:6:1

        hint: did you mean `tools`?"#]],
    );
    check_agent(
        "warmth = 0.5",
        expect![[r#"
            error: unknown key `warmth`
              --> everturn.toml:6:1

            hint: the keys here are `name`, `version`, `title`, `description`, `instructions`, `model`, `fallback`, `tools`, `trusted`, `client_trust`, `internal_tools`, `max_steps`, `turn_timeout`, `options`, `capabilities`, `max_output_tokens`, `effort`, `thinking`, `temperature`, `top_p`, `body`, `context_window`, `titles`"#]],
    );
    check(
        "[limits]\nbody_byte = 5",
        expect![[r#"
        error: unknown key `body_byte`
          --> everturn.toml:2:1

        hint: did you mean `body_bytes`?"#]],
    );
    check(
        "[providers.a]\nkind = 'openai'\nbase_uri = 'http://localhost'",
        expect![[r#"
        error: unknown key `base_uri`
          --> everturn.toml:3:1

        hint: did you mean `base_url`?"#]],
    );
}

#[test]
fn missing_keys() {
    check(
        "[[agents]]\nname = 'a'",
        expect![[r#"
        error: the key `model` is missing
          --> everturn.toml:1:1"#]],
    );
    check(
        "[[keys]]\nkey = '0123456789abcdef'",
        expect![[r#"
        error: the key `tenant` is missing
          --> everturn.toml:1:1"#]],
    );
}

#[test]
fn wrong_types_are_told_without_the_value() {
    check(
        "listen = 8080",
        expect![[r#"
            error: `listen`: expected a string, found an integer
              --> everturn.toml:1:10

            hint: put it in quotes"#]],
    );
    check(
        "keys = 'sk-secret'",
        expect![[r#"
            error: `keys`: expected an array, found a string
              --> everturn.toml:1:8"#]],
    );
    check(
        "[[keys]]\nkey = 5550123\ntenant = 'acme'",
        expect![[r#"
            error: `key`: expected a string, found an integer
              --> everturn.toml:2:7

            hint: put it in quotes"#]],
    );
    check_agent(
        "tools = 'clock'",
        expect![[r#"
            error: `tools`: expected an array, found a string
              --> everturn.toml:6:9"#]],
    );
    check(
        "limits = 5.5",
        expect![[r#"
        error: `limits`: expected a table, found a float
          --> everturn.toml:1:10"#]],
    );
    check(
        "[limits]\nretries = {}",
        expect![[r#"
        error: `retries`: expected an integer, found a table
          --> everturn.toml:2:11"#]],
    );
    check_agent(
        "max_steps = 'many'",
        expect![[r#"
            error: `max_steps`: expected an integer, found a string
              --> everturn.toml:6:13"#]],
    );
}

#[test]
fn columns_are_characters() {
    check(
        "keys = [{ tenant = 'é', kye = 1 }]",
        expect![[r#"
        error: unknown key `kye`
          --> everturn.toml:1:25

        hint: did you mean `key`?"#]],
    );
    check(
        "# é\r\ndurability = 'é'",
        expect![[r#"
        error: there is no durability `é`
          --> everturn.toml:2:14

        hint: the choices are `fsync`, `process`"#]],
    );
}
