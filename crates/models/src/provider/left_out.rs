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
    /// The oldest images, beyond the bytes that one request may have. Some of them may be beyond that number too.
    too_heavy: usize,
}

/// How many of the oldest images are left out, of those that are neither refused nor for a model that reads none.
pub(super) fn oldest(request: &ModelRequest, learned: &Learned) -> usize {
    if learned.max_images.is_none() && learned.max_image_bytes.is_none() {
        return 0;
    }
    let LeftOut { beyond, too_heavy, .. } = left_out(request, learned).0;
    beyond.max(too_heavy)
}

/// The most bytes of images to send after a request was too large: less than it had. Nothing where it had one image at most.
pub(super) fn lighter(request: &ModelRequest, learned: &Learned) -> Option<usize> {
    let (LeftOut { beyond, too_heavy, .. }, sizes) = left_out(request, learned);
    let sent = sizes.get(beyond.max(too_heavy)..)?;
    (sent.len() > 1).then(|| sent.iter().sum::<usize>() / 3 * 2)
}

/// What to tell of it, in every call that it is left out of.
pub(super) fn notices(request: &ModelRequest, learned: &Learned, model: &str) -> Vec<String> {
    let has_limit = learned.max_images.is_some() || learned.max_image_bytes.is_some();
    if !learned.is_blind && learned.media.is_empty() && !has_limit {
        return Vec::new();
    }
    let LeftOut { unseen, refused, beyond, too_heavy } = left_out(request, learned).0;
    let most = learned.max_images.unwrap_or(0);
    let refused = match refused {
        0 => None,
        1 => Some(format!("an image or document is left out: the provider of {model} refuses it")),
        _ => Some(format!("{refused} images and documents are left out: the provider of {model} refuses them")),
    };
    let beyond_count = beyond;
    let beyond = match beyond {
        0 => None,
        1 => Some(format!("the oldest image is left out: {model} takes at most {most}")),
        _ => Some(format!("the {beyond} oldest images are left out: {model} takes at most {most}")),
    };
    let too_heavy = match too_heavy {
        _ if too_heavy <= beyond_count => None,
        1 => Some(format!("the oldest image is left out: the provider of {model} takes no larger requests")),
        _ => Some(format!(
            "the {too_heavy} oldest images are left out: the provider of {model} takes no larger requests"
        )),
    };
    let unseen = (unseen > 0).then(|| format!("images are left out: {model} reads none"));
    [unseen, refused, beyond, too_heavy].into_iter().flatten().collect()
}

/// What is left out, and the bytes of each image that is neither refused nor for a model that reads none.
fn left_out(request: &ModelRequest, learned: &Learned) -> (LeftOut, Vec<usize>) {
    let is_refused = |content: &str| !learned.media.is_empty() && learned.media.contains(&MediaDigest::of(content));
    let (mut left_out, mut sizes) = (LeftOut::default(), Vec::new());
    for message in request.messages.iter() {
        let blocks = match message {
            Message::User { content } | Message::Tool { content, .. } => content.blocks(),
            Message::System { .. } | Message::Assistant { .. } => &[],
        };
        for block in blocks {
            match block {
                Block::Image { .. } if learned.is_blind => left_out.unseen += 1,
                Block::Image { url } if is_refused(url) => left_out.refused += 1,
                // An address is fetched by the provider.
                Block::Image { url } => sizes.push(if url.starts_with("data:") { url.len() } else { 0 }),
                Block::Document { id, .. } => {
                    let whole = request.documents.get(id).and_then(|document| document.base64.as_deref());
                    left_out.refused += usize::from(whole.is_some_and(is_refused));
                }
                Block::Text(_) | Block::Thinking { .. } | Block::ToolUse(_) => {}
            }
        }
    }
    left_out.beyond = learned.max_images.map_or(0, |most| sizes.len().saturating_sub(most));
    left_out.too_heavy = learned.max_image_bytes.map_or(0, |most| too_heavy(&sizes, most));
    (left_out, sizes)
}

/// How many of the oldest images are to go so that the others have at most so many bytes. The newest one stays.
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
