//! Requests.

use everturn_core::{Json, ToolSpec, ToolUse};
use serde::Serialize;

use super::proof::{self, ThinkingBlock};
use crate::provider::{
    history::{self, Entry, Part, ResultImages, ToolResult},
    image::{self, Image},
    wire::{Ask, Written, temperature},
};

/// The smallest budget for thinking that the provider takes.
const MIN_THINKING_BUDGET: u64 = 1024;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    stream: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    system: String,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
}

#[derive(Serialize)]
struct Thinking {
    r#type: &'static str,
    budget_tokens: u64,
}

#[derive(Serialize)]
struct Message<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    Assistant,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Block<'a> {
    Thinking(ThinkingBlock),
    Plain(PlainBlock<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum PlainBlock<'a> {
    Text {
        text: String,
    },
    Image {
        source: Source<'a>,
    },
    ToolUse {
        id: String,
        name: &'a str,
        input: &'a Json,
    },
    ToolResult {
        tool_use_id: String,
        content: Vec<PlainBlock<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Url { url: &'a str },
    Base64 { media_type: &'a str, data: &'a str },
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Json,
}

pub(super) fn write(ask: &Ask<'_>) -> Result<Written, serde_json::Error> {
    let Ask { model, settings, request, .. } = *ask;
    let options = &request.options;
    let mut messages: Vec<Message<'_>> = Vec::new();
    let mut may_think = true;
    for entry in history::entries(ask, ResultImages::Inline) {
        let (role, mut content) = match entry {
            Entry::System(text) => {
                (Role::User, vec![Block::Plain(PlainBlock::Text { text: history::system_as_text(text) })])
            }
            Entry::User(parts) => {
                may_think = true;
                (Role::User, parts.iter().map(|part| Block::Plain(user_block(part))).collect())
            }
            Entry::Assistant { thinking, text, calls } => {
                let has_calls = !calls.is_empty();
                let blocks = assistant_blocks(thinking, text, calls);
                // While calls are being answered the wire takes thinking only if they began with it, which those that
                // another provider made did not.
                may_think = !has_calls || matches!(blocks.first(), Some(Block::Thinking(_)));
                (Role::Assistant, blocks)
            }
            Entry::Results(results) => {
                (Role::User, results.into_iter().map(|result| Block::Plain(result_block(result))).collect())
            }
        };
        // Results come from the user here, so that a user's message may follow them: the wire wants both as one.
        match messages.last_mut() {
            Some(last) if last.role == role => last.content.append(&mut content),
            Some(_) | None => messages.push(Message { role, content }),
        }
    }
    let answer = ask.max_output().unwrap_or_else(|| ask.most_output().unwrap_or(32_000));
    // The budget counts towards the cap and must leave room for an answer; without room there is no thinking.
    let budget = settings.thinking_budget.map(|budget| budget.min(answer.saturating_sub(1)));
    let thinking = budget
        .filter(|budget| may_think && *budget >= MIN_THINKING_BUDGET)
        .map(|budget_tokens| Thinking { r#type: "enabled", budget_tokens });
    let body = serde_json::to_vec(&Body {
        model,
        max_tokens: answer,
        // A model that thinks takes no other temperature than its own.
        temperature: temperature(options).filter(|_| thinking.is_none()).map(|temperature| temperature.min(1.0)),
        stream: true,
        system: request.system.clone(),
        messages,
        tools: request.tools.iter().map(tool).collect(),
        thinking,
    })?;
    Ok(Written { body, ..Written::default() })
}

fn user_block<'a>(part: &Part<'a>) -> PlainBlock<'a> {
    match part {
        Part::Text(text) => PlainBlock::Text { text: text.to_string() },
        Part::Document(document) => PlainBlock::Text { text: document.text.clone() },
        Part::Image(url) => image_block(url),
    }
}

fn image_block(url: &str) -> PlainBlock<'_> {
    match Image::of(url) {
        Image::Address(url) => PlainBlock::Image { source: Source::Url { url } },
        Image::Data { media_type, base64 } => PlainBlock::Image { source: Source::Base64 { media_type, data: base64 } },
        Image::Unreadable => PlainBlock::Text { text: image::UNREADABLE.to_owned() },
    }
}

fn assistant_blocks<'a>(thinking: Option<(&str, &str)>, text: String, calls: Vec<&'a ToolUse>) -> Vec<Block<'a>> {
    let thinking = thinking.map(|(proof, text)| proof::read(proof, text)).unwrap_or_default();
    let mut blocks: Vec<Block<'a>> = thinking.into_iter().map(Block::Thinking).collect();
    if !text.trim().is_empty() {
        blocks.push(Block::Plain(PlainBlock::Text { text }));
    }
    blocks.extend(calls.into_iter().map(|call| {
        Block::Plain(PlainBlock::ToolUse { id: call_id(call.id.as_str()), name: &call.name, input: &call.input })
    }));
    blocks
}

fn result_block(result: ToolResult<'_>) -> PlainBlock<'_> {
    let mut content = Vec::new();
    if !result.text.trim().is_empty() {
        content.push(PlainBlock::Text { text: result.text });
    }
    content.extend(result.images.into_iter().map(image_block));
    PlainBlock::ToolResult { tool_use_id: call_id(result.call_id), content, is_error: result.is_error }
}

/// Ids that clients made may have characters that this wire does not take; ours never do.
fn call_id(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect()
}

fn tool(tool: &ToolSpec) -> Tool<'_> {
    Tool { name: &tool.name, description: &tool.description, input_schema: &tool.input_schema }
}
