//! Messages as clients send them, in either style, turned into ours.

use everturn_core::{Block, Content, Json, Message, Timestamp};
use everturn_http::Object;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    ContentIn, ItemIn,
    field::{At, FieldError, shown},
    item::{Kind, without_tags},
    result::{content_of, tool_result},
};
use crate::time::Moment;

/// How many messages one request may bring.
pub(crate) const MAX_MESSAGES: usize = 10_000;

/// A message.
#[derive(Debug, Deserialize)]
pub(crate) struct MessageIn {
    pub(crate) id: Option<String>,
    pub(crate) role: Option<String>,
    pub(crate) content: Option<ContentIn>,
    created: Option<Moment>,
    created_at: Option<Moment>,
    metadata: Option<Object<Metadata>>,
}

/// Who sees a message.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Metadata {
    #[serde(rename = "userVisible", alias = "user_visible", default = "yes")]
    user_visible: bool,
    #[serde(rename = "agentVisible", alias = "agent_visible", default = "yes")]
    agent_visible: bool,
}

fn yes() -> bool {
    true
}

/// Which messages are wanted of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visible {
    /// Those that people see.
    ToUsers,
    /// Those that the model sees.
    ToAgents,
}

/// What a user's message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UserSaid {
    /// Something to the agent.
    Message(Message),
    /// An answer to a form.
    Answer {
        /// Which.
        form: String,
        /// The answer.
        value: Json,
    },
}

impl MessageIn {
    /// When it was said, if it says so.
    pub(crate) fn at(&self) -> Option<Timestamp> {
        self.created.or(self.created_at).map(|Moment(at)| at)
    }

    fn is_visible(&self, visible: Visible) -> bool {
        self.metadata.as_ref().is_none_or(|Object(metadata)| match visible {
            Visible::ToUsers => metadata.user_visible,
            Visible::ToAgents => metadata.agent_visible,
        })
    }
}

/// The message of a request that speaks to the agent.
pub(crate) fn user_message(message: MessageIn) -> Result<UserSaid, FieldError> {
    let at = At::Top("user_message");
    if message.role.as_deref().is_some_and(|role| role != "user") {
        return Err(At::Field(&at, "role").error("must be \"user\""));
    }
    let at = At::Field(&at, "content");
    let blank = || at.error("is empty; send a text or an image");
    let items = match message.content.ok_or_else(|| at.error("is missing"))? {
        ContentIn::Text(text) if text.is_empty() => return Err(blank()),
        ContentIn::Text(text) => return Ok(UserSaid::Message(Message::user(without_tags(&text)))),
        ContentIn::Items(items) => items,
    };
    let mut blocks = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let at = At::Entry(&at, index);
        match item.kind(&at)? {
            Kind::Text => blocks.extend(Some(item.text(&at)?).filter(|text| !text.is_empty()).map(Block::Text)),
            Kind::Image => blocks.push(item.image(&at)?),
            Kind::ActionRequired | Kind::ElicitationResponse => match answer(&at, item)? {
                Some(answer) => return Ok(answer),
                None => return Err(at.error("is no answer; send actionType \"elicitationResponse\"")),
            },
            Kind::ToolResponse => {
                let what =
                    "results come from the tools of this server; a message says text, shows images or answers a form";
                return Err(at.error(what));
            }
            Kind::ToolRequest | Kind::Thinking | Kind::Reasoning => {
                return Err(at.error(format!("{} is for the assistant's messages", shown(&item.r#type))));
            }
            Kind::Audio | Kind::Resource | Kind::ResourceLink => {
                return Err(at.error(format!("{} is for the results of tools", shown(&item.r#type))));
            }
            Kind::Aside => {}
        }
    }
    if blocks.is_empty() {
        return Err(blank());
    }
    Ok(UserSaid::Message(Message::User { content: content_of(blocks) }))
}

/// What `actionRequired` is about.
#[derive(Deserialize)]
struct ActionIn {
    #[serde(rename = "actionType", alias = "action_type")]
    action: String,
    id: Option<String>,
    #[serde(rename = "userData", alias = "user_data")]
    user_data: Option<Box<RawValue>>,
}

/// The answer to a form, if the item is one.
fn answer(at: &At<'_>, item: &ItemIn) -> Result<Option<UserSaid>, FieldError> {
    let (form, value) = match &item.data {
        Some(data) => {
            let at = At::Field(at, "data");
            let ActionIn { action, id, user_data } = at.object(data)?;
            if !matches!(action.as_str(), "elicitationResponse" | "elicitation_response") {
                return Ok(None);
            }
            (id, user_data)
        }
        None => {
            let flat = item.user_data.as_ref().map(|raw| RawValue::from_string(raw.get().to_owned()));
            (item.id.clone(), flat.transpose().map_err(|error| at.error(error.to_string()))?)
        }
    };
    let form = form.ok_or_else(|| at.error("an answer to a form needs the form's id"))?;
    let value = value.ok_or_else(|| at.error("an answer to a form needs user_data"))?;
    Ok(Some(UserSaid::Answer { form, value: value.into() }))
}

/// The messages of a conversation, with the times that they have. What is no part of what model and user say is left out.
pub(crate) fn history(
    name: &str,
    messages: Vec<MessageIn>,
    visible: Visible,
) -> Result<Vec<(Option<Timestamp>, Message)>, FieldError> {
    let top = At::Top(name);
    if messages.len() > MAX_MESSAGES {
        return Err(top.error(format!("{} messages are too many, the limit is {MAX_MESSAGES}", messages.len())));
    }
    let mut said = Vec::with_capacity(messages.len());
    for (index, message) in messages.into_iter().enumerate() {
        if message.is_visible(visible) {
            let when = message.at();
            let messages = converted(&At::Entry(&top, index), message)?;
            said.extend(messages.into_iter().map(|message| (when, message)));
        }
    }
    Ok(said)
}

/// Who says what stands in a message, results aside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Author {
    User,
    Assistant,
}

impl Author {
    fn says(self, content: Content) -> Message {
        match self {
            Self::User => Message::User { content },
            Self::Assistant => Message::Assistant { content },
        }
    }
}

/// A message as ours: Goose keeps the results of tools in messages of the user's, we have a message for each.
fn converted(at: &At<'_>, message: MessageIn) -> Result<Vec<Message>, FieldError> {
    let author = match message.role.as_deref() {
        Some("user") => Author::User,
        Some("assistant") => Author::Assistant,
        Some(other) => {
            let what = format!("{:?} is not known; use user or assistant", shown(other));
            return Err(At::Field(at, "role").error(what));
        }
        None => return Err(At::Field(at, "role").error("is missing; use user or assistant")),
    };
    let at = At::Field(at, "content");
    let items = match message.content.ok_or_else(|| at.error("is missing"))? {
        ContentIn::Text(text) if text.is_empty() => return Ok(Vec::new()),
        ContentIn::Text(text) => return Ok(vec![author.says(Content::Text(without_tags(&text).into_owned()))]),
        ContentIn::Items(items) => items,
    };
    let (mut said, mut blocks) = (Vec::new(), Vec::new());
    let settle = |blocks: &mut Vec<Block>, said: &mut Vec<Message>| {
        if !blocks.is_empty() {
            said.push(author.says(content_of(std::mem::take(blocks))));
        }
    };
    for (index, item) in items.iter().enumerate() {
        let at = At::Entry(&at, index);
        match item.kind(&at)? {
            Kind::ToolResponse => {
                settle(&mut blocks, &mut said);
                let call_id = item.call_id(&at)?;
                let raw = item.needs(&at, "tool_result", &item.tool_result)?;
                let (content, is_error) = tool_result(&At::Field(&at, "tool_result"), raw)?;
                said.push(Message::Tool { call_id, content, is_error });
            }
            kind => blocks.extend(block(&at, item, kind, author)?),
        }
    }
    settle(&mut blocks, &mut said);
    Ok(said)
}

fn block(at: &At<'_>, item: &ItemIn, kind: Kind, author: Author) -> Result<Option<Block>, FieldError> {
    let misplaced = |whose: &str| at.error(format!("{} cannot stand in {whose} message", shown(&item.r#type)));
    let thinking = |text: &String| (!text.is_empty()).then(|| Block::Thinking { text: text.clone(), signature: None });
    Ok(match (kind, author) {
        (Kind::Text, _) => Some(item.text(at)?).filter(|text| !text.is_empty()).map(Block::Text),
        (Kind::Image, _) => Some(item.image(at)?),
        (Kind::ToolRequest, Author::Assistant) => Some(Block::ToolUse(item.call(at)?)),
        // The proofs that providers want back are theirs, and not a client's to give.
        (Kind::Thinking, Author::Assistant) => thinking(item.needs(at, "thinking", &item.thinking)?),
        (Kind::Reasoning, Author::Assistant) => thinking(item.needs(at, "text", &item.text)?),
        (Kind::ActionRequired | Kind::ElicitationResponse | Kind::Aside, _) => None,
        (Kind::ToolRequest | Kind::Thinking | Kind::Reasoning, Author::User) => return Err(misplaced("a user's")),
        (Kind::ToolResponse | Kind::Audio | Kind::Resource | Kind::ResourceLink, _) => {
            return Err(misplaced("a"));
        }
    })
}
