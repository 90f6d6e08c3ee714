//! Nonsense at every door: never a fault of ours, and always a word on what is wrong.

use serde_json::{Value, json};

use super::{
    doors::{Door, doors},
    world::{Chat, World, said, text, uuid},
};
use crate::suite::harness::{Answer, Client, Reply, script};

fn world(name: &str) -> (World, Chat, String) {
    script(name, [Reply::calls(&[("box__append", json!({ "line": "no" }))]), Reply::says(&["Fine."])]);
    let world = World::start();
    let chat = Chat::start(&world.client());
    let mut events = chat.events();
    chat.say(1, &format!("play {name}"));
    let (_, call) = events.until_asked();
    (world, chat, call)
}

#[track_caller]
fn refused(answer: &Answer, what: &str) {
    assert!((400..500).contains(&answer.status), "{what}: {answer:?}");
    assert_eq!(answer.header("content-type"), "application/json", "{what}: {answer:?}");
    let json = answer.json();
    assert_eq!(json.as_object().map(serde_json::Map::len), Some(1), "{what}: {answer:?}");
    let message = json["message"].as_str().unwrap_or_else(|| panic!("{what}: {answer:?}"));
    assert!(!message.is_empty() && message.len() < 5000, "{what}: {message:.300}");
}

fn send(client: &Client, door: &Door, body: &str) -> Answer {
    client.send_with(door.method, &door.path, &[("content-type", "application/json")], body.to_owned())
}

#[test]
fn bodies_that_are_none() {
    let (world, chat, call) = world("hostile-bodies");
    let client = world.client();
    let before = chat.show();
    let deep = format!("{}1{}", "{\"a\":".repeat(5000), "}".repeat(5000));
    for door in doors(&chat, &call).into_iter().filter(|door| door.body.is_some()) {
        for body in
            ["", "{", "nonsense", "[]", "null", "7", "\"text\"", "true", "{\"a\":1}garbage", "{\"a\":}", &deep, "\u{0}"]
        {
            let what = format!("{} {} {body:.40}", door.method, door.path);
            refused(&send(&client, &door, body), &what);
        }
        let good = door.body.as_ref().unwrap().to_string();
        let what = format!("{} {}", door.method, door.path);
        for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("multipart/form-data")] {
            let headers: Vec<_> = kind.into_iter().map(|kind| ("content-type", kind)).collect();
            let answer = client.send_with(door.method, &door.path, &headers, good.clone());
            refused(&answer, &what);
            assert_eq!(answer.status, 415, "{what}: {answer:?}");
        }
        let mut bytes = good.into_bytes();
        bytes.insert(2, 0xff);
        refused(&client.send_with(door.method, &door.path, &[("content-type", "application/json")], bytes), &what);
    }
    assert_eq!(chat.show(), before, "nothing has happened");
}

/// Every field of every request in every wrong type.
#[test]
fn fields_of_the_wrong_type() {
    let (world, chat, call) = world("hostile-fields");
    let client = world.client();
    let wrong = [
        json!(7),
        json!(-1.5e300),
        json!([]),
        json!({}),
        json!("\u{0}"),
        json!([[]]),
        json!({ "a": 1 }),
        json!("x".repeat(100_000)),
    ];
    // Without what is about to end something in earnest, if it is taken.
    let tried = doors(&chat, &call).into_iter().filter(|door| !door.path.ends_with("/stop"));
    for door in tried.filter(|door| door.body.is_some()) {
        let body = door.body.clone().unwrap();
        for field in body.as_object().unwrap().keys() {
            for value in &wrong {
                let mut body = body.clone();
                body[field] = value.clone();
                let answer = send(&client, &door, &body.to_string());
                let what = format!("{} {} {field}={:.40}", door.method, door.path, value.to_string());
                assert!(answer.status < 500, "{what}: {answer:?}");
                // Texts are taken where texts may stand, and empty objects and lists.
                if answer.status >= 300 {
                    refused(&answer, &what);
                } else {
                    assert!(value.is_string() || value == &json!([]) || value == &json!({}), "{what}: {answer:?}");
                }
            }
        }
    }
    assert_eq!(client.send("GET", "/goose/status", "").body, "ok");
    assert!(world.effects().is_empty());
    // The session is as well as ever.
    assert_eq!(text(&chat.run_next(50, "play hostile-fields")), "Fine.");
}

#[test]
fn sessions_with_names_that_are_none() {
    let world = World::start();
    let client = world.client();
    let long = "x".repeat(60_000);
    for name in ["%00", "%ff", "..", "%2e%2e%2fetc", "a%20b", "%F0%9F%A6%A2", "-", long.as_str(), "'%20OR%201=1", "%25"]
    {
        let chat = Chat::of(&client, name);
        for door in doors(&chat, "call_x").into_iter().filter(|door| door.of_session) {
            let body = door.body.as_ref().map(Value::to_string).unwrap_or_default();
            let answer = client.send(door.method, &door.path, &body);
            let what = format!("{} {:.80}", door.method, door.path);
            if answer.body.is_empty() {
                assert!((400..500).contains(&answer.status), "{what}: {answer:?}");
            } else {
                refused(&answer, &what);
            }
        }
        let body = json!({ "session_id": name, "user_message": said("hi") });
        if name != "-" && name != ".." {
            refused(&client.send("POST", "/goose/reply", &body.to_string()), name);
        }
    }
    assert_eq!(client.send("GET", "/goose/sessions", "").status, 200);
}

#[test]
fn what_is_not_there() {
    let world = World::start();
    let client = world.client();
    for (method, path, status) in [
        ("GET", "/goose", 404),
        ("GET", "/goose/nonsense", 404),
        ("GET", "/goose/sessions/", 404),
        ("GET", "/goose/sessions/a/b/c", 404),
        ("GET", "/goose/config/prompts", 404),
        ("POST", "/goose/status", 405),
        ("GET", "/goose/reply", 405),
        ("DELETE", "/goose/sessions", 405),
        ("PATCH", "/goose/sessions/a", 405),
        ("GET", "/goose/agent/start", 405),
        ("POST", "/goose/recipes/list", 405),
    ] {
        let answer = client.send(method, path, "");
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        refused(&answer, path);
    }
    for query in ["?session_id=", "?session_id=nowhere", "", "?session_id=a&session_id=b", "?%ff=%ff"] {
        refused(&client.send("GET", &format!("/goose/agent/tools{query}"), ""), query);
    }
}

/// What is not known is not minded: newer clients send more.
#[test]
fn fields_that_are_not_known() {
    script("hostile-unknown", [Reply::says(&["Fine."])]);
    let world = World::start();
    let chat = Chat::start(&world.client());
    let mut message = said("play hostile-unknown");
    message["newer"] = json!({ "a": [1] });
    message["metadata"]["steer"] = json!(true);
    message["content"][0]["_meta"] = json!({ "b": 2 });
    let body = json!({ "request_id": uuid(1), "user_message": message, "client_system_prompt": "x", "override_conversation": null });
    let mut events = chat.events();
    let answer = chat.send("POST", "/reply", &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(text(&events.until("Finish")), "Fine.");
    let body = json!({ "working_dir": "/tmp", "extension_overrides": [{ "type": "builtin", "name": "developer" }], "newer": 1 });
    assert_eq!(world.client().send("POST", "/goose/agent/start", &body.to_string()).status, 200);
}

/// Messages that say nothing, or what a user cannot say.
#[test]
fn messages_that_make_no_sense() {
    let world = World::start();
    let chat = Chat::start(&world.client());
    let call = json!({ "type": "toolRequest", "id": "a", "toolCall": { "value": { "name": "x", "arguments": {} } } });
    let result = json!({ "type": "toolResponse", "id": "a", "toolResult": { "value": { "content": [] } } });
    for (items, says) in [
        (json!([]), "is empty"),
        (json!(""), "is empty"),
        (json!([{ "type": "text", "text": "" }]), "is empty"),
        (json!([{ "type": "systemNotification", "notificationType": "inlineMessage", "msg": "x" }]), "is empty"),
        (json!([{ "type": "video" }]), "not known"),
        (json!([call]), "for the assistant"),
        (json!([result]), "results come from the tools"),
        (json!([{ "type": "thinking", "thinking": "x", "signature": "" }]), "for the assistant"),
        (json!([{ "type": "resource", "resource": { "uri": "x", "text": "y" } }]), "for the results"),
        (json!([{ "type": "image", "data": "@", "mimeType": "image/png" }]), "base64"),
    ] {
        let answer = chat.try_say(1, &super::world::content(&items));
        assert_eq!(answer.status, 422, "{items}: {answer:?}");
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with("user_message.content") && message.contains(says), "{message}");
    }
    let mut wrong = said("hi");
    wrong["role"] = json!("assistant");
    let answer = chat.try_say(1, &wrong);
    assert_eq!(answer.status, 422, "{answer:?}");
    assert!(chat.conversation().is_empty());
}
