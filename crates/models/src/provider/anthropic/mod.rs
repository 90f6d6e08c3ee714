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
    wire::{Settings, Wire, below, secret_header},
};
use crate::model::ModelRequest;

/// The version of the wire that we speak.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// The wire.
pub(super) struct Anthropic;

impl Wire for Anthropic {
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

    fn headers(&self, key: Option<&SecretString>) -> Result<HeaderMap, InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", VERSION);
        if let Some(key) = key {
            headers.insert("x-api-key", secret_header("", key)?);
        }
        Ok(headers)
    }

    fn body(&self, model: &str, settings: Settings, request: &ModelRequest) -> Result<Vec<u8>, serde_json::Error> {
        request::body(model, settings, request)
    }

    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::Events::default())
    }
}
