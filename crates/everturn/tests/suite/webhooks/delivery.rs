use serde_json::json;

use super::{Reaction, Receiver, World, about, config, local};
use crate::suite::harness::{Reply, eventually, script};

/// What people, models and tools say stays here.
#[test]
fn messages_are_thin() {
    let receiver = Receiver::start();
    let world = World::start(&config(&["acme"], &local("acme", &receiver, "")));
    script("hook-thin", [Reply::says(&["A very secret answer."])]);
    let turn =
        world.spawn("acme", json!({ "agent_id": "writer", "message": "play hook-thin: a very secret question" }));
    let [delivery] = &receiver.wait(1)[..] else { panic!("one message") };
    let mut json = delivery.json();
    let timestamp = json["timestamp"].take();
    assert!(timestamp.as_str().unwrap().ends_with('Z'), "{timestamp}");
    let data = json!({ "session_id": turn.session, "message_id": turn.message, "status": "completed", "outcome": "completed" });
    assert_eq!(json, json!({ "type": "turn.completed", "timestamp": null, "data": data }));
    assert_eq!(delivery.header("content-type"), "application/json");
    for secret in ["secret", "play", "hook-thin", "writer"] {
        assert!(!String::from_utf8_lossy(&delivery.body).contains(secret), "{delivery:?}");
    }
    eventually("it is counted", || (world.count("delivered_total") == 1).then_some(()));
    assert_eq!((world.count("waiting"), world.count("failed_attempts_total")), (0, 0));
    assert!(!world.home.log().contains("whsec_"), "{}", world.home.log());
}

#[test]
fn turns_that_end_otherwise_and_turns_that_wait() {
    let receiver = Receiver::start();
    let world = World::start(&config(&["acme"], &local("acme", &receiver, "")));
    let failed = world.turn("acme", "fail");
    let [delivery] = &receiver.wait(1)[..] else { panic!("one message") };
    let json = delivery.json();
    assert_eq!((json["type"].as_str(), about(delivery)), (Some("turn.failed"), failed));
    assert_eq!(json["data"]["outcome"], "failed");
    assert!(json["data"]["code"].is_string(), "{json}");

    let form = json!({ "kind": "clarify", "title": "Where?", "schema": {
        "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"],
    } });
    script("hook-form", [Reply::calls(&[("request_form", form)]), Reply::says(&["Thanks."])]);
    let turn = world.spawn("acme", json!({ "agent_id": "writer", "message": "play hook-form" }));
    let json = receiver.wait(2)[1].json();
    assert_eq!((json["type"].as_str(), json["data"]["status"].as_str()), (Some("turn.waiting"), Some("waiting")));
    let [form] = &json["data"]["form_ids"].as_array().unwrap()[..] else { panic!("one form: {json}") };
    let shown = world.client("acme").send("GET", &format!("/api/v1/forms/{}", form.as_str().unwrap()), "");
    assert_eq!((shown.status, shown.json()["session_id"].as_str()), (200, Some(turn.session.as_str())), "{shown:?}");
    // Stopped while it waits.
    let stop = format!("/api/v1/sessions/{}/messages/{}/stop", turn.session, turn.message);
    let stopped = world.client("acme").send("POST", &stop, "");
    assert!(stopped.status < 300, "{stopped:?}");
    let json = receiver.wait(3)[2].json();
    assert_eq!((json["type"].as_str(), json["data"]["outcome"].as_str()), (Some("turn.cancelled"), Some("cancelled")));
}

#[test]
fn only_what_is_wanted_and_only_of_the_tenant() {
    let receiver = Receiver::start();
    let hooks = local("acme", &receiver, "events = ['turn.failed']");
    let world = World::start(&config(&["acme", "bob"], &hooks));
    let client = world.client("acme");
    world.turn("bob", "fail");
    let done = world.turn("acme", "stream 1");
    eventually("the turn ends", || {
        let shown = client.send("GET", &format!("/api/v1/sessions/{}/messages/{}", done.session, done.message), "");
        (shown.json()["status"] == "completed").then_some(())
    });
    let failed = world.turn("acme", "fail");
    let turns: Vec<_> = receiver.wait(1).iter().map(about).collect();
    assert_eq!(turns, [failed]);
}

/// Whatever fails in between.
#[test]
fn in_order_within_a_session() {
    let receiver = Receiver::start();
    let mut attempts = 0;
    // Every other attempt fails.
    receiver.react(move |_| {
        attempts += 1;
        Reaction::status(if attempts % 2 == 1 { 500 } else { 200 })
    });
    let world = World::start(&config(&["acme"], &local("acme", &receiver, "")));
    let first = world.turn("acme", "stream 1");
    let next =
        || world.spawn("acme", json!({ "session_id": first.session, "message": "stream 1", "on_busy": "enqueue" }));
    let turns = [first.clone(), next(), next()];
    let deliveries = receiver.wait(6);
    let seen: Vec<_> = deliveries.iter().map(about).collect();
    let expected: Vec<_> = turns.iter().flat_map(|turn| [turn.clone(), turn.clone()]).collect();
    assert_eq!(seen, expected);
    for pair in deliveries.chunks(2) {
        assert_eq!(pair[0].header("webhook-id"), pair[1].header("webhook-id"), "the same message");
        assert_eq!(pair[0].body, pair[1].body);
    }
    assert_ne!(deliveries[0].header("webhook-id"), deliveries[2].header("webhook-id"));
    eventually("all are counted", || (world.count("delivered_total") == 3).then_some(()));
    assert_eq!((world.count("failed_attempts_total"), world.count("waiting")), (3, 0));
}

/// A receiver that is stuck is its tenant's trouble and nobody else's.
#[test]
fn a_slow_receiver_delays_no_other_tenant() {
    let (slow, quick) = (Receiver::start(), Receiver::start());
    slow.react(|_| Reaction::Hang);
    let hooks = local("acme", &slow, "timeout = '1h'") + &local("bob", &quick, "");
    let mut world = World::start(&config(&["acme", "bob"], &hooks));
    for _ in 0..20 {
        world.turn("acme", "stream 1");
    }
    // As many at once as a hook may have.
    slow.wait(8);
    let turns: Vec<_> = (0..10).map(|_| world.turn("bob", "stream 1")).collect();
    let mut told: Vec<_> = quick.wait(10).iter().map(about).map(|turn| turn.message).collect();
    let mut expected: Vec<_> = turns.into_iter().map(|turn| turn.message).collect();
    told.sort();
    expected.sort();
    assert_eq!(told, expected);
    assert_eq!(slow.deliveries().len(), 8);
    // Nor does it delay the end.
    world.server.terminate();
    let (status, took) = world.server.ended();
    assert!(status.success() && took < std::time::Duration::from_secs(10), "{status} after {took:?}");
}
