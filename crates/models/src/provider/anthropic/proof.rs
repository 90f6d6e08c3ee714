//! The proof of an answer's reasoning, in the one string that history has room for.
//!
//! Anthropic signs every thinking block by itself and sends some encrypted, and wants all of them back as they were.
//! One block is kept as `anthropic:<signature>`, its text being the message's thinking. Several are kept whole:
//! `anthropic:[<block>, …]`. The prefix keeps proofs apart from those of other providers, which Anthropic would refuse.

use serde::{Deserialize, Serialize};

const PREFIX: &str = "anthropic:";

/// A block of reasoning, as the wire has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ThinkingBlock {
    Thinking { thinking: String, signature: String },
    RedactedThinking { data: String },
}

/// The proof of the blocks so far.
pub(super) fn write(blocks: &[ThinkingBlock]) -> Option<String> {
    match blocks {
        [] => None,
        [ThinkingBlock::Thinking { signature, .. }] => Some(format!("{PREFIX}{signature}")),
        blocks => serde_json::to_string(blocks).ok().map(|blocks| format!("{PREFIX}{blocks}")),
    }
}

/// The blocks that a proof stands for; none where it is not one of ours.
pub(super) fn read(proof: &str, thinking: &str) -> Vec<ThinkingBlock> {
    match proof.strip_prefix(PREFIX) {
        None => Vec::new(),
        Some(blocks) if blocks.starts_with('[') => serde_json::from_str(blocks).unwrap_or_default(),
        Some(signature) => {
            vec![ThinkingBlock::Thinking { thinking: thinking.to_owned(), signature: signature.to_owned() }]
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn foreign_proofs_are_dropped() {
        assert_eq!(read("gemini:{}", "hm"), vec![]);
        assert_eq!(read("anthropic:[nonsense", "hm"), vec![]);
    }

    proptest! {
        #[test]
        fn blocks_come_back_as_they_were(
            blocks in proptest::collection::vec(prop_oneof![
                (".{0,9}", "[A-Za-z0-9+/=]{1,9}")
                    .prop_map(|(thinking, signature)| ThinkingBlock::Thinking { thinking, signature }),
                "[A-Za-z0-9+/=]{1,9}".prop_map(|data| ThinkingBlock::RedactedThinking { data }),
            ], 1..4),
        ) {
            let thinking: String = blocks.iter().map(|block| match block {
                ThinkingBlock::Thinking { thinking, .. } => thinking.as_str(),
                ThinkingBlock::RedactedThinking { .. } => "",
            }).collect();
            prop_assert_eq!(read(&write(&blocks).unwrap(), &thinking), blocks);
        }
    }
}
