//! What a wire must say of itself.

use everturn_core::{Json, ModelOptions};
use http::{HeaderMap, HeaderValue, header::InvalidHeaderValue};
use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};

use super::{
    answer::Decoder,
    catalog::{self, Known},
    describe::{Described, Question},
    frames::Framing,
    learned::Learned,
    model_list, vendors,
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
    /// Whether configuration says which of OpenAI's wires is spoken.
    pub(super) is_wire_configured: bool,
    /// The provider's host, in lower case.
    pub(super) host: String,
    /// Fields that are merged into every body.
    pub(super) body: Option<Json>,
}

impl Settings {
    /// Whether the provider's host is a domain or stands below it.
    pub(super) fn is_at(&self, domain: &str) -> bool {
        self.host == domain || self.host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
    }
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
    /// Whether the conversation ends with words of ours that the next request does not have: a call is asked for.
    pub(super) ends_with_wish: bool,
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
        [self.learned.max_output.or(self.known.max_output), self.learned.lowered_output].into_iter().flatten().min()
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
    /// Whether it can be talked with, by its name or by what the server calls it.
    pub is_for_chat: bool,
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

    /// Fields of the body without which the API refuses every request. They are never left out.
    fn required(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether its inventor wants a key.
    fn needs_key(&self) -> bool;

    /// Where `model` is called.
    fn url(&self, base: &Url, model: &str) -> Url;

    /// The headers of every call.
    fn headers(&self, key: Option<&SecretString>, base: &Url) -> Result<HeaderMap, InvalidHeaderValue>;

    /// Whether a tool call can be forced in this call, or is asked for by the wire itself.
    fn forces_calls(&self, _ask: &Ask<'_>) -> bool {
        true
    }

    /// The cap on an answer that it sends where none is asked for. `None` leaves it to the provider.
    fn usual_cap(&self, _ask: &Ask<'_>) -> Option<u64> {
        None
    }

    /// Whether a model's provider refuses a cap that the window does not hold beside the question.
    fn counts_cap(&self, _model: &str) -> bool {
        false
    }

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
        model_list::read(body)
    }

    /// How the provider is asked about one model. `None` where it need not be asked, or describes no models.
    fn question(&self, base: &Url, model: &str) -> Option<Question> {
        let is_sure =
            catalog::known(model).window.is_some() && vendors::is_at_home(model, base.host_str().unwrap_or_default());
        if is_sure { None } else { self.list_url(base).map(|url| Question { url, body: None }) }
    }

    /// Reads what the provider tells about a model. Of the window that it tells and the one that the name tells, the smaller
    /// counts: a server may be run with less than the model was made for, and some servers list what it was made for.
    fn read_description(&self, _base: &Url, model: &str, body: &[u8]) -> Option<Described> {
        let listed = self.read_list(body).into_iter().find(|listed| listed.id == model)?;
        let window =
            listed.context_window.map(|window| catalog::known(model).window.map_or(window, |known| known.min(window)));
        Some(Described { window, max_output: listed.max_output, ..Described::default() })
    }

    /// The window that fields of the body ask for, on wires that are told which window to use.
    fn window_of_body(&self, _body: &Json) -> Option<u64> {
        None
    }

    /// The window of a model that nothing is known of, on wires that are told which window to use.
    fn default_window(&self) -> Option<u64> {
        None
    }
}

/// The most tokens of thinking within a cap: some are left for an answer.
///
/// Rounded down to a power of two, or one and a half. Near the window the cap shrinks with every step, and a provider forgets
/// what it has cached of the conversation whenever the budget changes.
pub(super) fn most_thinking(cap: u64) -> u64 {
    /// An answer of so many tokens is worth having, however much was thought before it.
    const ANSWER: u64 = 1024;
    let most = cap.saturating_sub((cap / 4).clamp(1, ANSWER));
    let half_step = most.checked_ilog2().unwrap_or(0).saturating_sub(1);
    most >> half_step << half_step
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

/// The temperature as wires write it.
pub(super) fn temperature(options: &ModelOptions) -> Option<f64> {
    options.temperature.map(|thousandths| f64::from(thousandths) / 1000.0)
}
