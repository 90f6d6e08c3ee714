//! Shortens messages that take too much of the context window.

use serde_json::Value;

use crate::{
    Block, CallId, Content, Json, Message, Size, ToolUse, compaction::READ_RESULT, context::PER_IMAGE,
    tokens::estimate_text,
};

/// The fewest bytes that are kept of a message.
pub(crate) const LEAST_KEPT: usize = 64;

/// A message of whose text only the beginning and the end are kept, with a note that says what is missing. Images and
/// documents become lines of the text. Of a model's answer the inputs of its calls are shortened; system messages stay as
/// they are.
pub fn shorten(message: &Message, keep: usize) -> Message {
    match message {
        Message::Tool { call_id, content, is_error } => {
            let content =
                Content::Text(ends(&content.text_and_media(), keep, |left_out| result_note(call_id, left_out)));
            Message::Tool { call_id: call_id.clone(), content, is_error: *is_error }
        }
        Message::User { content } => Message::user(ends(&content.text_and_media(), keep, message_note)),
        Message::Assistant { content: Content::Blocks(blocks) } => {
            let blocks = blocks.iter().map(|block| shorten_call(block, keep)).collect();
            Message::Assistant { content: Content::Blocks(blocks) }
        }
        Message::Assistant { content: Content::Text(_) } | Message::System { .. } => message.clone(),
    }
}

/// What is missing of a text.
#[derive(Clone, Copy, Debug)]
struct LeftOut {
    from: usize,
    bytes: usize,
    total: usize,
}

/// The beginning and the end of a text, with a note in between.
fn ends(text: &str, keep: usize, note: impl FnOnce(LeftOut) -> String) -> String {
    if text.len() <= keep {
        return text.to_owned();
    }
    // The beginning says more often what a text is about.
    let from = text.floor_char_boundary(keep - keep / 3);
    let to = text.ceil_char_boundary(text.len() - keep / 3).max(from);
    let note = note(LeftOut { from, bytes: to - from, total: text.len() });
    // A note that is longer than what it stands for is worth nothing.
    if note.len() + 2 >= to - from {
        return text.to_owned();
    }
    format!("{}\n{note}\n{}", &text[..from], &text[to..])
}

/// A text with its middle left out, for a summary or a transcript.
pub fn shorten_text(text: &str, keep: usize) -> String {
    ends(text, keep, |left_out| format!("[{} bytes are left out here]", left_out.bytes))
}

/// A text with its middle left out, so that it has about so many tokens at most.
pub fn shorten_text_to(text: &str, tokens: u64) -> String {
    let all = estimate_text(text);
    if all <= tokens { text.to_owned() } else { shorten_text(text, scaled(text.len(), tokens, all)) }
}

/// About as many bytes of a message as these tokens have, with room for a note. Dense text has fewer.
pub(crate) fn bytes(message: &Message, tokens: u64) -> usize {
    const NOTE: usize = 160;
    let Size { bytes, tokens: all, images, .. } = Size::of(std::slice::from_ref(message));
    let text = all.saturating_sub(images * PER_IMAGE);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    scaled(bytes, tokens, text).saturating_sub(NOTE).max(LEAST_KEPT)
}

/// A number of bytes, by the ratio of two numbers of tokens.
pub(crate) fn scaled(bytes: usize, tokens: u64, of: u64) -> usize {
    let scaled = bytes as u128 * u128::from(tokens) / u128::from(of.max(1));
    usize::try_from(scaled).unwrap_or(usize::MAX)
}

fn result_note(call: &CallId, LeftOut { from, bytes, total }: LeftOut) -> String {
    let id = call.as_str();
    format!(
        "[{bytes} of {total} bytes are left out here. Call {READ_RESULT} with call_id {id:?} and offset {from} to read them.]"
    )
}

fn message_note(LeftOut { bytes, total, .. }: LeftOut) -> String {
    format!("[{bytes} of {total} bytes of this message are left out here: all of it does not fit the context window.]")
}

/// The tokens of the inputs of an answer's calls.
pub(crate) fn input_tokens(message: &Message) -> u64 {
    message.tool_uses().map(|call| estimate_text(call.input.as_str())).sum()
}

fn shorten_call(block: &Block, keep: usize) -> Block {
    match block {
        Block::ToolUse(call) if call.input.as_str().len() > keep => {
            Block::ToolUse(ToolUse { input: shorten_input(&call.input, keep), ..call.clone() })
        }
        // A proof has the whole answer in it, as the provider gave it.
        Block::Thinking { text, .. } => Block::Thinking { text: text.clone(), signature: None },
        Block::ToolUse(_) | Block::Text(_) | Block::Document { .. } | Block::Image { .. } => block.clone(),
    }
}

/// The same input with shorter texts; if there is too much else in it, a note alone.
fn shorten_input(input: &Json, keep: usize) -> Json {
    let mut value = input.to_value();
    let mut long = 0_usize;
    each_text(&mut value, &mut |text| long += usize::from(text.len() > keep / 8));
    let share = keep / long.max(1);
    each_text(&mut value, &mut |text| *text = ends(text, share, input_note));
    let total = input.as_str().len();
    let is_short = |json: &Json| json.as_str().len() <= keep.saturating_mul(2);
    let note = || serde_json::json!({ "left_out": input_note(LeftOut { from: 0, bytes: total, total }) });
    Json::of(&value).ok().filter(is_short).or_else(|| Json::of(&note()).ok()).unwrap_or_else(Json::empty_object)
}

fn each_text(value: &mut Value, change: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|field| each_text(field, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn input_note(LeftOut { bytes, total, .. }: LeftOut) -> String {
    format!("[{bytes} of {total} bytes are left out here to save room. The call was made with all of them.]")
}
