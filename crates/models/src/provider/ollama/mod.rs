//! Ollama's own chat. It tells more than its OpenAI-compatible one, and lets the context window be set.

mod decode;
mod options;
mod request;
mod show;

use everturn_core::Json;
use http::{HeaderMap, header::InvalidHeaderValue};
use reqwest::Url;
use secrecy::SecretString;

use super::{
    answer::Decoder,
    describe::{Described, Question},
    frames::Framing,
    wire::{Ask, ListedModel, Wire, Written, bearer, below},
};

/// The window of a model that nothing is known of, in tokens: small enough for most machines.
const DEFAULT_WINDOW: u64 = 8192;

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

    /// As Ollama's own clients take an address: `/api` follows.
    fn path_below(&self, path: String) -> String {
        if path.ends_with("/api") { path } else { format!("{path}/api") }
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

    fn images(&self) -> &'static [&'static str] {
        &["image/png", "image/jpeg"]
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::Lines::default())
    }

    fn list_url(&self, base: &Url) -> Option<Url> {
        Some(below(base, "/tags"))
    }

    fn read_list(&self, body: &[u8]) -> Vec<ListedModel> {
        show::read_list(body)
    }

    fn question(&self, base: &Url, model: &str) -> Option<Question> {
        let body = serde_json::to_vec(&serde_json::json!({ "model": model })).ok()?;
        Some(Question { url: below(base, "/show"), body: Some(body) })
    }

    fn read_description(&self, base: &Url, _model: &str, body: &[u8]) -> Option<Described> {
        let is_cloud = base.host_str().is_some_and(|host| host == "ollama.com" || host.ends_with(".ollama.com"));
        show::read_description(body, is_cloud)
    }

    fn window_of_body(&self, body: &Json) -> Option<u64> {
        body.to_value().pointer("/options/num_ctx")?.as_u64().filter(|window| *window > 0)
    }

    fn default_window(&self) -> Option<u64> {
        Some(DEFAULT_WINDOW)
    }
}
