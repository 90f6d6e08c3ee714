//! `GET /goose/sessions/{id}/events`: one stream for all turns of a session, from any place on.

use expect_test::expect;
use serde_json::{Value, json};

use super::{
    shown::lines,
    world::{Chat, Frame, World, always, kinds, text, uuid},
};
use crate::suite::harness::{Ended, Gate, Reply, Talk, script};

#[test]
fn a_turn_as_it_is_on_the_wire() {
    script(
        "wire",
        [
            Reply::new()
                .thinking("Hm")
                .thinking("m.")
                .text("I ")
                .text("look.")
                .call("box__news", "{}")
                .finish("tool_calls"),
            Reply::says(&["No ", "news."]),
        ],
    );
    let world = World::start();
    let chat = Chat::start(&world.client());
    let mut events = chat.events();
    chat.say(1, "play wire");
    let frames = events.until("Finish");
    let mut talk = Talk::new(world.client());
    talk.say(&lines(&frames));
    talk.check(expect![[r#"
        turn#1:3 {"chat_request_id":"request-1","message":{"content":[{"signature":"","thinking":"Hm","type":"thinking"}],"created":0,"id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"request_id":"request-1","type":"Message"}
        turn#1:4 {"chat_request_id":"request-1","message":{"content":[{"signature":"","thinking":"m.","type":"thinking"}],"created":0,"id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"request_id":"request-1","type":"Message"}
        turn#1:5 {"chat_request_id":"request-1","message":{"content":[{"text":"I ","type":"text"}],"created":0,"id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"request_id":"request-1","type":"Message"}
        turn#1:6 {"chat_request_id":"request-1","message":{"content":[{"text":"look.","type":"text"}],"created":0,"id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"request_id":"request-1","type":"Message"}
        turn#1:8 {"chat_request_id":"request-1","message":{"content":[{"id":"call#1","toolCall":{"status":"success","value":{"arguments":{},"name":"box__news"}},"type":"toolRequest"}],"created":0,"id":"turn#1.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"request_id":"request-1","type":"Message"}
        turn#1:10 {"chat_request_id":"request-1","message":{"method":"notifications/progress","params":{"message":"half","progress":1,"progressToken":2,"total":2}},"request_id":"call#1","type":"Notification"}
        turn#1:11 {"chat_request_id":"request-1","message":{"method":"notifications/message","params":{"data":"so far so good","level":"info"}},"request_id":"call#1","type":"Notification"}
        turn#1:12 {"chat_request_id":"request-1","message":{"content":[{"id":"call#1","toolResult":{"status":"success","value":{"content":[{"text":"no news","type":"text"}],"isError":false}},"type":"toolResponse"}],"created":0,"id":"turn#1.call#1","metadata":{"agentVisible":true,"userVisible":true},"role":"user"},"request_id":"request-1","type":"Message"}
        turn#1:14 {"chat_request_id":"request-1","message":{"content":[{"text":"No ","type":"text"}],"created":0,"id":"turn#1.a2","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"request_id":"request-1","type":"Message"}
        turn#1:15 {"chat_request_id":"request-1","message":{"content":[{"text":"news.","type":"text"}],"created":0,"id":"turn#1.a2","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"request_id":"request-1","type":"Message"}
        turn#1:17 {"chat_request_id":"request-1","reason":"stop","request_id":"request-1","token_state":{"accumulatedCost":null,"accumulatedInputTokens":20,"accumulatedOutputTokens":10,"accumulatedTotalTokens":30,"inputTokens":20,"outputTokens":10,"totalTokens":30},"type":"Finish"}
    "#]]);
    for frame in &frames {
        assert_eq!(frame.data["chat_request_id"], uuid(1), "{frame:?}");
        let own = frame.kind() == "Notification";
        assert_eq!(frame.data["request_id"] == uuid(1), !own, "a notification is of its call: {frame:?}");
    }
}

/// Says a few things, with a crash now and then; gives all events as a reader saw them that came back each time.
fn history(world: &mut World, chat: &mut Chat, turns: u32) -> Vec<Frame> {
    let mut seen: Vec<Frame> = Vec::new();
    let mut events = chat.events();
    for turn in 1..=turns {
        chat.say(turn, "play long");
        seen.extend(events.until("Finish"));
        if turn % 8 == 0 {
            world.crash();
            *chat = chat.on(world);
            events = chat.events_after(seen.last().unwrap().id());
        }
    }
    seen
}

#[test]
fn any_event_of_any_turn_is_a_place_to_go_on_from() {
    script("long", always(&Reply::says(&["a", "b"])).into_iter().cycle().take(21));
    let mut world = World::start();
    let mut chat = Chat::start(&world.client());
    let seen = history(&mut world, &mut chat, 20);
    assert_eq!(kinds(&seen), ["Message", "Message", "Finish"].repeat(20));
    for (at, frame) in seen.iter().enumerate() {
        let mut events = chat.events_after(frame.id());
        for expected in &seen[at + 1..] {
            assert_eq!(events.next().as_ref(), Ok(expected), "after {frame:?}");
        }
    }
    // What comes next is the next turn, to a reader of the first event as to one of the last.
    let mut readers = [&seen[0], seen.last().unwrap()].map(|frame| chat.events_after(frame.id()));
    let behind: Vec<_> = (1..seen.len()).map(|_| readers[0].next().unwrap()).collect();
    assert_eq!(behind, seen[1..]);
    chat.say(21, "play long");
    let [behind, abreast] = readers.map(|mut events| events.until("Finish"));
    assert_eq!(behind, abreast);
    assert_eq!(kinds(&behind), ["Message", "Message", "Finish"]);
    assert!(behind.iter().all(|frame| frame.data["chat_request_id"] == uuid(21)));
}

#[test]
fn a_reader_without_a_place_begins_with_the_turn_under_way() {
    let gate = Gate::default();
    script(
        "under-way",
        [Reply::says(&["over"]), Reply::new().text("one ").hold(&gate).text("two").stops(), Reply::says(&["after"])],
    );
    let world = World::start();
    let chat = Chat::start(&world.client());
    let first = chat.run(1, "play under-way");
    assert!(first.iter().all(|frame| frame.kind() != "ActiveRequests"), "nothing was under way: {first:?}");
    let mut early = chat.events();
    assert_eq!(early.until("Finish"), first, "the last turn, which is over");
    chat.say(2, "play under-way");
    let begun = early.next().unwrap();
    let mut late = chat.events();
    let active = late.next().unwrap();
    assert_eq!(active.id, None);
    assert_eq!(active.data, json!({ "type": "ActiveRequests", "request_ids": [uuid(2)] }));
    assert_eq!(late.next(), Ok(begun.clone()));
    // Also for one that knows where it is, and then from there.
    let mut back = chat.events_after(begun.id());
    assert_eq!(back.next(), Ok(active));
    gate.open();
    let rest = early.until("Finish");
    assert_eq!((text(&rest).as_str(), rest.len()), ("two", 2));
    assert_eq!(late.until("Finish"), rest);
    assert_eq!(back.until("Finish"), rest);
    // Nothing is under way: a reader has seen what was said last, and waits for what comes.
    let mut idle = chat.events();
    assert_eq!(text(&idle.until("Finish")), "one two");
    chat.say(3, "play under-way");
    let next = idle.until("Finish");
    assert_eq!((text(&next).as_str(), kinds(&next)), ("after", vec!["Message", "Finish"]));
}

#[test]
fn a_turn_that_waits_is_under_way() {
    script("waits-active", [Reply::calls(&[("box__append", json!({ "line": "a" }))])]);
    let mut world = World::start();
    let mut chat = Chat::start(&world.client());
    let mut events = chat.events();
    chat.say(1, "play waits-active");
    let (seen, _) = events.until_asked();
    for crashed in [false, true] {
        if crashed {
            world.crash();
            chat = chat.on(&world);
        }
        let mut events = chat.events();
        assert_eq!(events.next().unwrap().data, json!({ "type": "ActiveRequests", "request_ids": [uuid(1)] }));
        let (again, _) = events.until_asked();
        assert_eq!(again, seen);
    }
}

#[test]
fn all_readers_see_one_sequence() {
    let gate = Gate::default();
    let pieces: Vec<String> = (0..200).map(|n| format!("{n} ")).collect();
    let reply = pieces.iter().fold(Reply::new().text("begun ").hold(&gate), |reply, piece| reply.text(piece));
    script("many-readers", [reply.stops()]);
    let world = World::start();
    let chat = Chat::start(&world.client());
    let mut readers: Vec<_> = (0..20).map(|_| chat.events()).collect();
    chat.say(1, "play many-readers");
    let first = readers[0].next().unwrap();
    readers.extend((0..20).map(|_| chat.events_after(first.id())));
    gate.open();
    let all: Vec<_> = std::iter::once(first).chain(readers[0].until("Finish")).collect();
    assert_eq!(text(&all), format!("begun {}", pieces.concat()));
    for events in &mut readers[1..20] {
        assert_eq!(events.until("Finish"), all);
    }
    for events in &mut readers[20..] {
        let seen = events.until("Finish");
        assert_eq!((seen[0].kind(), &seen[1..]), ("ActiveRequests", &all[1..]));
    }
}

#[test]
fn a_crash_leaves_no_gap_and_repeats_nothing() {
    let gate = Gate::default();
    let cut = Reply::new().text("never ").text("finished").hold(&gate);
    let first = Reply::new().text("I look. ").call("box__look", "{}").finish("tool_calls");
    script("crash-events", [first, cut, Reply::says(&["said ", "anew"])]);
    let mut world = World::start();
    let chat = Chat::start(&world.client());
    let mut events = chat.events();
    chat.say(1, "play crash-events");
    let mut seen = events.until_one("the cut step", |frame| text(std::slice::from_ref(frame)) == "finished");
    world.server.kill();
    world.server = world.home.start();
    let chat = chat.on(&world);
    // Each place that was seen leads to the same rest.
    let rest = chat.events_after(seen.last().unwrap().id()).until("Finish");
    let rest: Vec<_> = rest.into_iter().filter(|frame| frame.kind() != "ActiveRequests").collect();
    assert_eq!(kinds(&rest), ["UpdateConversation", "Message", "Message", "Finish"]);
    assert_eq!(text(&rest), "said anew");
    // What is void is not in the conversation that replaces it.
    let conversation = rest[0].data["conversation"].to_string();
    assert!(conversation.contains("I look.") && !conversation.contains("never"), "{conversation}");
    seen.extend(rest);
    let again: Vec<_> = chat.events_after(seen[0].id()).until("Finish");
    assert_eq!(again, seen[1..]);
    let ids: std::collections::BTreeSet<_> = seen.iter().map(Frame::id).collect();
    assert_eq!(ids.len(), seen.len(), "every event has an id of its own");
}

/// One thing that happened, and two events of it: the place between them is a place.
#[test]
fn a_failure_is_an_error_and_an_end() {
    script("fails", [Reply::status(404, &[], r#"{"error":{"message":"no such model"}}"#)]);
    let world = World::start();
    let chat = Chat::start(&world.client());
    let seen = chat.run(1, "play fails");
    assert_eq!(kinds(&seen), ["Error", "Finish"]);
    assert!(seen[0].data["error"].as_str().unwrap().contains("no such model"), "{seen:?}");
    assert_eq!(seen[1].data["reason"], "error");
    assert!(seen.iter().all(|frame| frame.data["chat_request_id"] == uuid(1) && frame.data["request_id"] == uuid(1)));
    let rest = chat.events_after(seen[0].id()).next();
    assert_eq!(rest.as_ref(), Ok(&seen[1]));
    let mut events = chat.events_after(seen[1].id());
    script("fails-not", [Reply::says(&["fine"])]);
    chat.say(2, "play fails-not");
    assert_eq!(text(&events.until("Finish")), "fine", "nothing of it comes again");
}

#[test]
fn places_that_are_none() {
    let gate = Gate::default();
    script(
        "no-place",
        [Reply::says(&["first"]), Reply::says(&["second"]), Reply::new().text("third ").hold(&gate).stops()],
    );
    let world = World::start();
    let chat = Chat::start(&world.client());
    let first = chat.run(1, "play no-place");
    let second = chat.run(2, "play no-place");
    let message = chat.conversation()[2]["id"].clone();
    let cut = chat.send("POST", "/fork", &json!({ "message_id": message, "truncate": true, "copy": false }));
    assert_eq!(cut.status, 200, "{cut:?}");
    let other = Chat::start(&world.client());
    let elsewhere = other.run(1, "play no-place-other-script");
    chat.say(3, "play no-place");
    let third = |frames: &[Frame]| assert_eq!(text(&frames[frames.len() - 1..]), "third ", "{frames:#?}");
    let read = |place: &str, count: usize| -> Vec<_> {
        let mut events = chat.events_after(place);
        (0..count).map(|_| events.next().unwrap()).collect()
    };
    // Of a turn that was cut off, and of another session: told what there is, then what is new.
    for place in [second[0].id(), second[1].id(), elsewhere[0].id()] {
        let seen = read(place, 3);
        assert_eq!(kinds(&seen), ["ActiveRequests", "UpdateConversation", "Message"], "{place}");
        assert_eq!((&seen[0].id, &seen[1].id), (&None, &None), "{seen:#?}");
        let conversation = seen[1].data["conversation"].to_string();
        assert!(conversation.contains("first") && !conversation.contains("second"), "{conversation}");
        third(&seen);
    }
    // The numbers of another server: everything, since nobody knows what they meant.
    for place in ["17", "0", "18446744073709551616"] {
        let seen = read(place, 4);
        assert_eq!((seen[0].kind(), &seen[1..3]), ("ActiveRequests", &first[..]), "{place}");
        third(&seen);
    }
    third(&read("", 2));
    for place in ["nonsense", ":", "-1", "\u{e4}", "1.5", &"x".repeat(10_000)] {
        let answer = chat.client.send_with("GET", &chat.path("/events"), &[("last-event-id", place)], "");
        assert_eq!(answer.status, 400, "{place}: {answer:?}");
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains("leave it out") && message.len() < 500, "{message}");
    }
    // A place that a turn does not have is the client's mistake.
    let turn = first[0].id().split_once(':').unwrap().0;
    let answer = chat.client.send_with("GET", &chat.path("/events"), &[("last-event-id", &format!("{turn}:9999"))], "");
    assert_eq!(answer.status, 422, "{answer:?}");
    assert!(answer.json()["message"].as_str().unwrap().contains("beyond the turn's last event"), "{answer:?}");
    gate.open();
}

#[test]
fn a_stream_ends_with_its_session() {
    script("deleted-stream", [Reply::says(&["hello"])]);
    let world = World::start();
    let chat = Chat::start(&world.client());
    let mut events = chat.events();
    chat.say(1, "play deleted-stream");
    events.until("Finish");
    let deleted = chat.send("DELETE", "", &Value::Null);
    assert_eq!((deleted.status, deleted.body.as_str()), (200, ""));
    assert_eq!(events.next(), Err(Ended::Cleanly));
    let gone = chat.client.send("GET", &chat.path("/events"), "");
    assert_eq!(gone.status, 404, "{gone:?}");
}
