//! `UpdateConversation`: when the whole conversation is shown, and how.

use expect_test::expect;
use serde_json::{Value, json};

use super::{
    transcript::{line, tokens},
    world::{Door, Frame, Stream, World, kinds, logged, rest, says, says_to, until},
};
use crate::suite::harness::{Gate, Reply, Talk, script};

/// Of the whole conversation, who says what.
fn said(frame: &Frame) -> Vec<(String, String)> {
    let text = |message: &Value| {
        let items = message["content"].as_array().unwrap().iter();
        items.map(|item| item["text"].as_str().map_or_else(|| item["type"].to_string(), str::to_owned)).collect()
    };
    let role = |message: &Value| message["role"].as_str().unwrap().to_owned();
    let conversation = frame.data["conversation"].as_array().unwrap_or_else(|| panic!("no conversation: {frame:?}"));
    conversation.iter().map(|message| (role(message), text(message))).collect()
}

fn updates(frames: &[Frame]) -> Vec<Frame> {
    frames.iter().filter(|frame| frame.kind() == "UpdateConversation").cloned().collect()
}

#[test]
fn after_an_override() {
    let world = World::start();
    let mut text = String::new();
    let mut talk = Talk::new(world.client());
    for door in Door::BOTH {
        let name = format!("seed-override-{}", door.view());
        script(&name, [Reply::says(&["Forgotten."]), Reply::says(&["Yes."])]);
        world.post(door, &says(&name, &format!("play {name} at first")));
        let mut body = says(&name, "Go on, play ");
        body["user_message"]["content"][0]["text"] = json!(format!("play {name}"));
        body["override_conversation"] = json!([
            { "role": "user", "content": [{ "type": "text", "text": "Previous message" }] },
            { "role": "assistant", "content": [{ "type": "text", "text": "Previous response" }] },
        ]);
        let stream = Stream::of(world.admin().send("POST", door.path(), &body.to_string()));
        text += &format!("# POST {}\n", door.path());
        text.extend(stream.frames.iter().map(|frame| line(door, frame)));
        let view = world.view(door, &stream.session, &stream.turn, None);
        assert_eq!(logged(&view), logged(&stream.frames));
    }
    talk.say(&text);
    talk.check(expect![[r##"
        # POST /reply
        - {"type":"Ping"}
        1 {"conversation":[{"content":[{"text":"Previous message","type":"text"}],"created_at":"<time>","id":"turn#1.u1","role":"user"},{"content":[{"text":"Previous response","type":"text"}],"created_at":"<time>","id":"turn#1.u2","role":"assistant"},{"content":[{"text":"play seed-override-goose-seed","type":"text"}],"created_at":"<time>","id":"turn#1.u3","role":"user"}],"token_state":"0+0 of 10+5","type":"UpdateConversation"}
        3 {"message":{"content":[{"text":"Yes.","type":"text"}],"created_at":"<time>","id":"turn#1.a1","role":"assistant"},"token_state":"0+0 of 10+5","type":"Message"}
        5 {"reason":"stop","token_state":"10+5 of 20+10","type":"Finish"}
        # POST /goose/reply
        - {"type":"Ping"}
        1 {"conversation":[{"content":[{"text":"Previous message","type":"text"}],"created":"<s>","id":"turn#2.u1","metadata":{"agentVisible":true,"userVisible":true},"role":"user"},{"content":[{"text":"Previous response","type":"text"}],"created":"<s>","id":"turn#2.u2","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},{"content":[{"text":"play seed-override-goose","type":"text"}],"created":"<s>","id":"turn#2.u3","metadata":{"agentVisible":true,"userVisible":true},"role":"user"}],"type":"UpdateConversation"}
        3 {"message":{"content":[{"text":"Yes.","type":"text"}],"created":"<s>","id":"turn#2.a1","metadata":{"agentVisible":true,"userVisible":true},"role":"assistant"},"token_state":"10+5 of 10+5","type":"Message"}
        5 {"reason":"stop","token_state":"10+5 of 20+10","type":"Finish"}
    "##]]);
}

/// The agent `small` holds 400 tokens: the third message does not fit with what came before.
#[test]
fn after_a_compaction() {
    let world = World::start();
    for door in Door::BOTH {
        let name = format!("seed-small-{}", door.view());
        // Every message names the script, for nobody knows which of them the model will be given.
        let long = |word: &str, times: usize| format!("{word} ").repeat(times) + "play " + &name;
        let answers = [long("once", 115), long("twice", 115), "They counted.".to_owned(), "Three.".to_owned()];
        script(&name, answers.iter().map(|text| Reply::says(&[text])));
        let before: Vec<_> = ["anna", "beth"].iter().map(|word| long(word, 57)).collect();
        for text in &before {
            let stream = world.post(door, &says_to("small", &name, text));
            assert_eq!((stream.reason(), updates(&stream.frames)), ("stop", Vec::new()));
        }
        let stream = world.post(door, &says(&name, &format!("c play {name}")));
        assert_eq!(kinds(&stream.frames), ["Ping", "UpdateConversation", "Message", "Finish"]);
        // What people see is all that was said, not what the model is given of it.
        let all = [&before[0], &answers[0], &before[1], &answers[1], &format!("c play {name}")];
        let roles = ["user", "assistant"].into_iter().cycle();
        let all: Vec<_> = roles.zip(all).map(|(role, text)| (role.to_owned(), text.clone())).collect();
        assert_eq!(said(&stream.frames[1]), all);
        // The summary was made by the model, and counts.
        let end = tokens(door, &stream.frames[3].data["token_state"]);
        assert_eq!(end, [20, 10, 30, 40, 20, 60]);
        assert_eq!(logged(&world.view(door, &stream.session, &stream.turn, None)), logged(&stream.frames));
    }
}

/// The described door shows the whole conversation now and then while the turn runs, beside the log: frames without a
/// cursor, which no replay has.
#[test]
fn now_and_then_while_a_turn_runs() {
    let world = World::with("", "[goose]\nsnapshot = '100ms'\nping = '50ms'\n");
    for door in Door::BOTH {
        let (name, gates) = (format!("seed-snap-{}", door.view()), [Gate::default(), Gate::default()]);
        let first = Reply::new().text("I count.").call("calculator", r#"{"expression":"6*7"}"#).finish("tool_calls");
        let second = Reply::new().text("It is").hold(&gates[0]).text(" 42.").hold(&gates[1]).stops();
        script(&name, [first, second]);
        let mut stream = world.open(door, &says(&name, &format!("play {name}")));
        let mut seen = until(&mut stream, "\"It is\"");
        let mut quiet_for = |seen: &mut Vec<Frame>, pings: usize| {
            let before = seen.len();
            while seen[before..].iter().filter(|frame| frame.kind() == "Ping").count() < pings {
                seen.push(Frame::read(&stream.next().unwrap()));
            }
        };
        quiet_for(&mut seen, 10);
        gates[0].open();
        quiet_for(&mut seen, 10);
        gates[1].open();
        seen.extend(rest(&mut stream));
        let shown = updates(&seen);
        assert_eq!(seen.last().unwrap().kind(), "Finish", "nothing comes after it: {seen:#?}");
        if door == Door::Released {
            assert_eq!(shown, [], "the releases never did");
            continue;
        }
        assert!(shown.iter().all(|frame| frame.id.is_none()), "{shown:#?}");
        let play = format!("play {name}");
        let told = |text: &str| {
            let all = [
                ("user", play.as_str()),
                ("assistant", "I count.\"tool_request\""),
                ("user", "\"tool_response\""),
                ("assistant", text),
            ];
            all.map(|(role, text)| (role.to_owned(), text.to_owned())).to_vec()
        };
        let said: Vec<_> = shown.iter().map(said).collect();
        assert!(said.contains(&told("It is")), "{said:#?}");
        assert!(said.contains(&told("It is 42.")), "{said:#?}");
        // Nothing is shown again while nothing is new.
        assert!(said.windows(2).all(|pair| pair[0] != pair[1]), "{said:#?}");
        for frame in &shown {
            let [input, ..] = tokens(door, &frame.data["token_state"]);
            assert!(input <= 10);
        }
        let (session, turn) = (stream.header("x-session-id").to_owned(), stream.header("x-message-id").to_owned());
        assert_eq!(updates(&world.view(door, &session, &turn, None)), []);
    }
}

/// Only what the history was replaced by is shown whole, and a turn that goes its way shows nothing of the kind.
#[test]
fn not_otherwise() {
    let world = World::start();
    script("seed-plain", Door::BOTH.iter().flat_map(|_| [Reply::says(&["One."]), Reply::says(&["Two."])]));
    for door in Door::BOTH {
        for _ in 0..2 {
            let stream = world.post(door, &says(door.view(), "play seed-plain"));
            assert_eq!(kinds(&stream.frames), ["Ping", "Message", "Finish"]);
        }
    }
}
