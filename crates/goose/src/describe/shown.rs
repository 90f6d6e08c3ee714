//! Messages as clients are sent them.

use serde_json::{Value, json};

use super::{described, of};

fn object(required: &[&str], properties: Value) -> Value {
    json!({ "type": "object", "required": required, "properties": properties })
}

/// An item of one type; it has all of these fields.
fn item(kind: &str, fields: Value) -> Value {
    let mut properties = json!({ "type": { "const": kind } });
    if let (Some(all), Value::Object(own)) = (properties.as_object_mut(), fields) {
        all.extend(own);
    }
    let required: Vec<_> = properties.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    json!({ "type": "object", "required": required, "properties": properties })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn call() -> Value {
    object(&["name", "arguments"], json!({ "name": text(), "arguments": {} }))
}

/// As the releases wrap what went well.
fn success(value: &Value) -> Value {
    object(&["status", "value"], json!({ "status": { "const": "success" }, "value": value }))
}

fn count() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

described! {
    /// An item, as the text describes it.
    Item = "goose.Item", [], {
        let base64 = item("base64", json!({ "media_type": text(), "data": text() }));
        let url = item("url", json!({ "url": text() }));
        let items = json!({ "type": "array", "items": of("goose.Item") });
        let result = object(&["content", "is_error"], json!({ "content": items, "is_error": { "type": "boolean" } }));
        json!({ "oneOf": [
            item("text", json!({ "text": text() })),
            item("image", json!({ "source": { "oneOf": [base64, url] } })),
            item("tool_request", json!({ "id": text(), "tool_call": call() })),
            item("tool_response", json!({ "id": text(), "tool_result": result })),
            item("tool_confirmation_request", json!({
                "id": text(), "tool_name": text(), "arguments": {}, "prompt": text(),
            })),
            item("elicitation_request", json!({ "id": text(), "message": text(), "requested_schema": {} })),
        ] })
    };
    /// An item, as the releases have it.
    ReleasedItem = "goose.ReleasedItem", [], {
        let items = json!({ "type": "array", "items": of("goose.ReleasedItem") });
        let result = object(&["content", "isError"], json!({ "content": items, "isError": { "type": "boolean" } }));
        let confirmation = object(&["actionType", "id", "toolName", "arguments", "prompt"], json!({
            "actionType": { "const": "toolConfirmation" }, "id": text(), "toolName": text(), "arguments": {},
            "prompt": { "type": ["string", "null"] },
        }));
        let elicitation = object(&["actionType", "id", "message", "requested_schema"], json!({
            "actionType": { "const": "elicitation" }, "id": text(), "message": text(), "requested_schema": {},
        }));
        json!({ "oneOf": [
            item("text", json!({ "text": text() })),
            item("image", json!({ "data": text(), "mimeType": text() })),
            item("thinking", json!({ "thinking": text(), "signature": text() })),
            item("toolRequest", json!({ "id": text(), "toolCall": success(&call()) })),
            item("toolResponse", json!({ "id": text(), "toolResult": success(&result) })),
            item("actionRequired", json!({ "data": { "oneOf": [confirmation, elicitation] } })),
        ] })
    };
    /// A message, as the text describes it.
    Message = "goose.Message", [Item], object(&["role", "content", "created_at", "id"], json!({
        "role": { "enum": ["user", "assistant"] },
        "content": { "type": "array", "items": of("goose.Item") },
        "created_at": { "type": "string", "format": "date-time" },
        "id": { "type": "string", "description": "Pieces of one message have one id, and are to be appended" },
    }));
    /// A message, as the releases have it.
    ReleasedMessage = "goose.ReleasedMessage", [ReleasedItem], object(
        &["id", "role", "created", "content", "metadata"],
        json!({
            "id": { "type": "string", "description": "Pieces of one message have one id, and are to be appended" },
            "role": { "enum": ["user", "assistant"] },
            "created": { "type": "integer", "description": "Seconds since 1970" },
            "content": { "type": "array", "items": of("goose.ReleasedItem") },
            "metadata": object(&["userVisible", "agentVisible"], json!({
                "userVisible": { "type": "boolean" }, "agentVisible": { "type": "boolean" },
            })),
        }),
    );
    /// Tokens, as the text describes them.
    TokenState = "goose.TokenState", [], object(
        &[
            "input_tokens", "output_tokens", "total_tokens", "accumulated_input_tokens", "accumulated_output_tokens",
            "accumulated_total_tokens",
        ],
        json!({
            "input_tokens": count(), "output_tokens": count(), "total_tokens": count(),
            "accumulated_input_tokens": count(), "accumulated_output_tokens": count(),
            "accumulated_total_tokens": count(),
        }),
    );
    /// Tokens, as the releases have them.
    ReleasedTokenState = "goose.ReleasedTokenState", [], object(
        &[
            "inputTokens", "outputTokens", "totalTokens", "accumulatedInputTokens", "accumulatedOutputTokens",
            "accumulatedTotalTokens", "accumulatedCost",
        ],
        json!({
            "inputTokens": count(), "outputTokens": count(), "totalTokens": count(),
            "accumulatedInputTokens": count(), "accumulatedOutputTokens": count(), "accumulatedTotalTokens": count(),
            "accumulatedCost": { "type": "null", "description": "What tokens cost is not known here" },
        }),
    );
}
