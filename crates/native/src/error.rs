//! Errors, as the API tells them: a status and `{"detail":{"code":…,"message":…,"hint":…}}`. The one place that knows
//! which error of the engine is told how.

use std::time::Duration;

use axum::{
    Json,
    extract::{multipart::MultipartError, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use everturn_core::{FormId, SessionId, submission::Refused};
use everturn_documents::DocumentError;
use everturn_engine::{
    DeleteError, MemoryExhausted, ProfileError, QuotaExceeded, ReadError, StopError, SubmitError, UpdateError,
    UploadError,
};
use everturn_http::{AuthError, BodyError, KeyError, retry_seconds};
use everturn_store::StoreError;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::code::Code;
pub(crate) use crate::thing::Thing;

/// How long clients should wait before they try a busy or troubled server again, in seconds.
const RETRY_AFTER: u32 = 2;

/// Longest message, in bytes: it may quote what a client sent.
const MAX_MESSAGE: usize = 4096;

/// An answer that says no.
#[derive(Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = native::ErrorDetail)]
pub(crate) struct ApiError {
    code: Code,
    /// What is the matter, in words.
    message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    hint: Option<String>,
    /// What is wrong with an answer to a form, each with its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
    /// When to try again, in seconds.
    #[serde(skip)]
    retry_after: Option<u32>,
}

/// The body of such an answer.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = native::Error)]
pub(crate) struct ErrorBody {
    pub(crate) detail: ApiError,
}

impl ApiError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MAX_MESSAGE {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE));
            message.push('…');
        }
        Self { code, message, hint: None, problems: Vec::new(), retry_after: None }
    }

    /// Says when to try again.
    fn retry_after(self, wait: Duration) -> Self {
        Self { retry_after: Some(retry_seconds(wait)), ..self }
    }

    /// The status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        self.code.status()
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Something about the request is not as it must be.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::ValidationFailed, message)
    }

    /// The caller has no such thing.
    pub(crate) fn no(thing: Thing, id: &str) -> Self {
        let (code, noun, hint) = thing.told();
        let shown: String = id.chars().take(128).collect();
        Self::new(code, format!("there is no {noun} {shown:?}")).hint(hint)
    }

    /// How an error met while submitting to a session is told.
    pub(crate) fn submit(error: SubmitError, session: Option<&SessionId>) -> Self {
        let text = error.to_string();
        match error {
            SubmitError::NotFound => Self::no(Thing::Session, session.map_or("", SessionId::as_str)),
            SubmitError::UnknownAgent { .. } => Self::new(Code::AgentNotFound, text),
            SubmitError::Refused(refused) => Self::refused(&refused),
            SubmitError::Update(UpdateError::Seal(error)) => Self::internal(&error),
            SubmitError::Update(
                UpdateError::UnknownTool { .. }
                | UpdateError::ToolUnavailable { .. }
                | UpdateError::DuplicateTool(_)
                | UpdateError::NoClientTools(_)
                | UpdateError::TooManyClientTools { .. }
                | UpdateError::ToolName(_)
                | UpdateError::Schema { .. }
                | UpdateError::OutputSchema(_)
                | UpdateError::UnknownOption { .. }
                | UpdateError::NotAChoice { .. }
                | UpdateError::OptionTooLong { .. }
                | UpdateError::NotesTooLong { .. },
            ) => Self::invalid(text),
            SubmitError::Overlay { .. } => Self::invalid(text),
            SubmitError::Exists { .. }
            | SubmitError::Deleted { .. }
            | SubmitError::RepeatedGone { .. }
            | SubmitError::TooManyPermissions { .. } => Self::new(Code::Conflict, text),
            SubmitError::KeyReused { .. } => Self::new(Code::IdempotencyKeyReused, text),
            SubmitError::QueueFull { .. } | SubmitError::TenantQueueFull { .. } => {
                Self::new(Code::SessionQueueFull, text)
            }
            SubmitError::FormClosed { form } => Self::form_closed(&form),
            SubmitError::FormInvalid { problems, .. } => {
                let hint = "the form stays open; its payload.schema says what it asks for";
                Self { problems, ..Self::new(Code::FormAnswerInvalid, text).hint(hint) }
            }
            SubmitError::UnknownDocument { id } => Self::no(Thing::Document, &id),
            SubmitError::Stop(error) => (*error).into(),
            SubmitError::Quota(quota) => quota.into(),
            SubmitError::Overloaded { .. } => Self::new(Code::Overloaded, text),
            SubmitError::ShuttingDown => Self::new(Code::ShuttingDown, text),
            SubmitError::Store(error) => error.into(),
            SubmitError::Read(error) => error.into(),
            SubmitError::Rejected(_) | SubmitError::Crashed => Self::internal(&error),
        }
    }

    fn refused(refused: &Refused) -> Self {
        match refused {
            Refused::Busy => Self::new(Code::SessionBusy, refused.to_string())
                .hint("send on_busy \"enqueue\" to have it wait, or \"interrupt\" to end the turn under way"),
            // Messages are never empty here: it was an answer, and nothing waits for it.
            Refused::Empty => Self::new(Code::FormClosed, "this session waits for no form")
                .hint("to begin a turn, send a message instead of form_answer"),
            Refused::AlreadyAnswered(_) | Refused::UnknownCall(_) => Self::new(Code::FormClosed, refused.to_string()),
            Refused::AnsweredTwice(_)
            | Refused::ResultForServerTool { .. }
            | Refused::AnswerForTimer { .. }
            | Refused::PermissionForClientTool { .. }
            | Refused::Missing(_) => Self::new(Code::Conflict, refused.to_string()),
        }
    }

    fn form_closed(form: &FormId) -> Self {
        let message = format!(
            "the form {form} is not open in this session: it was answered before, has expired, or its turn was ended"
        );
        Self::new(Code::FormClosed, message).hint("GET /api/v1/forms?status=open lists those that are")
    }

    /// How an error met while deleting a session is told.
    pub(crate) fn delete(error: DeleteError, session: &SessionId) -> Self {
        let text = error.to_string();
        match error {
            DeleteError::NotFound => Self::no(Thing::Session, session.as_str()),
            DeleteError::KeyReused { .. } => Self::new(Code::IdempotencyKeyReused, text),
            DeleteError::Store(error) => error.into(),
        }
    }

    pub(crate) fn internal(error: &dyn std::error::Error) -> Self {
        tracing::error!(%error, "a request met a fault");
        let message = "the server met a fault; its log has the details under this answer's X-Request-Id";
        Self::new(Code::Internal, message)
    }
}

impl From<StopError> for ApiError {
    fn from(error: StopError) -> Self {
        let text = error.to_string();
        match error {
            StopError::Busy => Self::new(Code::Overloaded, text),
            StopError::Store(error) => error.into(),
            StopError::Read(error) => error.into(),
            StopError::Rejected(_) | StopError::Crashed => Self::internal(&error),
        }
    }
}

impl From<UploadError> for ApiError {
    fn from(error: UploadError) -> Self {
        let text = error.to_string();
        match error {
            UploadError::Document(error) => {
                let code = match error {
                    DocumentError::Unsupported { .. } => Code::DocumentFormatUnsupported,
                    DocumentError::TooLarge { .. } => Code::DocumentSizeExceeded,
                    DocumentError::PasswordProtected => Code::DocumentPasswordProtected,
                    DocumentError::Unreadable { .. } | DocumentError::Empty => Code::DocumentUnreadable,
                };
                Self::new(code, text)
            }
            UploadError::KeyReused { .. } => Self::new(Code::IdempotencyKeyReused, text),
            UploadError::Quota(quota) => quota.into(),
            UploadError::Gone => Self::new(Code::DocumentNotFound, text),
            UploadError::Store(error) => error.into(),
            UploadError::Busy | UploadError::NoReader => Self::new(Code::Overloaded, text),
            UploadError::Rejected(_) | UploadError::Crashed => Self::internal(&error),
        }
    }
}

impl From<ProfileError> for ApiError {
    fn from(error: ProfileError) -> Self {
        let text = error.to_string();
        match error {
            ProfileError::NotFound { id } => Self::no(Thing::Agent, &id),
            ProfileError::Exists { .. } => Self::new(Code::AgentExists, text),
            ProfileError::Configured { .. } => Self::new(Code::AgentReadOnly, text),
            ProfileError::Invalid { .. } => Self::invalid(text),
            ProfileError::KeyReused { .. } => Self::new(Code::IdempotencyKeyReused, text),
            ProfileError::Conflict { .. } => Self::new(Code::Conflict, text),
            ProfileError::Store(error) => error.into(),
            ProfileError::Rejected(_) => Self::internal(&error),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::Closed => {
                tracing::warn!(%error, "the store cannot serve a request");
                Self::new(Code::StoreUnavailable, format!("{error}; nothing was changed, try again later"))
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
            ReadError::Memory(error) => error.into(),
        }
    }
}

impl From<QuotaExceeded> for ApiError {
    fn from(quota: QuotaExceeded) -> Self {
        if quota.is_storage() {
            return Self::new(Code::StorageQuotaExceeded, quota.to_string());
        }
        Self::new(Code::QuotaExceeded, quota.to_string()).retry_after(quota.retry_after())
    }
}

impl From<MemoryExhausted> for ApiError {
    fn from(error: MemoryExhausted) -> Self {
        Self::new(Code::Overloaded, error.to_string())
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        let code = match error {
            AuthError::TooMany { retry_after, .. } => {
                return Self::new(Code::RateLimited, error.to_string()).retry_after(retry_after);
            }
            AuthError::Missing => Code::AuthHeaderMissing,
            AuthError::Invalid | AuthError::Expired | AuthError::Revoked => Code::AuthTokenInvalid,
            AuthError::Scope { .. } | AuthError::Host => Code::AuthPermissionDenied,
        };
        Self::new(code, error.to_string())
    }
}

impl From<KeyError> for ApiError {
    fn from(error: KeyError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        let code = match error {
            BodyError::NotJson(_) => Code::MediaTypeUnsupported,
            BodyError::TooLong { .. } => Code::BodyTooLarge,
            BodyError::NoMemory(_) => Code::Overloaded,
            BodyError::TooSlow => Code::BodyTooSlow,
            BodyError::TooDeep { .. } | BodyError::Malformed(_) => Code::ValidationFailed,
            BodyError::Cut => Code::BodyIncomplete,
        };
        Self::new(code, error.to_string())
    }
}

impl From<MultipartError> for ApiError {
    fn from(error: MultipartError) -> Self {
        match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                Self::new(Code::BodyTooLarge, "the body has much more in it than a file; send the field \"file\" alone")
            }
            _ => Self::invalid(format!("the body is not valid multipart/form-data: {}", error.body_text())),
        }
    }
}

impl From<QueryRejection> for ApiError {
    fn from(error: QueryRejection) -> Self {
        Self::invalid(error.body_text())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.code.status();
        let retry_after = self.retry_after.or((status == StatusCode::SERVICE_UNAVAILABLE).then_some(RETRY_AFTER));
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

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(error: ApiError, expected: Expect) {
        let status = error.code.status().as_u16();
        expected.assert_eq(&format!("{status} {}", serde_json::to_string(&error).unwrap()));
    }

    #[test]
    fn refusals_say_what_to_do() {
        let session: SessionId = "sess_1".parse().unwrap();
        let told = |error| ApiError::submit(error, Some(&session));
        check(
            told(SubmitError::NotFound),
            expect![[
                r#"404 {"code":"SESSION_NOT_FOUND","message":"there is no session \"sess_1\"","hint":"GET /api/v1/sessions lists yours"}"#
            ]],
        );
        check(
            told(Refused::Busy.into()),
            expect![[
                r#"409 {"code":"SESSION_BUSY","message":"a turn is running in this session; wait until it ends, then send this again","hint":"send on_busy \"enqueue\" to have it wait, or \"interrupt\" to end the turn under way"}"#
            ]],
        );
        check(
            told(Refused::Empty.into()),
            expect![[
                r#"409 {"code":"FORM_CLOSED","message":"this session waits for no form","hint":"to begin a turn, send a message instead of form_answer"}"#
            ]],
        );
        let problems = vec!["at /name: too short".to_owned(), "at the top: \"age\" is missing".to_owned()];
        check(
            told(SubmitError::FormInvalid { form: "form_1".parse().unwrap(), problems }),
            expect![[
                r#"422 {"code":"FORM_ANSWER_INVALID","message":"the answer does not fit the form form_1: at /name: too short; at the top: \"age\" is missing","hint":"the form stays open; its payload.schema says what it asks for","problems":["at /name: too short","at the top: \"age\" is missing"]}"#
            ]],
        );
        check(
            told(SubmitError::Stop(Box::new(StopError::Busy))),
            expect![[r#"503 {"code":"OVERLOADED","message":"the turn did not end in time; send this again"}"#]],
        );
        check(
            UploadError::Busy.into(),
            expect![[
                r#"503 {"code":"OVERLOADED","message":"too many documents are being read at the moment; try again later"}"#
            ]],
        );
        check(
            UploadError::NoReader.into(),
            expect![[
                r#"503 {"code":"OVERLOADED","message":"the document could not be read because no reader could be started; try again later"}"#
            ]],
        );
        check(
            StoreError::Unavailable("disk full".to_owned()).into(),
            expect![[
                r#"503 {"code":"STORE_UNAVAILABLE","message":"the store is unavailable: disk full; nothing was changed, try again later"}"#
            ]],
        );
    }

    #[test]
    fn faults_of_ours_are_not_told() {
        let hidden = "500 {\"code\":\"INTERNAL\",\"message\":\"the server met a fault; its log has the details under this answer's X-Request-Id\"}";
        for error in [
            ApiError::from(StoreError::Corrupt("secret".to_owned())),
            ApiError::submit(SubmitError::Crashed, None),
            ApiError::from(UploadError::Crashed),
        ] {
            assert_eq!(format!("{} {}", error.code.status().as_u16(), serde_json::to_string(&error).unwrap()), hidden);
        }
    }

    #[test]
    fn messages_are_bounded() {
        let error = ApiError::invalid("é".repeat(5000));
        assert!(error.message.len() <= MAX_MESSAGE + '…'.len_utf8() && error.message.ends_with('…'));
        let error = ApiError::no(Thing::Agent, &"x".repeat(5000));
        assert!(error.message.len() < 200);
    }
}
