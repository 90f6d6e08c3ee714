//! `GET …/export` and `POST /goose/sessions/import`: sessions as files, of this server and of Goose's releases.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{
    shown::{check_requests, said, told},
    world::{Chat, World, content, text},
};
use crate::suite::harness::{Client, Reply, Talk, script};

#[track_caller]
fn export(chat: &Chat) -> String {
    let answer = chat.send("GET", "/export", &Value::Null);
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"), "{answer:?}");
    answer.json().as_str().expect("a JSON string, as the desktop wants it").to_owned()
}

#[track_caller]
fn import(client: &Client, file: &str) -> Chat {
    let answer = client.send("POST", "/goose/sessions/import", &json!({ "json": file }).to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    let chat = Chat::of(client, answer.json()["id"].as_str().unwrap());
    assert_eq!(answer.json(), chat.show());
    chat
}

/// Without what a server gives out anew.
fn file(text: &str) -> Value {
    let mut session: Value = serde_json::from_str(text).unwrap();
    for message in session["conversation"].as_array_mut().unwrap() {
        message["id"] = Value::Null;
        message["created"] = Value::Null;
    }
    for field in ["id", "created_at", "updated_at", "input_tokens", "output_tokens", "total_tokens", "usage"] {
        session[field] = Value::Null;
    }
    for field in
        ["accumulated_input_tokens", "accumulated_output_tokens", "accumulated_total_tokens", "accumulated_usage"]
    {
        session[field] = Value::Null;
    }
    session
}

#[test]
fn there_and_back() {
    let calls =
        Reply::new().thinking("Hm.").text("I look.").call("box__look", "{}").call("box__fail", r#"{"a":[1,{}]}"#);
    let replies =
        [calls.call("box__picture", "{}").finish("tool_calls"), Reply::says(&["Seen."]), Reply::says(&["Bye."])];
    script("transfer", replies);
    let mut world = World::start();
    let chat = Chat::start(&world.client());
    let image = json!({ "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png" });
    let words = json!({ "type": "text", "text": "Look \u{1f9a2} \"this\"\n\u{0}, play transfer" });
    let mut events = chat.events();
    assert_eq!(chat.try_say(1, &content(&json!([words, image]))).status, 200);
    events.until("Finish");
    chat.run(2, "bye, play transfer");
    assert_eq!(chat.send("PUT", "/name", &json!({ "name": "Swans" })).status, 200);
    let exported = export(&chat);
    assert!(exported.starts_with("{\n  \"id\""), "pretty: {exported}");
    let copy = import(&world.client(), &exported);
    assert_ne!(copy.id, chat.id);
    assert_eq!(file(&export(&copy)), file(&exported));
    assert_eq!(copy.show()["message_count"], chat.show()["message_count"]);
    // Once more, from the session's JSON itself, after a crash.
    world.crash();
    let client = world.client();
    let bare = client.send("POST", "/goose/sessions/import", &exported);
    assert_eq!(bare.status, 200, "{bare:?}");
    let third = Chat::of(&client, bare.json()["id"].as_str().unwrap());
    assert_eq!(file(&export(&third)), file(&exported));
    for (name, chat) in [("transfer-copy", copy.on(&world)), ("transfer-third", third)] {
        script(name, [Reply::says(&["I remember."])]);
        assert_eq!(text(&chat.run(1, &format!("play {name}"))), "I remember.");
        check_requests(name);
        let told = told(name);
        for part in ["Look \u{1f9a2}", "iVBORw0KGgo=", "I look.", "that went wrong", "Seen.", "Bye."] {
            assert!(told.contains(part), "{part} is missing: {told}");
        }
    }
    // A request that is sent again makes no second session.
    let body = json!({ "json": exported }).to_string();
    let headers = [("content-type", "application/json"), ("idempotency-key", "import-1")];
    let ids: Vec<_> = (0..3)
        .map(|_| client.send_with("POST", "/goose/sessions/import", &headers, body.clone()).json()["id"].clone())
        .collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

/// Imports a file, shows what is there then, and goes on with it.
#[track_caller]
fn check(name: &str, file: &str, expected: Expect) -> (Value, String) {
    let world = World::start();
    let chat = import(&world.client(), file);
    let shown = chat.show();
    let head = format!("{} in {}, {} messages\n", shown["name"], shown["working_dir"], shown["message_count"]);
    let mut talk = Talk::new(world.client());
    talk.say(&(head + &said(&chat.conversation())));
    talk.check(expected);
    script(name, [Reply::says(&["Of course."])]);
    assert_eq!(text(&chat.run(1, &format!("Go on, play {name}"))), "Of course.");
    check_requests(name);
    // What it gives out again is the same once more.
    let exported = export(&chat);
    assert_eq!(self::file(&export(&import(&world.client(), &exported))), self::file(&exported));
    (shown, told(name))
}

#[test]
fn a_file_of_an_early_release() {
    let (shown, told) = check(
        "import-early",
        include_str!("fixtures/early.json"),
        expect![[r#"
        "Sort my notes" in "notes", 6 messages
        user: {"text":"Which files are here?","type":"text"}
        assistant: {"signature":"","thinking":"A shell will tell.","type":"thinking"} {"text":"Let me see.","type":"text"} {"id":"call_Wq1","toolCall":{"status":"success","value":{"arguments":{"command":"ls"},"name":"developer__shell"}},"type":"toolRequest"}
        user: {"id":"call_Wq1","toolResult":{"status":"success","value":{"content":[{"text":"a.md\nb.md","type":"text"}],"isError":false}},"type":"toolResponse"}
        assistant: {"text":"There are a.md and b.md.","type":"text"}
        user: {"text":"Sum up.","type":"text"}
        assistant: {"text":"Two notes.","type":"text"}
    "#]],
    );
    assert_eq!(shown["user_recipe_values"], Value::Null);
    assert!(told.contains("a.md") && !told.contains("two files"), "what is for people is not for the model: {told}");
}

#[test]
fn a_file_with_everything() {
    let (shown, told) = check(
        "import-all",
        include_str!("fixtures/release_1_34.json"),
        expect![[r#"
        "Everything at once" in "ann/project", 9 messages
        user: {"text":"What is this?","type":"text"} {"data":"iVBORw0KGgo=","mimeType":"image/png","type":"image"}
        assistant: {"signature":"","thinking":"A picture.","type":"thinking"} {"text":"I look twice.","type":"text"} {"id":"toolu_01","toolCall":{"status":"success","value":{"arguments":{"command":"file x.png"},"name":"developer__shell"}},"type":"toolRequest"} {"id":"toolu_02","toolCall":{"status":"success","value":{"arguments":{},"name":"developer__list"}},"type":"toolRequest"} {"id":"toolu_03","toolCall":{"status":"success","value":{"arguments":{"error":"-32602: Could not interpret tool use parameters"},"name":"unreadable_call"}},"type":"toolRequest"} {"id":"toolu_04","toolCall":{"status":"success","value":{"arguments":{},"name":"show_map"}},"type":"toolRequest"}
        user: {"id":"toolu_01","toolResult":{"status":"success","value":{"content":[{"text":"PNG image","type":"text"},{"data":"aGVsbG8=","mimeType":"image/png","type":"image"},{"text":"of a swan","type":"text"},{"text":"[resource file:///x.bin]","type":"text"},{"text":"[audio, audio/wav]","type":"text"},{"text":"[y.txt](file:///y.txt)","type":"text"}],"isError":false}},"type":"toolResponse"}
        user: {"id":"toolu_02","toolResult":{"status":"success","value":{"content":[{"text":"{\"files\": [\"x.png\"]}","type":"text"}],"isError":false}},"type":"toolResponse"}
        user: {"id":"toolu_03","toolResult":{"status":"success","value":{"content":[{"text":"-32602: Could not interpret tool use parameters","type":"text"}],"isError":true}},"type":"toolResponse"}
        user: {"id":"toolu_04","toolResult":{"status":"success","value":{"content":[{"text":"no map","type":"text"}],"isError":true}},"type":"toolResponse"}
        assistant: {"text":"It is a swan.","type":"text"}
        user: {"text":"Thanks","type":"text"}
        assistant: {"text":"You are welcome.","type":"text"}
    "#]],
    );
    let times: Vec<_> =
        shown["conversation"].as_array().unwrap().iter().map(|message| message["created"].as_i64().unwrap()).collect();
    assert_eq!((times[0], *times.last().unwrap() >= 1_772_618_700), (1_772_618_400, true), "{times:?}");
    for part in ["What is this?", "iVBORw0KGgo=", "file x.png", "PNG image", "of a swan", "no map", "It is a swan."] {
        assert!(told.contains(part), "{part} is missing: {told}");
    }
    assert!(!told.contains("compacting"), "{told}");
}

#[test]
fn a_file_of_a_late_release_that_ends_within_a_turn() {
    let (shown, told) = check(
        "import-late",
        include_str!("fixtures/late.json"),
        expect![[r#"
        "Late" in "ann", 2 messages
        user: {"text":"Do it.","type":"text"}
        assistant: {"id":"toolu_9","toolCall":{"status":"success","value":{"arguments":{"content":"- [x] it"},"name":"todo__write"}},"type":"toolRequest"}
    "#]],
    );
    assert_eq!(shown["recipe"], Value::Null, "this server does not have what it needs");
    assert!(told.contains("todo__write"), "{told}");
}

/// Conversations that no provider would take as they are.
#[test]
fn files_that_make_no_sense_to_a_model() {
    let world = World::start();
    let message = |role: &str, items: Value| json!({ "role": role, "created": 1, "content": items });
    let words = |role: &str, text: &str| message(role, json!([{ "type": "text", "text": text }]));
    let call = |id: &str| json!({ "type": "toolRequest", "id": id, "toolCall": { "status": "success", "value": { "name": "t", "arguments": {} } } });
    let result = |id: &str| json!({ "type": "toolResponse", "id": id, "toolResult": { "status": "success", "value": { "content": [{ "type": "text", "text": "r" }] } } });
    let table = [
        (
            "a result without a call",
            json!([words("user", "a"), message("user", json!([result("x")])), words("assistant", "b")]),
        ),
        (
            "a call without a result",
            json!([words("user", "a"), message("assistant", json!([call("x")])), words("user", "b")]),
        ),
        (
            "two results",
            json!([
                words("user", "a"),
                message("assistant", json!([call("x")])),
                message("user", json!([result("x"), result("x")]))
            ]),
        ),
        (
            "two calls with one id",
            json!([
                words("user", "a"),
                message("assistant", json!([call("x"), call("x")])),
                message("user", json!([result("x")]))
            ]),
        ),
        (
            "a result before its call",
            json!([
                message("user", json!([result("x")])),
                message("assistant", json!([call("x")])),
                words("user", "b")
            ]),
        ),
        (
            "one id in two turns",
            json!([
                words("user", "a"),
                message("assistant", json!([call("x")])),
                message("user", json!([result("x")])),
                words("user", "b"),
                message("assistant", json!([call("x")])),
                message("user", json!([result("x")]))
            ]),
        ),
        (
            "words between call and result",
            json!([
                words("user", "a"),
                message("assistant", json!([call("x")])),
                words("assistant", "hm"),
                message("user", json!([result("x")]))
            ]),
        ),
        (
            "words beside a result",
            json!([
                words("user", "a"),
                message("assistant", json!([call("x"), call("y")])),
                message("user", json!([result("x"), { "type": "text", "text": "and" }, result("y")]))
            ]),
        ),
        (
            "the assistant first",
            json!([words("assistant", "a"), words("assistant", "b"), words("user", "c"), words("user", "d")]),
        ),
        (
            "a picture of the assistant's",
            json!([
                words("user", "a"),
                message("assistant", json!([{ "type": "image", "data": "aGVsbG8=", "mimeType": "image/png" }]))
            ]),
        ),
        ("nothing", json!([])),
        ("nothing but empty messages", json!([words("user", ""), words("assistant", ""), message("user", json!([]))])),
    ];
    for (at, (what, conversation)) in table.into_iter().enumerate() {
        let body = json!({ "name": what, "conversation": conversation });
        let answer = world.client().send("POST", "/goose/sessions/import", &body.to_string());
        if answer.status == 422 {
            assert!(answer.json()["message"].as_str().unwrap().starts_with("conversation["), "{what}: {answer:?}");
            continue;
        }
        assert_eq!(answer.status, 200, "{what}: {answer:?}");
        let chat = Chat::of(&world.client(), answer.json()["id"].as_str().unwrap());
        let name = format!("senseless-{at}");
        script(&name, [Reply::says(&["Fine."])]);
        println!("{what}");
        assert_eq!(text(&chat.run(1, &format!("play {name}"))), "Fine.", "{what}");
        check_requests(&name);
        // And every message of it is a place to cut.
        for message in chat.conversation() {
            let cut =
                chat.send("POST", "/fork", &json!({ "message_id": message["id"], "truncate": true, "copy": true }));
            assert_eq!(cut.status, 200, "{what}: {message} {cut:?}");
        }
    }
}
