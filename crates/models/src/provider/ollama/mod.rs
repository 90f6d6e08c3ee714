//! Ollama's own chat. It tells more than its OpenAI-compatible one, and lets the context window be set.

mod decode;
mod request;

use http::{HeaderMap, header::InvalidHeaderValue};
use reqwest::Url;
use secrecy::SecretString;

use super::{
    answer::Decoder,
    frames::Framing,
    wire::{Ask, Wire, Written, bearer, below},
};

/// The wire.
pub(super) struct Ollama;

impl Wire for Ollama {
    fn name(&self) -> &'static str {
        "ollama"
    }

    fn default_base(&self) -> &'static str {
        "http://127.0.0.1:11434"
    }

    fn default_path(&self) -> &'static str {
        "/api"
    }

    fn needs_key(&self) -> bool {
        false
    }

    fn url(&self, base: &Url, _model: &str) -> Url {
        below(base, "/chat")
    }

    fn headers(&self, key: Option<&SecretString>, _base: &Url) -> Result<HeaderMap, InvalidHeaderValue> {
        bearer(key)
    }

    fn write(&self, ask: &Ask<'_>) -> Result<Written, serde_json::Error> {
        request::write(ask)
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::Lines)
    }
}
