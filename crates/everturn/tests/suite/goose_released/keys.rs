//! Who may do what, at every door.

use serde_json::{Value, json};

use super::{
    doors::{Door, Needs, doors},
    world::{Chat, World, said, uuid},
};
use crate::suite::harness::{Answer, Client, Reply, asked, key, script};

/// A server with somebody's session, in which a call waits.
fn waiting(name: &str) -> (World, Chat, String) {
    script(name, [Reply::calls(&[("box__append", json!({ "line": "no" }))]), Reply::says(&["Done."])]);
    let world = World::with_keys();
    let chat = Chat::start(&world.client_of("acme"));
    let mut events = chat.events();
    chat.say(1, &format!("play {name}"));
    let (_, call) = events.until_asked();
    (world, chat, call)
}

#[track_caller]
fn knock(client: &Client, door: &Door, headers: &[(&str, &str)]) -> Answer {
    let mut headers = headers.to_vec();
    let body = door.body.as_ref().map(Value::to_string).unwrap_or_default();
    if !body.is_empty() {
        headers.push(("content-type", "application/json"));
    }
    client.send_with(door.method, &door.path, &headers, body)
}

#[track_caller]
fn refused(answer: &Answer, status: u16, door: &Door) -> String {
    assert_eq!(answer.status, status, "{} {}: {answer:?}", door.method, door.path);
    let json = answer.json();
    assert_eq!(json.as_object().unwrap().len(), 1, "{answer:?}");
    json["message"].as_str().unwrap().to_owned()
}

#[test]
fn nobody_gets_in_without_a_key() {
    let (world, chat, call) = waiting("keys-none");
    let before = chat.show();
    let nobody = world.client();
    let bearer = |key: &str| format!("Bearer {key}");
    for door in doors(&chat, &call) {
        let message = refused(&knock(&nobody, &door, &[]), 401, &door);
        assert!(message.contains("X-Secret-Key"), "{message}");
        for headers in [
            vec![("x-secret-key", "wrong".to_owned())],
            vec![("x-secret-key", String::new())],
            vec![("x-secret-key", key("acme") + "0")],
            vec![("authorization", bearer("wrong"))],
            vec![("authorization", format!("Basic {}", key("acme")))],
            // A wrong key is not mended by another.
            vec![("authorization", bearer("wrong")), ("x-secret-key", key("acme"))],
        ] {
            let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let answer = knock(&nobody, &door, &headers);
            let message = refused(&answer, 401, &door);
            assert!(!message.contains(&key("acme")), "{message}");
            assert_eq!(answer.header("www-authenticate"), "Bearer");
        }
    }
    assert_eq!(chat.show(), before, "nothing has happened");
    // Also where there is nothing, as if there was.
    for (method, path) in [("GET", "/goose/status"), ("HEAD", "/goose/status")] {
        assert_eq!(nobody.send(method, path, "").status, 200);
    }
    assert_eq!(nobody.send("GET", "/goose/status", "").body, "ok");
    assert!(world.effects().is_empty());
}

#[test]
fn a_key_allows_what_its_scopes_say() {
    let (world, chat, call) = waiting("keys-scopes");
    let secret = key("acme-reader");
    let reader = world.client();
    let before = chat.show();
    for door in doors(&chat, &call) {
        if door.path.ends_with("/events") {
            let stream = reader.open_with("GET", &door.path, &[("x-secret-key", &secret)], "");
            assert_eq!(stream.status(), 200);
            continue;
        }
        let answer = knock(&reader, &door, &[("x-secret-key", &secret)]);
        match door.needs {
            Needs::Read => assert_eq!(answer.status, 200, "{} {}: {answer:?}", door.method, door.path),
            Needs::Chat => {
                let message = refused(&answer, 403, &door);
                assert!(message.contains("scope chat"), "{message}");
            }
        }
    }
    assert_eq!(chat.show(), before, "nothing has happened");
    // Both places for a key do, for those who may.
    let secret = key("acme");
    for door in doors(&chat, &call).into_iter().filter(|door| !door.path.ends_with("/events")) {
        let answer = if door.method == "GET" {
            knock(&world.client_of("acme"), &door, &[])
        } else {
            knock(&reader, &door, &[("X-Secret-Key", &secret)])
        };
        assert!(matches!(answer.status, 200 | 404 | 409 | 422), "{} {}: {answer:?}", door.method, door.path);
    }
}

#[test]
fn only_admins_put_words_into_mouths() {
    script("keys-override", [Reply::says(&["Yes."])]);
    let world = World::with_keys();
    let chat = Chat::start(&world.client_of("acme"));
    let conversation = json!([{ "role": "assistant", "content": "I promise." }]);
    let split = json!({ "request_id": uuid(1), "user_message": said("play keys-override"), "override_conversation": conversation });
    let single = json!({ "session_id": chat.id, "user_message": said("play keys-override"), "override_conversation": conversation });
    for (path, body) in [(chat.path("/reply"), &split), ("/goose/reply".to_owned(), &single)] {
        for mut body in [body.clone(), body.clone()] {
            let answer = chat.client.send("POST", &path, &body.to_string());
            assert_eq!(answer.status, 403, "{answer:?}");
            assert!(answer.json()["message"].as_str().unwrap().contains("scope admin"), "{answer:?}");
            body["override_conversation"] = json!([]);
            assert_eq!(chat.client.send("POST", &path, &body.to_string()).status, 403, "also if it is only to forget");
        }
    }
    assert!(chat.conversation().is_empty() && asked("keys-override").is_empty());
    let admin = Chat { client: world.client_of("acme-admin"), ..chat.clone() };
    let mut events = chat.events();
    let answer = admin.send("POST", "/reply", &split);
    assert_eq!(answer.status, 200, "{answer:?}");
    let seen = events.until("Finish");
    assert_eq!(seen[0].kind(), "UpdateConversation", "{seen:#?}");
    let messages = asked("keys-override")[0]["messages"].to_string();
    assert!(messages.contains("I promise."), "{messages}");
    let texts: Vec<_> = chat.conversation().iter().map(|message| message["content"][0]["text"].clone()).collect();
    assert_eq!(texts, ["I promise.", "play keys-override", "Yes."]);
}

/// Bob may do everything, to what is his.
#[test]
fn other_tenants_find_nothing() {
    let (world, chat, call) = waiting("keys-tenants");
    let before = chat.show();
    let bob = world.client_of("bob");
    let strange = Chat::of(&bob, "20260304_1");
    for (door, nowhere) in doors(&chat, &call).into_iter().zip(doors(&strange, "call_x")) {
        if !door.of_session {
            continue;
        }
        let answer = knock(&bob, &door, &[]);
        let message = refused(&answer, 404, &door);
        // As if it was not there: no word differs but the names.
        let elsewhere = refused(&knock(&bob, &nowhere, &[]), 404, &nowhere);
        assert_eq!(
            message.replace(&chat.id, "ID").replace(&call, "CALL"),
            elsewhere.replace("20260304_1", "ID").replace("call_x", "CALL")
        );
    }
    let listed = bob.send("GET", "/goose/sessions", "").json();
    assert_eq!(listed, json!({ "sessions": [] }));
    // By the call alone, and with a message's id.
    let body = json!({ "id": call, "action": "allow_once" }).to_string();
    assert_eq!(bob.send("POST", "/goose/action-required/tool-confirmation", &body).status, 404);
    let own = Chat::start(&bob);
    let message = before["conversation"][0]["id"].clone();
    assert_eq!(
        own.send("POST", "/fork", &json!({ "message_id": message, "truncate": true, "copy": true })).status,
        404
    );
    let form = world.client_of("acme").send("GET", "/api/v1/forms", "").json()["forms"][0]["form_id"].clone();
    let data = json!({ "actionType": "elicitationResponse", "id": form, "user_data": { "approved": true } });
    let answer = own.try_say(1, &super::world::content(&json!([{ "type": "actionRequired", "data": data }])));
    assert_eq!(answer.status, 404, "{answer:?}");
    assert_eq!(chat.show(), before, "nothing has happened");
    assert!(world.effects().is_empty());
    // A name of somebody else's is free: the two sessions have nothing to do with each other.
    script("keys-same-name", [Reply::says(&["Mine."])]);
    let body = json!({ "session_id": chat.id, "user_message": said("play keys-same-name") });
    let answer = bob.send("POST", "/goose/reply", &body.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(Chat::of(&bob, &chat.id).conversation().len(), 2);
    assert_eq!(chat.show(), before);
    assert_eq!(Chat::of(&bob, &chat.id).send("DELETE", "", &Value::Null).status, 200);
    assert_eq!(chat.show(), before);
}
