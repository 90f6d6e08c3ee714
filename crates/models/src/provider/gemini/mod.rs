//! Google's Gemini.

mod decode;
mod proof;
mod request;

use http::{HeaderMap, header::InvalidHeaderValue};
use reqwest::Url;
use secrecy::SecretString;

use super::{
    answer::Decoder,
    frames::Framing,
    wire::{Ask, Wire, Written, secret_header},
};

/// The wire.
pub(super) struct Gemini;

impl Wire for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn default_base(&self) -> &'static str {
        "https://generativelanguage.googleapis.com/v1beta"
    }

    fn default_path(&self) -> &'static str {
        "/v1beta"
    }

    fn needs_key(&self) -> bool {
        true
    }

    fn url(&self, base: &Url, model: &str) -> Url {
        let mut url = base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            // Pushing a segment escapes it: a model's name cannot lead elsewhere.
            path.pop_if_empty().push("models").push(&format!("{}:streamGenerateContent", short_name(model)));
        }
        url.set_query(Some("alt=sse"));
        url
    }

    fn headers(&self, key: Option<&SecretString>, _base: &Url) -> Result<HeaderMap, InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        if let Some(key) = key {
            headers.insert("x-goog-api-key", secret_header("", key)?);
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
        Box::new(decode::Chunks::default())
    }
}

/// The provider lists its models as `models/…`.
fn short_name(model: &str) -> &str {
    model.strip_prefix("models/").unwrap_or(model)
}
