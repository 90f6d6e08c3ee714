//! An error as a provider reports it.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::{
    no_access::{LOCKED_OUT, LOCKED_OUT_LABELS, NO_MONEY, NOT_ALLOWED, UNPAID},
    no_model,
    overflow::{INPUT, MUCH, NO_OVERFLOW, OTHER_LIMITS, OVERFLOW, OVERFLOW_LABELS, WINDOW},
    words::{RESET, bounded, number_after, number_before, seconds, until_reset, wait_in},
};
use crate::model::ModelErrorKind;

/// Window sizes in tokens that can be true. Other numbers are something else.
const PLAUSIBLE: std::ops::RangeInclusive<u64> = 1024..=50_000_000;

/// What a server cannot do however often it is asked, though it says 500.
const FOR_GOOD: &[&str] = &[
    "is not supported",
    "failed to parse grammar",
    "Failed to parse grammar",
    // Faults of a template, which come again.
    "roles must alternate",
    "roles are supported",
    "role not supported",
    " at row ",
    "is not callable",
    "Jinja",
    "jinja",
];

/// What Anthropic calls an answer that has filled the window, together with its question.
pub(super) const WINDOW_FILLED: &str = "model_context_window_exceeded";

/// Stands for OpenRouter's `metadata.flagged_input` among the labels.
const FLAGGED: &str = "flagged_input";

/// The names that vendors give to what their filter declines.
const DECLINED: &[&str] = &[
    "content_filter",
    "content_policy_violation",
    "moderation_blocked",
    "invalid_prompt",
    // OpenAI.
    "bio_policy",
    "cyber_policy",
    "misalignment_policy_violation",
    "data_inspection_failed",
    "DataInspectionFailed",
    // Zhipu.
    "1301",
    FLAGGED,
];

/// What Gemini says of too many bytes, with 400.
const TOO_LARGE_GEMINI: &str = "request payload size exceeds the limit";

/// The names that vendors give to a fault of their own: Anthropic, OpenAI, Gemini.
const FAULTS: &[&str] = &["api_error", "server_error", "internal_error", "internal_server_error", "INTERNAL"];

/// How much one request has of what a minute allows, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::provider) struct Rate {
    pub(in crate::provider) limit: u64,
    pub(in crate::provider) requested: u64,
}

impl Rate {
    /// The words that name it.
    pub(in crate::provider) fn words(self) -> String {
        format!("limit {}, requested {}", self.limit, self.requested)
    }
}

/// The time until a limit resets, which OpenRouter repeats from its headers: `{"metadata": {"headers": {…}}}`.
fn reset(error: &Value) -> Option<Duration> {
    let headers = error.pointer("/metadata/headers")?.as_object()?;
    let (_, value) = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(RESET))?;
    let number = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    until_reset(&number, SystemTime::now())
}

/// What a validating server finds wrong: `{"detail": [{"loc": ["body", "tools", 8], "msg": "…"}]}`.
struct Invalid {
    words: String,
    /// The place of the first finding, as other servers write it: `tools.8`.
    place: Option<String>,
}

impl Invalid {
    fn of(error: &Value) -> Option<Self> {
        /// Findings that are repeated.
        const MOST: usize = 3;
        let findings = ["/detail", "/message/detail"].iter().find_map(|path| error.pointer(path)?.as_array())?;
        let place = |finding: &Value| {
            let steps = finding.get("loc")?.as_array()?.iter().filter_map(|step| match step {
                Value::String(name) => Some(name.clone()),
                step => step.as_u64().map(|index| index.to_string()),
            });
            let path = steps.skip_while(|step| step == "body").collect::<Vec<_>>().join(".");
            (!path.is_empty()).then(|| bounded(&path))
        };
        let told = findings.iter().take(MOST).filter_map(|finding| {
            let message = finding.get("msg")?.as_str()?;
            Some(place(finding).map_or_else(|| message.to_owned(), |place| format!("{place}: {message}")))
        });
        let words = told.collect::<Vec<_>>().join("; ");
        (!words.is_empty()).then(|| Self { words, place: findings.first().and_then(place) })
    }
}

/// An error as a provider reports it, in the body of a response or within a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::provider) struct Report {
    pub(super) words: String,
    /// Whether the words are a body that has no error message, rather than one. They are read, and not shown to tenants.
    pub(super) is_raw: bool,
    /// The machine-readable names that it gives: code, type, status.
    labels: Vec<String>,
    /// A status code inside the report.
    status: Option<u16>,
    pub(super) retry_after: Option<Duration>,
    /// The status of the response that brought it.
    pub(in crate::provider) http: Option<u16>,
    /// The field of the request that it is about.
    param: Option<String>,
    /// The window that it names beside its words (llama.cpp).
    window: Option<u32>,
    /// The tokens of the request, as the provider has counted them (llama.cpp).
    input: Option<u32>,
    /// Whether a quota of a whole day is used up: asking again within minutes does not help.
    is_daily: bool,
}

impl Report {
    /// Reads a report from a response's body, which may be anything.
    pub(in crate::provider) fn from_body(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            // Gemini wraps the error of a streaming call in an array.
            Ok(Value::Array(mut items)) if items.len() == 1 => Self::from_json(&items.swap_remove(0)),
            Ok(value) => Self::from_json(&value),
            Err(_) => Self::raw(&String::from_utf8_lossy(body)),
        }
    }

    /// Reads a report from JSON: `{"error": {…}}`, `{"error": "…"}`, `{"message": "…"}` or `{"detail": "…"}`. OpenRouter
    /// puts the error of the provider behind it into `metadata.raw`, as text or as JSON; that one is read first.
    pub(in crate::provider) fn from_json(value: &Value) -> Self {
        let error = value.get("error").unwrap_or(value);
        let own = Self::from_error(error);
        match error.pointer("/metadata/raw").and_then(Self::from_raw) {
            Some(inner) => inner.with_wrapper(own),
            None => own,
        }
    }

    /// A text that is no error message.
    fn raw(text: &str) -> Self {
        Self { words: bounded(text), is_raw: true, ..Self::default() }
    }

    /// Reads an error that another one wraps.
    fn from_raw(raw: &Value) -> Option<Self> {
        let read = |value: &Value| Self::from_error(value.get("error").unwrap_or(value));
        let inner = match raw {
            Value::String(text) => match serde_json::from_str::<Value>(text) {
                Ok(value @ Value::Object(_)) => read(&value),
                Ok(Value::Array(items)) if items.len() == 1 => read(&items[0]),
                Ok(_) | Err(_) => Self::raw(text),
            },
            Value::Object(_) => read(raw),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
        };
        (!inner.words.is_empty()).then_some(inner)
    }

    /// Adds what the error that wraps this one says beside it.
    fn with_wrapper(mut self, outer: Self) -> Self {
        self.labels.extend(outer.labels);
        self.status = outer.status.or(self.status);
        self.retry_after = self.retry_after.or(outer.retry_after);
        self.param = self.param.or(outer.param);
        self.window = self.window.or(outer.window);
        self.is_daily |= outer.is_daily;
        self
    }

    fn from_error(error: &Value) -> Self {
        let invalid = Invalid::of(error);
        let words = match error {
            Value::String(words) => Some(words.clone()),
            error => ["message", "detail", "error"]
                .iter()
                .find_map(|field| error.get(field)?.as_str())
                .map(str::to_owned)
                .or_else(|| invalid.as_ref().map(|invalid| invalid.words.clone())),
        };
        let is_raw = words.is_none();
        let words = words.unwrap_or_else(|| error.to_string());
        let details = error.get("details").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let mut labels: Vec<String> = ["code", "type", "status", "__type"]
            .iter()
            .filter_map(|field| error.get(field)?.as_str())
            // Gemini.
            .chain(details.iter().filter_map(|detail| detail.get("reason")?.as_str()))
            .map(str::to_owned)
            .collect();
        if error.pointer("/metadata/flagged_input").is_some() {
            labels.push(FLAGGED.to_owned());
        }
        let status =
            ["code", "status", "status_code", "statusCode"].iter().find_map(|field| http_status(error.get(field)?));
        let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str());
        let is_daily =
            details.iter().filter_map(|detail| detail.get("violations")?.as_array()).flatten().any(|violation| {
                violation.get("quotaId").and_then(Value::as_str).is_some_and(|id| id.contains("PerDay"))
            });
        let param = error.get("param").and_then(Value::as_str).filter(|param| !param.is_empty()).map(bounded);
        Self {
            words: bounded(&words),
            is_raw,
            labels,
            status,
            retry_after: delay
                .and_then(|delay| seconds(delay.strip_suffix('s')?))
                .or_else(|| wait_in(&words))
                .or_else(|| reset(error)),
            http: None,
            param: param.or_else(|| invalid.and_then(|invalid| invalid.place)),
            window: count(error.get("n_ctx")),
            input: count(error.get("n_prompt_tokens")),
            is_daily,
        }
    }

    /// The machine-readable names that it gives.
    pub(in crate::provider) fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Whether nothing in the request could have mended it: the caller is not let in, or what it asks for is not there.
    pub(in crate::provider) fn is_about_access(&self) -> bool {
        matches!(self.status, Some(401..=404)) || matches!(self.http, Some(401..=404)) || self.is_about_model()
    }

    /// Whether the provider has no such model, or not for this account.
    fn is_about_model(&self) -> bool {
        matches!(self.param(), Some("model" | "modelId"))
            || self.has_label(no_model::LABELS)
            || no_model::is_said(&self.words.to_lowercase())
    }

    /// Whether its labels blame the request: what a stream reports has no status.
    fn is_bad_request(&self) -> bool {
        /// `invalid_request_error`, `INVALID_ARGUMENT`, `InvalidParameter`; `unsupported_value`; vLLM's `BadRequestError`;
        /// Bedrock's `ValidationException`.
        const BEGINNINGS: &[&str] = &["invalid", "unsupported", "badrequest", "bad_request", "validation"];
        /// OpenAI's names for what is wrong with an image, such as `image_too_large`.
        const IMAGE: &str = "image";
        self.labels
            .iter()
            .map(|label| label.to_lowercase())
            .any(|label| BEGINNINGS.iter().any(|beginning| label.starts_with(beginning)) || label.contains(IMAGE))
    }

    /// What the provider says.
    pub(in crate::provider) fn words(&self) -> &str {
        &self.words
    }

    /// What a tenant is shown of it.
    pub(in crate::provider) fn shown(&self) -> &str {
        if self.is_raw { "The provider declined to answer." } else { &self.words }
    }

    /// Whether it has no word of what is wrong: no body, a page for people, or the name of the status.
    pub(in crate::provider) fn says_nothing(&self) -> bool {
        let words = self.words.trim().to_lowercase();
        let is_status = ["", "error", "bad request", "unprocessable entity"].contains(&words.as_str());
        is_status || words.starts_with('<') || words.contains("(no body)")
    }

    /// The field of the request that it is about, where the provider names one.
    pub(in crate::provider) fn param(&self) -> Option<&str> {
        self.param.as_deref()
    }

    fn has_label(&self, labels: &[&str]) -> bool {
        self.labels.iter().any(|label| labels.contains(&label.as_str()))
    }

    /// How many tokens of input the provider has counted, where an overflow says so beside the cap on the answer.
    pub(in crate::provider) fn input(&self) -> Option<u64> {
        if let Some(input) = self.input {
            return Some(input.into());
        }
        let words = self.words.to_lowercase();
        let with_functions = |messages: u64| messages + number_before(&words, " in the functions").unwrap_or(0);
        number_before(&words, " in the messages")
            .map(with_functions)
            .or_else(|| number_before(&words, " input tokens"))
            .or_else(|| number_before(&words, " of text input"))
            .or_else(|| number_after(&words, "exceed context limit: "))
    }

    /// The words that name the window, with its number.
    pub(in crate::provider) fn window_words(&self) -> Option<String> {
        let words = self.words.to_lowercase();
        let marker = WINDOW.iter().find(|marker| number_after(&words, marker).is_some())?;
        Some(format!("{marker}{}", number_after(&words, marker)?))
    }

    /// Whether the provider speaks of a fault of its own, rather than of too much work.
    pub(in crate::provider) fn is_fault(&self) -> bool {
        match self.http {
            Some(http) => matches!(http, 500 | 502),
            // In a stream that had begun well.
            None => matches!(self.status, Some(500 | 502)) || self.has_label(FAULTS),
        }
    }

    /// Whether the provider says that it has too much to do, rather than that something is wrong: Anthropic's 529, Groq's 498, Gemini's
    /// and OpenAI's 503, and their names for it in streams.
    pub(in crate::provider) fn is_busy(&self, status: Option<u16>) -> bool {
        const LABELS: &[&str] = &["UNAVAILABLE", "service_unavailable", "slow_down", "capacity_exceeded"];
        let is_said = |text: &str| text.to_lowercase().contains("overload");
        matches!(status.or(self.status), Some(498 | 503 | 529))
            || self.has_label(LABELS)
            || is_said(&self.words)
            || self.labels.iter().any(|label| is_said(label))
    }

    /// Whether too much was asked for in a while, rather than at once.
    fn is_rate(&self) -> bool {
        let words = self.words.to_lowercase();
        self.has_label(&["rate_limit_exceeded"]) || NO_OVERFLOW.iter().any(|phrase| words.contains(phrase))
    }

    /// The tokens that one request may have, where this one has more than a whole minute allows: waiting does not help.
    pub(in crate::provider) fn rate(&self) -> Option<Rate> {
        let words = self.words.to_lowercase();
        if !words.contains("tokens per ") {
            return None;
        }
        let rate = Rate { limit: number_after(&words, "limit ")?, requested: number_after(&words, "requested ")? };
        (rate.requested > rate.limit && PLAUSIBLE.contains(&rate.limit)).then_some(rate)
    }

    /// Whether one request is more than a rate allows in a whole minute.
    fn is_beyond_rate(&self) -> bool {
        // Azure names no numbers.
        let is_bare =
            || self.has_label(&["rate_limit_exceeded"]) && self.words.trim_end_matches('.') == "Request too large";
        self.rate().is_some() || is_bare()
    }

    /// Whether the request has too many bytes, rather than tokens.
    pub(in crate::provider) fn is_about_bytes(&self) -> bool {
        (self.http == Some(413) && !self.is_rate())
            || self.has_label(&["request_too_large"])
            || ["image data", TOO_LARGE_GEMINI].iter().any(|phrase| self.words.to_lowercase().contains(phrase))
    }

    /// Whether the account has no money. Gemini says so of every limit, but then it also says when to ask again.
    fn is_unpaid(&self) -> bool {
        let words = self.words.to_lowercase();
        self.retry_after.is_none() && UNPAID.iter().any(|phrase| words.contains(phrase))
    }

    /// Whether the key or the account is not let in. What names a message may quote it, and then a user said so.
    fn is_locked_out(&self) -> bool {
        let words = self.words.to_lowercase();
        let is_said = || !words.contains("message") && LOCKED_OUT.iter().any(|phrase| words.contains(phrase));
        self.has_label(LOCKED_OUT_LABELS) || is_said() || words.trim_end_matches('.') == NOT_ALLOWED
    }

    /// Whether the vendor's filter declined what was asked, or what the model would have said.
    pub(in crate::provider) fn is_declined(&self) -> bool {
        let words = self.words.to_lowercase();
        self.has_label(DECLINED)
            || words.contains("blocked by content filtering policy")
            // xAI.
            || words.contains("violates usage guidelines")
            // All that DeepSeek says.
            || words.trim() == "content exists risk"
    }

    pub(super) fn is_overflow(&self) -> bool {
        let words = self.words.to_lowercase();
        if NO_OVERFLOW.iter().any(|phrase| words.contains(phrase)) {
            return false;
        }
        self.has_label(OVERFLOW_LABELS) || OVERFLOW.iter().any(|phrase| words.contains(phrase))
    }

    /// Whether an answer that had begun has filled the window, together with its question.
    pub(in crate::provider) fn is_window_filled(&self) -> bool {
        self.has_label(&[WINDOW_FILLED])
    }

    /// Whether all that speaks of an overflow is a phrase that somebody else said.
    pub(in crate::provider) fn is_echo(&self, is_quoted: impl Fn(&str) -> bool) -> bool {
        let words = self.words.to_lowercase();
        let mut said = OVERFLOW.iter().filter(|phrase| words.contains(**phrase)).peekable();
        !self.has_label(OVERFLOW_LABELS)
            && self.window.is_none()
            && said.peek().is_some()
            && said.all(|phrase| is_quoted(phrase))
    }

    /// Whether unknown words speak of too much input. Those about other limits do not.
    pub(in crate::provider) fn sounds_like_overflow(&self) -> bool {
        let words = self.words.to_lowercase();
        let has = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
        let is_throttled = self.labels.iter().any(|label| label.to_lowercase().contains("throttl"));
        (has(MUCH) && has(INPUT) && !has(OTHER_LIMITS) && !has(NO_OVERFLOW) && !is_throttled)
            || self.has_label(&["string_above_max_length"])
    }

    /// The size of the context window that an overflow names, in tokens.
    pub(in crate::provider) fn window(&self) -> Option<u64> {
        let words = self.words.to_lowercase();
        let named = WINDOW.iter().find_map(|marker| number_after(&words, marker));
        self.window.map(u64::from).or(named).filter(|window| PLAUSIBLE.contains(window))
    }

    pub(super) fn kind(&self, status: Option<u16>) -> ModelErrorKind {
        // A spent budget is reported as 429 too, but waiting does not fill it.
        if self.has_label(NO_MONEY) || self.is_daily || self.is_unpaid() {
            return ModelErrorKind::Denied;
        }
        // Bedrock and many gateways say so with 400. Nothing in the request is wrong.
        if matches!(status.or(self.status), Some(400 | 422) | None) && (self.is_about_model() || self.is_locked_out()) {
            return ModelErrorKind::Denied;
        }
        // The model wrote a call or JSON that cannot be read (Groq). It may write something better.
        if self.has_label(&["tool_use_failed", "json_validate_failed"]) {
            return ModelErrorKind::Unavailable;
        }
        match status.or(self.status) {
            Some(413 | 429) | None if self.is_beyond_rate() => return ModelErrorKind::ContextOverflow,
            Some(429) => return ModelErrorKind::RateLimited,
            Some(408 | 504) => return ModelErrorKind::Timeout,
            Some(413) if self.is_rate() => return ModelErrorKind::RateLimited,
            Some(413) => return ModelErrorKind::ContextOverflow,
            // llama.cpp calls these faults of its own.
            Some(500) if FOR_GOOD.iter().any(|phrase| self.words.contains(phrase)) => return ModelErrorKind::Rejected,
            Some(_) | None if self.is_overflow() => return ModelErrorKind::ContextOverflow,
            Some(409 | 425 | 498 | 500..) => return ModelErrorKind::Unavailable,
            Some(401..=404 | 451) => return ModelErrorKind::Denied,
            Some(400..) => return ModelErrorKind::Rejected,
            Some(_) | None => {}
        }
        if self.has_label(&["rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"]) {
            return ModelErrorKind::RateLimited;
        }
        let denied = [
            "authentication_error",
            "permission_error",
            "not_found_error",
            "billing_error",
            "PERMISSION_DENIED",
            "UNAUTHENTICATED",
            "NOT_FOUND",
        ];
        if self.has_label(&denied) {
            return ModelErrorKind::Denied;
        }
        if self.is_bad_request() { ModelErrorKind::Rejected } else { ModelErrorKind::Unavailable }
    }
}

/// A status of HTTP, which some servers write as text.
fn http_status(value: &Value) -> Option<u16> {
    let code = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    u16::try_from(code).ok().filter(|code| (400..600).contains(code))
}

/// A number of tokens.
fn count(value: Option<&Value>) -> Option<u32> {
    value?.as_u64().and_then(|count| u32::try_from(count).ok())
}
