//! Errors, as OpenAI tells them: a status and `{"error":{"message","type","param","code"}}`.

use std::time::Duration;

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use everturn_core::{SessionId, submission::Refused};
use everturn_engine::{ReadError, SubmitError, UpdateError};
use everturn_http::{AuthError, BodyError, KeyError, retry_seconds};
use everturn_store::StoreError;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::waiting::WaitingOut;

/// Tells the SDKs whether to send a request again by themselves. Without it they do after 408, 409, 429 and 5xx.
pub(crate) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
/// How long clients should wait before they try a busy or troubled server again.
const RETRY_AFTER: u32 = 2;
/// The SDKs do not wait longer than this, they come sooner instead.
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// Longest message, in bytes: it may quote what a client sent.
const MAX_MESSAGE: usize = 4096;

/// `error` in the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ErrorOut {
    pub(crate) message: String,
    pub(crate) r#type: &'static str,
    pub(crate) param: Option<String>,
    pub(crate) code: Option<&'static str>,
    /// What the turn waits for, if that is the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waiting: Option<Box<WaitingOut>>,
}

/// The whole body.
#[derive(Serialize)]
pub(crate) struct ErrorBody<'a> {
    pub(crate) error: &'a ErrorOut,
}

/// The type of an error that must not be sent again, in a stream: `@ai-sdk/openai` begins a stream anew whose first output is
/// an error of another type.
const FINAL_IN_STREAM: &str = "invalid_request_error";

/// An answer that says no.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) error: ErrorOut,
    retry_after: Option<u32>,
    /// Whether the SDKs may send it again by themselves.
    may_retry: bool,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: Option<&'static str>, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MAX_MESSAGE {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE));
            message.push('…');
        }
        let error = ErrorOut { message, r#type: kind(status), param: None, code, waiting: None };
        Self { status, error, retry_after: None, may_retry: true }
    }

    /// Something in the request cannot be; `param` is where.
    pub(crate) fn invalid(param: impl Into<String>, message: impl std::fmt::Display) -> Self {
        let param = param.into();
        let mut error = Self::new(StatusCode::BAD_REQUEST, Some("invalid_value"), format!("{param}: {message}"));
        error.error.param = Some(param);
        error
    }

    /// Something that OpenAI knows and this server does not do.
    pub(crate) fn unsupported(param: &str, message: impl std::fmt::Display) -> Self {
        let mut error = Self::invalid(param, message);
        error.error.code = Some("unsupported_parameter");
        error
    }

    /// As it is, but under this code.
    pub(crate) fn with_code(mut self, code: &'static str) -> Self {
        self.error.code = Some(code);
        self
    }

    /// Something in the request that names what is not there, or cannot be at the moment.
    pub(crate) fn about(mut self, param: &str) -> Self {
        self.error.param = Some(param.to_owned());
        self
    }

    /// Not to be sent again: the answer would be the same, or there would be two turns.
    pub(crate) fn for_good(self) -> Self {
        Self { may_retry: false, ..self }
    }

    /// As it is told within a stream.
    pub(crate) fn in_stream(mut self) -> ErrorOut {
        if !self.may_retry {
            self.error.r#type = FINAL_IN_STREAM;
        }
        self.error
    }

    /// Says when another request may fare better.
    pub(crate) fn after_a_while(self) -> Self {
        Self { retry_after: Some(RETRY_AFTER), ..self }
    }

    /// Worth another try after a while.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, Some("service_unavailable"), message).after_a_while()
    }

    fn too_many(message: String, wait: Duration) -> Self {
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, Some("rate_limit_exceeded"), message);
        Self { retry_after: Some(retry_seconds(wait)), may_retry: wait <= LONGEST_RETRY, ..error }
    }

    pub(crate) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, Some(code), message)
    }

    pub(crate) fn no_session(session: &str) -> Self {
        let shown: String = session.chars().take(128).collect();
        let message = format!("there is no session {shown:?}; leave session_id out to begin a new one");
        Self::new(StatusCode::NOT_FOUND, Some("session_not_found"), message).about("session_id")
    }

    /// How an error met while submitting is told.
    pub(crate) fn submit(error: SubmitError, session: Option<&SessionId>) -> Self {
        match error {
            SubmitError::NotFound => Self::no_session(session.map_or("", SessionId::as_str)),
            SubmitError::Quota(exceeded) if exceeded.is_storage() => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, Some("storage_quota_exceeded"), exceeded.to_string())
                    .for_good()
            }
            SubmitError::Quota(exceeded) => Self::too_many(exceeded.to_string(), exceeded.retry_after()),
            SubmitError::Refused(refused) => match refused {
                // Worth another try: the turn will end.
                Refused::Busy => Self::conflict("session_busy", refused.to_string()),
                Refused::AlreadyAnswered(_) => {
                    Self::conflict("tool_call_answered", refused.to_string()).about("messages").for_good()
                }
                Refused::Empty
                | Refused::UnknownCall(_)
                | Refused::AnsweredTwice(_)
                | Refused::ResultForServerTool { .. }
                | Refused::PermissionForClientTool { .. }
                | Refused::AnswerForTimer { .. }
                | Refused::Missing(_) => Self::invalid("messages", refused),
            },
            SubmitError::Update(UpdateError::Seal(_)) => Self::internal(&error),
            SubmitError::Update(UpdateError::OutputSchema(error)) => {
                Self::invalid("response_format.json_schema.schema", error)
            }
            SubmitError::Update(update) => Self::invalid("tools", update),
            SubmitError::KeyReused { .. } => Self::conflict("idempotency_key_reused", error.to_string()).for_good(),
            SubmitError::QueueFull { .. } | SubmitError::TenantQueueFull { .. } => {
                Self::conflict("session_busy", error.to_string())
            }
            SubmitError::FormClosed { .. }
            | SubmitError::Exists { .. }
            | SubmitError::Deleted { .. }
            | SubmitError::RepeatedGone { .. }
            | SubmitError::TooManyPermissions { .. } => Self::conflict("conflict", error.to_string()).for_good(),
            SubmitError::UnknownAgent { .. } => Self::invalid("model", error).with_code("model_not_found"),
            SubmitError::Overlay { .. } | SubmitError::FormInvalid { .. } | SubmitError::UnknownDocument { .. } => {
                Self::new(StatusCode::BAD_REQUEST, Some("invalid_value"), error.to_string())
            }
            SubmitError::Overloaded { .. } | SubmitError::ShuttingDown => Self::unavailable(error.to_string()),
            SubmitError::Store(error) => error.into(),
            SubmitError::Read(error) => error.into(),
            SubmitError::Rejected(_) | SubmitError::Stop(_) | SubmitError::Crashed => Self::internal(&error),
        }
    }

    /// A fault of ours, which the log tells about.
    pub(crate) fn internal(error: &dyn std::error::Error) -> Self {
        tracing::error!(%error, "a request met a fault");
        let message = "the server met a fault; its log has the details under this answer's X-Request-Id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, Some("internal_error"), message)
    }
}

/// OpenAI's word for an error of this status.
pub(crate) fn kind(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::CONFLICT => "conflict_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request_error",
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::Closed => {
                tracing::warn!(%error, "the store cannot serve a request");
                Self::unavailable(format!("{error}; try again later"))
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
        let message = error.to_string();
        match error {
            AuthError::TooMany { retry_after, .. } => Self::too_many(message, retry_after),
            AuthError::Missing | AuthError::Invalid | AuthError::Expired | AuthError::Revoked => {
                Self::new(StatusCode::UNAUTHORIZED, Some("invalid_api_key"), message)
            }
            AuthError::Scope { .. } | AuthError::Host => {
                Self::new(StatusCode::FORBIDDEN, Some("permission_denied"), message)
            }
        }
    }
}

impl From<KeyError> for ApiError {
    fn from(error: KeyError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Some("invalid_value"), error.to_string()).about("Idempotency-Key")
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        let (status, code) = match error {
            BodyError::NotJson(_) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type"),
            BodyError::TooLong { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "request_too_large"),
            BodyError::NoMemory(_) => return Self::unavailable(error.to_string()),
            BodyError::TooSlow => (StatusCode::REQUEST_TIMEOUT, "request_timeout"),
            BodyError::TooDeep { .. } | BodyError::Malformed(_) | BodyError::Cut => {
                (StatusCode::BAD_REQUEST, "invalid_value")
            }
        };
        let message = error.to_string();
        let place = message.strip_prefix("the body is not valid at ").and_then(|rest| rest.split_once(": "));
        let param = place.map(|(place, _)| place.chars().take(128).collect());
        let mut error = Self::new(status, Some(code), message);
        error.error.param = param;
        error
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(ErrorBody { error: &self.error })).into_response();
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if !self.may_retry {
            headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        response
    }
}
