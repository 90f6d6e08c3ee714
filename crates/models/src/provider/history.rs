//! A conversation in the form that every wire is made from.
//!
//! Runs of tool results become one entry, neighbours of the same role are joined, and what no provider takes (empty
//! texts, answers with neither text nor calls) is gone. Images and documents that the provider has refused are replaced by
//! a line of text.

use std::{borrow::Cow, cell::Cell, collections::HashMap};

use everturn_core::{Block, Content, Message, ToolUse};

use super::{
    learned::MediaDigest,
    left_out::{self, Oldest},
    wire::Ask,
};
use crate::model::DocumentContent;

/// One entry of a conversation.
#[derive(Debug, PartialEq)]
pub(super) enum Entry<'a> {
    /// Instructions of the application that came after the beginning.
    System(&'a str),
    User(Vec<Part<'a>>),
    Assistant {
        /// The provider's own proof of its reasoning, and the reasoning.
        thinking: Option<(&'a str, &'a str)>,
        /// Reasoning that nothing proves, as clients send it back. Most wires leave it out.
        unproven: Option<&'a str>,
        text: String,
        calls: Vec<&'a ToolUse>,
    },
    Results(Vec<ToolResult<'a>>),
}

/// A piece of what a user said.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part<'a> {
    Text(Cow<'a, str>),
    /// By URL.
    Image(&'a str),
    /// A document that the wire may give whole, or as its text.
    Document(&'a DocumentContent),
}

impl<'a> Part<'a> {
    fn text(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

/// The result of one call.
#[derive(Debug, PartialEq)]
pub(super) struct ToolResult<'a> {
    pub(super) call_id: &'a str,
    pub(super) name: &'a str,
    pub(super) text: String,
    /// By URL.
    pub(super) images: Vec<&'a str>,
    pub(super) is_error: bool,
}

/// Where a wire takes the images of tool results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultImages {
    /// In the result.
    Inline,
    /// From the user, after the results.
    FromUser,
}

/// Stands for a message without content: providers refuse empty ones.
const EMPTY: &str = "(empty message)";

/// Says why the user, who said nothing, sends images.
const IMAGES_FOLLOW: &str = "The images of the tool results above:";

/// The text of a result that has images only, on wires that take them apart from it.
const RESULT_IS_IMAGE: &str = "(The result is an image, which follows.)";

/// Stands for an image that the provider refused or the model cannot read.
const IMAGE_REFUSED: &str = "[An image was left out here: the model cannot read it.]";

/// Stands for an older image where there are more than the model takes.
const IMAGE_BEYOND: &str = "[An older image was left out here: the model takes no more of them.]";

/// Instructions within the conversation, for wires that take them only from the user.
pub(super) fn system_as_text(text: &str) -> String {
    format!("<system>\n{text}\n</system>")
}

/// The conversation, without its standing instructions.
pub(super) fn entries<'a>(ask: &Ask<'a>, result_images: ResultImages) -> Vec<Entry<'a>> {
    let Oldest { images, heavy } = left_out::oldest(ask.request, ask.learned);
    let reader = Reader {
        ask: *ask,
        images_beyond: Cell::new(images + heavy.images),
        documents_beyond: Cell::new(heavy.documents),
    };
    let mut entries: Vec<Entry<'a>> = Vec::new();
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut loose_images: Vec<&str> = Vec::new();
    for message in ask.request.messages.iter() {
        if message.role() != everturn_core::Role::Tool {
            push_images(&mut entries, &mut loose_images);
        }
        match message {
            Message::System { content } => entries.push(Entry::System(content)),
            Message::User { content } => push_user(&mut entries, reader.user_parts(content)),
            Message::Assistant { content } => {
                names.extend(message.tool_uses().map(|call| (call.id.as_str(), call.name.as_str())));
                let calls: Vec<&ToolUse> = message.tool_uses().collect();
                let thinking = proven_thinking(content).filter(|(proof, _)| !reader.is_refused_proof(proof));
                // A proof counts the bytes of one text. Parts that came from elsewhere stand by themselves.
                let text = if thinking.is_some() { content.text() } else { content.lines() };
                if !text.trim().is_empty() || !calls.is_empty() {
                    let unproven = unproven_thinking(content).filter(|_| thinking.is_none());
                    entries.push(Entry::Assistant { thinking, unproven, text, calls });
                }
            }
            Message::Tool { call_id, content, is_error } => {
                let mut text = content.lines();
                let mut images = reader.result_images(content, &mut text);
                if result_images == ResultImages::FromUser && !images.is_empty() {
                    loose_images.append(&mut images);
                    if text.is_empty() {
                        text = RESULT_IS_IMAGE.to_owned();
                    }
                }
                let name = names.get(call_id.as_str()).copied().unwrap_or("tool");
                let result = ToolResult { call_id: call_id.as_str(), name, text, images, is_error: *is_error };
                match entries.last_mut() {
                    Some(Entry::Results(results)) => results.push(result),
                    Some(Entry::System(_) | Entry::User(_) | Entry::Assistant { .. }) | None => {
                        entries.push(Entry::Results(vec![result]));
                    }
                }
            }
        }
    }
    push_images(&mut entries, &mut loose_images);
    entries
}

fn push_images<'a>(entries: &mut Vec<Entry<'a>>, urls: &mut Vec<&'a str>) {
    if !urls.is_empty() {
        let images = urls.drain(..).map(Part::Image);
        push_user(entries, [Part::text(IMAGES_FOLLOW)].into_iter().chain(images).collect());
    }
}

fn push_user<'a>(entries: &mut Vec<Entry<'a>>, mut parts: Vec<Part<'a>>) {
    match entries.last_mut() {
        Some(Entry::User(before)) => before.append(&mut parts),
        Some(Entry::System(_) | Entry::Assistant { .. } | Entry::Results(_)) | None => entries.push(Entry::User(parts)),
    }
}

/// Looks up what messages refer to, oldest first.
struct Reader<'r> {
    ask: Ask<'r>,
    /// How many more images are left out because there are too many, or they have too many bytes.
    images_beyond: Cell<usize>,
    /// How many more documents are given as text because they have too many bytes.
    documents_beyond: Cell<usize>,
}

impl<'r> Reader<'r> {
    fn user_parts(&self, content: &'r Content) -> Vec<Part<'r>> {
        let mut parts: Vec<Part<'r>> = match content {
            Content::Text(text) => vec![Part::text(text)],
            Content::Blocks(blocks) => blocks
                .iter()
                .filter_map(|block| match block {
                    Block::Text(text) => Some(Part::text(text)),
                    Block::Image { url } => Some(self.stand_in(url).map_or(Part::Image(url), Part::text)),
                    Block::Document { id, .. } => {
                        self.ask.request.documents.get(id).map(|document| self.document(document))
                    }
                    Block::Thinking { .. } | Block::ToolUse(_) => None,
                })
                .collect(),
        };
        parts.retain(|part| !matches!(part, Part::Text(text) if text.trim().is_empty()));
        if parts.is_empty() {
            parts.push(Part::text(EMPTY));
        }
        parts
    }

    /// A document that the provider may take as it is; its text where there is nothing else or that was refused.
    fn document(&self, document: &'r DocumentContent) -> Part<'r> {
        match &document.base64 {
            Some(base64)
                if !self.ask.learned.media.contains(&MediaDigest::of(base64)) && !is_one_of(&self.documents_beyond) =>
            {
                Part::Document(document)
            }
            Some(_) | None => Part::text(&document.text),
        }
    }

    /// The images of a result. A refused image leaves a line in the result's text.
    fn result_images(&self, content: &'r Content, text: &mut String) -> Vec<&'r str> {
        let mut images = Vec::new();
        for block in content.blocks() {
            let Block::Image { url } = block else { continue };
            let Some(stand_in) = self.stand_in(url) else {
                images.push(url.as_str());
                continue;
            };
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(stand_in);
        }
        images
    }

    fn is_refused_proof(&self, proof: &str) -> bool {
        let refused = &self.ask.learned.media;
        !refused.is_empty() && refused.contains(&MediaDigest::of(proof))
    }

    /// What is said instead of an image that is left out.
    fn stand_in(&self, url: &str) -> Option<&'static str> {
        let learned = self.ask.learned;
        let is_refused = || !learned.media.is_empty() && learned.media.contains(&MediaDigest::of(url));
        if learned.is_blind || is_refused() {
            return Some(IMAGE_REFUSED);
        }
        is_one_of(&self.images_beyond).then_some(IMAGE_BEYOND)
    }
}

/// Counts one medium down. `true` while there are media left to leave out.
fn is_one_of(left: &Cell<usize>) -> bool {
    let before = left.get();
    left.set(before.saturating_sub(1));
    before > 0
}

fn proven_thinking(content: &Content) -> Option<(&str, &str)> {
    content.blocks().iter().find_map(|block| match block {
        Block::Thinking { text, signature: Some(signature) } => Some((signature.as_str(), text.as_str())),
        Block::Thinking { signature: None, .. }
        | Block::Text(_)
        | Block::ToolUse(_)
        | Block::Image { .. }
        | Block::Document { .. } => None,
    })
}

fn unproven_thinking(content: &Content) -> Option<&str> {
    content.blocks().iter().find_map(|block| match block {
        Block::Thinking { text, signature: None } if !text.trim().is_empty() => Some(text.as_str()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use everturn_core::{CallId, Json};

    use super::*;
    use crate::{
        model::ModelRequest,
        provider::{catalog::Known, learned::Learned, wire::Settings},
    };

    fn check(messages: Vec<Message>, result_images: ResultImages, look: impl FnOnce(Vec<Entry<'_>>)) {
        let request = ModelRequest { messages: messages.into(), ..ModelRequest::default() };
        let (settings, learned) = (Settings::default(), Learned::default());
        let ask = Ask {
            from: "p/m",
            model: "m",
            settings: &settings,
            known: Known::default(),
            learned: &learned,
            request: &request,
            without_proofs: false,
            ends_with_wish: false,
        };
        look(entries(&ask, result_images));
    }

    #[test]
    fn neighbours_are_joined_and_empty_messages_filled_or_dropped() {
        let messages = vec![
            Message::user(""),
            Message::assistant(" "),
            Message::user("hello"),
            Message::assistant("hi"),
            Message::user("again"),
        ];
        check(messages, ResultImages::Inline, |entries| {
            assert_eq!(
                entries,
                vec![
                    Entry::User(vec![Part::text(EMPTY), Part::text("hello")]),
                    Entry::Assistant { thinking: None, unproven: None, text: "hi".into(), calls: vec![] },
                    Entry::User(vec![Part::text("again")]),
                ]
            );
        });
    }

    #[test]
    fn images_of_results_can_follow_from_the_user() {
        let call = ToolUse { id: CallId::new("call_1"), name: "camera".into(), input: Json::empty_object() };
        let image = Content::Blocks(vec![Block::Image { url: "https://example.com/a.png".into() }]);
        let messages = vec![
            Message::user("look"),
            Message::Assistant { content: Content::Blocks(vec![Block::ToolUse(call.clone())]) },
            Message::Tool { call_id: CallId::new("call_1"), content: image, is_error: false },
            Message::user("well?"),
        ];
        let result = |text: &str, images| ToolResult {
            call_id: "call_1",
            name: "camera",
            text: text.to_owned(),
            images,
            is_error: false,
        };
        let url = "https://example.com/a.png";
        check(messages.clone(), ResultImages::FromUser, |entries| {
            assert_eq!(
                entries[2..],
                [
                    Entry::Results(vec![result(RESULT_IS_IMAGE, vec![])]),
                    Entry::User(vec![Part::text(IMAGES_FOLLOW), Part::Image(url), Part::text("well?")]),
                ]
            );
        });
        check(messages, ResultImages::Inline, |entries| {
            assert_eq!(
                entries[2..],
                [Entry::Results(vec![result("", vec![url])]), Entry::User(vec![Part::text("well?")])]
            );
        });
    }
}
