//! The history that a model is given.
//!
//! Full history is exact and may be anything that clients sent and crashes left. Providers are strict. [`normalise`]
//! turns the one into the other; [`compact`] and [`cut`] keep it within the context window.

use std::collections::HashSet;

pub use crate::tokens::estimate_text;
use crate::{Block, CallId, Compaction, Content, DocumentId, Message, Role, ToolSpec, ToolUse};

/// What a call that never got a result is answered with.
pub const INTERRUPTED: &str = "Tool call interrupted: it gave no result";
/// Opens a conversation whose first words are not the user's.
const OPENING: &str = "(the conversation goes on)";

/// A conversation in the form that every provider takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversation {
    /// The system messages that the history begins with, in order.
    pub system: Vec<String>,
    /// Begins with the user, alternates between user and assistant (an assistant's calls are followed by one result
    /// each, in call order), has no empty ones. A system message that came later stands where it came, never between a
    /// call and its result: what a provider was sent stays the beginning of what it is sent next.
    pub messages: Vec<Message>,
}

/// What a model is given of full history after a compaction: system messages that are covered, the first user message, the
/// summary, the current user message if it is covered, then everything that is not covered.
///
/// Only grows: for a compaction that was made of a history, messages that come later are added at the end as they are.
pub fn compact(history: &[Message], compaction: Option<&Compaction>) -> Vec<Message> {
    let Some(compaction) = compaction else { return history.to_vec() };
    let covered = compaction.covers.min(history.len());
    let given = |at: usize| compaction.given(at, &history[at]);
    let kept = |at: Option<usize>| at.filter(|at| *at < covered).map(given);
    let standing = history[..covered].iter().filter(|message| matches!(message, Message::System { .. }));
    let mut compacted: Vec<_> = standing.cloned().collect();
    compacted.extend(kept(compaction.first));
    compacted.extend(compaction.stand_in());
    compacted.extend(kept(compaction.current));
    compacted.extend((covered..history.len()).map(given));
    compacted
}

/// Any history in the form that every provider takes. Calls without a result get one that says so.
pub fn normalise(history: &[Message]) -> Conversation {
    let (mut conversation, mut builder) = build(history, Order::Calls, None);
    builder.close_calls();
    conversation.messages = builder.messages;
    conversation
}

/// As [`normalise`], for messages that go on after others: the next turn, or the next steps of one. A user's message stays
/// a message of its own, also after another one.
pub fn normalise_next(messages: &[Message], before: Before<'_>) -> Vec<Message> {
    let (_, mut builder) = build(messages, Order::Calls, Some(before));
    builder.close_calls();
    builder.messages
}

/// A conversation whose calls are all answered, and that goes on.
#[derive(Clone, Copy, Debug)]
pub struct Before<'a> {
    /// Who speaks last in it.
    pub last: Role,
    /// The calls in it.
    pub calls: &'a HashSet<CallId>,
}

/// As [`normalise`], for people: results stay in the order in which they came, since what was shown once must not move.
pub fn normalise_for_readers(history: &[Message], last_calls: LastCalls) -> Conversation {
    let (mut conversation, mut builder) = build(history, Order::Arrival, None);
    match last_calls {
        LastCalls::Over => builder.close_calls(),
        LastCalls::MayWait => builder.messages.extend(builder.open.into_iter().filter_map(|(_, result)| result)),
    }
    conversation.messages = builder.messages;
    conversation
}

/// What calls of the last message without a result are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastCalls {
    /// They have none, and never will.
    Over,
    /// They may wait for it still.
    MayWait,
}

/// The calls at the end of a history that have no result, in call order.
pub fn unresolved(history: &[Message]) -> Vec<&ToolUse> {
    let last = history.iter().rposition(|message| !matches!(message, Message::Tool { .. }));
    let Some((speaker, results)) = last.and_then(|last| history[last..].split_first()) else { return Vec::new() };
    let resolves = |message: &Message, id: &CallId| matches!(message, Message::Tool { call_id, .. } if call_id == id);
    speaker.tool_uses().filter(|call| !results.iter().any(|result| resolves(result, &call.id))).collect()
}

/// In which order the results of one message's calls stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Calls,
    Arrival,
}

fn build<'a>(history: &[Message], order: Order, before: Option<Before<'a>>) -> (Conversation, Builder<'a>) {
    let mut conversation = Conversation::default();
    let mut builder = Builder { order, before, messages: Vec::new(), open: Vec::new(), seen: HashSet::new() };
    for message in history {
        match message {
            Message::System { content } if builder.has_not_begun() => conversation.system.push(content.clone()),
            Message::System { content } => builder.system(content),
            Message::User { content } => builder.user(content),
            Message::Assistant { content } => builder.assistant(content),
            Message::Tool { call_id, content, is_error } => builder.result(call_id, content, *is_error),
        }
    }
    (conversation, builder)
}

struct Builder<'a> {
    order: Order,
    before: Option<Before<'a>>,
    messages: Vec<Message>,
    /// The calls of the last assistant message, with their results as they come.
    open: Vec<(CallId, Option<Message>)>,
    seen: HashSet<CallId>,
}

impl Builder<'_> {
    fn has_not_begun(&self) -> bool {
        self.before.is_none() && self.messages.is_empty()
    }

    /// Whether the assistant, who speaks next, would be the first to speak, or would speak twice.
    fn lacks_user(&self) -> bool {
        self.messages.is_empty() && self.before.is_none_or(|before| before.last == Role::Assistant)
    }

    fn user(&mut self, content: &Content) {
        self.close_calls();
        if content.is_empty() {
            return;
        }
        match self.messages.last_mut() {
            Some(Message::User { content: last }) => append(last, content.clone().into_blocks()),
            _ => self.messages.push(Message::User { content: content.clone() }),
        }
    }

    fn system(&mut self, content: &str) {
        self.close_calls();
        if !content.is_empty() {
            self.messages.push(Message::System { content: content.to_owned() });
        }
    }

    fn assistant(&mut self, content: &Content) {
        self.close_calls();
        let mut content = content.clone();
        if let Content::Blocks(blocks) = &mut content {
            blocks.retain(|block| match block {
                // A second call of the same name could not be told from the first.
                Block::ToolUse(call) => {
                    let known = self.before.is_some_and(|before| before.calls.contains(&call.id));
                    !known && self.seen.insert(call.id.clone())
                }
                Block::Text(text) => !text.is_empty(),
                Block::Thinking { .. } | Block::Image { .. } | Block::Document { .. } => true,
            });
        }
        if !speaks(&content) {
            return;
        }
        if self.lacks_user() {
            self.messages.push(Message::user(OPENING));
        }
        match self.messages.last_mut() {
            Some(Message::Assistant { content: last }) => append(last, content.into_blocks()),
            _ => self.messages.push(Message::Assistant { content }),
        }
        let calls = self.messages.last().into_iter().flat_map(Message::tool_uses);
        self.open = calls.map(|call| (call.id.clone(), None)).collect();
    }

    fn result(&mut self, id: &CallId, content: &Content, is_error: bool) {
        let Some(at) = self.open.iter().position(|(open, result)| open == id && result.is_none()) else { return };
        self.open[at].1 = Some(Message::Tool { call_id: id.clone(), content: content.clone(), is_error });
        if self.order == Order::Arrival {
            let arrived = self.open.iter().take(at).filter(|(_, result)| result.is_some()).count();
            self.open[arrived..=at].rotate_right(1);
        }
    }

    fn close_calls(&mut self) {
        for (call_id, result) in self.open.drain(..) {
            self.messages.push(result.unwrap_or_else(|| Message::Tool {
                call_id,
                content: Content::Text(INTERRUPTED.to_owned()),
                is_error: true,
            }));
        }
    }
}

fn speaks(content: &Content) -> bool {
    match content {
        Content::Text(text) => !text.is_empty(),
        Content::Blocks(blocks) => blocks.iter().any(|block| !matches!(block, Block::Thinking { .. })),
    }
}

fn append(content: &mut Content, more: Vec<Block>) {
    let mut blocks = std::mem::replace(content, Content::Blocks(Vec::new())).into_blocks();
    blocks.extend(more);
    *content = Content::Blocks(blocks);
}

/// The documents that a message speaks of, with their names.
pub fn documents(message: &Message) -> impl Iterator<Item = (&DocumentId, &str)> {
    let blocks = match message {
        Message::User { content } => content.blocks(),
        Message::System { .. } | Message::Assistant { .. } | Message::Tool { .. } => &[],
    };
    blocks.iter().filter_map(|block| match block {
        Block::Document { id, name } => Some((id, name.as_str())),
        Block::Text(_) | Block::Thinking { .. } | Block::ToolUse(_) | Block::Image { .. } => None,
    })
}

/// A guess at the tokens of messages.
pub fn estimate(messages: &[Message]) -> u64 {
    messages.iter().map(estimate_message).sum()
}

/// A guess at the tokens of tool declarations: four bytes each, as schemas have. Declarations are counted at every step, so
/// their texts are not looked at.
pub fn estimate_tools(tools: &[ToolSpec]) -> u64 {
    let bytes = |tool: &ToolSpec| tool.name.len() + tool.description.len() + tool.input_schema.as_str().len();
    tools.iter().map(|tool| (bytes(tool) as u64).div_ceil(4) + 8).sum()
}

/// The tokens of an image, whatever its size.
pub(crate) const PER_IMAGE: u64 = 1000;

fn estimate_message(message: &Message) -> u64 {
    const PER_MESSAGE: u64 = 4;
    let content = match message {
        Message::System { content } => return PER_MESSAGE + estimate_text(content),
        Message::User { content } | Message::Assistant { content } | Message::Tool { content, .. } => content,
    };
    let of = |block: &Block| match block {
        Block::Text(text) | Block::Thinking { text, .. } => estimate_text(text),
        Block::ToolUse(call) => PER_MESSAGE + estimate_text(&call.name) + estimate_text(call.input.as_str()),
        Block::Image { .. } => PER_IMAGE,
        // What is in a document only the engine knows; it counts that beside the messages.
        Block::Document { .. } => PER_MESSAGE,
    };
    PER_MESSAGE
        + match content {
            Content::Text(text) => estimate_text(text),
            Content::Blocks(blocks) => blocks.iter().map(of).sum(),
        }
}

/// Where to cut full history so that what stays is at most `keep` tokens, as far as possible: the number of messages to
/// cover, more than `covered` already are. Cuts where a user speaks if such a place will do, else before a model's
/// step; never between a call and its result, and never so that nothing stays. `None` if there is no such place.
pub fn cut(history: &[Message], covered: usize, keep: u64) -> Option<usize> {
    cut_by(history, covered, keep, |at| estimate_message(&history[at]))
}

/// As [`cut`], with the tokens of the message at a place.
pub(crate) fn cut_by(history: &[Message], covered: usize, keep: u64, size: impl Fn(usize) -> u64) -> Option<usize> {
    let mut kept = vec![0; history.len() + 1];
    for at in (0..history.len()).rev() {
        kept[at] = kept[at + 1] + size(at);
    }
    let answered = all_answered_before(history);
    let places = || {
        (covered + 1..history.len())
            .filter(|&at| matches!(history[at], Message::User { .. } | Message::Assistant { .. }))
            .filter(|&at| answered[at])
    };
    let fits = |at: &usize| kept[*at] <= keep;
    let at_user = |at: &usize| matches!(history[*at], Message::User { .. });
    places().filter(at_user).find(fits).or_else(|| places().find(fits)).or_else(|| places().next_back())
}

/// For each message, whether the calls of the last assistant message before it have their results before it.
fn all_answered_before(history: &[Message]) -> Vec<bool> {
    let mut open: HashSet<&CallId> = HashSet::new();
    let mut answered = Vec::with_capacity(history.len());
    for message in history {
        answered.push(open.is_empty());
        match message {
            Message::Assistant { .. } => open = message.tool_uses().map(|call| &call.id).collect(),
            Message::Tool { call_id, .. } => drop(open.remove(call_id)),
            Message::System { .. } | Message::User { .. } => {}
        }
    }
    answered
}
