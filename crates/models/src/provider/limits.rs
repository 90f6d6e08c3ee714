//! What is known of models by the family that their name shows.

/// Context windows, in tokens. The first prefix that fits counts.
const CONTEXT_WINDOWS: [(&str, u64); 14] = [
    ("gpt-5-chat", 128_000),
    ("gpt-5", 400_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-4", 8_192),
    ("gpt-3.5-turbo", 16_385),
    ("o1-mini", 128_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4-mini", 200_000),
    ("claude-", 200_000),
    ("gemini-1.5-pro", 2_097_152),
    ("gemini-", 1_048_576),
];

/// The longest answers of Anthropic's models, in tokens, which its wire wants to be told.
const ANTHROPIC_ANSWERS: [(&str, u64); 3] = [("claude-3-5", 8_192), ("claude-3-7", 32_000), ("claude-3-", 4_096)];

/// The longest answer that every newer model of Anthropic's gives.
const ANTHROPIC_ANSWER: u64 = 32_000;

/// How many tokens a model's context holds. A gateway's prefix (`openai/gpt-4o`) is passed over.
pub(super) fn context_window(model: &str) -> Option<u64> {
    let model = model.rsplit('/').next().unwrap_or(model);
    CONTEXT_WINDOWS.iter().find(|(family, _)| model.starts_with(family)).map(|(_, window)| *window)
}

/// The cap on an Anthropic model's answer where the request names none.
pub(super) fn anthropic_answer(model: &str) -> u64 {
    ANTHROPIC_ANSWERS.iter().find(|(family, _)| model.starts_with(family)).map_or(ANTHROPIC_ANSWER, |(_, cap)| *cap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_known_by_name() {
        for (model, window) in [
            ("gpt-4o-mini", Some(128_000)),
            ("gpt-4.1-nano", Some(1_047_576)),
            ("gpt-4-0613", Some(8_192)),
            ("openai/gpt-5-mini", Some(400_000)),
            ("claude-sonnet-4-5", Some(200_000)),
            ("gemini-2.5-flash", Some(1_048_576)),
            ("qwen3", None),
            ("", None),
        ] {
            assert_eq!(context_window(model), window, "{model}");
        }
        assert_eq!(anthropic_answer("claude-3-haiku-20240307"), 4_096);
        assert_eq!(anthropic_answer("claude-3-5-sonnet-latest"), 8_192);
        assert_eq!(anthropic_answer("claude-opus-4-1"), 32_000);
    }
}
