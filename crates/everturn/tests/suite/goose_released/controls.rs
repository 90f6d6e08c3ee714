//! The desktop's controls of a session: its mode, model, folder and extensions, and calls of its tools by a page.

use serde_json::{Value, json};

use super::world::{Chat, World, text};
use crate::suite::harness::{Answer, Client, Reply, asked, script};

#[track_caller]
fn send(client: &Client, path: &str, body: &Value) -> Answer {
    client.send("POST", &format!("/goose{path}"), &body.to_string())
}

#[track_caller]
fn done(client: &Client, path: &str, body: &Value) {
    let answer = send(client, path, body);
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
}

#[track_caller]
fn refused(answer: &Answer, status: u16, hint: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    let message = answer.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains(hint), "{message}");
}

/// The tools that the model was given in the last request of a script.
fn given(script: &str) -> Vec<String> {
    let requests = asked(script);
    let tools = requests.last().unwrap()["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

/// A script that calls a tool and is done.
fn calls(name: &str, tool: &str) {
    script(name, [Reply::calls(&[(tool, json!({ "line": name }))]), Reply::says(&["Done."])]);
}

#[test]
fn a_mode_says_which_tools_ask() {
    for (name, tool) in [("mode-ask", "box__look"), ("mode-auto", "box__append"), ("mode-smart", "box__look")] {
        calls(name, tool);
    }
    script("mode-chat", [Reply::says(&["Only words."])]);
    let mut world = World::with_keys();
    let chat = Chat::start(&world.client_of("acme"));
    let mode = |chat: &Chat, mode: &str| {
        done(&chat.client, "/agent/update_session", &json!({ "session_id": chat.id, "goose_mode": mode }));
        assert_eq!(chat.show()["goose_mode"], mode);
    };
    assert_eq!(chat.show()["goose_mode"], "smart_approve");
    mode(&chat, "approve");
    let mut events = chat.events();
    chat.say(1, "play mode-ask");
    let (_, call) = events.until_asked();
    chat.decided(&call, "allow_once");
    events.until_finish_of(1);
    // A choice outlives the server.
    mode(&chat, "auto");
    world.crash();
    world.ready();
    let chat = chat.on(&world);
    assert_eq!(text(&chat.run(2, "play mode-auto")), "Done.");
    assert_eq!(world.effects(), ["append mode-auto"], "it did not ask");
    mode(&chat, "chat");
    chat.run(3, "play mode-chat");
    assert_eq!(given("mode-chat"), [] as [&str; 0]);
    mode(&chat, "smart_approve");
    assert_eq!(text(&chat.run(4, "play mode-smart")), "Done.", "the agent trusts this one");
    assert_eq!(given("mode-smart").len(), 11);
    refused(
        &send(&chat.client, "/agent/update_session", &json!({ "session_id": chat.id, "goose_mode": "x" })),
        422,
        "auto",
    );
    // What was denied for good is denied in every mode.
    let denied = json!({ "tool_permissions": [{ "tool_name": "box__append", "permission": "never_allow" }] });
    done(&chat.client, "/config/permissions", &denied);
    mode(&chat, "auto");
    calls("mode-denied", "box__append");
    chat.run(5, "play mode-denied");
    assert_eq!(world.effects(), ["append mode-auto"]);
}

/// A recipe that comes to its values with the first message has its own tools in every mode.
#[test]
fn a_mode_and_a_recipe_go_together() {
    calls("mode-recipe", "box__append");
    let world = World::with_keys();
    let acme = world.client_of("acme");
    done(&acme, "/config/upsert", &json!({ "key": "GOOSE_MODE", "value": "auto", "is_secret": false }));
    let recipe = json!({
        "title": "R", "description": "R", "instructions": "Write {{ what }}.",
        "extensions": [{ "type": "builtin", "name": "box", "available_tools": ["append"] }],
        "parameters": [{ "key": "what", "input_type": "string", "requirement": "required", "description": "w" }],
    });
    let started = send(&acme, "/agent/start", &json!({ "working_dir": "/srv", "recipe": recipe }));
    let chat = Chat::of(&acme, started.json()["id"].as_str().unwrap());
    let values = json!({ "userRecipeValues": { "what": "lines" } });
    assert_eq!(chat.send("PUT", "/user_recipe_values", &values).status, 200);
    assert_eq!(text(&chat.run(1, "play mode-recipe")), "Done.");
    assert_eq!(world.effects(), ["append mode-recipe"], "it did not ask");
    assert_eq!(given("mode-recipe"), ["box__append"]);
}

#[test]
fn the_mode_of_new_sessions_is_the_tenants() {
    let world = World::with_keys();
    let (acme, bob) = (world.client_of("acme"), world.client_of("bob"));
    let set = |key: &str, value: Value| {
        send(&acme, "/config/upsert", &json!({ "key": key, "value": value, "is_secret": false }))
    };
    assert_eq!(set("GOOSE_MODE", json!("approve")).status, 200);
    refused(&set("GOOSE_MODE", json!("wild")), 422, "smart_approve");
    let kept = set("GOOSE_MODEL", json!("gpt-5"));
    assert!(kept.status == 200 && kept.body.contains("not kept"), "{kept:?}");
    let read =
        |client: &Client, key: &str| send(client, "/config/read", &json!({ "key": key, "is_secret": false })).json();
    assert_eq!((read(&acme, "GOOSE_MODE"), read(&acme, "GOOSE_MODEL")), (json!("approve"), json!("model")));
    assert_eq!(read(&bob, "GOOSE_MODE"), "smart_approve");
    assert_eq!(Chat::start(&acme).show()["goose_mode"], "approve");
    assert_eq!(Chat::start(&bob).show()["goose_mode"], "smart_approve");
    let secret = send(&acme, "/config/upsert", &json!({ "key": "OPENAI_API_KEY", "value": "sk-1", "is_secret": true }));
    assert!(secret.status == 200 && !secret.body.contains("sk-1"), "{secret:?}");
    let hidden = send(&acme, "/config/read", &json!({ "key": "OPENAI_API_KEY", "is_secret": true }));
    assert_eq!(hidden.json(), Value::Null);
}

#[test]
fn extensions_come_and_go() {
    for name in ["ext-without", "ext-with"] {
        script(name, [Reply::says(&["Fine."])]);
    }
    let world = World::with_keys();
    let chat = Chat::start(&world.client_of("acme"));
    let extensions = || chat.send("GET", "/extensions", &Value::Null).json()["extensions"].as_array().unwrap().len();
    done(&chat.client, "/agent/remove_extension", &json!({ "session_id": chat.id, "name": "box" }));
    assert_eq!(extensions(), 0);
    chat.run(1, "play ext-without");
    assert_eq!(given("ext-without"), ["clock", "calculator", "request_form"], "its other tools stay");
    let add = |name: &str| {
        let config = json!({ "type": "stdio", "name": name, "description": "", "cmd": "rm", "args": ["-rf"] });
        send(&chat.client, "/agent/add_extension", &json!({ "session_id": chat.id, "config": config }))
    };
    assert_eq!(add("Box").status, 200, "names are compared as Goose does");
    assert_eq!(extensions(), 1);
    chat.run(2, "play ext-with");
    assert!(given("ext-with").contains(&"box__look".to_owned()), "{:?}", given("ext-with"));
    refused(&add("developer"), 403, "[mcp.developer]");
    // A fork has what its session has.
    done(&chat.client, "/agent/remove_extension", &json!({ "session_id": chat.id, "name": "box" }));
    script("ext-gone", [Reply::says(&["Fine."])]);
    chat.run(3, "play ext-gone");
    let fork = chat.send("POST", "/fork", &json!({ "copy": true, "truncate": false })).json()["sessionId"].clone();
    let fork = Chat::of(&chat.client, fork.as_str().unwrap());
    assert_eq!(fork.send("GET", "/extensions", &Value::Null).json()["extensions"], json!([]));
    assert_eq!(add("box").status, 200);
    // A session begins without those that it cannot have, and says so.
    for (wanted, told) in [("developer", json!(["developer"])), ("box", json!(["box"]))] {
        let extension = json!({ "type": "builtin", "name": wanted, "description": "" });
        let start = json!({ "working_dir": "/srv", "extension_overrides": [extension] });
        let session = send(&chat.client, "/agent/start", &start).json()["id"].clone();
        let resume = json!({ "session_id": session, "load_model_and_extensions": true });
        let results = send(&chat.client, "/agent/resume", &resume).json()["extension_results"].clone();
        let names: Vec<_> = results.as_array().unwrap().iter().map(|result| result["name"].clone()).collect();
        assert_eq!(json!(names), told);
        assert_eq!(results[0]["success"], wanted == "box", "{results}");
        let own = Chat::of(&chat.client, session.as_str().unwrap()).send("GET", "/extensions", &Value::Null).json();
        assert_eq!(own["extensions"].as_array().unwrap().len(), usize::from(wanted == "box"), "{own}");
    }
    let listed = chat.client.send("GET", &format!("/goose/agent/tools?session_id={}&extension_name=box", chat.id), "");
    assert_eq!(listed.json().as_array().unwrap().len(), 8);
}

#[test]
fn a_model_is_one_of_the_agents() {
    script("model-chosen", [Reply::says(&["Fine."])]);
    let world = World::with_keys();
    let chat = Chat::start(&world.client_of("acme"));
    let choose = |client: &Client, provider: &str, model: Value| {
        let body = json!({ "session_id": chat.id, "provider": provider, "model": model, "context_limit": 1000, "request_params": {} });
        send(client, "/agent/update_provider", &body)
    };
    assert_eq!(choose(&chat.client, "script", json!("model")).status, 200);
    assert_eq!(choose(&chat.client, "script", Value::Null).status, 200, "the agent's own");
    refused(&choose(&chat.client, "demo", json!("load")), 403, "scope admin");
    refused(&choose(&chat.client, "script", json!("other")), 403, "script/model");
    let admin = world.client_of("acme-admin");
    refused(&choose(&admin, "nowhere", json!("m")), 422, "names no model");
    assert_eq!(choose(&admin, "script", json!("other")).status, 200);
    assert_eq!(chat.show()["model_config"]["model_name"], "other");
    chat.run(1, "play model-chosen");
    assert_eq!(asked("model-chosen")[0]["model"], "other");
    done(&chat.client, "/agent/update_working_dir", &json!({ "session_id": chat.id, "working_dir": "/srv/bob" }));
    assert_eq!(chat.show()["working_dir"], "/srv/bob");
    let long = json!({ "session_id": chat.id, "working_dir": "x".repeat(5000) });
    refused(&send(&chat.client, "/agent/update_working_dir", &long), 422, "4096");
}

#[test]
fn a_page_calls_tools_that_need_not_ask() {
    let world = World::with_keys();
    let chat = Chat::start(&world.client_of("acme"));
    let call = |name: &str, arguments: Value| {
        send(&chat.client, "/agent/call_tool", &json!({ "session_id": chat.id, "name": name, "arguments": arguments }))
    };
    let looked = call("box__look", json!({}));
    assert_eq!(looked.json(), json!({ "content": [{ "type": "text", "text": "nothing to see" }], "isError": false }));
    assert_eq!(call("box__picture", json!({})).json()["content"][0]["mimeType"], "image/png");
    assert_eq!(call("box__fail", Value::Null).json()["isError"], true);
    refused(&call("box__append", json!({ "line": "x" })), 403, "asks first");
    refused(&call("request_form", json!({ "title": "T", "fields": [] })), 422, "only in the conversation");
    refused(&call("calculator", json!({ "expression": 7 })), 422, "arguments");
    refused(&call("box__none", json!({})), 404, "box__look");
    refused(&call("box__look", json!([])), 422, "object");
    let permit = |level: &str| {
        let body = json!({ "tool_permissions": [{ "tool_name": "box__append", "permission": level }] });
        done(&chat.client, "/config/permissions", &body);
    };
    permit("always_allow");
    assert_eq!(call("box__append", json!({ "line": "x" })).status, 200);
    assert_eq!(world.effects(), ["append x"]);
    let listed = chat.client.send("GET", "/goose/config/permissions", "").json();
    assert_eq!(listed, json!({ "tool_permissions": [{ "tool_name": "box__append", "permission": "always_allow" }] }));
    permit("never_allow");
    refused(&call("box__append", json!({ "line": "y" })), 403, "denied");
    permit("ask_before");
    refused(&call("box__append", json!({ "line": "y" })), 403, "asks first");
    assert_eq!(world.effects(), ["append x"]);
    let unknown = json!({ "tool_permissions": [{ "tool_name": "nope", "permission": "always_allow" }] });
    refused(&send(&chat.client, "/config/permissions", &unknown), 422, "nope");
}

#[test]
fn a_page_is_read_from_its_server() {
    let world = World::with_keys();
    let chat = Chat::start(&world.client_of("acme"));
    let read = |server: &str, uri: &str| {
        send(
            &chat.client,
            "/agent/read_resource",
            &json!({ "session_id": chat.id, "extension_name": server, "uri": uri }),
        )
    };
    let page = json!({ "uri": "ui://box/page", "mimeType": "text/html", "text": "<p>Box</p>" });
    assert_eq!(read("box", "ui://box/page").json(), page);
    refused(&read("box", "ui://box/none"), 404, "there is no such resource");
    refused(&read("developer", "ui://box/page"), 404, "it has: box");
    refused(&read("box", ""), 422, "uri");
    done(&chat.client, "/agent/remove_extension", &json!({ "session_id": chat.id, "name": "box" }));
    refused(&read("box", "ui://box/page"), 404, "none");
}
