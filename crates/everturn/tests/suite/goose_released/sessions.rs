//! Sessions: made, shown, listed, named and deleted.

use expect_test::expect;
use serde_json::{Value, json};

use super::{
    shown::timeless,
    world::{Chat, World, always, said, text, uuid},
};
use crate::suite::harness::{Answer, Client, Gate, Reply, Talk, eventually, script};

fn note(talk: &mut Talk, answer: &Answer) {
    talk.say(&format!("{} {:#}\n", answer.status, timeless(answer.json())));
}

#[test]
fn from_start_to_resume() {
    script("life", always(&Reply::says(&["Hello."])));
    let mut world = World::start();
    let client = world.client();
    let mut talk = Talk::new(client.clone());
    let started = client.send("POST", "/goose/agent/start", r#"{"working_dir":"ann/project"}"#);
    note(&mut talk, &started);
    let chat = Chat::of(&client, started.json()["id"].as_str().unwrap());
    chat.run(1, "play life");
    eventually("it is named after what was said first", || (chat.show()["name"] == "play life").then_some(()));
    world.crash();
    world.ready();
    let chat = chat.on(&world);
    let resume = |load: bool| {
        let body = json!({ "session_id": chat.id, "load_model_and_extensions": load });
        chat.client.send("POST", "/goose/agent/resume", &body.to_string())
    };
    note(&mut talk, &resume(true));
    talk.check(expect![[r#"
        200 {
          "accumulated_cost": null,
          "accumulated_input_tokens": 0,
          "accumulated_output_tokens": 0,
          "accumulated_total_tokens": 0,
          "accumulated_usage": {
            "input_tokens": 0,
            "output_tokens": 0,
            "total_tokens": 0
          },
          "agent": "main",
          "archived_at": null,
          "conversation": null,
          "created_at": "<time>",
          "extension_data": {},
          "goose_mode": "smart_approve",
          "id": "sess#1",
          "input_tokens": null,
          "message_count": 0,
          "model_config": {
            "context_limit": null,
            "max_tokens": null,
            "model_name": "model",
            "temperature": null,
            "toolshim": false,
            "toolshim_model": null
          },
          "name": "New Chat",
          "output_tokens": null,
          "project_id": null,
          "provider_name": "script",
          "recipe": null,
          "schedule_id": null,
          "session_type": "user",
          "total_tokens": null,
          "updated_at": "<time>",
          "usage": null,
          "user_recipe_values": null,
          "user_set_name": false,
          "working_dir": "ann/project"
        }
        200 {
          "extension_results": [
            {
              "error": null,
              "name": "box",
              "success": true
            }
          ],
          "session": {
            "accumulated_cost": null,
            "accumulated_input_tokens": 10,
            "accumulated_output_tokens": 5,
            "accumulated_total_tokens": 15,
            "accumulated_usage": {
              "input_tokens": 10,
              "output_tokens": 5,
              "total_tokens": 15
            },
            "agent": "main",
            "archived_at": null,
            "conversation": [
              {
                "content": [
                  {
                    "text": "play life",
                    "type": "text"
                  }
                ],
                "created": 0,
                "id": "turn#1.u1",
                "metadata": {
                  "agentVisible": true,
                  "userVisible": true
                },
                "role": "user"
              },
              {
                "content": [
                  {
                    "text": "Hello.",
                    "type": "text"
                  }
                ],
                "created": 0,
                "id": "turn#1.a1",
                "metadata": {
                  "agentVisible": true,
                  "userVisible": true
                },
                "role": "assistant"
              }
            ],
            "created_at": "<time>",
            "extension_data": {},
            "goose_mode": "smart_approve",
            "id": "sess#1",
            "input_tokens": 10,
            "message_count": 2,
            "model_config": {
              "context_limit": null,
              "max_tokens": null,
              "model_name": "model",
              "temperature": null,
              "toolshim": false,
              "toolshim_model": null
            },
            "name": "play life",
            "output_tokens": 5,
            "project_id": null,
            "provider_name": "script",
            "recipe": null,
            "schedule_id": null,
            "session_type": "user",
            "total_tokens": 15,
            "updated_at": "<time>",
            "usage": {
              "input_tokens": 10,
              "output_tokens": 5,
              "total_tokens": 15
            },
            "user_recipe_values": null,
            "user_set_name": false,
            "working_dir": "ann/project"
          }
        }
    "#]]);
    let plain = resume(false).json();
    assert_eq!(plain["extension_results"], Value::Null);
    assert_eq!(plain["session"], chat.show());
    let update =
        chat.client.send("POST", "/goose/agent/update_from_session", &json!({ "session_id": chat.id }).to_string());
    assert_eq!((update.status, update.body.as_str()), (200, ""));
    assert_eq!(text(&chat.run(2, "play life")), "Hello.");
    assert_eq!(chat.show()["message_count"], 4);
}

fn list(client: &Client, query: &str) -> Value {
    let answer = client.send("GET", &format!("/goose/sessions{query}"), "");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn ids(page: &Value) -> Vec<&str> {
    page["sessions"].as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap()).collect()
}

#[test]
fn a_list_in_pages() {
    script("listed", vec![Reply::says(&["Hello."]); 8]);
    let world = World::with_keys();
    let client = world.client_of("acme");
    assert_eq!(list(&client, ""), json!({ "sessions": [] }));
    let chats: Vec<_> = (0..7).map(|_| Chat::start(&client)).collect();
    for chat in &chats {
        chat.run(1, "play listed");
    }
    Chat::start(&world.client_of("bob"));
    let newest: Vec<_> = chats.iter().rev().map(|chat| chat.id.as_str()).collect();
    let mut all = list(&client, "");
    assert_eq!((ids(&all), &all["next"]), (newest.clone(), &Value::Null));
    for session in all["sessions"].as_array_mut().unwrap() {
        assert_eq!((session["conversation"].take(), session["message_count"].take()), (Value::Null, json!(2)));
    }
    for limit in 1..=8 {
        let (mut seen, mut query) = (Vec::new(), format!("?limit={limit}"));
        loop {
            let page = list(&client, &query);
            assert!(ids(&page).len() <= limit);
            seen.extend(ids(&page).into_iter().map(str::to_owned));
            match page["next"].as_str() {
                Some(next) => query = format!("?limit={limit}&after={next}"),
                None => break,
            }
        }
        assert_eq!(seen, newest, "by {limit}");
    }
    // In which something was said last comes first.
    chats[2].run(2, "play listed");
    let [.., third, second, first] = newest[..] else { unreachable!() };
    let page = list(&client, "");
    assert_eq!((ids(&page)[0], &ids(&page)[5..]), (third, &[second, first][..]));
    // What is made or deleted between two pages moves nothing.
    let first = list(&client, "?limit=3");
    Chat::start(&client);
    assert_eq!(chats[3].send("DELETE", "", &Value::Null).status, 200);
    let second = list(&client, &format!("?limit=3&after={}", first["next"].as_str().unwrap()));
    assert_eq!(ids(&second), newest[4..7].to_vec());
    for wrong in ["?limit=0", "?limit=201", "?limit=x", "?after=x", "?after=", "?limit=-1", "?limit=1&limit=2"] {
        let answer = client.send("GET", &format!("/goose/sessions{wrong}"), "");
        assert!(matches!(answer.status, 400 | 422), "{wrong}: {answer:?}");
        assert!(answer.json()["message"].is_string(), "{answer:?}");
    }
}

#[test]
fn names() {
    let world = World::start();
    let chat = Chat::start(&world.client());
    assert_eq!(chat.show()["name"], "New Chat");
    let rename = |name: &Value| chat.send("PUT", "/name", &json!({ "name": name }));
    for (name, kept) in
        [("A trip", "A trip"), ("  to Rome ", "to Rome"), ("ü", "ü"), (&"x".repeat(200), &"x".repeat(200))]
    {
        let answer = rename(&json!(name));
        assert_eq!((answer.status, answer.body.as_str()), (200, ""), "{answer:?}");
        assert_eq!(chat.show()["name"], kept);
    }
    for wrong in [json!(""), json!("   "), json!("x".repeat(201)), json!("ü".repeat(101)), json!("a\nb")] {
        let answer = rename(&wrong);
        assert_eq!(answer.status, 400, "{wrong}: {answer:?}");
        assert!(answer.json()["message"].as_str().unwrap().contains("1 to 200 bytes"), "{answer:?}");
    }
    for wrong in [json!(null), json!(7)] {
        assert!(matches!(rename(&wrong).status, 400 | 422), "{wrong}");
    }
    assert_eq!(chat.show()["name"], "x".repeat(200));
    let nowhere = Chat::of(&world.client(), "nowhere").send("PUT", "/name", &json!({ "name": "x" }));
    assert_eq!(nowhere.status, 404, "{nowhere:?}");
}

#[test]
fn what_is_deleted_stays_deleted() {
    let gate = Gate::default();
    script("deleted", [Reply::says(&["Hello."]), Reply::new().text("never").hold(&gate)]);
    let mut world = World::start();
    let chat = Chat::start(&world.client());
    chat.run(1, "play deleted");
    let mut events = chat.events();
    chat.say(2, "play deleted");
    events.until_one("the second answer", |frame| frame.data["chat_request_id"] == uuid(2));
    // While a turn runs.
    let deleted = chat.send("DELETE", "", &Value::Null);
    assert_eq!((deleted.status, deleted.body.as_str()), (200, ""), "{deleted:?}");
    eventually("the provider is hung up on", || gate.is_left().then_some(()));
    for crashed in [false, true] {
        if crashed {
            world.crash();
        }
        let chat = chat.on(&world);
        for (method, rest) in [("GET", ""), ("DELETE", ""), ("GET", "/events"), ("GET", "/export")] {
            let answer = chat.send(method, rest, &Value::Null);
            assert_eq!(answer.status, 404, "{method} {rest}: {answer:?}");
        }
        // Also what was sent before, and new things.
        for request in [1, 2, 3] {
            let answer = chat.try_say(request, &said("play deleted"));
            assert_eq!(answer.status, 404, "{answer:?}");
        }
        let body = json!({ "session_id": chat.id, "user_message": { "content": "hello again" } });
        let answer = chat.client.send("POST", "/goose/reply", &body.to_string());
        assert_eq!(answer.status, 410, "{answer:?}");
        assert!(answer.json()["message"].as_str().unwrap().contains("deleted"), "{answer:?}");
        let cancel = chat.send("POST", "/cancel", &json!({ "request_id": uuid(2) }));
        assert_eq!(cancel.status, 404, "{cancel:?}");
        assert_eq!(chat.send("POST", "/fork", &json!({ "copy": true, "truncate": false })).status, 404);
        assert_eq!(list(&chat.client, ""), json!({ "sessions": [] }));
    }
}

#[test]
fn a_stop_ends_what_runs_or_waits() {
    let gate = Gate::default();
    script(
        "stopped",
        [
            Reply::new().text("half").hold(&gate),
            Reply::calls(&[("box__append", json!({ "line": "no" }))]),
            Reply::says(&["fine"]),
        ],
    );
    let world = World::start();
    let chat = Chat::start(&world.client());
    let stop = || chat.client.send("POST", "/goose/agent/stop", &json!({ "session_id": chat.id }).to_string());
    let mut events = chat.events();
    assert_eq!(stop().status, 200, "nothing runs, which is fine");
    chat.say(1, "play stopped");
    events.next().unwrap();
    assert_eq!(stop().status, 200);
    assert_eq!(events.until("Finish").last().unwrap().data["reason"], "cancel");
    chat.say(2, "play stopped");
    events.until_asked();
    assert_eq!(stop().status, 200);
    assert_eq!(events.until("Finish").last().unwrap().data["reason"], "cancel");
    assert_eq!(text(&chat.run(3, "play stopped")), "fine");
    assert!(world.effects().is_empty());
}
