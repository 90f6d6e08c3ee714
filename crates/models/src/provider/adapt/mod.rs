//! What to leave out of a request that a provider refused.
//!
//! A provider that refuses a request says which part it does not take: a field, a tool, an image, the proofs of earlier
//! reasoning. The call is then made again without that part. So a table that is out of date, or a picture in a format of
//! its own, costs one refused request and never the conversation.

mod effort;
mod fields;
mod format;
mod media;
mod output_cap;
mod path;
mod tools;
mod wires;

pub(super) use self::wires::lacks_responses;
use std::collections::{BTreeSet, HashSet};

use everturn_core::{Block, Effort, Message};

use super::{
    failure::Report,
    instructions,
    learned::{ImageForm, Learned, MediaDigest, WantsReasoning, declaration},
};
use crate::model::ModelRequest;

/// One part to leave out, or to write differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A field of the body; a dot leads into an object.
    Field(String),
    /// A field of the body whose value is refused, in this call.
    Value(String),
    /// Ask for at most so many tokens.
    MaxOutput(u64),
    /// Ask for at most so many tokens for a while: the provider did not say how many it takes.
    LowerOutput(u64),
    /// A tool with this declaration.
    Tool {
        /// Its name.
        name: String,
        /// See [`declaration`].
        declaration: String,
    },
    /// Another level of effort than the one that was asked for.
    Effort {
        /// What was asked for.
        asked: Effort,
        /// The nearest level that the model knows.
        nearest: Effort,
    },
    /// These images and documents.
    Media(Vec<MediaDigest>),
    /// These images and documents, in this call: others of them may be fine, or the next call may be.
    MediaOfCall(Vec<MediaDigest>),
    /// The format of the answer, which is asked for in words instead.
    Format(MediaDigest),
    /// All images, for good: the model reads none.
    AllImages,
    /// The oldest images beyond so many.
    MaxImages(usize),
    /// The oldest images and documents beyond so many bytes.
    MaxMediaBytes(usize),
    /// The last tools beyond so many.
    MaxTools(usize),
    /// These proofs of reasoning.
    Proofs(Vec<MediaDigest>),
    /// Reasoning in more of the answers that go back.
    Reasoning,
    /// All reasoning, for good.
    NoReasoning,
    /// Instructions from the user rather than the system.
    System,
    /// The same for those within the conversation.
    InnerSystem,
    /// The answer in one piece.
    Stream,
    /// The calls of the conversation as text, where no tools are declared.
    CallsAsText,
    /// Users' messages and answers only, one after the other.
    PlainRoles,
    /// These calls and their results as text.
    PlainCalls(Vec<MediaDigest>),
    /// Ids of calls with nine letters and digits.
    ShortIds,
    /// An empty text beside calls, rather than none.
    EmptyText,
    /// Calls without ids.
    NoCallIds,
    /// Another wire: OpenAI's own models take tools with reasoning through its Responses only.
    Responses,
    /// Chat completions: the server has no Responses for the model.
    Chat,
}

/// What was left out of one call so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    pub(super) count: usize,
    pub(super) without_proofs: bool,
    /// Fields that are left out of this call only.
    pub(super) values: BTreeSet<String>,
    /// How many images and documents were left out one after the other.
    media: usize,
    /// Images and documents that are left out of this call only.
    pub(super) media_of_call: HashSet<MediaDigest>,
}

impl Changes {
    /// Whether so many images and documents were refused one by one that the rest need not be tried.
    pub(super) fn has_had_enough_media(&self) -> bool {
        self.media >= 4
    }

    /// Makes a change. `false` if it is in force already, so that the same request would be sent again.
    pub(super) fn apply(&mut self, change: Change, learned: &mut Learned) -> bool {
        self.count += 1;
        match change {
            Change::Proofs(proofs) => {
                learned.media.extend(proofs);
                !std::mem::replace(&mut self.without_proofs, true)
            }
            Change::NoReasoning => !std::mem::replace(&mut learned.refuses_reasoning, true),
            Change::Reasoning => {
                let more = learned.wants_reasoning.more();
                std::mem::replace(&mut learned.wants_reasoning, more) != more
            }
            Change::Effort { asked, nearest } => learned.efforts.insert(asked, nearest) != Some(nearest),
            Change::System => !std::mem::replace(&mut learned.refuses_system, true),
            Change::InnerSystem => !std::mem::replace(&mut learned.wants_system_first, true),
            // Options of the stream are refused where there is none.
            Change::Stream => {
                learned.fields.insert("stream_options".to_owned()) | learned.fields.insert("stream".to_owned())
            }
            Change::CallsAsText => !std::mem::replace(&mut learned.wants_tools_with_calls, true),
            Change::PlainRoles => !std::mem::replace(&mut learned.wants_plain_roles, true),
            Change::PlainCalls(calls) => calls.into_iter().filter(|call| learned.plain_calls.insert(*call)).count() > 0,
            Change::ShortIds => !std::mem::replace(&mut learned.wants_short_ids, true),
            Change::EmptyText => !std::mem::replace(&mut learned.wants_empty_text, true),
            Change::NoCallIds => !std::mem::replace(&mut learned.refuses_call_ids, true),
            Change::Responses => !std::mem::replace(&mut learned.wants_responses, true),
            Change::Chat => !std::mem::replace(&mut learned.wants_chat, true),
            Change::Field(field) => learned.fields.insert(field),
            Change::Value(field) => {
                self.values.insert(field.clone());
                learned.fields.insert(field)
            }
            Change::MaxOutput(most) => learned.max_output.replace(most).is_none_or(|before| before > most),
            Change::LowerOutput(most) => learned.lowered_output.replace(most).is_none_or(|before| before > most),
            Change::Tool { name, declaration } => learned.declarations.insert(declaration) | learned.tools.insert(name),
            Change::Media(media) => {
                self.media += 1;
                media.into_iter().filter(|one| learned.media.insert(*one)).count() > 0
            }
            Change::MediaOfCall(media) => {
                self.media += 1;
                let is_new = media.iter().filter(|one| learned.media.insert(**one)).count() > 0;
                self.media_of_call.extend(media);
                is_new
            }
            Change::Format(format) => learned.media.insert(format),
            Change::AllImages => !std::mem::replace(&mut learned.is_blind, true),
            Change::MaxImages(most) => learned.max_images.replace(most).is_none_or(|before| before > most),
            Change::MaxMediaBytes(most) => learned.max_media_bytes.replace(most).is_none_or(|before| before > most),
            Change::MaxTools(most) => learned.max_tools.replace(most).is_none_or(|before| before > most),
        }
    }
}

/// The change that a refusal asks for, if it is one that a change can mend. `body` is the request that was refused,
/// `required` are the fields that its API takes no request without.
pub(super) fn change(
    report: &Report,
    request: &ModelRequest,
    body: &[u8],
    learned: &Learned,
    required: &[&str],
) -> Option<Change> {
    let labels = report.labels().iter().map(|label| format!(" {label}"));
    let words = std::iter::once(report.words().to_owned()).chain(labels).collect::<String>().to_lowercase();
    let says_other_wire = |phrase: &&str| words.contains(phrase) && !is_quoted(body, phrase);
    if OTHER_WIRE.iter().any(says_other_wire) && !learned.wants_responses {
        return Some(Change::Responses);
    }
    // Whatever else such words name, reasoning that goes back already is not to blame.
    if wants_reasoning_back(&words) {
        let may_help = words.contains("reasoning_content") && learned.wants_reasoning < WantsReasoning::Everywhere;
        return may_help.then_some(Change::Reasoning);
    }
    let has_system = !request.system.is_empty() && !learned.refuses_system;
    if has_system && SYSTEM.iter().any(|phrase| words.contains(phrase) && !is_quoted(body, phrase)) {
        return Some(Change::System);
    }
    let has_inner = instructions::has_inner(request) && !learned.wants_system_first && !learned.refuses_system;
    let says_place = |phrase: &&str| words.contains(phrase) && !is_quoted(body, phrase);
    if has_inner && SYSTEM_FIRST.iter().chain(ROLES).any(says_place) {
        return Some(Change::InnerSystem);
    }
    if is_about_stream(report, body, learned) {
        return Some(Change::Stream);
    }
    if let Some(change) = calls_written_otherwise(&words, request, body, learned) {
        return Some(change);
    }
    let says_undeclared = |phrase: &&str| words.contains(phrase) && !is_quoted(body, phrase);
    if request.tools.is_empty() && UNDECLARED.iter().any(says_undeclared) {
        return Some(Change::CallsAsText);
    }
    let says = |phrase: &&str| words.contains(phrase) && !is_quoted(body, phrase);
    if !learned.wants_plain_roles && ROLES.iter().any(says) {
        return Some(Change::PlainRoles);
    }
    if !learned.wants_short_ids && SHORT_IDS.iter().any(says) {
        return Some(Change::ShortIds);
    }
    if !learned.fields.contains(fields::CACHE_MARKS) && fields::is_about_cache_marks(&words, body) {
        return Some(Change::Field(fields::CACHE_MARKS.to_owned()));
    }
    if words.contains(NO_ENCRYPTED_CONTENT)
        && !is_quoted(body, NO_ENCRYPTED_CONTENT)
        && fields::present(body, required).contains(&"include")
    {
        return Some(Change::Field("include".to_owned()));
    }
    let proofs = proofs(request, learned);
    if !proofs.is_empty() && words.contains("both content and thinking") {
        return Some(Change::NoReasoning);
    }
    if !proofs.is_empty() && PROOFS.iter().any(|phrase| words.contains(phrase)) {
        return Some(Change::Proofs(proofs));
    }
    if let Some(effort) = effort::known(&words, request) {
        return Some(effort);
    }
    if let Some(change) = output_cap::lowered(&words, body, required.contains(&"max_tokens")) {
        return Some(change);
    }
    if let Some(change) = format::refused(&words, request, body, learned) {
        return Some(change);
    }
    if let Some(most) = tools::most(report, &words, body) {
        return Some(Change::MaxTools(most));
    }
    // Whatever names a tool or a message by its place is about that one, not about a field of the same name.
    if let Some(change) = tools::refused(report, body).and_then(|name| tool(request, &name)) {
        return Some(change);
    }
    if let Some(change) = media::refused(report, &words, request, body, learned) {
        return Some(change);
    }
    if let Some(field) = fields::refused(report, &words, body, required) {
        return Some(if fields::is_about_value(&words) { Change::Value(field) } else { Change::Field(field) });
    }
    // OpenRouter, of models that have some of them.
    if words.contains("can handle the requested parameters") {
        return format::of(request, learned).map(Change::Format).or_else(|| fields::any(body).map(Change::Field));
    }
    None
}

/// The change to try where nobody knows what is wrong: what is missed least first, then what vendors differ most about.
pub(super) fn guess(report: &Report, request: &ModelRequest, learned: &Learned) -> Option<Change> {
    if report.is_about_access() {
        return None;
    }
    let proofs = proofs(request, learned);
    (!proofs.is_empty() && !wants_reasoning_back(&report.words().to_lowercase()))
        .then_some(Change::Proofs(proofs))
        .or_else(|| all_media(request, learned))
        .or_else(|| format::of(request, learned).map(Change::Format))
}

/// Whether a refusal, in lower case, is about reasoning that was not sent back: DeepSeek on both of its wires, Kimi.
pub(super) fn wants_reasoning_back(words: &str) -> bool {
    let is_about_reasoning = words.contains("reasoning_content") || words.contains("content[].thinking");
    is_about_reasoning && ["passed back", "missing"].iter().any(|wish| words.contains(wish))
}

/// The change that a fault of the provider's own asks for: some servers call a broken image theirs.
pub(super) fn change_after_fault(
    report: &Report,
    request: &ModelRequest,
    body: &[u8],
    learned: &Learned,
) -> Option<Change> {
    let words = report.words().to_lowercase();
    if let Some(change) = calls_written_otherwise(&words, request, body, learned) {
        return Some(change);
    }
    media::is_broken(&words, body).then(|| media::refused(report, &words, request, body, learned)).flatten()
}

/// Another way to write calls, which the words ask for.
fn calls_written_otherwise(words: &str, request: &ModelRequest, body: &[u8], learned: &Learned) -> Option<Change> {
    let says = |phrase: &&str| words.contains(phrase) && !is_quoted(body, phrase);
    if !learned.wants_empty_text && has_silent_calls(request) && NO_CONTENT.iter().any(says) {
        return Some(Change::EmptyText);
    }
    let is_about_ids = says(&"unknown name \"id\"") && ["function_call", "function_response"].iter().any(says);
    (is_about_ids && !learned.refuses_call_ids).then_some(Change::NoCallIds)
}

/// Whether the model has made calls in a conversation without saying anything.
pub(super) fn has_silent_calls(request: &ModelRequest) -> bool {
    request.messages.iter().any(|message| match message {
        Message::Assistant { content } => message.tool_uses().next().is_some() && content.text().is_empty(),
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => false,
    })
}

/// Whether a refusal is about an answer that comes in pieces, where it may come whole.
pub(super) fn is_about_stream(report: &Report, body: &[u8], learned: &Learned) -> bool {
    let words = report.words().to_lowercase();
    let says = |phrase: &&str| words.contains(phrase) && !is_quoted(body, phrase);
    !learned.fields.contains("stream") && (report.param() == Some("stream") || NO_STREAM.iter().any(says))
}

/// Whether a refusal may be about the format of the answer, which is then left out before any tool is.
pub(super) fn is_about_format(report: &Report, request: &ModelRequest, body: &[u8], learned: &Learned) -> bool {
    format::refused(&report.words().to_lowercase(), request, body, learned).is_some()
}

/// The fields of a body that a call can do without, inner ones before the objects that hold them.
pub(super) fn optional_fields(body: &[u8], required: &[&str]) -> Vec<&'static str> {
    fields::present(body, required)
}

/// Whether the format of the answer is to be asked for in words.
pub(super) fn refuses_format(request: &ModelRequest, learned: &Learned) -> bool {
    request.options.output.is_some() && format::of(request, learned).is_none()
}

/// Whether a refusal is about the declaration of some tool, and does not say of which.
pub(super) fn is_about_some_tool(report: &Report, body: &[u8]) -> bool {
    let words = report.words().to_lowercase();
    tools::is_about_declarations(&words)
        && tools::most(report, &words, body).is_none()
        && tools::refused(report, body).is_none()
}

/// The names of the tools that a body declares.
pub(super) fn declared_tools(body: &[u8]) -> Vec<String> {
    tools::names(body)
}

/// The images and documents of a request that were not refused before, oldest first.
pub(super) fn sent_media(request: &ModelRequest, learned: &Learned) -> Vec<(MediaDigest, Block)> {
    media::sent(request, learned)
}

/// The form in which images may be taken that a refusal asks to leave out.
pub(super) fn image_form(report: &Report, change: &Change) -> Option<ImageForm> {
    media::form(report, change)
}

/// All images and documents of a request, to be left out of it.
pub(super) fn all_media(request: &ModelRequest, learned: &Learned) -> Option<Change> {
    media::all(request, learned)
}

/// Whether a provider only repeats what the request says, which somebody else may have written for us to misread.
pub(super) fn is_quoted(body: &[u8], phrase: &str) -> bool {
    normalised(&String::from_utf8_lossy(body)).contains(&normalised(phrase))
}

/// A text in lower case without white space, escaped or not, which providers change when they repeat it.
fn normalised(text: &str) -> String {
    let is_invisible = |c: &char| c.is_whitespace() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}');
    let text = text.replace("\\n", "").replace("\\r", "").replace("\\t", "").replace('\\', "");
    text.chars().filter(|c| !is_invisible(c)).flat_map(char::to_lowercase).collect()
}

fn tool(request: &ModelRequest, name: &str) -> Option<Change> {
    let tool = request.tools.iter().find(|tool| tool.name == name)?;
    Some(Change::Tool { name: name.to_owned(), declaration: declaration(tool) })
}

/// How OpenAI says on chat completions that a model wants Responses.
const OTHER_WIRE: &[&str] = &["v1/responses", "not a chat model", "not supported in the v1/chat/completions"];

/// How providers say that a model takes no instructions from the system: Gemma's and older ones of Mistral's templates.
const SYSTEM: &[&str] = &[
    "developer instruction is not enabled",
    "system instruction is not enabled",
    "system instructions are not supported",
    "system role not supported",
    "system role is not supported",
    "does not support 'system'",
    "does not support system",
    "does not support developer",
    "system messages are not supported",
];

/// How servers say that instructions may stand before the conversation only: vLLM, llama.cpp and others with such templates,
/// Mistral.
const SYSTEM_FIRST: &[&str] = &[
    "system message must be at the beginning",
    "system message must be the first",
    "system message must come first",
    "system message should be the first",
    "system messages must be at the beginning",
    "system role must be the first",
    "unexpected role 'system'",
    "unexpected role \"system\"",
];

/// How servers say that they want a text beside calls: llama.cpp, LM Studio, Ollama, servers that check with pydantic.
const NO_CONTENT: &[&str] = &[
    "'content' to be a string",
    "'content' field must be a string",
    "content must be a string",
    "content should be a string",
    "content type: <nil>",
    "content: field required",
    "content: none is not an allowed value",
    "content: input should be a valid string",
    "content cannot be null",
    "content must not be null",
    "content can not be null",
];

/// How providers say that a model's answer cannot be streamed: OpenAI, Bedrock, gateways.
const NO_STREAM: &[&str] = &[
    "verified to stream",
    "unsupported for streaming",
    "in streaming mode",
    "streaming is not supported",
    "streaming not supported",
    "does not support streaming",
    "doesn't support streaming",
    "stream is not supported",
];

/// How gateways say that a conversation has calls and the request declares no tools: Bedrock, LiteLLM.
const UNDECLARED: &[&str] =
    &["toolconfig field must be defined", "must define tools", "expects the `tools=` param", "expects `tools=` param"];

/// How the templates of models say that they know no other speakers than the user and the assistant, in turns.
const ROLES: &[&str] =
    &["roles must alternate", "roles must be alternating", "only user and assistant roles", "unexpected role 'tool'"];

/// How Mistral says which ids of calls it takes.
const SHORT_IDS: &[&str] = &["with a length of 9"];

/// How OpenAI and Azure say that a model does not reason, and so has nothing to encrypt.
const NO_ENCRYPTED_CONTENT: &str = "encrypted content is not supported";

/// How providers say that they do not take reasoning back: its signature, its ciphertext, its place.
const PROOFS: &[&str] = &[
    "`signature` in `thinking`",
    "thinking.signature",
    "`thinking` or `redacted_thinking`",
    "thinking blocks",
    "thought signature",
    "thought_signature",
    "encrypted content",
    "encrypted_content",
    "of type 'reasoning'",
    "item with id 'rs_",
    "duplicate item found with id rs_",
    "reasoning_details",
    "reasoning_content",
];

/// The proofs of reasoning in a request that were not refused before.
fn proofs(request: &ModelRequest, learned: &Learned) -> Vec<MediaDigest> {
    let blocks = request.messages.iter().flat_map(|message| match message {
        Message::Assistant { content } => content.blocks(),
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => &[],
    });
    let proofs = blocks.filter_map(|block| match block {
        Block::Thinking { signature: Some(proof), .. } => Some(MediaDigest::of(proof)),
        _ => None,
    });
    proofs.filter(|proof| !learned.media.contains(proof)).collect()
}

#[cfg(test)]
mod tests;
