//! Images and documents that are left out of a request because its model does not take them.

use everturn_core::{Block, Message};

use super::learned::{Learned, MediaDigest};
use crate::model::ModelRequest;

/// What of a request's images and documents is not sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LeftOut {
    /// Images of a model that reads none.
    unseen: usize,
    /// Images and documents that the provider refuses.
    refused: usize,
    /// The oldest of the others.
    oldest: Oldest,
    /// What is sent.
    sent: Vec<Medium>,
}

/// How many of the oldest images and documents are left out, of those that are neither refused nor for a model that reads none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Oldest {
    /// Images beyond the number that the model takes.
    pub(super) images: usize,
    /// Of the rest, images and documents beyond the bytes that one request may have. Documents are given as text then.
    pub(super) media: usize,
}

/// An image, or a document that is given whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Medium {
    digest: MediaDigest,
    bytes: usize,
    is_image: bool,
}

/// How many of the oldest are left out.
pub(super) fn oldest(request: &ModelRequest, learned: &Learned) -> Oldest {
    let has_limit = learned.max_images.is_some() || learned.max_media_bytes.is_some();
    if has_limit { left_out(request, learned).oldest } else { Oldest::default() }
}

/// How many bytes of images and documents are sent.
pub(super) fn sent_bytes(request: &ModelRequest, learned: &Learned) -> usize {
    left_out(request, learned).sent.iter().map(|medium| medium.bytes).sum()
}

/// What to do about a request that was too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lighter {
    /// Send at most so many bytes of images and documents.
    Bytes(usize),
    /// Leave out the only one that is sent.
    Without(MediaDigest),
}

/// How to make a request smaller that was too large. `None` where it has neither images nor documents.
pub(super) fn lighter(request: &ModelRequest, learned: &Learned) -> Option<Lighter> {
    let sent = left_out(request, learned).sent;
    match sent.as_slice() {
        [] => None,
        [only] => Some(Lighter::Without(only.digest)),
        several => {
            let total = several.iter().map(|medium| medium.bytes).sum::<usize>();
            // As much as was taken before, if that is known; it may have been beside a shorter text.
            let proven = Some(learned.proven_media_bytes).filter(|proven| *proven < total);
            Some(Lighter::Bytes(proven.unwrap_or(0).max(total / 3 * 2)))
        }
    }
}

/// What to tell of it, in every call that it is left out of.
pub(super) fn notices(request: &ModelRequest, learned: &Learned, model: &str) -> Vec<String> {
    let has_limit = learned.max_images.is_some() || learned.max_media_bytes.is_some();
    if !learned.is_blind && learned.media.is_empty() && !has_limit {
        return Vec::new();
    }
    let LeftOut { unseen, refused, oldest, .. } = left_out(request, learned);
    let most = learned.max_images.unwrap_or(0);
    let refused = match refused {
        0 => None,
        1 => Some(format!("an image or document is left out: the provider of {model} refuses it")),
        _ => Some(format!("{refused} images and documents are left out: the provider of {model} refuses them")),
    };
    let too_many = match oldest.images {
        0 => None,
        1 => Some(format!("the oldest image is left out: {model} takes at most {most}")),
        count => Some(format!("the {count} oldest images are left out: {model} takes at most {most}")),
    };
    let limit = format!("the provider of {model} takes no larger requests");
    let too_heavy = match oldest.media {
        0 => None,
        1 => Some(format!("the oldest image or document is left out: {limit}")),
        count => Some(format!("the {count} oldest images and documents are left out: {limit}")),
    };
    let unseen = (unseen > 0).then(|| format!("images are left out: {model} reads none"));
    [unseen, refused, too_many, too_heavy].into_iter().flatten().collect()
}

fn left_out(request: &ModelRequest, learned: &Learned) -> LeftOut {
    let mut left_out = LeftOut::default();
    for message in request.messages.iter() {
        let blocks = match message {
            Message::User { content } | Message::Tool { content, .. } => content.blocks(),
            Message::System { .. } | Message::Assistant { .. } => &[],
        };
        for block in blocks {
            let (content, is_image) = match block {
                Block::Image { .. } if learned.is_blind => {
                    left_out.unseen += 1;
                    continue;
                }
                Block::Image { url } => (url.as_str(), true),
                Block::Document { id, .. } => {
                    match request.documents.get(id).and_then(|document| document.base64.as_deref()) {
                        Some(whole) => (whole, false),
                        None => continue,
                    }
                }
                Block::Text(_) | Block::Thinking { .. } | Block::ToolUse(_) => continue,
            };
            let digest = MediaDigest::of(content);
            // What has an address is fetched by the provider.
            let bytes = if is_image && !content.starts_with("data:") { 0 } else { content.len() };
            match learned.media.contains(&digest) {
                true => left_out.refused += 1,
                false => left_out.sent.push(Medium { digest, bytes, is_image }),
            }
        }
    }
    let sent = &mut left_out.sent;
    let images = sent.iter().filter(|medium| medium.is_image).count();
    left_out.oldest.images = learned.max_images.map_or(0, |most| images.saturating_sub(most));
    let mut too_many = left_out.oldest.images;
    sent.retain(|medium| {
        let is_beyond = medium.is_image && too_many > 0;
        too_many -= usize::from(is_beyond);
        !is_beyond
    });
    let sizes: Vec<usize> = sent.iter().map(|medium| medium.bytes).collect();
    left_out.oldest.media = learned.max_media_bytes.map_or(0, |most| too_heavy(&sizes, most));
    sent.drain(..left_out.oldest.media);
    left_out
}

/// How many of the oldest are to go so that the others have at most so many bytes. The newest one stays.
///
/// Whenever there are too many, half of the bytes go at once: what a provider has cached of a conversation is lost each time.
fn too_heavy(sizes: &[usize], most: usize) -> usize {
    let (mut first, mut bytes) = (0, 0_usize);
    for (at, size) in sizes.iter().enumerate() {
        bytes += size;
        if bytes > most {
            while first < at && bytes > most / 2 {
                bytes -= sizes[first];
                first += 1;
            }
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What is sent fits or is one image; the more there are, the more have gone; and the window moves seldom.
        #[test]
        fn the_oldest_images_go(sizes in proptest::collection::vec(1_usize..100, 1..60), most in 1_usize..500) {
            let (mut before, mut moves) = (0, 0);
            for count in 1..=sizes.len() {
                let first = too_heavy(&sizes[..count], most);
                let sent: usize = sizes[first..count].iter().sum();
                prop_assert!(first < count && (sent <= most || first + 1 == count), "{first} of {count}: {sent}");
                prop_assert!(first >= before);
                moves += usize::from(first > before);
                before = first;
            }
            prop_assert!(moves <= 2 * sizes.iter().sum::<usize>() / most.max(1) + sizes.iter().filter(|size| **size > most / 2).count());
        }
    }
}
