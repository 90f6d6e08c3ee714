//! The codes of errors. Clients act on them, so each keeps its name and its status.

use std::borrow::Cow;

use everturn_http::document;
use http::StatusCode;
use serde::Serialize;
use serde_json::json;

/// Each code once: its name here, its name for clients, its status.
macro_rules! codes {
    ($($code:ident = $word:literal, $status:ident;)*) => {
        /// What kind of error.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub(crate) enum Code {
            $(#[serde(rename = $word)] $code,)*
        }

        impl Code {
            /// The status that goes with it.
            pub(crate) fn status(self) -> StatusCode {
                match self {
                    $(Self::$code => StatusCode::$status,)*
                }
            }
        }

        impl utoipa::PartialSchema for Code {
            fn schema() -> document::AnySchema {
                document::schema(json!({ "description": "For programs.", "type": "string", "enum": [$($word),*] }))
            }
        }
    };
}

impl utoipa::ToSchema for Code {
    fn name() -> Cow<'static, str> {
        "native.ErrorCode".into()
    }
}

codes! {
    AuthHeaderMissing = "AUTH_HEADER_MISSING", UNAUTHORIZED;
    AuthTokenInvalid = "AUTH_TOKEN_INVALID", UNAUTHORIZED;
    AuthPermissionDenied = "AUTH_PERMISSION_DENIED", FORBIDDEN;
    NotFound = "NOT_FOUND", NOT_FOUND;
    MethodNotAllowed = "METHOD_NOT_ALLOWED", METHOD_NOT_ALLOWED;
    SessionNotFound = "SESSION_NOT_FOUND", NOT_FOUND;
    MessageNotFound = "MESSAGE_NOT_FOUND", NOT_FOUND;
    AgentNotFound = "AGENT_NOT_FOUND", NOT_FOUND;
    DocumentNotFound = "DOCUMENT_NOT_FOUND", NOT_FOUND;
    FormNotFound = "FORM_NOT_FOUND", NOT_FOUND;
    ArtifactNotFound = "ARTIFACT_NOT_FOUND", NOT_FOUND;
    KeyNotFound = "KEY_NOT_FOUND", NOT_FOUND;
    PermissionNotFound = "PERMISSION_NOT_FOUND", NOT_FOUND;
    SessionBusy = "SESSION_BUSY", CONFLICT;
    SessionQueueFull = "SESSION_QUEUE_FULL", CONFLICT;
    FormClosed = "FORM_CLOSED", CONFLICT;
    IdempotencyKeyReused = "IDEMPOTENCY_KEY_REUSED", CONFLICT;
    AgentExists = "AGENT_EXISTS", CONFLICT;
    KeyMadeBefore = "KEY_MADE_BEFORE", CONFLICT;
    KeyLimitReached = "KEY_LIMIT_REACHED", CONFLICT;
    Conflict = "CONFLICT", CONFLICT;
    BodyTooLarge = "BODY_TOO_LARGE", PAYLOAD_TOO_LARGE;
    BodyTooSlow = "BODY_TOO_SLOW", REQUEST_TIMEOUT;
    BodyIncomplete = "BODY_INCOMPLETE", BAD_REQUEST;
    DocumentSizeExceeded = "DOCUMENT_SIZE_EXCEEDED", PAYLOAD_TOO_LARGE;
    MediaTypeUnsupported = "MEDIA_TYPE_UNSUPPORTED", UNSUPPORTED_MEDIA_TYPE;
    DocumentFormatUnsupported = "DOCUMENT_FORMAT_UNSUPPORTED", UNSUPPORTED_MEDIA_TYPE;
    ValidationFailed = "VALIDATION_FAILED", UNPROCESSABLE_ENTITY;
    FormAnswerInvalid = "FORM_ANSWER_INVALID", UNPROCESSABLE_ENTITY;
    DocumentPasswordProtected = "DOCUMENT_PASSWORD_PROTECTED", UNPROCESSABLE_ENTITY;
    DocumentUnreadable = "DOCUMENT_UNREADABLE", UNPROCESSABLE_ENTITY;
    AgentReadOnly = "AGENT_READ_ONLY", BAD_REQUEST;
    KeyReadOnly = "KEY_READ_ONLY", BAD_REQUEST;
    CursorInvalid = "CURSOR_INVALID", BAD_REQUEST;
    RateLimited = "RATE_LIMITED", TOO_MANY_REQUESTS;
    QuotaExceeded = "QUOTA_EXCEEDED", TOO_MANY_REQUESTS;
    StorageQuotaExceeded = "STORAGE_QUOTA_EXCEEDED", INSUFFICIENT_STORAGE;
    StoreUnavailable = "STORE_UNAVAILABLE", SERVICE_UNAVAILABLE;
    Overloaded = "OVERLOADED", SERVICE_UNAVAILABLE;
    ShuttingDown = "SHUTTING_DOWN", SERVICE_UNAVAILABLE;
    Internal = "INTERNAL", INTERNAL_SERVER_ERROR;
}
