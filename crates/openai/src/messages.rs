//! What a request says: the conversation so far, and what is new in it.

use std::collections::{HashMap, HashSet};

use everturn_core::{CallId, Content, Json, Message, ToolUse};
use everturn_http::{BodyError, Object};

use crate::{
    call_id::{self, CallPlace},
    content::{Place, Speaker, is_blank},
    error::ApiError,
    files::File,
    parameters::object,
    reasoning::{ClientCall, reasoning_of, with_reasoning},
    request::{MessageIn, ToolCallIn},
};

/// How many messages one request may bring.
const MAX_MESSAGES: usize = 10_000;
/// How long a tool call's id may be.
const MAX_CALL_ID: usize = 256;
/// What cannot be the end.
const LAST: &str = "the last message calls tools; send their results after it";
/// What the user says where a request ends with an answer, or has instructions only: some frameworks ask so for an answer
/// in another form. Models answer a user.
const GO_ON: &str = "Continue.";

/// The conversation that a request brings.
#[derive(Debug)]
pub(crate) struct Conversation {
    /// All of it, as history has it.
    pub(crate) messages: Vec<Message>,
    pub(crate) news: News,
    /// Whether it brings nothing new: it ends with an answer, or has instructions only.
    pub(crate) goes_on: bool,
    /// The files in it, which are not kept yet.
    pub(crate) files: Vec<File>,
    /// The ids of calls as the client has them.
    ids: HashMap<CallId, String>,
}

/// What is new in it.
#[derive(Debug)]
pub(crate) enum News {
    /// A message of the user's, the last one; and results that came right before it.
    Said(Content, Vec<ToolResult>),
    /// Results of tool calls, all of them at the end.
    Results(Vec<ToolResult>),
}

/// The result of a call.
#[derive(Clone, Debug)]
pub(crate) struct ToolResult {
    /// Which message it is.
    pub(crate) index: usize,
    /// The call's id as the client has it.
    pub(crate) id: String,
    /// Where the call waits, if the id says so.
    pub(crate) place: Option<CallPlace>,
    /// The call's name in the history that the request brings.
    name: CallId,
    /// The call's own id, once its turn is found.
    found: Option<CallId>,
    pub(crate) content: Content,
}

impl ToolResult {
    /// The call.
    pub(crate) fn call(&self) -> CallId {
        self.found.clone().unwrap_or_else(|| CallId::new(&*self.id))
    }

    /// Whether it is the result of this call.
    pub(crate) fn answers(&self, call: &CallId) -> bool {
        self.place.as_ref().map_or(call.as_str() == self.id, |place| place.is(call))
    }

    /// Whether its call is found.
    pub(crate) fn is_found(&self) -> bool {
        self.found.is_some()
    }

    /// Finds the call among those of its turn.
    pub(crate) fn find<'a>(&mut self, mut calls: impl Iterator<Item = &'a CallId>) {
        self.found = calls.find(|call| self.answers(call)).cloned();
    }
}

impl Conversation {
    /// Reads messages, whose JSON in strings may be so deep.
    pub(crate) fn of(messages: Vec<Object<MessageIn>>, depth: usize) -> Result<Self, ApiError> {
        if messages.len() > MAX_MESSAGES {
            let message = format!("{} messages are too many, the limit is {MAX_MESSAGES}", messages.len());
            return Err(ApiError::invalid("messages", message));
        }
        let mut reader = Reader {
            depth,
            ids: HashMap::new(),
            last: HashMap::new(),
            messages: Vec::with_capacity(messages.len()),
            results: Vec::new(),
            said: None,
            files: Vec::new(),
        };
        for (index, Object(message)) in messages.into_iter().enumerate() {
            reader.read(Place { index }, message)?;
        }
        let Reader { mut messages, results, said, ids, files, .. } = reader;
        let goes_on = said.is_none() && results.is_empty();
        let news = match said {
            Some((index, content)) if is_blank(&content) => {
                return Err(
                    Place { index }.error("content", "it is empty; send a text, or parts with a text or an image")
                );
            }
            Some((_, content)) => News::Said(content, results),
            None if !results.is_empty() => News::Results(results),
            None if messages.is_empty() => return Err(ApiError::invalid("messages", "send at least one message")),
            None if messages.last().is_some_and(|last| last.tool_uses().next().is_some()) => {
                return Err(ApiError::invalid("messages", LAST));
            }
            None => {
                messages.push(Message::user(GO_ON));
                News::Said(Content::Text(GO_ON.to_owned()), Vec::new())
            }
        };
        Ok(Self { messages, news, goes_on, files, ids })
    }

    /// The system messages that it begins with, as one text. `None` where the request brings results only, and not the
    /// conversation that they belong to.
    pub(crate) fn system(&self) -> Option<String> {
        let texts = self.messages.iter().map_while(|message| match message {
            Message::System { content } => Some(content.as_str()),
            Message::User { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
        });
        let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
        let is_whole = self.messages.iter().any(|message| matches!(message, Message::User { .. }));
        (is_whole || !texts.is_empty()).then(|| texts.join("\n\n"))
    }

    /// Where the last of its calls was made, if we have made one.
    pub(crate) fn last_place(&self) -> Option<CallPlace> {
        let calls = self.messages.iter().rev().flat_map(Message::tool_uses);
        calls.filter_map(|call| self.ids.get(&call.id)).find_map(|id| call_id::place(id))
    }

    /// Adds reasoning to the answers that made calls, by their text and calls.
    pub(crate) fn change_answers(
        &mut self,
        mut reasoning: impl FnMut(&str, &[ClientCall<'_>]) -> Option<(String, Option<String>)>,
    ) {
        let Self { messages, ids, .. } = self;
        for message in messages.iter_mut() {
            let id = |call: &ToolUse| ids.get(&call.id).map(String::as_str).unwrap_or_default();
            let calls: Vec<_> = message.tool_uses().map(|call| ClientCall { id: id(call), call }).collect();
            let Message::Assistant { content } = &*message else { continue };
            if calls.is_empty() {
                continue;
            }
            if let Some((thinking, signature)) = reasoning(&content.text(), &calls) {
                let content = with_reasoning(content, thinking, signature);
                *message = Message::Assistant { content };
            }
        }
    }

    /// The calls whose results are missing, as the client knows them: those of the assistant's last message, of which there
    /// are results at the end.
    pub(crate) fn missing(&self) -> Vec<String> {
        let News::Results(results) = &self.news else { return Vec::new() };
        let last = self.messages.iter().rev().find(|message| matches!(message, Message::Assistant { .. }));
        let calls = last.into_iter().flat_map(Message::tool_uses);
        let answered = |call: &CallId| results.iter().any(|result| result.name == *call);
        let shown = |id: &CallId| self.ids.get(id).cloned().unwrap_or_else(|| id.to_string());
        calls.filter(|call| !answered(&call.id)).map(|call| shown(&call.id)).collect()
    }
}

struct Reader {
    depth: usize,
    /// The calls so far, with their ids as the client has them.
    ids: HashMap<CallId, String>,
    /// The last call of each id, and how many there were.
    last: HashMap<CallId, (CallId, usize)>,
    messages: Vec<Message>,
    /// Results since the assistant last spoke.
    results: Vec<ToolResult>,
    /// What the user said since the assistant last spoke, and where.
    said: Option<(usize, Content)>,
    files: Vec<File>,
}

impl Reader {
    fn read(&mut self, place: Place, message: MessageIn) -> Result<(), ApiError> {
        if message.audio.is_some() {
            return Err(place.error("audio", "agents take text and images only").with_code("unsupported_parameter"));
        }
        if message.function_call.is_some() {
            return Err(place
                .error("function_call", "it is deprecated; use tool_calls")
                .with_code("unsupported_parameter"));
        }
        let role = message.role.as_str();
        if role != "assistant" && message.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty()) {
            return Err(place.error("tool_calls", "only the assistant calls tools"));
        }
        match role {
            // Instructions may stand anywhere; they are gathered.
            "system" | "developer" => {
                let content = message.content.ok_or_else(|| place.error("content", "it is missing"))?;
                let content = place.content(content, Speaker::Other, &mut self.files)?.lines();
                self.messages.push(Message::System { content });
            }
            "user" => {
                let content = message.content.ok_or_else(|| place.error("content", "it is missing"))?;
                let content = place.content(content, Speaker::User, &mut self.files)?;
                self.said = Some((place.index, content.clone()));
                self.messages.push(Message::User { content });
            }
            "assistant" => {
                self.said = None;
                self.results.clear();
                let message = self.assistant(place, message)?;
                self.messages.push(message);
            }
            "tool" => {
                let result = self.result(place, message)?;
                let (call_id, content) = (result.name.clone(), result.content.clone());
                self.said = None;
                self.results.push(result);
                self.messages.push(Message::Tool { call_id, content, is_error: false });
            }
            "function" => {
                return Err(place
                    .error("role", "it is deprecated; send results with role \"tool\"")
                    .with_code("unsupported_parameter"));
            }
            other => {
                let shown: String = other.chars().take(64).collect();
                let what = format!("{shown:?} is not known; use system, developer, user, assistant or tool");
                return Err(place.error("role", what));
            }
        }
        Ok(())
    }

    fn assistant(&mut self, place: Place, message: MessageIn) -> Result<Message, ApiError> {
        let thinking = reasoning_of(&message);
        let content = match (message.content, message.refusal) {
            (Some(content), _) => Content::Text(place.content(content, Speaker::Assistant, &mut self.files)?.lines()),
            (None, refusal) => Content::Text(refusal.unwrap_or_default()),
        };
        let calls = message.tool_calls.unwrap_or_default();
        if calls.is_empty() {
            let is_empty = content.text().trim().is_empty();
            let content = if is_empty { content } else { Content::answer(thinking, None, content.text(), Vec::new()) };
            return Ok(Message::Assistant { content });
        }
        let mut uses = Vec::with_capacity(calls.len());
        let mut seen = HashSet::new();
        for (at, Object(call)) in calls.into_iter().enumerate() {
            let id = call.id.clone();
            let mut call = self.call(place, at, call)?;
            // Two calls of one message and one id could not be told apart, by anybody.
            if !seen.insert(call.id.clone()) {
                return Err(
                    place.error(&format!("tool_calls[{at}].id"), "it is the id of another call of this message")
                );
            }
            call.id = self.name(call.id);
            self.ids.insert(call.id.clone(), id);
            uses.push(call);
        }
        Ok(Message::Assistant { content: Content::answer(thinking, None, content.text(), uses) })
    }

    /// A name of its own for a call: some models count their calls anew with every answer.
    fn name(&mut self, id: CallId) -> CallId {
        let (last, count) = self.last.entry(id.clone()).or_insert_with(|| (id.clone(), 0));
        *count += 1;
        if *count > 1 || self.ids.contains_key(&id) {
            let name = |count: usize| CallId::new(format!("{}_{count}", id.as_str()));
            while self.ids.contains_key(&name(*count)) {
                *count += 1;
            }
            *last = name(*count);
        }
        last.clone()
    }

    fn call(&self, place: Place, at: usize, call: ToolCallIn) -> Result<ToolUse, ApiError> {
        let field = |name: &str| format!("tool_calls[{at}].{name}");
        if let Some(kind) = call.r#type.filter(|kind| kind != "function") {
            let shown: String = kind.chars().take(64).collect();
            return Err(place.error(&field("type"), format!("calls of type {shown:?} are not supported")));
        }
        let missing = || place.error(&field("function"), "it is missing");
        let Object(function) = call.function.ok_or_else(missing)?;
        let id = call_id(&call.id).ok_or_else(|| bad_id(place, &field("id")))?;
        let input = match object(&function.arguments, self.depth) {
            Ok(input) => input,
            Err(BodyError::TooDeep { .. }) => {
                let what = format!("its JSON is nested deeper than {} levels, which is the limit", self.depth);
                return Err(place.error(&field("function.arguments"), what));
            }
            // Models write it that have nothing to say, or were cut off. The conversation has gone on all the same.
            Err(_) => Json::empty_object(),
        };
        Ok(ToolUse { id, name: function.name, input })
    }

    fn result(&mut self, place: Place, message: MessageIn) -> Result<ToolResult, ApiError> {
        let id = message.tool_call_id.ok_or_else(|| place.error("tool_call_id", "it is missing"))?;
        let call = call_id(&id).ok_or_else(|| bad_id(place, "tool_call_id"))?;
        let content = message.content.ok_or_else(|| place.error("content", "it is missing"))?;
        let content = place.content(content, Speaker::Other, &mut self.files)?;
        // Of several calls of one id, the last one before it is meant.
        let name = self.last.get(&call).map_or(call, |(last, _)| last.clone());
        let result = ToolResult { index: place.index, place: call_id::place(&id), id, name, found: None, content };
        if self.results.iter().any(|other| other.name == result.name) {
            return Err(place.error("tool_call_id", "the call has its result already; send one for each call"));
        }
        Ok(result)
    }
}

fn call_id(id: &str) -> Option<CallId> {
    (!id.is_empty() && id.len() <= MAX_CALL_ID).then(|| CallId::new(id))
}

fn bad_id(place: Place, field: &str) -> ApiError {
    place.error(field, format!("it must have 1 to {MAX_CALL_ID} bytes"))
}

/// Refuses results of calls that the conversation does not have, where it is all there is.
pub(crate) fn check_history(messages: &[Message]) -> Result<(), ApiError> {
    let mut calls: HashSet<&CallId> = HashSet::new();
    for (index, message) in messages.iter().enumerate() {
        calls.extend(message.tool_uses().map(|call| &call.id));
        if let Message::Tool { call_id, .. } = message
            && !calls.contains(call_id)
        {
            let what =
                "it answers no call of an assistant's message before it; send the message with its tool_calls too";
            return Err(Place { index }.error("tool_call_id", what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
