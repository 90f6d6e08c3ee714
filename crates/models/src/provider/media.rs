//! Images in the formats and sizes that a wire takes.
//!
//! A provider that cannot read an image refuses the whole request, and the image stays in the history. So every image is
//! looked at before it is sent: its type is corrected, its format converted, its size reduced, and an image that the vendor
//! is known not to read is replaced by a line of text. The same image becomes the same bytes each time, since providers recognise what
//! they have cached, and reasoned about, by its bytes.

mod cache;
mod convert;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use everturn_core::{Block, Content, Message, Messages};
use tokio::{sync::Semaphore, task::spawn_blocking};

use self::{
    cache::{Cache, Key},
    convert::{Outcome, convert},
};
use super::{
    learned::{ImageForm, MediaDigest},
    wire::{Settings, Wire},
};
use crate::model::ModelRequest;

/// How many images are decoded at a time, each of which may take [`convert::MAX_MEMORY`].
const MAX_CONVERSIONS: usize = 2;

/// The formats that every server reads that reads images at all.
const PLAIN: &[&str] = &["image/png", "image/jpeg"];

/// How often one image can take another form: first another format, then another size.
const MAX_FORMS: usize = 2;

static CACHE: LazyLock<Arc<Cache>> = LazyLock::new(Arc::default);
static CONVERSIONS: Semaphore = Semaphore::const_new(MAX_CONVERSIONS);

/// What a provider takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Media types.
    types: &'static [&'static str],
    /// The most pixels of a side.
    side: u32,
    /// The longest data URL.
    bytes: usize,
}

impl Limits {
    /// The limits of the provider that `wire` leads to, which may be another than the wire's inventor.
    pub(super) fn of(wire: &dyn Wire, settings: &Settings) -> Self {
        let (side, bytes) = match wire.name() {
            // Anthropic takes sides of 8000 pixels, but only of 2000 once a request has more than 20 images. To shrink the
            // earlier images when the 21st arrives would invalidate all reasoning since, so 2000 holds from the
            // beginning; the vendor itself scales images to about that. Other hosts of Claude take half the bytes.
            "anthropic" if settings.is_official => (2000, 10_000_000),
            "anthropic" => (2000, 5_000_000),
            _ => (8000, 20_000_000),
        };
        // xAI reads no others, whichever wire it is spoken to by.
        let types = if settings.is_at("x.ai") { PLAIN } else { wire.images() };
        Self { types, side, bytes }
    }

    /// The limits of an image that was refused, in the form that it is sent in next.
    fn of_form(self, form: ImageForm) -> Self {
        match form {
            ImageForm::Plain => Self { types: PLAIN, ..self },
            // About what vendors scale images to themselves, and less than any known limit on bytes.
            ImageForm::Small => Self { types: PLAIN, side: self.side.min(1568), bytes: self.bytes.min(1_000_000) },
        }
    }
}

/// The request with every image in a form that the provider takes. Images that cannot be brought into one are replaced by
/// a line of text. Images by address stay as they are.
pub(super) async fn readable(request: ModelRequest, limits: Limits) -> ModelRequest {
    if !has_data(&request.messages) {
        return request;
    }
    let outcomes = outcomes(&request.messages, move |_| Some(limits), &CACHE).await;
    match replaced(&request.messages, outcomes) {
        Some(messages) => ModelRequest { messages, ..request },
        None => request,
    }
}

/// Gives images that were refused the forms that they are sent in instead. Nothing where no image changes.
pub(super) async fn in_other_forms(
    messages: &Messages,
    forms: &HashMap<MediaDigest, ImageForm>,
    limits: Limits,
) -> Option<Messages> {
    let mut changed = None;
    for _ in 0..MAX_FORMS {
        let messages: &Messages = changed.as_ref().unwrap_or(messages);
        if forms.is_empty() || !has_data(messages) {
            break;
        }
        let forms = forms.clone();
        let form = move |url: &str| forms.get(&MediaDigest::of(url)).map(|form| limits.of_form(*form));
        let mut outcomes = outcomes(messages, form, &CACHE).await;
        // What cannot be converted stays, for the caller to leave out.
        for outcome in outcomes.iter_mut().filter(|outcome| matches!(outcome, Outcome::LeftOut(_))) {
            *outcome = Outcome::Same;
        }
        match replaced(messages, outcomes) {
            Some(messages) => changed = Some(messages),
            None => break,
        }
    }
    changed
}

/// What becomes of each image. One without limits stays.
async fn outcomes(
    messages: &Messages,
    limits: impl Fn(&str) -> Option<Limits> + Send + 'static,
    cache: &Arc<Cache>,
) -> Vec<Outcome> {
    let keys: Vec<Option<(Key, Limits)>> = {
        let messages = messages.clone();
        let key = move |url: &str| limits(url).map(|limits| (Key::of(url, limits), limits));
        // Digests of many megabytes, for each step of a turn.
        let digests = spawn_blocking(move || images(&messages).map(key).collect());
        digests.await.unwrap_or_default()
    };
    let mut outcomes = Vec::with_capacity(keys.len());
    for (index, key) in keys.into_iter().enumerate() {
        let Some((key, limits)) = key else {
            outcomes.push(Outcome::Same);
            continue;
        };
        outcomes.push(match cache.get(&key) {
            Some(outcome) => outcome,
            None => {
                let outcome = convert_one(messages, index, limits).await;
                cache.put(key, outcome.clone());
                outcome
            }
        });
    }
    outcomes
}

/// The messages where some image must change; nothing where all stay.
fn replaced(messages: &Messages, outcomes: Vec<Outcome>) -> Option<Messages> {
    if outcomes.iter().all(|outcome| matches!(outcome, Outcome::Same)) {
        return None;
    }
    let mut outcomes = outcomes.into_iter();
    let replaced = messages.iter().map(|message| {
        let mut message = message.clone();
        if let Message::User { content: Content::Blocks(blocks) }
        | Message::Tool { content: Content::Blocks(blocks), .. } = &mut message
        {
            for block in blocks {
                replace(block, &mut outcomes);
            }
        }
        message
    });
    Some(replaced.collect())
}

async fn convert_one(messages: &Messages, index: usize, limits: Limits) -> Outcome {
    // Never closed. The permit goes along, since a conversion goes on when its caller does not wait for it any longer.
    let permit = CONVERSIONS.acquire().await;
    let messages = messages.clone();
    let outcome = spawn_blocking(move || {
        let _permit = permit;
        images(&messages).nth(index).map(|url| convert(url, limits))
    });
    // A decoder that panics has found data that it does not expect.
    outcome.await.ok().flatten().unwrap_or(Outcome::LeftOut(convert::BROKEN.into()))
}

fn replace(block: &mut Block, outcomes: &mut impl Iterator<Item = Outcome>) {
    let Block::Image { url } = block else { return };
    if !convert::is_data(url) {
        return;
    }
    match outcomes.next() {
        Some(Outcome::Same) | None => {}
        Some(Outcome::Converted(converted)) => *url = converted.into(),
        Some(Outcome::LeftOut(reason)) => *block = Block::Text(format!("[An image was left out here: {reason}.]")),
    }
}

fn has_data(messages: &Messages) -> bool {
    messages.size().images > 0 && images(messages).next().is_some()
}

/// The data URLs of all images, in order.
fn images(messages: &Messages) -> impl Iterator<Item = &str> {
    let contents = messages.iter().filter_map(|message| match message {
        Message::User { content } | Message::Tool { content, .. } => Some(content),
        Message::Assistant { .. } | Message::System { .. } => None,
    });
    contents.flat_map(Content::blocks).filter_map(|block| match block {
        Block::Image { url } if convert::is_data(url) => Some(url.as_str()),
        Block::Image { .. } | Block::Text(_) | Block::Thinking { .. } | Block::ToolUse(_) | Block::Document { .. } => {
            None
        }
    })
}
