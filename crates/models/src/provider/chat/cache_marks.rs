//! Marks for the cache of Anthropic's models behind OpenRouter, which keeps nothing that is not marked.
//!
//! The marks stand on parts of the content: on the instructions, and on the last text of the last two steps, as on Anthropic's
//! own wire. They move with the conversation; all else of a request stays as it was.

use serde::Serialize;

use super::history::{Message, TextContent, UserContent, UserPart};

/// A mark: the provider keeps all up to here for some minutes.
#[derive(Clone, Copy, Serialize)]
pub(super) struct CacheControl {
    r#type: &'static str,
}

const MARK: CacheControl = CacheControl { r#type: "ephemeral" };

/// Marks the instructions and the conversation. A wish at its end is not in the next request, and is not marked.
pub(super) fn mark(messages: &mut [Message<'_>], ends_with_wish: bool) {
    if let Some(Message::System { content }) = messages.first_mut() {
        mark_text(content);
    }
    // Results of one step stand in several messages, of which the last one counts.
    let (mut left, mut is_end, mut has_wish) = (2, true, ends_with_wish);
    for message in messages.iter_mut().rev() {
        let is_marked = is_end
            && match message {
                Message::User { content: UserContent::Parts(parts) } => {
                    let lasting = parts.len() - usize::from(std::mem::take(&mut has_wish)).min(parts.len());
                    mark_last(&mut parts[..lasting])
                }
                Message::Tool { content, .. } => mark_text(content),
                Message::System { .. } | Message::User { .. } | Message::Assistant(_) => false,
            };
        left -= usize::from(is_marked);
        if left == 0 {
            return;
        }
        is_end = !is_marked && is_end || matches!(message, Message::Assistant(_));
    }
}

fn mark_text(content: &mut TextContent) -> bool {
    match content {
        TextContent::Parts(parts) => mark_last(parts),
        TextContent::Text(_) => false,
    }
}

/// Marks the last text. `false` if there is none that may be marked: empty ones are refused.
fn mark_last(parts: &mut [UserPart<'_>]) -> bool {
    let texts = parts.iter_mut().rev().filter_map(|part| match part {
        UserPart::Text { text, cache_control } if !text.trim().is_empty() => Some(cache_control),
        UserPart::Text { .. } | UserPart::ImageUrl { .. } | UserPart::File { .. } => None,
    });
    texts.take(1).map(|mark| *mark = Some(MARK)).count() > 0
}
