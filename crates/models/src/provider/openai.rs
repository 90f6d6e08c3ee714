//! What OpenAI's two wires, chat completions and Responses, have in common: the choice between them, the addresses and
//! keys of OpenAI's models on Azure, and a few fields.

use std::borrow::Cow;

use http::{HeaderMap, header::InvalidHeaderValue};
use reqwest::Url;
use secrecy::SecretString;
use sha2::{Digest, Sha256};

use super::{
    OpenAiWire, vendors,
    wire::{bearer, secret_header},
};
use crate::model::DocumentContent;

/// OpenAI's own host.
pub(super) const OFFICIAL_HOST: &str = "api.openai.com";

/// The longest cache key.
const MAX_CACHE_KEY: usize = 64;

/// The wire of a model at an address where configuration names none. Azure's v1 address serves models of other vendors too,
/// which have chat completions there; few of them have Responses, and those refuse encrypted reasoning.
pub(super) fn wire_of(base: &Url, model: &str) -> OpenAiWire {
    let is_others = || vendors::of(model).is_some_and(|vendor| !vendor.is_openai());
    let has_responses = base.host_str() == Some(OFFICIAL_HOST) || (is_azure_url(base) && is_v1(base) && !is_others());
    if has_responses { OpenAiWire::Responses } else { OpenAiWire::Chat }
}

/// Where Azure serves OpenAI's API without versions in the query.
const V1_PATH: &str = "/openai/v1";

/// Where Azure serves deployments, with the API's version in the query.
pub(super) const VERSIONED_PATH: &str = "/openai";

/// Whether a host is one of Azure's.
pub(super) fn is_azure(host: &str) -> bool {
    [".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com"]
        .iter()
        .any(|domain| host.ends_with(domain))
}

/// Whether an address is one of Azure's.
pub(super) fn is_azure_url(base: &Url) -> bool {
    base.host_str().is_some_and(is_azure)
}

/// Whether an address leads to the API without versions, which has Responses.
fn is_v1(base: &Url) -> bool {
    base.path() == V1_PATH || base.path().starts_with("/openai/v1/")
}

/// The path of an address of Azure's that names only the host.
pub(super) fn azure_path(base: &Url) -> Option<&'static str> {
    if !is_azure_url(base) {
        return None;
    }
    let is_versioned = base.query_pairs().any(|(name, _)| name == "api-version");
    match base.path().trim_end_matches('/') {
        "" | VERSIONED_PATH => Some(if is_versioned { VERSIONED_PATH } else { V1_PATH }),
        _ => None,
    }
}

/// The header with the key. Azure wants `api-key`, everybody else `Authorization`.
pub(super) fn headers(key: Option<&SecretString>, base: &Url) -> Result<HeaderMap, InvalidHeaderValue> {
    let Some(key) = key.filter(|_| is_azure_url(base)) else { return bearer(key) };
    let mut headers = HeaderMap::new();
    headers.insert("api-key", secret_header("", key)?);
    Ok(headers)
}

/// A key for the provider's cache, no longer than providers take.
pub(super) fn cache_key(key: &str) -> Cow<'_, str> {
    if key.len() <= MAX_CACHE_KEY {
        return Cow::Borrowed(key);
    }
    let digest: [u8; 32] = Sha256::digest(key.as_bytes()).into();
    Cow::Owned(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The base64 of a document that is a PDF file.
pub(super) fn pdf(document: &DocumentContent) -> Option<&str> {
    document.base64.as_deref().filter(|_| document.media_type == "application/pdf")
}

/// A number that options keep in thousandths.
pub(super) fn thousandths(number: impl Into<f64>) -> f64 {
    number.into() / 1000.0
}
