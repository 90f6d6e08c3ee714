//! What a record keeps of an answer beside its text and calls, and when its thinking may be sent again.
//!
//! Anthropic signs every thinking block by itself, encrypts some, and wants all of them back as they were. A block's
//! signature counts only after the very same instructions, tools and messages, and after the same thinking block as when
//! it was made: the blocks that are sent must be an unbroken run of those that were given. So a record's prefix is
//! `<digest>.<count>`: the digest of the request without its thinking, and the number of answers whose thinking was in it.

use serde::{Deserialize, Serialize};

use super::models::Rules;
use crate::provider::{proof::Proof, wire::Ask};

/// One piece of the wire's own in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Own {
    /// A thinking block. Its text is the next `length` bytes of the message's thinking.
    Thinking {
        length: usize,
        /// Empty where a compatible server signs nothing.
        signature: String,
    },
    RedactedThinking {
        data: String,
    },
    /// The id that the API gave a call. The first one is the first call's, and so on, wherever it stands.
    ToolUse {
        id: String,
    },
    /// A new text block begins right after another one.
    Text,
}

/// The prefix of a request, as records keep it.
pub(super) fn prefix(digest: &str, count: usize) -> String {
    format!("{digest}.{count}")
}

/// How many answers had their thinking in the request that was answered, if that request was the beginning of this one.
pub(super) fn count_after<T>(proof: &Proof<T>, digest: &str) -> Option<usize> {
    proof.prefix.as_deref()?.strip_prefix(digest)?.strip_prefix('.')?.parse().ok()
}

/// Whether thinking goes back to where it can be read: to the model that gave it, or from one of Anthropic's models to
/// another, where the API leaves out what the other model cannot read.
pub(super) fn is_readable<T>(proof: &Proof<T>, ask: &Ask<'_>, rules: &Rules) -> bool {
    let model = proof.from.split_once('/').map_or("", |(_, model)| model);
    proof.from == ask.from || (rules.is_claude && Rules::of(model).is_claude)
}

/// Which answers keep their thinking. `counts` has an entry for each answer with thinking that is valid where it stands.
///
/// The last one tells how many answers before it had theirs when it was made; they and it are the unbroken run.
pub(super) fn run(counts: &[usize]) -> usize {
    counts.last().map_or(0, |count| (count + 1).min(counts.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_valid_answer_says_how_far_back_thinking_goes() {
        assert_eq!(run(&[]), 0);
        assert_eq!(run(&[0, 1, 2]), 3);
        // Thinking was left out before the third answer, and stays out.
        assert_eq!(run(&[0, 1, 0, 1]), 2);
        assert_eq!(run(&[7]), 1);
    }

    #[test]
    fn a_record_counts_after_its_own_prefix_only() {
        let proof = |prefix: Option<&str>| Proof::<Own> {
            from: "p/m".into(),
            prefix: prefix.map(str::to_owned),
            pieces: Vec::new(),
        };
        assert_eq!(count_after(&proof(Some("ab.2")), "ab"), Some(2));
        for prefix in [Some("ab"), Some("abc.2"), Some("ab.x"), Some("."), None] {
            assert_eq!(count_after(&proof(prefix), "ab"), None, "{prefix:?}");
        }
    }
}
