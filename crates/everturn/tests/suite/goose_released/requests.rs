//! `POST /goose/sessions/{id}/reply` and `…/cancel`: requests by name.

use serde_json::json;

use super::{
    shown::{check_requests, told},
    world::{Chat, World, always, kinds, said, text, uuid},
};
use crate::suite::harness::{Gate, Reply, asked, eventually, script};

#[test]
fn twenty_times_at_once_is_once() {
    let gate = Gate::default();
    script("at-once", [Reply::new().text("once").hold(&gate).stops()]);
    let world = World::start();
    let chat = Chat::start(&world.client());
    let mut events = chat.events();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let sends: Vec<_> = (0..20).map(|_| scope.spawn(|| chat.try_say(1, &said("play at-once")))).collect();
        sends.into_iter().map(|send| send.join().unwrap()).collect()
    });
    for answer in answers {
        assert_eq!((answer.status, answer.json()), (200, json!({ "request_id": uuid(1) })), "{answer:?}");
    }
    gate.open();
    assert_eq!(text(&events.until("Finish")), "once");
    assert_eq!(asked("at-once").len(), 1);
    assert_eq!(chat.conversation().len(), 2);
}

#[test]
fn a_request_runs_once_whatever_happens_in_between() {
    let gate = Gate::default();
    script("once-crash", [Reply::new().text("cut").hold(&gate), Reply::says(&["whole"]), Reply::says(&["next"])]);
    let mut world = World::start();
    let mut chat = Chat::start(&world.client());
    let mut events = chat.events();
    chat.say(1, "play once-crash");
    events.next().unwrap();
    // While it runs.
    chat.say(1, "play once-crash");
    world.crash();
    chat = chat.on(&world);
    // While it is taken up again, and after its end.
    chat.say(1, "play once-crash");
    eventually("the turn ends", || (chat.show()["message_count"] == 2).then_some(()));
    chat.say(1, "play once-crash");
    world.crash();
    chat = chat.on(&world);
    chat.say(1, "play once-crash");
    assert_eq!(text(&chat.run(2, "play once-crash")), "next");
    chat.say(1, "play once-crash");
    assert_eq!(asked("once-crash").len(), 3, "one was cut off");
    let conversation = chat.conversation();
    let texts: Vec<_> = conversation.iter().map(|message| message["content"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["play once-crash", "whole", "play once-crash", "next"]);
    // Another message under the name of an old one is a mistake.
    let other = chat.try_say(1, &said("something else"));
    assert_eq!(other.status, 409, "{other:?}");
    assert!(other.json()["message"].as_str().unwrap().contains(&uuid(1)), "{other:?}");
    // In another session the name is free.
    script("once-elsewhere", [Reply::says(&["here"])]);
    assert_eq!(text(&Chat::start(&world.client()).run(1, "play once-elsewhere")), "here");
}

#[test]
fn names_must_be_uuids() {
    script("uuids", always(&Reply::says(&["fine"])));
    let world = World::start();
    let chat = Chat::start(&world.client());
    for wrong in [json!(null), json!("req-1"), json!(""), json!("0197f2ab-0000-7abc-8def-00000000000g")] {
        let answer = chat.send("POST", "/reply", &json!({ "request_id": wrong, "user_message": said("play uuids") }));
        assert_eq!((answer.status, answer.json()), (400, json!({ "message": "request_id must be a valid UUID" })));
    }
    for right in ["0197F2AB-0000-7ABC-8DEF-0000000000FF", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", &uuid(3)] {
        let mut events = chat.events();
        let answer = chat.send("POST", "/reply", &json!({ "request_id": right, "user_message": said("play uuids") }));
        assert_eq!((answer.status, answer.json()), (200, json!({ "request_id": right })), "{answer:?}");
        events.until_one(right, |frame| frame.kind() == "Finish" && frame.data["chat_request_id"] == right);
    }
    let nowhere = Chat::of(&world.client(), "20260304_1").try_say(1, &said("hi"));
    assert_eq!(nowhere.status, 404, "{nowhere:?}");
    assert_eq!(nowhere.json()["message"], "Session 20260304_1 not found; GET /goose/sessions lists yours");
}

#[test]
fn one_at_a_time() {
    let gate = Gate::default();
    script("busy", [Reply::new().text("one").hold(&gate).stops(), Reply::says(&["two"])]);
    let world = World::start();
    let chat = Chat::start(&world.client());
    let mut events = chat.events();
    chat.say(1, "play busy");
    events.next().unwrap();
    let busy = chat.try_say(2, &said("play busy"));
    assert_eq!(busy.status, 409, "{busy:?}");
    let message = busy.json()["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("Session already has an active request. Cancel it first"), "{message}");
    gate.open();
    events.until("Finish");
    // A refused request has left nothing: its name can be used.
    chat.say(2, "play busy");
    assert_eq!(text(&events.until("Finish")), "two");
}

fn cancel(chat: &Chat, request: u32) {
    let answer = chat.send("POST", "/cancel", &json!({ "request_id": uuid(request) }));
    assert_eq!((answer.status, answer.body.as_str()), (200, ""), "{answer:?}");
}

#[test]
fn a_cancel_ends_the_turn_that_it_names() {
    let (gate, other_gate) = (Gate::default(), Gate::default());
    let replies = [Reply::new().text("half").hold(&gate), Reply::says(&["next"])];
    script("cancel", replies);
    script("cancel-other", [Reply::new().text("goes on").hold(&other_gate).stops()]);
    let world = World::start();
    let (chat, other) = (Chat::start(&world.client()), Chat::start(&world.client()));
    let (mut events, mut others) = (chat.events(), other.events());
    chat.say(1, "play cancel");
    other.say(7, "play cancel-other");
    events.next().unwrap();
    others.next().unwrap();
    // Not by the name of a request that is unknown, or another session's.
    for unknown in [2, 7] {
        cancel(&chat, unknown);
    }
    let busy = chat.try_say(3, &said("play cancel"));
    assert_eq!(busy.status, 409, "nothing was cancelled: {busy:?}");
    cancel(&chat, 1);
    let end = events.until("Finish");
    assert_eq!((kinds(&end), &end[0].data["reason"]), (vec!["Finish"], &json!("cancel")));
    eventually("the provider is hung up on", || gate.is_left().then_some(()));
    // Once more, when it is over, changes nothing; nor does its own POST.
    cancel(&chat, 1);
    chat.say(1, "play cancel");
    assert_eq!(text(&chat.run(3, "play cancel")), "next");
    cancel(&chat, 1);
    assert!(told("cancel").contains("half"), "the model knows what it had said: {}", told("cancel"));
    check_requests("cancel");
    other_gate.open();
    assert_eq!(others.until("Finish").last().unwrap().data["reason"], "stop");
    let nowhere = Chat::of(&world.client(), "nowhere").send("POST", "/cancel", &json!({ "request_id": uuid(1) }));
    assert_eq!(nowhere.status, 404, "{nowhere:?}");
}

#[test]
fn a_cancel_while_a_tool_runs_or_asks() {
    script(
        "cancel-tool",
        [Reply::calls(&[("box__hold", json!({ "line": "c" })), ("box__look", json!({}))]), Reply::says(&["ok"])],
    );
    script("cancel-asks", [Reply::calls(&[("box__append", json!({ "line": "never" }))]), Reply::says(&["ok"])]);
    let world = World::start();
    let chat = Chat::start(&world.client());
    let mut events = chat.events();
    chat.say(1, "play cancel-tool");
    world.effect("begin c");
    cancel(&chat, 1);
    assert_eq!(events.until("Finish").last().unwrap().data["reason"], "cancel");
    assert_eq!(text(&chat.run(2, "play cancel-tool")), "ok");
    check_requests("cancel-tool");

    let chat = Chat::start(&world.client());
    let mut events = chat.events();
    chat.say(1, "play cancel-asks");
    let (_, call) = events.until_asked();
    cancel(&chat, 1);
    let end = events.until("Finish");
    assert_eq!(end.last().unwrap().data["reason"], "cancel");
    let late = chat.decide(&call, "allow_once");
    assert_eq!(late.status, 409, "{late:?}");
    assert_eq!(text(&chat.run(2, "play cancel-asks")), "ok");
    check_requests("cancel-asks");
    assert_eq!(world.effects(), ["begin c"], "what was not allowed did not run");
}

#[test]
fn a_message_to_a_turn_that_waits_takes_its_place() {
    script("gives-way", [Reply::calls(&[("box__append", json!({ "line": "never" }))]), Reply::says(&["instead"])]);
    let world = World::start();
    let chat = Chat::start(&world.client());
    let mut events = chat.events();
    chat.say(1, "play gives-way");
    let (_, call) = events.until_asked();
    chat.say(2, "play gives-way");
    let end = events.until_finish_of(1);
    assert_eq!(end.last().unwrap().data["reason"], "cancel");
    assert_eq!(text(&events.until_finish_of(2)), "instead");
    assert_eq!(chat.decide(&call, "allow_once").status, 409);
    check_requests("gives-way");
    assert!(world.effects().is_empty());
}
