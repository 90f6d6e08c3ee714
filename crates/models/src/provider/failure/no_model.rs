//! How providers say that they have no such model. Some say so with 400, as of a request that is wrong.

/// The names that vendors give to a model that is not there.
pub(super) const LABELS: &[&str] = &[
    "model_not_found",
    "model_not_exist",
    "invalid_model",
    "invalid_model_id",
    "model_decommissioned",
    "model_deprecated",
    "model_not_available",
    "model_not_supported",
    "unsupported_model",
    // Azure, of a deployment that is there and of one that is not.
    "OperationNotSupported",
    "DeploymentNotFound",
];

/// What Bedrock, OpenRouter, DeepSeek, LiteLLM, Together, Hugging Face and Vertex say.
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
    "end of its life",
    "marked by provider as legacy",
    "non-serverless model",
    "not supported by any provider",
    "not servable in region",
    "does not work with the specified model",
];

/// What follows the name of a model that is not there: "The model `m` does not exist".
const ABSENT: &[&str] = &[
    "does not exist",
    "not found",
    "is deprecated",
    "has been deprecated",
    "was deprecated",
    "has been retired",
    "was retired",
    "has been removed",
    "has been shut down",
    "is no longer available",
    "is no longer supported",
    "is not supported",
    "is not available",
    "is unavailable",
];

/// What stands before a model that something else is not there for: "streaming is not supported by the model".
const BEFORE_OTHERS: &[&str] = &["for", "by", "with", "of", "on", "in", "from", "to", "using"];

/// What follows where a model is there, and does not do something: "the model is not supported with tools".
const AFTER_OTHERS: &[&str] = &["with", "when", "while", "together", "unless", "if", "because"];

/// Whether words in lower case say that there is no such model.
pub(super) fn is_said(words: &str) -> bool {
    PHRASES.iter().any(|phrase| words.contains(phrase)) || ABSENT.iter().any(|phrase| is_about_model(words, phrase))
}

/// Whether a phrase follows the word "model" with no more than a name between them.
fn is_about_model(words: &str, phrase: &str) -> bool {
    /// "model m was".
    const BETWEEN: usize = 2;
    /// "for the requested model".
    const BEFORE: usize = 2;
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    words.match_indices(phrase).any(|(at, _)| {
        let mut before = words[..at].split_whitespace().rev().map(bare);
        let is_model = before.by_ref().take(BETWEEN + 1).any(|word| word == "model");
        let is_other = before.take(BEFORE).any(|word| BEFORE_OTHERS.contains(&word.as_str()));
        let next = words[at + phrase.len()..].split_whitespace().next().map(bare).unwrap_or_default();
        is_model && !is_other && !AFTER_OTHERS.contains(&next.as_str())
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
            "the requested model is not supported.",
            "the model `m` has been deprecated, use n",
            "the model claude-2 is no longer available",
            "model m is not available in this region",
        ] {
            assert!(is_said(words), "{words}");
        }
        for words in [
            "the tool that the model has called, look, does not exist",
            "tools.0: property not found",
            "this model does not support images",
            "file file_1 does not exist",
            "streaming for this model is not supported",
            "the tool choice of model m is not supported",
            "this model is not supported with tools",
            "reasoning_effort is not supported by this model",
        ] {
            assert!(!is_said(words), "{words}");
        }
    }
}
