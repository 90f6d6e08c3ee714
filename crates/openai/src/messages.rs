//! What a request says: the conversation so far, and what is new in it.

use std::collections::{HashMap, HashSet};

use everturn_core::{CallId, Content, Json, Message, ToolUse};
use everturn_http::Object;

use crate::{
    call_id::{self, CallPlace},
    content::{Place, Speaker, is_blank},
    error::ApiError,
    parameters::object,
    request::{MessageIn, ToolCallIn},
};

/// How many messages one request may bring.
const MAX_MESSAGES: usize = 10_000;
/// How long a tool call's id may be.
const MAX_CALL_ID: usize = 256;
/// What cannot be the end.
const LAST: &str = "the last message must be from the user, or be the results of tool calls";

/// The conversation that a request brings.
#[derive(Debug)]
pub(crate) struct Conversation {
    /// All of it, as history has it.
    pub(crate) messages: Vec<Message>,
    pub(crate) news: News,
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
    pub(crate) content: Content,
}

impl ToolResult {
    /// The call.
    pub(crate) fn call(&self) -> CallId {
        self.place.as_ref().map_or_else(|| CallId::new(&*self.id), |place| place.call.clone())
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
            messages: Vec::with_capacity(messages.len()),
            results: Vec::new(),
            said: None,
        };
        for (index, Object(message)) in messages.into_iter().enumerate() {
            reader.read(Place { index }, message)?;
        }
        let Reader { messages, results, said, ids, .. } = reader;
        let news = match said {
            Some((index, content)) if is_blank(&content) => {
                return Err(
                    Place { index }.error("content", "it is empty; send a text, or parts with a text or an image")
                );
            }
            Some((_, content)) => News::Said(content, results),
            None if !results.is_empty() => News::Results(results),
            None if messages.is_empty() => return Err(ApiError::invalid("messages", "send at least one message")),
            None => return Err(ApiError::invalid("messages", LAST)),
        };
        Ok(Self { messages, news, ids })
    }

    /// The calls whose results are missing, as the client knows them: those of the assistant's last message, of which there
    /// are results at the end.
    pub(crate) fn missing(&self) -> Vec<String> {
        let News::Results(results) = &self.news else { return Vec::new() };
        let last = self.messages.iter().rev().find(|message| matches!(message, Message::Assistant { .. }));
        let calls = last.into_iter().flat_map(Message::tool_uses);
        let answered = |call: &CallId| results.iter().any(|result| result.call() == *call);
        let shown = |id: &CallId| self.ids.get(id).cloned().unwrap_or_else(|| id.to_string());
        calls.filter(|call| !answered(&call.id)).map(|call| shown(&call.id)).collect()
    }
}

struct Reader {
    depth: usize,
    /// The calls so far, with their ids as the client has them.
    ids: HashMap<CallId, String>,
    messages: Vec<Message>,
    /// Results since the assistant last spoke.
    results: Vec<ToolResult>,
    /// What the user said since the assistant last spoke, and where.
    said: Option<(usize, Content)>,
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
                let content = place.content(content, Speaker::Other)?.text();
                self.messages.push(Message::System { content });
            }
            "user" => {
                let content = message.content.ok_or_else(|| place.error("content", "it is missing"))?;
                let content = place.content(content, Speaker::User)?;
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
                let (call_id, content) = (result.call(), result.content.clone());
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
        let content = match (message.content, message.refusal) {
            (Some(content), _) => place.content(content, Speaker::Assistant)?,
            (None, refusal) => Content::Text(refusal.unwrap_or_default()),
        };
        let calls = message.tool_calls.unwrap_or_default();
        if calls.is_empty() {
            return Ok(Message::Assistant { content });
        }
        let mut uses = Vec::with_capacity(calls.len());
        for (at, Object(call)) in calls.into_iter().enumerate() {
            let id = call.id.clone();
            let call = self.call(place, at, call)?;
            // Two calls of one id could not be told apart, by anybody.
            if self.ids.insert(call.id.clone(), id).is_some() {
                return Err(place.error(&format!("tool_calls[{at}].id"), "it is the id of an earlier call"));
            }
            uses.push(call);
        }
        Ok(Message::Assistant { content: Content::answer(String::new(), None, content.text(), uses) })
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
        let arguments = function.arguments.trim();
        // What models write that have nothing to say.
        let input = if arguments.is_empty() { Some(Json::empty_object()) } else { object(arguments, self.depth) };
        let input = input.ok_or_else(|| {
            let what = format!("it must be a JSON object in a string, with {} levels at most", self.depth);
            place.error(&field("function.arguments"), what)
        })?;
        Ok(ToolUse { id, name: function.name, input })
    }

    fn result(&self, place: Place, message: MessageIn) -> Result<ToolResult, ApiError> {
        let id = message.tool_call_id.ok_or_else(|| place.error("tool_call_id", "it is missing"))?;
        let call = call_id(&id).ok_or_else(|| bad_id(place, "tool_call_id"))?;
        let content = message.content.ok_or_else(|| place.error("content", "it is missing"))?;
        let content = place.content(content, Speaker::Other)?;
        let result = ToolResult { index: place.index, place: call_id::place(&id), id, content };
        if self.results.iter().any(|other| other.call() == call) {
            return Err(place.error("tool_call_id", "the call has its result already; send one for each call"));
        }
        Ok(result)
    }
}

/// A call's id as history has it: short, also where the client has a long one from us.
fn call_id(id: &str) -> Option<CallId> {
    if id.is_empty() || id.len() > MAX_CALL_ID {
        return None;
    }
    Some(call_id::place(id).map_or_else(|| CallId::new(id), |place| place.call))
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
mod tests {
    use everturn_core::{Block, SessionId, TurnId};
    use everturn_http::{BodyLimits, parse_json};
    use expect_test::{Expect, expect};

    use super::*;

    /// A message in short.
    fn kinds(message: &Message) -> String {
        let content = match message {
            Message::System { content } => return format!("system {content:?}"),
            Message::User { content } | Message::Assistant { content } | Message::Tool { content, .. } => content,
        };
        let block = |block: &Block| match block {
            Block::Text(text) => format!("{text:?}"),
            Block::ToolUse(call) => format!("{}({})", call.name, call.input.as_str()),
            Block::Image { .. } => "image".to_owned(),
            Block::Thinking { .. } | Block::Document { .. } => "?".to_owned(),
        };
        let blocks: Vec<_> = content.clone().into_blocks().iter().map(block).collect();
        format!("{:?} {}", message.role(), blocks.join(" ")).to_lowercase()
    }

    fn read(messages: &str) -> Result<Conversation, ApiError> {
        let messages = parse_json(messages.as_bytes(), BodyLimits { bytes: 100_000, depth: 20 })?;
        let conversation = Conversation::of(messages, 5)?;
        check_history(&conversation.messages)?;
        Ok(conversation)
    }

    #[track_caller]
    fn check(messages: &str, expected: Expect) {
        let shown = match read(messages) {
            Ok(conversation) => {
                let news = match &conversation.news {
                    News::Said(content, results) => {
                        format!("said {:?} after {} results", content.text(), results.len())
                    }
                    News::Results(results) => {
                        format!("{} results, missing {:?}", results.len(), conversation.missing())
                    }
                };
                let messages: Vec<_> = conversation.messages.iter().map(kinds).collect();
                format!("{}\n=> {news}", messages.join("\n"))
            }
            Err(error) => format!("{} [{}]", error.error.message, error.error.param.unwrap_or_default()),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn conversations() {
        check(
            r#"[{"role":"developer","content":[{"type":"text","text":"Be "},{"type":"text","text":"brief"}]},
                {"role":"user","content":"hi","name":"ann"},{"role":"assistant","content":null,"refusal":"no"},
                {"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA==","detail":"low"}}]},
                {"role":"system","content":"now"}]"#,
            expect![[r#"
                system "Be brief"
                user "hi"
                assistant "no"
                user "look" image
                system "now"
                => said "look" after 0 results"#]],
        );
        check(
            r#"[{"role":"user","content":"w"},{"role":"assistant","content":"let me","tool_calls":[
                {"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
                {"id":"b","type":"function","function":{"name":"g","arguments":""}}]},
                {"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"2"}]}]"#,
            expect![[r#"
                user "w"
                assistant "let me" f({"x":1}) g({})
                tool "2"
                => 1 results, missing ["a"]"#]],
        );
    }

    #[test]
    fn what_cannot_be() {
        let call = r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}"#;
        check("[]", expect!["messages: send at least one message [messages]"]);
        check(
            r#"[{"role":"user","content":""}]"#,
            expect![
                "messages[0].content: it is empty; send a text, or parts with a text or an image [messages[0].content]"
            ],
        );
        check(
            r#"[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]"#,
            expect!["messages: the last message must be from the user, or be the results of tool calls [messages]"],
        );
        check(
            r#"[{"role":"user","content":[{"type":"input_audio"}]}]"#,
            expect![[
                r#"messages[0].content[0].type: parts of type "input_audio" are not supported; use text or image_url [messages[0].content[0].type]"#
            ]],
        );
        check(
            r#"[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x/y.png"}}]}]"#,
            expect![[
                r#"messages[0].content[0].image_url.url: "http://x/y.png" is neither an https:// URL nor a data:image/…;base64,… URL [messages[0].content[0].image_url.url]"#
            ]],
        );
        check(
            r#"[{"role":"robot","content":"x"}]"#,
            expect![[
                r#"messages[0].role: "robot" is not known; use system, developer, user, assistant or tool [messages[0].role]"#
            ]],
        );
        check(
            r#"[{"role":"user","content":"x"},{"role":"tool","tool_call_id":"zz","content":"x"}]"#,
            expect![
                "messages[1].tool_call_id: it answers no call of an assistant's message before it; send the message with its tool_calls too [messages[1].tool_call_id]"
            ],
        );
        check(
            &format!(r#"[{call},{call}]"#),
            expect!["messages[1].tool_calls[0].id: it is the id of an earlier call [messages[1].tool_calls[0].id]"],
        );
        check(
            &format!(r#"[{}]"#, call.replace("{}\"", "[[1\"")),
            expect![
                "messages[0].tool_calls[0].function.arguments: it must be a JSON object in a string, with 5 levels at most [messages[0].tool_calls[0].function.arguments]"
            ],
        );
        check(
            r#"[{"role":"user","content":3}]"#,
            expect![
                "the body is not valid at [0].content: invalid type: integer `3`, expected a string or an array of content parts at line 1 column 27 [[0].content]"
            ],
        );
    }

    #[test]
    fn our_own_ids_become_short_again() {
        let (session, turn, call) = (SessionId::mint(), TurnId::mint(), CallId::mint());
        let id = call_id::shown(&session, &turn, &call);
        let messages = format!(
            r#"[{{"role":"assistant","tool_calls":[{{"id":"{id}","function":{{"name":"f","arguments":"{{}}"}}}}]}},
                {{"role":"tool","tool_call_id":"{id}","content":"x"}}]"#
        );
        let conversation = read(&messages).unwrap();
        assert_eq!(conversation.messages[0].tool_uses().next().unwrap().id, call);
        assert!(matches!(&conversation.messages[1], Message::Tool { call_id, .. } if *call_id == call));
        let News::Results(results) = conversation.news else { panic!("no results") };
        assert_eq!(results[0].place.as_ref().unwrap().turn, turn);
    }
}
