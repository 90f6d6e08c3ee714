//! Images and documents that a provider refuses to read.

use everturn_core::{Block, Message};
use serde_json::Value;

use super::{
    Change, is_quoted,
    path::{self, Step},
};
use crate::{
    model::ModelRequest,
    provider::{
        failure::{Report, number_after},
        learned::{ImageForm, Learned, MediaDigest},
    },
};

/// How providers say that a model reads no images at all.
const BLIND: &[&str] = &[
    "image input is not supported",
    "not support image",
    "does not support images",
    "support image input",
    "not a multimodal model",
    "no support for images",
    "does not have vision",
    "missing data required for image input",
    "image_url is only supported by certain models",
];

/// What the errors about single images and documents have in common.
const ABOUT_MEDIA: &[&str] = &[
    "image",
    "pdf",
    "document",
    "media",
    "file_data",
    "inline_data",
    "inlinedata",
    "download",
    "robots.txt",
    "multimodal",
    "mmproj",
];

/// How servers say that an image is broken where they take that for a fault of their own.
const BROKEN: &[&str] = &[
    "cannot identify image file",
    "image: unknown format",
    "invalid image",
    "failed to decode image",
    "failed to load image",
    "failed to process image",
    "could not decode image",
    "unable to decode image",
];

/// How providers speak of formats of images.
const FORMATS: &[&str] =
    &["webp", "gif", "jpeg", "jpg", "png", "format", "mime", "media type", "content type", "content-type"];

/// How providers speak of the size of an image.
const SIZES: &[&str] =
    &["too large", "too big", "exceed", "size", "pixel", "dimension", "resolution", "width", "height", "bytes", " mb"];

/// How providers say that they could not fetch something just now.
const PASSING: &[&str] = &["timeout", "timed out"];

/// One image or document of a request.
struct Medium<'a> {
    /// Which message it stands in.
    message: usize,
    /// Its URL or its base64.
    content: &'a str,
    is_document: bool,
}

/// The change that a refusal of images or documents asks for.
pub(super) fn refused(
    report: &Report,
    words: &str,
    request: &ModelRequest,
    body: &[u8],
    learned: &Learned,
) -> Option<Change> {
    if !ABOUT_MEDIA.iter().any(|word| words.contains(word)) {
        return None;
    }
    let is_sent = |medium: &Medium<'_>| {
        !learned.media.contains(&MediaDigest::of(medium.content)) && (medium.is_document || !learned.is_blind)
    };
    let media: Vec<Medium<'_>> = media(request).into_iter().filter(is_sent).collect();
    if media.is_empty() {
        return None;
    }
    let is_blind = |phrase: &&&str| words.contains(**phrase) && !is_quoted(body, phrase);
    if media.iter().any(|medium| !medium.is_document) && BLIND.iter().any(|phrase| is_blind(&phrase)) {
        return Some(Change::AllImages);
    }
    let count = media.iter().filter(|medium| !medium.is_document).count();
    if let Some(most) = most(words, body).filter(|most| *most < count) {
        return Some(if most == 0 { Change::AllImages } else { Change::MaxImages(most) });
    }
    let is_passing = PASSING.iter().any(|phrase| words.contains(phrase));
    // What is one of several, or may be there the next time, is left out of this call only.
    let left_out = |media: Vec<MediaDigest>| match media.len() {
        1 if !is_passing => Change::Media(media),
        _ => Change::MediaOfCall(media),
    };
    if let Some(medium) = at_place(report, body, &media) {
        return Some(left_out(vec![MediaDigest::of(medium.content)]));
    }
    // Without a place, the newest ones are the likeliest: older ones were taken before.
    let speaks_of_documents = ["pdf", "document", "file"].iter().any(|word| words.contains(word));
    let is_meant = |medium: &&Medium<'_>| speaks_of_documents || !medium.is_document;
    let newest = media.iter().filter(is_meant).map(|medium| medium.message).max()?;
    let meant = media.iter().filter(is_meant).filter(|medium| medium.message == newest);
    Some(left_out(meant.map(|medium| MediaDigest::of(medium.content)).collect()))
}

/// Whether a server that reports a fault of its own has met a broken image.
pub(super) fn is_broken(words: &str, body: &[u8]) -> bool {
    BROKEN.iter().any(|phrase| words.contains(phrase) && !is_quoted(body, phrase))
}

/// The form in which refused images may be taken, if a refusal leaves hope.
pub(super) fn form(report: &Report, change: &Change) -> Option<ImageForm> {
    let words = report.words().to_lowercase();
    let has = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    match change {
        // A model may read images, and none of this format.
        Change::AllImages => has(FORMATS).then_some(ImageForm::Plain),
        Change::Media(_) | Change::MediaOfCall(_) if has(SIZES) || !has(ABOUT_MEDIA) => Some(ImageForm::Small),
        Change::Media(_) | Change::MediaOfCall(_) => Some(ImageForm::Plain),
        _ => None,
    }
}

/// The most images that a model takes in one request, where a refusal names that number: "At most 1 image(s) may be
/// provided", "Too many images in request. Expected at most 8, got 9."
fn most(words: &str, body: &[u8]) -> Option<usize> {
    ["at most ", "up to ", "maximum of ", "limit of "].iter().find_map(|marker| {
        let most = number_after(words, marker)?;
        let (_, rest) = words.split_once(&format!("{marker}{most}"))?;
        let is_of_images = rest.trim_start().starts_with("image") || words.contains("too many images");
        // A few letters may stand in any picture.
        let phrase = format!("{marker}{most}{}", rest.chars().take(12).collect::<String>());
        (is_of_images && !is_quoted(body, &phrase)).then_some(usize::try_from(most).ok()?)
    })
}

/// All images and documents that were sent.
pub(super) fn all(request: &ModelRequest, learned: &Learned) -> Option<Change> {
    let digests = media(request).into_iter().map(|medium| MediaDigest::of(medium.content));
    let sent: Vec<_> = digests.filter(|digest| !learned.media.contains(digest)).collect();
    match sent.len() {
        0 => None,
        1 => Some(Change::Media(sent)),
        _ => Some(Change::MediaOfCall(sent)),
    }
}

/// The images and documents that were not refused before, oldest first.
pub(super) fn sent(request: &ModelRequest, learned: &Learned) -> Vec<(MediaDigest, Block)> {
    let blocks = request.messages.iter().flat_map(|message| match message {
        Message::User { content } | Message::Tool { content, .. } => content.blocks(),
        Message::System { .. } | Message::Assistant { .. } => &[],
    });
    let sent = blocks.filter_map(|block| {
        let content = match block {
            Block::Image { url } if !learned.is_blind => url.as_str(),
            Block::Document { id, .. } => request.documents.get(id)?.base64.as_deref()?,
            Block::Image { .. } | Block::Text(_) | Block::Thinking { .. } | Block::ToolUse(_) => return None,
        };
        Some((MediaDigest::of(content), block.clone()))
    });
    sent.filter(|(digest, _)| !learned.media.contains(digest)).collect()
}

fn media(request: &ModelRequest) -> Vec<Medium<'_>> {
    let mut media = Vec::new();
    for (message, content) in request.messages.iter().enumerate() {
        let blocks = match content {
            Message::User { content } | Message::Tool { content, .. } => content.blocks(),
            Message::System { .. } | Message::Assistant { .. } => &[],
        };
        media.extend(blocks.iter().filter_map(|block| match block {
            Block::Image { url } => Some(Medium { message, content: url, is_document: false }),
            Block::Document { id, .. } => {
                let content = request.documents.get(id)?.base64.as_deref()?;
                Some(Medium { message, content, is_document: true })
            }
            Block::Text(_) | Block::Thinking { .. } | Block::ToolUse(_) => None,
        }));
    }
    media
}

/// The one that stands where the error points to.
fn at_place<'m, 'a>(report: &Report, body: &[u8], media: &'m [Medium<'a>]) -> Option<&'m Medium<'a>> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let texts = [report.param(), Some(report.words())];
    let place = texts.into_iter().flatten().find_map(|text| {
        ["messages", "input", "contents"].iter().find_map(|root| Some((body.get(root)?, path::after(text, root)?)))
    });
    let (root, steps) = place?;
    // A place that is only a message says too little where there are several.
    let indexes = steps.iter().filter(|step| matches!(step, Step::Index(_))).count();
    let found: Vec<_> = {
        let value = path::walk(root, &steps);
        media.iter().filter(|medium| holds(value, medium.content)).collect()
    };
    if indexes > 1 || found.len() == 1 { found.into_iter().next() } else { None }
}

/// Whether a value holds an image or document, whole or as the base64 of its data URL.
fn holds(value: &Value, content: &str) -> bool {
    const SHORTEST: usize = 8;
    match value {
        Value::String(text) => text.len() >= SHORTEST && (content.ends_with(text.as_str()) || text.ends_with(content)),
        Value::Array(values) => values.iter().any(|value| holds(value, content)),
        Value::Object(fields) => fields.values().any(|value| holds(value, content)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
