//! OpenAI's chat completions, as OpenAI and many other servers speak them: vLLM, llama.cpp, OpenRouter and so on.

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
pub(super) struct OpenAi;

impl Wire for OpenAi {
    fn name(&self) -> &'static str {
        "chat"
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
        below(base, "/chat/completions")
    }

    fn headers(&self, key: Option<&SecretString>, _base: &Url) -> Result<HeaderMap, InvalidHeaderValue> {
        bearer(key)
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
