//! Errors, as the protocol tells them: a status and `{"error": "<what is wrong and what to do>"}`.

use std::time::Duration;

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use everturn_core::{SessionId, submission::Refused};
use everturn_engine::{DeleteError, ReadError, SubmitError, UpdateError};
use everturn_http::{AuthError, BodyError, KeyError, retry_seconds};
use everturn_store::StoreError;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

/// An answer that says no.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    message: String,
    retry_after: Option<u32>,
}

/// How long clients should wait before they try a busy or troubled server again.
const RETRY_AFTER: u32 = 2;

/// Longest message, in bytes: it may quote what a client sent. The ids of all calls that a turn can wait for fit.
const MAX_MESSAGE: usize = 4096;

impl ApiError {
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MAX_MESSAGE {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE));
            message.push('…');
        }
        Self { status, message, retry_after: None }
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self { retry_after: Some(RETRY_AFTER), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message) }
    }

    fn too_many(message: String, wait: Duration) -> Self {
        Self { retry_after: Some(retry_seconds(wait)), ..Self::new(StatusCode::TOO_MANY_REQUESTS, message) }
    }

    pub(crate) fn no_session(session: &str) -> Self {
        let shown: String = session.chars().take(128).collect();
        Self::new(StatusCode::NOT_FOUND, format!("there is no session {shown:?}; GET /sessions lists yours"))
    }

    /// How an error met while submitting to a session is told.
    pub(crate) fn submit(error: SubmitError, session: Option<&SessionId>) -> Self {
        match error {
            SubmitError::NotFound => Self::no_session(session.map_or("", SessionId::as_str)),
            SubmitError::Refused(refused) => {
                let status = match refused {
                    Refused::Busy | Refused::AlreadyAnswered(_) => StatusCode::CONFLICT,
                    Refused::Empty
                    | Refused::UnknownCall(_)
                    | Refused::AnsweredTwice(_)
                    | Refused::ResultForServerTool { .. }
                    | Refused::PermissionForClientTool { .. }
                    | Refused::AnswerForTimer { .. }
                    | Refused::Missing(_) => StatusCode::BAD_REQUEST,
                };
                Self::new(status, refused.to_string())
            }
            SubmitError::Update(UpdateError::Seal(_)) => Self::internal(&error),
            SubmitError::KeyReused { .. }
            | SubmitError::QueueFull { .. }
            | SubmitError::TenantQueueFull { .. }
            | SubmitError::FormClosed { .. }
            | SubmitError::Exists { .. }
            | SubmitError::Deleted { .. }
            | SubmitError::RepeatedGone { .. }
            | SubmitError::TooManyPermissions { .. } => Self::new(StatusCode::CONFLICT, error.to_string()),
            SubmitError::UnknownAgent { .. }
            | SubmitError::Overlay { .. }
            | SubmitError::Update(_)
            | SubmitError::FormInvalid { .. }
            | SubmitError::UnknownDocument { .. } => Self::bad_request(error.to_string()),
            SubmitError::Quota(quota) if quota.is_storage() => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, quota.to_string())
            }
            SubmitError::Quota(quota) => Self::too_many(quota.to_string(), quota.retry_after()),
            SubmitError::Overloaded { .. } | SubmitError::ShuttingDown => Self::unavailable(error.to_string()),
            SubmitError::Store(error) => error.into(),
            SubmitError::Read(error) => error.into(),
            SubmitError::Rejected(_) | SubmitError::Stop(_) | SubmitError::Crashed => Self::internal(&error),
        }
    }

    /// How an error met while deleting a session is told.
    pub(crate) fn delete(error: DeleteError, session: &SessionId) -> Self {
        match error {
            DeleteError::NotFound => Self::no_session(session.as_str()),
            DeleteError::KeyReused { .. } => Self::new(StatusCode::CONFLICT, error.to_string()),
            DeleteError::Store(error) => error.into(),
        }
    }

    fn internal(error: &dyn std::error::Error) -> Self {
        tracing::error!(%error, "a request met a fault");
        let message = "the server met a fault; its log has the details under this answer's X-Request-Id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::Closed => {
                tracing::warn!(%error, "the store cannot serve a request");
                Self::unavailable(format!("{error}; nothing was changed, try again later"))
            }
            StoreError::Corrupt(_) => Self::internal(&error),
        }
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Store(error) => error.into(),
            ReadError::Corrupt(_) => Self::internal(&error),
            ReadError::Memory(error) => Self::unavailable(error.to_string()),
        }
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        let status = match error {
            AuthError::TooMany { retry_after, .. } => return Self::too_many(error.to_string(), retry_after),
            AuthError::Missing | AuthError::Invalid | AuthError::Expired | AuthError::Revoked => {
                StatusCode::UNAUTHORIZED
            }
            AuthError::Scope { .. } | AuthError::Host => StatusCode::FORBIDDEN,
        };
        Self::new(status, error.to_string())
    }
}

impl From<KeyError> for ApiError {
    fn from(error: KeyError) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        let status = match error {
            BodyError::NotJson(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            BodyError::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::NoMemory(_) => return Self::unavailable(error.to_string()),
            BodyError::TooSlow => StatusCode::REQUEST_TIMEOUT,
            BodyError::TooDeep { .. } | BodyError::Malformed(_) | BodyError::Cut => StatusCode::BAD_REQUEST,
        };
        Self::new(status, error.to_string())
    }
}

/// What is wrong and what to do.
#[derive(Serialize, ToSchema)]
#[schema(as = aap::Error)]
pub(crate) struct ErrorOut {
    /// In words.
    error: String,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(ErrorOut { error: self.message })).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}
