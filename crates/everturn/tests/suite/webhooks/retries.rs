use std::time::Duration;

use serde_json::json;

use super::{Reaction, Receiver, World, about, config, hook, local};
use crate::suite::harness::eventually;

#[test]
fn a_receiver_that_is_down_and_comes_up() {
    let receiver = Receiver::start();
    let (address, url) = (receiver.address, receiver.url());
    drop(receiver);
    let world = World::start(&config(&["acme"], &hook("acme", &url, "allow_private = true")));
    let turn = world.turn("acme", "stream 1");
    eventually("an attempt fails", || (world.count("failed_attempts_total") >= 1).then_some(()));
    let line = world.logged("a webhook was not delivered; trying again later");
    assert!(line.contains("WARN") && line.contains(&address.to_string()) && !line.contains("/hook"), "{line}");
    assert_eq!(world.count("waiting"), 1);
    let receiver = Receiver::at(address);
    assert_eq!(about(&receiver.wait(1)[0]), turn);
    world.logged("the receiver of webhooks takes them again");
}

/// It was sent, and nobody knows whether it was taken.
#[test]
fn a_crash_in_the_middle_of_a_delivery() {
    let receiver = Receiver::start();
    receiver.react(|_| Reaction::Hang);
    let mut world = World::start(&config(&["acme"], &local("acme", &receiver, "")));
    let turn = world.turn("acme", "stream 1");
    receiver.wait(1);
    world.server.kill();
    receiver.react(|_| Reaction::status(200));
    world.crash();
    let deliveries = receiver.wait(2);
    assert_eq!(deliveries[0].header("webhook-id"), deliveries[1].header("webhook-id"));
    assert_eq!(about(&deliveries[1]), turn);
    eventually("it is counted", || (world.count("delivered_total") == 1).then_some(()));
    // What was taken is not sent again.
    world.crash();
    let next = world.turn("acme", "stream 1");
    let deliveries = receiver.wait(3);
    assert_eq!(deliveries.len(), 3);
    assert_eq!(about(&deliveries[2]), next);
}

/// How often it was tried, and when it is to be tried again, is known after a restart.
#[test]
fn a_wait_outlives_a_crash() {
    let receiver = Receiver::start();
    receiver.react(|_| Reaction::Answer(503, vec![("retry-after", "4".to_owned())]));
    let mut world = World::start(&config(&["acme"], &local("acme", &receiver, "")));
    world.turn("acme", "stream 1");
    world.logged("a webhook was not delivered");
    eventually("the attempt is kept", || (world.count("failed_attempts_total") == 1).then_some(()));
    // The next turn of another session is kept after it, in the same database.
    let other = world.turn("acme", "stream 1");
    receiver.wait(2);
    eventually("the attempts are kept", || (world.count("failed_attempts_total") == 2).then_some(()));
    receiver.react(|_| Reaction::status(200));
    world.crash();
    let deliveries = receiver.wait(4);
    let last = deliveries.iter().rfind(|delivery| about(delivery) == other).unwrap();
    let before = deliveries.iter().find(|delivery| about(delivery) == other).unwrap();
    assert!(last.at - before.at >= Duration::from_millis(3900), "{:?}", last.at - before.at);
    assert_ne!(last.header("webhook-timestamp"), before.header("webhook-timestamp"), "signed when it is sent");
}

#[test]
fn a_receiver_may_ask_for_a_pause() {
    let receiver = Receiver::start();
    let mut first = true;
    receiver.react(move |_| match std::mem::replace(&mut first, false) {
        true => Reaction::Answer(429, vec![("retry-after", "3".to_owned())]),
        false => Reaction::status(200),
    });
    let world = World::start(&config(&["acme"], &local("acme", &receiver, "")));
    world.turn("acme", "stream 1");
    let deliveries = receiver.wait(2);
    let pause = deliveries[1].at - deliveries[0].at;
    assert!(pause >= Duration::from_millis(2900), "{pause:?}");
}

/// It wants no more of this one; the next one is another matter.
#[test]
fn who_says_gone_is_not_asked_again() {
    let receiver = Receiver::start();
    let mut first = true;
    receiver.react(move |_| Reaction::status(if std::mem::replace(&mut first, false) { 410 } else { 200 }));
    let world = World::start(&config(&["acme"], &local("acme", &receiver, "")));
    let turn = world.turn("acme", "stream 1");
    let line = world.logged("a webhook was given up");
    assert!(line.contains("WARN") && line.contains("410") && line.contains(&turn.message), "{line}");
    let next = world.spawn("acme", json!({ "session_id": turn.session, "message": "stream 1" }));
    let turns: Vec<_> = receiver.wait(2).iter().map(about).collect();
    assert_eq!(turns, [turn, next]);
    eventually("it is counted", || (world.count("delivered_total") == 1).then_some(()));
    assert_eq!((world.count("given_up_total"), world.count("waiting")), (1, 0));
}

#[test]
fn too_old_a_message_is_given_up_and_told_once() {
    let receiver = Receiver::start();
    receiver.react(|_| Reaction::status(500));
    let mut world = World::start(&config(&["acme"], &local("acme", &receiver, "retry_for = '1s'")));
    let first = world.turn("acme", "stream 1");
    let second =
        world.spawn("acme", json!({ "session_id": first.session, "message": "stream 1", "on_busy": "enqueue" }));
    eventually("both are given up", || (world.count("given_up_total") == 2).then_some(()));
    // Of each there is one line, from which it can be learnt what nobody was told of.
    for turn in [&first, &second] {
        let is_of = |line: &&str| line.contains("was given up") && line.contains(&turn.message);
        let log =
            eventually("it is told", || Some(world.home.log()).filter(|log| log.lines().any(|line| is_of(&line))));
        let lines: Vec<_> = log.lines().filter(is_of).collect();
        assert!(lines.len() == 1 && lines[0].contains("WARN") && lines[0].contains(&turn.session), "{log}");
    }
    assert_eq!(about(receiver.deliveries().last().unwrap()), second);
    // It stays so.
    let before = receiver.deliveries().len();
    receiver.react(|_| Reaction::status(200));
    world.crash();
    let next = world.turn("acme", "stream 1");
    let deliveries = receiver.wait(before + 1);
    assert_eq!((deliveries.len(), about(deliveries.last().unwrap())), (before + 1, next));
}

#[test]
fn what_waits_for_a_hook_that_is_gone_is_dropped() {
    let receiver = Receiver::start();
    receiver.react(|_| Reaction::status(500));
    let with = config(&["acme"], &local("acme", &receiver, ""));
    let mut world = World::start(&with);
    world.turn("acme", "stream 1");
    receiver.wait(1);
    world.home.configure(&config(&["acme"], ""));
    world.crash();
    world.logged("notices that nobody is to be told of are removed");
    let before = receiver.deliveries().len();
    receiver.react(|_| Reaction::status(200));
    world.home.configure(&with);
    world.crash();
    let next = world.turn("acme", "stream 1");
    let deliveries = receiver.wait(before + 1);
    assert_eq!((deliveries.len(), about(deliveries.last().unwrap())), (before + 1, next));
}

#[test]
fn what_a_deleted_session_has_is_not_sent() {
    let receiver = Receiver::start();
    receiver.react(|_| Reaction::status(500));
    let world = World::start(&config(&["acme"], &local("acme", &receiver, "")));
    let turn = world.turn("acme", "stream 1");
    receiver.wait(1);
    let deleted = world.client("acme").send("DELETE", &format!("/api/v1/sessions/{}", turn.session), "");
    assert!(deleted.status < 300, "{deleted:?}");
    receiver.react(|_| Reaction::status(200));
    eventually("it is forgotten", || (world.count("waiting") == 0).then_some(()));
    assert_eq!(world.count("delivered_total"), 0);
}
