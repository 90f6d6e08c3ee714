//! How streams are made of frames, and how a lost one is picked up.

use serde_json::json;

use super::world::{Door, Frame, World, frames, kinds, logged, rest, says, says_to, text, until};
use crate::suite::harness::{Gate, Reply, eventually, key, script};

/// What a cursor counts: an event, and the frame within it.
fn position(frame: &Frame) -> (u64, u64) {
    let id = frame.id.as_deref().unwrap();
    let (seq, part) = id.split_once('.').unwrap_or((id, "1"));
    (seq.parse().unwrap(), part.parse().unwrap())
}

fn replies() -> [Reply; 2] {
    let calls = [("calculator", json!({ "expression": "6*7" })), ("clock", json!({}))];
    let first = Reply::new().thinking("Hm.").text("I ").text("count.");
    let first = calls.iter().fold(first, |reply, (name, input)| reply.call(name, input.to_string()));
    [first.finish("tool_calls"), Reply::says(&["It ", "is ", "42."])]
}

#[test]
fn every_cursor_gives_exactly_the_rest() {
    let mut world = World::start();
    script("seed-cursors", Door::BOTH.iter().flat_map(|_| replies()));
    script("seed-cursors-fail", Door::BOTH.map(|_| Reply::status(401, &[], "no")));
    let mut streams = Vec::new();
    for name in ["seed-cursors", "seed-cursors-fail"] {
        for door in Door::BOTH {
            let stream = world.post(door, &says(&format!("{name}-{}", door.view()), &format!("play {name}")));
            assert_eq!((stream.frames[0].id.as_ref(), &stream.frames[0].data), (None, &json!({ "type": "Ping" })));
            let named = logged(&stream.frames);
            assert_eq!(named.len(), stream.frames.len() - 1, "all others have a place: {:#?}", stream.frames);
            assert!(named.is_sorted_by(|one, next| position(one) < position(next)), "{named:#?}");
            streams.push((door, stream));
        }
    }
    // It makes no difference whether the log is in memory or has been read back.
    for _ in 0..2 {
        for (door, stream) in &streams {
            let named = logged(&stream.frames);
            for (index, frame) in named.iter().enumerate() {
                let rest = world.view(*door, &stream.session, &stream.turn, frame.id.as_deref());
                assert_eq!(logged(&rest), named[index + 1..], "{door:?} after {:?}", frame.id);
                // A cursor means the same in the other view.
                let other = world.view(door.other(), &stream.session, &stream.turn, None);
                let rest = world.view(door.other(), &stream.session, &stream.turn, frame.id.as_deref());
                assert!(logged(&other).ends_with(&logged(&rest)), "{door:?} after {:?}", frame.id);
                assert!(rest.iter().filter(|other| other.id.is_some()).all(|other| position(other) > position(frame)));
            }
        }
        world.crash();
    }
}

#[test]
fn a_lost_stream_is_picked_up_where_it_was() {
    let world = World::start();
    for door in Door::BOTH {
        let (name, gates) = (format!("seed-lost-{}", door.view()), [Gate::default(), Gate::default()]);
        let reply = Reply::new().text("one ").text("two ").hold(&gates[0]).text("three ").hold(&gates[1]).text("four");
        script(&name, [reply.stops()]);
        let mut stream = world.open(door, &json!({ "user_message": { "content": format!("play {name}") } }));
        let (session, turn) = (stream.header("x-session-id").to_owned(), stream.header("x-message-id").to_owned());
        let seen = logged(&until(&mut stream, "two "));
        drop(stream);
        gates[0].open();
        let path = format!("/api/v1/sessions/{session}/messages/{turn}/stream?as={}", door.view());
        let headers = [("last-event-id", seen.last().unwrap().id.as_deref().unwrap())];
        let mut again = world.client().open_with("GET", &path, &headers, String::new());
        let mut picked_up = logged(&until(&mut again, "three "));
        gates[1].open();
        picked_up.extend(logged(&rest(&mut again)));
        assert_eq!(text(&picked_up), "three four");
        let whole = logged(&world.view(door, &session, &turn, None));
        assert_eq!([seen, picked_up].concat(), whole, "no gap, no repeat");
        // Who has seen the end is told not to come back.
        let end = whole.last().unwrap().id.as_deref().unwrap();
        let over = world.client().send_with("GET", &path, &[("last-event-id", end)], "");
        assert_eq!((over.status, over.body.as_str()), (204, ""));
    }
}

#[test]
fn the_answer_says_what_it_is() {
    let world = World::start();
    script("seed-head", Door::BOTH.map(|_| Reply::says(&["Hello."])));
    for door in Door::BOTH {
        let body = json!({ "user_message": { "content": "play seed-head" } });
        let answer = world.client().send("POST", door.path(), &body.to_string());
        assert_eq!(answer.header("content-type"), "text/event-stream");
        assert_eq!(answer.header("cache-control"), "no-cache");
        assert!(answer.header("x-session-id").starts_with("sess_"), "{answer:?}");
        assert!(answer.header("x-message-id").starts_with("turn_"), "{answer:?}");
        let connection = if door == Door::Described { "keep-alive" } else { "" };
        assert_eq!(answer.header("connection"), connection);
    }
}

/// A client that splits what it reads by network chunk must find whole frames in each.
#[test]
fn the_described_door_writes_one_frame_at_a_time() {
    const WORDS: usize = 300;
    let world = World::start();
    let reply = || (0..WORDS).fold(Reply::new(), |reply, n| reply.text(&format!("w{n} "))).stops();
    script("seed-chunks", [reply()]);
    let mut body = says("chunks", "play seed-chunks");
    body["user_message"]["id"] = json!("m1");
    let body = body.to_string();
    let request = format!(
        "POST /reply HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        key("acme"),
        body.len()
    );
    // While the turn runs, and when all of it is there at once.
    for _ in 0..2 {
        let answer = world.server.raw(request.as_bytes());
        let (head, mut rest) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.to_ascii_lowercase().contains("transfer-encoding: chunked"), "{head}");
        let mut seen = Vec::new();
        loop {
            let (size, after) = rest.split_once("\r\n").unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            if size == 0 {
                break;
            }
            let [frame] = frames(&after[..size]).try_into().unwrap_or_else(|several| panic!("not one: {several:#?}"));
            seen.push(frame);
            rest = after[size..].strip_prefix("\r\n").unwrap();
        }
        assert_eq!(seen.len(), WORDS + 2);
        assert_eq!(text(&seen), (0..WORDS).map(|n| format!("w{n} ")).collect::<String>());
    }
}

#[test]
fn silence_is_filled_with_pings() {
    let world = World::with("heartbeat = '100ms'", "[goose]\nping = '100ms'\n");
    for door in Door::BOTH {
        let (name, gate) = (format!("seed-silent-{}", door.view()), Gate::default());
        script(&name, [Reply::new().text("Wait.").hold(&gate).text(" Here.").stops()]);
        let mut stream = world.open(door, &says(&name, &format!("play {name}")));
        let mut seen = until(&mut stream, "Wait.");
        let pings = |seen: &[Frame]| seen.iter().filter(|frame| frame.kind() == "Ping").count();
        while pings(&seen) < 4 {
            seen.push(Frame::read(&stream.next().unwrap()));
        }
        gate.open();
        seen.extend(rest(&mut stream));
        assert!(seen.iter().all(|frame| (frame.kind() == "Ping") == frame.id.is_none()), "{seen:#?}");
        let others: Vec<_> = kinds(&seen).into_iter().filter(|kind| *kind != "Ping").collect();
        assert_eq!(others, ["Message", "Message", "Finish"]);
    }
}

/// A turn that waits for somebody says that it is still there.
#[test]
fn a_stream_stays_open_while_the_turn_waits() {
    let world = World::with_tools("", "[goose]\nping = '100ms'\n");
    let mark = world.home.path().join("marks");
    for door in Door::BOTH {
        let name = format!("seed-open-{}", door.view());
        let call = ("pen__asked", json!({ "file": mark, "line": door.view() }));
        script(&name, [Reply::calls(&[call]), Reply::says(&["Done."])]);
        let mut stream = world.open(door, &says_to("worker", &name, &format!("play {name}")));
        let seen = until(&mut stream, "prompt");
        let id = eventually("it is asked", || {
            let item = seen.last()?.items().first()?.clone();
            item["id"].as_str().or(item["data"]["id"].as_str()).map(str::to_owned)
        });
        until(&mut stream, "Ping");
        until(&mut stream, "Ping");
        let said = json!({ "id": id, "action": "allow_once", "sessionId": name }).to_string();
        let answer = world.client().send("POST", "/goose/action-required/tool-confirmation", &said);
        assert_eq!(answer.status, 200, "{answer:?}");
        let end = rest(&mut stream);
        assert_eq!((text(&end).as_str(), end.last().unwrap().kind()), ("Done.", "Finish"));
    }
    assert_eq!(std::fs::read_to_string(mark).unwrap(), "goose-seed\ngoose\n");
}
