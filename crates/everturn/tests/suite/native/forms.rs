//! Forms: what people are asked, and how they answer.

use expect_test::expect;
use serde_json::{Value, json};

use super::world::{Turn, World, kinds, play, spawn};
use crate::suite::harness::{Answer, Client, Reply, Talk, asked, eventually, script};

const SPAWN: &str = "/api/v1/sessions/stream";

/// What the model was told of its last call.
#[track_caller]
fn told(name: &str) -> String {
    let messages = asked(name).pop().unwrap()["messages"].as_array().unwrap().clone();
    let result = messages.into_iter().rev().find(|message| message["role"] == "tool").unwrap();
    result["content"].as_str().unwrap().to_owned()
}

/// Begins a turn whose model asks this, and gives what the stream says of the form.
#[track_caller]
fn ask(client: &Client, name: &str, form: Value) -> (Turn, Value) {
    script(name, [Reply::calls(&[("request_form", form)]), Reply::says(&["Thanks."])]);
    let turn = play(client, name);
    let frames = turn.frames();
    assert_eq!(kinds(&frames), ["start", "form_request", "paused"]);
    assert_eq!(frames[2].data["wake"], "form");
    (turn, frames[1].data.clone())
}

fn answer(turn: &Turn, body: &Value) -> Answer {
    let mut body = body.clone();
    body["session_id"] = turn.session.as_str().into();
    turn.client.send("POST", SPAWN, &body.to_string())
}

#[track_caller]
fn form(client: &Client, id: &Value) -> Value {
    let shown = client.send("GET", &format!("/api/v1/forms/{}", id.as_str().unwrap()), "");
    assert_eq!(shown.status, 200, "{shown:?}");
    shown.json()
}

/// All four kinds, and the ways in which a person can answer: fields, JSON in a message, plain words.
#[test]
fn of_every_kind_answered_in_every_way() {
    let text = |field: &str| json!({ "type": "object", "properties": { field: { "type": "string", "minLength": 1 } }, "required": [field] });
    let account = json!({
        "type": "object",
        "properties": { "url": { "type": "string" }, "key": { "type": "string" } },
        "required": ["url", "key"],
    });
    let world = World::start("");
    let client = world.client();
    let table = [
        ("clarify", Some(text("city")), json!({ "form_answer": { "city": "Oslo" } }), json!({ "city": "Oslo" })),
        ("clarify", Some(text("city")), json!({ "message": "Oslo" }), json!({ "city": "Oslo" })),
        ("clarify", Some(text("city")), json!({ "message": "{\"city\": \"Oslo\"}" }), json!({ "city": "Oslo" })),
        ("signature", Some(text("name")), json!({ "message": "Ada Lovelace" }), json!({ "name": "Ada Lovelace" })),
        (
            "integration",
            Some(account),
            json!({ "message": "{\"url\":\"https://x.example\",\"key\":\"k\"}" }),
            json!({ "url": "https://x.example", "key": "k" }),
        ),
        ("approval", None, json!({ "message": "Yes!" }), json!({ "approved": true })),
        ("approval", None, json!({ "message": "no" }), json!({ "approved": false })),
        (
            "approval",
            None,
            json!({ "form_answer": { "approved": false, "reason": "Too late." } }),
            json!({ "approved": false, "reason": "Too late." }),
        ),
    ];
    for (index, (kind, schema, said, value)) in table.into_iter().enumerate() {
        let name = format!("form-kind-{index}");
        let mut request = json!({ "kind": kind, "title": "May I ask?", "description": "Because." });
        if let Some(schema) = &schema {
            request["schema"] = schema.clone();
        }
        let (turn, asks) = ask(&client, &name, request);
        let payload = &asks["payload"];
        assert_eq!((&asks["form_kind"], &payload["title"]), (&json!(kind), &json!("May I ask?")));
        assert_eq!(payload["description"], "Because.");
        let own = schema.unwrap_or_else(|| {
            json!({
                "type": "object",
                "properties": {
                    "approved": { "type": "boolean", "title": "Approved" },
                    "reason": { "type": "string", "title": "Reason" },
                },
                "required": ["approved"],
                "additionalProperties": false,
            })
        });
        assert_eq!(payload["schema"], own);
        let open = form(&client, &asks["form_id"]);
        assert_eq!((&open["status"], &open["message_id"]), (&json!("open"), &json!(turn.message)));
        let accepted = answer(&turn, &said);
        assert_eq!((accepted.status, &accepted.json()["kind"]), (202, &json!("form_answer")), "{said}");
        assert_eq!(accepted.json()["message_id"], turn.message.as_str(), "it is the turn that asked");
        assert_eq!(turn.complete()["final_response"], "Thanks.");
        assert_eq!(serde_json::from_str::<Value>(&told(&name)).unwrap(), value, "the model gets the answer");
        let closed = form(&client, &asks["form_id"]);
        assert_eq!((&closed["status"], &closed["answer"]), (&json!("answered"), &value));
        assert!(closed["closed_at"].is_string(), "{closed}");
    }
}

/// A few lines of schema and a few thousand numbers could take gigabytes, and a long answer the rest.
#[test]
fn answers_that_cost_too_much_are_refused() {
    let items = json!({ "type": "array", "items": { "allOf": vec![json!({ "type": "null" }); 2500] } });
    let schema = json!({ "type": "object", "properties": { "list": items } });
    let world = World::start("");
    let client = world.client();
    let (turn, asks) = ask(&client, "form-bomb", json!({ "kind": "clarify", "title": "What?", "schema": schema }));
    let bomb = json!({ "list": vec![1; 10_000] });
    let long = json!({ "list": [], "text": "x".repeat(300_000) });
    let (steps, bytes) =
        ("it would take more than 1000000 steps", "the answer has 300021 bytes, at most 262144 are allowed");
    for (said, limit) in [
        (json!({ "form_answer": bomb }), steps),
        (json!({ "message": bomb.to_string() }), steps),
        (json!({ "form_answer": long }), bytes),
        // As a text in a text, in which every quotation mark takes one more byte.
        (json!({ "message": long.to_string() }), "the answer has 300029 bytes, at most 262144 are allowed"),
    ] {
        let refused = answer(&turn, &said);
        assert_eq!(
            (refused.status, &refused.json()["detail"]["code"]),
            (422, &json!("FORM_ANSWER_INVALID")),
            "{}",
            refused.body
        );
        assert!(refused.body.contains(limit), "{}", refused.body);
    }
    assert_eq!(form(&client, &asks["form_id"])["status"], "open");
    assert_eq!(answer(&turn, &json!({ "form_answer": { "list": [null, null] } })).status, 202);
    assert_eq!(turn.complete()["final_response"], "Thanks.");
}

#[test]
fn an_answer_that_does_not_fit_leaves_it_open() {
    let schema = json!({
        "type": "object",
        "properties": { "city": { "type": "string" }, "nights": { "type": "integer", "minimum": 1 } },
        "required": ["city", "nights"],
        "additionalProperties": false,
    });
    let request = json!({ "kind": "clarify", "title": "Where, and for how long?", "schema": schema });
    script("form-invalid", [Reply::calls(&[("request_form", request)]), Reply::says(&["Booked."])]);
    let world = World::start("form_expiry = 'never'");
    let mut talk = Talk::new(world.client());
    for request in [
        r#"POST /api/v1/sessions/stream {"agent_id":"writer","message":"play form-invalid"}"#,
        "GET /api/v1/sessions/sess#1/messages/turn#1/stream",
        r#"POST /api/v1/sessions/stream {"session_id":"sess#1","form_answer":{"city":7,"nights":0,"pets":true}}"#,
        r#"POST /api/v1/sessions/stream {"session_id":"sess#1","message":"Somewhere warm."}"#,
        r#"POST /api/v1/sessions/stream {"session_id":"sess#1","form_id":"form#1","message":"{\"city\":\"Rome\"}"}"#,
        "GET /api/v1/forms/form#1",
        r#"POST /api/v1/sessions/stream {"session_id":"sess#1","form_id":"form#1","form_answer":{"city":"Rome","nights":2}}"#,
        "GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=6",
        r#"POST /api/v1/sessions/stream {"session_id":"sess#1","form_id":"form#1","form_answer":{"city":"Rome","nights":2}}"#,
        r#"POST /api/v1/sessions/stream {"session_id":"sess#1","form_answer":{"city":"Rome","nights":2}}"#,
        "GET /api/v1/forms/form#1",
    ] {
        talk.send(request);
    }
    talk.check(expect![[r#"
        > POST /api/v1/sessions/stream {"agent_id":"writer","message":"play form-invalid"}
        202
        content-type: application/json
        x-session-id: sess#1
        x-message-id: turn#1
        {"kind":"new_turn","message_id":"turn#1","session_id":"sess#1"}

        > GET /api/v1/sessions/sess#1/messages/turn#1/stream
        200
        content-type: text/event-stream
        x-session-id: sess#1
        x-message-id: turn#1

        retry: 1000
        id: 1
        data: {"type":"start","session_id":"sess#1","message_id":"turn#1","agent_id":"writer"}

        id: 5
        data: {"type":"form_request","form_id":"form#1","form_kind":"clarify","payload":{"title":"Where, and for how long?","schema":{"additionalProperties":false,"properties":{"city":{"type":"string"},"nights":{"minimum":1,"type":"integer"}},"required":["city","nights"],"type":"object"},"tool_call_id":"call#1"}}

        id: 6
        data: {"type":"paused","wake":"form"}

        > POST /api/v1/sessions/stream {"session_id":"sess#1","form_answer":{"city":7,"nights":0,"pets":true}}
        422
        content-type: application/json
        {
          "detail": {
            "code": "FORM_ANSWER_INVALID",
            "hint": "the form stays open; its payload.schema says what it asks for",
            "message": "the answer does not fit the form form#1: at /city: the value is not of type \"string\"; at /nights: the value is less than the minimum of 1; at the top: Additional properties are not allowed ('pets' was unexpected)",
            "problems": [
              "at /city: the value is not of type \"string\"",
              "at /nights: the value is less than the minimum of 1",
              "at the top: Additional properties are not allowed ('pets' was unexpected)"
            ]
          }
        }

        > POST /api/v1/sessions/stream {"session_id":"sess#1","message":"Somewhere warm."}
        422
        content-type: application/json
        {
          "detail": {
            "code": "FORM_ANSWER_INVALID",
            "hint": "the form stays open; its payload.schema says what it asks for",
            "message": "the answer does not fit the form form#1: at the top: the value is not of type \"object\"",
            "problems": ["at the top: the value is not of type \"object\""]
          }
        }

        > POST /api/v1/sessions/stream {"session_id":"sess#1","form_id":"form#1","message":"{\"city\":\"Rome\"}"}
        422
        content-type: application/json
        {
          "detail": {
            "code": "FORM_ANSWER_INVALID",
            "hint": "the form stays open; its payload.schema says what it asks for",
            "message": "the answer does not fit the form form#1: at the top: \"nights\" is a required property",
            "problems": ["at the top: \"nights\" is a required property"]
          }
        }

        > GET /api/v1/forms/form#1
        200
        content-type: application/json
        {
          "created_at": "<time>",
          "form_id": "form#1",
          "form_kind": "clarify",
          "message_id": "turn#1",
          "payload": {
            "schema": {
              "additionalProperties": false,
              "properties": {"city":{"type":"string"},"nights":{"minimum":1,"type":"integer"}},
              "required": ["city","nights"],
              "type": "object"
            },
            "title": "Where, and for how long?",
            "tool_call_id": "call#1"
          },
          "session_id": "sess#1",
          "status": "open"
        }

        > POST /api/v1/sessions/stream {"session_id":"sess#1","form_id":"form#1","form_answer":{"city":"Rome","nights":2}}
        202
        content-type: application/json
        x-session-id: sess#1
        x-message-id: turn#1
        {"kind":"form_answer","message_id":"turn#1","session_id":"sess#1"}

        > GET /api/v1/sessions/sess#1/messages/turn#1/stream?since=6
        200
        content-type: text/event-stream
        x-session-id: sess#1
        x-message-id: turn#1

        retry: 1000
        id: 9
        data: {"type":"delta","content":"Booked."}

        id: 11
        data: {"type":"complete","session_id":"sess#1","message_id":"turn#1","final_response":"Booked.","total_input_tokens":20,"total_output_tokens":10,"artifacts":[]}

        > POST /api/v1/sessions/stream {"session_id":"sess#1","form_id":"form#1","form_answer":{"city":"Rome","nights":2}}
        409
        content-type: application/json
        {
          "detail": {
            "code": "FORM_CLOSED",
            "hint": "GET /api/v1/forms?status=open lists those that are",
            "message": "the form form#1 is not open in this session: it was answered before, has expired, or its turn was ended"
          }
        }

        > POST /api/v1/sessions/stream {"session_id":"sess#1","form_answer":{"city":"Rome","nights":2}}
        409
        content-type: application/json
        {
          "detail": {
            "code": "FORM_CLOSED",
            "hint": "to begin a turn, send a message instead of form_answer",
            "message": "this session waits for no form"
          }
        }

        > GET /api/v1/forms/form#1
        200
        content-type: application/json
        {
          "answer": {"city":"Rome","nights":2},
          "closed_at": "<time>",
          "created_at": "<time>",
          "form_id": "form#1",
          "form_kind": "clarify",
          "message_id": "turn#1",
          "payload": {
            "schema": {
              "additionalProperties": false,
              "properties": {"city":{"type":"string"},"nights":{"minimum":1,"type":"integer"}},
              "required": ["city","nights"],
              "type": "object"
            },
            "title": "Where, and for how long?",
            "tool_call_id": "call#1"
          },
          "session_id": "sess#1",
          "status": "answered"
        }

    "#]]);
}

#[test]
fn open_through_a_crash() {
    let mut world = World::start("");
    let request = json!({ "kind": "approval", "title": "Still there?" });
    let (turn, asks) = ask(&world.client(), "form-crash", request);
    let paused = turn.paused();
    let before = form(&world.client(), &asks["form_id"]);
    world.crash();
    let turn = turn.on(&world);
    assert_eq!(form(&turn.client, &asks["form_id"]), before);
    assert_eq!(turn.shown()["form_ids"], json!([asks["form_id"]]));
    let mut reader = turn.open_after(&paused.id);
    assert_eq!(answer(&turn, &json!({ "message": "yes" })).status, 202);
    reader.until("Thanks.");
    assert_eq!(turn.complete()["final_response"], "Thanks.");
    world.crash();
    let turn = turn.on(&world);
    assert_eq!(form(&turn.client, &asks["form_id"])["status"], "answered");
    let again = answer(&turn, &json!({ "form_id": asks["form_id"], "message": "yes" }));
    assert_eq!((again.status, &again.json()["detail"]["code"]), (409, &json!("FORM_CLOSED")), "answered once for all");
}

#[test]
fn one_that_nobody_answers_expires() {
    let world = World::start("form_expiry = '300ms'\napproval_expiry = '300ms'");
    let client = world.client();
    let form_call = json!({ "kind": "approval", "title": "Hello?" });
    script(
        "form-expiry",
        [Reply::calls(&[("request_form", form_call), ("clock", json!({}))]), Reply::says(&["Then not."])],
    );
    let tools = json!([{ "name": "clock", "trust": false }]);
    let turn = spawn(&client, &json!({ "agent_id": "writer", "message": "play form-expiry", "tools": tools }));
    eventually("it expires", || (turn.shown()["status"] == "completed").then_some(()));
    let frames = turn.frames();
    let kinds = kinds(&frames);
    let tool = ["tool_started", "tool_completed"];
    assert_eq!(kinds[..4], ["start", "form_request", "form_request", "paused"]);
    assert_eq!(kinds[4..], [&tool[..], &["delta", "complete"]].concat());
    let expires_at = &frames[1].data["payload"]["expires_at"];
    assert!(expires_at.is_string());
    assert_eq!((&frames[3].data["wake"], &frames[3].data["wake_at"]), (&json!("form"), expires_at));
    assert_eq!(frames[5].data["message"], "Tool call denied: nobody answered in time");
    let messages = asked("form-expiry").pop().unwrap()["messages"].clone();
    let results = messages.as_array().unwrap().iter().filter(|message| message["role"] == "tool");
    let results: Vec<_> = results.map(|message| message["content"].as_str().unwrap()).collect();
    let unanswered = "The form was not answered in time; it cannot be answered any more";
    assert_eq!(results, [unanswered, "Tool call denied: nobody answered in time"]);
    for frame in &frames[1..3] {
        let expired = form(&client, &frame.data["form_id"]);
        assert_eq!((&expired["status"], expired.get("answer")), (&json!("expired"), None), "{expired}");
        let late = answer(&turn, &json!({ "form_id": frame.data["form_id"], "message": "yes" }));
        assert_eq!((late.status, &late.json()["detail"]["code"]), (409, &json!("FORM_CLOSED")));
    }
}
