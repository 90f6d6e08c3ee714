//! Recipes.

use serde_json::{Value, json};

use super::described;

/// A recipe that a client sends. What is unknown in it is passed over.
pub(super) fn request() -> Value {
    let text = |bytes: usize| json!({ "type": ["string", "null"], "maxLength": bytes });
    let texts = |most: usize, bytes: usize| json!({ "type": ["array", "null"], "maxItems": most, "items": { "type": "string", "maxLength": bytes } });
    json!({
        "type": ["object", "null"],
        "description": "A recipe. Names in `{{ }}` are those of its parameters, and what it needs must be on this server",
        "required": ["title", "description"],
        "properties": {
            "version": { "type": ["string", "null"], "pattern": r"^\S{1,64}$" },
            "title": { "type": "string", "pattern": r"\S", "maxLength": 1000 },
            "description": { "type": "string", "maxLength": 64 << 10 },
            "instructions": text(512 << 10),
            "prompt": text(512 << 10),
            "activities": texts(100, 16 << 10),
            "extensions": { "type": ["array", "null"], "maxItems": 100, "items": {
                "type": "object", "required": ["type", "name"],
                "properties": {
                    "type": { "type": "string", "maxLength": 256 },
                    "name": { "type": "string", "pattern": r"\S", "maxLength": 256 },
                    "description": text(64 << 10),
                    "available_tools": texts(1000, 256),
                },
            } },
            "settings": settings(),
            "author": { "type": ["object", "null"], "properties": { "contact": text(4000), "metadata": text(4000) } },
            "parameters": { "type": ["array", "null"], "maxItems": 100, "items": parameter() },
            "response": { "type": ["object", "null"], "properties": {
                "json_schema": { "type": ["object", "null"], "description": "What the last answer is to look like" },
            } },
            "recipe": { "type": "null" },
        },
        "anyOf": [
            { "required": ["instructions"], "properties": { "instructions": { "type": "string", "pattern": r"\S" } } },
            { "required": ["prompt"], "properties": { "prompt": { "type": "string", "pattern": r"\S" } } },
        ],
    })
}

fn settings() -> Value {
    let name = || json!({ "type": ["string", "null"], "maxLength": 256 });
    json!({
        "type": ["object", "null"],
        "properties": {
            "goose_provider": name(),
            "goose_model": name(),
            "temperature": { "type": ["number", "null"], "minimum": 0, "maximum": 2 },
            "max_turns": { "type": ["integer", "null"], "minimum": 1, "maximum": u32::MAX },
        },
        "anyOf": [
            { "properties": { "goose_provider": { "type": "null" } } },
            { "required": ["goose_model"], "properties": { "goose_model": { "type": "string" } } },
        ],
    })
}

fn parameter() -> Value {
    let scalar = json!({ "type": ["string", "number", "boolean"], "maxLength": 256 });
    json!({
        "type": "object",
        "description": "No two have the same key",
        "required": ["key"],
        "properties": {
            "key": { "type": "string", "pattern": r"\S", "maxLength": 256 },
            "input_type": { "enum": ["string", "number", "boolean", "date", "file", "select"], "default": "string" },
            "requirement": { "enum": ["required", "optional", "user_prompt"], "default": "required" },
            "description": { "type": ["string", "null"], "maxLength": 64 << 10 },
            "default": { "type": ["string", "number", "boolean", "null"], "maxLength": 64 << 10 },
            "options": { "type": ["array", "null"], "maxItems": 1000, "items": scalar },
        },
        "anyOf": [
            { "properties": { "input_type": { "not": { "const": "select" } } } },
            { "required": ["options"], "properties": { "options": { "type": "array", "minItems": 1 } } },
        ],
    })
}

described! {
    /// A recipe.
    RecipeOut = "goose.Recipe", [], {
        let text = || json!({ "type": "string" });
        let texts = || json!({ "type": "array", "items": text() });
        json!({
            "type": "object",
            "required": ["version", "title", "description"],
            "properties": {
                "version": text(), "title": text(), "description": text(), "instructions": text(), "prompt": text(),
                "extensions": { "type": "array", "items": {
                    "type": "object",
                    "required": ["type", "name", "description", "available_tools"],
                    "properties": {
                        "type": text(), "name": text(), "description": text(), "available_tools": texts(),
                    },
                } },
                "settings": { "type": "object", "properties": {
                    "goose_provider": text(), "goose_model": text(), "temperature": { "type": "number" },
                    "max_turns": { "type": "integer", "minimum": 1 },
                } },
                "activities": texts(),
                "author": { "type": "object", "properties": { "contact": text(), "metadata": text() } },
                "parameters": { "type": "array", "items": {
                    "type": "object",
                    "required": ["key", "input_type", "requirement", "description"],
                    "properties": {
                        "key": text(),
                        "input_type": { "enum": ["string", "number", "boolean", "date", "file", "select"] },
                        "requirement": { "enum": ["required", "optional", "user_prompt"] },
                        "description": text(), "default": text(), "options": texts(),
                    },
                } },
                "response": { "type": "object", "properties": { "json_schema": {} } },
            },
        })
    };
}
