//! The protocol's part of the API document: what is taken, what is given, what may be refused.

mod given;
mod taken;

use everturn_http::document::{Answers, AnySchema, Events, errors, header, schema};
use serde_json::{Value, json};
use utoipa::{IntoResponses, PartialSchema, ToSchema, openapi::RefOr};

use self::{
    given::{chunk, completion, error, model},
    taken::chat,
};

/// Chunks, and `[DONE]` at the end.
pub(crate) type ChunkEvents = Events<ChunkSchema>;

/// A type of the document that is made by its keywords.
macro_rules! described {
    ($($(#[$doc:meta])* $name:ident as $shown:literal = $keywords:expr;)*) => {
        $(
            $(#[$doc])*
            pub(crate) struct $name;

            impl PartialSchema for $name {
                fn schema() -> AnySchema {
                    schema($keywords)
                }
            }

            impl ToSchema for $name {
                fn name() -> std::borrow::Cow<'static, str> {
                    $shown.into()
                }
            }
        )*
    };
}

described! {
    /// The body of a request.
    ChatSchema as "openai.ChatRequest" = chat();
    /// An answer in one piece.
    CompletionSchema as "openai.Completion" = completion();
    /// A piece of an answer.
    ChunkSchema as "openai.Chunk" = chunk();
    /// An agent.
    ModelSchema as "openai.Model" = model();
    /// All agents.
    ModelListSchema as "openai.ModelList" = json!({
        "type": "object",
        "required": ["object", "data"],
        "properties": { "object": { "const": "list" }, "data": { "type": "array", "items": model() } },
    });
    /// What every refusal looks like.
    ErrorSchema as "openai.Error" = json!({
        "type": "object",
        "required": ["error"],
        "properties": { "error": error() },
    });
}

fn told(status: u16, code: &str, param: Option<&str>, message: &str) -> Value {
    let status = http::StatusCode::from_u16(status).unwrap_or_default();
    json!({ "error": { "message": message, "type": crate::error::kind(status), "param": param, "code": code } })
}

/// What every call may be told.
fn guarded() -> Vec<(u16, &'static str, Value)> {
    vec![
        (
            401,
            "No key, or one that is not valid",
            told(401, "invalid_api_key", None, "the key is not valid on this server"),
        ),
        (
            403,
            "The key does not allow this",
            told(403, "permission_denied", None, "the key does not allow this; it needs the scope chat"),
        ),
        (
            429,
            "Too much at once, or too much today",
            told(429, "rate_limit_exceeded", None, "this key may make 5 requests a second; try again in a moment"),
        ),
        (
            500,
            "A fault of the server",
            told(500, "internal_error", None, "the server met a fault; its log has the details"),
        ),
        (
            503,
            "The server cannot do it now",
            told(503, "service_unavailable", None, "the server is shutting down; try again in a moment"),
        ),
    ]
}

/// What those who look for agents may be told.
pub(crate) struct ModelErrors;

impl IntoResponses for ModelErrors {
    fn responses() -> Answers {
        errors::<ErrorSchema>(guarded())
    }
}

/// What those who ask an agent may be told.
pub(crate) struct ChatErrors;

impl IntoResponses for ChatErrors {
    fn responses() -> Answers {
        let mut answers = guarded();
        answers.extend([
            (
                400,
                "Something in the request is wrong, or not supported",
                told(400, "unsupported_parameter", Some("n"), "n: a request gives one answer; send it several times"),
            ),
            (
                507,
                "The tenant stores as much as it may",
                told(
                    507,
                    "storage_quota_exceeded",
                    None,
                    "this tenant may store 10000000000 bytes and stores 10000002048",
                ),
            ),
            (
                404,
                "There is no such session",
                told(404, "session_not_found", Some("session_id"), "there is no session \"sess_1\""),
            ),
            (
                408,
                "The body did not come in time",
                told(408, "request_timeout", None, "the body did not arrive within 60 s"),
            ),
            (
                409,
                "A turn runs in the session, the results were given before, or the turn was stopped",
                told(409, "session_busy", None, "a turn is running in this session; wait until it ends"),
            ),
            (
                413,
                "The body is too long",
                told(413, "request_too_large", None, "the body is longer than 10485760 bytes, which is the limit"),
            ),
            (
                415,
                "The body is not said to be JSON",
                told(415, "unsupported_media_type", None, "the body must be JSON: send Content-Type: application/json"),
            ),
            (
                422,
                "To the AI SDK, in place of a 409 that must not be sent again: that SDK repeats every 409",
                told(422, "waiting_for_person", None, "the turn waits for a person to answer form_1"),
            ),
            (
                502,
                "The model's provider refused, or answered nonsense",
                told(502, "LLM_PROVIDER_ERROR", None, "the provider answered 400: no such model"),
            ),
            (
                504,
                "The model's provider went silent, or the turn took too long",
                told(504, "LLM_REQUEST_TIMEOUT", None, "the model was silent for 60s, which is the limit"),
            ),
        ]);
        let mut answers = errors::<ErrorSchema>(answers);
        // Where there is a turn already, or another attempt would be no better.
        for status in ["409", "422", "429", "500", "502", "503", "504", "507"] {
            if let Some(RefOr::T(answer)) = answers.get_mut(status) {
                for (name, keywords, description) in [
                    ("X-Session-Id", json!({ "type": "string" }), "The session, if the turn was begun"),
                    ("X-Message-Id", json!({ "type": "string" }), "The turn, if it was begun"),
                    (
                        "x-should-retry",
                        json!({ "const": "false" }),
                        "Tells the SDKs not to send it again by themselves",
                    ),
                ] {
                    answer.headers.insert(name.to_owned(), header(keywords, description).into());
                }
            }
        }
        answers
    }
}
