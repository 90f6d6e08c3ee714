//! Cross-origin access: applications in browsers call us from anywhere, with their key.

use axum::{extract::Request, middleware::Next, response::Response};
use http::{HeaderValue, Method, StatusCode, header};

/// Adds the headers to every answer, and answers preflights itself, for which no key is needed.
pub async fn cors(request: Request, next: Next) -> Response {
    let mut response = if is_preflight(&request) {
        let mut response = Response::default();
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        let methods = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE, OPTIONS");
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        // The last ones are those that OpenAI's SDK sends.
        let allowed = HeaderValue::from_static(
            "authorization, content-type, last-event-id, idempotency-key, if-none-match, x-secret-key, \
             openai-organization, openai-project, x-stainless-arch, x-stainless-helper-method, x-stainless-lang, \
             x-stainless-os, x-stainless-package-version, x-stainless-retry-count, x-stainless-runtime, \
             x-stainless-runtime-version, x-stainless-timeout",
        );
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
        response
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    // The last one is for OpenAI's SDK, which in a page would not know when not to try again.
    let exposed = HeaderValue::from_static(
        "x-session-id, x-message-id, x-request-id, retry-after, content-disposition, etag, x-should-retry",
    );
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    response
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}
