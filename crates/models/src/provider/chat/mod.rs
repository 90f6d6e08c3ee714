//! OpenAI's chat completions, as many servers speak them: vLLM, llama.cpp, OpenRouter, DeepSeek, Mistral and so on.

mod binding;
mod cache_marks;
mod decode;
mod details;
mod history;
mod request;
mod server;
mod think_tag;
mod thinking;
mod usage;

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
pub(super) struct Chat;

/// Its name in records. Persisted.
pub(super) const NAME: &str = "chat";

impl Wire for Chat {
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

    fn url(&self, base: &Url, model: &str) -> Url {
        let mut url = base.clone();
        if openai::is_azure_url(base) && base.path() == openai::VERSIONED_PATH {
            // Pushing a segment escapes it: a model's name cannot lead elsewhere.
            if let Ok(mut path) = url.path_segments_mut() {
                path.push("deployments").push(model);
            }
        }
        below(&url, "/chat/completions")
    }

    fn headers(&self, key: Option<&SecretString>, base: &Url) -> Result<HeaderMap, InvalidHeaderValue> {
        openai::headers(key, base)
    }

    fn forces_calls(&self, ask: &Ask<'_>) -> bool {
        thinking::plan(ask, &server::rules(ask)).forces
    }

    fn write(&self, ask: &Ask<'_>) -> Result<Written, serde_json::Error> {
        request::write(ask)
    }

    fn list_url(&self, base: &Url) -> Option<Url> {
        let mut base = base.clone();
        // Azure lists models beside its deployments.
        let above = base.path().split_once("/deployments/").map(|(above, _)| above.to_owned());
        if let Some(above) = above.filter(|_| openai::is_azure_url(&base)) {
            base.set_path(&above);
        }
        Some(below(&base, "/models"))
    }

    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::Chunks::default())
    }
}

/// What an answer has beside text and calls. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Own {
    /// The field that the reasoning came in.
    Field(String),
    /// So many bytes of the reasoning stood here, as a part of the content.
    Thinking(usize),
    /// OpenRouter's details of the reasoning, each of them whole.
    Details(Vec<Value>),
    /// What the provider said of a call beside its input.
    Call {
        /// Which of the answer's calls.
        place: u32,
        /// The id that the provider gave it.
        id: String,
        /// Signatures.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        extra: Option<Value>,
    },
}
