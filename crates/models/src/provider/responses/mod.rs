//! OpenAI's Responses, which its own models want for reasoning with tools.
//!
//! Nothing is stored at the provider. Its reasoning comes encrypted, is kept in history and goes back with every request.

mod decode;
mod history;
pub(super) mod models;
mod request;

use http::{HeaderMap, header::InvalidHeaderValue};
use reqwest::Url;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    answer::Decoder,
    frames::Framing,
    openai,
    wire::{Ask, Wire, Written, below},
};

/// The wire.
pub(super) struct Responses;

/// Its name in records. Persisted.
pub(super) const NAME: &str = "responses";

impl Wire for Responses {
    fn name(&self) -> &'static str {
        NAME
    }

    fn default_base(&self) -> &'static str {
        "https://api.openai.com/v1"
    }

    fn default_path(&self) -> &'static str {
        "/v1"
    }

    fn needs_key(&self) -> bool {
        true
    }

    fn url(&self, base: &Url, _model: &str) -> Url {
        below(base, "/responses")
    }

    fn headers(&self, key: Option<&SecretString>, base: &Url) -> Result<HeaderMap, InvalidHeaderValue> {
        openai::headers(key, base)
    }

    fn write(&self, ask: &Ask<'_>) -> Result<Written, serde_json::Error> {
        request::write(ask)
    }

    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::Events::default())
    }
}

/// What an answer has beside text and calls. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Own {
    /// An item of reasoning.
    Reasoning { id: String, summary: Vec<Value>, encrypted_content: String },
    /// The text before this, back to the last piece that is not text, was one message. Some models say what it was for.
    Message { phase: Option<String> },
    /// The text before this is the blank line that readers are shown between two messages.
    Gap,
    /// An item of a kind that this crate does not know, as it came.
    Item(Value),
}
