//! `POST /goose/action-required/tool-confirmation`: what a person says to a tool that asks first.

use expect_test::expect;
use serde_json::{Value, json};

use super::{
    shown::{check_requests, lines, told},
    world::{Chat, Events, World, kinds, text, uuid},
};
use crate::suite::harness::{Ended, Reply, Talk, eventually, script};

/// A script that calls the tool which asks first, and then says that it is done.
fn appends(name: &str, line: &str) {
    let call = Reply::new().text("I write. ").call("box__append", json!({ "line": line }).to_string());
    script(name, [call.finish("tool_calls"), Reply::says(&["Done."])]);
}

/// Begins a turn that asks; gives its stream and the call.
#[track_caller]
fn asks(chat: &Chat, name: &str) -> (Events, String) {
    let mut events = chat.events();
    chat.say(1, &format!("play {name}"));
    let (_, call) = events.until_asked();
    (events, call)
}

#[test]
fn an_allowed_call_as_it_is_on_the_wire() {
    appends("allow", "a");
    let mut world = World::start();
    let mut chat = Chat::start(&world.client());
    let mut events = chat.events();
    chat.say(1, "play allow");
    let (mut seen, call) = events.until_asked();
    // However long it takes, and whatever happens meanwhile.
    for _ in 0..2 {
        world.crash();
        world.ready();
        chat = chat.on(&world);
        assert_eq!(chat.try_say(1, &super::world::said("play allow")).status, 200, "the same request changes nothing");
        let forms = chat.client.send("GET", &format!("/api/v1/forms?status=open&session_id={}", chat.id), "").json();
        assert_eq!(forms["forms"][0]["payload"]["tool_call_id"], call.as_str(), "{forms}");
    }
    let mut events = chat.events_after(seen.last().unwrap().id());
    assert_eq!(events.next().unwrap().kind(), "ActiveRequests");
    assert!(world.effects().is_empty());
    chat.decided(&call, "allow_once");
    seen.extend(events.until("Finish"));
    let mut talk = Talk::new(chat.client.clone());
    talk.say(&lines(&seen));
    talk.check(expect![[r#"
        turn#1:3 {"chat_request_id":"request-1","message":{"content":[{"text":"I write. ","type":"text"}],"created":0,"id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"request_id":"request-1","type":"Message"}
        turn#1:5 {"chat_request_id":"request-1","message":{"content":[{"id":"call#1","toolCall":{"status":"success","value":{"arguments":{"line":"a"},"name":"box__append"}},"type":"toolRequest"}],"created":0,"id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"request_id":"request-1","type":"Message"}
        turn#1:6 {"chat_request_id":"request-1","message":{"content":[{"data":{"actionType":"toolConfirmation","arguments":{"line":"a"},"id":"call#1","prompt":null,"toolName":"box__append"},"type":"actionRequired"}],"created":0,"id":"form#1","metadata":{"agentVisible":false,"userVisible":true},"role":"assistant"},"request_id":"request-1","type":"Message"}
        turn#1:10 {"chat_request_id":"request-1","message":{"content":[{"id":"call#1","toolResult":{"status":"success","value":{"content":[{"text":"wrote a","type":"text"}],"isError":false}},"type":"toolResponse"}],"created":0,"id":"turn#1.call#1","metadata":{"agentVisible":true,"userVisible":true},"role":"user"},"request_id":"request-1","type":"Message"}
        turn#1:12 {"chat_request_id":"request-1","message":{"content":[{"text":"Done.","type":"text"}],"created":0,"id":"turn#1.a2","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"request_id":"request-1","type":"Message"}
        turn#1:14 {"chat_request_id":"request-1","reason":"stop","request_id":"request-1","token_state":{"accumulatedCost":null,"accumulatedInputTokens":20,"accumulatedOutputTokens":10,"accumulatedTotalTokens":30,"inputTokens":20,"outputTokens":10,"totalTokens":30},"type":"Finish"}
    "#]]);
    assert_eq!(world.effects(), ["append a"]);
    check_requests("allow");
}

#[test]
fn denials_reach_the_model() {
    let world = World::start();
    for (name, action) in [("deny-once", "deny_once"), ("deny-old", "deny")] {
        appends(name, "never");
        let chat = Chat::start(&world.client());
        let (mut events, call) = asks(&chat, name);
        chat.decided(&call, action);
        let rest = events.until("Finish");
        let result = &rest[0].data["message"]["content"][0]["toolResult"]["value"];
        assert_eq!(result["isError"], true, "{rest:#?}");
        let reason = result["content"][0]["text"].as_str().unwrap();
        assert!(reason.contains("The user has declined to run this tool. DO NOT attempt to call"), "{reason}");
        assert_eq!((text(&rest).as_str(), &rest.last().unwrap().data["reason"]), ("Done.", &json!("stop")));
        assert!(told(name).contains("The user has declined to run this tool."), "{}", told(name));
        check_requests(name);
    }
    assert!(world.effects().is_empty());
}

#[test]
fn a_cancel_ends_the_turn() {
    appends("confirm-cancel", "never");
    let world = World::start();
    let chat = Chat::start(&world.client());
    let (mut events, call) = asks(&chat, "confirm-cancel");
    chat.decided(&call, "cancel");
    let rest = events.until("Finish");
    assert_eq!(rest.last().unwrap().data["reason"], "cancel");
    chat.decided(&call, "cancel");
    assert_eq!(chat.decide(&call, "allow_once").status, 409);
    assert_eq!(text(&chat.run(2, "play confirm-cancel")), "Done.");
    check_requests("confirm-cancel");
    assert!(world.effects().is_empty());
}

#[test]
fn what_is_said_twice_counts_once() {
    let world = World::start();
    for (first, second) in [("allow_once", "deny_once"), ("deny_once", "allow_once")] {
        let name = format!("twice-{}", first.replace('_', "-"));
        appends(&name, &name);
        let chat = Chat::start(&world.client());
        let (mut events, call) = asks(&chat, &name);
        chat.decided(&call, first);
        chat.decided(&call, first);
        let other = chat.decide(&call, second);
        assert_eq!(other.status, 409, "{other:?}");
        let message = other.json()["message"].as_str().unwrap().to_owned();
        assert_eq!(message.contains("allowed before"), first == "allow_once", "{message}");
        events.until("Finish");
        chat.decided(&call, first);
        assert_eq!(chat.decide(&call, second).status, 409);
    }
    assert_eq!(world.effects(), ["append twice-allow-once"]);
}

#[test]
fn twenty_times_at_once_is_once() {
    appends("confirm-crowd", "crowd");
    let world = World::start();
    let chat = Chat::start(&world.client());
    let (mut events, call) = asks(&chat, "confirm-crowd");
    std::thread::scope(|scope| {
        (0..20).for_each(|_| drop(scope.spawn(|| chat.decided(&call, "allow_once"))));
    });
    assert_eq!(text(&events.until("Finish")), "Done.");
    assert_eq!(world.effects(), ["append crowd"]);
}

/// Everybody decides at once, through both doors and both ways: one word counts, and it is the one that happens.
#[test]
fn two_doors_one_decision() {
    let world = World::start();
    for round in 0..8 {
        let name = format!("doors-{round}");
        appends(&name, &name);
        let chat = Chat::start(&world.client());
        let (mut events, call) = asks(&chat, &name);
        let form = chat.client.send("GET", &format!("/api/v1/forms?session_id={}", chat.id), "").json();
        let form = form["forms"][0]["form_id"].as_str().unwrap().to_owned();
        let native = |approved: bool| {
            let body = json!({ "session_id": chat.id, "form_id": form, "form_answer": { "approved": approved } });
            (approved, chat.client.send("POST", "/api/v1/sessions/stream", &body.to_string()).status == 202)
        };
        let goose = |granted: bool| {
            let answer = chat.decide(&call, if granted { "allow_once" } else { "deny_once" });
            assert!(matches!(answer.status, 200 | 409), "{answer:?}");
            (granted, answer.status == 200)
        };
        let said: Vec<_> = std::thread::scope(|scope| {
            let mut sends = vec![];
            for way in [round % 2 == 0, round % 2 != 0] {
                sends.push(scope.spawn(move || native(way)));
                sends.push(scope.spawn(move || goose(!way)));
            }
            sends.into_iter().map(|send| send.join().unwrap()).collect()
        });
        let won: Vec<_> = said.iter().filter(|(_, taken)| *taken).map(|(way, _)| *way).collect();
        assert!(!won.is_empty(), "somebody's word counts: {said:?}");
        assert!(won.iter().all(|way| *way == won[0]), "two words count: {said:?}");
        let rest = events.until("Finish");
        let ran = world.effects().contains(&format!("append {name}"));
        assert_eq!(ran, won[0], "what was said happens: {said:?} {rest:#?}");
        let results = rest.iter().filter(|frame| frame.data["message"]["content"][0]["type"] == "toolResponse");
        assert_eq!(results.count(), 1);
    }
    let effects = world.effects();
    let once: std::collections::BTreeSet<_> = effects.iter().collect();
    assert_eq!(once.len(), effects.len(), "nothing ran twice: {effects:?}");
}

#[test]
fn two_calls_are_two_questions() {
    let calls =
        [("box__append", json!({ "line": "one" })), ("box__write", json!({ "line": "two" })), ("box__look", json!({}))];
    script("two-calls", [Reply::calls(&calls), Reply::says(&["Both done."])]);
    let mut world = World::start();
    let chat = Chat::start(&world.client());
    let mut events = chat.events();
    chat.say(1, "play two-calls");
    let (_, first) = events.until_asked();
    let (_, second) = events.until_asked();
    // In any order, and the second after a crash.
    chat.decided(&second, "allow_once");
    world.effect("write two");
    world.crash();
    world.ready();
    let chat = chat.on(&world);
    let again = chat.decide(&second, "allow_once");
    assert_eq!(again.status, 200, "{again:?}");
    let mut events = chat.events();
    chat.decided(&first, "deny_once");
    let rest = events.until("Finish");
    assert_eq!(text(&rest), "Both done.");
    assert_eq!(world.effects(), ["write two"]);
    check_requests("two-calls");
}

#[test]
fn words_that_nobody_waits_for() {
    appends("no-question", "x");
    let world = World::start();
    let (chat, other) = (Chat::start(&world.client()), Chat::start(&world.client()));
    let (mut events, call) = asks(&chat, "no-question");
    let send = |body: &Value| chat.client.send("POST", "/goose/action-required/tool-confirmation", &body.to_string());
    for unknown in ["call_00000000000000000000000000000000", "", &"x".repeat(100_000), "../..", "call_\u{0}"] {
        let answer = chat.decide(unknown, "allow_once");
        assert_eq!(answer.status, 404, "{answer:?}");
        assert!(answer.json()["message"].as_str().unwrap().contains("there is no tool request"), "{answer:?}");
    }
    let wrong = other.decide(&call, "allow_once");
    assert_eq!(wrong.status, 404, "it is of another session: {wrong:?}");
    for action in ["", "allow", "ALLOW_ONCE", "yes"] {
        let answer = chat.decide(&call, action);
        assert_eq!(answer.status, 422, "{answer:?}");
        assert!(answer.json()["message"].as_str().unwrap().contains("use allow_once, always_allow"), "{answer:?}");
    }
    for missing in [json!({ "id": call, "sessionId": chat.id }), json!({ "action": "deny", "sessionId": chat.id })] {
        assert_eq!(send(&missing).status, 422);
    }
    assert!(world.effects().is_empty());
    // The session may be left out: the call's id is enough. So may the principal's type.
    let answer = send(&json!({ "id": call, "action": "allow_once", "principalType": "Extension", "new": 1 }));
    assert_eq!((answer.status, answer.body.as_str()), (200, "{}"), "{answer:?}");
    events.until("Finish");
    assert_eq!(world.effects(), ["append x"]);
}

#[test]
fn a_question_goes_with_its_session() {
    appends("gone-question", "x");
    let world = World::start();
    let chat = Chat::start(&world.client());
    let (mut events, call) = asks(&chat, "gone-question");
    assert_eq!(chat.send("DELETE", "", &Value::Null).status, 200);
    assert_eq!(events.until("Finish").last().unwrap().data["reason"], "cancel");
    assert_eq!(events.next(), Err(Ended::Cleanly), "and so does the stream");
    let answer = chat.decide(&call, "always_allow");
    assert_eq!(answer.status, 404, "{answer:?}");
    let client = world.client();
    assert_eq!(client.send("GET", "/api/v1/forms", "").json()["forms"], json!([]));
    assert_eq!(client.send("GET", "/api/v1/permissions", "").json()["permissions"], json!([]));
    assert!(world.effects().is_empty());
}

#[test]
fn a_single_stream_waits_too() {
    appends("one-stream", "s");
    let world = World::start();
    let chat = Chat::start(&world.client());
    let body = json!({ "session_id": chat.id, "user_message": super::world::said("play one-stream") });
    let mut stream = world.client().open("POST", "/goose/reply", &body.to_string());
    assert_eq!(stream.status(), 200);
    let asked = stream.until("toolConfirmation");
    let call = super::world::Frame::read(&asked).action().unwrap()["id"].as_str().unwrap().to_owned();
    chat.decided(&call, "allow_once");
    let (rest, _) = stream.rest();
    let rest: Vec<_> = rest.iter().map(|frame| super::world::Frame::read(frame)).collect();
    let rest: Vec<_> = rest.into_iter().filter(|frame| frame.kind() != "Ping").collect();
    assert_eq!(kinds(&rest), ["Message", "Message", "Finish"], "{rest:#?}");
    assert_eq!(world.effects(), ["append s"]);
    // Who reads the session sees the same turn, under the name that we gave it.
    script("one-stream-next", [Reply::says(&["next"])]);
    let next = chat.run(1, "play one-stream-next");
    assert_eq!(next.last().unwrap().data["chat_request_id"], uuid(1));
    eventually("all is said", || (chat.show()["message_count"] == 6).then_some(()));
}
