//! What a wire must say of itself.

use std::borrow::Cow;

use everturn_core::{Json, ModelOptions};
use http::{HeaderMap, HeaderValue, header::InvalidHeaderValue};
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use super::{
    answer::Decoder,
    catalog::{self, Known},
    describe::{Described, Question},
    frames::Framing,
    learned::Learned,
};
use crate::model::ModelRequest;

/// What configuration says that matters to requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// The configured window of all models of the provider.
    pub(super) context_window: Option<u64>,
    /// The configured budget for thinking.
    pub(super) thinking_budget: Option<u64>,
    /// Whether the provider is the wire's inventor, rather than something compatible.
    pub(super) is_official: bool,
    /// The provider's host, in lower case.
    pub(super) host: String,
    /// Fields that are merged into every body.
    pub(super) body: Option<Json>,
}

/// One call, as a wire is to write it.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    /// `provider/model`, which proofs belong to.
    pub(super) from: &'a str,
    /// The model, as the provider calls it.
    pub(super) model: &'a str,
    pub(super) settings: &'a Settings,
    /// What the model's name tells.
    pub(super) known: Known,
    /// What the provider's answers have told.
    pub(super) learned: &'a Learned,
    pub(super) request: &'a ModelRequest,
    /// Whether to leave out all proofs of reasoning, because the provider refused them.
    pub(super) without_proofs: bool,
}

impl Ask<'_> {
    /// The cap on the answer that is asked for: no more than the model can write. `None` leaves it to the provider.
    pub(super) fn max_output(&self) -> Option<u64> {
        let most = self.most_output();
        match (self.request.options.max_output_tokens, most) {
            (Some(asked), Some(most)) => Some(asked.min(most)),
            (asked, _) => asked,
        }
    }

    /// The longest answer that the model gives, as far as that is known.
    pub(super) fn most_output(&self) -> Option<u64> {
        self.learned.max_output.or(self.known.max_output)
    }
}

/// A request, ready to be sent.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The body.
    pub(super) body: Vec<u8>,
    /// What was asked for and is not in it, in words for people.
    pub(super) notices: Vec<String>,
    /// The digest of all that it says, on wires whose proofs depend on it.
    pub(super) prefix: Option<String>,
}

/// A model in a provider's list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedModel {
    /// The model's name, as agents are configured with it after the provider's.
    pub id: String,
    /// Tokens of its context.
    pub context_window: Option<u64>,
    /// Tokens of its longest answer.
    pub max_output: Option<u64>,
    /// Dollars for a million tokens read, where the provider says.
    pub input_price: Option<f64>,
    /// Dollars for a million tokens written, where the provider says.
    pub output_price: Option<f64>,
}

/// The way one kind of provider is spoken to.
pub(super) trait Wire: Send + Sync {
    /// Its name, which stands before the proofs that it leaves in history. Persisted.
    fn name(&self) -> &'static str;

    /// Where its inventor serves it.
    fn default_base(&self) -> &'static str;

    /// The path below which it is usually served.
    fn default_path(&self) -> &'static str;

    /// The path of calls for an address that has a path of its own.
    fn path_below(&self, path: String) -> String {
        path
    }

    /// Whether its inventor wants a key.
    fn needs_key(&self) -> bool;

    /// Where `model` is called.
    fn url(&self, base: &Url, model: &str) -> Url;

    /// The headers of every call.
    fn headers(&self, key: Option<&SecretString>, base: &Url) -> Result<HeaderMap, InvalidHeaderValue>;

    /// Writes a call.
    fn write(&self, ask: &Ask<'_>) -> Result<Written, serde_json::Error>;

    /// The media types of images that it takes.
    fn images(&self) -> &'static [&'static str] {
        &["image/png", "image/jpeg", "image/gif", "image/webp"]
    }

    /// How the answer is cut into frames.
    fn framing(&self) -> Framing;

    /// Reads one answer.
    fn decoder(&self) -> Box<dyn Decoder>;

    /// Where the provider lists its models, or tells of one. `None` where there is no such place.
    fn list_url(&self, base: &Url) -> Option<Url> {
        Some(below(base, "/models"))
    }

    /// Reads the provider's list.
    fn read_list(&self, body: &[u8]) -> Vec<ListedModel> {
        read_list(body)
    }

    /// How the provider is asked about one model. `None` where it need not be, or describes none.
    fn question(&self, base: &Url, model: &str) -> Option<Question> {
        let is_unknown = catalog::known(model).window.is_none();
        is_unknown.then(|| self.list_url(base)).flatten().map(|url| Question { url, body: None })
    }

    /// Reads what the provider tells about a model.
    fn read_description(&self, _base: &Url, model: &str, body: &[u8]) -> Option<Described> {
        let listed = self.read_list(body).into_iter().find(|listed| listed.id == model)?;
        Some(Described { window: listed.context_window, max_output: listed.max_output, ..Described::default() })
    }

    /// The window of a model that nothing is known of, on wires that are told which window to use.
    fn default_window(&self) -> Option<u64> {
        None
    }
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

/// A list in OpenAI's shape, with the fields that servers add to it under names of their own.
fn read_list(body: &[u8]) -> Vec<ListedModel> {
    #[derive(Deserialize)]
    struct List<'a> {
        #[serde(borrow)]
        data: Vec<Model<'a>>,
    }
    #[derive(Deserialize)]
    struct Model<'a> {
        #[serde(borrow)]
        id: Cow<'a, str>,
        /// OpenRouter, Together, Moonshot.
        context_length: Option<u64>,
        /// Groq.
        context_window: Option<u64>,
        /// vLLM.
        max_model_len: Option<u64>,
        /// Mistral.
        max_context_length: Option<u64>,
        /// Groq.
        max_completion_tokens: Option<u64>,
        /// Anthropic.
        max_input_tokens: Option<u64>,
        /// Anthropic.
        max_tokens: Option<u64>,
        /// llama.cpp.
        meta: Option<Meta>,
        /// OpenRouter.
        top_provider: Option<TopProvider>,
        /// OpenRouter.
        pricing: Option<Pricing>,
    }
    #[derive(Deserialize)]
    struct Meta {
        n_ctx: Option<u64>,
        n_ctx_train: Option<u64>,
    }
    #[derive(Deserialize)]
    struct TopProvider {
        max_completion_tokens: Option<u64>,
    }
    #[derive(Deserialize)]
    struct Pricing {
        prompt: Option<String>,
        completion: Option<String>,
    }
    let Ok(List { data }) = serde_json::from_slice::<List<'_>>(body) else { return Vec::new() };
    // OpenRouter says -1 of models that stand for others.
    let price = |text: Option<&String>| Some(text?.parse::<f64>().ok().filter(|price| *price >= 0.0)? * 1e6);
    let listed = data.into_iter().map(|model| ListedModel {
        id: model.id.into_owned(),
        context_window: [
            model.context_length,
            model.context_window,
            model.max_model_len,
            model.max_context_length,
            model.max_input_tokens,
            model.meta.as_ref().and_then(|meta| meta.n_ctx.or(meta.n_ctx_train)),
        ]
        .into_iter()
        .flatten()
        .find(|window| *window > 0),
        max_output: [
            model.max_completion_tokens,
            model.max_tokens,
            model.top_provider.and_then(|provider| provider.max_completion_tokens),
        ]
        .into_iter()
        .flatten()
        .find(|cap| *cap > 0),
        input_price: price(model.pricing.as_ref().and_then(|pricing| pricing.prompt.as_ref())),
        output_price: price(model.pricing.as_ref().and_then(|pricing| pricing.completion.as_ref())),
    });
    listed.collect()
}

/// The temperature as wires write it.
pub(super) fn temperature(options: &ModelOptions) -> Option<f64> {
    options.temperature.map(|thousandths| f64::from(thousandths) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OpenRouter's `openrouter/auto` costs what the model behind it costs.
    #[test]
    fn a_negative_price_is_none() {
        let list = br#"{"data":[
            {"id":"openrouter/auto","pricing":{"prompt":"-1","completion":"-1"}},
            {"id":"free","pricing":{"prompt":"0","completion":"0.000002"}}
        ]}"#;
        let prices: Vec<_> = read_list(list).iter().map(|model| (model.input_price, model.output_price)).collect();
        assert_eq!(prices, [(None, None), (Some(0.0), Some(2.0))]);
    }
}
