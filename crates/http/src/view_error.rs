//! The answers of the shared door that say no: `{"detail":{"code":…,"message":…}}`.

use std::time::Duration;

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use everturn_engine::{Cursor, OpenError, Whose};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::{AuthError, Scope, document, retry_seconds};

/// How long clients should wait before they try a troubled server again, in seconds.
const RETRY_AFTER: u32 = 2;

/// An answer that says no.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = views::Error)]
pub(crate) struct ErrorBody {
    detail: ViewError,
}

/// Why not.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = views::ErrorDetail)]
pub(crate) struct ViewError {
    #[serde(skip)]
    status: StatusCode,
    /// For programs.
    code: &'static str,
    /// For people.
    message: String,
    #[serde(skip)]
    retry_after: Option<u32>,
}

impl ViewError {
    fn new(status: StatusCode, code: &'static str, message: String) -> Self {
        let retry_after = (status == StatusCode::SERVICE_UNAVAILABLE).then_some(RETRY_AFTER);
        Self { status, code, message, retry_after }
    }

    pub(crate) fn invalid(code: &'static str, message: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub(crate) fn method() -> Self {
        let message = "this path does not take that method".to_owned();
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message)
    }

    pub(crate) fn token() -> Self {
        let message = "the stream token is not valid for this turn, or has expired; ask for another one".to_owned();
        Self::new(StatusCode::UNAUTHORIZED, "AUTH_TOKEN_INVALID", message)
    }

    pub(crate) fn cursor(text: &str, error: &dyn std::fmt::Display) -> Self {
        let shown: String = text.chars().take(64).collect();
        Self::invalid("CURSOR_INVALID", format!("{shown:?} cannot be resumed from: {error}"))
    }
}

impl From<AuthError> for ViewError {
    fn from(error: AuthError) -> Self {
        let (status, code) = match error {
            AuthError::TooMany { retry_after, .. } => {
                let told = Self::new(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED", error.to_string());
                return Self { retry_after: Some(retry_seconds(retry_after)), ..told };
            }
            AuthError::Missing => (StatusCode::UNAUTHORIZED, "AUTH_HEADER_MISSING"),
            AuthError::Invalid | AuthError::Expired | AuthError::Revoked => {
                (StatusCode::UNAUTHORIZED, "AUTH_TOKEN_INVALID")
            }
            AuthError::Scope { .. } | AuthError::Host => (StatusCode::FORBIDDEN, "AUTH_PERMISSION_DENIED"),
        };
        Self::new(status, code, error.to_string())
    }
}

impl From<OpenError> for ViewError {
    fn from(error: OpenError) -> Self {
        let (status, code) = match error {
            OpenError::NotFound => (StatusCode::NOT_FOUND, "MESSAGE_NOT_FOUND"),
            OpenError::Cursor { .. } | OpenError::Part { .. } => (StatusCode::BAD_REQUEST, "CURSOR_INVALID"),
            OpenError::Store(_) | OpenError::Read(_) => (StatusCode::SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE"),
        };
        Self::new(status, code, error.to_string())
    }
}

impl IntoResponse for ViewError {
    fn into_response(self) -> Response {
        let (status, retry_after) = (self.status, self.retry_after);
        let mut response = (status, Json(ErrorBody { detail: self })).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// All of them, for the document.
pub(crate) struct Refused;

impl utoipa::IntoResponses for Refused {
    fn responses() -> document::Answers {
        let cursor = |text: &str| {
            text.parse::<Cursor>().map_or_else(|error| ViewError::cursor(text, &error), |_| ViewError::method())
        };
        let too_many = AuthError::TooMany { whose: Whose::Key, limit: 10, retry_after: Duration::from_millis(100) };
        let trouble = "the store is unavailable: disk full".to_owned();
        let all: [(&str, ViewError); 8] = [
            (
                "The view is not known",
                ViewError::invalid("VIEW_UNKNOWN", "as=\"x\" is not a view; there are: native".to_owned()),
            ),
            ("The cursor is none", cursor("x")),
            ("No key was sent, and no token", AuthError::Missing.into()),
            ("The key or the token is not valid", ViewError::token()),
            ("The key does not allow this", AuthError::Scope { needed: Scope::Read }.into()),
            ("There is no such message", OpenError::NotFound.into()),
            ("The key or its tenant is at a limit", too_many.into()),
            ("The store is in trouble", ViewError::new(StatusCode::SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE", trouble)),
        ];
        document::errors::<ErrorBody>(all.map(|(when, error)| {
            // A value of strings cannot fail to be written.
            (error.status.as_u16(), when, serde_json::to_value(ErrorBody { detail: error }).unwrap_or_default())
        }))
    }
}
