//! Google's Gemini, from its developers' API and from Vertex.

mod config;
mod contents;
mod decode;
mod facts;
mod mark;
mod request;
mod tools;

#[cfg(test)]
mod round_trip_tests;

use http::{HeaderMap, header::InvalidHeaderValue};
use reqwest::Url;
use secrecy::SecretString;
use serde_json::Value;

use super::{
    answer::Decoder,
    frames::Framing,
    model_list,
    wire::{Ask, ListedModel, Wire, Written, below, secret_header},
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
        with_query(url, "alt", "sse")
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

    fn images(&self) -> &'static [&'static str] {
        &["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"]
    }

    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(decode::Chunks::default())
    }

    fn list_url(&self, base: &Url) -> Option<Url> {
        // Vertex lists no models to those who come with a key.
        let is_vertex = base.host_str().is_some_and(|host| host.contains("aiplatform"));
        (!is_vertex).then(|| with_query(below(base, "/models"), "pageSize", "1000"))
    }

    fn read_list(&self, body: &[u8]) -> Vec<ListedModel> {
        read_list(body)
    }
}

/// The provider lists its models as `models/…`.
fn short_name(model: &str) -> &str {
    model.strip_prefix("models/").unwrap_or(model)
}

/// The address with one more parameter, unless it has that already.
fn with_query(mut url: Url, name: &str, value: &str) -> Url {
    if !url.query_pairs().any(|(present, _)| present == name) {
        url.query_pairs_mut().append_pair(name, value);
    }
    url
}

/// The models that answer, with their limits.
fn read_list(body: &[u8]) -> Vec<ListedModel> {
    let answers = |model: &Value| match model["supportedGenerationMethods"].as_array() {
        Some(methods) => methods.iter().any(|method| method == "generateContent"),
        None => true,
    };
    let listed = model_list::entries(body).into_iter().filter(answers).filter_map(|model| {
        Some(ListedModel {
            id: short_name(model["name"].as_str()?).to_owned(),
            context_window: model_list::count(&model, &["/inputTokenLimit"]),
            max_output: model_list::count(&model, &["/outputTokenLimit"]),
            is_for_chat: true,
            ..ListedModel::default()
        })
    });
    listed.collect()
}
