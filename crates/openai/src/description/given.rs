//! Answers.

use serde_json::{Value, json};

/// Any text.
pub(super) fn text() -> Value {
    json!({ "type": "string" })
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

/// A part of a count of tokens.
fn details(part: &str, description: &str) -> Value {
    json!({
        "type": "object", "required": [part], "description": format!("{description}; left out if none"),
        "properties": { part: { "type": "integer", "minimum": 1 } },
    })
}

fn usage() -> Value {
    let count = json!({ "type": "integer", "minimum": 0 });
    json!({
        "type": "object", "required": ["prompt_tokens", "completion_tokens", "total_tokens"],
        "properties": {
            "prompt_tokens": count, "completion_tokens": count, "total_tokens": count,
            "prompt_tokens_details": details("cached_tokens", "Of the prompt, what the provider had in its cache"),
            "completion_tokens_details": details("reasoning_tokens", "Of the completion, what was spent on reasoning"),
        },
    })
}

/// An answer in one piece.
pub(super) fn completion() -> Value {
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

/// A piece of an answer, or what went wrong.
pub(super) fn chunk() -> Value {
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

/// An agent.
pub(super) fn model() -> Value {
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

/// What went wrong.
pub(super) fn error() -> Value {
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
