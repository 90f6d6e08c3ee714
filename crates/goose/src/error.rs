//! Errors, as the protocol tells them: a status and `{"message": "<what is wrong and what to do>"}`.

use std::time::Duration;

use axum::{
    Json,
    extract::rejection::QueryRejection,
    response::{IntoResponse, Response},
};
use everturn_core::{SessionId, submission::Refused};
use everturn_engine::{CutError, DeleteError, OpenError, ReadError, StopError, SubmitError, UpdateError};
use everturn_http::{AuthError, BodyError, KeyError, retry_seconds};
use everturn_recipes::{FindError, FolderError, RecipeError, RenderError};
use everturn_store::StoreError;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::wire::FieldError;

/// How long clients should wait before they try a busy or troubled server again, in seconds.
const RETRY_AFTER: u32 = 2;

/// Longest message, in bytes: it may quote what a client sent.
const MAX_MESSAGE: usize = 4096;

/// An answer that says no.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    status: StatusCode,
    message: String,
    /// When to try again, in seconds.
    retry_after: Option<u32>,
    /// Whether a turn that runs in the session is the reason.
    is_busy: bool,
}

/// What an answer that says no tells.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = goose::Error)]
pub(crate) struct ErrorBody<'a> {
    /// What is wrong, and what to do.
    #[schema(min_length = 1)]
    message: &'a str,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MAX_MESSAGE {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE));
            message.push('…');
        }
        let retry_after = (status == StatusCode::SERVICE_UNAVAILABLE).then_some(RETRY_AFTER);
        Self { status, message, retry_after, is_busy: false }
    }

    /// A quota is used up.
    fn too_many(message: String, wait: Duration) -> Self {
        Self { retry_after: Some(retry_seconds(wait)), ..Self::new(StatusCode::TOO_MANY_REQUESTS, message) }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Whether a turn that runs in the session is the reason.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy
    }

    pub(crate) fn body(&self) -> ErrorBody<'_> {
        ErrorBody { message: &self.message }
    }

    /// The request makes no sense.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    pub(crate) fn no_session(session: &str) -> Self {
        let shown: String = session.chars().take(128).collect();
        Self::not_found(format!("Session {shown} not found; GET /goose/sessions lists yours"))
    }

    /// How an error met while submitting to a session is told.
    pub(crate) fn submit(error: SubmitError, session: Option<&SessionId>) -> Self {
        let text = error.to_string();
        match error {
            SubmitError::NotFound => Self::no_session(session.map_or("", SessionId::as_str)),
            SubmitError::Deleted { .. } | SubmitError::RepeatedGone { .. } => Self::new(StatusCode::GONE, text),
            SubmitError::Refused(Refused::Busy) => {
                let message = "Session already has an active request. Cancel it first, or wait until it ends.";
                Self { is_busy: true, ..Self::conflict(message) }
            }
            // Messages are never empty here: it was an answer, and nothing waits for it.
            SubmitError::Refused(Refused::Empty) => Self::conflict("this session waits for no answer"),
            SubmitError::Refused(
                Refused::AlreadyAnswered(_)
                | Refused::UnknownCall(_)
                | Refused::AnsweredTwice(_)
                | Refused::ResultForServerTool { .. }
                | Refused::AnswerForTimer { .. }
                | Refused::PermissionForClientTool { .. }
                | Refused::Missing(_),
            )
            | SubmitError::Exists { .. }
            | SubmitError::TooManyPermissions { .. }
            | SubmitError::QueueFull { .. }
            | SubmitError::TenantQueueFull { .. }
            | SubmitError::FormClosed { .. } => Self::conflict(text),
            SubmitError::KeyReused { key } => Self::key_reused(&key),
            SubmitError::Update(UpdateError::Seal(error)) => Self::internal(&error),
            SubmitError::Overlay { .. }
            | SubmitError::UnknownAgent { .. }
            | SubmitError::Update(_)
            | SubmitError::FormInvalid { .. }
            | SubmitError::UnknownDocument { .. } => Self::invalid(text),
            SubmitError::Quota(quota) if quota.is_storage() => Self::new(StatusCode::INSUFFICIENT_STORAGE, text),
            SubmitError::Quota(quota) => Self::too_many(text, quota.retry_after()),
            SubmitError::Overloaded { .. } | SubmitError::ShuttingDown => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
            }
            SubmitError::Stop(error) => (*error).into(),
            SubmitError::Store(error) => error.into(),
            SubmitError::Read(error) => error.into(),
            SubmitError::Rejected(_) | SubmitError::Crashed => Self::internal(&error),
        }
    }

    fn key_reused(key: &str) -> Self {
        // The keys that we make end with the client's own name for its request.
        let id = key.strip_prefix("goose:").map(|key| key.split_once(':').map_or(key, |(_, id)| id));
        Self::conflict(match id {
            Some(id) => format!("the id {id:?} was used for another request in this session; send a new one, or none"),
            None => SubmitError::KeyReused { key: key.to_owned() }.to_string(),
        })
    }

    /// How an error met while cutting a conversation is told.
    pub(crate) fn cut(error: CutError, session: &SessionId) -> Self {
        let text = error.to_string();
        match error {
            CutError::NotFound => Self::no_session(session.as_str()),
            CutError::NoMessage { .. } => Self::not_found(text),
            CutError::Busy | CutError::KeyReused { .. } => Self::conflict(text),
            CutError::Quota(_) => Self::new(StatusCode::INSUFFICIENT_STORAGE, text),
            CutError::Stop(error) => error.into(),
            CutError::Store(error) => error.into(),
            CutError::Read(error) => error.into(),
            CutError::Rejected(_) => Self::internal(&error),
        }
    }

    /// How an error met while deleting a session is told.
    pub(crate) fn delete(error: DeleteError, session: &SessionId) -> Self {
        match error {
            DeleteError::NotFound => Self::no_session(session.as_str()),
            DeleteError::KeyReused { .. } => Self::conflict(error.to_string()),
            DeleteError::Store(error) => error.into(),
        }
    }

    /// How an error met while opening a stream is told.
    pub(crate) fn open(error: OpenError, session: &SessionId) -> Self {
        match error {
            OpenError::NotFound => Self::no_session(session.as_str()),
            OpenError::Cursor { .. } | OpenError::Part { .. } => Self::invalid(error.to_string()),
            OpenError::Store(error) => error.into(),
            OpenError::Read(error) => error.into(),
        }
    }

    pub(crate) fn internal(error: &dyn std::error::Error) -> Self {
        tracing::error!(%error, "a request met a fault");
        let message = "the server met a fault; its log has the details under this answer's X-Request-Id";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<FieldError> for ApiError {
    fn from(error: FieldError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<StopError> for ApiError {
    fn from(error: StopError) -> Self {
        match error {
            StopError::Busy => Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            StopError::Store(error) => error.into(),
            StopError::Read(error) => error.into(),
            StopError::Rejected(_) | StopError::Crashed => Self::internal(&error),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::Closed => {
                tracing::warn!(%error, "the store cannot serve a request");
                let message = format!("{error}; nothing was changed, try again later");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
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
            ReadError::Memory(error) => Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
        }
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Missing => {
                let message = "this server wants a key: send the header Authorization: Bearer <key>, or X-Secret-Key";
                Self::new(StatusCode::UNAUTHORIZED, message)
            }
            AuthError::TooMany { retry_after, .. } => Self::too_many(error.to_string(), retry_after),
            AuthError::Invalid | AuthError::Expired | AuthError::Revoked => {
                Self::new(StatusCode::UNAUTHORIZED, error.to_string())
            }
            AuthError::Scope { .. } | AuthError::Host => Self::new(StatusCode::FORBIDDEN, error.to_string()),
        }
    }
}

impl From<KeyError> for ApiError {
    fn from(error: KeyError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error.to_string())
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        let status = match error {
            BodyError::NotJson(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            BodyError::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            BodyError::NoMemory(_) => StatusCode::SERVICE_UNAVAILABLE,
            BodyError::TooSlow => StatusCode::REQUEST_TIMEOUT,
            BodyError::TooDeep { .. } | BodyError::Malformed(_) | BodyError::Cut => StatusCode::BAD_REQUEST,
        };
        Self::new(status, error.to_string())
    }
}

impl From<QueryRejection> for ApiError {
    fn from(error: QueryRejection) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error.body_text())
    }
}

impl From<FindError> for ApiError {
    fn from(error: FindError) -> Self {
        match error {
            FindError::InvalidName { .. } | FindError::UnknownRecipe { .. } | FindError::UnknownVersion { .. } => {
                Self::not_found(error.to_string())
            }
            FindError::Broken { .. } => Self::invalid(error.to_string()),
            FindError::Folder(error) => error.into(),
        }
    }
}

impl From<FolderError> for ApiError {
    fn from(error: FolderError) -> Self {
        tracing::warn!(%error, "the recipes cannot be looked at");
        let message = "the folder of recipes cannot be read at the moment; the server's log says why";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }
}

impl From<RecipeError> for ApiError {
    fn from(error: RecipeError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<RenderError> for ApiError {
    fn from(error: RenderError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use everturn_engine::{QuotaExceeded, Whose};

    use super::*;

    fn told(error: ApiError) -> (u16, Option<String>, String) {
        let message = error.message.clone();
        let response = error.into_response();
        let wait = response.headers().get(header::RETRY_AFTER).map(|wait| wait.to_str().unwrap().to_owned());
        (response.status().as_u16(), wait, message)
    }

    #[test]
    fn who_is_at_a_limit_is_told_which_and_how_long() {
        let wait = Duration::from_millis(1200);
        let (status, after, message) =
            told(AuthError::TooMany { whose: Whose::Key, limit: 10, retry_after: wait }.into());
        assert_eq!((status, after.as_deref()), (429, Some("2")));
        assert!(message.contains("10 requests a second"), "{message}");

        let turns = QuotaExceeded::Turns { whose: Whose::Tenant, limit: 3 };
        let (status, after, message) = told(ApiError::submit(turns.into(), None));
        assert_eq!((status, after.as_deref()), (429, Some("1")));
        assert!(message.contains("this tenant may have 3 turns"), "{message}");

        let retry_after = Duration::from_secs(7200);
        let tokens = QuotaExceeded::Tokens { whose: Whose::Key, limit: 1000, used: 1001, retry_after };
        let (status, after, message) = told(ApiError::submit(tokens.into(), None));
        assert_eq!((status, after.as_deref()), (429, Some("7200")));
        assert!(message.contains("1000 tokens a day"), "{message}");
    }

    #[test]
    fn only_those_who_may_come_back_are_told_when() {
        assert_eq!(told(ApiError::submit(SubmitError::ShuttingDown, None)).1.as_deref(), Some("2"));
        assert_eq!(told(ApiError::invalid("x")).1, None);
    }
}
