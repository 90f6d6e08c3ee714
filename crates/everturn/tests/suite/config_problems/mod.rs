//! Configurations that are wrong, and what is said about them.

mod agents;
mod mcp;
mod prices;
mod server;
mod shape;
mod webhooks;

use everturn::config::{Environment, Overrides};
use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::config_values::read;

#[track_caller]
fn check(text: &str, expected: Expect) {
    check_with(text, &Overrides::default(), &Environment::default(), expected);
}

#[track_caller]
fn check_with(text: &str, overrides: &Overrides, environment: &Environment, expected: Expect) {
    expected.assert_eq(&read(text.as_bytes(), overrides, environment).unwrap_err().to_string());
}

/// A file whose only agent has these lines.
#[track_caller]
fn check_agent(lines: &str, expected: Expect) {
    let text = format!("[providers.demo]\nkind = 'demo'\n[[agents]]\nname = 'a'\nmodel = 'demo/assistant'\n{lines}");
    check(&text, expected);
}

#[test]
fn all_problems_are_told_in_the_order_of_the_file() {
    check(
        "listen = 'here'\n[providers.local]\nkind = 'olama'\n[[agents]]\nname = 'a'\nmodel = 'lokal/qwen3'\n\
         tools = ['clok']\n[limits]\nretries = 1000",
        expect![[r#"
            error: cannot listen on `here`
              --> everturn.toml:1:10

            hint: write an IP address and a port, such as "127.0.0.1:8080" or "[::1]:8080"

            error: there is no kind of provider `olama`
              --> everturn.toml:3:8

            hint: did you mean `ollama`?

            error: there is no provider `lokal` for the model `lokal/qwen3`
              --> everturn.toml:6:9

            hint: did you mean `local/qwen3`?

            error: there is no tool `clok`
              --> everturn.toml:7:10

            hint: did you mean `clock`?

            error: `retries` must be between 0 and 100, not 1000
              --> everturn.toml:9:11"#]],
    );
}

proptest! {
    #[test]
    fn bytes_of_any_kind_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes, &Overrides::default(), &Environment::default());
    }

    #[test]
    fn lines_of_any_kind_never_panic(lines in prop::collection::vec(prop_oneof![
        prop::sample::select(vec![
            "listen = 'é:1'", "[[keys]]", "key = 'é'", "tenant = ''", "scopes = ['é']", "[providers.é]", "[providers.p]",
            "kind = 'openai'", "base_url = 'http://é/'", "base_url = '://'", "[[agents]]", "name = 'é'",
            "model = '/'", "model = 'p/m'", "tools = ['é', 'é']", "trusted = ['é']", "instructions = '{{é}} {{ }} {{'",
            "version = 'é'", "max_steps = -9223372036854775808", "turn_timeout = 'é'", "turn_timeout = '99999999999999h'",
            "[[agents.options]]", "type = 'select'", "options = ['é']", "default = 'è'", "[limits]", "retries = 5", "[mcp.é]", "[mcp.p]",
            "command = ['é']", "url = 'http://é/'", "env = { é = 'é' }", "headers = { é = 'é' }", "effects = { é = 'é' }",
        ]).prop_map(str::to_owned),
        "\\PC{0,20}",
    ], 0..12)) {
        if let Err(problems) = read(lines.join("\n").as_bytes(), &Overrides::default(), &Environment::default()) {
            prop_assert!(!problems.problems.is_empty());
            let _ = problems.to_string();
        }
    }
}
