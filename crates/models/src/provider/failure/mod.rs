//! What went wrong, in the words of the engine: which kind of failure, what the provider said, how long to wait.
//!
//! Providers' words are bounded, and never hold our key even where the provider repeats it.

mod overflow;

use std::{
    error::Error as _,
    time::{Duration, SystemTime},
};

use http::{HeaderMap, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use self::overflow::{NO_OVERFLOW, OVERFLOW, OVERFLOW_LABELS, WINDOW};
use super::{
    answer::{MAX_CALLS, MAX_TOOL_INPUT},
    frames::MAX_FRAME,
};
use crate::model::{ModelError, ModelErrorKind};

/// How many characters of a provider's words are kept.
const MAX_WORDS: usize = 500;

/// Shorter headers are no secrets, and their text may stand anywhere.
const MIN_SECRET: usize = 6;

/// What a decoder can run into.
#[derive(Debug)]
pub(super) enum Fault {
    /// A frame that is not what the wire says; its beginning.
    Nonsense(String),
    /// The provider reports an error within the stream.
    Reported(Report),
    /// The provider ended the answer for a reason that makes it useless.
    Ended(String),
    /// More tool input than an answer may hold.
    TooMuchToolInput,
    /// More calls than an answer may make.
    TooManyCalls,
    /// A frame beyond the largest size.
    FrameTooLarge,
}

impl Fault {
    /// A frame that could not be read.
    pub(super) fn nonsense(frame: &str) -> Self {
        Self::Nonsense(bounded(frame))
    }
}

/// An error as a provider reports it, in the body of a response or within a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Report {
    words: String,
    /// The machine-readable names that it gives: code, type, status.
    labels: Vec<String>,
    /// A status code inside the report.
    status: Option<u16>,
    retry_after: Option<Duration>,
    /// The status of the response that brought it.
    pub(super) http: Option<u16>,
    /// The field of the request that it is about.
    param: Option<String>,
    /// The window that it names beside its words (llama.cpp).
    window: Option<u64>,
    /// Whether a quota of a whole day is used up: asking again within minutes does not help.
    is_daily: bool,
}

impl Report {
    /// Reads a report from a response's body, which may be anything.
    pub(super) fn from_body(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            // Gemini wraps the error of a streaming call in an array.
            Ok(Value::Array(mut items)) if items.len() == 1 => Self::from_json(&items.swap_remove(0)),
            Ok(value) => Self::from_json(&value),
            Err(_) => Self { words: bounded(&String::from_utf8_lossy(body)), ..Self::default() },
        }
    }

    /// Reads a report from JSON: `{"error": {…}}`, `{"error": "…"}`, `{"message": "…"}` or `{"detail": "…"}`.
    pub(super) fn from_json(value: &Value) -> Self {
        let error = value.get("error").unwrap_or(value);
        let words = match error {
            Value::String(words) => words.clone(),
            error => ["message", "detail", "error"]
                .iter()
                .find_map(|field| error.get(field)?.as_str())
                .map_or_else(|| error.to_string(), str::to_owned),
        };
        let labels =
            ["code", "type", "status"].iter().filter_map(|field| error.get(field)?.as_str()).map(str::to_owned);
        let status = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let details = error.get("details").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str());
        let is_daily =
            details.iter().filter_map(|detail| detail.get("violations")?.as_array()).flatten().any(|violation| {
                violation.get("quotaId").and_then(Value::as_str).is_some_and(|id| id.contains("PerDay"))
            });
        let param = error.get("param").and_then(Value::as_str).filter(|param| !param.is_empty());
        Self {
            words: bounded(&words),
            labels: labels.collect(),
            status,
            retry_after: delay.and_then(|delay| seconds(delay.strip_suffix('s')?)),
            http: None,
            param: param.map(bounded),
            window: error.get("n_ctx").and_then(Value::as_u64),
            is_daily,
        }
    }

    /// The machine-readable names that it gives.
    pub(super) fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Whether nothing in the request could have mended it: the caller is not let in, or what it asks for is not there.
    pub(super) fn is_about_access(&self) -> bool {
        matches!(self.status, Some(401..=404)) || matches!(self.http, Some(401..=404))
    }

    /// What the provider says.
    pub(super) fn words(&self) -> &str {
        &self.words
    }

    /// The field of the request that it is about, where the provider names one.
    pub(super) fn param(&self) -> Option<&str> {
        self.param.as_deref()
    }

    fn has_label(&self, labels: &[&str]) -> bool {
        self.labels.iter().any(|label| labels.contains(&label.as_str()))
    }

    /// How many tokens of input the provider has counted, where an overflow says so beside the cap on the answer.
    pub(super) fn input(&self) -> Option<u64> {
        let words = self.words.to_lowercase();
        let with_functions = |messages: u64| messages + number_before(&words, " in the functions").unwrap_or(0);
        number_before(&words, " in the messages")
            .map(with_functions)
            .or_else(|| number_before(&words, " input tokens"))
            .or_else(|| number_before(&words, " of text input"))
            .or_else(|| number_after(&words, "exceed context limit: "))
    }

    /// The words that name the window, with its number.
    pub(super) fn window_words(&self) -> Option<String> {
        let words = self.words.to_lowercase();
        let marker = WINDOW.iter().find(|marker| number_after(&words, marker).is_some())?;
        Some(format!("{marker}{}", number_after(&words, marker)?))
    }

    /// Whether too much was asked for in a while, rather than at once.
    fn is_rate(&self) -> bool {
        let words = self.words.to_lowercase();
        self.has_label(&["rate_limit_exceeded"]) || NO_OVERFLOW.iter().any(|phrase| words.contains(phrase))
    }

    /// Whether the request has too many bytes, rather than tokens.
    pub(super) fn is_about_bytes(&self) -> bool {
        self.http == Some(413)
            || self.has_label(&["request_too_large"])
            || self.words.to_lowercase().contains("image data")
    }

    /// Whether the vendor's filter declined what was asked, or what the model would have said.
    pub(super) fn is_declined(&self) -> bool {
        let words = self.words.to_lowercase();
        self.has_label(&["content_filter", "content_policy_violation", "moderation_blocked", "invalid_prompt"])
            || words.contains("blocked by content filtering policy")
    }

    fn is_overflow(&self) -> bool {
        let words = self.words.to_lowercase();
        if NO_OVERFLOW.iter().any(|phrase| words.contains(phrase)) {
            return false;
        }
        self.has_label(OVERFLOW_LABELS) || OVERFLOW.iter().any(|phrase| words.contains(phrase))
    }

    /// The size of the context window that an overflow names, in tokens.
    pub(super) fn window(&self) -> Option<u64> {
        /// What no window is, however it is called.
        const PLAUSIBLE: std::ops::RangeInclusive<u64> = 1024..=50_000_000;
        let words = self.words.to_lowercase();
        let named = WINDOW.iter().find_map(|marker| number_after(&words, marker));
        self.window.or(named).filter(|window| PLAUSIBLE.contains(window))
    }

    fn kind(&self, status: Option<u16>) -> ModelErrorKind {
        // A spent budget is reported as 429 too, but waiting does not fill it.
        if self.has_label(&["insufficient_quota"]) || self.is_daily {
            return ModelErrorKind::Rejected;
        }
        match status.or(self.status) {
            Some(429) => return ModelErrorKind::RateLimited,
            Some(408 | 504) => return ModelErrorKind::Timeout,
            Some(413) if self.is_rate() => return ModelErrorKind::RateLimited,
            Some(413) => return ModelErrorKind::ContextOverflow,
            // llama.cpp calls it a fault of its own.
            Some(500) if self.words.contains("is not supported") => return ModelErrorKind::Rejected,
            Some(_) | None if self.is_overflow() => return ModelErrorKind::ContextOverflow,
            Some(409 | 425 | 500..) => return ModelErrorKind::Unavailable,
            Some(400..) => return ModelErrorKind::Rejected,
            Some(_) | None => {}
        }
        if self.has_label(&["rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"]) {
            return ModelErrorKind::RateLimited;
        }
        let rejected = [
            "invalid_request_error",
            "authentication_error",
            "permission_error",
            "not_found_error",
            "billing_error",
            "INVALID_ARGUMENT",
            "PERMISSION_DENIED",
            "UNAUTHENTICATED",
            "NOT_FOUND",
        ];
        if self.has_label(&rejected) { ModelErrorKind::Rejected } else { ModelErrorKind::Unavailable }
    }
}

/// Makes the errors of one provider.
#[derive(Clone)]
pub(super) struct Failures {
    pub(super) provider: String,
    /// The key, and headers that may hold one.
    pub(super) secrets: Vec<SecretString>,
}

impl Failures {
    /// The provider answered with a status that is not success.
    pub(super) fn status(&self, status: StatusCode, headers: &HeaderMap, report: &Report) -> ModelError {
        let code = status.as_u16();
        let provider = &self.provider;
        let mut words = report.words.clone();
        if words.is_empty() {
            words = status.canonical_reason().unwrap_or("no reason given").to_owned();
        }
        if status.is_redirection() {
            let target =
                headers.get(http::header::LOCATION).and_then(|target| target.to_str().ok()).unwrap_or("nowhere");
            words = format!("it redirects to {}; set base_url to where it is", bounded(target));
        }
        let kind = if status.is_redirection() { ModelErrorKind::Rejected } else { report.kind(Some(code)) };
        ModelError {
            kind,
            message: self.without_key(format!("{provider} answered {code}: {words}")),
            retry_after: retry_after(headers, SystemTime::now()).or(report.retry_after),
        }
    }

    /// The provider answered with success, but not with an answer of a model.
    pub(super) fn not_an_answer(&self, content_type: &str, body: &[u8]) -> ModelError {
        let provider = &self.provider;
        let report = Report::from_body(body);
        let is_error = serde_json::from_slice::<Value>(body).is_ok_and(|value| value.get("error").is_some());
        if is_error {
            return self.reported(&report);
        }
        let type_ = bounded(content_type);
        let message =
            format!("{provider} answered with {type_} that is no answer of a model; check base_url: {}", report.words);
        ModelError::new(ModelErrorKind::Rejected, self.without_key(message))
    }

    /// A request did not come through.
    pub(super) fn transport(&self, error: reqwest::Error, what: &str) -> ModelError {
        let provider = &self.provider;
        let kind = if error.is_timeout() { ModelErrorKind::Timeout } else { ModelErrorKind::Unavailable };
        let error = error.without_url();
        // The outermost error says little; the innermost says "connection refused".
        let mut words = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            words = inner.to_string();
            source = inner.source();
        }
        ModelError::new(kind, self.without_key(format!("{provider} {what}: {}", bounded(&words))))
    }

    /// The stream ended before the answer did.
    pub(super) fn cut(&self) -> ModelError {
        let message = format!("{} closed the stream before its answer was complete", self.provider);
        ModelError::new(ModelErrorKind::Unavailable, message)
    }

    /// Something within the stream.
    pub(super) fn fault(&self, fault: Fault) -> ModelError {
        let provider = &self.provider;
        let (kind, message) = match fault {
            Fault::Reported(report) => return self.reported(&report),
            Fault::Nonsense(frame) => {
                (ModelErrorKind::Unavailable, format!("{provider} sent what is no part of an answer: {frame}"))
            }
            Fault::Ended(reason) => {
                (ModelErrorKind::Unavailable, format!("{provider} gave its answer up with {}", bounded(&reason)))
            }
            Fault::TooMuchToolInput => (
                ModelErrorKind::Rejected,
                format!("{provider} sent more than {MAX_TOOL_INPUT} bytes of tool input in one answer"),
            ),
            Fault::TooManyCalls => {
                (ModelErrorKind::Rejected, format!("{provider} sent more than {MAX_CALLS} tool calls in one answer"))
            }
            Fault::FrameTooLarge => {
                (ModelErrorKind::Rejected, format!("{provider} sent a single event of more than {MAX_FRAME} bytes"))
            }
        };
        ModelError::new(kind, self.without_key(message))
    }

    fn reported(&self, report: &Report) -> ModelError {
        ModelError {
            kind: report.kind(None),
            message: self.without_key(format!("{} reports: {}", self.provider, report.words)),
            retry_after: report.retry_after,
        }
    }

    fn without_key(&self, mut message: String) -> String {
        for secret in self.secrets.iter().map(ExposeSecret::expose_secret).filter(|secret| secret.len() >= MIN_SECRET) {
            if message.contains(secret) {
                message = message.replace(secret, "[key]");
            }
        }
        message
    }
}

/// The first characters of a text, on one line.
fn bounded(text: &str) -> String {
    let mut words: String =
        text.trim().chars().take(MAX_WORDS + 1).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if let Some((end, _)) = words.char_indices().nth(MAX_WORDS) {
        words.truncate(end);
        words.push('…');
    }
    words
}

/// How long the provider asks us to wait: `retry-after-ms`, else `Retry-After` as seconds or as a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(wait) = header("retry-after-ms").and_then(seconds) {
        return Some(wait / 1000);
    }
    let value = header("retry-after")?;
    seconds(value).or_else(|| {
        let date = httpdate::parse_http_date(value).ok()?;
        Some(date.duration_since(now).unwrap_or(Duration::ZERO))
    })
}

/// The whole number that follows the last place of these words in a text; its digits may be grouped by commas.
pub(super) fn number_after(text: &str, marker: &str) -> Option<u64> {
    text.rmatch_indices(marker).find_map(|(at, _)| {
        let rest = &text[at + marker.len()..];
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(rest.len());
        rest[..end].replace(',', "").parse().ok()
    })
}

/// The whole number right before the first place of these words in a text.
fn number_before(text: &str, marker: &str) -> Option<u64> {
    let (before, _) = text.split_once(marker)?;
    let start = before.rfind(|c: char| !c.is_ascii_digit() && c != ',').map_or(0, |at| at + 1);
    before.get(start..)?.replace(',', "").parse().ok()
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

#[cfg(test)]
mod tests;
