//! What the requests of each operation are filled with. What is not in these lists fails the walk: whoever adds a route, a
//! parameter or a field that can name something says here what it names.

use serde_json::{Value, json};

use super::document::{Operation, Parameter};

/// What a parameter is filled with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fill {
    /// The name of a thing of this kind.
    Name(&'static str),
    /// This, which names nothing.
    Plain(&'static str),
    /// Nothing.
    Absent,
}

/// What a parameter names.
pub(super) fn parameter(operation: &str, parameter: &Parameter) -> Option<Fill> {
    Some(match (parameter.place.as_str(), parameter.name.as_str()) {
        ("path", "session") | ("query", "session_id") => Fill::Name("session"),
        ("path", "id") if operation.starts_with("aap_") => Fill::Name("session"),
        ("path", "turn") => Fill::Name("turn"),
        ("path", "form") => Fill::Name("form"),
        ("path", "artifact") => Fill::Name("artifact"),
        ("path", "document") => Fill::Name("document"),
        ("path", "agent" | "model") | ("query", "agent") => Fill::Name("agent"),
        ("path", "tool") => Fill::Name("tool"),
        ("path", "key" | "key_id") | ("query", "key_id") => Fill::Name("key"),
        ("query", "after") => Fill::Name("after"),
        ("query", "cursor") => Fill::Name(cursor(operation)?),
        ("query", "type") => Fill::Plain("full"),
        ("query", "limit") => Fill::Plain("1"),
        ("query", "extension_name") => Fill::Plain("box"),
        ("query", "query") => Fill::Plain("hi"),
        ("query", "after_date" | "before_date") => Fill::Absent,
        ("query", "history" | "as" | "since" | "version" | "status" | "from" | "to" | "group_by" | "model") => {
            Fill::Absent
        }
        ("header", "Idempotency-Key") => Fill::Name("idempotency"),
        ("header", "Last-Event-ID") if operation == "goose_released_watch_session" => Fill::Name("event"),
        ("header", "Last-Event-ID") => Fill::Plain("1"),
        ("header", "If-None-Match") if operation == "native_download_artifact" => Fill::Name("artifact_tag"),
        ("header", "If-None-Match") if operation == "native_download_document" => Fill::Name("document_tag"),
        ("header", "If-None-Match") if operation == "ops_document" => Fill::Absent,
        _ => return None,
    })
}

/// The lists, each with the kind of its cursors.
fn cursor(operation: &str) -> Option<&'static str> {
    Some(match operation {
        "native_list_sessions" => "sessions_cursor",
        "native_list_messages" => "messages_cursor",
        "native_list_forms" => "forms_cursor",
        "native_list_artifacts" => "artifacts_cursor",
        "native_list_documents" => "documents_cursor",
        "native_list_agents" => "agents_cursor",
        "native_list_permissions" => "permissions_cursor",
        "native_list_keys" => "keys_cursor",
        "native_usage" => "usage_cursor",
        _ => return None,
    })
}

/// One way to call an operation.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// What it is about, for those who read of a failure.
    pub(super) about: &'static str,
    /// The body, with `<kind>` in the place of every name; null if there is none.
    pub(super) body: Value,
    /// What somebody is told who names what is another's.
    pub(super) status: u16,
}

fn case(about: &'static str, body: Value) -> Case {
    Case { about, body, status: 404 }
}

fn said(text: &str) -> Value {
    json!({ "role": "user", "created": 1, "content": [{ "type": "text", "text": text }] })
}

/// The ways to call an operation.
pub(super) fn cases(operation: &Operation) -> Option<Vec<Case>> {
    let id = operation.id.as_str();
    let told = |status| vec![Case { about: "", body: Value::Null, status }];
    if !operation.has_body {
        let names_none = operation.parameters.iter().all(|parameter| !parameter.is_required);
        return Some(match id {
            // There is nothing to stop.
            "native_stop_session" | "native_stop_message" => told(204),
            // What is another's is not found.
            "goose_released_search_sessions" => told(200),
            // Lists and pages that begin nowhere.
            _ if names_none => told(200),
            _ => told(404),
        });
    }
    let with = |about, status, body| Case { about, body, status };
    let dialect = id.replacen("aap_root_", "aap_v1_", 1);
    Some(match dialect.as_str() {
        "aap_v1_create_session" => vec![with(
            "agent",
            400,
            json!({ "agent": { "name": "<agent>" }, "messages": [{ "role": "user", "content": "hi" }] }),
        )],
        "aap_v3_create_session" => vec![with("agent", 400, json!({ "agent": { "name": "<agent>" } }))],
        "aap_v1_run_turn" | "aap_v3_run_turn" => vec![
            case("message", json!({ "messages": [{ "role": "user", "content": "hi" }] })),
            case("result", json!({ "messages": [{ "role": "tool", "toolCallId": "<call>", "content": "x" }] })),
            case(
                "word",
                json!({ "messages": [{ "role": "tool_permission", "toolCallId": "<call>", "granted": true }] }),
            ),
            case("agent", json!({ "agent": { "name": "<agent>" }, "messages": [{ "role": "user", "content": "hi" }] })),
        ],
        "native_create_agent" => {
            vec![with("id", 201, json!({ "agent_id": "<agent>", "name": "Other", "model": "demo/load" }))]
        }
        "native_change_agent" => vec![case("name", json!({ "name": "Other" }))],
        "native_send_message" => vec![
            case("session", json!({ "session_id": "<session>", "message": "hi" })),
            case("queue", json!({ "session_id": "<session>", "message": "hi", "on_busy": "enqueue" })),
            case("interruption", json!({ "session_id": "<session>", "message": "hi", "on_busy": "interrupt" })),
            case("agent", json!({ "agent_id": "<agent>", "message": "hi" })),
            case("agent in session", json!({ "session_id": "<session>", "agent_id": "<agent>", "message": "hi" })),
            case("documents", json!({ "message": "hi", "document_ids": ["<document>"] })),
            case("documents in session", json!({ "session_id": "<session>", "document_ids": ["<document>"] })),
            case("form", json!({ "session_id": "<session>", "form_id": "<form>", "form_answer": { "word": "blue" } })),
            case("form in words", json!({ "session_id": "<session>", "form_id": "<form>", "message": "blue" })),
        ],
        "native_rename_session" => vec![case("title", json!({ "title": "Other" }))],
        "native_fork_session" => vec![case("whole", json!({})), case("part", json!({ "at_message_id": "<turn>" }))],
        "native_truncate_session" => vec![case("part", json!({ "at_message_id": "<turn>" }))],
        "native_create_stream_token" => vec![case("plain", json!({}))],
        "goose_released_confirm_tool" => vec![
            case("call", json!({ "id": "<waiting_call>", "action": "allow_once" })),
            case("always", json!({ "id": "<waiting_call>", "action": "always_allow", "sessionId": "<session>" })),
            case("other name", json!({ "id": "<waiting_call>", "action": "deny_once", "session_id": "<session>" })),
            case("cancel", json!({ "id": "<waiting_call>", "action": "cancel" })),
        ],
        "goose_released_resume_agent" => {
            vec![case("session", json!({ "session_id": "<session>", "load_model_and_extensions": true }))]
        }
        "goose_released_start_agent" => vec![with("agent", 422, json!({ "agent": "<agent>" }))],
        "goose_released_stop_agent" | "goose_released_update_from_session" | "goose_released_restart_agent" => {
            vec![case("session", json!({ "session_id": "<session>" }))]
        }
        "goose_released_add_extension" => {
            vec![case("session", json!({ "session_id": "<session>", "config": { "name": "box", "type": "builtin" } }))]
        }
        "goose_released_remove_extension" => {
            vec![case("session", json!({ "session_id": "<session>", "name": "box" }))]
        }
        "goose_released_call_tool" => vec![case("session", json!({ "session_id": "<session>", "name": "box__look" }))],
        "goose_released_read_resource" => {
            vec![case("session", json!({ "session_id": "<session>", "extension_name": "box", "uri": "box://a" }))]
        }
        "goose_released_update_session" => {
            vec![case("session", json!({ "session_id": "<session>", "goose_mode": "auto" }))]
        }
        "goose_released_update_provider" => {
            vec![case("session", json!({ "session_id": "<session>", "provider": "demo", "model": "load" }))]
        }
        "goose_released_update_working_dir" => {
            vec![case("session", json!({ "session_id": "<session>", "working_dir": "there" }))]
        }
        // A session of that name is made: each tenant has its own.
        "goose_reply" | "goose_released_reply" => vec![
            with(
                "session",
                200,
                json!({ "session_id": "<session>", "agent": "demo", "user_message": said("stream 1") }),
            ),
            with("agent", 422, json!({ "agent": "<agent>", "user_message": said("stream 1") })),
            with(
                "repetition",
                200,
                json!({
                    "session_id": "<session>", "agent": "demo",
                    "user_message": { "id": "<message_name>", "role": "user", "created": 1,
                        "content": [{ "type": "text", "text": "stream 1" }] },
                }),
            ),
            with(
                "answer",
                404,
                json!({
                    "session_id": "<session>", "agent": "demo",
                    "user_message": { "role": "user", "created": 1, "content": [{ "type": "actionRequired",
                        "data": { "actionType": "elicitationResponse", "id": "<form>", "userData": { "word": "x" } } }] },
                }),
            ),
        ],
        "goose_released_import_session" => {
            let text = |role| json!({ "role": role, "created": 1, "content": [{ "type": "text", "text": "hi" }] });
            // An agent that is not there is no reason to refuse the rest.
            vec![with("agent", 200, json!({ "agent": "<agent>", "conversation": [text("user"), text("assistant")] }))]
        }
        "goose_released_cancel_request" => vec![case("request", json!({ "request_id": "<request>" }))],
        "goose_released_fork_session" => vec![
            case("copy", json!({ "copy": true })),
            case("cut", json!({ "truncate": true, "message_id": "<said>" })),
            case("both", json!({ "truncate": true, "copy": true, "message_id": "<said>" })),
        ],
        "goose_released_rename_session" => vec![case("name", json!({ "name": "Other" }))],
        "goose_released_session_reply" => vec![
            case("message", json!({ "request_id": "<request>", "user_message": said("hi") })),
            case(
                "named message",
                json!({ "request_id": "<request>", "user_message": {
                "id": "<message_name>", "role": "user", "created": 1, "content": [{ "type": "text", "text": "hi" }] } }),
            ),
            case(
                "answer",
                json!({ "request_id": "<request>", "user_message": {
                "role": "user", "created": 1, "content": [{ "type": "actionRequired",
                    "data": { "actionType": "elicitationResponse", "id": "<form>", "userData": { "word": "x" } } }] } }),
            ),
        ],
        "goose_released_set_recipe_values" => vec![case("values", json!({ "userRecipeValues": { "place": "here" } }))],
        "openai_chat" => {
            let call = json!({ "id": "<shown_call>", "type": "function", "function": { "name": "lookup", "arguments": "{}" } });
            let result = json!({ "role": "tool", "tool_call_id": "<shown_call>", "content": "x" });
            let asked = json!({ "role": "user", "content": "stream 1" });
            vec![
                case("session", json!({ "model": "demo", "session_id": "<session>", "messages": [asked] })),
                case("result in session", json!({ "model": "demo", "session_id": "<session>", "messages": [result] })),
                // All that was said comes along, so a call that waits nowhere is history.
                with(
                    "result",
                    200,
                    json!({ "model": "demo", "messages": [asked,
                    { "role": "assistant", "content": null, "tool_calls": [call] }, result] }),
                ),
                case("model", json!({ "model": "<agent>", "messages": [asked] })),
                with(
                    "file",
                    400,
                    json!({ "model": "demo", "messages": [{ "role": "user", "content": [
                        { "type": "text", "text": "stream 1" }, { "type": "file", "file": { "file_id": "<document>" } },
                    ] }] }),
                ),
            ]
        }
        // Nothing in it names anything.
        "native_upload_document"
        | "native_create_key"
        | "goose_released_read_config"
        | "goose_released_upsert_config"
        | "goose_released_change_permissions"
        | "goose_released_decode_recipe" => Vec::new(),
        _ => return None,
    })
}

/// Fields that look as if they named something of somebody's, and do not: the end of their place, and what they are.
const NOT_NAMES: &[(&str, &str, &str)] = &[
    ("native_create_agent", ".model", "a model of the server"),
    ("native_change_agent", ".model", "a model of the server"),
    ("native_change_agent", ".agent_id", "what a path says already; it is refused"),
    ("goose_released_update_provider", ".model", "a model of the server"),
    ("goose_released_read_config", ".key", "a setting"),
    ("goose_released_upsert_config", ".key", "a setting"),
    ("", ".recipe_id", "a recipe of the server"),
    ("", ".parameters[].key", "a parameter of the recipe that comes along"),
    ("", ".goose_model", "a model, in a recipe that comes along"),
    ("", "conversation[].id", "a message that comes along"),
    ("", "conversation[].content[].id", "a call that comes along"),
    ("goose_released_import_session", ".messages[].id", "a message that comes along"),
    ("goose_released_import_session", ".messages[].content[].id", "a call that comes along"),
    ("", ".user_message.content[].id", "refused: people make no calls"),
    ("aap_", ".messages[].content[].toolCallId", "a call that comes along"),
    ("aap_v1_create", ".messages[].toolCallId", "the result of a call that comes along"),
    ("aap_v3_create", ".messages[].toolCallId", "the result of a call that comes along"),
    ("aap_root_create", ".messages[].toolCallId", "the result of a call that comes along"),
];

/// The fields of an operation's body that no case fills, though they may name something.
pub(super) fn forgotten(operation: &Operation, cases: &[Case]) -> Vec<String> {
    let filled: Vec<String> = cases.iter().flat_map(|case| names_in(&case.body, "")).collect();
    let is_known = |field: &str| {
        filled.iter().any(|place| place.trim_end_matches("[]") == field.trim_end_matches("[]"))
            || NOT_NAMES.iter().any(|(of, end, _)| operation.id.starts_with(of) && field.ends_with(end))
            // What has fields is no name itself.
            || operation.fields.iter().any(|other| other.starts_with(&format!("{field}.")))
    };
    operation.fields.iter().filter(|field| !is_known(field)).cloned().collect()
}

/// The places in a body that have a name in them.
fn names_in(body: &Value, place: &str) -> Vec<String> {
    match body {
        Value::String(text) if text.starts_with('<') => vec![place.to_owned()],
        Value::Array(all) => all.iter().flat_map(|one| names_in(one, &format!("{place}[]"))).collect(),
        Value::Object(all) => all.iter().flat_map(|(name, one)| names_in(one, &format!("{place}.{name}"))).collect(),
        _ => Vec::new(),
    }
}
