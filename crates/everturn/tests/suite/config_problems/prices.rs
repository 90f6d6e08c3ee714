//! Prices of models.

use expect_test::expect;

use super::{check, check_agent};

#[test]
fn models() {
    check_agent("[prices.'dmo/assistant']\ninput = 1\noutput = 2", expect![[""]]);
    check_agent("[prices.'nobody/*']\ninput = 1\noutput = 2", expect![[""]]);
    check_agent("[prices.assistant]\ninput = 1\noutput = 2", expect![[""]]);
    check_agent("[prices.'demo/']\ninput = 1\noutput = 2", expect![[""]]);
}

#[test]
fn rates() {
    check_agent(
        "[prices.'demo/assistant']\ninput = -4.0\ncached_input = 0.0000001\ncache_write = inf\noutput = 1000000.5",
        expect![[""]],
    );
    check_agent("[prices.'demo/assistant']\ninput = '4 dollars'\noutput = 2", expect![[""]]);
    check_agent("[prices.'demo/assistant']\ninput = 4", expect![[""]]);
    check_agent("[prices.'demo/assistant']\ninput = 4\noutputs = 2", expect![[""]]);
}

#[test]
fn providers_that_are_found_at_start_are_not_known_here() {
    // Only what else is wrong is told.
    check("[prices.'openai/*']\ninput = -1\noutput = 2", expect![[""]]);
}
