//! Requests. Images go as base64 only: Ollama fetches nothing.

use std::borrow::Cow;

use everturn_core::{Json, ToolChoice, ToolSpec, ToolUse};
use serde::{Serialize, de::IgnoredAny};

use super::options::{self, Format, Options, Think};
use crate::provider::{
    history::{self, Entry, Part, ResultImages},
    image::{self, Image},
    proof,
    schema::{Rules, tool_schema},
    wire::{Ask, Written},
};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    stream: bool,
    /// A conversation that is too long is to be refused. Ollama would drop its beginning without a word.
    truncate: bool,
    /// The same for an answer that outgrows the window.
    shift: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<Think>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
    options: Options<'a>,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Message<'a> {
    System {
        content: &'a str,
    },
    User {
        content: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        images: Vec<&'a str>,
    },
    Assistant {
        content: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        thinking: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
    },
    Tool {
        content: String,
        tool_name: &'a str,
        tool_call_id: &'a str,
    },
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: &'a str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a Json,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Declaration<'a>,
}

#[derive(Serialize)]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, Json>,
}

pub(super) fn write(ask: &Ask<'_>) -> Result<Written, serde_json::Error> {
    let mut notices = Vec::new();
    let tools = tools(ask, &mut notices);
    let names: Vec<&str> = tools.iter().map(|tool| tool.function.name).collect();
    let (format, shape) = options::format(ask, !tools.is_empty(), &mut notices);
    let forced = options::forced_call(ask, &names, &mut notices);
    let system: Vec<&str> =
        [Some(ask.request.system.as_str()).filter(|text| !text.is_empty()), shape.as_deref(), forced.as_deref()]
            .into_iter()
            .flatten()
            .collect();
    let system = system.join("\n\n");
    let mut messages = Vec::new();
    if !system.is_empty() {
        messages.push(Message::System { content: &system });
    }
    for entry in history::entries(ask, ResultImages::FromUser) {
        match entry {
            Entry::System(content) => messages.push(Message::System { content }),
            Entry::User(parts) => messages.push(user_message(&parts)),
            Entry::Assistant { thinking, text, calls, .. } => messages.push(Message::Assistant {
                content: text,
                thinking: thinking.and_then(|(record, thinking)| own_thinking(ask, record, thinking)),
                tool_calls: calls.into_iter().map(tool_call).collect(),
            }),
            Entry::Results(results) => messages.extend(results.into_iter().map(|result| Message::Tool {
                content: result.text,
                tool_name: result.name,
                tool_call_id: result.call_id,
            })),
        }
    }
    let body = serde_json::to_vec(&Body {
        model: ask.model,
        messages,
        tools,
        stream: true,
        truncate: false,
        shift: false,
        think: options::think(ask, &mut notices),
        format,
        options: options::options(ask),
    })?;
    Ok(Written { body, notices, prefix: None })
}

/// The thoughts before a call, where this model had them. Its template decides how long they stay of interest.
fn own_thinking<'a>(ask: &Ask<'_>, record: &str, thinking: &'a str) -> Option<&'a str> {
    let proof = proof::read::<IgnoredAny>("ollama", record)?;
    (proof.from == ask.from && !ask.without_proofs && !thinking.is_empty()).then_some(thinking)
}

fn user_message<'a>(parts: &[Part<'a>]) -> Message<'a> {
    let mut texts: Vec<String> = Vec::new();
    let mut images = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => texts.push(text.to_string()),
            Part::Document(document) => texts.push(document.text.clone()),
            Part::Image(url) => match Image::of(url) {
                Image::Data { base64, .. } => images.push(base64),
                Image::Address(url) => texts.push(format!("[An image was left out here: {url} is not a data URL.]")),
                Image::Unreadable => texts.push(image::UNREADABLE.to_owned()),
            },
        }
    }
    Message::User { content: texts.join("\n\n"), images }
}

fn tool_call(call: &ToolUse) -> ToolCall<'_> {
    ToolCall { id: call.id.as_str(), function: Function { name: &call.name, arguments: &call.input } }
}

/// The tools that can be declared. None at all where the model must not call any, which Ollama cannot be told.
fn tools<'a>(ask: &Ask<'a>, notices: &mut Vec<String>) -> Vec<Tool<'a>> {
    let request = ask.request;
    if request.tools.is_empty() || request.options.tool_choice == Some(ToolChoice::None) {
        return Vec::new();
    }
    if ask.learned.takes_tools == Some(false) {
        notices.push(format!("all tools are left out: {} takes none", ask.model));
        return Vec::new();
    }
    let mut tools = Vec::with_capacity(request.tools.len());
    for tool in request.tools.iter().filter(|tool| !ask.learned.tools.contains(&tool.name)) {
        match declaration(tool) {
            Ok(function) => tools.push(Tool { r#type: "function", function }),
            Err(reason) => notices.push(format!("the tool {} is left out: {reason}", tool.name)),
        }
    }
    tools
}

fn declaration(tool: &ToolSpec) -> Result<Declaration<'_>, String> {
    let parameters = tool_schema(&tool.input_schema, Rules::Ollama)?;
    Ok(Declaration { name: &tool.name, description: &tool.description, parameters })
}
