//! Images and documents that are left out of a request because its model does not take them.

use everturn_core::{Block, Message};

use super::learned::{Learned, MediaDigest};
use crate::model::ModelRequest;

/// What of a request's images and documents is not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LeftOut {
    /// Images of a model that reads none.
    unseen: usize,
    /// Images and documents that the provider refuses.
    refused: usize,
    /// The oldest images, beyond the number that the model takes.
    beyond: usize,
}

/// How many of the oldest images are left out, of those that are neither refused nor for a model that reads none.
pub(super) fn oldest(request: &ModelRequest, learned: &Learned) -> usize {
    if learned.max_images.is_none() { 0 } else { left_out(request, learned).beyond }
}

/// What to tell of it, in every call that it is left out of.
pub(super) fn notices(request: &ModelRequest, learned: &Learned, model: &str) -> Vec<String> {
    if !learned.is_blind && learned.media.is_empty() && learned.max_images.is_none() {
        return Vec::new();
    }
    let LeftOut { unseen, refused, beyond } = left_out(request, learned);
    let most = learned.max_images.unwrap_or(0);
    let refused = match refused {
        0 => None,
        1 => Some(format!("an image or document is left out: the provider of {model} refuses it")),
        _ => Some(format!("{refused} images and documents are left out: the provider of {model} refuses them")),
    };
    let beyond = match beyond {
        0 => None,
        1 => Some(format!("the oldest image is left out: {model} takes at most {most}")),
        _ => Some(format!("the {beyond} oldest images are left out: {model} takes at most {most}")),
    };
    let unseen = (unseen > 0).then(|| format!("images are left out: {model} reads none"));
    [unseen, refused, beyond].into_iter().flatten().collect()
}

fn left_out(request: &ModelRequest, learned: &Learned) -> LeftOut {
    let is_refused = |content: &str| !learned.media.is_empty() && learned.media.contains(&MediaDigest::of(content));
    let (mut left_out, mut sent) = (LeftOut::default(), 0_usize);
    for message in request.messages.iter() {
        let blocks = match message {
            Message::User { content } | Message::Tool { content, .. } => content.blocks(),
            Message::System { .. } | Message::Assistant { .. } => &[],
        };
        for block in blocks {
            match block {
                Block::Image { .. } if learned.is_blind => left_out.unseen += 1,
                Block::Image { url } if is_refused(url) => left_out.refused += 1,
                Block::Image { .. } => sent += 1,
                Block::Document { id, .. } => {
                    let whole = request.documents.get(id).and_then(|document| document.base64.as_deref());
                    left_out.refused += usize::from(whole.is_some_and(is_refused));
                }
                Block::Text(_) | Block::Thinking { .. } | Block::ToolUse(_) => {}
            }
        }
    }
    left_out.beyond = learned.max_images.map_or(0, |most| sent.saturating_sub(most));
    left_out
}
