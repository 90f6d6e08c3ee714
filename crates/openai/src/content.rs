//! The content of messages: texts, and images and files that people send.

use std::fmt::Display;

use everturn_core::{Block, Content};
use everturn_engine::Agent;
use everturn_http::Object;

use crate::{
    error::ApiError,
    files::File,
    request::{ContentIn, PartIn},
};

/// Whose message it is: each role has other parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    User,
    Assistant,
    /// A system or developer message, or a tool's result.
    Other,
}

/// Where in the request something stands, for errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) index: usize,
}

impl Place {
    /// Something in a field of the message cannot be.
    pub(crate) fn error(self, field: &str, what: impl Display) -> ApiError {
        ApiError::invalid(format!("messages[{}].{field}", self.index), what)
    }

    /// What is said.
    pub(crate) fn content(
        self,
        content: ContentIn,
        speaker: Speaker,
        files: &mut Vec<File>,
    ) -> Result<Content, ApiError> {
        match content {
            ContentIn::Text(text) => Ok(Content::Text(text)),
            ContentIn::Parts(parts) => {
                let parts = parts.into_iter().enumerate();
                let blocks =
                    parts.map(|(at, Object(part))| self.part(at, part, speaker, files)).collect::<Result<_, _>>()?;
                Ok(Content::Blocks(blocks))
            }
        }
    }

    fn part(self, at: usize, part: PartIn, speaker: Speaker, files: &mut Vec<File>) -> Result<Block, ApiError> {
        let field = |name: &str| format!("content[{at}].{name}");
        let missing = |name: &str| self.error(&field(name), "it is missing");
        match (part.r#type.as_str(), speaker) {
            ("text", _) => Ok(Block::Text(part.text.ok_or_else(|| missing("text"))?)),
            ("refusal", Speaker::Assistant) => Ok(Block::Text(part.refusal.ok_or_else(|| missing("refusal"))?)),
            ("image_url", Speaker::User) => {
                let Object(image) = part.image_url.ok_or_else(|| missing("image_url"))?;
                if !is_public_address(&image.url) && !is_image_data(&image.url) {
                    let shown: String = image.url.chars().take(40).collect();
                    let what = format!(
                        "{shown:?} is neither an http:// or https:// URL of a public host nor a data:image/…;base64,… URL"
                    );
                    return Err(self.error(&field("image_url.url"), what));
                }
                Ok(Block::Image { url: image.url.into() })
            }
            ("file", Speaker::User) => {
                let Object(file) = part.file.ok_or_else(|| missing("file"))?;
                let file = File::of(file, format!("messages[{}].{}", self.index, field("file")))?;
                let block = file.block();
                files.push(file);
                Ok(block)
            }
            (known @ ("image_url" | "refusal" | "file"), _) => {
                Err(self
                    .error(&field("type"), format!("a part of type {known:?} cannot stand in a message of this role")))
            }
            (other, _) => {
                let shown: String = other.chars().take(64).collect();
                Err(self.error(
                    &field("type"),
                    format!("parts of type {shown:?} are not supported; use text, image_url or file"),
                ))
            }
        }
    }
}

/// Whether nothing is said: models take no empty messages.
pub(crate) fn is_blank(content: &Content) -> bool {
    match content {
        Content::Text(text) => text.is_empty(),
        Content::Blocks(blocks) => blocks.iter().all(|block| matches!(block, Block::Text(text) if text.is_empty())),
    }
}

/// Refuses images that the agent does not take.
pub(crate) fn check_images<'a>(contents: impl IntoIterator<Item = &'a Content>, agent: &Agent) -> Result<(), ApiError> {
    for block in contents.into_iter().flat_map(Content::blocks) {
        let Block::Image { url } = block else { continue };
        let (kind, taken) = if url.starts_with("http") {
            ("https:", agent.capabilities.image_http)
        } else {
            ("data:", agent.capabilities.image_data)
        };
        if !taken {
            return Err(ApiError::unsupported(
                "messages",
                format!("agent {:?} takes no images by {kind} URL", agent.name),
            ));
        }
    }
    Ok(())
}

/// Whether a provider can fetch what is at a URL: it is on the web, by all that the URL tells.
fn is_public_address(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else { return false };
    if url.starts_with("https://") {
        return !rest.is_empty();
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        Some(_) | None => host,
    };
    let is_address = host.starts_with('[') || host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_local = ["localhost", "local", "internal", "lan", "home"].iter().any(|end| {
        host.eq_ignore_ascii_case(end) || host.rsplit_once('.').is_some_and(|(_, last)| last.eq_ignore_ascii_case(end))
    });
    host.contains('.') && !is_address && !is_local
}

/// `data:image/<type>;base64,<data>`.
fn is_image_data(url: &str) -> bool {
    let Some((kind, data)) = url.strip_prefix("data:image/").and_then(|rest| rest.split_once(";base64,")) else {
        return false;
    };
    let digits = data.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let is_kind = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-');
    !kind.is_empty()
        && kind.bytes().all(is_kind)
        && !digits.is_empty()
        && data.len() - digits.len() <= 2
        && digits.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_on_the_web() {
        for url in ["https://a.org/x.png", "http://a.org/x.png", "http://a.org:8080/x", "http://me@a.org"] {
            assert!(is_public_address(url), "{url}");
        }
        for url in [
            "http://localhost/x",
            "http://127.0.0.1/x",
            "http://[::1]/x",
            "http://box.local/x",
            "http://intranet/x",
            "http://a.org@10.0.0.1/x",
            "http://",
            "https://",
            "ftp://a.org",
        ] {
            assert!(!is_public_address(url), "{url}");
        }
    }
}
