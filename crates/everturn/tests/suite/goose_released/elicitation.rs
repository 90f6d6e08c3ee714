//! What an MCP server asks while its tool runs, and the three ways to answer it.

use expect_test::expect;
use serde_json::{Value, json};

use super::{
    shown::{check_requests, lines, told},
    world::{Chat, Events, Frame, World, content, kinds, said, text, uuid},
};
use crate::suite::harness::{Answer, Reply, Talk, eventually, script};

fn asks(name: &str) {
    let schema = json!({ "type": "object", "properties": { "colour": { "type": "string" } }, "required": ["colour"] });
    let call = Reply::calls(&[("box__ask", json!({ "message": "Which colour?", "schema": schema }))]);
    script(name, [call, Reply::says(&["So be it."])]);
}

/// Begins a turn whose tool asks; gives the stream, what was seen, and the question's id.
#[track_caller]
fn asked(chat: &Chat, name: &str) -> (Events, Vec<Frame>, String) {
    let mut events = chat.events();
    chat.say(1, &format!("play {name}"));
    let (seen, form) = events.until_asked();
    assert_eq!(seen.last().unwrap().action().unwrap()["actionType"], "elicitation");
    (events, seen, form)
}

fn response(form: &str, data: &Value) -> Value {
    let data = json!({ "actionType": "elicitationResponse", "id": form, "user_data": data });
    content(&json!([{ "type": "actionRequired", "data": data }]))
}

fn open_forms(chat: &Chat) -> Value {
    chat.client.send("GET", &format!("/api/v1/forms?status=open&session_id={}", chat.id), "").json()["forms"].clone()
}

const TOLD: &str = r#"told {"action": "accept", "content": {"colour": "red"}}"#;

#[test]
fn answered_in_the_split_protocol() {
    asks("elicit-split");
    let world = World::start();
    let chat = Chat::start(&world.client());
    let (mut events, mut seen, form) = asked(&chat, "elicit-split");
    assert_eq!(open_forms(&chat)[0]["form_id"], form.as_str());
    // What does not fit is refused, and the question stays.
    for wrong in [json!({}), json!({ "colour": 7 }), json!([]), json!(null)] {
        let answer = chat.try_say(2, &response(&form, &wrong));
        assert_eq!(answer.status, 422, "{wrong}: {answer:?}");
        assert_eq!(open_forms(&chat)[0]["form_id"], form.as_str());
    }
    let long = chat.try_say(2, &response(&form, &json!({ "colour": "x".repeat(300_000) })));
    assert_eq!(long.status, 422);
    assert!(long.body.contains("the answer has 300013 bytes, at most 262144 are allowed"), "{}", long.body);
    let right = response(&form, &json!({ "colour": "red" }));
    let answer = chat.try_say(2, &right);
    assert_eq!((answer.status, answer.json()), (200, json!({ "request_id": uuid(2) })), "{answer:?}");
    seen.extend(events.until("Finish"));
    assert!(seen.iter().all(|frame| frame.data["chat_request_id"] == uuid(1)), "no events of the answer's own");
    let mut talk = Talk::new(chat.client.clone());
    talk.say(&lines(&seen));
    talk.check(expect![[r#"
        turn#1:4 {"chat_request_id":"request-1","message":{"content":[{"id":"call#1","toolCall":{"status":"success","value":{"arguments":{"message":"Which colour?","schema":{"properties":{"colour":{"type":"string"}},"required":["colour"],"type":"object"}},"name":"box__ask"}},"type":"toolRequest"}],"created":0,"id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"request_id":"request-1","type":"Message"}
        turn#1:6 {"chat_request_id":"request-1","message":{"content":[{"data":{"actionType":"elicitation","id":"form#1.1","message":"Which colour?","requested_schema":{"properties":{"colour":{"type":"string"}},"required":["colour"],"type":"object"}},"type":"actionRequired"}],"created":0,"id":"form#1.1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"request_id":"request-1","type":"Message"}
        turn#1:8 {"chat_request_id":"request-1","message":{"content":[{"id":"call#1","toolResult":{"status":"success","value":{"content":[{"text":"{\"action\": \"accept\", \"content\": {\"colour\": \"red\"}}","type":"text"}],"isError":false}},"type":"toolResponse"}],"created":0,"id":"turn#1.call#1","metadata":{"agentVisible":true,"userVisible":true},"role":"user"},"request_id":"request-1","type":"Message"}
        turn#1:10 {"chat_request_id":"request-1","message":{"content":[{"text":"So be it.","type":"text"}],"created":0,"id":"turn#1.a2","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"request_id":"request-1","type":"Message"}
        turn#1:12 {"chat_request_id":"request-1","reason":"stop","request_id":"request-1","token_state":{"accumulatedCost":null,"accumulatedInputTokens":20,"accumulatedOutputTokens":10,"accumulatedTotalTokens":30,"inputTokens":20,"outputTokens":10,"totalTokens":30},"type":"Finish"}
    "#]]);
    assert_eq!(world.effects(), [TOLD]);
    assert!(told("elicit-split").contains("red"), "{}", told("elicit-split"));
    // The same again is the same, another one comes too late.
    let again = chat.try_say(2, &right);
    assert_eq!((again.status, again.json()), (200, answer.json()), "{again:?}");
    let late = chat.try_say(3, &response(&form, &json!({ "colour": "blue" })));
    assert_eq!(late.status, 409, "{late:?}");
    check_requests("elicit-split");
    assert_eq!(world.effects().len(), 1);
}

#[test]
fn answered_in_one_request() {
    asks("elicit-single");
    let world = World::start();
    let chat = Chat::start(&world.client());
    let (mut events, _, form) = asked(&chat, "elicit-single");
    let body = json!({ "session_id": chat.id, "user_message": response(&form, &json!({ "colour": "red" })) });
    let answer = chat.client.send("POST", "/goose/reply", &body.to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
    let streamed: Vec<_> = answer.body.split_terminator("\n\n").map(Frame::read).collect();
    let streamed: Vec<_> = streamed.into_iter().filter(|frame| frame.kind() != "Ping").collect();
    assert_eq!(kinds(&streamed), ["Message", "Message", "Finish"], "how the turn goes on: {streamed:#?}");
    assert_eq!(text(&events.until("Finish")), "So be it.");
    assert_eq!(world.effects(), [TOLD]);
}

#[test]
fn answered_in_the_other_protocol() {
    asks("elicit-native");
    let world = World::start();
    let chat = Chat::start(&world.client());
    let (mut events, _, form) = asked(&chat, "elicit-native");
    let body = json!({ "session_id": chat.id, "form_id": form, "form_answer": { "colour": "red" } });
    assert_eq!(chat.client.send("POST", "/api/v1/sessions/stream", &body.to_string()).status, 202);
    assert_eq!(text(&events.until("Finish")), "So be it.");
    assert_eq!((world.effects(), open_forms(&chat)), (vec![TOLD.to_owned()], json!([])));
    assert_eq!(chat.try_say(3, &response(&form, &json!({ "colour": "red" }))).status, 409);
}

#[test]
fn answers_to_nothing() {
    asks("elicit-nothing");
    let world = World::start();
    let (chat, other) = (Chat::start(&world.client()), Chat::start(&world.client()));
    let (mut events, _, form) = asked(&chat, "elicit-nothing");
    let red = json!({ "colour": "red" });
    let check = |answer: Answer, status: u16| assert_eq!(answer.status, status, "{answer:?}");
    for unknown in ["form_00000000000000000000000000000000", "", "x", &"y".repeat(10_000)] {
        check(chat.try_say(2, &response(unknown, &red)), 404);
    }
    let elsewhere = other.try_say(2, &response(&form, &red));
    assert!(matches!(elsewhere.status, 404 | 409), "{elsewhere:?}");
    check(chat.try_say(2, &content(&json!([{ "type": "actionRequired", "data": {} }]))), 422);
    check(
        chat.try_say(
            2,
            &content(&json!([{ "type": "actionRequired", "data": { "actionType": "elicitationResponse" } }])),
        ),
        422,
    );
    // A question does not give way to a message: its tool runs.
    check(chat.try_say(2, &said("hello?")), 409);
    assert!(world.effects().is_empty());
    check(chat.try_say(2, &response(&form, &red)), 200);
    events.until("Finish");
    assert_eq!(world.effects(), [TOLD]);
}

/// The tool that asked is gone with the server; the session is not stuck, and the tool did not run twice.
#[test]
fn a_crash_while_somebody_is_asked() {
    asks("elicit-crash");
    let mut world = World::start();
    let chat = Chat::start(&world.client());
    let (_, seen, form) = asked(&chat, "elicit-crash");
    world.crash();
    let chat = chat.on(&world);
    let mut events = chat.events_after(seen.last().unwrap().id());
    let rest = events.until("Finish");
    assert_eq!(text(&rest), "So be it.", "{rest:#?}");
    assert!(told("elicit-crash").contains("unknown"), "the model knows that nobody knows: {}", told("elicit-crash"));
    check_requests("elicit-crash");
    let late = chat.try_say(2, &response(&form, &json!({ "colour": "red" })));
    assert_eq!(late.status, 409, "{late:?}");
    eventually("nothing is open", || (open_forms(&chat) == json!([])).then_some(()));
    assert!(world.effects().is_empty());
}

/// A form of the agent's own looks the same, and survives.
#[test]
fn a_form_of_the_agents() {
    let form = json!({ "kind": "clarify", "title": "Which one?", "schema": { "type": "object", "properties": { "n": { "type": "integer" } } } });
    script("elicit-form", [Reply::calls(&[("request_form", form)]), Reply::says(&["Thanks."])]);
    let mut world = World::start();
    let chat = Chat::start(&world.client());
    let (_, seen, form) = asked(&chat, "elicit-form");
    world.crash();
    let chat = chat.on(&world);
    assert_eq!(chat.try_say(2, &response(&form, &json!({ "n": "seven" }))).status, 422);
    let mut events = chat.events_after(seen.last().unwrap().id());
    let answer = chat.try_say(2, &response(&form, &json!({ "n": 7 })));
    assert_eq!((answer.status, answer.json()), (200, json!({ "request_id": uuid(2) })));
    assert_eq!(text(&events.until("Finish")), "Thanks.");
    assert!(told("elicit-form").contains('7'), "{}", told("elicit-form"));
    check_requests("elicit-form");
}
