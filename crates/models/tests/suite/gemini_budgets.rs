//! Budgets for the thinking of Gemini's older models.

use everturn_core::{Effort, ModelOptions};
use expect_test::expect;

use super::gemini::check_options;

/// Thoughts count towards the cap, and leave room for an answer.
#[tokio::test]
async fn a_budget_leaves_room_for_an_answer() {
    let models = ["gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite"];
    let capped =
        |cap| ModelOptions { effort: Some(Effort::Medium), max_output_tokens: Some(cap), ..ModelOptions::default() };
    check_options(
        &models,
        capped(9000),
        vec![],
        expect![[r###"
            ## gemini-2.5-pro
            generationConfig: {"maxOutputTokens":9000,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":6144}}
            - gemini-2.5-pro thinks with 6144 tokens at most, not 8192: the cap on the answer leaves no more
            ## gemini-2.5-flash
            generationConfig: {"maxOutputTokens":9000,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":6144}}
            - gemini-2.5-flash thinks with 6144 tokens at most, not 8192: the cap on the answer leaves no more
            ## gemini-2.5-flash-lite
            generationConfig: {"maxOutputTokens":9000,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":6144}}
            - gemini-2.5-flash-lite thinks with 6144 tokens at most, not 8192: the cap on the answer leaves no more"###]],
    )
    .await;
    check_options(
        &models,
        capped(400),
        vec![],
        expect![[r###"
            ## gemini-2.5-pro
            generationConfig: {"maxOutputTokens":400,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":256}}
            - gemini-2.5-pro thinks with 256 tokens at most, not 8192: the cap on the answer leaves no more
            ## gemini-2.5-flash
            generationConfig: {"maxOutputTokens":400,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":256}}
            - gemini-2.5-flash thinks with 256 tokens at most, not 8192: the cap on the answer leaves no more
            ## gemini-2.5-flash-lite
            generationConfig: {"maxOutputTokens":400,"thinkingConfig":{"thinkingBudget":0}}
            - gemini-2.5-flash-lite does not think in this call: the cap on the answer leaves no room for it"###]],
    )
    .await;
    check_options(
        &models,
        capped(100),
        vec![],
        expect![[r###"
        ## gemini-2.5-pro
        generationConfig: {"maxOutputTokens":100,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":128}}
        - gemini-2.5-pro thinks with 128 tokens at most, not 8192: the cap on the answer leaves no more
        ## gemini-2.5-flash
        generationConfig: {"maxOutputTokens":100,"thinkingConfig":{"thinkingBudget":0}}
        - gemini-2.5-flash does not think in this call: the cap on the answer leaves no room for it
        ## gemini-2.5-flash-lite
        generationConfig: {"maxOutputTokens":100,"thinkingConfig":{"thinkingBudget":0}}
        - gemini-2.5-flash-lite does not think in this call: the cap on the answer leaves no room for it"###]],
    )
    .await;
}
