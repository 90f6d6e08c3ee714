//! How the end of a turn is told.

use everturn_core::{CancelReason, FailureCode, Outcome, TurnEnded};
use http::StatusCode;

use crate::error::ApiError;

/// Why an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    Stop,
    Length,
    ToolCalls,
    ContentFilter,
}

impl Finish {
    /// OpenAI's word for it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
        }
    }
}

/// A turn's end as an answer's, or as an error. A turn that has reached its limit of tokens before a word was said has a
/// question that is too long, not an answer.
pub(crate) fn of(ended: &TurnEnded) -> Result<Finish, ApiError> {
    if ended.outcome == Outcome::MaxTokens && ended.response.is_empty() && ended.usage.output == 0 {
        let message = "the conversation, with the agent's instructions and tools, does not fit the model's context window; send \
                       less of it, or use a model with a larger window";
        return Err(ApiError::new(StatusCode::BAD_REQUEST, Some("context_length_exceeded"), message).for_good());
    }
    finish(&ended.outcome)
}

/// A turn's end as an answer's, or as an error. The engine has made its own attempts by then, and tools may have had their
/// effects, so that nobody is told to try again.
pub(crate) fn finish(outcome: &Outcome) -> Result<Finish, ApiError> {
    match outcome {
        Outcome::Completed => Ok(Finish::Stop),
        // As many steps as the request allows: what there is of the answer is cut off as well.
        Outcome::MaxTokens | Outcome::Failed { code: FailureCode::StepLimit, .. } => Ok(Finish::Length),
        Outcome::Refused => Ok(Finish::ContentFilter),
        Outcome::Failed { code, message, .. } => {
            let status = match code {
                FailureCode::LlmProviderUnavailable => StatusCode::SERVICE_UNAVAILABLE,
                FailureCode::LlmRequestTimeout => StatusCode::GATEWAY_TIMEOUT,
                FailureCode::LlmProviderError | FailureCode::LlmRequestRefused => StatusCode::BAD_GATEWAY,
                FailureCode::LlmRateLimited => StatusCode::TOO_MANY_REQUESTS,
                FailureCode::StorageQuota => StatusCode::INSUFFICIENT_STORAGE,
                FailureCode::StepLimit | FailureCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            };
            let error = ApiError::new(status, Some(code.as_str()), message).for_good();
            Err(match code {
                FailureCode::LlmProviderUnavailable | FailureCode::LlmRateLimited => error.after_a_while(),
                FailureCode::LlmRequestTimeout
                | FailureCode::LlmProviderError
                | FailureCode::LlmRequestRefused
                | FailureCode::StepLimit
                | FailureCode::StorageQuota
                | FailureCode::Internal => error,
            })
        }
        Outcome::Cancelled { reason } => {
            let (status, code, message) = match reason {
                CancelReason::UserStop => (StatusCode::CONFLICT, "turn_stopped", "the turn was stopped"),
                CancelReason::Timeout => {
                    (StatusCode::GATEWAY_TIMEOUT, "turn_timeout", "the turn ran longer than its agent's turns may")
                }
                CancelReason::Superseded => {
                    (StatusCode::CONFLICT, "turn_superseded", "a new message took the place of the turn")
                }
                CancelReason::SessionDeleted => {
                    (StatusCode::CONFLICT, "session_deleted", "the session was deleted while the turn was under way")
                }
            };
            Err(ApiError::new(status, Some(code), message).for_good())
        }
    }
}
