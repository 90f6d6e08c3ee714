//! Anthropic's messages.

mod decode;
mod proof;
mod request;

use http::{HeaderMap, HeaderValue, header::InvalidHeaderValue};
use reqwest::Url;
use secrecy::SecretString;

use super::{
    answer::Decoder,
    frames::Framing,
    wire::{Ask, Wire, Written, below, secret_header},
};

/// The version of the wire that we speak.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// The wire.
pub(super) struct Anthropic;

impl Wire for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn default_base(&self) -> &'static str {
        "https://api.anthropic.com/v1"
    }

    fn default_path(&self) -> &'static str {
        "/v1"
    }

    fn needs_key(&self) -> bool {
        true
    }

    fn url(&self, base: &Url, _model: &str) -> Url {
        below(base, "/messages")
    }

    fn headers(&self, key: Option<&SecretString>, _base: &Url) -> Result<HeaderMap, InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", VERSION);
        if let Some(key) = key {
            headers.insert("x-api-key", secret_header("", key)?);
        }
        Ok(headers)
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
