//! What clients may be told instead, for the API document.

use everturn_http::document::{Answers, errors};
use serde_json::json;
use utoipa::IntoResponses;

use crate::error::ErrorOut;

fn told<const N: usize>(answers: [(u16, &'static str, &str); N]) -> Answers {
    errors::<ErrorOut>(answers.map(|(status, when, example)| (status, when, json!({ "error": example }))))
}

/// What every call behind a key may be told.
pub(crate) struct Guarded;

impl IntoResponses for Guarded {
    fn responses() -> Answers {
        told([
            (401, "No key, or one that is not valid", "the key is not valid on this server"),
            (403, "The key does not allow this", "the key does not allow this; it needs the scope chat"),
            (
                429,
                "Too much at once, or too much today",
                "this key may have 2 turns running at once, and has; try again when one has ended",
            ),
            (
                500,
                "A fault of the server",
                "the server met a fault; its log has the details under this answer's X-Request-Id",
            ),
            (503, "The server cannot do it now", "the server is shutting down; try again in a moment"),
        ])
    }
}

/// What calls without a key may be told.
pub(crate) struct Public;

impl IntoResponses for Public {
    fn responses() -> Answers {
        told([(
            403,
            "The server runs without keys and was called by a foreign name, or by a web page of another origin",
            "this server runs without keys and answers only to localhost, 127.0.0.1 and [::1]",
        )])
    }
}

/// What is told where something in the path, the query or the headers is wrong.
pub(crate) struct Malformed;

impl IntoResponses for Malformed {
    fn responses() -> Answers {
        told([(
            400,
            "Something in the request is wrong",
            "the header Idempotency-Key must have 1 to 255 visible ASCII characters",
        )])
    }
}

/// What is told where a body is expected.
pub(crate) struct BodyRefused;

impl IntoResponses for BodyRefused {
    fn responses() -> Answers {
        told([
            (400, "Something in the request is wrong", "messages[0]: content is missing"),
            (
                507,
                "The tenant stores as much as it may",
                "this tenant may store 10000000000 bytes (documents, artifacts and logs, quota.storage) and stores 10000002048",
            ),
            (408, "The body did not come in time", "the body did not arrive within 60 s, which is the limit"),
            (413, "The body is too long", "the body is longer than 10485760 bytes, which is the limit"),
            (
                415,
                "The body is not said to be JSON",
                "the body must be JSON: send the header Content-Type: application/json",
            ),
        ])
    }
}

/// What is told of sessions that are not there, or are somebody else's.
pub(crate) struct NotThere;

impl IntoResponses for NotThere {
    fn responses() -> Answers {
        told([(404, "There is no such thing", "there is no session \"sess_x\"; GET /sessions lists yours")])
    }
}

/// What is told where the session is not in the state for it.
pub(crate) struct Conflict;

impl IntoResponses for Conflict {
    fn responses() -> Answers {
        told([(
            409,
            "It cannot be done now, or was done before",
            "a turn is running in this session; wait until it ends, then send this again",
        )])
    }
}
