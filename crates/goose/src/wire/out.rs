//! Messages as clients are sent them, in either style.

mod described;
mod released;

use std::fmt::Display;

use everturn_core::{Block, CallId, Content, Json, Message, Said, Timestamp, ToolUse};
use serde::{Serialize, Serializer};

use self::{described::DescribedItem, released::ReleasedItem};
use super::ImageUrl;
use crate::{
    Style,
    time::{rfc3339, seconds},
};

/// Who is shown as the one who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Speaker {
    /// The user; results of tools are shown as theirs too.
    User,
    /// The agent.
    Assistant,
}

/// One item of a message.
#[derive(Clone, Debug)]
pub(crate) enum Item<'a> {
    Text(&'a str),
    Image(&'a str),
    Thinking(&'a str),
    ToolRequest(&'a ToolUse),
    ToolResponse { id: &'a CallId, content: &'a Content, is_error: bool },
    Confirmation { call: &'a ToolUse, prompt: &'a str },
    Elicitation { id: &'a str, message: &'a str, schema: &'a Json },
}

impl<'a> Item<'a> {
    /// A block, if the style shows it. Reasoning that the provider keeps to itself is shown to nobody.
    pub(crate) fn of(style: Style, block: &'a Block) -> Option<Self> {
        Some(match block {
            Block::Text(text) if text.is_empty() => return None,
            Block::Text(text) => Self::Text(text),
            Block::Thinking { text, .. } if text.is_empty() || style == Style::Described => return None,
            Block::Thinking { text, .. } => Self::Thinking(text),
            Block::ToolUse(call) => Self::ToolRequest(call),
            Block::Image { url } => Self::Image(url),
            // The protocol has no word for documents; people know them by name.
            Block::Document { name, .. } => Self::Text(name),
        })
    }

    /// What a content shows.
    pub(crate) fn all(style: Style, content: &'a Content) -> Vec<Self> {
        match content {
            Content::Text(text) if text.is_empty() => Vec::new(),
            Content::Text(text) => vec![Self::Text(text)],
            Content::Blocks(blocks) => blocks.iter().filter_map(|block| Self::of(style, block)).collect(),
        }
    }
}

/// A message.
#[derive(Clone)]
pub(crate) struct MessageOut<'a> {
    pub(crate) style: Style,
    pub(crate) id: &'a dyn Display,
    pub(crate) role: Speaker,
    pub(crate) at: Timestamp,
    pub(crate) items: &'a [Item<'a>],
    pub(crate) agent_visible: bool,
}

impl Serialize for MessageOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let &Self { style, id, role, at, items, agent_visible } = self;
        let (id, content) = (AsText(id), Items { style, items });
        match style {
            Style::Described => Described { role, content, created_at: rfc3339(at), id }.serialize(serializer),
            Style::Released => {
                let metadata = MetadataOut { user_visible: true, agent_visible };
                Released { id, role, created: seconds(at), content, metadata }.serialize(serializer)
            }
        }
    }
}

#[derive(Serialize)]
struct Described<'a> {
    role: Speaker,
    content: Items<'a>,
    created_at: String,
    id: AsText<'a>,
}

#[derive(Serialize)]
struct Released<'a> {
    id: AsText<'a>,
    role: Speaker,
    created: i64,
    content: Items<'a>,
    metadata: MetadataOut,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MetadataOut {
    user_visible: bool,
    agent_visible: bool,
}

struct AsText<'a>(&'a dyn Display);

impl Serialize for AsText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

struct Items<'a> {
    style: Style,
    items: &'a [Item<'a>],
}

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.items.iter().map(|item| ItemOut { style: self.style, item }))
    }
}

struct ItemOut<'a> {
    style: Style,
    item: &'a Item<'a>,
}

impl Serialize for ItemOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.style {
            Style::Described => DescribedItem::of(self.item).serialize(serializer),
            Style::Released => ReleasedItem::of(self.item).serialize(serializer),
        }
    }
}

/// What is called, and with what.
#[derive(Serialize)]
pub(super) struct CallOut<'a> {
    name: &'a str,
    arguments: &'a Json,
}

impl<'a> CallOut<'a> {
    pub(super) fn of(call: &'a ToolUse) -> Self {
        Self { name: &call.name, arguments: &call.input }
    }
}

/// What a tool's result shows.
pub(crate) struct ResultItems<'a> {
    pub(crate) style: Style,
    pub(crate) content: &'a Content,
}

impl Serialize for ResultItems<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Items { style: self.style, items: &Item::all(self.style, self.content) }.serialize(serializer)
    }
}

/// A conversation: what is said in it by user, agent and tools.
pub(crate) struct Conversation<'a> {
    pub(crate) style: Style,
    pub(crate) said: &'a [Said],
}

impl Serialize for Conversation<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let style = self.style;
        let shown = self.said.iter().map(|said| SaidOut { said, style, spoken: spoken(style, &said.message) });
        serializer.collect_seq(shown.filter(|said| !said.spoken.1.is_empty()))
    }
}

struct SaidOut<'a> {
    said: &'a Said,
    style: Style,
    spoken: (Speaker, Vec<Item<'a>>),
}

impl Serialize for SaidOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { said, style, spoken: (role, items) } = self;
        let (style, role) = (*style, *role);
        MessageOut { style, id: &said.id, role, at: said.at, items, agent_visible: true }.serialize(serializer)
    }
}

/// Who says what in a message. Standing instructions are nobody's words.
fn spoken(style: Style, message: &Message) -> (Speaker, Vec<Item<'_>>) {
    match message {
        Message::System { .. } => (Speaker::User, Vec::new()),
        Message::User { content } => (Speaker::User, Item::all(style, content)),
        Message::Assistant { content } => (Speaker::Assistant, Item::all(style, content)),
        Message::Tool { call_id, content, is_error } => {
            (Speaker::User, vec![Item::ToolResponse { id: call_id, content, is_error: *is_error }])
        }
    }
}
