//! What a model is given of a tool's result.

use everturn_core::{Block, Content};
use everturn_tools::{ToolFailure, ToolOutput};
use rmcp::model::{ContentBlock, ResourceContents, ServerResult};
use serde_json::Value;

use crate::{config::Bytes, words::shortened};

/// Bytes of all images of one result.
const IMAGE_BYTES: usize = 5 * 1024 * 1024;
/// Parts of one result.
const MAX_PARTS: usize = 512;
/// Longest URI, name or kind that is told, in bytes.
const NAME_BYTES: usize = 2 * 1024;
/// Kinds of images that every model which sees takes.
const IMAGE_KINDS: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// What a model is told of a result without content.
const NOTHING: &str = "(no output)";

/// The result of a call in the words of the engine.
pub(crate) fn output(result: ServerResult) -> Result<ToolOutput, ToolFailure> {
    match result {
        ServerResult::CallToolResult(result) => {
            let parts = result.content.into_iter().map(Ok).collect();
            Ok(output_of(parts, result.structured_content, result.is_error == Some(true)))
        }
        ServerResult::EmptyResult(_) => Ok(ToolOutput::text(NOTHING)),
        // Not what the SDK knows as a result, for instance because one of its parts is of a newer kind.
        ServerResult::CustomResult(result) => lenient(result.0),
        _ => Err(ToolFailure("the MCP server answered with something that is not the result of a tool".to_owned())),
    }
}

fn lenient(result: Value) -> Result<ToolOutput, ToolFailure> {
    let Value::Object(mut result) = result else {
        return Err(ToolFailure("the MCP server's result is not a JSON object".to_owned()));
    };
    let parts = match result.remove("content") {
        Some(Value::Array(parts)) => parts.into_iter().map(part).collect(),
        Some(Value::String(text)) => vec![Ok(ContentBlock::text(text))],
        Some(_) | None => Vec::new(),
    };
    let is_error = result.get("isError") == Some(&Value::Bool(true));
    Ok(output_of(parts, result.remove("structuredContent"), is_error))
}

/// A part, or a note in its place.
fn part(part: Value) -> Result<ContentBlock, String> {
    let kind =
        part.get("type").and_then(Value::as_str).map_or_else(|| "unknown".to_owned(), |kind| shortened(kind, 100));
    serde_json::from_value(part).map_err(|_| format!("[a part of kind {kind:?} that cannot be shown]"))
}

fn output_of(parts: Vec<Result<ContentBlock, String>>, structured: Option<Value>, is_error: bool) -> ToolOutput {
    let mut shown = Shown { blocks: Vec::new(), image_bytes: 0 };
    let left_out = parts.len().saturating_sub(MAX_PARTS);
    for part in parts.into_iter().take(MAX_PARTS) {
        match part {
            Ok(part) => shown.add(part),
            Err(note) => shown.text(note),
        }
    }
    if left_out > 0 {
        shown.text(format!("[{left_out} more parts left out: at most {MAX_PARTS} are shown]"));
    }
    if let Some(structured) = structured.filter(|value| !value.is_null())
        && !shown.says(&structured)
    {
        shown.text(structured.to_string());
    }
    let content = match <[Block; 1]>::try_from(shown.blocks) {
        Ok([Block::Text(text)]) if text.is_empty() => Content::Text(NOTHING.to_owned()),
        Ok([Block::Text(text)]) => Content::Text(text),
        Ok([block]) => Content::Blocks(vec![block]),
        Err(blocks) if blocks.is_empty() => Content::Text(NOTHING.to_owned()),
        Err(blocks) => Content::Blocks(blocks),
    };
    ToolOutput { content, is_error }
}

struct Shown {
    blocks: Vec<Block>,
    image_bytes: usize,
}

impl Shown {
    fn text(&mut self, text: String) {
        self.blocks.push(Block::Text(text));
    }

    fn add(&mut self, part: ContentBlock) {
        match part {
            ContentBlock::Text(text) => self.text(text.text),
            ContentBlock::Image(image) => self.image(&image.mime_type, &image.data, "an image"),
            ContentBlock::Audio(audio) => {
                self.text(format!("[audio that cannot be played: {}]", about(Some(&audio.mime_type), &audio.data)));
            }
            ContentBlock::Resource(embedded) => match embedded.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => {
                    self.text(format!("Resource {}:\n{text}", shortened(&uri, NAME_BYTES)));
                }
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    let uri = shortened(&uri, NAME_BYTES);
                    match mime_type.as_deref() {
                        Some(kind) if IMAGE_KINDS.contains(&kind) => {
                            self.image(kind, &blob, &format!("the resource {uri}"));
                        }
                        kind => self.text(format!("[the resource {uri}, which is no text: {}]", about(kind, &blob))),
                    }
                }
                _ => self.text("[a resource that cannot be shown]".to_owned()),
            },
            ContentBlock::ResourceLink(link) => {
                let mut line = format!(
                    "Resource {}: {}",
                    shortened(&link.uri, NAME_BYTES),
                    link.title.as_ref().unwrap_or(&link.name)
                );
                if let Some(description) = &link.description {
                    line.push_str(" – ");
                    line.push_str(description);
                }
                if let Some(kind) = &link.mime_type {
                    line.push_str(&format!(" ({})", shortened(kind, NAME_BYTES)));
                }
                self.text(line);
            }
            _ => self.text("[a part that cannot be shown]".to_owned()),
        }
    }

    fn image(&mut self, kind: &str, data: &str, what: &str) {
        let bytes = decoded_bytes(data);
        let note = if !IMAGE_KINDS.contains(&kind) {
            format!("[{what} of a kind that models do not see: {}]", about(Some(kind), data))
        } else if !is_base64(data) {
            format!("[{what} that is not valid base64: {}]", about(Some(kind), data))
        } else if self.image_bytes + bytes > IMAGE_BYTES {
            format!(
                "[{what} left out: {}; the images of one result may have {} together]",
                about(Some(kind), data),
                Bytes(IMAGE_BYTES)
            )
        } else {
            self.image_bytes += bytes;
            self.blocks.push(Block::Image { url: format!("data:{kind};base64,{data}").into() });
            return;
        };
        self.text(note);
    }

    /// Whether a text says the same as structured content, maybe without the wrapping that some servers put around a plain
    /// value.
    fn says(&self, structured: &Value) -> bool {
        let plain = match structured {
            Value::Object(members) if members.len() == 1 => members.values().next(),
            _ => None,
        };
        self.blocks.iter().any(|block| {
            let Block::Text(text) = block else { return false };
            if plain.and_then(Value::as_str) == Some(text) {
                return true;
            }
            let read = serde_json::from_str::<Value>(text).ok();
            read.is_some_and(|read| read == *structured || Some(&read) == plain)
        })
    }
}

fn about(kind: Option<&str>, data: &str) -> String {
    format!("{}, {} bytes", shortened(kind.unwrap_or("of unknown kind"), 100), decoded_bytes(data))
}

fn decoded_bytes(data: &str) -> usize {
    data.trim_end_matches('=').len() / 4 * 3 + data.trim_end_matches('=').len() % 4 * 3 / 4
}

fn is_base64(data: &str) -> bool {
    let text = data.trim_end_matches('=');
    !text.is_empty()
        && data.len().is_multiple_of(4)
        && data.len() - text.len() <= 2
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

#[cfg(test)]
mod tests;
