//! What a record keeps of an answer beside its text and calls, and when its thinking may be sent again.
//!
//! Anthropic signs every thinking block by itself, encrypts some, and wants all of them back as they were, after the same
//! beginning; see [`crate::provider::binding`].

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

/// Whether thinking goes back to where it can be read: to the model that gave it, or from one of Anthropic's models to
/// another, where the API leaves out what the other model cannot read.
pub(super) fn is_readable<T>(proof: &Proof<T>, ask: &Ask<'_>, rules: &Rules) -> bool {
    let model = proof.from.split_once('/').map_or("", |(_, model)| model);
    proof.from == ask.from || (rules.is_claude && Rules::of(model).is_claude)
}
