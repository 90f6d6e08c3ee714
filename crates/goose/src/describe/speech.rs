//! What somebody says to the agent, and the items that messages of both kinds may have.

use serde_json::{Value, json};

use super::{HistoryMessage, described, of, one_named, something, values};

/// Said to people by Goose itself. It may be there, and is passed over.
const ASIDES: [&str; 11] = [
    "redactedThinking",
    "redacted_thinking",
    "toolConfirmationRequest",
    "tool_confirmation_request",
    "elicitationRequest",
    "elicitation_request",
    "systemNotification",
    "system_notification",
    "conversationCompacted",
    "contextLengthExceeded",
    "summarizationRequested",
];

/// An item of one of these types, with the fields that such items have.
pub(super) fn item(types: &[&str], required: &[&str], properties: Value) -> Value {
    let mut all = json!({ "type": match types {
        [one] => json!({ "const": one }),
        several => json!({ "enum": several }),
    } });
    if let (Some(all), Value::Object(own)) = (all.as_object_mut(), properties) {
        all.extend(own);
    }
    let required: Vec<_> = ["type"].iter().chain(required).collect();
    json!({ "type": "object", "required": required, "properties": all })
}

/// What the type of an image may be called.
const MIME_TYPES: [&str; 4] = ["mimeType", "mime_type", "media_type", "mediaType"];
/// What an answer may be called.
const USER_DATA: [&str; 2] = ["userData", "user_data"];

pub(super) fn text() -> Value {
    item(&["text"], &["text"], json!({ "text": { "type": "string" } }))
}

/// An image in either style.
fn image() -> Value {
    let kind = json!({ "type": "string", "pattern": "^image/[A-Za-z0-9+.-]+$", "maxLength": 64 });
    let data = json!({ "type": "string", "pattern": "^[A-Za-z0-9+/]+={0,2}$", "contentEncoding": "base64" });
    let by_type = |also: Value| {
        let mut properties = also;
        for alias in MIME_TYPES {
            properties[alias] = kind.clone();
        }
        properties
    };
    let mut flat = item(&["image"], &["data"], by_type(json!({ "data": data, "source": { "type": "null" } })));
    flat["oneOf"] = one_named(&MIME_TYPES);
    let inline = json!({
        "type": "object", "required": ["data"], "oneOf": one_named(&MIME_TYPES),
        "properties": by_type(json!({ "data": data, "url": { "type": "null" } })),
    });
    let address = json!({
        "type": "object", "required": ["url"],
        "properties": { "url": { "type": "string", "pattern": "^https://" } },
    });
    let source = item(&["image"], &["source"], json!({ "source": { "anyOf": [inline, address] } }));
    json!({ "description": "An image, in either style", "anyOf": [flat, source] })
}

/// What is passed over.
pub(super) fn aside() -> Value {
    item(&ASIDES, &[], json!({}))
}

const ANSWERS: [&str; 4] = ["actionRequired", "action_required", "elicitationResponse", "elicitation_response"];

/// An answer to a form, around its data or by itself.
fn answers() -> [Value; 2] {
    let data = json!({
        "type": "object",
        "required": ["id"],
        "properties": {
            "actionType": { "enum": ["elicitationResponse", "elicitation_response"] },
            "action_type": { "enum": ["elicitationResponse", "elicitation_response"] },
            "id": { "type": "string", "description": "The id of the question" },
            "userData": something(),
            "user_data": something(),
        },
        "allOf": [
            { "oneOf": one_named(&["actionType", "action_type"]) },
            { "oneOf": one_named(&USER_DATA) },
        ],
    });
    let around = item(&ANSWERS, &["data"], json!({ "data": data }));
    let own = json!({
        "id": { "type": "string" }, "data": { "type": "null" }, "userData": something(), "user_data": something(),
    });
    let mut flat = item(&ANSWERS, &["id"], own);
    flat["oneOf"] = one_named(&USER_DATA);
    [around, flat]
}

/// When something was said: seconds since 1970, or a time.
pub(super) fn moment() -> Value {
    json!({
        "type": ["number", "string", "null"], "format": "date-time",
        "description": "Seconds since 1970, or a time such as 2026-03-04T10:00:00Z",
    })
}

/// Who sees a message.
pub(super) fn metadata() -> Value {
    let yes = || json!({ "type": "boolean", "default": true });
    json!({
        "type": ["object", "null"],
        "properties": {
            "userVisible": yes(), "user_visible": yes(), "agentVisible": yes(), "agent_visible": yes(),
        },
        // Of what is no object, `required` is always true.
        "not": { "type": "object", "anyOf": [
            { "required": ["userVisible", "user_visible"] }, { "required": ["agentVisible", "agent_visible"] },
        ] },
    })
}

fn user_items() -> Value {
    let [around, answer] = answers();
    let mut said = text();
    said["properties"]["text"]["minLength"] = json!(1);
    json!({
        "type": "array",
        "items": { "oneOf": [text(), of("goose.ImageItem"), { "anyOf": [around, answer] }, aside()] },
        "contains": { "anyOf": [
            said,
            { "properties": { "type": { "const": "image" } } },
            { "properties": { "type": { "enum": ANSWERS } } },
        ] },
        "maxItems": 10_000,
    })
}

described! {
    /// An image that a client sends.
    ImageItem = "goose.ImageItem", [], image();
    /// What the user says.
    UserMessage = "goose.UserMessage", [ImageItem], json!({
        "type": "object",
        "description": "What the user says: texts and images, or an answer to a question. Both styles are read",
        "required": ["content"],
        "properties": {
            "id": {
                "type": ["string", "null"], "minLength": 1, "maxLength": 256,
                "description": "A name for the message: the same message sent again under it is not said twice",
            },
            "role": { "enum": ["user", null] },
            "content": { "oneOf": [{ "type": "string", "minLength": 1 }, user_items()] },
            "created": moment(),
            "created_at": moment(),
            "metadata": metadata(),
        },
    });
    /// What is said, and where.
    ReplyRequest = "goose.ReplyRequest", [UserMessage, HistoryMessage], speech(&["user_message"], json!({
        "session_id": {
            "type": ["string", "null"], "pattern": "^[A-Za-z0-9._-]{1,128}$", "not": { "enum": ["import", "stream"] },
            "description": "The session; one that is not there is made. Without it there is a new one, which the header \
                X-Session-Id names",
        },
        "recipe_parameters": values(),
        "agent": {
            "type": ["string", "null"],
            "description": "Which agent a new session has; the first of the configuration if it is left out",
        },
    }));
    /// What is said in a session, under a name.
    SessionReplyRequest = "goose.SessionReplyRequest", [UserMessage, HistoryMessage], {
        speech(&["request_id", "user_message"], json!({ "request_id": {
            "type": "string",
            "pattern": "^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$",
            "description": "The client's name for the request, a UUID; events say of which request they are",
        } }))
    };
}

/// A request that says something.
fn speech(required: &[&str], own: Value) -> Value {
    let text = |described: &str| json!({ "type": ["string", "null"], "description": described });
    let mut properties = json!({
        "user_message": of("goose.UserMessage"),
        "override_conversation": {
            "type": ["array", "null"], "items": of("goose.HistoryMessage"), "maxItems": 10_000,
            "description": "Replaces what was said before, for this turn and all later ones; an empty list begins anew. \
                Needs a key with the scope admin",
        },
        "recipe_name": text("A recipe of the server, for the session, which keeps it"),
        "recipe_version": text("Which version of it; the newest if it is left out"),
    });
    if let (Some(all), Value::Object(own)) = (properties.as_object_mut(), own) {
        all.extend(own);
    }
    json!({
        "type": "object",
        "required": required,
        "properties": properties,
        "anyOf": [
            { "properties": { "recipe_version": { "enum": [null, ""] } } },
            { "required": ["recipe_name"], "properties": { "recipe_name": { "type": "string", "minLength": 1 } } },
        ],
    })
}
