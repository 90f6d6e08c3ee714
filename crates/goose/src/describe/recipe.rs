//! Recipes.

use serde_json::{Value, json};

use super::described;

/// A recipe that a client sends. What is unknown in it is passed over.
pub(super) fn request() -> Value {
    let text = |bytes: usize| json!({ "type": ["string", "null"], "maxLength": bytes });
    json!({
        "type": ["object", "null"],
        "description": "A recipe. Names in `{{ }}` are those of its parameters",
        "required": ["title", "description"],
        "properties": {
            "version": { "type": ["string", "null"], "pattern": r"^\S{1,64}$" },
            "title": { "type": "string", "pattern": r"\S", "maxLength": 1000 },
            "description": { "type": "string" },
            "instructions": text(512 << 10),
            "prompt": text(512 << 10),
            "extensions": { "type": ["array", "null"], "maxItems": 100, "items": {
                "type": "object", "required": ["type", "name"],
                "properties": { "type": { "type": "string" }, "name": { "type": "string", "pattern": r"\S" } },
            } },
            "settings": { "type": ["object", "null"], "properties": {
                "goose_provider": text(256), "goose_model": text(256),
                "temperature": { "type": ["number", "null"], "minimum": 0, "maximum": 2 },
                "max_turns": { "type": ["integer", "null"], "minimum": 1, "maximum": u32::MAX },
            } },
            "parameters": { "type": ["array", "null"], "maxItems": 100, "items": parameter() },
        },
        "anyOf": [
            { "required": ["instructions"], "properties": { "instructions": { "type": "string", "pattern": r"\S" } } },
            { "required": ["prompt"], "properties": { "prompt": { "type": "string", "pattern": r"\S" } } },
        ],
    })
}

fn parameter() -> Value {
    json!({
        "type": "object",
        "required": ["key"],
        "properties": {
            "key": { "type": "string" },
            "input_type": { "enum": ["string", "number", "boolean", "date", "file", "select"], "default": "string" },
            "requirement": { "enum": ["required", "optional", "user_prompt"], "default": "required" },
        },
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
