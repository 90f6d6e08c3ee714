//! What to leave out of a request that a provider refused.
//!
//! A provider that refuses a request says which part it does not take: a field, a tool, an image, the proofs of earlier
//! reasoning. The call is then made again without that part. So a table that is out of date, or a picture in a format of
//! its own, costs one refused request and never the conversation.

mod fields;
mod media;
mod path;
mod tools;

use super::{
    failure::Report,
    learned::{Learned, MediaDigest},
};
use crate::model::ModelRequest;

/// One part to leave out, or to write differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A field of the body; a dot leads into an object.
    Field(String),
    /// Ask for at most so many tokens.
    MaxOutput(u64),
    /// A tool.
    Tool(String),
    /// These images and documents.
    Media(Vec<MediaDigest>),
    /// All images, for good: the model reads none.
    AllImages,
    /// All proofs of reasoning, in this call.
    Proofs,
    /// Another wire: OpenAI's own models take tools with reasoning through its Responses only.
    Responses,
}

/// What was left out of one call so far.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) count: usize,
    pub(super) without_proofs: bool,
    /// What to tell of it. Fields and tools are told of by each call that lacks them.
    pub(super) notices: Vec<String>,
}

impl Changes {
    /// Makes a change. `false` if it is in force already, so that the same request would be sent again.
    pub(super) fn apply(&mut self, change: Change, model: &str, learned: &mut Learned) -> bool {
        self.count += 1;
        let mut notice = None;
        let is_new = match change {
            Change::Proofs => !std::mem::replace(&mut self.without_proofs, true),
            Change::Responses => !std::mem::replace(&mut learned.wants_responses, true),
            Change::Field(field) => learned.fields.insert(field),
            Change::MaxOutput(most) => learned.max_output.replace(most).is_none_or(|before| before > most),
            Change::Tool(tool) => learned.tools.insert(tool),
            Change::Media(media) => {
                let count = media.into_iter().filter(|one| learned.media.insert(*one)).count();
                notice = Some(match count {
                    1 => format!("an image or document is left out: the provider of {model} refuses it"),
                    _ => format!("{count} images and documents are left out: the provider of {model} refuses them"),
                });
                count > 0
            }
            Change::AllImages => {
                notice = Some(format!("images are left out: {model} reads none"));
                !std::mem::replace(&mut learned.is_blind, true)
            }
        };
        self.notices.extend(notice.filter(|_| is_new));
        is_new
    }
}

/// The change that a refusal asks for, if it is one that a change can mend. `body` is the request that was refused.
pub(super) fn change(report: &Report, request: &ModelRequest, body: &[u8], learned: &Learned) -> Option<Change> {
    let words = report.words().to_lowercase();
    if words.contains("use /v1/responses") {
        return Some(Change::Responses);
    }
    if has_proofs(request) && PROOFS.iter().any(|phrase| words.contains(phrase)) {
        return Some(Change::Proofs);
    }
    if let Some(most) = fields::max_output(&words) {
        return Some(Change::MaxOutput(most));
    }
    // Whatever names a tool or a message by its place is about that one, not about a field of the same name.
    if let Some(tool) = tools::refused(report, body) {
        return Some(Change::Tool(tool));
    }
    if let Some(change) = media::refused(report, &words, request, body, learned) {
        return Some(change);
    }
    fields::refused(report, &words, body).map(Change::Field)
}

/// How providers say that they do not take reasoning back: its signature, its ciphertext, its place.
const PROOFS: &[&str] = &[
    "`signature` in `thinking`",
    "thinking.signature",
    "`thinking` or `redacted_thinking`",
    "thinking blocks",
    "thought signature",
    "thought_signature",
    "encrypted content",
    "encrypted_content",
    "of type 'reasoning'",
    "item with id 'rs_",
    "duplicate item found with id rs_",
    "reasoning_details",
];

fn has_proofs(request: &ModelRequest) -> bool {
    let blocks = request.messages.iter().flat_map(|message| match message {
        everturn_core::Message::Assistant { content } => content.blocks(),
        everturn_core::Message::System { .. }
        | everturn_core::Message::User { .. }
        | everturn_core::Message::Tool { .. } => &[],
    });
    blocks.into_iter().any(|block| matches!(block, everturn_core::Block::Thinking { signature: Some(_), .. }))
}

#[cfg(test)]
mod tests;
