//! Whether what a model says is a summary.

use everturn_core::context;
use everturn_models::{ModelError, ModelErrorKind, ModelFinish};

/// With fewer letters a summary says nothing.
const LEAST_LETTERS: usize = 3;
/// The least letters of what is left of one that was cut.
const LEAST_OF_CUT: usize = 40;
/// A summary of more bytes than this says so much that a later one cannot be a few words.
const LONG: usize = 800;
/// A summary takes the place of one that is so many times as long, at most.
const MOST_SHRUNK: usize = 5;

/// What a summary must be to stand for the messages that it summarises: all older context would be lost with a bad one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    /// The most tokens that it may have.
    pub(crate) room: u64,
    /// The bytes of the summary that it takes the place of.
    pub(crate) earlier: usize,
}

impl Judge {
    pub(crate) fn judge(&self, summary: &str, finish: ModelFinish) -> Result<(), ModelError> {
        let bad = match finish {
            ModelFinish::Refusal => {
                let message = "the model declined to summarise the conversation";
                return Err(ModelError::new(ModelErrorKind::Rejected, message));
            }
            ModelFinish::MaxTokens => "was cut off",
            ModelFinish::Stop if summary.trim().is_empty() => "is empty",
            ModelFinish::Stop if letters(summary) < LEAST_LETTERS => "says nothing",
            ModelFinish::Stop if context::estimate_text(summary) > self.room => "is too long",
            ModelFinish::Stop if sounds_declined(summary) => "is a refusal",
            ModelFinish::Stop if self.has_lost_earlier(summary) => "has lost the earlier one",
            ModelFinish::Stop => return Ok(()),
        };
        Err(ModelError::new(ModelErrorKind::Unavailable, format!("the model's summary {bad}")))
    }

    fn has_lost_earlier(&self, summary: &str) -> bool {
        self.earlier > LONG && summary.len() < self.earlier / MOST_SHRUNK
    }

    /// What can be used of a summary that was cut off or is too long, where no better one comes: its whole sentences, as many
    /// as there is room for.
    pub(crate) fn salvage(&self, summary: &str) -> Option<String> {
        let all = context::estimate_text(summary);
        let room = if all <= self.room {
            summary.len()
        } else {
            let room = summary.len() as u128 * u128::from(self.room) / u128::from(all);
            usize::try_from(room).unwrap_or(usize::MAX)
        };
        let cut = &summary[..summary.floor_char_boundary(room)];
        let end = cut.rfind(['.', '!', '?', '\n', '。', '！', '？'])?;
        let end = end + cut[end..].chars().next().map_or(0, char::len_utf8);
        let whole = cut[..end].trim();
        let is_enough = letters(whole) >= LEAST_OF_CUT && !sounds_declined(whole) && !self.has_lost_earlier(whole);
        is_enough.then(|| whole.to_owned())
    }
}

fn letters(text: &str) -> usize {
    text.chars().filter(|c| c.is_alphanumeric()).count()
}

/// Whether a short text says that nothing was summarised. A summary speaks of the user and the assistant, not for itself.
fn sounds_declined(text: &str) -> bool {
    const OPENINGS: [&str; 8] = [
        "i'm sorry",
        "i\u{2019}m sorry",
        "i am sorry",
        "sorry,",
        "i can't",
        "i can\u{2019}t",
        "i cannot",
        "i'm unable",
    ];
    const SHORT: usize = 240;
    let text = text.trim();
    let lower: String = text.chars().take(16).flat_map(char::to_lowercase).collect();
    text.len() < SHORT && OPENINGS.iter().any(|opening| lower.starts_with(opening))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_sentences_are_left_of_a_summary_that_was_cut() {
        let sentence =
            "The user, who is called Ada, wants the report of the third quarter to be sent to Grace on Friday. ";
        let judge = Judge { room: 1000, earlier: 0 };
        let cut = format!("{sentence}{sentence}The assistant has");
        assert_eq!(judge.salvage(&cut), Some(sentence.repeat(2).trim().to_owned()));
        // One that is too long is left as far as there is room for it.
        let left = Judge { room: 60, earlier: 0 }.salvage(&sentence.repeat(20)).unwrap();
        assert!(left.len() % sentence.len() == sentence.len() - 1 && context::estimate_text(&left) <= 60, "{left}");
        // What says next to nothing, or has lost most of what was known, is no summary.
        assert_eq!(judge.salvage("They talked. And then"), None);
        assert_eq!(judge.salvage(&"a".repeat(500)), None);
        assert_eq!(Judge { room: 1000, earlier: 4000 }.salvage(&cut), None);
    }
}
