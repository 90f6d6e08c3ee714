//! What each of Anthropic's models takes.
//!
//! The rules differ from model to model and the API refuses what breaks them, so they are read from the model's name. A
//! name that is newer than this table is treated as the newest model of its line.

use everturn_core::Effort;

/// The rules of one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::provider) struct Rules {
    /// Whether the model is one of Anthropic's, by its name. Compatible servers serve others.
    pub(super) is_claude: bool,
    /// Whether it decides itself how much it thinks.
    pub(super) adaptive: bool,
    /// Whether it takes a budget of tokens for thinking.
    pub(super) budget: bool,
    /// Whether it thinks when a request does not mention thinking.
    pub(super) thinks_by_default: bool,
    pub(in crate::provider) off: Off,
    /// The levels of effort that it takes, from the least to the most. Empty where it takes none.
    pub(super) efforts: &'static [Effort],
    /// Which sampling parameters it takes while it does not think.
    pub(super) sampling: Sampling,
    /// Whether a call can be forced.
    pub(in crate::provider) forced_choice: bool,
    /// Whether it can be held to a JSON schema.
    pub(super) structured: bool,
    /// Whether it takes a cap that its window does not hold beside the question, and stops where the window is full.
    pub(super) stops_at_window: bool,
}

/// How thinking is turned off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::provider) enum Off {
    /// Not at all.
    Never,
    /// With `disabled`.
    Disabled,
    /// With `disabled`, up to effort `high`.
    DisabledUpToHigh,
    /// With `between_tools`, up to effort `high`: the model thinks only between tool calls.
    BetweenTools,
}

/// Which sampling parameters a model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sampling {
    None,
    /// `temperature` or `top_p`, but not both.
    One,
    Both,
}

const LOW_TO_MAX: &[Effort] = &[Effort::Low, Effort::Medium, Effort::High, Effort::Xhigh, Effort::Max];
const WITHOUT_XHIGH: &[Effort] = &[Effort::Low, Effort::Medium, Effort::High, Effort::Max];
const LOW_TO_HIGH: &[Effort] = &[Effort::Low, Effort::Medium, Effort::High];

/// The newest models: always thinking, as much as they see fit.
const NEWEST: Rules = Rules {
    is_claude: true,
    adaptive: true,
    budget: false,
    thinks_by_default: true,
    off: Off::Never,
    efforts: LOW_TO_MAX,
    sampling: Sampling::None,
    forced_choice: false,
    structured: true,
    stops_at_window: true,
};

/// Models up to 4.5, which think within a budget if a request gives one.
const BUDGETED: Rules = Rules {
    is_claude: true,
    adaptive: false,
    budget: true,
    thinks_by_default: false,
    off: Off::Disabled,
    efforts: &[],
    sampling: Sampling::One,
    forced_choice: true,
    structured: true,
    stops_at_window: true,
};

impl Rules {
    /// The rules of a model, by its name at any host: `claude-opus-4-5-20251101`, `anthropic/claude-opus-4.5`,
    /// `us.anthropic.claude-opus-4-5-v1:0`, `claude-opus-4-5@20251101`.
    pub(in crate::provider) fn of(model: &str) -> Self {
        let model = model.to_ascii_lowercase();
        let Some(at) = model.find("claude") else {
            // Compatible servers were made for clients that give a budget and leave the rest out.
            return Self {
                is_claude: false,
                sampling: Sampling::Both,
                structured: false,
                stops_at_window: false,
                ..BUDGETED
            };
        };
        let words: Vec<&str> = model[at..].split(['-', '.', '@', ':', '_', '/']).collect();
        let is = |line: &str| words.contains(&line);
        let version = version(&words);
        match version {
            Some(version) if version < (3, 7) => {
                Self { budget: false, sampling: Sampling::Both, structured: false, stops_at_window: false, ..BUDGETED }
            }
            Some(version) if version < (4, 1) => {
                Self { sampling: Sampling::Both, structured: false, stops_at_window: false, ..BUDGETED }
            }
            Some(version) if version < (4, 5) => Self { structured: false, stops_at_window: false, ..BUDGETED },
            Some((4, 5)) if is("opus") => Self { efforts: LOW_TO_HIGH, ..BUDGETED },
            Some((4, 5)) => BUDGETED,
            Some((4, 6)) => Self { adaptive: true, efforts: WITHOUT_XHIGH, ..BUDGETED },
            Some((4, _)) => Self { thinks_by_default: false, off: Off::Disabled, forced_choice: true, ..NEWEST },
            Some((5, 0)) if is("opus") => Self { off: Off::DisabledUpToHigh, forced_choice: true, ..NEWEST },
            Some((5, 0)) if is("sonnet") => Self { off: Off::Disabled, forced_choice: true, ..NEWEST },
            Some((5, 0)) => Self { forced_choice: true, ..NEWEST },
            None if is("mythos") && is("preview") => {
                Self { budget: true, efforts: WITHOUT_XHIGH, forced_choice: true, ..NEWEST }
            }
            Some(_) | None if is("haiku") => Self { off: Off::DisabledUpToHigh, forced_choice: true, ..NEWEST },
            Some(_) | None if is("sonnet") => Self { off: Off::BetweenTools, ..NEWEST },
            Some(_) | None => NEWEST,
        }
    }

    /// The level nearest to `effort`, the lower one of two. `None` where the model takes no effort.
    pub(super) fn nearest(&self, effort: Effort) -> Option<Effort> {
        self.efforts.iter().copied().min_by_key(|level| (*level as u8).abs_diff(effort as u8))
    }
}

/// The version in a name: the first number, and the one right after it. Longer numbers are dates.
fn version(words: &[&str]) -> Option<(u8, u8)> {
    let number = |word: &&str| if word.len() <= 2 { word.parse::<u8>().ok() } else { None };
    let (at, major) = words.iter().enumerate().find_map(|(at, word)| Some((at, number(word)?)))?;
    Some((major, words.get(at + 1).and_then(number).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn every_model_has_its_rules() {
        let mut lines = String::new();
        for model in [
            "claude-fable-5-2",
            "claude-mythos-5-1",
            "claude-fable-5",
            "claude-opus-5-5",
            "claude-sonnet-5-5",
            "claude-haiku-5-5",
            "claude-opus-5",
            "anthropic.claude-sonnet-5",
            "claude-opus-4-8",
            "claude-opus-4-7",
            "anthropic/claude-opus-4.6",
            "claude-sonnet-4-6",
            "us.anthropic.claude-opus-4-5-20251101-v1:0",
            "claude-sonnet-4-5-20250929",
            "claude-haiku-4-5@20251001",
            "claude-opus-4-1-20250805",
            "claude-sonnet-4-20250514",
            "claude-3-7-sonnet-20250219",
            "claude-3-5-haiku-latest",
            "claude-mythos-preview",
            "claude-opus-6",
            "claude-sonnet-latest",
            "kimi-k3",
        ] {
            let rules = Rules::of(model);
            let thinking: Vec<&str> =
                [(rules.adaptive, "adaptive"), (rules.budget, "budget"), (rules.thinks_by_default, "by default")]
                    .into_iter()
                    .filter_map(|(has, word)| has.then_some(word))
                    .collect();
            let efforts: Vec<&str> = rules.efforts.iter().map(|effort| effort.as_str()).collect();
            let can: Vec<&str> = [(rules.forced_choice, "forced"), (rules.structured, "schema")]
                .into_iter()
                .filter_map(|(has, word)| has.then_some(word))
                .collect();
            lines.push_str(&format!(
                "{model}: {} · off {:?} · effort {} · sampling {:?} · {}\n",
                thinking.join("+"),
                rules.off,
                efforts.join(","),
                rules.sampling,
                can.join("+")
            ));
        }
        expect![[r#"
            claude-fable-5-2: adaptive+by default · off Never · effort low,medium,high,xhigh,max · sampling None · schema
            claude-mythos-5-1: adaptive+by default · off Never · effort low,medium,high,xhigh,max · sampling None · schema
            claude-fable-5: adaptive+by default · off Never · effort low,medium,high,xhigh,max · sampling None · forced+schema
            claude-opus-5-5: adaptive+by default · off Never · effort low,medium,high,xhigh,max · sampling None · schema
            claude-sonnet-5-5: adaptive+by default · off BetweenTools · effort low,medium,high,xhigh,max · sampling None · schema
            claude-haiku-5-5: adaptive+by default · off DisabledUpToHigh · effort low,medium,high,xhigh,max · sampling None · forced+schema
            claude-opus-5: adaptive+by default · off DisabledUpToHigh · effort low,medium,high,xhigh,max · sampling None · forced+schema
            anthropic.claude-sonnet-5: adaptive+by default · off Disabled · effort low,medium,high,xhigh,max · sampling None · forced+schema
            claude-opus-4-8: adaptive · off Disabled · effort low,medium,high,xhigh,max · sampling None · forced+schema
            claude-opus-4-7: adaptive · off Disabled · effort low,medium,high,xhigh,max · sampling None · forced+schema
            anthropic/claude-opus-4.6: adaptive+budget · off Disabled · effort low,medium,high,max · sampling One · forced+schema
            claude-sonnet-4-6: adaptive+budget · off Disabled · effort low,medium,high,max · sampling One · forced+schema
            us.anthropic.claude-opus-4-5-20251101-v1:0: budget · off Disabled · effort low,medium,high · sampling One · forced+schema
            claude-sonnet-4-5-20250929: budget · off Disabled · effort  · sampling One · forced+schema
            claude-haiku-4-5@20251001: budget · off Disabled · effort  · sampling One · forced+schema
            claude-opus-4-1-20250805: budget · off Disabled · effort  · sampling One · forced
            claude-sonnet-4-20250514: budget · off Disabled · effort  · sampling Both · forced
            claude-3-7-sonnet-20250219: budget · off Disabled · effort  · sampling Both · forced
            claude-3-5-haiku-latest:  · off Disabled · effort  · sampling Both · forced
            claude-mythos-preview: adaptive+budget+by default · off Never · effort low,medium,high,max · sampling None · forced+schema
            claude-opus-6: adaptive+by default · off Never · effort low,medium,high,xhigh,max · sampling None · schema
            claude-sonnet-latest: adaptive+by default · off BetweenTools · effort low,medium,high,xhigh,max · sampling None · schema
            kimi-k3: budget · off Disabled · effort  · sampling Both · forced
        "#]].assert_eq(&lines);
    }

    #[test]
    fn a_level_that_is_missing_becomes_the_nearest() {
        let nearest = |model: &str, effort| Rules::of(model).nearest(effort);
        assert_eq!(nearest("claude-opus-5-5", Effort::Minimal), Some(Effort::Low));
        assert_eq!(nearest("claude-opus-5-5", Effort::Xhigh), Some(Effort::Xhigh));
        assert_eq!(nearest("claude-opus-4-6", Effort::Xhigh), Some(Effort::High));
        assert_eq!(nearest("claude-opus-4-5", Effort::Max), Some(Effort::High));
        assert_eq!(nearest("claude-sonnet-4-5", Effort::High), None);
    }
}
