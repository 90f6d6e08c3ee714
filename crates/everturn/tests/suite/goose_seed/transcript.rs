//! Both forms of a turn beside each other, as readable text.

use expect_test::Expect;
use serde_json::{Value, json};

use super::world::{Door, Frame, Stream, World, logged};
use crate::suite::harness::{Reply, Talk, script};

/// Names of the numbers in a token state, in either style.
const TOKENS: [[&str; 6]; 2] = [
    [
        "input_tokens",
        "output_tokens",
        "total_tokens",
        "accumulated_input_tokens",
        "accumulated_output_tokens",
        "accumulated_total_tokens",
    ],
    [
        "inputTokens",
        "outputTokens",
        "totalTokens",
        "accumulatedInputTokens",
        "accumulatedOutputTokens",
        "accumulatedTotalTokens",
    ],
];

/// The numbers of a token state, in the order of the protocol's text. There is nothing else in it.
#[track_caller]
pub(super) fn tokens(door: Door, state: &Value) -> [u64; 6] {
    let names = TOKENS[usize::from(door == Door::Released)];
    let object = state.as_object().unwrap_or_else(|| panic!("no token state: {state}"));
    match door {
        Door::Described => assert_eq!(object.len(), 6, "{state}"),
        Door::Released => assert_eq!((object.len(), object.get("accumulatedCost")), (7, Some(&Value::Null)), "{state}"),
    }
    let numbers = names.map(|name| state[name].as_u64().unwrap_or_else(|| panic!("no {name}: {state}")));
    let [input, output, total, all_input, all_output, all_total] = numbers;
    assert_eq!((input + output, all_input + all_output), (total, all_total), "{state}");
    numbers
}

/// A frame in one line: its id, and its data without what differs every time.
#[track_caller]
pub(super) fn line(door: Door, frame: &Frame) -> String {
    let mut data = frame.data.clone();
    timeless(&mut data);
    if let Some(state) = frame.data.get("token_state") {
        let [input, output, _, all_input, all_output, _] = tokens(door, state);
        data["token_state"] = json!(format!("{input}+{output} of {all_input}+{all_output}"));
    }
    format!("{} {data}\n", frame.id.as_deref().unwrap_or("-"))
}

/// Takes the time of messages out, after a look at how it is written.
#[track_caller]
fn timeless(data: &mut Value) {
    match data {
        Value::Array(items) => items.iter_mut().for_each(timeless),
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    "created_at" => {
                        let form = "0000-00-00T00:00:00Z";
                        let text = value.as_str().unwrap();
                        let fits = |(c, form): (u8, u8)| if form == b'0' { c.is_ascii_digit() } else { c == form };
                        assert!(text.len() == form.len() && text.bytes().zip(form.bytes()).all(fits), "{text}");
                        *value = json!("<time>");
                    }
                    "created" => {
                        assert!(value.as_i64().is_some_and(|seconds| seconds > 1_700_000_000), "{value}");
                        *value = json!("<s>");
                    }
                    // Our number for the call.
                    "progressToken" => *value = json!("<token>"),
                    _ => timeless(value),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Plays a script in two sessions, one through each door, and has each turn shown by all four: by the door that it was said
/// at while it ran, by the other one to which the same message is sent again, and by the two views. All must agree.
#[track_caller]
pub(super) fn side_by_side(world: &World, name: &str, replies: &[Reply], body: &Value, expected: Expect) {
    side_by_side_by(world, name, replies, body, |door, body| world.post(door, body), expected);
}

/// As [`side_by_side`], for turns that need somebody to go on: `live` says the message and reads the stream to its end.
#[track_caller]
pub(super) fn side_by_side_by(
    world: &World,
    name: &str,
    replies: &[Reply],
    body: &Value,
    live: impl Fn(Door, &Value) -> Stream,
    expected: Expect,
) {
    script(name, [replies, replies].concat());
    let transcripts = Door::BOTH.map(|door| {
        let mut body = body.clone();
        body["session_id"] = json!(format!("{name}-{}", door.view()));
        body["user_message"]["id"] = json!("m1");
        let first = live(door, &body);
        let again = world.post(door.other(), &body);
        assert_eq!((&again.session, &again.turn), (&first.session, &first.turn));
        let both = match door {
            Door::Described => [first, again],
            Door::Released => [again, first],
        };
        let mut talk = Talk::new(world.client());
        let mut text = String::new();
        for (door, stream) in Door::BOTH.into_iter().zip(&both) {
            let view = world.view(door, &stream.session, &stream.turn, None);
            assert_eq!(logged(&view), logged(&stream.frames), "{door:?}");
            text += &format!("# POST {}\n", door.path());
            let frames = stream.frames.iter().enumerate().filter(|(at, frame)| *at == 0 || frame.kind() != "Ping");
            text.extend(frames.map(|(_, frame)| line(door, frame)));
        }
        let home = world.home.path().to_str().unwrap();
        talk.say(&text.replace(home, "<home>"));
        talk
    });
    let [described, released] = transcripts.map(Talk::text);
    assert_eq!(described, released, "whichever door it was said at, it looks the same");
    expected.assert_eq(&described);
}
