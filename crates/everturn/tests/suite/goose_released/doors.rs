//! All doors under `/goose`, each with a request that it takes, for tests that walk through all of them.

use serde_json::{Value, json};

use super::world::{Chat, said, uuid};

/// What a key must allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Read,
    Chat,
}

/// A door.
pub(super) struct Door {
    pub(super) method: &'static str,
    pub(super) path: String,
    /// A body that is fine, if it wants one.
    pub(super) body: Option<Value>,
    pub(super) needs: Needs,
    /// Whether it is about one session.
    pub(super) of_session: bool,
}

/// A recipe in a link, as the desktop makes it.
pub(super) const RECIPE: &str = "eyJ0aXRsZSI6Ik1pbmUiLCJkZXNjcmlwdGlvbiI6Ik1pbmUiLCJwcm9tcHQiOiJTYXkgaGVsbG8uIn0";

/// All of them, about a session and a call that waits in it. What ends something comes last.
pub(super) fn doors(chat: &Chat, call: &str) -> Vec<Door> {
    let id = &chat.id;
    let path = |rest: &str| format!("/sessions/{id}{rest}");
    let door = |method, path: String, body: Value, needs| {
        let body = (!body.is_null()).then_some(body);
        let of_session = path.contains(id.as_str()) || body.as_ref().is_some_and(|body| body.to_string().contains(id));
        Door { method, path: format!("/goose{path}"), body, needs, of_session }
    };
    let (read, chat) = (Needs::Read, Needs::Chat);
    let none = Value::Null;
    vec![
        door("GET", "/recipes/list".to_owned(), none.clone(), read),
        door("GET", "/sessions".to_owned(), none.clone(), read),
        door("GET", path(""), none.clone(), read),
        door("GET", path("/export"), none.clone(), read),
        door("GET", format!("/agent/tools?session_id={id}"), none.clone(), read),
        door("GET", "/sessions/search?query=hello".to_owned(), none.clone(), read),
        door("GET", "/sessions/insights".to_owned(), none.clone(), read),
        door("GET", path("/extensions"), none.clone(), read),
        door("GET", "/config".to_owned(), none.clone(), read),
        door("GET", "/config/providers".to_owned(), none.clone(), read),
        door("GET", "/config/extensions".to_owned(), none.clone(), read),
        door("GET", "/config/permissions".to_owned(), none.clone(), read),
        door("GET", "/config/slash_commands?working_dir=/tmp".to_owned(), none.clone(), read),
        door("POST", "/config/read".to_owned(), json!({ "key": "GOOSE_PROVIDER", "is_secret": false }), read),
        door("GET", format!("/agent/list_apps?session_id={id}"), none.clone(), read),
        door("POST", "/agent/resume".to_owned(), json!({ "session_id": id, "load_model_and_extensions": true }), read),
        door("GET", path("/events"), none.clone(), read),
        door("POST", "/agent/start".to_owned(), json!({ "working_dir": "/tmp" }), chat),
        door("POST", "/agent/update_from_session".to_owned(), json!({ "session_id": id }), chat),
        door(
            "POST",
            "/config/upsert".to_owned(),
            json!({ "key": "GOOSE_MODE", "value": "smart_approve", "is_secret": false }),
            chat,
        ),
        door(
            "POST",
            "/config/permissions".to_owned(),
            json!({ "tool_permissions": [{ "tool_name": "box__write", "permission": "ask_before" }] }),
            chat,
        ),
        door("POST", "/agent/restart".to_owned(), json!({ "session_id": id }), chat),
        door(
            "POST",
            "/agent/update_session".to_owned(),
            json!({ "session_id": id, "goose_mode": "smart_approve" }),
            chat,
        ),
        door(
            "POST",
            "/agent/update_provider".to_owned(),
            json!({ "session_id": id, "provider": "script", "model": "model" }),
            chat,
        ),
        door("POST", "/agent/update_working_dir".to_owned(), json!({ "session_id": id, "working_dir": "/tmp" }), chat),
        door("POST", "/agent/remove_extension".to_owned(), json!({ "session_id": id, "name": "box" }), chat),
        door("POST", "/agent/add_extension".to_owned(), json!({ "session_id": id, "config": { "name": "box" } }), chat),
        door(
            "POST",
            "/agent/call_tool".to_owned(),
            json!({ "session_id": id, "name": "clock", "arguments": {} }),
            chat,
        ),
        door(
            "POST",
            "/agent/read_resource".to_owned(),
            json!({ "session_id": id, "extension_name": "box", "uri": "ui://box/page" }),
            chat,
        ),
        door("POST", "/recipes/decode".to_owned(), json!({ "deeplink": RECIPE }), chat),
        door("POST", "/sessions/import".to_owned(), json!({ "conversation": [] }), chat),
        door("PUT", path("/name"), json!({ "name": "Theirs" }), chat),
        door("PUT", path("/user_recipe_values"), json!({ "userRecipeValues": {} }), chat),
        door("POST", path("/fork"), json!({ "copy": true, "truncate": false }), chat),
        door("POST", path("/cancel"), json!({ "request_id": uuid(1) }), chat),
        door("POST", path("/reply"), json!({ "request_id": uuid(7), "user_message": said("hi") }), chat),
        door(
            "POST",
            "/action-required/tool-confirmation".to_owned(),
            json!({ "id": call, "action": "allow_once", "sessionId": id }),
            chat,
        ),
        door("POST", "/agent/stop".to_owned(), json!({ "session_id": id }), chat),
        door("POST", "/reply".to_owned(), json!({ "user_message": said("hi") }), chat),
        door("DELETE", path(""), none, chat),
    ]
}
