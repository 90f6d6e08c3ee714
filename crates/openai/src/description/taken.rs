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
            "model": optional("string", "Names an agent, or what the configuration maps to one; the first agent if nothing is said"),
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
            "tool_choice": tool_choice(),
            "parallel_tool_calls": optional("boolean", "Whether one answer may make several calls"),
            "top_p": { "type": ["number", "null"], "minimum": 0, "maximum": 1 },
            "presence_penalty": { "type": ["number", "null"], "minimum": -2, "maximum": 2 },
            "frequency_penalty": { "type": ["number", "null"], "minimum": -2, "maximum": 2 },
            "seed": { "type": ["integer", "null"], "minimum": i64::MIN, "maximum": i64::MAX },
            "stop": {
                "oneOf": [
                    { "type": "null" },
                    { "type": "string", "maxLength": 256 },
                    { "type": "array", "maxItems": 16, "items": { "type": "string", "maxLength": 256 } },
                ],
                "description": "Texts at which the answer stops",
            },
            "temperature": { "type": ["number", "null"], "minimum": 0, "maximum": 2 },
            "max_completion_tokens": bound(),
            "reasoning_effort": {
                "enum": ["none", "minimal", "low", "medium", "high", "xhigh", "max", null],
                "description": "How hard the model thinks in this turn; the agent's own if nothing is said",
            },
            "max_tokens": bound(),
            "n": { "enum": [1, null] },
            "logprobs": { "enum": [false, null] },
            "response_format": response_format(),
            "modalities": { "type": ["array", "null"], "items": { "const": "text" } },
        },
    })
}

fn tool_choice() -> Value {
    let named = json!({
        "type": "object", "required": ["type", "function"],
        "properties": {
            "type": { "const": "function" },
            "function": { "type": "object", "required": ["name"], "properties": { "name": text() } },
        },
    });
    let allowed = json!({
        "type": "object", "required": ["type", "allowed_tools"],
        "properties": {
            "type": { "const": "allowed_tools" },
            "allowed_tools": {
                "type": "object", "required": ["mode", "tools"],
                "properties": { "mode": { "enum": ["auto", "required"] }, "tools": { "type": "array", "items": named } },
            },
        },
    });
    json!({
        "oneOf": [{ "enum": ["auto", "none", "required", null] }, named, allowed],
        "description": "What the model may or must call of `tools`, in the first model call of this request. With `none` it is \
                        not told of them",
    })
}

fn response_format() -> Value {
    let schema = json!({
        "type": "object", "required": ["type"], "properties": { "type": { "const": "object" } },
        "description": "A JSON Schema of an object",
    });
    let plain = json!({
        "type": "object", "required": ["type"], "properties": { "type": { "enum": ["text", "json_object"] } },
    });
    let typed = json!({
        "type": "object", "required": ["type", "json_schema"],
        "properties": {
            "type": { "const": "json_schema" },
            "json_schema": {
                "type": "object", "required": ["name", "schema"],
                "properties": {
                    "name": { "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$" },
                    "description": { "type": ["string", "null"] },
                    "schema": schema,
                    "strict": { "type": ["boolean", "null"] },
                },
            },
        },
    });
    json!({
        "oneOf": [{ "type": "null" }, plain, typed],
        "description": "The shape of the answer, which is checked. A model whose answer does not fit answers again, twice at \
                        most; then the turn fails",
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
                    "pattern": "^(https://.+|http://[^/]+[.][^/]+.*|data:image/[A-Za-z0-9.+-]+;base64,[A-Za-z0-9+/]+={0,2})$",
                    "description": "An `https:` or `http:` URL of a public host, or a `data:` URL in base64",
                } },
            },
        },
    });
    let file = json!({
        "type": "object", "required": ["type", "file"],
        "properties": {
            "type": { "const": "file" },
            "file": {
                "type": "object",
                "properties": {
                    "file_data": { "type": ["string", "null"], "description": "Base64, or a `data:` URL of it" },
                    "file_id": { "type": ["string", "null"], "description": "A document of `POST /api/v1/documents`" },
                    "filename": { "type": ["string", "null"] },
                },
            },
        },
    });
    json!({
        "type": "object", "title": "What a person said", "required": ["role", "content"],
        "properties": {
            "role": { "const": "user" },
            "content": { "oneOf": [
                { "type": "string", "minLength": 1 },
                { "type": "array", "minItems": 1, "items": { "oneOf": [text_part, image, file] } },
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
            "reasoning_content": {
                "type": ["string", "null"],
                "description": "The reasoning before the answer, for models that want it back",
            },
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
