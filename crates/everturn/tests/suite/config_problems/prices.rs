//! Prices of models.

use expect_test::expect;

use super::{check, check_agent};

#[test]
fn models() {
    check_agent(
        "[prices.'dmo/assistant']\ninput = 1\noutput = 2",
        expect![[r#"
        error: there is no provider `dmo` for the price of `dmo/assistant`
          --> everturn.toml:6:9

        hint: did you mean `demo/assistant`?"#]],
    );
    check_agent(
        "[prices.'nobody/*']\ninput = 1\noutput = 2",
        expect![[r#"
        error: there is no provider `nobody` for the price of `nobody/*`
          --> everturn.toml:6:9

        hint: add a table [providers.nobody] with its kind, or take the price out"#]],
    );
    check_agent(
        "[prices.assistant]\ninput = 1\noutput = 2",
        expect![[r#"
        error: the price of `assistant` does not say which provider's model it is
          --> everturn.toml:6:9

        hint: write it as [prices."demo/assistant"]"#]],
    );
    check_agent(
        "[prices.'demo/']\ninput = 1\noutput = 2",
        expect![[r#"
        error: the price of `demo/` does not say which provider's model it is
          --> everturn.toml:6:9

        hint: write [prices."demo/*"] for all its models"#]],
    );
}

#[test]
fn rates() {
    check_agent(
        "[prices.'demo/assistant']\ninput = -4.0\ncached_input = 0.0000001\ncache_write = inf\noutput = 1000000.5",
        expect![[r#"
            error: `input` must be between 0 and 1000000, not -4
              --> everturn.toml:7:9

            hint: prices are in dollars per million tokens

            error: `cached_input` has more than six decimals: 0.0000001
              --> everturn.toml:8:16

            hint: prices are in dollars per million tokens

            error: `cache_write` must be between 0 and 1000000, not inf
              --> everturn.toml:9:15

            hint: prices are in dollars per million tokens

            error: `output` must be between 0 and 1000000, not 1000000.5
              --> everturn.toml:10:10

            hint: prices are in dollars per million tokens"#]],
    );
    check_agent(
        "[prices.'demo/assistant']\ninput = '4 dollars'\noutput = 2",
        expect![[r#"
            error: `input`: expected a number, found a string
              --> everturn.toml:7:9"#]],
    );
    check_agent(
        "[prices.'demo/assistant']\ninput = 4",
        expect![[r#"
        error: the key `output` is missing
          --> everturn.toml:6:1"#]],
    );
    check_agent(
        "[prices.'demo/assistant']\ninput = 4\noutputs = 2",
        expect![[r#"
        error: unknown key `outputs`
          --> everturn.toml:8:1

        hint: did you mean `output`?"#]],
    );
}

#[test]
fn providers_that_are_found_at_start_are_not_known_here() {
    // Only what else is wrong is told.
    check(
        "[prices.'openai/*']\ninput = -1\noutput = 2",
        expect![[r#"
        error: `input` must be between 0 and 1000000, not -1
          --> everturn.toml:2:9

        hint: prices are in dollars per million tokens"#]],
    );
}
