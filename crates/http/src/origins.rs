//! Which web pages may call this server, and the CORS headers that let them read its answers.
//!
//! Where callers need a key, the key is the guard and any page may call. Without keys every page
//! that a browser on this machine shows could call, so pages of other origins are refused: also requests that browsers send
//! without a preflight (an empty body, a form, plain text).

use std::{str::FromStr, sync::Arc};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, uri::Authority};

use crate::{Keys, host::is_loopback, problem};

/// Set by browsers, never by pages: how the page that makes a request is related to the server.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The headers that pages may send. The last ones are for OpenAI's SDK.
const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, last-event-id, idempotency-key, if-none-match, x-secret-key, \
     openai-organization, openai-project, x-stainless-arch, x-stainless-helper-method, x-stainless-lang, \
     x-stainless-os, x-stainless-package-version, x-stainless-retry-count, x-stainless-runtime, \
     x-stainless-runtime-version, x-stainless-timeout",
);

/// What pages may read. The last one is for OpenAI's SDK, which in a page would not know when not to try again.
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static(
    "x-session-id, x-message-id, x-request-id, retry-after, content-disposition, etag, x-should-retry",
);

/// An origin as browsers write it: `https://app.example`, `http://localhost:3000`, or `null` for pages without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

/// A text that is no origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an origin is a scheme, a host and a port where it is not the usual one")]
pub struct NoOrigin;

impl FromStr for Origin {
    type Err = NoOrigin;

    fn from_str(text: &str) -> Result<Self, NoOrigin> {
        if text == "null" {
            return Ok(Self(text.to_owned()));
        }
        let text = text.to_ascii_lowercase();
        let (scheme, host) = text.split_once("://").ok_or(NoOrigin)?;
        let is_scheme = scheme.starts_with(|first: char| first.is_ascii_lowercase())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        let is_host = host.parse::<Authority>().is_ok_and(|authority| !authority.host().is_empty());
        if !is_scheme || !is_host || host.contains(['@', '*']) {
            return Err(NoOrigin);
        }
        let usual = match scheme {
            "http" => ":80",
            "https" => ":443",
            _ => "",
        };
        let host = host.strip_suffix(usual).unwrap_or(host);
        Ok(Self(format!("{scheme}://{host}")))
    }
}

impl Origin {
    fn host(&self) -> Option<&str> {
        self.0.split_once("://").map(|(_, host)| host)
    }

    /// Whether it is that of a page which this machine serves.
    fn is_of_this_machine(&self) -> bool {
        let is_web = self.0.starts_with("http://") || self.0.starts_with("https://");
        is_web && self.host().is_some_and(is_loopback)
    }

    /// Whether it is that of a page which this server itself serves.
    fn is_host(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        host.is_some() && self.host() == host
    }
}

/// The origins that may call.
#[derive(Clone, Debug)]
pub struct Origins {
    keys: Arc<Keys>,
    configured: Arc<[Origin]>,
}

/// What a request may do, and what its page may read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Access {
    /// Every page may read the answer.
    Any,
    /// The page of this origin may read the answer.
    One(HeaderValue),
    /// The request is refused.
    Refused,
}

impl Origins {
    /// These origins. Without any: every origin where callers need a key, else those of this machine.
    pub fn new(keys: Arc<Keys>, configured: Vec<Origin>) -> Self {
        Self { keys, configured: configured.into() }
    }

    /// Whether pages of all origins may call.
    fn are_unbounded(&self) -> bool {
        self.configured.is_empty() && !self.keys.is_open()
    }

    fn access(&self, headers: &HeaderMap) -> Access {
        if self.are_unbounded() {
            return Access::Any;
        }
        let mut sent = headers.get_all(header::ORIGIN).iter();
        let (Some(value), None) = (sent.next(), sent.next()) else {
            let is_cross_site = headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site");
            let is_refused = headers.contains_key(header::ORIGIN) || (is_cross_site && self.keys.is_open());
            return if is_refused { Access::Refused } else { Access::Any };
        };
        match value.to_str().ok().and_then(|text| text.parse().ok()) {
            Some(origin) if self.allows(&origin, headers) => Access::One(value.clone()),
            Some(_) | None => Access::Refused,
        }
    }

    fn allows(&self, origin: &Origin, headers: &HeaderMap) -> bool {
        let is_local = self.keys.is_open() && origin.is_of_this_machine();
        is_local || self.configured.contains(origin) || (!self.keys.is_open() && origin.is_host(headers))
    }
}

/// Refuses requests of pages that may not call, adds CORS headers to every other answer, and answers preflights, for which
/// no key is needed.
pub async fn cross_origin(State(origins): State<Origins>, request: Request, next: Next) -> Response {
    let access = origins.access(request.headers());
    let mut response = match &access {
        Access::Refused => refused(&request, origins.keys.is_open()),
        Access::Any | Access::One(_) if is_preflight(&request) => preflight(),
        Access::Any | Access::One(_) => next.run(request).await,
    };
    let headers = response.headers_mut();
    // Shared caches must not give one page the answer for another.
    if !origins.are_unbounded() {
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    let readers = match access {
        Access::Any => HeaderValue::from_static("*"),
        Access::One(origin) => origin,
        Access::Refused => return response,
    };
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, readers);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    response
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight() -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    let methods = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE, OPTIONS");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}

/// The longest origin that an error repeats.
const LONGEST_SHOWN: usize = 128;

fn refused(request: &Request, is_open: bool) -> Response {
    let origin = request.headers().get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let page = match origin {
        Some(origin) => format!("pages of {:?}", origin.chars().take(LONGEST_SHOWN).collect::<String>()),
        None => "pages of other sites".to_owned(),
    };
    let message = if is_open {
        format!(
            "this server runs without keys and takes no requests of {page}: add the origin to [cors] origins in the \
             configuration, or configure a key"
        )
    } else {
        format!("this server takes no requests of {page}: add the origin to [cors] origins in the configuration")
    };
    problem(StatusCode::FORBIDDEN, "ORIGIN_REFUSED", &message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Scope};

    fn with_key(configured: &[&str]) -> Origins {
        let keys = Keys::of(vec![Key::new("secret", "acme".parse().unwrap(), vec![Scope::Chat])]);
        Origins::new(Arc::new(keys), configured.iter().map(|origin| origin.parse().unwrap()).collect())
    }

    fn without_keys(configured: &[&str]) -> Origins {
        Origins { keys: Arc::new(Keys::open()), ..with_key(configured) }
    }

    #[track_caller]
    fn check(origins: &Origins, sent: &[(&'static str, &'static str)], expected: Access) {
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(*name, HeaderValue::from_static(value));
        }
        assert_eq!(origins.access(&headers), expected, "{sent:?}");
    }

    fn one(origin: &'static str) -> Access {
        Access::One(HeaderValue::from_static(origin))
    }

    #[test]
    fn without_keys_only_pages_of_this_machine_and_configured_ones_call() {
        let origins = without_keys(&["https://App.example:443", "null"]);
        for ours in ["http://localhost", "https://localhost:8443", "http://127.0.0.1:3000", "http://[::1]:5173"] {
            // To a browser, pages of localhost and of 127.0.0.1 are of two sites.
            check(&origins, &[("origin", ours), ("sec-fetch-site", "cross-site")], one(ours));
        }
        check(&origins, &[("origin", "https://app.example")], one("https://app.example"));
        check(&origins, &[("origin", "null")], one("null"));
        let foreign = [
            "https://evil.example",
            "http://app.example",
            "https://app.example:8443",
            "http://localhost.evil.example",
            "http://localhost:80@evil.example",
            "chrome-extension://localhost",
            "file://",
            "",
            "*",
        ];
        for foreign in foreign {
            check(&origins, &[("origin", foreign)], Access::Refused);
            check(&origins, &[("origin", foreign), ("host", foreign)], Access::Refused);
        }
        check(&origins, &[("origin", "http://localhost"), ("origin", "http://localhost")], Access::Refused);
        check(&without_keys(&[]), &[("origin", "null")], Access::Refused);
        // Programs send neither header; a page that browsers ask nobody about sends the second one.
        check(&origins, &[], Access::Any);
        check(&origins, &[("sec-fetch-site", "same-origin")], Access::Any);
        check(&origins, &[("sec-fetch-site", "none")], Access::Any);
        check(&origins, &[("sec-fetch-site", "cross-site")], Access::Refused);
    }

    #[test]
    fn with_keys_any_page_calls_unless_origins_are_configured() {
        check(&with_key(&[]), &[("origin", "https://any.example"), ("sec-fetch-site", "cross-site")], Access::Any);
        let origins = with_key(&["https://app.example"]);
        check(&origins, &[("origin", "https://app.example")], one("https://app.example"));
        check(&origins, &[("origin", "https://any.example")], Access::Refused);
        check(&origins, &[("origin", "http://localhost:3000")], Access::Refused);
        // The page that this server shows its API with.
        check(
            &origins,
            &[("origin", "https://agents.example"), ("host", "agents.example")],
            one("https://agents.example"),
        );
        check(&origins, &[("sec-fetch-site", "cross-site")], Access::Any);
    }

    #[test]
    fn origins_are_written_as_browsers_do() {
        for (text, origin) in
            [("https://A.example:443", "https://a.example"), ("http://a:80", "http://a"), ("null", "null")]
        {
            assert_eq!(text.parse(), Ok(Origin(origin.to_owned())));
        }
        for text in
            ["*", "a.example", "https://", "https://a/", "https://*.example", "https://u@a", "://a", "1a://b", ""]
        {
            assert_eq!(text.parse::<Origin>(), Err(NoOrigin), "{text}");
        }
    }
}
