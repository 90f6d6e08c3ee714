//! An error of a request that no dialect has seen.

use axum::{
    Json,
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use serde::Serialize;
use serde_json::json;
use utoipa::{IntoResponses, ToSchema};

use crate::document::{Answers, errors};

/// An error in the words of every dialect, since nobody knows which one the client speaks.
#[derive(Serialize, ToSchema)]
#[schema(as = operations::Problem)]
pub(crate) struct Problem<'a> {
    /// What is wrong, and what to do.
    error: &'a str,
    /// The same.
    message: &'a str,
    detail: Detail<'a>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = operations::ProblemDetail)]
pub(crate) struct Detail<'a> {
    /// What kind of error, for programs.
    code: &'a str,
    /// What is wrong, and what to do.
    message: &'a str,
}

/// An error in the words of every dialect.
pub fn problem(status: StatusCode, code: &str, message: &str) -> Response {
    (status, Json(Problem { error: message, message, detail: Detail { code, message } })).into_response()
}

/// What public routes of a server without keys answer, for the API document.
#[derive(Debug)]
pub struct RefusedOpenly;

impl IntoResponses for RefusedOpenly {
    fn responses() -> Answers {
        let when = "The server runs without keys and was called by a foreign name, or by a web page of another origin";
        let message = "this server runs without keys and answers only to localhost, 127.0.0.1 and [::1]";
        let detail = json!({ "code": "HOST_REFUSED", "message": message });
        let example = json!({ "error": message, "message": message, "detail": detail });
        errors::<Problem<'_>>([(403, when, example)])
    }
}

/// What `/metrics` answers to callers without its key, for the API document.
pub(crate) struct NoMetricsKey;

impl IntoResponses for NoMetricsKey {
    fn responses() -> Answers {
        let message = "/metrics of this server wants a key of its own";
        let detail = json!({ "code": "AUTH_TOKEN_INVALID", "message": message });
        let example = json!({ "error": message, "message": message, "detail": detail });
        errors::<Problem<'_>>([(401, "`[metrics] key` is configured, and the request does not have it", example)])
    }
}
