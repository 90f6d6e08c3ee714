//! The protocol's part of the API document: what is taken, what is given, what may be refused.

use everturn_http::document::{Answers, AnySchema, Events, errors, schema};
use serde_json::{Value, json};
use utoipa::{IntoResponses, PartialSchema, ToSchema};

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

fn text() -> Value {
    json!({ "type": "string" })
}

fn chat() -> Value {
    let optional = |kind: &str, description: &str| json!({ "type": [kind, "null"], "description": description });
    json!({
        "type": "object",
        "description": "A conversation whose last message is the user's, or a result of a tool call. Fields that are not \
                        listed are ignored where they do not change the answer, and refused where they do",
        "required": ["messages"],
        "properties": {
            "model": optional("string", "Names an agent; one that is not known means the first agent"),
            "messages": {
                "type": "array", "minItems": 1, "maxItems": 10_000,
                "items": { "oneOf": [system(), user(), assistant(), tool_message()] },
            },
            "session_id": optional("string", "Goes on with this session; only what is new in `messages` is taken"),
            "stream": optional("boolean", "Whether the answer comes in chunks"),
            "stream_options": {
                "type": ["object", "null"],
                "properties": { "include_usage": optional("boolean", "Whether the last chunk tells the tokens used") },
            },
            "include_tool_progress": optional(
                "boolean", "Whether events named `tool.progress` tell what the server's own tools do",
            ),
            "max_iterations": {
                "type": ["integer", "null"], "minimum": 1, "maximum": 50, "default": 25,
                "description": "How many model calls this request may lead to; no more than the agent allows",
            },
            "tools": {
                "type": ["array", "null"], "maxItems": 128, "items": tool(),
                "description": "Tools that the application runs. A request without them has none",
            },
            "tool_choice": {
                "enum": ["auto", "none", null],
                "description": "With `none` the model is not told of `tools`",
            },
            "parallel_tool_calls": optional("boolean", "Of no effect: a model may make several calls at once"),
            "temperature": { "type": ["number", "null"], "minimum": 0, "maximum": 2 },
            "max_completion_tokens": bound(),
            "max_tokens": bound(),
            "n": { "enum": [1, null] },
            "logprobs": { "enum": [false, null] },
            "response_format": {
                "type": ["object", "null"], "required": ["type"], "properties": { "type": { "const": "text" } },
            },
            "modalities": { "type": ["array", "null"], "items": { "const": "text" } },
        },
    })
}

fn bound() -> Value {
    json!({
        "type": ["integer", "null"], "minimum": 1, "maximum": i64::MAX,
        "description": "Cap on each model call's answer, in tokens; the agent's own if that is lower",
    })
}

fn texts() -> Value {
    let part = json!({
        "type": "object", "required": ["type", "text"],
        "properties": { "type": { "const": "text" }, "text": text() },
    });
    json!({ "oneOf": [text(), { "type": "array", "items": part }] })
}

fn system() -> Value {
    json!({
        "type": "object", "title": "Instructions", "required": ["role", "content"],
        "properties": { "role": { "enum": ["system", "developer"] }, "content": texts() },
    })
}

fn user() -> Value {
    let text_part = json!({
        "type": "object", "required": ["type", "text"],
        "properties": { "type": { "const": "text" }, "text": { "type": "string", "minLength": 1 } },
    });
    let image = json!({
        "type": "object", "required": ["type", "image_url"],
        "properties": {
            "type": { "const": "image_url" },
            "image_url": {
                "type": "object", "required": ["url"],
                "properties": { "url": {
                    "type": "string",
                    "pattern": "^(https://.*|data:image/[a-z]+;base64,[A-Za-z0-9+/]+={0,2})$",
                    "description": "An `https:` URL, or a `data:` URL in base64",
                } },
            },
        },
    });
    json!({
        "type": "object", "title": "What a person said", "required": ["role", "content"],
        "properties": {
            "role": { "const": "user" },
            "content": { "oneOf": [
                { "type": "string", "minLength": 1 },
                { "type": "array", "minItems": 1, "items": { "oneOf": [text_part, image] } },
            ] },
        },
    })
}

fn assistant() -> Value {
    let call = json!({
        "type": "object", "required": ["id", "type", "function"],
        "properties": {
            "id": { "type": "string", "minLength": 1, "maxLength": 256 },
            "type": { "const": "function" },
            "function": {
                "type": "object", "required": ["name", "arguments"],
                "properties": {
                    "name": text(),
                    "arguments": { "type": "string", "description": "A JSON object", "examples": ["{\"city\":\"Oslo\"}"] },
                },
            },
        },
    });
    json!({
        "type": "object", "title": "What the assistant answered", "required": ["role"],
        "properties": {
            "role": { "const": "assistant" },
            "content": { "oneOf": [{ "type": "null" }, texts()] },
            "refusal": { "type": ["string", "null"] },
            "tool_calls": { "type": ["array", "null"], "items": call },
        },
    })
}

fn tool_message() -> Value {
    json!({
        "type": "object", "title": "The result of a tool call", "required": ["role", "content", "tool_call_id"],
        "properties": {
            "role": { "const": "tool" },
            "content": texts(),
            "tool_call_id": {
                "type": "string", "minLength": 1, "maxLength": 256,
                "description": "The id of a call in an assistant's message before it",
            },
        },
    })
}

fn tool() -> Value {
    json!({
        "type": "object", "required": ["type", "function"],
        "properties": {
            "type": { "const": "function" },
            "function": {
                "type": "object", "required": ["name"],
                "properties": {
                    "name": { "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$" },
                    "description": { "type": ["string", "null"] },
                    "parameters": {
                        "type": ["object", "null"],
                        "description": "A JSON Schema of the input, which is an object",
                        "examples": [{ "type": "object", "properties": { "city": { "type": "string" } } }],
                    },
                },
            },
        },
    })
}

fn finish_reason() -> Value {
    json!({
        "type": "string", "enum": ["stop", "length", "tool_calls", "content_filter"],
        "description": "`length` also where `max_iterations` is reached",
    })
}

fn tool_call() -> Value {
    let function = json!({
        "type": "object", "required": ["name", "arguments"], "properties": { "name": text(), "arguments": text() },
    });
    json!({
        "type": "object", "required": ["id", "type", "function"],
        "properties": {
            "id": { "type": "string", "description": "To be sent back with the result; it says where the turn waits" },
            "type": { "const": "function" },
            "function": function,
        },
    })
}

fn usage() -> Value {
    let count = json!({ "type": "integer", "minimum": 0 });
    json!({
        "type": "object", "required": ["prompt_tokens", "completion_tokens", "total_tokens"],
        "properties": { "prompt_tokens": count, "completion_tokens": count, "total_tokens": count },
    })
}

fn completion() -> Value {
    let message = json!({
        "type": "object", "required": ["role", "content", "refusal"],
        "properties": {
            "role": { "const": "assistant" },
            "content": {
                "type": ["string", "null"],
                "description": "All that was said; a blank line stands between the texts of several model calls",
            },
            "refusal": { "type": "null" },
            "reasoning_content": { "type": "string" },
            "tool_calls": { "type": "array", "items": tool_call() },
        },
    });
    let choice = json!({
        "type": "object", "required": ["index", "message", "logprobs", "finish_reason"],
        "properties": {
            "index": { "const": 0 }, "message": message, "logprobs": { "type": "null" }, "finish_reason": finish_reason(),
        },
    });
    let form = json!({
        "type": "object", "required": ["form_id", "kind", "title"],
        "properties": { "form_id": text(), "kind": text(), "title": text() },
    });
    json!({
        "type": "object",
        "required": ["id", "object", "created", "model", "choices", "usage", "session_id", "message_id"],
        "properties": {
            "id": text(),
            "object": { "const": "chat.completion" },
            "created": { "type": "integer" },
            "model": { "type": "string", "description": "The agent that answered" },
            "choices": { "type": "array", "minItems": 1, "maxItems": 1, "items": choice },
            "usage": usage(),
            "session_id": text(),
            "message_id": text(),
            "waiting": {
                "type": "object",
                "description": "The turn is not over: it waits for a person or a time, and goes on by itself then",
                "required": ["for", "forms", "stream"],
                "properties": {
                    "for": { "enum": ["form", "timer", "rate_limit"] },
                    "forms": { "type": "array", "items": form },
                    "until": { "type": "integer", "description": "When it goes on by itself, in seconds since 1970" },
                    "stream": { "type": "string", "description": "Where the rest can be read" },
                },
            },
        },
    })
}

fn chunk() -> Value {
    let mut call = tool_call();
    call["properties"]["index"] = json!({ "type": "integer", "minimum": 0 });
    let delta = json!({
        "type": "object",
        "properties": {
            "role": { "const": "assistant" },
            "content": text(),
            "refusal": { "type": "null" },
            "reasoning_content": text(),
            "tool_calls": { "type": "array", "items": call },
        },
    });
    let choice = json!({
        "type": "object", "required": ["index", "delta", "logprobs", "finish_reason"],
        "properties": {
            "index": { "const": 0 }, "delta": delta, "logprobs": { "type": "null" },
            "finish_reason": { "oneOf": [{ "type": "null" }, finish_reason()] },
        },
    });
    let progress = json!({
        "type": "object", "required": ["tool_call_id", "status"],
        "properties": {
            "tool_call_id": text(), "tool": text(), "label": text(),
            "status": { "enum": ["running", "completed", "failed"] },
            "duration_ms": { "type": "integer", "minimum": 0 },
            "progress": { "type": "object" },
        },
    });
    let piece = json!({
        "type": "object", "title": "A piece of an answer",
        "required": ["id", "object", "created", "model", "choices"],
        "properties": {
            "id": text(),
            "object": { "const": "chat.completion.chunk" },
            "created": { "type": "integer" },
            "model": text(),
            "choices": { "type": "array", "maxItems": 1, "items": choice },
            "usage": { "oneOf": [{ "type": "null" }, usage()] },
            "session_id": { "type": "string", "description": "In the first chunk and in the one that ends the answer" },
            "message_id": text(),
            "tool_progress": progress,
        },
    });
    let failed = json!({
        "type": "object", "title": "The turn failed", "required": ["error"], "properties": { "error": error() },
    });
    json!({
        "description": "After the last one comes `data: [DONE]`, which is not JSON",
        "oneOf": [piece, failed],
    })
}

fn model() -> Value {
    json!({
        "type": "object", "required": ["id", "object", "created", "owned_by"],
        "properties": {
            "id": { "type": "string", "description": "What `model` of a request names" },
            "object": { "const": "model" },
            "created": { "type": "integer" },
            "owned_by": { "enum": ["everturn", "tenant"] },
            "name": { "type": "string", "description": "A name for people" },
            "description": text(),
        },
    })
}

fn error() -> Value {
    json!({
        "type": "object", "required": ["message", "type", "param", "code"],
        "properties": {
            "message": { "type": "string", "minLength": 1 },
            "type": { "enum": [
                "invalid_request_error", "authentication_error", "permission_error", "not_found_error", "conflict_error",
                "rate_limit_error", "server_error",
            ] },
            "param": { "type": ["string", "null"], "description": "What in the request it is about" },
            "code": { "type": ["string", "null"] },
        },
    })
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
        errors::<ErrorSchema>(answers)
    }
}
