//! The proof of an answer's reasoning, in the one string that history has room for.
//!
//! Gemini signs single parts, most of all function calls, and newer models refuse history where a call has lost its
//! signature. Kept as `gemini:{"text": …, "calls": {"0": …}}`, with the signature of the text and those of the calls by
//! their place in the answer. The prefix keeps proofs apart from those of other providers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

const PREFIX: &str = "gemini:";

/// The signatures of one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Proof {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) calls: BTreeMap<u32, String>,
}

impl Proof {
    pub(super) fn write(&self) -> Option<String> {
        serde_json::to_string(self).ok().map(|json| format!("{PREFIX}{json}"))
    }

    /// No signatures where the proof is not one of ours.
    pub(super) fn read(proof: &str) -> Self {
        proof.strip_prefix(PREFIX).and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn signatures_come_back_as_they_were(
            text in proptest::option::of(".{0,9}"),
            calls in proptest::collection::btree_map(any::<u32>(), ".{0,9}", 0..3),
        ) {
            let proof = Proof { text, calls };
            prop_assert_eq!(Proof::read(&proof.write().unwrap()), proof);
        }
    }

    #[test]
    fn foreign_proofs_are_dropped() {
        assert_eq!(Proof::read("anthropic:abc"), Proof::default());
        assert_eq!(Proof::read("gemini:nonsense"), Proof::default());
    }
}
