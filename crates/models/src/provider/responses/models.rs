//! What OpenAI's models take beside the conversation. Depends on the model, so it goes by name.

use everturn_core::{Effort, ModelOptions, Thinking};

use Effort::{High, Low, Max, Medium, Minimal, Xhigh};

/// The rules of one family of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::provider) struct ModelRules {
    /// The levels of effort that it takes; none for models that do not reason.
    pub(in crate::provider) efforts: &'static [Effort],
    /// Whether it also takes the effort `none`, which turns reasoning off.
    pub(in crate::provider) takes_none: bool,
    /// Whether its effort is `none` where the request has none.
    pub(in crate::provider) rests: bool,
    /// Whether its weights are open: others serve it, its reasoning is not encrypted, and it always samples as asked.
    pub(in crate::provider) is_open: bool,
    /// Which function tools chat completions take for it.
    pub(in crate::provider) chat_tools: ChatTools,
}

impl ModelRules {
    /// Whether the model reasons at all.
    pub(in crate::provider) fn reasons(self) -> bool {
        !self.efforts.is_empty()
    }
}

/// Whether a model takes function tools on chat completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::provider) enum ChatTools {
    /// At every effort.
    Always,
    /// Where the effort is `none`.
    WithoutEffort,
    /// Never.
    Never,
}

const UP_TO_HIGH: &[Effort] = &[Low, Medium, High];
const UP_TO_XHIGH: &[Effort] = &[Low, Medium, High, Xhigh];
const UP_TO_MAX: &[Effort] = &[Low, Medium, High, Xhigh, Max];
const PRO: &[Effort] = &[Medium, High, Xhigh];

/// A model that always reasons.
const fn reasons(efforts: &'static [Effort]) -> ModelRules {
    ModelRules { efforts, takes_none: false, rests: false, is_open: false, chat_tools: ChatTools::Always }
}

/// A model that reasons unless it is told not to.
const fn may_rest(efforts: &'static [Effort]) -> ModelRules {
    ModelRules { takes_none: true, chat_tools: ChatTools::WithoutEffort, ..reasons(efforts) }
}

/// A model that reasons only if it is told to.
const fn rests(efforts: &'static [Effort]) -> ModelRules {
    ModelRules { rests: true, ..may_rest(efforts) }
}

/// A model that does not reason.
const PLAIN: ModelRules =
    ModelRules { efforts: &[], takes_none: false, rests: true, is_open: false, chat_tools: ChatTools::Always };

/// The families. The first whose beginning fits counts, so longer beginnings come first.
const FAMILIES: &[(&str, ModelRules)] = &[
    ("gpt-6-astra", ModelRules { chat_tools: ChatTools::Never, ..reasons(UP_TO_MAX) }),
    ("gpt-6.1-sol", ModelRules { chat_tools: ChatTools::Never, ..reasons(UP_TO_MAX) }),
    ("gpt-6", may_rest(UP_TO_MAX)),
    ("gpt-5.6", may_rest(UP_TO_MAX)),
    ("gpt-5.5-pro", reasons(PRO)),
    ("gpt-5.5", may_rest(UP_TO_XHIGH)),
    ("gpt-5.4-pro", reasons(PRO)),
    ("gpt-5.4", rests(UP_TO_XHIGH)),
    ("gpt-5.3", rests(UP_TO_XHIGH)),
    ("gpt-5.2-pro", reasons(PRO)),
    ("gpt-5.2", rests(UP_TO_XHIGH)),
    ("gpt-5.1", ModelRules { chat_tools: ChatTools::Always, ..rests(UP_TO_HIGH) }),
    ("gpt-5-chat", PLAIN),
    ("gpt-5-pro", reasons(&[High])),
    ("gpt-5", reasons(&[Minimal, Low, Medium, High])),
    ("gpt-oss", ModelRules { is_open: true, ..reasons(UP_TO_HIGH) }),
    ("gpt-4", PLAIN),
    ("gpt-3", PLAIN),
    ("chatgpt-4o", PLAIN),
    ("o1", reasons(UP_TO_HIGH)),
    ("o3", reasons(UP_TO_HIGH)),
    ("o4", reasons(UP_TO_HIGH)),
    // Models that are newer than this table: all of them reason, and the middle levels are what all have in common.
    ("gpt-", reasons(UP_TO_HIGH)),
];

/// The rules of a model. `None` where its name tells nothing, as with the name of an Azure deployment.
pub(in crate::provider) fn rules(model: &str) -> Option<ModelRules> {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let name = name.strip_prefix("ft:").unwrap_or(&name);
    FAMILIES.iter().find(|(begins, _)| name.starts_with(begins)).map(|(_, rules)| *rules)
}

/// The level among `efforts` that is nearest to the one asked for. Of two that are as near, the one nearer to `high`.
pub(in crate::provider) fn nearest(efforts: &[Effort], asked: Effort) -> Option<Effort> {
    let rank = |effort: Effort| Effort::ALL.iter().position(|level| *level == effort).unwrap_or(0);
    let apart = |one: Effort, other: Effort| rank(one).abs_diff(rank(other));
    efforts.iter().copied().min_by_key(|effort| (apart(*effort, asked), apart(*effort, High)))
}

/// The effort that a request is sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::provider) struct Plan {
    /// The effort to send.
    pub(in crate::provider) effort: Option<&'static str>,
    /// Whether the model does not reason at this effort.
    pub(in crate::provider) is_off: bool,
    /// Whether it takes a temperature and the like at this effort.
    pub(in crate::provider) samples: bool,
}

/// The effort for a model with these rules. Adds to `notices` what differs from the options.
pub(in crate::provider) fn plan(
    rules: Option<ModelRules>,
    model: &str,
    options: &ModelOptions,
    notices: &mut Vec<String>,
) -> Plan {
    let asked = options.effort.map(Effort::as_str);
    let Some(rules) = rules else {
        // The name of a deployment tells nothing, so what was asked for is sent as it is.
        let effort = if options.thinking == Some(Thinking::Off) { Some("none") } else { asked };
        return Plan { effort, is_off: effort == Some("none"), samples: true };
    };
    if !rules.reasons() {
        if let Some(asked) = asked {
            notices.push(format!("effort {asked} is not sent: {model} does not reason"));
        }
        if matches!(options.thinking, Some(Thinking::On | Thinking::Summary)) {
            notices.push(format!("thinking stays off: {model} does not reason"));
        }
        return Plan { effort: None, is_off: true, samples: true };
    }
    let effort = match (options.thinking, options.effort) {
        (Some(Thinking::Off), _) if rules.takes_none => Some("none"),
        (Some(Thinking::Off), _) => {
            let least = rules.efforts.first().map(|effort| effort.as_str());
            let least_name = least.unwrap_or("its least effort");
            notices.push(format!("thinking cannot be turned off: {model} thinks at least at effort {least_name}"));
            least
        }
        (_, Some(asked)) => {
            let effort = nearest(rules.efforts, asked).map(Effort::as_str);
            if let Some(effort) = effort.filter(|effort| *effort != asked.as_str()) {
                notices.push(format!("effort is {effort}: {model} has no effort {}", asked.as_str()));
            }
            effort
        }
        (Some(Thinking::On | Thinking::Summary), None) if rules.rests => Some("medium"),
        (Some(Thinking::On | Thinking::Summary) | None, None) => None,
    };
    let is_off = effort.map_or(rules.rests, |effort| effort == "none");
    Plan { effort, is_off, samples: is_off || rules.is_open }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_can_be_reached() {
        for (at, (begins, _)) in FAMILIES.iter().enumerate() {
            let earlier = FAMILIES[..at].iter().find(|(earlier, _)| begins.starts_with(earlier));
            assert!(earlier.is_none(), "{begins} is hidden by {}", earlier.unwrap().0);
        }
        assert_eq!(rules("ft:gpt-4.1:org::id"), Some(PLAIN));
        assert_eq!(rules("openai/GPT-5.6-sol"), Some(may_rest(UP_TO_MAX)));
        assert_eq!(rules("gpt-9"), Some(reasons(UP_TO_HIGH)));
        assert_eq!(rules("my-deployment"), None);
    }

    #[test]
    fn efforts_that_a_model_lacks_become_their_nearest() {
        assert_eq!(nearest(UP_TO_MAX, Minimal), Some(Low));
        assert_eq!(nearest(UP_TO_HIGH, Max), Some(High));
        assert_eq!(nearest(&[Low, High, Max], Medium), Some(High));
        assert_eq!(nearest(&[Low, High, Max], Xhigh), Some(High));
        assert_eq!(nearest(PRO, Low), Some(Medium));
        assert_eq!(nearest(&[], Low), None);
    }
}
