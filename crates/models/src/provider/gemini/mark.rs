//! What history does not show of an answer, piece by piece; see [`super::super::proof`].
//!
//! Gemini signs single parts: a call, a text, sometimes a text that is empty. Newer models refuse history where a call has
//! lost its signature, or where a signature has moved to another part.

use serde::{Deserialize, Serialize};

/// One such thing, in its place among the texts and calls of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mark {
    /// What the text or call that follows has on it. With nothing on it, it keeps a text apart from the signed one before.
    Next {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
        /// The provider's id of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    /// A signed part without text.
    Empty { signature: String },
    /// A signed part of the thoughts. Thoughts without a signature need not go back.
    Thought { text: String, signature: String },
}
