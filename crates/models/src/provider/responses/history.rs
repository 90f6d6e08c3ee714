//! The conversation as a list of items.
//!
//! An item of reasoning goes back where it was, directly before the item that it led to. The provider refuses reasoning
//! without such an item, and reasoning that another model gave.

use std::{borrow::Cow, collections::HashSet};

use everturn_core::ToolUse;
use serde::Serialize;
use serde_json::Value;

use super::{NAME, Own};
use crate::provider::{
    call_ids::{CallIds, Shape},
    history::{Entry, Part, ResultImages, ToolResult, entries},
    image::{Image, UNREADABLE},
    openai::pdf,
    proof::{self, Placed},
    wire::Ask,
};

/// The longest id of a call.
const MAX_CALL_ID: usize = 64;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Item<'a> {
    Message {
        role: &'static str,
        content: Content<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
    },
    Reasoning {
        id: String,
        summary: Vec<Value>,
        encrypted_content: String,
    },
    FunctionCall {
        call_id: Cow<'a, str>,
        name: &'a str,
        arguments: &'a str,
    },
    FunctionCallOutput {
        call_id: Cow<'a, str>,
        output: Content<'a>,
    },
    #[serde(untagged)]
    Other(Value),
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(String),
    Parts(Vec<InputPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type")]
pub(super) enum InputPart<'a> {
    #[serde(rename = "input_text")]
    Text { text: Cow<'a, str> },
    #[serde(rename = "input_image")]
    Image { image_url: &'a str, detail: &'static str },
    #[serde(rename = "input_file")]
    File { filename: &'a str, file_data: String },
}

impl<'a> InputPart<'a> {
    fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text { text: text.into() }
    }

    fn image(url: &'a str) -> Self {
        match Image::of(url) {
            Image::Unreadable => Self::text(UNREADABLE),
            Image::Address(_) | Image::Data { .. } => Self::Image { image_url: url, detail: "auto" },
        }
    }
}

impl<'a> Item<'a> {
    /// An instruction within the conversation.
    pub(super) fn developer(text: &'a str) -> Self {
        let content = Content::Parts(vec![InputPart::text(text)]);
        Self::Message { role: "developer", content, phase: None }
    }

    fn assistant(text: String, phase: Option<String>) -> Self {
        Self::Message { role: "assistant", content: Content::Text(text), phase }
    }
}

/// Adds the conversation to a request's items.
pub(super) fn write<'a>(ask: &Ask<'a>, items: &mut Vec<Item<'a>>) {
    let mut ids = CallIds::new(Shape::AtMost(MAX_CALL_ID));
    let mut reasoning_ids = HashSet::new();
    for entry in entries(ask, ResultImages::Inline) {
        match entry {
            Entry::System(text) => items.push(Item::developer(text)),
            Entry::User(parts) => {
                let content = Content::Parts(parts.into_iter().map(|part| user_part(ask, part)).collect());
                items.push(Item::Message { role: "user", content, phase: None });
            }
            Entry::Assistant { thinking, text, calls, .. } => {
                let record = thinking.map(|(record, _)| record).filter(|_| !ask.without_proofs);
                let answer = record.and_then(|record| recorded(record, ask.from, &text, &calls, &mut ids));
                let mut answer = answer.unwrap_or_else(|| plain(&text, &calls, &mut ids));
                // The provider refuses the same item twice.
                answer.retain(|item| match item {
                    Item::Reasoning { id, .. } => reasoning_ids.insert(id.clone()),
                    _ => true,
                });
                while matches!(answer.last(), Some(Item::Reasoning { .. })) {
                    answer.pop();
                }
                items.append(&mut answer);
            }
            Entry::Results(results) => items.extend(results.into_iter().map(|result| output(result, &mut ids))),
        }
    }
}

/// An answer as text and calls alone.
fn plain<'a>(text: &str, calls: &[&'a ToolUse], ids: &mut CallIds<'a>) -> Vec<Item<'a>> {
    let mut items = Vec::new();
    if !text.trim().is_empty() {
        items.push(Item::assistant(text.to_owned(), None));
    }
    items.extend(calls.iter().map(|call| function_call(call, ids)));
    items
}

/// An answer as this very model gave it. `None` if it is another's, or no longer what was recorded.
fn recorded<'a>(
    record: &str,
    from: &str,
    text: &str,
    calls: &[&'a ToolUse],
    ids: &mut CallIds<'a>,
) -> Option<Vec<Item<'a>>> {
    let proof = proof::read::<Own>(NAME, record).filter(|proof| proof.from == from)?;
    let mut calls_left = calls.iter();
    let mut items = Vec::new();
    let mut message = String::new();
    let say = |items: &mut Vec<Item<'a>>, message: &mut String, phase: Option<String>| {
        let text = std::mem::take(message);
        if !text.trim().is_empty() {
            items.push(Item::assistant(text, phase));
        }
    };
    for piece in proof.place(text, calls)? {
        match piece {
            Placed::Text(text) => message.push_str(text),
            Placed::Own(Own::Message { phase }) => say(&mut items, &mut message, phase),
            Placed::Own(Own::Gap) => message.clear(),
            Placed::Own(Own::Reasoning { id, summary, encrypted_content }) => {
                say(&mut items, &mut message, None);
                items.push(Item::Reasoning { id, summary, encrypted_content });
            }
            Placed::Own(Own::Item(item)) => {
                say(&mut items, &mut message, None);
                items.push(Item::Other(item));
            }
            Placed::Call(_) => {
                say(&mut items, &mut message, None);
                // Their own references live longer than the ones in `Placed`, which borrow from the text too.
                items.extend(calls_left.next().map(|call| function_call(call, ids)));
            }
        }
    }
    say(&mut items, &mut message, None);
    Some(items)
}

fn function_call<'a>(call: &'a ToolUse, ids: &mut CallIds<'a>) -> Item<'a> {
    Item::FunctionCall { call_id: ids.of(call.id.as_str()), name: &call.name, arguments: call.input.as_str() }
}

fn output<'a>(result: ToolResult<'a>, ids: &mut CallIds<'a>) -> Item<'a> {
    let ToolResult { call_id, text, images, .. } = result;
    let output = if images.is_empty() {
        Content::Text(text)
    } else {
        let text = Some(text).filter(|text| !text.is_empty()).map(InputPart::text);
        Content::Parts(text.into_iter().chain(images.into_iter().map(InputPart::image)).collect())
    };
    Item::FunctionCallOutput { call_id: ids.of(call_id), output }
}

fn user_part<'a>(ask: &Ask<'a>, part: Part<'a>) -> InputPart<'a> {
    match part {
        Part::Text(text) => InputPart::text(text),
        Part::Image(url) => InputPart::image(url),
        Part::Document(document) => match pdf(document).filter(|_| ask.known.pdf != Some(false)) {
            Some(base64) => {
                InputPart::File { filename: &document.name, file_data: format!("data:application/pdf;base64,{base64}") }
            }
            None => InputPart::text(document.text.as_str()),
        },
    }
}
