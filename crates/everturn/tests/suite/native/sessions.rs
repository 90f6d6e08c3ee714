//! Sessions: listed, looked at, renamed and deleted.

use expect_test::expect;
use serde_json::{Value, json};

use super::world::{Frame, World, frames, kinds, play, spawn};
use crate::suite::harness::{Client, Ended, Gate, Reply, Talk, eventually, script};

/// A session of the demo agent whose turn is over, and which has its title.
fn session(client: &Client) -> String {
    let turn = spawn(client, &json!({ "agent_id": "demo", "message": "stream 1" }));
    turn.complete();
    titled(client, &turn.session);
    turn.session
}

/// Waits until a session has its title, which comes in its own time.
fn titled(client: &Client, session: &str) {
    eventually("the session has a title", || {
        client.send("GET", &format!("/api/v1/sessions/{session}"), "").json()["title"].as_str().map(drop)
    });
}

fn page(client: &Client, query: &str) -> (Vec<String>, Option<String>) {
    let answer = client.send("GET", &format!("/api/v1/sessions{query}"), "");
    assert_eq!(answer.status, 200, "{answer:?}");
    let page = answer.json();
    let ids =
        page["sessions"].as_array().unwrap().iter().map(|session| session["session_id"].as_str().unwrap().to_owned());
    (ids.collect(), page["next_cursor"].as_str().map(str::to_owned))
}

#[test]
fn they_are_listed_in_pages_newest_first() {
    let world = World::start("");
    let client = world.client();
    assert_eq!(page(&client, ""), (vec![], None));
    let mut made: Vec<_> = (0..5).map(|_| session(&client)).collect();
    made.reverse();
    assert_eq!(page(&client, ""), (made.clone(), None));
    assert_eq!(page(&client, "?limit=5"), (made.clone(), None), "there is no sixth");
    let (mut seen, mut cursor) = page(&client, "?limit=2");
    // One that comes while somebody pages is on no later page.
    session(&client);
    while let Some(next) = cursor {
        let (ids, after) = page(&client, &format!("?limit=2&cursor={next}"));
        assert!((1..=2).contains(&ids.len()), "no page is empty");
        seen.extend(ids);
        cursor = after;
    }
    assert_eq!(seen, made);
    // Nor does it matter that one was deleted meanwhile.
    let (_, cursor) = page(&client, "?limit=2");
    assert_eq!(client.send("DELETE", &format!("/api/v1/sessions/{}", made[0]), "").status, 204);
    assert_eq!(page(&client, &format!("?limit=200&cursor={}", cursor.unwrap())).0, made[1..]);
}

#[test]
fn pages_that_cannot_be() {
    let world = World::start("");
    let client = world.client();
    let mut talk = Talk::new(client.clone());
    talk.send("GET /api/v1/sessions?limit=0");
    talk.send("GET /api/v1/sessions?cursor=rubbish");
    talk.check(expect![[r#"
        > GET /api/v1/sessions?limit=0
        422
        content-type: application/json
        {"detail":{"code":"VALIDATION_FAILED","message":"limit=\"0\" is not a number from 1 to 200"}}

        > GET /api/v1/sessions?cursor=rubbish
        400
        content-type: application/json
        {
          "detail": {
            "code": "CURSOR_INVALID",
            "hint": "use next_cursor of the page before, as it is",
            "message": "cursor=\"rubbish\" is not a cursor of this list"
          }
        }

    "#]]);
    for limit in ["201", "-1", "", "ten", "1.5", "99999999999999999999", "%00"] {
        let answer = client.send("GET", &format!("/api/v1/sessions?limit={limit}"), "");
        assert_eq!((answer.status, &answer.json()["detail"]["code"]), (422, &json!("VALIDATION_FAILED")), "{limit}");
    }
    // A cursor of another list is none of this one.
    for cursor in ["s", "m1", "1", "s-1", "sg", "s11111111111111111", "%F0%9F%98%80", "s1&cursor=s2"] {
        let answer = client.send("GET", &format!("/api/v1/sessions?cursor={cursor}"), "");
        assert!(matches!(answer.status, 400 | 422), "{cursor}: {answer:?}");
    }
    assert_eq!(client.send("GET", "/api/v1/sessions?cursor=", "").status, 200, "an empty cursor is none");
}

/// What runs, what waits in line behind it, and what the session has.
#[test]
fn a_session_tells_what_goes_on_in_it() {
    let world = World::start("");
    let gate = Gate::default();
    let first = Reply::new().text("Once").hold(&gate).stops();
    script("sessions-busy", [first]);
    script("sessions-next", [Reply::says(&["Second."])]);
    script("sessions-form", [form("Which?"), Reply::says(&["Third."])]);
    let turn = play(&world.client(), "sessions-busy");
    turn.open().until("Once");
    let next = turn.say("play sessions-next");
    let last = turn.say(&format!("play sessions-form {}", "and so on ".repeat(20)));
    assert_eq!((next.kind.as_str(), last.kind.as_str()), ("queued", "queued"));
    let mut talk = Talk::new(world.client());
    talk.say(&format!("{} runs {}, then {} and {}\n", turn.session, turn.message, next.message, last.message));
    talk.send("GET /api/v1/sessions/sess#1");
    gate.open();
    last.paused();
    titled(&world.client(), &turn.session);
    talk.send("GET /api/v1/sessions/sess#1");
    last.say("This one.");
    assert_eq!(last.complete()["final_response"], "Third.");
    talk.send("GET /api/v1/sessions");
    talk.check(expect![[r#"
        sess#1 runs turn#1, then turn#2 and turn#3
        > GET /api/v1/sessions/sess#1
        200
        content-type: application/json
        {
          "agent_id": "writer",
          "agent_options": {},
          "created_at": "<time>",
          "current": {"message_id":"turn#1","status":"running"},
          "queue": [
            {"created_at":"<time>","message_id":"turn#2","preview":"play sessions-next"},
            {
              "created_at": "<time>",
              "message_id": "turn#3",
              "preview": "play sessions-form and so on and so on and so on and so on and so on and so on and so on and so on a"
            }
          ],
          "queued": 2,
          "session_id": "sess#1",
          "status": "running",
          "title": null,
          "tools": [
            {"name":"clock","trust":true},
            {"name":"calculator","trust":true},
            {"name":"request_form","trust":true},
            {"name":"create_artifact","trust":true},
            {"name":"update_artifact","trust":true},
            {"name":"wait","trust":true}
          ],
          "total_input_tokens": 0,
          "total_output_tokens": 0,
          "updated_at": "<time>"
        }

        > GET /api/v1/sessions/sess#1
        200
        content-type: application/json
        {
          "agent_id": "writer",
          "agent_options": {},
          "created_at": "<time>",
          "current": {"form_ids":["form#1"],"message_id":"turn#3","status":"waiting","wake":"form","wake_at":"<time>"},
          "queue": [],
          "queued": 0,
          "session_id": "sess#1",
          "status": "waiting",
          "title": "play sessions-busy",
          "tools": [
            {"name":"clock","trust":true},
            {"name":"calculator","trust":true},
            {"name":"request_form","trust":true},
            {"name":"create_artifact","trust":true},
            {"name":"update_artifact","trust":true},
            {"name":"wait","trust":true}
          ],
          "total_input_tokens": 30,
          "total_output_tokens": 15,
          "updated_at": "<time>"
        }

        > GET /api/v1/sessions
        200
        content-type: application/json
        {
          "sessions": [
            {
              "agent_id": "writer",
              "created_at": "<time>",
              "queued": 0,
              "session_id": "sess#1",
              "status": "idle",
              "title": "play sessions-busy",
              "total_input_tokens": 40,
              "total_output_tokens": 20,
              "updated_at": "<time>"
            }
          ]
        }

    "#]]);
}

/// A call that asks a person for a word.
fn form(title: &str) -> Reply {
    let schema = json!({ "type": "object", "properties": { "word": { "type": "string" } }, "required": ["word"] });
    Reply::calls(&[("request_form", json!({ "kind": "clarify", "title": title, "schema": schema }))])
}

#[test]
fn secrets_are_not_shown() {
    let world = World::start("");
    let options = json!({ "nickname": "Bo", "token": "hunter2-hunter2" });
    let body = json!({ "agent_id": "demo", "message": "stream 1", "agent_options": options });
    let turn = spawn(&world.client(), &body);
    let shown = world.client().send("GET", &format!("/api/v1/sessions/{}", turn.session), "");
    assert_eq!(shown.json()["agent_options"]["nickname"], "Bo");
    assert!(!shown.body.contains("hunter2"), "{shown:?}");
}

#[test]
fn they_can_be_renamed() {
    let world = World::start("");
    let client = world.client();
    let id = session(&client);
    let mut talk = Talk::new(client.clone());
    talk.say(&format!("{id}\n"));
    talk.send(r#"PATCH /api/v1/sessions/sess#1 {"title":"  A trip to Rome ","colour":"red"}"#);
    talk.send(r#"PATCH /api/v1/sessions/sess#1 {"title":""}"#);
    talk.send(r#"PATCH /api/v1/sessions/sess_no {"title":"A trip"}"#);
    talk.check(expect![[r#"
        sess#1
        > PATCH /api/v1/sessions/sess#1 {"title":"  A trip to Rome ","colour":"red"}
        200
        content-type: application/json
        {
          "agent_id": "demo",
          "agent_options": {},
          "created_at": "<time>",
          "current": null,
          "queue": [],
          "queued": 0,
          "session_id": "sess#1",
          "status": "idle",
          "title": "A trip to Rome",
          "tools": [{"name":"clock","trust":true},{"name":"calculator","trust":true}],
          "total_input_tokens": 199,
          "total_output_tokens": 1,
          "updated_at": "<time>"
        }

        > PATCH /api/v1/sessions/sess#1 {"title":""}
        422
        content-type: application/json
        {"detail":{"code":"VALIDATION_FAILED","message":"title must have 1 to 200 characters, without line breaks"}}

        > PATCH /api/v1/sessions/sess_no {"title":"A trip"}
        404
        content-type: application/json
        {
          "detail": {
            "code": "SESSION_NOT_FOUND",
            "hint": "GET /api/v1/sessions lists yours",
            "message": "there is no session \"sess_no\""
          }
        }

    "#]]);
    let path = format!("/api/v1/sessions/{id}");
    let long = json!({ "title": "é".repeat(201) }).to_string();
    for wrong in [
        r#"{}"#,
        r#"{"title":null}"#,
        r#"{"title":7}"#,
        r#"{"title":"two\nlines"}"#,
        r#"{"title":" "}"#,
        "[]",
        "",
        &long,
    ] {
        let answer = client.send_with("PATCH", &path, &[("content-type", "application/json")], wrong.to_owned());
        assert_eq!((answer.status, &answer.json()["detail"]["code"]), (422, &json!("VALIDATION_FAILED")), "{wrong}");
    }
    let shown = || client.send("GET", &path, "").json()["title"].clone();
    assert_eq!(shown(), "A trip to Rome");
    // Longest there is; and the next turn leaves it alone.
    let title = "é".repeat(200);
    assert_eq!(client.send("PATCH", &path, &json!({ "title": title }).to_string()).status, 200);
    spawn(&client, &json!({ "session_id": id, "message": "stream 1" })).complete();
    assert_eq!(shown(), title);
}

#[test]
fn what_is_deleted_is_gone() {
    let mut world = World::start("");
    let client = world.client();
    let (kept, gone) = (session(&client), session(&client));
    let path = format!("/api/v1/sessions/{gone}");
    let delete = |client: &Client| client.send_with("DELETE", &path, &[("idempotency-key", "delete-it")], "").status;
    assert_eq!((delete(&client), delete(&client)), (204, 204), "sent again with its key, it is the same deed");
    assert_eq!(client.send("DELETE", &path, "").status, 404);
    let check = |client: &Client| {
        for (method, path, body) in [
            ("GET", path.clone(), ""),
            ("GET", format!("{path}/messages"), ""),
            ("PATCH", path.clone(), r#"{"title":"Back"}"#),
            ("POST", "/api/v1/sessions/stream".to_owned(), &json!({ "session_id": gone, "message": "hi" }).to_string()),
        ] {
            let answer = client.send(method, &path, body);
            assert_eq!((answer.status, &answer.json()["detail"]["code"]), (404, &json!("SESSION_NOT_FOUND")), "{path}");
        }
        assert_eq!(page(client, "").0, [kept.as_str()]);
    };
    check(&client);
    world.crash();
    check(&world.client());
}

/// Deleting ends what runs, what waits for a person, and what waits in line; whoever reads it is told.
#[test]
fn deleting_ends_what_goes_on() {
    let world = World::start("");
    let gate = Gate::default();
    script("sessions-cut", [Reply::new().text("Once").hold(&gate).stops()]);
    script("sessions-asks", [form("Which?")]);
    let running = play(&world.client(), "sessions-cut");
    let mut stream = running.open();
    stream.until("Once");
    let queued = running.say("stream 1");
    let mut line = queued.open();
    let asking = play(&world.client(), "sessions-asks");
    let paused = asking.paused();
    let mut waiting = asking.open_after(&paused.id);
    for session in [&running.session, &asking.session] {
        assert_eq!(world.client().send("DELETE", &format!("/api/v1/sessions/{session}"), "").status, 204);
    }
    for (name, stream) in [("running", &mut stream), ("queued", &mut line), ("waiting", &mut waiting)] {
        let (frames, ended) = stream.rest();
        assert_eq!(ended, Ended::Cleanly, "{name}");
        let last = Frame::read(frames.last().unwrap()).unwrap_or_else(|| panic!("{name}: {frames:?}"));
        assert_eq!((last.kind(), &last.data["reason"]), ("cancelled", &json!("session_deleted")), "{name}");
    }
    let forms: Value = world.client().send("GET", "/api/v1/forms", "").json();
    assert_eq!(forms["forms"], json!([]));
    assert_eq!(page(&world.client(), ""), (vec![], None));
    for turn in [&running, &queued, &asking] {
        assert_eq!(world.client().send("GET", &format!("{}/stream", turn.path()), "").status, 404);
    }
}

/// A session that another dialect began is one like the others.
#[test]
fn sessions_of_other_dialects() {
    let world = World::start("");
    let client = world.client();
    let body = r#"{"agent":{"name":"demo"},"messages":[{"role":"user","content":"stream 2"}]}"#;
    let made = client.send("PUT", "/session", body);
    let (session, turn) = (made.header("x-session-id"), made.header("x-message-id"));
    assert_eq!(page(&client, "").0, [session]);
    let stream = client.send("GET", &format!("/api/v1/sessions/{session}/messages/{turn}/stream"), "");
    assert_eq!(kinds(&frames(&stream.body)), ["start", "delta", "delta", "complete"]);
    let next = spawn(&client, &json!({ "session_id": session, "message": "stream 1" }));
    next.complete();
    let history = eventually("both turns are there", || {
        let shown = client.send("GET", &format!("/session/{session}"), "").json();
        Some(shown["history"]["full"].clone()).filter(|history| history.as_array().unwrap().len() == 4)
    });
    assert_eq!(history[3]["content"], "word 1 ");
}
