//! The events of the protocol's streams.

use serde_json::{Map, Value, json};

use super::{
    described, of,
    shown::{Message, ReleasedMessage, ReleasedTokenState, TokenState},
};

/// The events, each with fields that it has besides its type.
fn events(message: &str, own: impl Fn(&str) -> Map<String, Value>) -> Value {
    let conversation = || json!({ "type": "array", "items": of(message) });
    let notification = json!({
        "type": "object", "required": ["method"], "properties": { "method": { "type": "string" }, "params": {} },
    });
    let event = |kind: &str, told: &str, fields: Value| {
        let mut properties = Map::from_iter([("type".to_owned(), json!({ "const": kind }))]);
        properties.extend(own(kind));
        if let Value::Object(fields) = fields {
            properties.extend(fields);
        }
        let required: Vec<_> = properties.keys().cloned().collect();
        json!({ "type": "object", "description": told, "required": required, "properties": properties })
    };
    json!([
        event(
            "Message",
            "Something is said: text in pieces, to be appended; calls and results whole",
            json!({
                "message": of(message),
            })
        ),
        event(
            "Notification",
            "What the server of a tool tells while the tool runs",
            json!({
                "request_id": { "type": "string", "description": "The tool request, or the turn" },
                "message": notification,
            })
        ),
        event(
            "ModelChange",
            "The agent fell back on another model",
            json!({
                "model": { "type": "string" }, "mode": { "const": "fallback" },
            })
        ),
        event(
            "UpdateConversation",
            "The whole conversation: what was shown before is void",
            json!({
                "conversation": conversation(),
            })
        ),
        event("Error", "What went wrong; a Finish follows", json!({ "error": { "type": "string" } })),
        event(
            "Finish",
            "The turn is over; nothing follows it in the turn",
            json!({
                "reason": { "enum": ["stop", "length", "error", "cancel"] },
            })
        ),
    ])
}

fn ping() -> Value {
    json!({
        "type": "object", "description": "The stream is open", "required": ["type"],
        "properties": { "type": { "const": "Ping" } },
    })
}

fn one_of(events: Value, others: impl IntoIterator<Item = Value>) -> Value {
    let mut events = match events {
        Value::Array(events) => events,
        _ => Vec::new(),
    };
    events.extend(others);
    json!({ "oneOf": events })
}

/// Whether the releases tell tokens with it.
fn has_tokens(kind: &str) -> bool {
    matches!(kind, "Message" | "Finish")
}

fn tokens(name: &str) -> Map<String, Value> {
    Map::from_iter([("token_state".to_owned(), of(name))])
}

described! {
    /// An event of `/reply`.
    Event = "goose.Event", [Message, TokenState], {
        one_of(events("goose.Message", |_| tokens("goose.TokenState")), [ping()])
    };
    /// An event of `/goose/reply`.
    ReleasedEvent = "goose.ReleasedEvent", [ReleasedMessage, ReleasedTokenState], {
        let own = |kind: &str| if has_tokens(kind) { tokens("goose.ReleasedTokenState") } else { Map::new() };
        one_of(events("goose.ReleasedMessage", own), [ping()])
    };
    /// An event of a session's stream.
    SessionEvent = "goose.SessionEvent", [ReleasedMessage, ReleasedTokenState], {
        let own = |kind: &str| {
            let mut fields = if has_tokens(kind) { tokens("goose.ReleasedTokenState") } else { Map::new() };
            let text = |told: &str| json!({ "type": "string", "description": told });
            fields.insert("request_id".to_owned(), text("Of which request it is"));
            fields.insert("chat_request_id".to_owned(), text("Of which request it is"));
            fields
        };
        let active = json!({
            "type": "object", "description": "The requests that are under way, first of all",
            "required": ["type", "request_ids"],
            "properties": {
                "type": { "const": "ActiveRequests" },
                "request_ids": { "type": "array", "items": { "type": "string" } },
            },
        });
        let cut = json!({
            "type": "object", "description": "The conversation was cut since: this is what is left of it",
            "required": ["type", "conversation"],
            "properties": {
                "type": { "const": "UpdateConversation" },
                "conversation": { "type": "array", "items": of("goose.ReleasedMessage") },
                "request_id": false,
            },
        });
        one_of(events("goose.ReleasedMessage", own), [active, cut])
    };
}
