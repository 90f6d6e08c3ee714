//! What went wrong, in the words of the engine: which kind of failure, what the provider said, how long to wait.
//!
//! Providers' words are bounded, and never hold our key even where the provider repeats it. Tenants are shown what a provider says in
//! an error message; its address, where it redirects to and bodies that are no error messages stand in the log alone.

mod no_access;
mod no_model;
mod overflow;
mod report;
mod words;

use std::{
    error::Error as _,
    io::{self, ErrorKind},
    time::SystemTime,
};

use everturn_core::Usage;
use http::{HeaderMap, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use self::words::{bounded, retry_after};
pub(super) use self::{
    report::{Rate, Report},
    words::number_after,
};
use super::{
    answer::{MAX_CALLS, MAX_INPUT_READ},
    frames::MAX_FRAME,
};
use crate::model::{ModelError, ModelErrorKind};

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

    /// The answer has filled the window, together with its question.
    pub(super) fn window_exceeded(usage: Option<Usage>) -> Self {
        let words = "the answer ran out of the context window";
        let usage = usage.filter(|usage| usage.input > 0);
        let report = serde_json::json!({
            "message": words,
            "code": report::WINDOW_FILLED,
            "n_ctx": usage.map(|usage| usage.input.saturating_add(usage.output)),
            "n_prompt_tokens": usage.map(|usage| usage.input),
        });
        Self::Reported(Report::from_json(&report))
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
        if report.is_raw && !words.is_empty() {
            self.log(&format!("answered {code} with"), &words);
        }
        if report.is_raw || words.is_empty() {
            words = status.canonical_reason().unwrap_or("no reason given").to_owned();
        }
        if status.is_redirection() {
            let target =
                headers.get(http::header::LOCATION).and_then(|target| target.to_str().ok()).unwrap_or("nowhere");
            self.log(&format!("answered {code} and redirects to"), &bounded(target));
            words = "it redirects to another address; set base_url to that address, which is in the server's log"
                .to_owned();
        }
        let kind = if status.is_redirection() { ModelErrorKind::Denied } else { report.kind(Some(code)) };
        ModelError {
            kind,
            message: self.without_key(format!("{provider} answered {code}: {words}")),
            retry_after: retry_after(headers, SystemTime::now()).or(report.retry_after),
            says_nothing: report.says_nothing(),
            is_busy: report.is_busy(Some(code)),
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
        let type_ = bounded(content_type.split(';').next().unwrap_or_default());
        self.log(&format!("answered with {type_} that is no answer of a model:"), &report.words);
        let message = format!(
            "{provider} answered with {type_} that is no answer of a model; check base_url (the server's log has what it answered)"
        );
        ModelError::new(ModelErrorKind::Denied, self.without_key(message))
    }

    /// A request did not come through to an address.
    pub(super) fn unreached(&self, error: reqwest::Error, base: &reqwest::Url) -> ModelError {
        self.log("cannot be reached at", &base.origin().ascii_serialization());
        self.transport(error, "cannot be reached")
    }

    /// A request or its answer did not come through.
    pub(super) fn transport(&self, error: reqwest::Error, what: &str) -> ModelError {
        let provider = &self.provider;
        let kind = if error.is_timeout() { ModelErrorKind::Timeout } else { ModelErrorKind::Unavailable };
        let error = error.without_url();
        // The outermost error says little; the innermost says "connection refused".
        let mut words = error.to_string();
        let mut is_tls = false;
        let mut source = error.source();
        while let Some(inner) = source {
            words = inner.to_string();
            is_tls |= inner.downcast_ref::<io::Error>().is_some_and(is_tls_error);
            source = inner.source();
        }
        if is_tls {
            // They name hosts.
            self.log(&format!("{what}:"), &bounded(&words));
            words = "the TLS connection failed; the server's log says why".to_owned();
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
                self.log("sent what is no part of an answer:", &frame);
                (
                    ModelErrorKind::Unavailable,
                    format!("{provider} sent what is no part of an answer (the server's log has it)"),
                )
            }
            Fault::Ended(reason) => {
                (ModelErrorKind::Unavailable, format!("{provider} gave its answer up with {}", bounded(&reason)))
            }
            Fault::TooMuchToolInput => (
                ModelErrorKind::Rejected,
                format!("{provider} sent more than {MAX_INPUT_READ} bytes of tool input in one answer"),
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
        let words = if report.is_raw {
            self.log("reports an error without a message:", &report.words);
            "an error without a message (the server's log has it)"
        } else {
            &report.words
        };
        ModelError {
            kind: report.kind(None),
            message: self.without_key(format!("{} reports: {words}", self.provider)),
            retry_after: report.retry_after,
            says_nothing: false,
            is_busy: report.is_busy(None),
        }
    }

    /// Tells the operator what tenants are not shown.
    fn log(&self, what: &str, words: &str) {
        let words = self.without_key(words.to_owned());
        tracing::warn!(target: "everturn::models", provider = self.provider, "the provider {what} {words}");
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

/// Whether an error is one of TLS: neither the system's own nor the end of the connection.
fn is_tls_error(error: &io::Error) -> bool {
    error.raw_os_error().is_none() && matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::Other)
}

#[cfg(test)]
mod tests;
