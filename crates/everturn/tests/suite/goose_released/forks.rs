//! `POST /goose/sessions/{id}/fork`: copies, cuts and both, at every message.

use serde_json::{Value, json};

use super::{
    shown::{check_requests, said, told},
    world::{Chat, World, always, text},
};
use crate::suite::harness::{Answer, Gate, Reply, script};

/// A conversation of three turns, with two tools at once in the second.
fn conversation(world: &World, name: &str) -> Chat {
    let calls = Reply::new().text("I look.").call("box__look", "{}").call("box__fail", r#"{"a":1}"#);
    let replies = [
        Reply::says(&["First."]),
        calls.finish("tool_calls"),
        Reply::calls(&[("box__picture", json!({}))]),
        Reply::says(&["Second."]),
        Reply::new().thinking("Hm.").text("Third.").stops(),
    ];
    script(name, replies);
    let chat = Chat::start(&world.client());
    for turn in 1..=3 {
        chat.run(turn, &format!("turn {turn}, play {name}"));
    }
    chat
}

#[track_caller]
fn fork(chat: &Chat, body: &Value) -> Chat {
    let answer = chat.send("POST", "/fork", body);
    assert_eq!(answer.status, 200, "{answer:?}");
    Chat::of(&chat.client, answer.json()["sessionId"].as_str().unwrap())
}

/// Says something more in a session whose conversation was cut; checks what the model is given.
#[track_caller]
fn goes_on(chat: &Chat, name: &str, kept: &[Value]) {
    script(name, [Reply::says(&["I go on."])]);
    assert_eq!(text(&chat.run(99, &format!("more, play {name}"))), "I go on.");
    check_requests(name);
    let told = told(name);
    for message in kept {
        for item in message["content"].as_array().unwrap() {
            let needle = match item["type"].as_str().unwrap() {
                "text" => &item["text"],
                "toolRequest" => &item["toolCall"]["value"]["name"],
                "toolResponse" => &item["toolResult"]["value"]["content"][0]["text"],
                _ => continue,
            };
            let needle = needle.as_str().unwrap_or_default();
            assert!(told.contains(needle), "the model is not told {needle:?}:\n{told}");
        }
    }
    assert_eq!(told.matches("Third.").count(), usize::from(said(kept).contains("Third.")), "{told}");
    let now = said(&chat.conversation());
    let more = format!("user: {{\"text\":\"more, play {name}\",\"type\":\"text\"}}\n");
    assert!(now.starts_with(&said(kept)) && now.contains(&more), "{now}");
}

#[test]
fn before_every_message() {
    let world = World::start();
    let chat = conversation(&world, "fork-all");
    let all = chat.conversation();
    let ids: Vec<_> = all.iter().map(|message| message["id"].as_str().unwrap()).collect();
    assert_eq!(all.len(), 11, "{}", said(&all));
    let unique: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "{ids:?}");
    for (at, id) in ids.iter().enumerate() {
        let copy = fork(&chat, &json!({ "message_id": id, "truncate": true, "copy": true }));
        assert_ne!(copy.id, chat.id);
        assert_eq!(said(&copy.conversation()), said(&all[..at]), "before {id}");
        assert_eq!(copy.show()["message_count"], at, "before {id}");
        goes_on(&copy, &format!("fork-all-{at}"), &all[..at]);
    }
    assert_eq!(chat.conversation(), all, "the original is as it was");
}

#[test]
fn in_place_before_every_message() {
    let mut world = World::start();
    let chat = conversation(&world, "cut-all");
    let exported = chat.send("GET", "/export", &Value::Null).json();
    let whole = chat.conversation();
    for at in (0..whole.len()).rev() {
        // A copy to work on, by the way of a file: its turns are told, not run.
        let imported = chat.client.send("POST", "/goose/sessions/import", &json!({ "json": exported }).to_string());
        let chats = [
            fork(&chat, &json!({ "copy": true, "truncate": false })),
            Chat::of(&chat.client, imported.json()["id"].as_str().unwrap()),
        ];
        for (which, copy) in chats.iter().enumerate() {
            let all = copy.conversation();
            assert_eq!(said(&all), said(&whole));
            let same = fork(copy, &json!({ "message_id": all[at]["id"], "truncate": true, "copy": false }));
            assert_eq!(same.id, copy.id);
            assert_eq!(said(&copy.conversation()), said(&whole[..at]), "before {}", all[at]["id"]);
            goes_on(copy, &format!("cut-all-{at}-{which}"), &whole[..at]);
        }
    }
    assert_eq!(chat.conversation(), whole);
    // And it stays cut.
    fork(&chat, &json!({ "message_id": whole[4]["id"], "truncate": true }));
    world.crash();
    assert_eq!(said(&chat.on(&world).conversation()), said(&whole[..4]));
}

#[test]
fn by_time() {
    let world = World::start();
    let message = |role: &str, at: i64, text: &str| {
        json!({ "role": role, "created": at, "content": [{ "type": "text", "text": text }],
            "metadata": { "userVisible": true, "agentVisible": true } })
    };
    let conversation = json!([
        message("user", 1_772_618_400, "one"),
        message("assistant", 1_772_618_402, "a"),
        message("user", 1_772_618_500, "two"),
        message("assistant", 1_772_618_501, "b"),
        message("user", 1_772_618_600, "three"),
        message("assistant", 1_772_618_601, "c"),
    ]);
    let body = json!({ "name": "Timed", "conversation": conversation });
    let imported = world.client().send("POST", "/goose/sessions/import", &body.to_string());
    assert_eq!(imported.status, 200, "{imported:?}");
    let chat = Chat::of(&world.client(), imported.json()["id"].as_str().unwrap());
    let all = chat.conversation();
    let begins: Vec<_> = all.iter().map(|message| message["created"].as_i64().unwrap()).collect();
    assert_eq!([begins[0], begins[2], begins[4]], [1_772_618_400, 1_772_618_500, 1_772_618_600]);
    // By the times that the conversation shows, as the desktop does; and by others.
    for time in begins.iter().copied().chain([0, i64::MIN, i64::MAX, 1_772_618_550, 1_772_618_399]) {
        let copy = fork(&chat, &json!({ "timestamp": time, "truncate": true, "copy": true }));
        let left: Vec<_> = all.iter().filter(|message| message["created"].as_i64().unwrap() < time).cloned().collect();
        assert_eq!(said(&copy.conversation()), said(&left), "before {time}");
    }
    let same = fork(&chat, &json!({ "timestamp": 1_772_618_600, "truncate": true, "copy": false }));
    assert_eq!((same.id.as_str(), said(&chat.conversation())), (chat.id.as_str(), said(&all[..4])));
    goes_on(&chat, "fork-time", &all[..4]);
}

#[test]
fn a_copy_is_a_session_of_its_own() {
    let mut world = World::start();
    let chat = conversation(&world, "fork-own");
    let all = chat.conversation();
    assert_eq!(chat.send("PUT", "/name", &json!({ "name": "Rome" })).status, 200);
    let copy = fork(&chat, &json!({ "truncate": false, "copy": true }));
    let second = fork(&copy, &json!({ "truncate": false, "copy": true }));
    assert_eq!(said(&second.conversation()), said(&all));
    let (shown, own) = (copy.show(), chat.show());
    for field in ["working_dir", "model_config", "provider_name", "agent", "message_count"] {
        assert_eq!(shown[field], own[field], "{field}");
    }
    assert!(shown["name"].as_str().unwrap().starts_with("Rome"), "{}", shown["name"]);
    goes_on(&copy, "fork-own-copy", &all);
    assert_eq!(chat.conversation(), all, "what is said in the copy is said there only");
    // The copy outlives what it was made of.
    assert_eq!(chat.send("DELETE", "", &Value::Null).status, 200);
    world.crash();
    let (copy, second) = (copy.on(&world), second.on(&world));
    assert_eq!(said(&second.conversation()), said(&all));
    assert!(said(&copy.conversation()).starts_with(&said(&all)));
    goes_on(&second, "fork-own-second", &all);
    assert_eq!(second.send("DELETE", "", &Value::Null).status, 200);
    assert!(said(&copy.conversation()).starts_with(&said(&all)));
}

#[test]
fn while_a_turn_runs() {
    let gate = Gate::default();
    let begun = Reply::new().text("I look.").call("box__look", "{}").finish("tool_calls");
    script(
        "fork-running",
        [Reply::says(&["First."]), begun, Reply::new().text("half").hold(&gate).text(" whole").stops()],
    );
    let world = World::start();
    let chat = Chat::start(&world.client());
    chat.run(1, "play fork-running");
    let mut events = chat.events();
    chat.say(2, "again, play fork-running");
    events.until_one("the second step", |frame| text(std::slice::from_ref(frame)) == "half");
    let copy = fork(&chat, &json!({ "truncate": false, "copy": true }));
    let kept = copy.conversation();
    assert!(said(&kept).contains("nothing to see"), "finished steps are in it: {}", said(&kept));
    goes_on(&copy, "fork-running-copy", &kept[..5]);
    let cut = chat.send("POST", "/fork", &json!({ "timestamp": 0, "truncate": true, "copy": false }));
    assert_eq!(cut.status, 409, "nothing is cut under a turn's feet: {cut:?}");
    let first = chat.conversation()[2]["id"].clone();
    let before = fork(&chat, &json!({ "message_id": first, "truncate": true, "copy": true }));
    assert_eq!(before.conversation().len(), 2);
    gate.open();
    assert_eq!(text(&events.until("Finish")), " whole");
    check_requests("fork-running");
}

#[test]
fn a_cut_ends_what_waits() {
    script("fork-waits", [Reply::calls(&[("box__append", json!({ "line": "no" }))]), Reply::says(&["fine"])]);
    let world = World::start();
    let chat = Chat::start(&world.client());
    let mut events = chat.events();
    chat.say(1, "play fork-waits");
    let (_, call) = events.until_asked();
    let copy = fork(&chat, &json!({ "truncate": false, "copy": true }));
    assert_eq!(copy.decide(&call, "allow_once").status, 404, "the question is the original's");
    fork(&chat, &json!({ "timestamp": 0, "truncate": true }));
    assert!(chat.conversation().is_empty());
    assert!(matches!(chat.decide(&call, "allow_once").status, 404 | 409));
    let open = chat.client.send("GET", "/api/v1/forms?status=open", "").json();
    assert_eq!(open["forms"], json!([]), "nobody waits for it any more");
    assert_eq!(text(&chat.run(2, "play fork-waits")), "fine");
    script("fork-waits-copy", always(&Reply::says(&["copied"])));
    assert_eq!(text(&copy.run(2, "play fork-waits-copy")), "copied");
    check_requests("fork-waits-copy");
    assert!(world.effects().is_empty());
}

#[test]
fn cuts_that_make_no_sense() {
    let world = World::start();
    script("fork-wrong", [Reply::says(&["Hello."])]);
    let chat = Chat::start(&world.client());
    chat.run(1, "play fork-wrong");
    let other = Chat::start(&world.client());
    let id = chat.conversation()[0]["id"].clone();
    let check = |answer: Answer, status: u16, says: &str| {
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.json()["message"].as_str().unwrap().contains(says), "{answer:?}");
    };
    check(chat.send("POST", "/fork", &json!({ "truncate": true, "copy": true })), 400, "requires a timestamp");
    for unknown in ["nonsense", "turn_1.u1", "", "turn_1.call_x", &"x".repeat(10_000)] {
        let body = json!({ "truncate": true, "copy": false, "message_id": unknown });
        check(chat.send("POST", "/fork", &body), 404, "no message");
    }
    check(other.send("POST", "/fork", &json!({ "truncate": true, "message_id": id })), 404, "no message");
    for wrong in [json!({ "timestamp": "now", "truncate": true }), json!({ "truncate": 1 }), json!({ "copy": "yes" })] {
        check(chat.send("POST", "/fork", &wrong), 400, "");
    }
    let same = fork(&chat, &json!({ "truncate": false, "copy": false }));
    assert_eq!((same.id.as_str(), chat.conversation().len()), (chat.id.as_str(), 2));
    check(Chat::of(&world.client(), "nowhere").send("POST", "/fork", &json!({ "copy": true })), 404, "not found");
}
