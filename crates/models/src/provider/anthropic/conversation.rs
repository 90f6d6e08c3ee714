//! The conversation as the wire writes it: every block once, in order, and each answer's thinking where it still counts.

use std::collections::{HashMap, HashSet};

use everturn_core::{Json, ToolUse};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{
    models::Rules,
    proof::{self, Own},
};
use crate::{
    model::DocumentContent,
    provider::{
        binding,
        history::{self, Entry, Part, ResultImages, ToolResult},
        image::{self, Image},
        proof::{Piece as RecordPiece, Placed, Prefix, Proof, read},
        wire::Ask,
    },
};

/// Stands for the output of a failed call that said nothing: the API refuses an error without a text.
const NO_OUTPUT: &str = "(no output)";
/// Leads the images of failed calls, whose results may hold text only.
const IMAGES_OF_FAILED: &str = "The images of the failed tool calls above:";

/// A conversation, ready to be sent.
pub(super) struct Conversation {
    pub(super) messages: Vec<Message>,
    /// The digest of the request, and the number of answers whose thinking is in it.
    pub(super) prefix: String,
    /// Whether a model that must begin its calls with thinking has done so in the calls that are being answered.
    pub(super) may_begin: bool,
}

#[derive(Serialize)]
pub(super) struct Message {
    pub(super) role: Role,
    pub(super) content: Vec<Box<RawValue>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    User,
    Assistant,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        title: &'a str,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a Json,
    },
    ToolResult {
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Block<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Url { url: &'a str },
    Base64 { media_type: &'a str, data: &'a str },
}

/// A block, written.
struct Piece {
    json: Box<RawValue>,
    is_thinking: bool,
}

/// An entry of history as blocks.
struct Turn {
    role: Role,
    pieces: Vec<Piece>,
    /// Whether it answers a user rather than calls.
    is_from_user: bool,
    has_calls: bool,
    /// See [`binding::count_after`]; set where the thinking in it is valid.
    count: Option<usize>,
}

/// Writes the conversation that follows `prefix`, the digest of instructions and tools.
pub(super) fn write(ask: &Ask<'_>, rules: &Rules, prefix: Prefix) -> Result<Conversation, serde_json::Error> {
    let mut writer = Writer { ask, rules, prefix, ids: HashMap::new(), used: HashSet::new() };
    let entries = history::entries(ask, ResultImages::Inline);
    let mut turns = entries.iter().map(|entry| writer.turn(entry)).collect::<Result<Vec<_>, _>>()?;
    let counts: Vec<usize> = turns.iter().filter_map(|turn| turn.count).collect();
    let kept = if ask.without_proofs { 0 } else { binding::run(&counts) };
    let mut dropped = counts.len() - kept;
    let mut may_begin = true;
    let mut messages: Vec<Message> = Vec::new();
    for turn in &mut turns {
        let keeps = turn.count.is_some() && {
            let is_kept = dropped == 0;
            dropped = dropped.saturating_sub(1);
            is_kept
        };
        turn.pieces.retain(|piece| keeps || !piece.is_thinking);
        if turn.is_from_user {
            may_begin = true;
        } else if turn.role == Role::Assistant {
            may_begin = !turn.has_calls || turn.pieces.first().is_some_and(|piece| piece.is_thinking);
        }
        let mut content: Vec<Box<RawValue>> = turn.pieces.drain(..).map(|piece| piece.json).collect();
        // Results come from the user here, so that a user's message may follow them: the wire wants both as one.
        match messages.last_mut() {
            Some(last) if last.role == turn.role => last.content.append(&mut content),
            Some(_) | None => messages.push(Message { role: turn.role, content }),
        }
    }
    Ok(Conversation { messages, prefix: binding::prefix(&writer.prefix.digest(), kept), may_begin })
}

struct Writer<'a> {
    ask: &'a Ask<'a>,
    rules: &'a Rules,
    /// The digest of all blocks so far but thinking.
    prefix: Prefix,
    /// The ids of calls on the wire, by those in history, where they differ.
    ids: HashMap<String, String>,
    /// The ids on the wire so far.
    used: HashSet<String>,
}

impl<'a> Writer<'a> {
    fn turn(&mut self, entry: &Entry<'a>) -> Result<Turn, serde_json::Error> {
        let mut turn =
            Turn { role: Role::User, pieces: Vec::new(), is_from_user: false, has_calls: false, count: None };
        match entry {
            Entry::System(text) => {
                turn.is_from_user = true;
                self.push(&mut turn, &Block::Text { text: &history::system_as_text(text) })?;
            }
            Entry::User(parts) => {
                turn.is_from_user = true;
                for part in parts {
                    self.push(&mut turn, &self.user_block(part))?;
                }
            }
            Entry::Results(results) => {
                for result in results {
                    let id = self.wire_id(result.call_id);
                    self.push(&mut turn, &result_block(&id, result))?;
                }
                let failed = results.iter().filter(|result| result.is_error);
                let images: Vec<&str> = failed.flat_map(|result| result.images.iter().copied()).collect();
                if !images.is_empty() {
                    self.push(&mut turn, &Block::Text { text: IMAGES_OF_FAILED })?;
                }
                for url in images {
                    self.push(&mut turn, &image_block(url))?;
                }
            }
            Entry::Assistant { thinking, text, calls, .. } => {
                turn.role = Role::Assistant;
                turn.has_calls = !calls.is_empty();
                self.answer(&mut turn, *thinking, text, calls)?;
            }
        }
        Ok(turn)
    }

    /// Adds a block to the turn and, unless it is thinking, to the digest.
    fn push(&mut self, turn: &mut Turn, block: &Block<'_>) -> Result<(), serde_json::Error> {
        let is_thinking = matches!(block, Block::Thinking { .. } | Block::RedactedThinking { .. });
        let json = to_raw_value(block)?;
        if !is_thinking {
            self.prefix.add(if turn.role == Role::User { b"user" } else { b"assistant" });
            self.prefix.add(json.get().as_bytes());
        }
        turn.pieces.push(Piece { json, is_thinking });
        Ok(())
    }

    /// An answer as it was given; without thinking where that does not count here.
    fn answer(
        &mut self,
        turn: &mut Turn,
        thinking: Option<(&str, &str)>,
        text: &str,
        calls: &[&ToolUse],
    ) -> Result<(), serde_json::Error> {
        let record = thinking.and_then(|(record, shown)| Some((read::<Own>(super::NAME, record)?, shown)));
        let Some((record, shown)) = record else { return self.plain_answer(turn, text, calls) };
        let count = self.valid_count(&record, shown);
        let mut ids = call_ids(&record).into_iter();
        let Some(placed) = record.place(text, calls) else { return self.plain_answer(turn, text, calls) };
        turn.count = count;
        let mut shown = shown;
        // Text that is on its way into a block.
        let mut open = String::new();
        for piece in placed {
            match piece {
                Placed::Text(text) => {
                    open.push_str(text);
                    continue;
                }
                Placed::Own(Own::ToolUse { .. }) => continue,
                Placed::Own(_) | Placed::Call(_) => self.close_text(turn, &mut open)?,
            }
            match piece {
                Placed::Own(Own::Thinking { length, signature }) if count.is_some() => {
                    let Some((thinking, rest)) = shown.split_at_checked(length) else { continue };
                    shown = rest;
                    self.push(turn, &Block::Thinking { thinking, signature: &signature })?;
                }
                Placed::Own(Own::RedactedThinking { data }) if count.is_some() => {
                    self.push(turn, &Block::RedactedThinking { data: &data })?;
                }
                Placed::Call(call) => self.call(turn, call, ids.next())?,
                Placed::Own(_) | Placed::Text(_) => {}
            }
        }
        self.close_text(turn, &mut open)
    }

    fn close_text(&mut self, turn: &mut Turn, open: &mut String) -> Result<(), serde_json::Error> {
        let text = std::mem::take(open);
        // The API gives blocks without a visible character now and then, and refuses them.
        if text.trim().is_empty() { Ok(()) } else { self.push(turn, &Block::Text { text: &text }) }
    }

    /// An answer of which history has all that is known.
    fn plain_answer(&mut self, turn: &mut Turn, text: &str, calls: &[&ToolUse]) -> Result<(), serde_json::Error> {
        if !text.trim().is_empty() {
            self.push(turn, &Block::Text { text })?;
        }
        calls.iter().try_for_each(|call| self.call(turn, call, None))
    }

    /// See [`binding::count_after`]. `None` where the thinking is not to be sent.
    fn valid_count(&self, record: &Proof<Own>, shown: &str) -> Option<usize> {
        let mut length = 0_usize;
        let (mut has_thinking, mut is_signed) = (false, true);
        for piece in &record.pieces {
            let RecordPiece::Own(own) = piece else { continue };
            match own {
                Own::Thinking { length: more, signature } => {
                    length = length.saturating_add(*more);
                    has_thinking = true;
                    is_signed &= !signature.is_empty();
                }
                Own::RedactedThinking { .. } => has_thinking = true,
                Own::ToolUse { .. } | Own::Text => {}
            }
        }
        let is_whole = length == shown.len();
        // Only compatible servers take thinking back that nobody signed.
        let is_taken = is_signed || !self.rules.is_claude;
        let may_go = has_thinking && is_whole && is_taken && proof::is_readable(record, self.ask, self.rules);
        may_go.then(|| binding::count_after(record, &self.prefix.digest())).flatten()
    }

    fn call(&mut self, turn: &mut Turn, call: &ToolUse, given: Option<String>) -> Result<(), serde_json::Error> {
        let own = call.id.as_str();
        // The provider's own id, if there is one that is not in use already.
        let id = given.map(|id| call_id(&id)).filter(|id| !id.is_empty() && !self.used.contains(id));
        let id = id.unwrap_or_else(|| call_id(own));
        self.used.insert(id.clone());
        self.push(turn, &Block::ToolUse { id: &id, name: &call.name, input: &call.input })?;
        if id != own {
            self.ids.insert(own.to_owned(), id);
        }
        Ok(())
    }

    fn wire_id(&self, call: &str) -> String {
        self.ids.get(call).cloned().unwrap_or_else(|| call_id(call))
    }

    fn user_block<'p>(&self, part: &'p Part<'a>) -> Block<'p> {
        match part {
            Part::Text(text) => Block::Text { text },
            Part::Document(document) => self.document(document),
            Part::Image(url) => image_block(url),
        }
    }

    fn document<'p>(&self, document: &'p DocumentContent) -> Block<'p> {
        match document.base64.as_deref() {
            Some(data) if document.media_type == "application/pdf" && self.ask.known.pdf != Some(false) => {
                let source = Source::Base64 { media_type: "application/pdf", data };
                Block::Document { source, title: &document.name }
            }
            Some(_) | None => Block::Text { text: &document.text },
        }
    }
}

/// The ids that the API gave the calls of an answer.
fn call_ids(record: &Proof<Own>) -> Vec<String> {
    let id = |piece: &RecordPiece<Own>| match piece {
        RecordPiece::Own(Own::ToolUse { id }) => Some(id.clone()),
        _ => None,
    };
    record.pieces.iter().filter_map(id).collect()
}

fn image_block(url: &str) -> Block<'_> {
    match Image::of(url) {
        Image::Address(url) => Block::Image { source: Source::Url { url } },
        Image::Data { media_type, base64 } => Block::Image { source: Source::Base64 { media_type, data: base64 } },
        Image::Unreadable => Block::Text { text: image::UNREADABLE },
    }
}

fn result_block<'p>(id: &'p str, result: &'p ToolResult<'_>) -> Block<'p> {
    let mut content = Vec::new();
    if !result.text.trim().is_empty() {
        content.push(Block::Text { text: &result.text });
    }
    if result.is_error && content.is_empty() {
        content.push(Block::Text { text: NO_OUTPUT });
    }
    if !result.is_error {
        content.extend(result.images.iter().map(|url| image_block(url)));
    }
    Block::ToolResult { tool_use_id: id, content, is_error: result.is_error }
}

/// Ids that clients made may have characters that this wire does not take; ours never do.
fn call_id(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect()
}
