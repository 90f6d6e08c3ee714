//! Results of tools as clients send them: a list of items, or an object around one, once or twice.

use everturn_core::{Block, Content};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    ContentIn, ItemIn,
    field::{At, FieldError},
    item::{Kind, without_tags},
};

/// `{status, value | error}` or `{content, isError}`.
#[derive(Deserialize)]
struct ResultIn {
    value: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
    content: Option<Box<RawValue>>,
    #[serde(rename = "isError", alias = "is_error")]
    is_error: Option<bool>,
    #[serde(rename = "structuredContent", alias = "structured_content")]
    structured: Option<Box<RawValue>>,
}

/// What a tool's result says, and whether that is a failure.
pub(crate) fn tool_result(at: &At<'_>, raw: &RawValue) -> Result<(Content, bool), FieldError> {
    if !raw.get().starts_with('{') {
        return Ok((items(at, raw)?, false));
    }
    let outer: ResultIn = at.object(raw)?;
    if let (None, None, Some(error)) = (&outer.value, &outer.content, &outer.error) {
        return Ok((Content::Text(text_of(error)), true));
    }
    let Some(value) = &outer.value else { return outer.read(at) };
    let at = At::Field(at, "value");
    if value.get().starts_with('{') { at.object::<ResultIn>(value)?.read(&at) } else { Ok((items(&at, value)?, false)) }
}

impl ResultIn {
    fn read(self, at: &At<'_>) -> Result<(Content, bool), FieldError> {
        let is_error = self.is_error.unwrap_or(false);
        let content = match (&self.content, &self.structured) {
            (Some(content), structured) => {
                let content = items(&At::Field(at, "content"), content)?;
                match structured {
                    Some(structured) if content.is_empty() => Content::Text(structured.get().to_owned()),
                    Some(_) | None => content,
                }
            }
            (None, Some(structured)) => Content::Text(structured.get().to_owned()),
            (None, None) => return Err(At::Field(at, "content").error("is missing")),
        };
        Ok((content, is_error))
    }
}

/// A JSON string's text; of anything else, its JSON.
fn text_of(raw: &RawValue) -> String {
    serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
}

fn items(at: &At<'_>, raw: &RawValue) -> Result<Content, FieldError> {
    let items = match at.value(raw)? {
        ContentIn::Text(text) => return Ok(Content::Text(text)),
        ContentIn::Items(items) => items,
    };
    let mut blocks = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        if item.is_for_models() {
            blocks.push(block(&At::Entry(at, index), item)?);
        }
    }
    Ok(content_of(blocks))
}

fn block(at: &At<'_>, item: &ItemIn) -> Result<Block, FieldError> {
    Ok(match item.kind(at)? {
        Kind::Text => Block::Text(item.text(at)?),
        Kind::Image => item.image(at)?,
        Kind::Resource => Block::Text(resource(at, item)?),
        Kind::ResourceLink => {
            let uri = item.needs(at, "uri", &item.uri)?;
            Block::Text(format!("[{}]({uri})", item.name.as_deref().unwrap_or(uri)))
        }
        Kind::Audio => Block::Text(format!("[audio, {}]", item.mime_type.as_deref().unwrap_or("of unknown type"))),
        Kind::ToolRequest
        | Kind::ToolResponse
        | Kind::Thinking
        | Kind::Reasoning
        | Kind::ActionRequired
        | Kind::ElicitationResponse
        | Kind::Aside => return Err(at.error("cannot stand in a tool's result; use text, image or resource")),
    })
}

#[derive(Deserialize)]
struct ResourceIn {
    uri: Option<String>,
    text: Option<String>,
}

fn resource(at: &At<'_>, item: &ItemIn) -> Result<String, FieldError> {
    let raw = item.needs(at, "resource", &item.resource)?;
    let ResourceIn { uri, text } = At::Field(at, "resource").object(raw)?;
    Ok(match text {
        Some(text) => without_tags(&text).into_owned(),
        None => format!("[resource {}]", uri.as_deref().unwrap_or("without address")),
    })
}

/// Blocks as content: a plain text where there is nothing else.
pub(crate) fn content_of(mut blocks: Vec<Block>) -> Content {
    match blocks.as_mut_slice() {
        [] => Content::Text(String::new()),
        [Block::Text(text)] => Content::Text(std::mem::take(text)),
        _ => Content::Blocks(blocks),
    }
}
