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
    /// Whether it reads images.
    pub(super) images: Option<bool>,
    /// Whether its vendor reads PDF files for it.
    pub(super) pdf: Option<bool>,
}

/// A family of models: the beginning of their names, and what they have in common.
struct Family {
    begins: &'static str,
    window: u64,
    max_output: u64,
    thinks: bool,
    images: bool,
    pdf: bool,
}

const fn family(begins: &'static str, window: u64, max_output: u64) -> Family {
    Family { begins, window, max_output, thinks: false, images: false, pdf: false }
}

impl Family {
    /// It thinks before it answers.
    const fn thinks(self) -> Self {
        Self { thinks: true, ..self }
    }

    /// It reads images.
    const fn sees(self) -> Self {
        Self { images: true, ..self }
    }

    /// It reads images and PDF files.
    const fn reads(self) -> Self {
        Self { images: true, pdf: true, ..self }
    }
}

/// The families. The first whose beginning fits counts, so longer beginnings come first.
const FAMILIES: &[Family] = &[
    // OpenAI.
    family("gpt-6", 1_050_000, 128_000).thinks().reads(),
    family("gpt-5.6", 1_050_000, 128_000).thinks().reads(),
    family("gpt-5.5", 1_050_000, 128_000).thinks().reads(),
    family("gpt-5.4-", 400_000, 128_000).thinks().reads(),
    family("gpt-5.4", 1_050_000, 128_000).thinks().reads(),
    family("gpt-5-chat", 128_000, 16_384).reads(),
    family("gpt-5", 400_000, 128_000).thinks().reads(),
    family("gpt-4.1", 1_047_576, 32_768).reads(),
    family("gpt-4o", 128_000, 16_384).reads(),
    family("gpt-4-turbo", 128_000, 4_096).sees(),
    family("gpt-4", 8_192, 8_192),
    family("gpt-3.5-turbo", 16_385, 4_096),
    family("gpt-oss", 131_072, 131_072).thinks(),
    family("o1-mini", 128_000, 65_536).thinks(),
    family("o1", 200_000, 100_000).thinks().reads(),
    family("o3-mini", 200_000, 100_000).thinks(),
    family("o3", 200_000, 100_000).thinks().reads(),
    family("o4-mini", 200_000, 100_000).thinks().reads(),
    // Anthropic.
    family("claude-3-5", 200_000, 8_192).reads(),
    family("claude-3-7", 200_000, 64_000).thinks().reads(),
    family("claude-3-", 200_000, 4_096).sees(),
    family("claude-opus-4-1", 200_000, 32_000).thinks().reads(),
    family("claude-opus-4-2", 200_000, 32_000).thinks().reads(),
    family("claude-haiku-4-5", 200_000, 64_000).thinks().reads(),
    family("claude-", 200_000, 64_000).thinks().reads(),
    // Google.
    family("gemini-1.5-pro", 2_097_152, 8_192).reads(),
    family("gemini-1.5", 1_048_576, 8_192).reads(),
    family("gemini-2.0", 1_048_576, 8_192).reads(),
    family("gemini-", 1_048_576, 65_536).thinks().reads(),
];

/// What a model's name tells. A gateway's prefix (`openai/gpt-4o`) is passed over.
pub(super) fn known(model: &str) -> Known {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let Some(family) = FAMILIES.iter().find(|family| name.starts_with(family.begins)) else {
        return Known::default();
    };
    Known {
        window: Some(family.window),
        max_output: Some(family.max_output),
        thinks: Some(family.thinks),
        images: Some(family.images),
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
