//! Sends one message, once.

use std::{
    error::Error as _,
    sync::Arc,
    time::{Duration, SystemTime},
};

use everturn_core::Timestamp;
use http::{HeaderMap, StatusCode, header};
use reqwest::{Client, Response, redirect};

use crate::{Hook, backoff::retry_after, resolver::PublicOnly};

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection that nobody uses is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How much of an answer is read. Nothing of it matters; a connection whose answer was read can be used again.
const ANSWER_BYTES: usize = 16 * 1024;
/// How much of what went wrong is told.
const REASON_BYTES: usize = 300;

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The receiver took the message.
    Delivered,
    /// The receiver is gone for good.
    Gone,
    /// Anything else.
    Failed {
        /// What.
        reason: String,
        /// When the receiver wants to be asked again.
        retry_after: Option<Duration>,
    },
}

/// Sends the messages of one hook.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    hook: Arc<Hook>,
    client: Client,
}

impl Post {
    /// Nothing is sent yet.
    pub(crate) fn new(hook: Arc<Hook>) -> Result<Self, reqwest::Error> {
        let builder = Client::builder()
            .user_agent(concat!("everturn/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(hook.timeout)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .redirect(redirect::Policy::none())
            .referer(false)
            // A proxy would connect to what we must not, in our place.
            .no_proxy();
        let builder = if hook.receiver.allow_private { builder } else { builder.dns_resolver(PublicOnly) };
        Ok(Self { client: builder.build()?, hook })
    }

    /// Signs a message as of now, and sends it.
    pub(crate) async fn send(&self, id: &str, body: Vec<u8>) -> Attempt {
        let timestamp = Timestamp::now().millis().div_euclid(1000);
        let Some(signature) = self.hook.secret.sign(id, timestamp, &body) else {
            return Attempt::Failed { reason: "it cannot be signed".to_owned(), retry_after: None };
        };
        let request = self
            .client
            .post(self.hook.receiver.url.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signature)
            .body(body);
        match request.send().await {
            Ok(answer) => {
                let attempt = judge(answer.status(), answer.headers());
                drain(answer).await;
                attempt
            }
            Err(error) => Attempt::Failed { reason: told(error), retry_after: None },
        }
    }
}

fn judge(status: StatusCode, headers: &HeaderMap) -> Attempt {
    if status.is_success() {
        return Attempt::Delivered;
    }
    if status == StatusCode::GONE {
        return Attempt::Gone;
    }
    let reason = if status.is_redirection() {
        format!("it answered {}, and redirects are not followed", status.as_u16())
    } else {
        format!("it answered {}", status.as_u16())
    };
    let asked = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    Attempt::Failed { reason, retry_after: asked.and_then(|asked| retry_after(asked, SystemTime::now())) }
}

async fn drain(mut answer: Response) {
    let mut read = 0;
    while read < ANSWER_BYTES {
        match answer.chunk().await {
            Ok(Some(chunk)) => read += chunk.len(),
            Ok(None) | Err(_) => return,
        }
    }
}

/// What went wrong, down to its cause; without the address, which may be a secret.
fn told(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // What comes from outside has no place in a line of a log.
        text.push_str(": ");
        text.extend(error.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }));
        cause = error.source();
    }
    text.truncate(text.floor_char_boundary(REASON_BYTES));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let of = |status: u16, after: Option<&str>| {
            let after = after.map(|after| (header::RETRY_AFTER, after.parse().unwrap()));
            judge(StatusCode::from_u16(status).unwrap(), &HeaderMap::from_iter(after))
        };
        let failed = |reason: &str, seconds: Option<u64>| Attempt::Failed {
            reason: reason.to_owned(),
            retry_after: seconds.map(Duration::from_secs),
        };
        assert_eq!(of(200, None), Attempt::Delivered);
        assert_eq!(of(204, None), Attempt::Delivered);
        assert_eq!(of(410, None), Attempt::Gone);
        assert_eq!(of(404, None), failed("it answered 404", None));
        assert_eq!(of(503, Some("7")), failed("it answered 503", Some(7)));
        assert_eq!(of(302, None), failed("it answered 302, and redirects are not followed", None));
    }
}
