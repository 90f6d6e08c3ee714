//! What a model takes, as its name tells.
//!
//! Google's models differ by generation: how they are told to think, whether sampling can be set, whether calls in history
//! must be signed. A model of a generation that is not known yet is taken for one of the newest.

/// What requests to a model may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// How it is told to think.
    pub(super) thinking: ThinkingControl,
    /// Whether temperature and the like have an effect. Newer models ignore them, and will refuse them.
    pub(super) samples: bool,
    /// Whether it is of generation 3 or newer: such a model refuses calls in history without a signature, gives ids to its
    /// calls, takes images within tool results, and takes a schema for its answer together with tools.
    pub(super) is_modern: bool,
}

/// How a model is told to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThinkingControl {
    /// Not at all: it does not think, or refuses to be told.
    None,
    /// By a number of tokens.
    Budget {
        /// The least that counts as thinking.
        least: u64,
        most: u64,
        /// Whether zero is taken.
        can_be_off: bool,
        /// Whether it thinks without being told.
        by_default: bool,
    },
    /// By a level.
    Level {
        levels: &'static [Level],
        /// Whether it thinks without being told.
        by_default: bool,
    },
}

/// How much a model thinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Level {
    Minimal,
    Low,
    Medium,
    High,
}

impl Level {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

const FROM_MINIMAL: &[Level] = &[Level::Minimal, Level::Low, Level::Medium, Level::High];
const FROM_LOW: &[Level] = &[Level::Low, Level::Medium, Level::High];
const LOW_OR_HIGH: &[Level] = &[Level::Low, Level::High];

/// What a model of this name takes.
pub(super) fn facts(model: &str) -> Facts {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    // Other families on the same wire, such as Gemma.
    let Some(rest) = name.strip_prefix("gemini-") else {
        return Facts { thinking: ThinkingControl::None, samples: true, is_modern: false };
    };
    let generation = generation(rest);
    let is_modern = generation >= (3, 0);
    // Models that draw or speak refuse to be told how to think.
    let is_other = ["image", "tts", "audio", "live"].iter().any(|word| rest.split('-').any(|part| part == *word));
    let thinking = if is_other || generation < (2, 5) {
        ThinkingControl::None
    } else if is_modern {
        level(rest, generation)
    } else {
        budget(rest)
    };
    let samples = generation < (3, 2) || (generation == (3, 5) && !rest.contains("lite"));
    Facts { thinking, samples, is_modern }
}

fn budget(rest: &str) -> ThinkingControl {
    let (least, most, can_be_off, by_default) = if rest.contains("pro") {
        (128, 32_768, false, true)
    } else if rest.contains("lite") {
        (512, 24_576, true, false)
    } else {
        (128, 24_576, true, true)
    };
    ThinkingControl::Budget { least, most, can_be_off, by_default }
}

fn level(rest: &str, generation: (u32, u32)) -> ThinkingControl {
    let levels = if rest.contains("flash") && generation <= (3, 6) {
        FROM_MINIMAL
    } else if rest.starts_with("3-pro") {
        LOW_OR_HIGH
    } else {
        FROM_LOW
    };
    ThinkingControl::Level { levels, by_default: !rest.starts_with("3.5-flash-lite") }
}

/// The generation that a name begins with; the newest where it names none, such as `flash-latest`.
fn generation(rest: &str) -> (u32, u32) {
    let number = rest.split('-').next().unwrap_or(rest);
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    match (major.parse(), minor.parse()) {
        (Ok(major), Ok(minor)) => (major, minor),
        (Ok(major), Err(_)) => (major, 0),
        (Err(_), _) => (u32::MAX, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_models_take() {
        let control = |thinking: ThinkingControl| match thinking {
            ThinkingControl::None => "none".to_owned(),
            ThinkingControl::Budget { least, most, can_be_off, by_default } => {
                format!("{least}..{most} off:{can_be_off} default:{by_default}")
            }
            ThinkingControl::Level { levels, by_default } => {
                let levels: Vec<&str> = levels.iter().map(|level| level.as_str()).collect();
                format!("{} default:{by_default}", levels.join("|"))
            }
        };
        let shown: Vec<String> = [
            "gemini-4-argon",
            "google/gemini-4-argon-cyber-permissive",
            "gemini-3.8-flash",
            "gemini-3.6-flash",
            "gemini-3.5-flash",
            "gemini-3.5-flash-lite",
            "models/gemini-3.1-pro-preview",
            "gemini-3.1-flash-lite",
            "gemini-3-flash-preview",
            "gemini-3-pro-preview",
            "gemini-3-pro-image-preview",
            "gemini-2.5-pro",
            "gemini-2.5-flash",
            "gemini-2.5-flash-lite",
            "gemini-2.5-flash-image",
            "gemini-2.5-pro-preview-tts",
            "gemini-2.0-flash",
            "gemini-flash-latest",
            "gemini-7-xenon",
            "gemma-3-27b-it",
            "",
        ]
        .iter()
        .map(|model| {
            let Facts { thinking, samples, is_modern } = facts(model);
            format!("{model}: {} samples:{samples} modern:{is_modern}", control(thinking))
        })
        .collect();
        expect_test::expect![[r#"
            gemini-4-argon: low|medium|high default:true samples:false modern:true
            google/gemini-4-argon-cyber-permissive: low|medium|high default:true samples:false modern:true
            gemini-3.8-flash: low|medium|high default:true samples:false modern:true
            gemini-3.6-flash: minimal|low|medium|high default:true samples:false modern:true
            gemini-3.5-flash: minimal|low|medium|high default:true samples:true modern:true
            gemini-3.5-flash-lite: minimal|low|medium|high default:false samples:false modern:true
            models/gemini-3.1-pro-preview: low|medium|high default:true samples:true modern:true
            gemini-3.1-flash-lite: minimal|low|medium|high default:true samples:true modern:true
            gemini-3-flash-preview: minimal|low|medium|high default:true samples:true modern:true
            gemini-3-pro-preview: low|high default:true samples:true modern:true
            gemini-3-pro-image-preview: none samples:true modern:true
            gemini-2.5-pro: 128..32768 off:false default:true samples:true modern:false
            gemini-2.5-flash: 128..24576 off:true default:true samples:true modern:false
            gemini-2.5-flash-lite: 512..24576 off:true default:false samples:true modern:false
            gemini-2.5-flash-image: none samples:true modern:false
            gemini-2.5-pro-preview-tts: none samples:true modern:false
            gemini-2.0-flash: none samples:true modern:false
            gemini-flash-latest: low|medium|high default:true samples:false modern:true
            gemini-7-xenon: low|medium|high default:true samples:false modern:true
            gemma-3-27b-it: none samples:true modern:false
            : none samples:true modern:false"#]]
        .assert_eq(&shown.join("\n"));
    }
}
