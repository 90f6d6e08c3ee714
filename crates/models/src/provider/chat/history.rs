//! The conversation as messages, with the model's reasoning where the server wants it.

use std::{borrow::Cow, collections::HashSet};

use everturn_core::ToolUse;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    NAME, Own,
    cache_marks::CacheControl,
    server::{Replay, Rules, Server},
};
use crate::provider::{
    call_ids::CallIds,
    history::{Entry, Part, ResultImages, entries},
    image::{Image, UNREADABLE},
    openai::pdf,
    proof::{self, Placed},
    wire::Ask,
};

/// Stands between the results of tools and a user's message for servers that want an answer there.
const BRIDGE: &str = "I have read the results.";

/// What Gemini takes for a signature where a call never had one, because another provider made it.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub(super) enum Message<'a> {
    System { content: TextContent },
    User { content: UserContent<'a> },
    Assistant(Answer<'a>),
    Tool { tool_call_id: Cow<'a, str>, content: TextContent },
}

/// A text, as a part where the provider's cache may be told to keep it.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum TextContent {
    Text(String),
    Parts([UserPart<'static>; 1]),
}

impl TextContent {
    pub(super) fn new(text: String, rules: &Rules) -> Self {
        match rules.cache_marks {
            true => Self::Parts([UserPart::text(Cow::Owned(text))]),
            false => Self::Text(text),
        }
    }
}

#[derive(Default, Serialize)]
pub(super) struct Answer<'a> {
    content: Option<AnswerContent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_details: Option<Vec<Value>>,
    /// What was sent before the answer when its details were given; see [`proof::Proof::prefix`].
    #[serde(skip)]
    pub(super) prefix: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
}

/// Plain text where there is nothing else: simple servers take no parts.
#[derive(Serialize)]
#[serde(untagged)]
enum AnswerContent {
    Text(String),
    Parts(Vec<Value>),
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum UserContent<'a> {
    Text(String),
    Parts(Vec<UserPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum UserPart<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ImageUrl {
        image_url: ImageUrl<'a>,
    },
    File {
        file: File<'a>,
    },
}

impl<'a> UserPart<'a> {
    fn text(text: Cow<'a, str>) -> Self {
        Self::Text { text, cache_control: None }
    }
}

#[derive(Serialize)]
pub(super) struct ImageUrl<'a> {
    url: &'a str,
}

#[derive(Serialize)]
pub(super) struct File<'a> {
    filename: &'a str,
    file_data: String,
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: Function<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<Value>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

/// Adds the conversation to a request's messages.
pub(super) fn write<'a>(ask: &Ask<'a>, rules: &Rules, messages: &mut Vec<Message<'a>>) {
    let mut ids = CallIds::new(rules.ids);
    let entries = entries(ask, ResultImages::FromUser);
    let calling = turns_with_calls(&entries);
    for (entry, is_calling) in entries.into_iter().zip(calling) {
        match entry {
            Entry::System(text) => messages.push(Message::System { content: TextContent::new(text.to_owned(), rules) }),
            Entry::User(parts) => {
                if rules.bridge && matches!(messages.last(), Some(Message::Tool { .. })) {
                    let content = Some(AnswerContent::Text(BRIDGE.to_owned()));
                    messages.push(Message::Assistant(Answer { content, ..Answer::default() }));
                }
                messages.push(Message::User { content: user_content(ask, rules, &parts) });
            }
            Entry::Assistant { thinking, unproven, text, calls } => {
                let reasoning = Reasoning { proven: thinking, unproven, is_calling };
                messages.push(Message::Assistant(answer(ask, rules, reasoning, text, &calls, &mut ids)));
            }
            Entry::Results(results) => messages.extend(results.into_iter().map(|result| Message::Tool {
                tool_call_id: ids.of(result.call_id),
                content: TextContent::new(result.text, rules),
            })),
        }
    }
}

/// Whether each entry belongs to a turn in which the model made calls. A turn is all that stands between two messages of
/// the user's.
fn turns_with_calls(entries: &[Entry<'_>]) -> Vec<bool> {
    let makes_calls = |entry: &Entry<'_>| matches!(entry, Entry::Assistant { calls, .. } if !calls.is_empty());
    let turns = entries.split_inclusive(|entry| matches!(entry, Entry::User(_)));
    turns.flat_map(|turn| std::iter::repeat_n(turn.iter().any(makes_calls), turn.len())).collect()
}

/// What is known of an answer's reasoning.
#[derive(Clone, Copy)]
struct Reasoning<'a> {
    /// The provider's proof of it, and the reasoning.
    proven: Option<(&'a str, &'a str)>,
    /// The reasoning that a client has sent back.
    unproven: Option<&'a str>,
    /// Whether the model made calls in the answer's turn.
    is_calling: bool,
}

fn answer<'a>(
    ask: &Ask<'a>,
    rules: &Rules,
    Reasoning { proven, unproven, is_calling }: Reasoning<'a>,
    text: String,
    calls: &[&'a ToolUse],
    ids: &mut CallIds<'a>,
) -> Answer<'a> {
    let kept = proven.filter(|_| !ask.without_proofs).and_then(|(record, thinking)| {
        let mut proof = proof::read::<Own>(NAME, record).filter(|proof| proof.from == ask.from)?;
        let prefix = proof.prefix.take();
        Some(Kept { prefix, ..Kept::of(proof.place(&text, calls)?, thinking)? })
    });
    let unproven = unproven.filter(|_| !ask.without_proofs);
    let Kept { field, details, parts, marks, prefix } = kept.unwrap_or_default();
    let mut answer = Answer { prefix, ..Answer::default() };
    let has_calls = !calls.is_empty();
    // Cerebras refuses other names, and says nothing about why.
    let field = field.filter(|(name, _)| rules.server != Server::Cerebras || *name == "reasoning");
    // Servers that want the field take whatever is in it. The others may refuse what is not their own.
    let required = |stand_in: &'static str| {
        let known = field.filter(|(_, reasoning)| !reasoning.is_empty());
        Some(known.unwrap_or(("reasoning_content", unproven.unwrap_or(stand_in))))
    };
    match rules.replay {
        Replay::WithCalls if has_calls => answer.reason(field),
        Replay::InTurnsWithCalls(stand_in) if is_calling => answer.reason(required(stand_in)),
        Replay::Everywhere(stand_in) => answer.reason(required(stand_in)),
        Replay::Always => answer.reason(field.or(unproven.map(|reasoning| ("reasoning_content", reasoning)))),
        Replay::Details => answer.reasoning_details = Some(details).filter(|details| !details.is_empty()),
        Replay::Never | Replay::WithCalls | Replay::InTurnsWithCalls(_) | Replay::Parts => {}
    }
    if answer.reasoning_details.is_some() {
        // The details name calls by the ids that the provider gave them.
        keep_ids(&marks, calls, ids, answer.reasoning_details.as_deref_mut().unwrap_or_default());
    }
    answer.content = match parts.filter(|_| rules.replay == Replay::Parts) {
        Some(parts) => Some(AnswerContent::Parts(parts)),
        None if text.is_empty() && !rules.empty_text => None,
        None => Some(AnswerContent::Text(text)),
    };
    let is_signed = marks.iter().any(|mark| mark.extra.is_some());
    for (place, call) in (0..).zip(calls) {
        let extra = || marks.iter().find(|mark| mark.place == place)?.extra.clone();
        let stand_in = (place == 0 && !is_signed).then(|| json!({"google": {"thought_signature": NO_SIGNATURE}}));
        let extra_content = if rules.signs_calls { extra().or(stand_in) } else { None };
        answer.tool_calls.push(tool_call(call, extra_content, ids));
    }
    answer
}

impl<'a> Answer<'a> {
    fn reason(&mut self, field: Option<(&'static str, &'a str)>) {
        let Some((name, reasoning)) = field else { return };
        let reasoning = Some(Cow::Borrowed(reasoning));
        match name {
            "reasoning" => self.reasoning = reasoning,
            "reasoning_text" => self.reasoning_text = reasoning,
            _ => self.reasoning_content = reasoning,
        }
    }
}

/// What history keeps of an answer beside its text and calls.
#[derive(Default)]
struct Kept<'a> {
    /// The field that the reasoning came in, and the reasoning.
    field: Option<(&'static str, &'a str)>,
    details: Vec<Value>,
    /// The content, where reasoning was a part of it.
    parts: Option<Vec<Value>>,
    marks: Vec<Mark>,
    prefix: Option<String>,
}

/// What the provider said of one call.
struct Mark {
    place: u32,
    id: String,
    extra: Option<Value>,
}

impl<'a> Kept<'a> {
    /// `None` if the reasoning is not the one that was recorded.
    fn of(pieces: Vec<Placed<'_, Own>>, thinking: &'a str) -> Option<Self> {
        let mut kept = Self::default();
        let (mut parts, mut rest, mut has_thinking) = (Vec::new(), thinking, false);
        for piece in pieces {
            match piece {
                Placed::Own(Own::Field(name)) => {
                    let names = ["reasoning_content", "reasoning", "reasoning_text"];
                    kept.field = names.into_iter().find(|known| *known == name).map(|name| (name, thinking));
                }
                Placed::Own(Own::Thinking(length)) => {
                    let (thought, after) = rest.split_at_checked(length)?;
                    (rest, has_thinking) = (after, true);
                    parts.push(json!({"type": "thinking", "thinking": [{"type": "text", "text": thought}]}));
                }
                Placed::Own(Own::Details(details)) => kept.details.extend(details),
                Placed::Own(Own::Call { place, id, extra }) => kept.marks.push(Mark { place, id, extra }),
                Placed::Text(text) => parts.push(json!({"type": "text", "text": text})),
                Placed::Call(_) => {}
            }
        }
        kept.parts = has_thinking.then_some(parts);
        Some(kept)
    }
}

fn keep_ids<'a>(marks: &[Mark], calls: &[&'a ToolUse], ids: &mut CallIds<'a>, details: &mut [Value]) {
    let given: HashSet<&str> = marks.iter().map(|mark| mark.id.as_str()).filter(|id| !id.is_empty()).collect();
    if given.len() != calls.len() {
        return;
    }
    for mark in marks {
        let Some(call) = calls.get(mark.place as usize) else { continue };
        if !ids.has(&mark.id) {
            ids.keep(call.id.as_str(), mark.id.clone());
            continue;
        }
        // Some providers count the calls of each answer anew. Two calls of one request have different ids.
        let id = ids.of(call.id.as_str()).into_owned();
        for detail in details.iter_mut().filter(|detail| detail["id"] == mark.id.as_str()) {
            detail["id"] = id.clone().into();
        }
    }
}

fn tool_call<'a>(call: &'a ToolUse, extra_content: Option<Value>, ids: &mut CallIds<'a>) -> ToolCall<'a> {
    // Servers read the arguments and fail at anything but an object.
    let arguments = if call.input.is_object() { call.input.as_str() } else { "{}" };
    let function = Function { name: &call.name, arguments };
    ToolCall { id: ids.of(call.id.as_str()), r#type: "function", function, extra_content }
}

fn user_content<'a>(ask: &Ask<'a>, rules: &Rules, parts: &[Part<'a>]) -> UserContent<'a> {
    let takes_files = rules.files && ask.known.pdf != Some(false);
    let part = |part: &Part<'a>| match part {
        Part::Text(text) => UserPart::text(text.clone()),
        Part::Document(document) => match pdf(document).filter(|_| takes_files) {
            Some(base64) => {
                let file_data = format!("data:application/pdf;base64,{base64}");
                UserPart::File { file: File { filename: &document.name, file_data } }
            }
            None => UserPart::text(Cow::Borrowed(document.text.as_str())),
        },
        Part::Image(url) if Image::of(url) == Image::Unreadable => UserPart::text(Cow::Borrowed(UNREADABLE)),
        Part::Image(url) => UserPart::ImageUrl { image_url: ImageUrl { url } },
    };
    let parts: Vec<UserPart<'a>> = parts.iter().map(part).collect();
    let text = |part: &UserPart<'a>| match part {
        UserPart::Text { text, .. } => Some(text.to_string()),
        UserPart::ImageUrl { .. } | UserPart::File { .. } => None,
    };
    match parts.iter().map(text).collect::<Option<Vec<String>>>() {
        Some(texts) if !rules.cache_marks => UserContent::Text(texts.join("\n\n")),
        Some(_) | None => UserContent::Parts(parts),
    }
}
