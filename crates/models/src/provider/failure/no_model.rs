//! How providers say that they have no such model. Some say so with 400, as of a request that is wrong.

/// The names that vendors give to a model that is not there.
pub(super) const LABELS: &[&str] = &[
    "model_not_found",
    "model_not_exist",
    "invalid_model",
    "invalid_model_id",
    "model_decommissioned",
    "model_not_available",
];

/// What Bedrock, OpenRouter, DeepSeek and LiteLLM say.
const PHRASES: &[&str] = &[
    "model identifier is invalid",
    "invalid model identifier",
    "invalid model id",
    "invalid model name",
    "is not a valid model",
    "unknown model",
    "no such model",
    "model not exist",
    "no models loaded",
    "has been decommissioned",
    "with on-demand throughput isn",
];

/// What follows the name of a model that is not there: "The model `m` does not exist".
const ABSENT: &[&str] = &["does not exist", "not found"];

/// Whether words in lower case say that there is no such model.
pub(super) fn is_said(words: &str) -> bool {
    PHRASES.iter().any(|phrase| words.contains(phrase)) || ABSENT.iter().any(|phrase| is_about_model(words, phrase))
}

/// Whether a phrase follows the word "model" with no more than a name between them.
fn is_about_model(words: &str, phrase: &str) -> bool {
    /// "model m was".
    const BETWEEN: usize = 2;
    words.match_indices(phrase).any(|(at, _)| {
        let mut before = words[..at].split_whitespace().rev().take(BETWEEN + 1);
        before.any(|word| word.trim_matches(|c: char| !c.is_alphanumeric()) == "model")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_model_is_told_from_other_things_that_are_missing() {
        for words in [
            "the provided model identifier is invalid.",
            "the model `gpt-9` does not exist or you do not have access to it.",
            "model not exist",
            "model 'qwen9:1b' not found",
            "openai/gpt-9 is not a valid model id",
            "model: claude-9 was not found",
        ] {
            assert!(is_said(words), "{words}");
        }
        for words in [
            "the tool that the model has called, look, does not exist",
            "tools.0: property not found",
            "this model does not support images",
            "file file_1 does not exist",
        ] {
            assert!(!is_said(words), "{words}");
        }
    }
}
