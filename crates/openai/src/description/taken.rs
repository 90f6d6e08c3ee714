//! Requests.

use serde_json::{Value, json};

use super::given::text;

/// The body of a request.
pub(super) fn chat() -> Value {
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
            "reasoning_effort": {
                "enum": ["none", "minimal", "low", "medium", "high", "xhigh", "max", null],
                "description": "How hard the model thinks in this turn; the agent's own if nothing is said",
            },
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

fn text_part() -> Value {
    json!({
        "type": "object", "required": ["type", "text"],
        "properties": { "type": { "const": "text" }, "text": text() },
    })
}

fn texts() -> Value {
    json!({ "oneOf": [text(), { "type": "array", "items": text_part() }] })
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
                    "pattern": "^(https://.*|data:image/[A-Za-z0-9.+-]+;base64,[A-Za-z0-9+/]+={0,2})$",
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
                    "arguments": {
                        "type": "string", "examples": ["{\"city\":\"Oslo\"}"],
                        "description": "A JSON object; what is none counts as an empty one",
                    },
                },
            },
        },
    });
    let refusal = json!({
        "type": "object", "required": ["type", "refusal"],
        "properties": { "type": { "const": "refusal" }, "refusal": text() },
    });
    let parts = json!({ "type": "array", "items": { "oneOf": [text_part(), refusal] } });
    json!({
        "type": "object", "title": "What the assistant answered", "required": ["role"],
        "properties": {
            "role": { "const": "assistant" },
            "content": { "oneOf": [{ "type": "null" }, text(), parts] },
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
