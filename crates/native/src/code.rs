//! The codes of errors. Clients act on them, so each keeps its name and its status.

use http::StatusCode;

/// What kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    AuthHeaderMissing,
    AuthTokenInvalid,
    AuthPermissionDenied,
    NotFound,
    MethodNotAllowed,
    SessionNotFound,
    MessageNotFound,
    AgentNotFound,
    DocumentNotFound,
    FormNotFound,
    ArtifactNotFound,
    PermissionNotFound,
    SessionBusy,
    SessionQueueFull,
    FormClosed,
    IdempotencyKeyReused,
    AgentExists,
    Conflict,
    BodyTooLarge,
    BodyTooSlow,
    BodyIncomplete,
    DocumentSizeExceeded,
    MediaTypeUnsupported,
    DocumentFormatUnsupported,
    ValidationFailed,
    FormAnswerInvalid,
    DocumentPasswordProtected,
    DocumentUnreadable,
    AgentReadOnly,
    CursorInvalid,
    StoreUnavailable,
    Overloaded,
    ShuttingDown,
    Internal,
}

impl Code {
    /// The code as clients see it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::AuthHeaderMissing => "AUTH_HEADER_MISSING",
            Self::AuthTokenInvalid => "AUTH_TOKEN_INVALID",
            Self::AuthPermissionDenied => "AUTH_PERMISSION_DENIED",
            Self::NotFound => "NOT_FOUND",
            Self::MethodNotAllowed => "METHOD_NOT_ALLOWED",
            Self::SessionNotFound => "SESSION_NOT_FOUND",
            Self::MessageNotFound => "MESSAGE_NOT_FOUND",
            Self::AgentNotFound => "AGENT_NOT_FOUND",
            Self::DocumentNotFound => "DOCUMENT_NOT_FOUND",
            Self::FormNotFound => "FORM_NOT_FOUND",
            Self::ArtifactNotFound => "ARTIFACT_NOT_FOUND",
            Self::PermissionNotFound => "PERMISSION_NOT_FOUND",
            Self::SessionBusy => "SESSION_BUSY",
            Self::SessionQueueFull => "SESSION_QUEUE_FULL",
            Self::FormClosed => "FORM_CLOSED",
            Self::IdempotencyKeyReused => "IDEMPOTENCY_KEY_REUSED",
            Self::AgentExists => "AGENT_EXISTS",
            Self::Conflict => "CONFLICT",
            Self::BodyTooLarge => "BODY_TOO_LARGE",
            Self::BodyTooSlow => "BODY_TOO_SLOW",
            Self::BodyIncomplete => "BODY_INCOMPLETE",
            Self::DocumentSizeExceeded => "DOCUMENT_SIZE_EXCEEDED",
            Self::MediaTypeUnsupported => "MEDIA_TYPE_UNSUPPORTED",
            Self::DocumentFormatUnsupported => "DOCUMENT_FORMAT_UNSUPPORTED",
            Self::ValidationFailed => "VALIDATION_FAILED",
            Self::FormAnswerInvalid => "FORM_ANSWER_INVALID",
            Self::DocumentPasswordProtected => "DOCUMENT_PASSWORD_PROTECTED",
            Self::DocumentUnreadable => "DOCUMENT_UNREADABLE",
            Self::AgentReadOnly => "AGENT_READ_ONLY",
            Self::CursorInvalid => "CURSOR_INVALID",
            Self::StoreUnavailable => "STORE_UNAVAILABLE",
            Self::Overloaded => "OVERLOADED",
            Self::ShuttingDown => "SHUTTING_DOWN",
            Self::Internal => "INTERNAL",
        }
    }

    /// The status that goes with it.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::AgentReadOnly | Self::CursorInvalid | Self::BodyIncomplete => StatusCode::BAD_REQUEST,
            Self::AuthHeaderMissing | Self::AuthTokenInvalid => StatusCode::UNAUTHORIZED,
            Self::AuthPermissionDenied => StatusCode::FORBIDDEN,
            Self::NotFound
            | Self::SessionNotFound
            | Self::MessageNotFound
            | Self::AgentNotFound
            | Self::DocumentNotFound
            | Self::FormNotFound
            | Self::ArtifactNotFound
            | Self::PermissionNotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::SessionBusy
            | Self::SessionQueueFull
            | Self::FormClosed
            | Self::IdempotencyKeyReused
            | Self::AgentExists
            | Self::Conflict => StatusCode::CONFLICT,
            Self::BodyTooLarge | Self::DocumentSizeExceeded => StatusCode::PAYLOAD_TOO_LARGE,
            Self::MediaTypeUnsupported | Self::DocumentFormatUnsupported => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::ValidationFailed
            | Self::FormAnswerInvalid
            | Self::DocumentPasswordProtected
            | Self::DocumentUnreadable => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::StoreUnavailable | Self::Overloaded | Self::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}
