//! Tokens: what a turn used, and what its session did. Each call of the scripted model uses 10 and 5.

use serde_json::json;

use super::{
    transcript::tokens,
    world::{Door, Frame, World, kinds, says, says_to},
};
use crate::suite::harness::{Reply, script};

/// The numbers of each frame that has them.
#[track_caller]
fn numbers(door: Door, frames: &[Frame]) -> Vec<[u64; 6]> {
    frames.iter().filter_map(|frame| Some(tokens(door, frame.data.get("token_state")?))).collect()
}

fn call() -> Reply {
    Reply::new().text("I count.").call("calculator", r#"{"expression":"6*7"}"#).finish("tool_calls")
}

#[test]
fn of_turns_and_of_their_session() {
    for door in Door::BOTH {
        let name = format!("seed-tokens-{}", door.view());
        script(&name, [call(), Reply::says(&["42."]), Reply::says(&["Yes."]), call(), Reply::says(&["Again."])]);
        let mut world = World::start();
        let first = world.post(door, &says(&name, &format!("play {name}")));
        assert_eq!(kinds(&first.frames), ["Ping", "Message", "Message", "Message", "Message", "Finish"]);
        // While the model speaks its call is not counted yet; the call of the tool comes with its end.
        let (none, one, two) = ([0, 0, 0, 0, 0, 0], [10, 5, 15, 10, 5, 15], [20, 10, 30, 20, 10, 30]);
        assert_eq!(numbers(door, &first.frames), [none, one, one, one, two]);

        let second = world.post(door, &says(&name, "And now?"));
        // The gauge of released clients stays where it was until something new is known.
        let running = if door == Door::Described { [0, 0, 0, 20, 10, 30] } else { [20, 10, 30, 20, 10, 30] };
        assert_eq!(numbers(door, &second.frames), [running, [10, 5, 15, 30, 15, 45]]);
        let shown = |world: &World| {
            let session = world.session(&name);
            ["input_tokens", "output_tokens", "total_tokens"]
                .map(|field| [&session[field], &session[format!("accumulated_{field}")]].map(|n| n.as_u64().unwrap()))
        };
        assert_eq!(shown(&world), [[10, 30], [5, 15], [15, 45]]);

        world.crash();
        assert_eq!(shown(&world), [[10, 30], [5, 15], [15, 45]], "they are kept");
        let third = world.post(door, &says(&name, "And after the restart?"));
        let last = *numbers(door, &third.frames).last().unwrap();
        assert_eq!(last, [20, 10, 30, 50, 25, 75]);
        // What was is shown as it was.
        let replayed = world.view(door, &second.session, &second.turn, None);
        assert_eq!(numbers(door, &replayed), numbers(door, &second.frames));
    }
}

/// The described door tells them with every event but `Ping`; the releases had them on messages and the end only.
#[test]
fn on_every_event() {
    let world = World::with_tools("retries = 0", "");
    let steps = ("bad__steps", json!({ "count": 1 }));
    let broken = || Reply::status(503, &[], "under repair");
    script(
        "seed-tokens-all",
        Door::BOTH.iter().flat_map(|_| [Reply::calls(std::slice::from_ref(&steps)), broken()]).collect::<Vec<_>>(),
    );
    script("seed-tokens-change", Door::BOTH.iter().flat_map(|_| [broken(), Reply::says(&["Me."])]));
    let mut seen = Vec::new();
    for door in Door::BOTH {
        for (agent, name) in [("worker", "seed-tokens-all"), ("twofold", "seed-tokens-change")] {
            let mut body = says_to(agent, &format!("{name}-{}", door.view()), &format!("play {name}"));
            body["override_conversation"] = json!([]);
            let answer = world.admin().send("POST", door.path(), &body.to_string());
            for frame in super::world::Stream::of(answer).frames {
                let has = frame.data.get("token_state").map(|state| tokens(door, state)).is_some();
                let must = match (door, frame.kind()) {
                    (_, "Ping") => false,
                    (Door::Described, _) | (Door::Released, "Message" | "Finish") => true,
                    (Door::Released, _) => false,
                };
                assert_eq!(has, must, "{door:?} {frame:?}");
                if !seen.contains(&frame.kind().to_owned()) {
                    seen.push(frame.kind().to_owned());
                }
            }
        }
    }
    seen.sort();
    assert_eq!(seen, ["Error", "Finish", "Message", "ModelChange", "Notification", "Ping", "UpdateConversation"]);
}

/// A call that breaks off and is made again has used what it used.
#[test]
fn of_calls_that_break_off() {
    let world = World::with("retries = 1", "");
    for door in Door::BOTH {
        let name = format!("seed-tokens-broken-{}", door.view());
        script(&name, [Reply::new().text("Once upon a time"), Reply::says(&["Well."])]);
        let stream = world.post(door, &says(&name, &format!("play {name}")));
        let [input, output, _, all_input, all_output, _] = *numbers(door, &stream.frames).last().unwrap();
        assert!(input > 10 && output > 5, "{:#?}", stream.frames);
        assert_eq!((input, output), (all_input, all_output));
        let session = world.session(&name);
        assert_eq!(session["accumulated_input_tokens"], json!(input));
        assert_eq!(session["accumulated_output_tokens"], json!(output));
    }
}
