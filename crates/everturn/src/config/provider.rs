//! Checks model providers.

use everturn_models::OpenAiWire;
use http::{HeaderName, HeaderValue};
use secrecy::ExposeSecret as _;

use super::{
    Environment,
    agent::tokens,
    body,
    choice::choose,
    file::{self, Text},
    mcp::pairs,
    problem::Report,
    secret,
    settings::{Provider, ProviderKind},
};

/// The provider, as far as it holds up.
pub(super) fn check(
    report: &mut Report<'_>,
    environment: &Environment,
    name: &Text,
    provider: file::Provider,
) -> Option<Provider> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.get_ref().is_empty() || !name.get_ref().chars().all(allowed) {
        let message = format!("`{}` cannot be the name of a provider", name.get_ref());
        report.add(Some(name.span()), message, "use characters of A-Z a-z 0-9 _ -".to_owned());
    }
    let kind = choose::<ProviderKind>(report, Some(provider.kind.span()), provider.kind.get_ref());
    let has_key = provider.api_key.is_some();
    let api_key = provider.api_key.as_ref().and_then(|key| secret::secret(report, environment, key));
    if let (Some(text), Some(key)) = (&provider.api_key, &api_key)
        && HeaderValue::from_str(key.expose_secret()).is_err()
    {
        let hint = "check it for line breaks".to_owned();
        report.add(Some(text.span()), "the key has characters that no HTTP header can carry", hint);
    }
    let base_url = provider.base_url.as_ref().and_then(|url| base_url(report, url));
    let context_window = tokens(report, "context_window", provider.context_window.as_ref());
    match kind? {
        ProviderKind::OpenAi | ProviderKind::Anthropic | ProviderKind::Gemini => {
            if !has_key && provider.base_url.is_none() && provider.headers.is_empty() {
                let message = format!("the provider `{}` has neither `api_key` nor `base_url`", name.get_ref());
                let hint = "give it a key, such as api_key = \"env:NAME\", or the address of a server that needs none";
                report.add(Some(name.span()), message, hint.to_owned());
            }
        }
        ProviderKind::Ollama => {}
        ProviderKind::Demo => {
            let fields = [
                ("api_key", provider.api_key.as_ref().map(Text::span)),
                ("base_url", provider.base_url.as_ref().map(Text::span)),
                ("headers", provider.headers.keys().next().map(Text::span)),
                ("body", provider.body.as_ref().map(file::Body::span)),
            ];
            for (key, at) in fields {
                if at.is_some() {
                    report.add(at, format!("the demo takes no `{key}`: it is in this process"), None);
                }
            }
        }
    }
    let thinking_budget = tokens(report, "thinking_budget", provider.thinking_budget.as_ref());
    let wire = provider.wire.as_ref().and_then(|word| wire(report, kind?, word));
    let rules_of = provider.rules_of.as_ref().and_then(|host| rules_of(report, kind?, host));
    let headers = pairs(report, environment, &provider.headers, unfit_header).into_iter().collect();
    let body = provider.body.as_ref().and_then(|body| body::check(report, body));
    Some(Provider { kind: kind?, base_url, api_key, context_window, thinking_budget, wire, rules_of, headers, body })
}

/// Headers that describe the connection or the body, which are ours to write.
const RESERVED: [&str; 5] = ["connection", "content-length", "content-type", "host", "transfer-encoding"];

fn unfit_header(name: &str, value: &str) -> Option<&'static str> {
    if HeaderName::from_bytes(name.as_bytes()).is_err() {
        Some("cannot be the name of a header")
    } else if RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name)) {
        Some("is a header that every call sets itself")
    } else if HeaderValue::from_str(value).is_err() {
        Some("has a value that no header can carry")
    } else {
        None
    }
}

fn wire(report: &mut Report<'_>, kind: ProviderKind, word: &Text) -> Option<OpenAiWire> {
    if kind != ProviderKind::OpenAi {
        let hint = "leave it out: providers of other kinds speak one wire only".to_owned();
        report.add(Some(word.span()), "`wire` is for providers of kind `openai`", hint);
        return None;
    }
    choose(report, Some(word.span()), word.get_ref())
}

fn rules_of(report: &mut Report<'_>, kind: ProviderKind, host: &Text) -> Option<String> {
    if kind != ProviderKind::OpenAi {
        let hint = "leave it out: servers of other kinds do not differ".to_owned();
        report.add(Some(host.span()), "`rules_of` is for providers of kind `openai`", hint);
        return None;
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    if host.get_ref().is_empty() || !host.get_ref().chars().all(allowed) {
        let message = format!("`{}` is not the name of a host", host.get_ref());
        report.add(Some(host.span()), message, "write it like \"api.deepseek.com\"".to_owned());
        return None;
    }
    Some(host.get_ref().clone())
}

fn base_url(report: &mut Report<'_>, text: &Text) -> Option<String> {
    let url = text.get_ref().trim_end_matches('/');
    let usable = url.parse::<http::Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri
                .authority()
                .is_some_and(|authority| !authority.as_str().contains('@') && !authority.host().is_empty())
            // The parser drops fragments without a word.
            && !url.contains('#')
    });
    if !usable {
        // The URL may hold a password.
        let hint = "write it like \"https://host/v1\", without a user, a password or a fragment".to_owned();
        report.add(Some(text.span()), "`base_url` is not an HTTP address", hint);
        return None;
    }
    Some(url.to_owned())
}
