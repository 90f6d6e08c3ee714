//! Anthropic's messages.

mod conversation;
mod decode;
pub(super) mod models;
mod output_schema;
mod proof;
mod request;
#[cfg(test)]
mod tests;
mod thinking;

use http::{HeaderMap, HeaderValue, header::InvalidHeaderValue};
use reqwest::Url;
use secrecy::SecretString;

use super::{
    answer::Decoder,
    frames::Framing,
    wire::{Ask, Wire, Written, below, secret_header},
};

/// The wire's name in the records that it leaves. Persisted.
const NAME: &str = "anthropic";

/// The version of the wire that we speak.
const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// Lets requests say what happens to thinking whose prefix has changed.
const BINDING_CONTROLS: HeaderValue = HeaderValue::from_static("thinking-binding-controls-2026-08-01");

/// Whether a host is Anthropic's own, which knows fields that compatible servers and clouds may refuse.
fn is_official(host: &str) -> bool {
    host.eq_ignore_ascii_case("api.anthropic.com")
}

/// An address of an Anthropic-compatible server as Anthropic's own clients take it: the version follows, unless the address
/// ends in one.
pub fn anthropic_base(address: &str) -> String {
    let last = address.rsplit('/').next().unwrap_or_default();
    let is_version = last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if is_version { address.to_owned() } else { format!("{address}/v1") }
}

/// The wire.
pub(super) struct Anthropic;

impl Wire for Anthropic {
    fn name(&self) -> &'static str {
        NAME
    }

    fn default_base(&self) -> &'static str {
        "https://api.anthropic.com/v1"
    }

    fn default_path(&self) -> &'static str {
        "/v1"
    }

    fn path_below(&self, path: String) -> String {
        anthropic_base(&path)
    }

    fn required(&self) -> &'static [&'static str] {
        &["max_tokens"]
    }

    fn needs_key(&self) -> bool {
        true
    }

    fn url(&self, base: &Url, _model: &str) -> Url {
        below(base, "/messages")
    }

    fn headers(&self, key: Option<&SecretString>, base: &Url) -> Result<HeaderMap, InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", VERSION);
        if base.host_str().is_some_and(is_official) {
            headers.insert("anthropic-beta", BINDING_CONTROLS);
        }
        if let Some(key) = key {
            headers.insert("x-api-key", secret_header("", key)?);
        }
        Ok(headers)
    }

    fn forces_calls(&self, ask: &Ask<'_>) -> bool {
        models::Rules::of(ask.model).forced_choice
    }

    fn usual_cap(&self, ask: &Ask<'_>) -> Option<u64> {
        Some(request::usual_cap(ask))
    }

    fn counts_cap(&self, model: &str) -> bool {
        !models::Rules::of(model).stops_at_window
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

    fn list_url(&self, base: &Url) -> Option<Url> {
        let mut url = below(base, "/models");
        // The whole list in one page; the usual one has twenty models.
        url.query_pairs_mut().append_pair("limit", "1000");
        Some(url)
    }
}
