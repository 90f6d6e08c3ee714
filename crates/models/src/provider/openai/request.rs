//! Requests. Reasoning is not sent back: the wire has no agreed place for it.

use std::borrow::Cow;

use everturn_core::{Json, ToolSpec, ToolUse};
use serde::Serialize;

use crate::provider::{
    history::{self, Entry, Part, ResultImages},
    wire::{Ask, Written, temperature},
};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum Message<'a> {
    System {
        content: &'a str,
    },
    User {
        content: UserContent<'a>,
    },
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: String,
    },
}

/// Plain text where there is nothing else: simple servers take no parts.
#[derive(Serialize)]
#[serde(untagged)]
enum UserContent<'a> {
    Text(String),
    Parts(Vec<UserPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum UserPart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: &'a str,
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
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
    parameters: &'a Json,
}

pub(super) fn write(ask: &Ask<'_>) -> Result<Written, serde_json::Error> {
    let Ask { model, settings, request, .. } = *ask;
    let options = &request.options;
    let system = request.system.clone();
    let mut messages = Vec::new();
    if !system.is_empty() {
        messages.push(Message::System { content: &system });
    }
    for entry in history::entries(ask, ResultImages::FromUser) {
        match entry {
            Entry::System(content) => messages.push(Message::System { content }),
            Entry::User(parts) => messages.push(Message::User { content: user_content(&parts) }),
            Entry::Assistant { text, calls, .. } => messages.push(Message::Assistant {
                content: (!text.is_empty()).then_some(text),
                tool_calls: calls.into_iter().map(tool_call).collect(),
            }),
            Entry::Results(results) => messages.extend(
                results.into_iter().map(|result| Message::Tool { tool_call_id: result.call_id, content: result.text }),
            ),
        }
    }
    // OpenAI's reasoning models take only the newer name, compatible servers often only the older.
    let (max_tokens, max_completion_tokens) = match settings.is_official {
        true => (None, ask.max_output()),
        false => (ask.max_output(), None),
    };
    let body = serde_json::to_vec(&Body {
        model,
        messages,
        tools: request.tools.iter().map(tool).collect(),
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        temperature: temperature(options),
        max_tokens,
        max_completion_tokens,
    })?;
    Ok(Written { body, ..Written::default() })
}

fn user_content<'a>(parts: &[Part<'a>]) -> UserContent<'a> {
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) => Some(text.as_ref()),
            Part::Document(document) => Some(document.text.as_str()),
            Part::Image(_) => None,
        })
        .collect();
    if texts.len() == parts.len() {
        return UserContent::Text(texts.join("\n\n"));
    }
    let part = |part: &Part<'a>| match part {
        Part::Text(text) => UserPart::Text { text: text.clone() },
        Part::Document(document) => UserPart::Text { text: Cow::Borrowed(document.text.as_str()) },
        Part::Image(url) => UserPart::ImageUrl { image_url: ImageUrl { url } },
    };
    UserContent::Parts(parts.iter().map(part).collect())
}

fn tool_call(call: &ToolUse) -> ToolCall<'_> {
    let function = Function { name: &call.name, arguments: call.input.as_str() };
    ToolCall { id: call.id.as_str(), r#type: "function", function }
}

fn tool(tool: &ToolSpec) -> Tool<'_> {
    let function = Declaration { name: &tool.name, description: &tool.description, parameters: &tool.input_schema };
    Tool { r#type: "function", function }
}
