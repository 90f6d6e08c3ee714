//! The protocol's types for the API document, where they cannot be derived from the code: clients may write most things in
//! two styles and under several names, and events are written without a type. The tests hold what goes over the wire
//! against these.

mod events;
mod history;
mod recipe;
mod shown;
mod speech;

use everturn_http::document::{self, AnySchema};
use serde_json::{Value, json};

pub(crate) use self::{
    events::{Event, ReleasedEvent, SessionEvent},
    history::HistoryMessage,
    recipe::RecipeOut,
    speech::{ReplyRequest, SessionReplyRequest},
};

/// Types whose schemas are written by hand: name, the types that it refers to, keywords.
macro_rules! described {
    ($($(#[$doc:meta])* $name:ident = $told:literal, [$($other:ty),*], $keywords:expr;)*) => {
        $(
            $(#[$doc])*
            pub(crate) struct $name;

            impl utoipa::PartialSchema for $name {
                fn schema() -> everturn_http::document::AnySchema {
                    everturn_http::document::schema($keywords)
                }
            }

            impl utoipa::ToSchema for $name {
                fn name() -> std::borrow::Cow<'static, str> {
                    $told.into()
                }

                fn schemas(schemas: &mut Vec<(String, everturn_http::document::AnySchema)>) {
                    $(
                        schemas.push((<$other>::name().into_owned(), <$other as utoipa::PartialSchema>::schema()));
                        <$other>::schemas(schemas);
                    )*
                    let _ = schemas;
                }
            }
        )*
    };
}
pub(crate) use described;

/// A type by its name.
pub(crate) fn of(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Any JSON but `null`, which is the same as nothing.
pub(crate) fn something() -> Value {
    json!({ "type": ["object", "array", "string", "number", "boolean"] })
}

/// Exactly one of these fields is there: the same thing under different names.
pub(crate) fn one_named(names: &[&str]) -> Value {
    names.iter().map(|name| json!({ "required": [name] })).collect()
}

/// The session of a path or a body.
pub(crate) fn session() -> AnySchema {
    document::schema(json!({
        "type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$", "examples": ["session-abc123"],
        "description": "The session",
    }))
}

/// Values of a recipe's parameters.
pub(crate) fn values() -> AnySchema {
    let keywords = value_map();
    document::schema(json!({ "type": ["object", "null"], "additionalProperties": keywords["additionalProperties"],
        "description": "Values of the recipe's parameters" }))
}

/// Values of a recipe's parameters that must be there.
fn value_map() -> Value {
    json!({
        "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] },
        "description": "Values of the recipe's parameters, by key",
    })
}

/// A recipe that a session is made with.
pub(crate) fn recipe_in() -> AnySchema {
    document::schema(recipe::request())
}

/// A text of JSON that is a recipe, or nothing.
pub(crate) fn recipe_out() -> AnySchema {
    document::schema(
        json!({ "oneOf": [of("goose.Recipe"), { "type": "null" }], "description": "Its recipe, unrendered" }),
    )
}

/// A conversation that was kept.
pub(crate) fn said() -> AnySchema {
    document::schema(json!({
        "type": ["array", "null"], "items": of("goose.HistoryMessage"), "maxItems": 10_000,
        "description": "What was said, as a server of Goose or this one gave it out",
    }))
}

/// A conversation as the releases have it.
pub(crate) fn conversation() -> AnySchema {
    document::schema(json!({
        "type": ["array", "null"], "items": of("goose.ReleasedMessage"),
        "description": "What was said; null in lists",
    }))
}

/// The session of a path or a query.
pub(crate) struct SessionParam;

impl utoipa::PartialSchema for SessionParam {
    fn schema() -> AnySchema {
        session()
    }
}

impl utoipa::ToSchema for SessionParam {}

described! {
    /// `userRecipeValues`, under either name.
    RecipeValues = "goose.RecipeValues", [], json!({
        "type": "object",
        "properties": { "userRecipeValues": value_map(), "user_recipe_values": value_map() },
        "oneOf": one_named(&["userRecipeValues", "user_recipe_values"]),
    });
    /// A word on a call.
    Decision = "goose.ToolConfirmation", [], json!({
        "type": "object",
        "required": ["id", "action"],
        "properties": {
            "id": { "type": "string", "description": "The id of the tool request", "examples": ["call_0197f2ab"] },
            "action": {
                "enum": ["allow_once", "always_allow", "deny_once", "deny", "always_deny", "cancel"],
                "description": "Those with `always` count for all later calls of the tool in all sessions; `cancel` ends \
                    the turn",
            },
            "sessionId": { "type": ["string", "null"], "description": "The session, if it is to be looked at too" },
            "session_id": { "type": ["string", "null"], "description": "The same" },
        },
        "not": { "required": ["sessionId", "session_id"] },
    });
    /// What a fork is asked for.
    Fork = "goose.Fork", [], json!({
        "type": "object",
        "properties": {
            "timestamp": {
                "type": ["number", "string", "null"], "format": "date-time",
                "description": "Seconds since 1970, or a time: what was said in this second and later goes",
            },
            "message_id": {
                "type": ["string", "null"], "description": "This message and all after it go; comes before `timestamp`",
            },
            "truncate": { "type": "boolean", "default": false, "description": "Whether anything goes" },
            "copy": { "type": "boolean", "default": false, "description": "Whether another session is made" },
        },
        "anyOf": [
            { "properties": { "truncate": { "const": false } } },
            { "required": ["timestamp"], "properties": { "timestamp": { "type": ["number", "string"] } } },
            { "required": ["message_id"], "properties": { "message_id": { "type": "string" } } },
        ],
    });
    /// Nothing, in an object.
    Nothing = "goose.Nothing", [], json!({ "type": "object", "maxProperties": 0 });
}
