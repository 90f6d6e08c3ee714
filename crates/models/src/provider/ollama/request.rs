//! Requests. Images go as base64 only: Ollama fetches nothing.

use everturn_core::{Json, ToolSpec, ToolUse};
use serde::Serialize;

use crate::provider::{
    history::{self, Entry, Part, ResultImages},
    image::{self, Image},
    wire::{Ask, Written, temperature},
};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Options::is_empty")]
    options: Options,
}

#[derive(Serialize)]
struct Options {
    /// Without it Ollama silently cuts conversations to a few thousand tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    num_ctx: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_predict: Option<u64>,
}

impl Options {
    fn is_empty(&self) -> bool {
        self.num_ctx.is_none() && self.num_predict.is_none() && self.temperature.is_none()
    }
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
            Entry::User(parts) => messages.push(user_message(&parts)),
            Entry::Assistant { text, calls, .. } => messages
                .push(Message::Assistant { content: text, tool_calls: calls.into_iter().map(tool_call).collect() }),
            Entry::Results(results) => messages.extend(results.into_iter().map(|result| Message::Tool {
                content: result.text,
                tool_name: result.name,
                tool_call_id: result.call_id,
            })),
        }
    }
    let body = serde_json::to_vec(&Body {
        model,
        messages,
        tools: request.tools.iter().map(tool).collect(),
        stream: true,
        options: Options {
            num_ctx: settings.context_window,
            num_predict: ask.max_output(),
            temperature: temperature(options),
        },
    })?;
    Ok(Written { body, ..Written::default() })
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

fn tool(tool: &ToolSpec) -> Tool<'_> {
    let function = Declaration { name: &tool.name, description: &tool.description, parameters: &tool.input_schema };
    Tool { r#type: "function", function }
}
