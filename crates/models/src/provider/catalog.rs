//! What is known of models by the family that their name shows.
//!
//! Names are what every provider has in common. A table goes stale, so it is the last resort: configuration, a server's own
//! list and what its answers say come before it.

/// What a model's name tells. `None` where it tells nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// Tokens of its context, input and answer together.
    pub(super) window: Option<u64>,
    /// Tokens of its longest answer.
    pub(super) max_output: Option<u64>,
    /// Whether it may think for minutes before it shows anything.
    pub(super) thinks: Option<bool>,
    /// Whether its vendor reads PDF files for it.
    pub(super) pdf: Option<bool>,
}

/// A family of models: the beginning of their names, and what they have in common.
struct Family {
    begins: &'static str,
    window: u64,
    max_output: u64,
    thinks: bool,
    pdf: bool,
}

const fn family(begins: &'static str, window: u64, max_output: u64) -> Family {
    Family { begins, window, max_output, thinks: false, pdf: false }
}

impl Family {
    /// It thinks before it answers.
    const fn thinks(self) -> Self {
        Self { thinks: true, ..self }
    }

    /// It reads PDF files.
    const fn reads(self) -> Self {
        Self { pdf: true, ..self }
    }
}

/// The families. The first whose beginning fits counts, so longer beginnings come first.
const FAMILIES: &[Family] = &[
    // OpenAI.
    family("gpt-6", 1_050_000, 128_000).thinks().reads(),
    family("gpt-5.6", 1_050_000, 128_000).thinks().reads(),
    family("gpt-5.5", 1_050_000, 128_000).thinks().reads(),
    family("gpt-5.4-mini", 400_000, 128_000).thinks().reads(),
    family("gpt-5.4-nano", 400_000, 128_000).thinks().reads(),
    family("gpt-5.4", 1_050_000, 128_000).thinks().reads(),
    family("gpt-5-chat", 128_000, 16_384).reads(),
    family("gpt-5", 400_000, 128_000).thinks().reads(),
    family("gpt-4.1", 1_047_576, 32_768).reads(),
    family("gpt-4o", 128_000, 16_384).reads(),
    family("gpt-4-turbo", 128_000, 4_096),
    family("gpt-4", 8_192, 8_192),
    family("gpt-3.5-turbo", 16_385, 4_096),
    family("gpt-oss", 131_072, 65_536).thinks(),
    family("o1-mini", 128_000, 65_536).thinks(),
    family("o1", 200_000, 100_000).thinks().reads(),
    family("o3-mini", 200_000, 100_000).thinks(),
    family("o3", 200_000, 100_000).thinks().reads(),
    family("o4-mini", 200_000, 100_000).thinks().reads(),
    // Anthropic. Names of the third generation begin with its number, later ones with their size.
    family("claude-3-5", 200_000, 8_192).reads(),
    family("claude-3-7", 200_000, 64_000).thinks().reads(),
    family("claude-3", 200_000, 4_096),
    family("claude-opus-4-5", 200_000, 64_000).thinks().reads(),
    family("claude-opus-4-6", 1_000_000, 128_000).thinks().reads(),
    family("claude-opus-4-7", 1_000_000, 128_000).thinks().reads(),
    family("claude-opus-4-8", 1_000_000, 128_000).thinks().reads(),
    family("claude-opus-4", 200_000, 32_000).thinks().reads(),
    family("claude-sonnet-4-6", 1_000_000, 128_000).thinks().reads(),
    family("claude-sonnet-4", 200_000, 64_000).thinks().reads(),
    family("claude-haiku-4", 200_000, 64_000).thinks().reads(),
    family("claude-mythos-preview", 1_000_000, 128_000).thinks().reads(),
    family("claude-", 1_000_000, 128_000).thinks().reads(),
    // Google.
    family("gemini-1.5-pro", 2_097_152, 8_192).reads(),
    family("gemini-1.5", 1_048_576, 8_192).reads(),
    family("gemini-2.0", 1_048_576, 8_192).reads(),
    family("gemini-", 1_048_576, 65_536).thinks().reads(),
    // DeepSeek.
    family("deepseek-flash", 1_000_000, 384_000).thinks(),
    family("deepseek-v4", 1_000_000, 384_000).thinks(),
    family("deepseek-chat", 1_000_000, 384_000).thinks(),
    family("deepseek-reasoner", 1_000_000, 384_000).thinks(),
    family("deepseek-v3.2", 131_072, 65_536).thinks(),
    family("deepseek-r1", 65_536, 8_192).thinks(),
    family("deepseek-v3", 65_536, 8_192),
    // Moonshot.
    family("kimi-k3.1", 1_000_000, 128_000).thinks(),
    family("kimi-k3", 1_048_576, 262_144).thinks(),
    family("kimi-k2.", 262_144, 65_536).thinks(),
    family("kimi-k2-thinking", 262_144, 65_536).thinks(),
    family("kimi-k2", 131_072, 16_384),
    // Z.ai.
    family("glm-5.3", 1_048_576, 131_072).thinks(),
    family("glm-5.2", 1_000_000, 131_072).thinks(),
    family("glm-5v", 200_000, 131_072).thinks(),
    family("glm-5", 200_000, 131_072).thinks(),
    family("glm-4.7", 200_000, 131_072).thinks(),
    family("glm-4.6v", 128_000, 32_768).thinks(),
    family("glm-4.6", 200_000, 131_072).thinks(),
    family("glm-4.5v", 64_000, 16_384).thinks(),
    family("glm-4.5", 128_000, 32_000).thinks(),
    // MiniMax.
    family("minimax-m3", 1_000_000, 128_000).thinks(),
    family("minimax-m2", 196_608, 128_000).thinks(),
    // Alibaba's hosted models; the windows of the open ones are what their host lets them be.
    family("qwen3.8-", 1_000_000, 65_536).thinks(),
    family("qwen3.7-", 1_000_000, 65_536).thinks(),
    family("qwen3.6-plus", 1_000_000, 65_536).thinks(),
    family("qwen3.6-flash", 1_000_000, 65_536).thinks(),
    family("qwen3-max", 258_048, 65_536).thinks(),
    family("qwen3-coder-plus", 997_952, 65_536),
    // xAI.
    family("grok-4.7", 500_000, 200_000).thinks(),
    family("grok-4.6", 500_000, 200_000).thinks(),
    family("grok-4.5", 500_000, 200_000).thinks(),
    family("grok-4.", 1_000_000, 30_000).thinks(),
    family("grok-4", 256_000, 64_000).thinks(),
    family("grok-code", 256_000, 64_000).thinks(),
    family("grok-3", 131_072, 32_768),
    // Mistral.
    family("mistral-medium-2604", 262_144, 65_536).thinks(),
    family("mistral-medium-3-5", 262_144, 65_536).thinks(),
    family("mistral-medium-latest", 262_144, 65_536).thinks(),
    family("mistral-large-latest", 262_144, 65_536),
    family("mistral-large-2512", 262_144, 65_536),
    family("mistral-small-latest", 256_000, 65_536).thinks(),
    family("mistral-small-2603", 256_000, 65_536).thinks(),
    family("devstral-", 256_000, 65_536),
    family("magistral-", 40_000, 40_000).thinks(),
];

/// What a model's name tells. A gateway's prefix (`openai/gpt-4o`) is passed over.
pub(super) fn known(model: &str) -> Known {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    // Bedrock calls them `anthropic.claude-…`, with a region in front or without.
    let name = name.rsplit_once("anthropic.").map_or(name.as_str(), |(_, name)| name);
    let Some(family) = FAMILIES.iter().find(|family| name.starts_with(family.begins)) else {
        return Known::default();
    };
    Known {
        window: Some(family.window),
        max_output: Some(family.max_output),
        thinks: Some(family.thinks),
        pdf: Some(family.pdf),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_known_by_name() {
        for (model, window, max_output) in [
            ("gpt-4o-mini", 128_000, 16_384),
            ("gpt-4.1-nano", 1_047_576, 32_768),
            ("gpt-4-0613", 8_192, 8_192),
            ("openai/gpt-5-mini", 400_000, 128_000),
            ("gpt-5.6-sol", 1_050_000, 128_000),
            ("gpt-5.4-mini", 400_000, 128_000),
            ("claude-3-haiku-20240307", 200_000, 4_096),
            ("claude-3-5-sonnet-latest", 200_000, 8_192),
            ("gemini-2.5-flash", 1_048_576, 65_536),
            ("claude-sonnet-5-5", 1_000_000, 128_000),
            ("us.anthropic.claude-haiku-4-5-20251001-v1:0", 200_000, 64_000),
            ("moonshotai/kimi-k2-0905", 131_072, 16_384),
            ("MiniMax-M2.5", 196_608, 128_000),
        ] {
            let known = known(model);
            assert_eq!((known.window, known.max_output), (Some(window), Some(max_output)), "{model}");
        }
        assert_eq!(known("qwen3"), Known::default());
        assert_eq!(known(""), Known::default());
    }

    #[test]
    fn every_family_can_be_reached() {
        for (at, family) in FAMILIES.iter().enumerate() {
            let earlier = FAMILIES[..at].iter().find(|earlier| family.begins.starts_with(earlier.begins));
            assert!(earlier.is_none(), "{} is hidden by {}", family.begins, earlier.unwrap().begins);
        }
    }
}
