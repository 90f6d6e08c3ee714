//! Conversations as clients send them.

use serde_json::{Value, json};

use super::{
    described, of, one_named, something,
    speech::{ImageItem, aside, item, metadata, moment, text},
};

/// Items that stand for nothing that was said.
const PASSED_OVER: [&str; 4] = ["actionRequired", "action_required", "elicitationResponse", "elicitation_response"];

fn call_id() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": 256 })
}

fn tool_call() -> Value {
    let call = json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": { "type": "string", "minLength": 1, "maxLength": 256 },
            "arguments": { "type": ["object", "string", "null"], "description": "An object, or the text of one" },
            "value": { "type": "null" },
        },
    });
    let value = json!({ "type": "object", "required": ["value"], "properties": { "value": call } });
    let error = json!({
        "type": "object", "required": ["error"],
        "properties": { "error": something(), "value": { "type": "null" }, "name": { "type": "null" } },
    });
    json!({ "description": "A call, by itself or in the wrapping of the releases", "anyOf": [call, value, error] })
}

fn tool_request() -> Value {
    let call = of("goose.ToolCall");
    let types = ["toolRequest", "tool_request", "frontendToolRequest", "frontend_tool_request"];
    let mut request = item(&types, &["id"], json!({ "id": call_id(), "toolCall": call, "tool_call": call }));
    request["oneOf"] = one_named(&["toolCall", "tool_call"]);
    request
}

/// What a tool said: a text, or items that results may have.
fn contents() -> Value {
    let resource = json!({
        "type": "object", "properties": { "uri": { "type": ["string", "null"] }, "text": { "type": ["string", "null"] } },
    });
    let items = json!({ "anyOf": [
        text(), of("goose.ImageItem"),
        item(&["resource"], &["resource"], json!({ "resource": resource })),
        item(&["resource_link", "resourceLink"], &["uri"], json!({ "uri": { "type": "string" } })),
        item(&["audio"], &[], json!({})),
        // What is not for models is not looked at.
        {
            "type": "object", "required": ["type", "annotations"],
            "properties": {
                "type": { "type": "string" },
                "annotations": { "type": "object", "required": ["audience"], "properties": {
                    "audience": { "type": "array", "items": { "type": "string", "not": { "const": "assistant" } } },
                } },
            },
        },
    ] });
    json!({ "oneOf": [{ "type": "string" }, { "type": "array", "maxItems": 10_000, "items": items }] })
}

fn tool_result() -> Value {
    let flag = || json!({ "type": ["boolean", "null"] });
    let result = json!({
        "type": "object",
        "properties": {
            "content": of("goose.ToolOutput"), "structuredContent": {}, "structured_content": {},
            "isError": flag(), "is_error": flag(), "value": { "type": "null" },
        },
        "anyOf": [
            { "required": ["content"] },
            { "required": ["structuredContent"], "properties": { "structuredContent": something() } },
            { "required": ["structured_content"], "properties": { "structured_content": something() } },
        ],
        "not": { "anyOf": [
            { "required": ["isError", "is_error"] }, { "required": ["structuredContent", "structured_content"] },
        ] },
    });
    let value = json!({
        "type": "object", "required": ["value"], "properties": { "value": { "anyOf": [of("goose.ToolOutput"), result] } },
    });
    let error = json!({
        "type": "object", "required": ["error"],
        "properties": { "error": something(), "value": { "type": "null" }, "content": { "type": "null" } },
    });
    let described = "What a tool said, by itself or in the wrapping of MCP, of the releases, or of both";
    json!({ "description": described, "anyOf": [of("goose.ToolOutput"), result, value, error] })
}

fn tool_response() -> Value {
    let result = of("goose.ToolResult");
    let own = json!({ "id": call_id(), "toolResult": result, "tool_result": result });
    let mut response = item(&["toolResponse", "tool_response"], &["id"], own);
    response["oneOf"] = one_named(&["toolResult", "tool_result"]);
    response
}

fn said_by(role: &str, own: Vec<Value>) -> Value {
    let image = of("goose.ImageItem");
    let mut items = vec![text(), image, tool_response(), aside(), item(&PASSED_OVER, &[], json!({}))];
    items.extend(own);
    json!({
        "type": "object",
        "required": ["role", "content"],
        "properties": {
            "id": { "type": ["string", "null"] },
            "role": { "const": role },
            "content": { "oneOf": [
                { "type": "string" }, { "type": "array", "maxItems": 10_000, "items": { "anyOf": items } },
            ] },
            "created": moment(),
            "created_at": moment(),
            "metadata": metadata(),
        },
    })
}

described! {
    /// A call of a tool.
    ToolCall = "goose.ToolCall", [], tool_call();
    /// What a tool said.
    ToolOutput = "goose.ToolOutput", [ImageItem], contents();
    /// What came of a call.
    ToolResult = "goose.ToolResult", [ToolOutput], tool_result();
    /// A message of a conversation that a client sends.
    HistoryMessage = "goose.HistoryMessage", [ImageItem, ToolCall, ToolResult], {
        let thinking = item(&["thinking"], &["thinking"], json!({ "thinking": { "type": "string" } }));
        let reasoning = item(&["reasoning"], &["text"], json!({ "text": { "type": "string" } }));
        json!({
            "description": "A message of a conversation, in either style. The results of tools stand in messages of the \
                user's",
            "oneOf": [said_by("user", Vec::new()), said_by("assistant", vec![tool_request(), thinking, reasoning])],
        })
    };
}
