//! Many readers of one turn, fast, slow and patient: all see the same.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use super::world::{Frame, World, config, frames, kinds, play};
use crate::suite::harness::{Client, Ended, Gate, Reply, eventually, script};

/// A thousand connections need as many open files, and some systems begin with fewer.
fn allow_open_files(wanted: u64) {
    let limit = getrlimit(Resource::Nofile);
    let raised = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if limit.current.is_some_and(|current| current < raised) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum }).unwrap();
    }
}

fn readers(client: &Client) -> u64 {
    let metrics = client.send("GET", "/metrics", "").body;
    let line = metrics.lines().find_map(|line| line.strip_prefix("everturn_readers "));
    line.unwrap().parse().unwrap()
}

#[test]
fn a_thousand_see_the_same() {
    const READERS: usize = 1000;
    allow_open_files(4096);
    let world = World::with(&config("").replace("connections = 500", "connections = 2000"));
    let gates = [Gate::default(), Gate::default()];
    let pieces = |from: usize| move |reply: Reply, n: usize| reply.text(&format!("word {} ", from + n));
    let reply = (0..100).fold(Reply::new().hold(&gates[0]), pieces(0)).hold(&gates[1]);
    script("readers-many", [(0..100).fold(reply, pieces(100)).stops()]);
    let turn = play(&world.client(), "readers-many");
    // Half of them are there from the beginning, the others come in the middle.
    let path = format!("{}/stream", turn.path());
    let read = || {
        let (client, path) = (world.client(), path.clone());
        std::thread::spawn(move || client.get_at_once(&path, READERS / 2))
    };
    let early = read();
    eventually("the first half reads", || (readers(&world.client()) == READERS as u64 / 2).then_some(()));
    gates[0].open();
    turn.open().until("word 99 ");
    let late = read();
    eventually("all of them read", || (readers(&world.client()) == READERS as u64).then_some(()));
    gates[1].open();
    let seen: Vec<_> = early.join().unwrap().into_iter().chain(late.join().unwrap()).collect();
    assert_eq!(seen.len(), READERS);
    let whole = world.client().send("GET", &path, "").body;
    assert_eq!(frames(&whole).len(), 202, "a start, 200 deltas, an end");
    assert!(seen.iter().all(|body| *body == whole));
    eventually("they have gone", || (readers(&world.client()) == 0).then_some(()));
}

/// Who does not read holds up nobody, and misses nothing.
#[test]
fn slow_beside_fast() {
    const PIECES: usize = 100;
    let world = World::start("");
    let gate = Gate::default();
    // More than connections hold on their way.
    let piece = "x".repeat(100_000);
    let reply = (0..PIECES).fold(Reply::new().text("Begin.").hold(&gate), |reply, _| reply.text(&piece)).stops();
    script("readers-slow", [reply]);
    let turn = play(&world.client(), "readers-slow");
    let (mut slow, mut fast) = (turn.open(), turn.open());
    slow.until("Begin.");
    fast.until("Begin.");
    gate.open();
    let (seen, ended) = fast.rest();
    assert_eq!((seen.len(), ended), (PIECES + 1, Ended::Cleanly));
    // The turn is long over.
    assert_eq!(turn.shown()["status"], "completed");
    let (late, ended) = slow.rest();
    assert_eq!(ended, Ended::Cleanly);
    assert!(late == seen, "{} frames instead of {}", late.len(), seen.len());
}

/// Who has seen that a turn paused, and comes back, waits for the rest on one open stream.
#[test]
fn patient_readers_of_a_waiting_turn() {
    let world = World::start("heartbeat = '50ms'");
    let schema = json!({ "type": "object", "properties": { "word": { "type": "string" } }, "required": ["word"] });
    let form = json!({ "kind": "clarify", "title": "Which?", "schema": schema });
    script("readers-form", [Reply::calls(&[("request_form", form)]), Reply::says(&["Thanks."])]);
    let turn = play(&world.client(), "readers-form");
    let paused = turn.paused();
    assert_eq!(turn.paused(), paused, "who begins anew is told, and sent away");
    let mut streams: Vec<_> = (0..3).map(|_| turn.open_after(&paused.id)).collect();
    for stream in &mut streams {
        // Every frame has an id to resume from: the last event's.
        for _ in 0..2 {
            let heartbeat = Frame::read(&stream.next().unwrap()).unwrap();
            assert_eq!((heartbeat.kind(), &heartbeat.id), ("heartbeat", &paused.id));
        }
    }
    turn.say("blue");
    let mut all = turn.frames_after(&paused.id);
    all.retain(|frame| frame.kind() != "heartbeat");
    let expected = all.as_slice();
    for stream in &mut streams {
        let (rest, ended) = stream.rest();
        let rest: Vec<_> = rest.iter().filter_map(|frame| Frame::read(frame)).collect();
        let rest: Vec<_> = rest.into_iter().filter(|frame| frame.kind() != "heartbeat").collect();
        assert_eq!((rest.as_slice(), ended), (expected, Ended::Cleanly));
    }
    assert_eq!(kinds(expected), ["delta", "complete"]);
    // Who has seen the end and comes back is told not to: nothing will ever come.
    let path = format!("{}/stream?since={}", turn.path(), all.last().unwrap().id);
    assert_eq!(world.client().send("GET", &path, "").status, 204);
}

/// Every point of a turn can be resumed from while it runs: no gap, no repeat.
#[test]
fn resumed_from_everywhere() {
    let world = World::start("");
    let gate = Gate::default();
    let calls = Reply::new().text("a").text("b").call("clock", "{}").finish("tool_calls");
    script("readers-resume", [calls, Reply::new().text("c").hold(&gate).text("d").stops()]);
    let turn = play(&world.client(), "readers-resume");
    let mut stream = turn.open();
    let mut seen = vec![];
    while seen.last().is_none_or(|frame: &Frame| frame.data["content"] != "c") {
        seen.extend(Frame::read(&stream.next().unwrap()));
    }
    let mut resumed: Vec<_> = seen.iter().map(|frame| turn.open_after(&frame.id)).collect();
    gate.open();
    let all = turn.frames();
    for (index, stream) in resumed.iter_mut().enumerate() {
        let (rest, _) = stream.rest();
        let rest: Vec<_> = rest.iter().filter_map(|frame| Frame::read(frame)).collect();
        assert_eq!(rest, all[index + 1..], "after {:?}", all[index]);
    }
}
