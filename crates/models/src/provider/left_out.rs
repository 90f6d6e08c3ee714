//! Images and documents that are left out of a request because its model does not take them.

use std::collections::VecDeque;

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

/// How many of the oldest images and documents are left out. Refused ones, and images of a model that reads none, are not
/// counted here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Oldest {
    /// Images beyond the number that the model takes.
    pub(super) images: usize,
    /// Of the rest, what is beyond the bytes that one request may have.
    pub(super) heavy: Heavy,
}

/// How many images and documents go because a request would be too large. Documents are given as text then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heavy {
    pub(super) documents: usize,
    pub(super) images: usize,
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
        [only] if only.is_image => Some(Lighter::Without(only.digest)),
        // Its text goes instead.
        [only] => Some(Lighter::Bytes(only.bytes.saturating_sub(1))),
        several => {
            let total = several.iter().map(|medium| medium.bytes).sum::<usize>();
            // As much as was taken before, if that is known; it may have been beside a shorter text.
            let proven = Some(learned.proven_media_bytes).filter(|proven| *proven < total);
            // The newest one may fit alone.
            let newest = several.last().map(|medium| medium.bytes).filter(|newest| *newest < total);
            Some(Lighter::Bytes(proven.into_iter().chain(newest).fold(total / 3 * 2, usize::max)))
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
    let as_text = match oldest.heavy.documents {
        0 => None,
        1 => Some(format!("a document is given as text: {limit}")),
        count => Some(format!("{count} documents are given as text: {limit}")),
    };
    let too_heavy = match oldest.heavy.images {
        0 => None,
        1 => Some(format!("the oldest image is left out: {limit}")),
        count => Some(format!("the {count} oldest images are left out: {limit}")),
    };
    let unseen = (unseen > 0).then(|| format!("images are left out: {model} reads none"));
    [unseen, refused, too_many, as_text, too_heavy].into_iter().flatten().collect()
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
    let heavy = learned.max_media_bytes.map_or(Heavy::default(), |most| too_heavy(sent, most));
    left_out.oldest.heavy = heavy;
    let Heavy { mut documents, mut images } = heavy;
    sent.retain(|medium| {
        let gone = if medium.is_image { &mut images } else { &mut documents };
        let goes = *gone > 0;
        *gone -= usize::from(goes);
        !goes
    });
    left_out
}

/// What is to go so that the rest has at most so many bytes: documents before images, which nothing can stand for, and the
/// oldest of each first. The newest image stays.
///
/// Whenever there are too many, half of the bytes go at once: what a provider has cached of a conversation is lost each time.
fn too_heavy(media: &[Medium], most: usize) -> Heavy {
    let (mut documents, mut images, mut bytes) = (VecDeque::new(), VecDeque::new(), 0_usize);
    let mut gone = Heavy::default();
    for medium in media {
        let kind = if medium.is_image { &mut images } else { &mut documents };
        kind.push_back(medium.bytes);
        bytes += medium.bytes;
        if bytes <= most {
            continue;
        }
        // The newest one stays a file, if that is enough.
        let spare = usize::from(!medium.is_image);
        while bytes > most / 2 && documents.len() > spare {
            bytes -= documents.pop_front().unwrap_or(0);
            gone.documents += 1;
        }
        if bytes > most {
            gone.documents += documents.len();
            bytes -= documents.drain(..).sum::<usize>();
        }
        if bytes > most {
            while bytes > most / 2 && images.len() > 1 {
                bytes -= images.pop_front().unwrap_or(0);
                gone.images += 1;
            }
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn media(sizes: &[(usize, bool)]) -> Vec<Medium> {
        let medium = |(bytes, is_image): &(usize, bool)| Medium {
            digest: MediaDigest::of(""),
            bytes: *bytes,
            is_image: *is_image,
        };
        sizes.iter().map(medium).collect()
    }

    fn left(media: &[Medium], Heavy { mut documents, mut images }: Heavy) -> Vec<Medium> {
        let stays = |medium: &&Medium| {
            let gone = if medium.is_image { &mut images } else { &mut documents };
            let goes = *gone > 0;
            *gone -= usize::from(goes);
            !goes
        };
        media.iter().filter(stays).copied().collect()
    }

    #[test]
    fn documents_go_before_images() {
        for (sizes, most, gone) in [
            (&[(40, true), (50, false)][..], 60, (1, 0)),
            (&[(50, false), (40, true)], 60, (1, 0)),
            (&[(40, true), (40, true), (50, false)], 60, (1, 1)),
            (&[(35, true), (35, true), (35, true), (55, false), (55, false)], 142, (2, 0)),
            (&[(50, false), (50, false)], 60, (1, 0)),
            (&[(90, false)], 60, (1, 0)),
            (&[(20, false), (20, true), (20, true)], 60, (0, 0)),
        ] {
            let Heavy { documents, images } = too_heavy(&media(sizes), most);
            assert_eq!((documents, images), gone, "{sizes:?}");
        }
    }

    proptest! {
        /// What is sent fits, or is one alone, and has the newest image; the more there is, the more has gone.
        #[test]
        fn the_oldest_go(
            sizes in proptest::collection::vec((1_usize..100, any::<bool>()), 1..60),
            most in 1_usize..500,
        ) {
            let all = media(&sizes);
            let mut before = Heavy::default();
            for count in 1..=all.len() {
                let gone = too_heavy(&all[..count], most);
                let left = left(&all[..count], gone);
                let sent: usize = left.iter().map(|medium| medium.bytes).sum();
                let is_last_image = left.len() == 1 && left[0].is_image;
                prop_assert!(sent <= most || is_last_image, "{gone:?} of {count}: {sent}");
                let newest = all[..count].iter().rposition(|medium| medium.is_image);
                prop_assert!(newest.is_none() || left.iter().any(|medium| medium.is_image), "{gone:?} of {count}");
                prop_assert!(gone.documents >= before.documents && gone.images >= before.images);
                before = gone;
            }
        }
    }
}
