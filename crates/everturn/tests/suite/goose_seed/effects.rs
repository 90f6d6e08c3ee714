//! Tools that leave a mark, and the trouble that may come while they run: each mark is made once.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::world::{Door, Frame, World, logged, rest, says_to, text, until};
use crate::suite::harness::{Gate, Reply, asked, eventually, script};

/// Where a tool leaves its mark, and what lets it go on.
struct Mark {
    file: PathBuf,
    until: PathBuf,
}

impl Mark {
    fn new(folder: &Path, name: &str) -> Self {
        Self { file: folder.join(name), until: folder.join(format!("{name}-go")) }
    }

    fn call(&self, tool: &str) -> Reply {
        Reply::calls(&[(tool, json!({ "file": self.file, "line": "mark", "until": self.until }))])
    }

    fn lines(&self) -> usize {
        std::fs::read_to_string(&self.file).map_or(0, |text| text.lines().count())
    }

    /// Waits until it is there.
    #[track_caller]
    fn made(&self) {
        eventually("the tool leaves its mark", || (self.lines() > 0).then_some(()));
    }

    fn go_on(&self) {
        std::fs::write(&self.until, "").unwrap();
    }
}

fn named(name: &str) -> Value {
    let mut body = says_to("worker", name, &format!("play {name}"));
    body["user_message"]["id"] = json!("m1");
    body
}

/// The results of tools in a stream, as text.
fn results(door: Door, frames: &[Frame]) -> Vec<(String, bool)> {
    let result = |item: &Value| match door {
        Door::Described => item.get("tool_result").map(|result| (result.clone(), result["is_error"] == true)),
        Door::Released => {
            item.get("toolResult").map(|result| (result["value"].clone(), result["value"]["isError"] == true))
        }
    };
    let found = frames.iter().flat_map(Frame::items).filter_map(result);
    found.map(|(result, is_error)| (result["content"][0]["text"].as_str().unwrap().to_owned(), is_error)).collect()
}

#[test]
fn a_client_that_goes_and_comes_again_during_a_call() {
    let world = World::with_tools("", "");
    for door in Door::BOTH {
        let name = format!("seed-effect-{}", door.view());
        let mark = Mark::new(world.home.path(), &name);
        script(&name, [mark.call("pen__append"), Reply::says(&["Written."])]);
        let mut stream = world.open(door, &named(&name));
        until(&mut stream, "pen__append");
        mark.made();
        drop(stream);
        // Again and again, while the tool runs.
        let streams: Vec<_> = (0..3)
            .map(|round| {
                let door = if round == 1 { door.other() } else { door };
                let mut stream = world.open(door, &named(&name));
                until(&mut stream, "pen__append");
                (door, stream)
            })
            .collect();
        mark.go_on();
        for (door, mut stream) in streams {
            let frames = rest(&mut stream);
            assert_eq!(
                (text(&frames).as_str(), results(door, &frames)),
                ("Written.", vec![("written".to_owned(), false)])
            );
        }
        assert_eq!(mark.lines(), 1, "{door:?}");
        assert_eq!(asked(&name).len(), 2);
    }
}

/// What a crash leaves unknown is told to the model, and never tried again.
#[test]
fn killed_in_the_middle_of_an_effect() {
    let mut world = World::with_tools("", "");
    for door in Door::BOTH {
        let name = format!("seed-killed-{}", door.view());
        let mark = Mark::new(world.home.path(), &name);
        script(&name, [mark.call("pen__append"), Reply::says(&["I do not know."])]);
        let mut stream = world.open(door, &named(&name));
        let seen = logged(&until(&mut stream, "pen__append"));
        mark.made();
        world.crash();
        world.await_tools();
        let stream = world.post(door, &named(&name));
        assert_eq!((stream.text().as_str(), stream.reason()), ("I do not know.", "stop"));
        assert!(logged(&stream.frames).starts_with(&seen), "what was seen still holds");
        let [(told, is_error)] = results(door, &stream.frames).try_into().unwrap();
        assert!(is_error && told.contains("unknown"), "{told}");
        let given = asked(&name)[1]["messages"].as_array().unwrap().last().unwrap().clone();
        assert!(given["role"] == "tool" && given["content"].as_str().unwrap().contains("unknown"), "{given}");
        assert_eq!(mark.lines(), 1, "{door:?}");
    }
}

/// One that may be repeated is, with the same effect.
#[test]
fn killed_in_the_middle_of_what_may_be_repeated() {
    let mut world = World::with_tools("", "");
    world.replace("[mcp.pen]\n", "[mcp.pen]\neffects = { append = 'idempotent' }\n");
    world.await_tools();
    let name = "seed-repeated";
    let mark = Mark::new(world.home.path(), name);
    script(name, [mark.call("pen__append"), Reply::new().hold(&Gate::default()), Reply::says(&["Written."])]);
    let mut stream = world.open(Door::Described, &named(name));
    until(&mut stream, "pen__append");
    mark.made();
    mark.go_on();
    let seen = until(&mut stream, "tool_response");
    assert_eq!(results(Door::Described, &seen), [("written".to_owned(), false)]);
    drop(stream);
    eventually("the model is asked what to make of it", || (asked(name).len() == 2).then_some(()));
    // Not what has ended.
    world.crash();
    world.await_tools();
    let stream = world.post(Door::Described, &named(name));
    assert_eq!((stream.text().as_str(), mark.lines()), ("Written.", 1));

    let name = "seed-repeated-killed";
    let mark = Mark::new(world.home.path(), name);
    script(name, [mark.call("pen__append"), Reply::says(&["Written."])]);
    let mut stream = world.open(Door::Described, &named(name));
    until(&mut stream, "pen__append");
    mark.made();
    world.crash();
    eventually("the tool is called again", || (mark.lines() == 2).then_some(()));
    mark.go_on();
    let stream = world.post(Door::Described, &named(name));
    assert_eq!((stream.text().as_str(), mark.lines()), ("Written.", 2));
    assert_eq!(results(Door::Described, &stream.frames), [("written".to_owned(), false)]);
}

/// Who goes away from a question about a call finds it again, and with it how the turn goes on.
#[test]
fn a_client_that_goes_and_comes_again_during_a_question() {
    let world = World::with_tools("", "");
    for door in Door::BOTH {
        let name = format!("seed-asked-{}", door.view());
        let mark = Mark::new(world.home.path(), &name);
        mark.go_on();
        script(&name, [mark.call("pen__asked"), Reply::says(&["Written."])]);
        let mut stream = world.open(door, &named(&name));
        let seen = until(&mut stream, "prompt");
        drop(stream);
        let mut stream = world.open(door, &named(&name));
        assert_eq!(logged(&until(&mut stream, "prompt")), logged(&seen));
        let item = &seen.last().unwrap().items()[0];
        let id = item["id"].as_str().or(item["data"]["id"].as_str()).unwrap();
        let said = json!({ "id": id, "action": "allow_once" }).to_string();
        let answer = world.client().send("POST", "/goose/action-required/tool-confirmation", &said);
        assert_eq!(answer.status, 200, "{answer:?}");
        let end = rest(&mut stream);
        assert_eq!((text(&end).as_str(), mark.lines()), ("Written.", 1), "{end:#?}");
    }
}

/// A question about a call survives a crash, and is answered once.
#[test]
fn killed_while_a_call_waits_for_a_word() {
    let mut world = World::with_tools("", "");
    for door in Door::BOTH {
        let name = format!("seed-word-{}", door.view());
        let mark = Mark::new(world.home.path(), &name);
        mark.go_on();
        script(&name, [mark.call("pen__asked"), Reply::says(&["Written."])]);
        let mut stream = world.open(door, &named(&name));
        let seen = until(&mut stream, "prompt");
        let item = &seen.last().unwrap().items()[0];
        let id = item["id"].as_str().or(item["data"]["id"].as_str()).unwrap();
        world.crash();
        world.await_tools();
        assert_eq!(mark.lines(), 0);
        let mut stream = world.open(door, &named(&name));
        assert_eq!(logged(&until(&mut stream, "prompt")), logged(&seen));
        let say = |action: &str| {
            let said = json!({ "id": id, "action": action, "sessionId": name }).to_string();
            world.client().send("POST", "/goose/action-required/tool-confirmation", &said)
        };
        assert_eq!((say("allow_once").status, say("allow_once").status), (200, 200), "twice is fine");
        assert_eq!(say("deny_once").status, 409);
        let end = rest(&mut stream);
        assert_eq!(text(&end), "Written.", "{end:#?}");
        assert_eq!(mark.lines(), 1);
    }
}
