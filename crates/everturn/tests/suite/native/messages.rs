//! The turns of a session as a list of messages: what was asked, what came of it, and where it stands.

use expect_test::expect;
use serde_json::{Value, json};

use super::world::{Turn, World, play, spawn};
use crate::suite::harness::{Client, Gate, Reply, Talk, script};

fn page(client: &Client, session: &str, query: &str) -> (Vec<Value>, Option<String>) {
    let answer = client.send("GET", &format!("/api/v1/sessions/{session}/messages{query}"), "");
    assert_eq!(answer.status, 200, "{answer:?}");
    let page = answer.json();
    (page["messages"].as_array().unwrap().clone(), page["next_cursor"].as_str().map(str::to_owned))
}

#[test]
fn they_tell_what_was_asked_and_what_came_of_it() {
    let world = World::start("");
    let calls = Reply::new().thinking("Hmm.").text("Let me see. ").call("calculator", r#"{"expression":"6*7"}"#);
    let wrong = Reply::calls(&[("calculator", json!({ "expression": "6*" }))]);
    script("messages-shape", [calls.finish("tool_calls"), wrong, Reply::says(&["It is ", "42."])]);
    let turn = play(&world.client(), "messages-shape");
    turn.complete();
    let mut talk = Talk::new(world.client());
    talk.say(&format!("{} {}\n", turn.session, turn.message));
    talk.send("GET /api/v1/sessions/sess#1/messages");
    talk.send("GET /api/v1/sessions/sess#1/messages/turn_no");
    talk.send("GET /api/v1/sessions/sess_no/messages/turn#1");
    talk.send("GET /api/v1/sessions/sess_no/messages");
    talk.check(expect![[r#"
        sess#1 turn#1
        > GET /api/v1/sessions/sess#1/messages
        200
        content-type: application/json
        {
          "messages": [
            {
              "created_at": "<time>",
              "document_ids": [],
              "ended_at": "<time>",
              "input": "play messages-shape",
              "message_id": "turn#1",
              "messages": [
                {"content":"play messages-shape","role":"user"},
                {
                  "content": "Let me see. ",
                  "role": "assistant",
                  "tool_calls": [{"input":{"expression":"6*7"},"tool_call_id":"call#1","tool_name":"calculator"}]
                },
                {"content":"42","role":"tool","success":true,"tool_call_id":"call#1"},
                {
                  "content": "",
                  "role": "assistant",
                  "tool_calls": [{"input":{"expression":"6*"},"tool_call_id":"call#2","tool_name":"calculator"}]
                },
                {
                  "content": "Error: expected a number, a function or \"(\", found the end (at character 3)",
                  "role": "tool",
                  "success": false,
                  "tool_call_id": "call#2"
                },
                {"content":"It is 42.","role":"assistant"}
              ],
              "response": "It is 42.",
              "status": "completed",
              "total_input_tokens": 30,
              "total_output_tokens": 15
            }
          ]
        }

        > GET /api/v1/sessions/sess#1/messages/turn_no
        404
        content-type: application/json
        {
          "detail": {
            "code": "MESSAGE_NOT_FOUND",
            "hint": "GET /api/v1/sessions/{session_id}/messages lists a session's",
            "message": "there is no message \"turn_no\""
          }
        }

        > GET /api/v1/sessions/sess_no/messages/turn#1
        404
        content-type: application/json
        {
          "detail": {
            "code": "MESSAGE_NOT_FOUND",
            "hint": "GET /api/v1/sessions/{session_id}/messages lists a session's",
            "message": "there is no message \"turn#1\""
          }
        }

        > GET /api/v1/sessions/sess_no/messages
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
    let (messages, _) = page(&world.client(), &turn.session, "");
    assert_eq!(messages, [turn.shown()]);
}

#[test]
fn they_are_listed_in_pages_newest_first() {
    let world = World::start("");
    let client = world.client();
    let first = spawn(&client, &json!({ "agent_id": "demo", "message": "stream 1" }));
    first.complete();
    for words in 2..=5 {
        first.say(&format!("stream {words}")).complete();
    }
    let inputs = |messages: &[Value]| messages.iter().map(|message| message["input"].clone()).collect::<Vec<_>>();
    let (mut seen, mut cursor) = page(&client, &first.session, "?limit=2");
    while let Some(next) = cursor {
        let (messages, after) = page(&client, &first.session, &format!("?limit=2&cursor={next}"));
        seen.extend(messages);
        cursor = after;
    }
    assert_eq!(inputs(&seen), ["stream 5", "stream 4", "stream 3", "stream 2", "stream 1"]);
    for (query, status) in [("?limit=0", 422), ("?limit=201", 422), ("?cursor=rubbish", 400), ("?cursor=s1", 400)] {
        let answer = client.send("GET", &format!("/api/v1/sessions/{}/messages{query}", first.session), "");
        assert_eq!(answer.status, status, "{query}");
    }
}

/// The stored answer is the one that the stream ended with, and so are the tokens.
#[track_caller]
fn agree(turn: &Turn, status: &str, field: &str) -> Value {
    let last = turn.frames().last().unwrap().data.clone();
    let shown = turn.shown();
    assert_eq!(shown["status"], status, "{shown}");
    // Where there is no text, the stream leaves it out.
    assert_eq!(
        shown["response"].as_str().unwrap_or_default(),
        last[field].as_str().unwrap_or_default(),
        "{last}\n{shown}"
    );
    for tokens in ["total_input_tokens", "total_output_tokens"] {
        assert_eq!(shown[tokens], last[tokens], "{last}\n{shown}");
    }
    assert!(shown["ended_at"].is_string(), "{shown}");
    shown
}

#[test]
fn the_response_is_what_the_stream_ended_with() {
    let world = World::start("retries = 0");
    let client = world.client();
    script("messages-plain", [Reply::says(&["One ", "two ", "three."])]);
    assert_eq!(agree(&play(&client, "messages-plain"), "completed", "final_response")["response"], "One two three.");

    // What was said before a tool is no part of the answer.
    let calls = Reply::new().text("Wait. ").call("clock", "{}").finish("tool_calls");
    script("messages-tools", [calls, Reply::says(&["Late."])]);
    assert_eq!(agree(&play(&client, "messages-tools"), "completed", "final_response")["response"], "Late.");

    script("messages-empty", [Reply::new().stops()]);
    assert_eq!(agree(&play(&client, "messages-empty"), "completed", "final_response")["response"], "");

    // An answer that was begun again is the second one alone.
    let world = World::start("");
    let client = world.client();
    script("messages-cut", [Reply::new().text("Void"), Reply::says(&["Valid."])]);
    assert_eq!(agree(&play(&client, "messages-cut"), "completed", "final_response")["response"], "Valid.");
}

#[test]
fn failures_and_their_codes() {
    let world = World::start("retries = 0");
    let client = world.client();
    script("messages-failed", [Reply::status(401, &[], r#"{"error":{"message":"no such key"}}"#)]);
    let shown = agree(&play(&client, "messages-failed"), "failed", "partial_response");
    assert_eq!(shown["error"]["code"], "LLM_PROVIDER_ERROR");
    assert_eq!(shown["response"], Value::Null);

    script("messages-broken", [Reply::new().text("Half of")]);
    let shown = agree(&play(&client, "messages-broken"), "failed", "partial_response");
    assert_eq!((&shown["error"]["code"], &shown["response"]), (&json!("LLM_PROVIDER_UNAVAILABLE"), &json!("Half of")));

    script("messages-long", [Reply::new().text("And so").finish("length")]);
    let shown = agree(&play(&client, "messages-long"), "failed", "partial_response");
    assert_eq!((&shown["error"]["code"], &shown["response"]), (&json!("CONTEXT_OVERFLOW"), &json!("And so")));

    let refused = spawn(&client, &json!({ "agent_id": "demo", "message": "refuse" }));
    assert_eq!(agree(&refused, "failed", "partial_response")["error"]["code"], "REFUSED");
}

/// Where a turn stands, from line to end.
#[test]
fn every_status() {
    let world = World::start("");
    let client = world.client();
    let gate = Gate::default();
    script("messages-running", [Reply::new().text("Begun").hold(&gate).stops()]);
    let schema = json!({ "type": "object", "properties": { "word": { "type": "string" } }, "required": ["word"] });
    let form = json!({ "kind": "clarify", "title": "Which?", "schema": schema });
    let asks = Reply::new().text("Let me ask.").call("request_form", form.to_string()).finish("tool_calls");
    script("messages-waiting", [asks]);
    let running = play(&client, "messages-running");
    running.open().until("Begun");
    let (waiting, queued) = (running.say("play messages-waiting"), running.say("stream 1"));
    let standing = |turn: &Turn| {
        let shown = turn.shown();
        assert_eq!(
            shown.get("ended_at").is_some(),
            matches!(shown["status"].as_str().unwrap(), "cancelled" | "completed")
        );
        (shown["status"].as_str().unwrap().to_owned(), shown["response"].clone())
    };
    assert_eq!(standing(&running).0, "running");
    assert_eq!(standing(&waiting), ("queued".to_owned(), Value::Null));
    assert_eq!(queued.shown()["input"], "stream 1");
    gate.open();
    waiting.paused();
    assert_eq!(standing(&running), ("completed".to_owned(), json!("Begun")));
    let shown = waiting.shown();
    let form = client.send("GET", "/api/v1/forms?status=open", "").json()["forms"][0]["form_id"].clone();
    assert_eq!(
        (&shown["status"], &shown["wake"], &shown["form_ids"]),
        (&json!("waiting"), &json!("form"), &json!([form]))
    );
    // Each can be stopped by itself, also in line.
    for turn in [&queued, &waiting] {
        assert_eq!(client.send("POST", &format!("{}/stop", turn.path()), "").status, 204);
        let shown = agree(turn, "cancelled", "partial_response");
        assert_eq!(shown["reason"], "user_stop");
    }
    let (messages, _) = page(&client, &running.session, "");
    let statuses: Vec<_> = messages.iter().map(|message| message["status"].clone()).collect();
    assert_eq!(statuses, ["cancelled", "cancelled", "completed"]);
}

#[test]
fn a_stopped_answer_keeps_what_there_was() {
    let world = World::start("");
    let gate = Gate::default();
    script("messages-stopped", [Reply::new().text("So far").hold(&gate).stops()]);
    let turn = play(&world.client(), "messages-stopped");
    turn.open().until("So far");
    assert_eq!(world.client().send("POST", &format!("/api/v1/sessions/{}/stop", turn.session), "").status, 204);
    let shown = agree(&turn, "cancelled", "partial_response");
    assert_eq!((&shown["response"], &shown["reason"]), (&json!("So far"), &json!("user_stop")));
}
