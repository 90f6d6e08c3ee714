//! How the API document tells of messages and events whose fields depend on a word.

use std::borrow::Cow;

use everturn_http::document::schema;
use serde_json::{Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use crate::request::{MAX_CALL_ID, MAX_MESSAGES};

/// History that a session begins with.
pub(crate) struct Seed;
/// The same, where a turn follows at once.
pub(crate) struct SeedWithUser;
/// What begins a turn, or takes up one that waits.
pub(crate) struct TurnMessages;
/// The data of an event in version 1.
pub(crate) struct EventV1;
/// The data of an event in version 3.
pub(crate) struct EventV3;

macro_rules! described {
    ($type:ty, $name:literal, $keywords:expr) => {
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                schema($keywords)
            }
        }

        impl ToSchema for $type {
            fn name() -> Cow<'static, str> {
                $name.into()
            }
        }
    };
}

described!(Seed, "aap.Seed", seed(0, "History to begin with"));
described!(SeedWithUser, "aap.v1.Seed", seed(1, "History to begin with; the last message is the user's"));
described!(TurnMessages, "aap.TurnMessages", turn_messages());
described!(EventV1, "aap.v1.Event", events(&[object("session_start", &[("sessionId", text())])]));
described!(EventV3, "aap.v3.Event", events(&[]));

/// The agent of a new session, which must have a name.
pub(super) fn named_agent() -> RefOr<Schema> {
    let named = json!({ "properties": { "name": text() }, "required": ["name"] });
    schema(json!({ "allOf": [{ "$ref": "#/components/schemas/aap.AgentConfig" }, named] }))
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn call_id() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": MAX_CALL_ID })
}

/// An object that has all these fields.
fn object(title: &str, fields: &[(&str, Value)]) -> Value {
    let names: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
    let fields: serde_json::Map<_, _> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    json!({ "title": title, "type": "object", "properties": fields, "required": names })
}

fn block(kind: &str, fields: &[(&str, Value)]) -> Value {
    let kind_field = [("type", json!({ "const": kind }))];
    object(kind, &[&kind_field, fields].concat())
}

fn image() -> Value {
    let url = json!({
        "type": "string",
        "pattern": "^(https://.*|data:image/[^;]+;base64,[A-Za-z0-9+/]+={0,2})$",
    });
    block("image", &[("url", url)])
}

/// A text or blocks of these kinds.
fn content(blocks: &[Value]) -> Value {
    json!({ "oneOf": [text(), { "type": "array", "items": { "oneOf": blocks } }] })
}

fn from_people() -> Value {
    content(&[block("text", &[("text", text())]), image()])
}

fn message(role: &str, fields: &[(&str, Value)]) -> Value {
    object(role, &[&[("role", json!({ "const": role }))], fields].concat())
}

fn tool_message() -> Value {
    message("tool", &[("toolCallId", call_id()), ("content", from_people())])
}

fn seed(least: usize, description: &str) -> Value {
    let call = [("toolCallId", call_id()), ("name", text()), ("input", json!({ "type": "object" }))];
    let from_model = content(&[
        block("text", &[("text", text())]),
        block("thinking", &[("thinking", text())]),
        block("tool_use", &call),
    ]);
    let messages = [
        message("system", &[("content", text())]),
        message("user", &[("content", from_people())]),
        message("assistant", &[("content", from_model)]),
        tool_message(),
    ];
    json!({
        "description": description,
        "type": "array",
        "items": { "oneOf": messages },
        "minItems": least,
        "maxItems": MAX_MESSAGES,
    })
}

fn turn_messages() -> Value {
    let said = json!({ "anyOf": [{ "properties": { "text": { "minLength": 1 } } }, { "required": ["url"] }] });
    let blocks = [block("text", &[("text", text())]), image()];
    let not_blank = json!({
        "oneOf": [
            { "type": "string", "minLength": 1 },
            { "type": "array", "items": { "oneOf": blocks }, "contains": said },
        ],
    });
    let mut permission =
        message("tool_permission", &[("toolCallId", call_id()), ("granted", json!({ "type": "boolean" }))]);
    permission["properties"]["reason"] = json!({ "type": ["string", "null"] });
    let answers = [tool_message(), permission];
    json!({
        "oneOf": [
            {
                "title": "A message of the user",
                "type": "array",
                "items": message("user", &[("content", not_blank)]),
                "minItems": 1,
                "maxItems": 1,
            },
            {
                "title": "An answer to every call that waits",
                "type": "array",
                "items": { "oneOf": answers },
                "minItems": 1,
                "maxItems": MAX_MESSAGES,
            },
        ],
    })
}

fn events(more: &[Value]) -> Value {
    let call = [("toolCallId", text()), ("name", text()), ("input", json!({ "type": "object" }))];
    let result = [("toolCallId", text()), ("content", json!({ "$ref": "#/components/schemas/aap.Content" }))];
    let reason = json!({ "$ref": "#/components/schemas/aap.StopReason" });
    let all = [
        object("turn_start", &[]),
        object("text_delta", &[("delta", text())]),
        object("thinking_delta", &[("delta", text())]),
        object("text", &[("text", text())]),
        object("thinking", &[("thinking", text())]),
        object("tool_call", &call),
        object("tool_result", &result),
        object("turn_stop", &[("stopReason", reason)]),
    ];
    let all = [more, &all].concat();
    json!({
        "description": "What the field `event` of the frame names; each is titled with that name here",
        "anyOf": all,
    })
}
