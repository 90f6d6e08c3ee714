//! What to leave out of a request that a provider refused.
//!
//! A provider that refuses a request says which part it does not take: a field, a tool, an image, the proofs of earlier
//! reasoning. The call is then made again without that part. So a table that is out of date, or a picture in a format of
//! its own, costs one refused request and never the conversation.

use super::{
    failure::Report,
    learned::{Learned, MediaDigest, Memory},
    wire::Ask,
};

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
}

/// What was left out of one call so far.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) count: usize,
    pub(super) without_proofs: bool,
    pub(super) notices: Vec<String>,
}

impl Changes {
    /// Keeps a change in mind. `false` if it is in force already, so that the same request would be sent again.
    pub(super) fn apply(&mut self, change: Change, model: &str, memory: &Memory) -> bool {
        self.count += 1;
        let mut is_new = true;
        let mut learn = |change: &mut dyn FnMut(&mut Learned) -> bool| {
            memory.learn(model, |learned| is_new = change(learned));
        };
        let notice = match change {
            Change::Proofs => {
                is_new = !self.without_proofs;
                self.without_proofs = true;
                None
            }
            Change::Field(field) => {
                learn(&mut |learned| learned.fields.insert(field.clone()));
                Some(format!("{field} is not sent: {model} does not take it"))
            }
            Change::MaxOutput(most) => {
                learn(&mut |learned| learned.max_output.replace(most).is_none_or(|before| before > most));
                None
            }
            Change::Tool(tool) => {
                learn(&mut |learned| learned.tools.insert(tool.clone()));
                Some(format!("the tool {tool} is left out: the provider of {model} refuses its declaration"))
            }
            Change::Media(media) => {
                learn(&mut |learned| media.iter().fold(false, |is_new, one| learned.media.insert(*one) || is_new));
                Some(format!("{} left out: the provider of {model} refuses to read it", counted(media.len())))
            }
            Change::AllImages => {
                learn(&mut |learned| !std::mem::replace(&mut learned.is_blind, true));
                Some(format!("images are left out: {model} reads none"))
            }
        };
        self.notices.extend(notice.filter(|_| is_new));
        is_new
    }
}

fn counted(media: usize) -> String {
    match media {
        1 => "an image or document is".to_owned(),
        media => format!("{media} images and documents are"),
    }
}

/// The change that a refusal asks for, if it is one that a change can mend.
pub(super) fn change(_report: &Report, _ask: &Ask<'_>) -> Option<Change> {
    None
}
