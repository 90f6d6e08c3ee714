//! A session is never stuck: killed at any moment of a turn with tools, it takes the next message, and what the model is
//! given then is in order.

use serde_json::json;

use super::{
    shown::check_requests,
    world::{Chat, Events, World, always, text},
};
use crate::suite::harness::{Gate, Reply, eventually, script};

/// When the server is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// As soon as the message is taken.
    Taken,
    /// The provider has not said a word yet.
    Silent,
    /// After so many events.
    Events(usize),
    /// A tool with an effect runs.
    Running,
    /// A person is asked.
    Asked,
    /// A person has just allowed it.
    Allowed,
    /// A person has just denied it.
    Denied,
    /// The effect has happened, its result may not be known.
    Appended,
    /// Somebody has just cancelled it.
    Cancelled,
    /// All is over.
    Over,
}

const MOMENTS: [Moment; 14] = [
    Moment::Taken,
    Moment::Silent,
    Moment::Events(1),
    Moment::Events(2),
    Moment::Events(3),
    Moment::Running,
    Moment::Events(4),
    Moment::Events(5),
    Moment::Asked,
    Moment::Allowed,
    Moment::Denied,
    Moment::Appended,
    Moment::Cancelled,
    Moment::Over,
];

/// The turn: two tools at once, then one that asks, then an answer. Which step is asked for shows in what was said so far,
/// so that one that was cut off is asked for again.
fn play(name: &str, silent: Option<&Gate>) {
    let then = |step: &str| json!({ "line": name, "then": format!("play {name}-{step}") }).to_string();
    let first = Reply::new();
    let first = silent.map_or(first.clone(), |gate| first.hold(gate));
    let first = first.text("I ").text("begin.").call("box__look", then("2")).call("box__hold", then("2"));
    let first = first.finish("tool_calls");
    let second = Reply::new().text("Now this.").call("box__append", then("3")).finish("tool_calls");
    script(name, always(&first));
    script(&format!("{name}-2"), always(&second));
    script(&format!("{name}-3"), always(&Reply::says(&["All ", "done."])));
    script(&format!("{name}-next"), always(&Reply::says(&["What next?"])));
}

/// Waits until the tool with the effect runs.
fn begins(world: &World) {
    eventually("the tool runs", || (!world.effects().is_empty()).then_some(()));
}

/// Lets the turn come to its moment.
fn reach(world: &World, chat: &Chat, events: &mut Events, moment: Moment) {
    let allow = |events: &mut Events| {
        let (_, call) = events.until_asked();
        chat.decided(&call, "allow_once");
    };
    match moment {
        Moment::Taken | Moment::Silent => {}
        Moment::Events(count) => (0..count).for_each(|_| drop(events.next().unwrap())),
        Moment::Running => begins(world),
        Moment::Asked => drop(events.until_asked()),
        Moment::Allowed => allow(events),
        Moment::Denied => {
            let (_, call) = events.until_asked();
            chat.decided(&call, "deny_once");
        }
        Moment::Appended => {
            allow(events);
            eventually("it is appended", || {
                world.effects().iter().any(|effect| effect.starts_with("append")).then_some(())
            });
        }
        Moment::Cancelled => {
            events.until_asked();
            let cancel = chat.send("POST", "/cancel", &json!({ "request_id": super::world::uuid(1) }));
            assert_eq!(cancel.status, 200);
        }
        Moment::Over => {
            allow(events);
            events.until("Finish");
        }
    }
}

fn check(moment: Moment, name: &str, patient: bool) {
    println!("{moment:?}, {}", if patient { "then waiting for the end" } else { "then going on at once" });
    let gate = Gate::default();
    play(name, matches!(moment, Moment::Silent).then_some(&gate));
    let mut world = World::start();
    if !matches!(moment, Moment::Running) {
        world.go(name);
    }
    let mut chat = Chat::start(&world.client());
    let mut events = chat.events();
    chat.say(1, &format!("play {name}"));
    reach(&world, &chat, &mut events, moment);
    world.crash();
    world.go(name);
    gate.open();
    chat = chat.on(&world);
    // What was sent is sent again, as clients do that do not know.
    chat.say(1, &format!("play {name}"));
    if patient {
        finish(&chat);
    }
    let next = format!("{name}-next");
    assert_eq!(text(&chat.run_next(2, &format!("play {next}"))), "What next?", "{moment:?}");
    check_requests(&next);
    let effects = world.effects();
    for kind in ["begin", "end", "append"] {
        let count = effects.iter().filter(|effect| effect.starts_with(kind)).count();
        assert!(count <= 1, "{moment:?}: an effect happens once: {effects:?}");
    }
    let shown = chat.show();
    assert_eq!(shown["message_count"], shown["conversation"].as_array().unwrap().len(), "{moment:?}");
    let open = chat.client.send("GET", "/api/v1/forms?status=open", "").json();
    assert_eq!(open["forms"], json!([]), "{moment:?}: nobody is asked any more");
}

/// Allows what is asked and waits for the end of the first request.
fn finish(chat: &Chat) {
    eventually("the first turn ends", || {
        let open = chat.client.send("GET", "/api/v1/forms?status=open", "").json();
        if let Some(call) = open["forms"][0]["payload"]["tool_call_id"].as_str() {
            let answer = chat.decide(call, "allow_once");
            assert!(matches!(answer.status, 200 | 409), "{answer:?}");
        }
        let sessions = chat.client.send("GET", &format!("/api/v1/sessions/{}", chat.id), "").json();
        (sessions["status"] == "idle").then_some(())
    });
}

#[test]
fn killed_at_any_moment_and_spoken_to_at_once() {
    for (at, moment) in MOMENTS.into_iter().enumerate() {
        check(moment, &format!("stuck-now-{at}"), false);
    }
}

#[test]
fn killed_at_any_moment_and_waited_for() {
    for (at, moment) in MOMENTS.into_iter().enumerate() {
        check(moment, &format!("stuck-later-{at}"), true);
    }
}

/// Killed again and again while the same turn is taken up: it ends all the same.
#[test]
fn killed_again_and_again() {
    let name = "stuck-often";
    play(name, None);
    let mut world = World::start();
    let mut chat = Chat::start(&world.client());
    chat.say(1, &format!("play {name}"));
    begins(&world);
    for round in 0..5 {
        world.crash();
        chat = chat.on(&world);
        if round >= 2 {
            eventually("a person is asked", || {
                let session = chat.client.send("GET", &format!("/api/v1/sessions/{}", chat.id), "").json();
                assert_ne!(session["status"], "idle", "{:#} {}", chat.show(), world.home.log());
                (session["status"] == "waiting").then_some(())
            });
        }
    }
    finish(&chat);
    assert_eq!(text(&chat.run_next(2, &format!("play {name}-next"))), "What next?");
    check_requests(&format!("{name}-next"));
    assert_eq!(world.effects(), [format!("begin {name}"), format!("append {name}")]);
}

/// Whoever speaks to a session right after a restart finds its tools there.
#[test]
fn the_tools_are_there_after_a_restart() {
    let mut world = World::start();
    let mut chat = Chat::start(&world.client());
    for turn in 1..=5 {
        let name = format!("restarted-{turn}");
        script(&name, [Reply::calls(&[("box__look", json!({}))]), Reply::says(&["Seen."])]);
        world.crash();
        chat = chat.on(&world);
        let seen = chat.run(turn, &format!("play {name}"));
        let result = &seen[1].data["message"]["content"][0]["toolResult"]["value"];
        assert_eq!(result["content"][0]["text"], "nothing to see", "{seen:#?}");
    }
}
