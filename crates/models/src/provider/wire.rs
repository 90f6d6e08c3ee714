//! What a wire must say of itself.

use http::{HeaderMap, HeaderValue, header::InvalidHeaderValue};
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};

use super::{answer::Decoder, frames::Framing};
use crate::model::ModelRequest;

/// What configuration says that matters to requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) context_window: Option<u64>,
    pub(super) thinking_budget: Option<u64>,
    /// Whether the provider is the wire's inventor, rather than something compatible.
    pub(super) is_official: bool,
}

/// The way one kind of provider is spoken to.
pub(super) trait Wire: Send + Sync {
    /// Where its inventor serves it.
    fn default_base(&self) -> &'static str;

    /// The path below which it is usually served.
    fn default_path(&self) -> &'static str;

    /// Whether its inventor wants a key.
    fn needs_key(&self) -> bool;

    /// Where `model` is called.
    fn url(&self, base: &Url, model: &str) -> Url;

    /// The headers of every call.
    fn headers(&self, key: Option<&SecretString>) -> Result<HeaderMap, InvalidHeaderValue>;

    /// The body of a call.
    fn body(&self, model: &str, settings: Settings, request: &ModelRequest) -> Result<Vec<u8>, serde_json::Error>;

    /// How the answer is cut into frames.
    fn framing(&self) -> Framing;

    /// Reads one answer.
    fn decoder(&self) -> Box<dyn Decoder>;
}

/// `base` with more path.
pub(super) fn below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
    url
}

/// A header with a key in it, marked so that nothing prints it.
pub(super) fn secret_header(prefix: &str, key: &SecretString) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.expose_secret()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// `Authorization: Bearer …`, where there is a key.
pub(super) fn bearer(key: Option<&SecretString>) -> Result<HeaderMap, InvalidHeaderValue> {
    let mut headers = HeaderMap::new();
    if let Some(key) = key {
        headers.insert(http::header::AUTHORIZATION, secret_header("Bearer ", key)?);
    }
    Ok(headers)
}
