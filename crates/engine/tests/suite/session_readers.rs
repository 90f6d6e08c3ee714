//! Readers of a whole session: turn after turn, from any place, as long as the session is there.

use std::time::Duration;

use everturn_core::{Message, SessionId, TenantId};
use everturn_engine::{Cut, OpenError, SessionCursor, SessionReader, Submit};
use everturn_store::Store as _;
use tokio::time::timeout;

use super::{forms::submitted, harness::*};

/// Answers everything; asks for permission when it is told to pay.
fn obliging() -> Setup {
    Setup::with_models([ScriptedModel::thinking("test/one", |request| match request.messages.last() {
        Some(Message::User { content }) if content.text() == "pay" => vec![call("pay", "{}"), stop()],
        _ => vec![say("One "), say("two."), stop()],
    })])
}

async fn open(world: &World, cursor: Option<SessionCursor>) -> SessionReader {
    world.read_session(&world.tenant, &world.session(), &SESSION_WIDE, cursor).await.unwrap()
}

/// What there is now; the reader waits for more then, or has ended.
async fn read_now(reader: &mut SessionReader) -> Vec<Shown> {
    let mut frames = Vec::new();
    while let Ok(Some(bytes)) = timeout(Duration::from_secs(60), reader.next()).await.map(Result::unwrap) {
        frames.extend(shown_frames(&bytes, None));
    }
    frames
}

/// All frames of these turns of the session, or of all.
async fn expected(world: &World, session: &SessionId, from: usize) -> Vec<Shown> {
    let turns = world.store.turns(&world.tenant, session).await.unwrap();
    let mut frames = Vec::new();
    for turn in &turns[from..] {
        frames.extend(shown_in_log(&world.store, &world.engine, &world.tenant, session, &turn.id).await);
    }
    frames
}

fn cursor(frame: &Shown) -> Option<SessionCursor> {
    Some(SessionCursor { turn: frame.turn.clone(), cursor: frame.cursor })
}

async fn ended(reader: &mut SessionReader) -> bool {
    matches!(timeout(Duration::from_secs(60), reader.next()).await, Ok(Ok(None)))
}

#[tokio::test(start_paused = true)]
async fn a_reader_follows_turn_after_turn() {
    let world = World::start(obliging()).await;
    world.act(Act::User("one")).await;
    let mut reader = open(&world, None).await;
    assert_eq!(read_now(&mut reader).await, [], "what is over is not shown");
    let mut frames = Vec::new();
    for text in ["two", "pay"] {
        world.act(Act::User(text)).await;
        frames.extend(read_now(&mut reader).await);
    }
    frames.extend(read_now(&mut reader).await);
    submitted(&world, world.answers(vec![grant("c1")])).await;
    world.act(Act::User("four")).await;
    frames.extend(read_now(&mut reader).await);
    assert_eq!(frames, expected(&world, &world.session(), 1).await);
}

#[tokio::test(start_paused = true)]
async fn a_reader_begins_with_the_turn_under_way() {
    let gate = Gate::closed();
    let scripts = [vec![say("Hello."), stop()], vec![say("I"), Beat::Gate(gate.clone()), stop()]];
    let world = World::start(Setup::new(scripts)).await;
    world.act(Act::User("one")).await;
    let started = world.begin("two").await;
    gate.waiting(1).await;
    let mut reader = open(&world, None).await;
    let mut frames = read_now(&mut reader).await;
    assert!(!frames.is_empty() && frames.iter().all(|frame| frame.turn == started.turn), "{frames:?}");
    gate.open();
    world.end_of(&started.turn).await;
    frames.extend(read_now(&mut reader).await);
    assert_eq!(frames, expected(&world, &world.session(), 1).await);
    // One that waits is under way as well.
    let world = World::start(obliging()).await;
    world.act(Act::User("pay")).await;
    let frames = read_now(&mut open(&world, None).await).await;
    assert_eq!(frames, expected(&world, &world.session(), 0).await);
}

/// A cursor of any age: from the last turn, from the first, from within an event.
#[tokio::test(start_paused = true)]
async fn a_reader_goes_on_from_every_cursor() {
    let world = World::start(obliging()).await;
    for text in ["one", "pay", "three"] {
        world.act(Act::User(text)).await;
    }
    // More turns than are looked at at a time.
    let turns = 40;
    for _ in 3..turns {
        world.act(Act::User("more")).await;
    }
    let all = expected(&world, &world.session(), 0).await;
    for (at, frame) in all.iter().enumerate() {
        if at % 7 == 0 || at > all.len() - 20 {
            let frames = read_now(&mut open(&world, cursor(frame)).await).await;
            assert_eq!(frames, all[at + 1..], "after {:?} of {}", frame.cursor, frame.turn);
        }
    }
    let text = format!("{}:17.2", all[0].turn);
    assert_eq!(text.parse::<SessionCursor>().unwrap().to_string(), text);
    for text in ["", "17", "a/b:1", ":1", "turn_1:", "turn_1:01"] {
        assert!(text.parse::<SessionCursor>().is_err(), "{text:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_goes_on_after_a_restart() {
    let world = World::start(obliging()).await;
    world.act(Act::User("one")).await;
    let mut reader = open(&world, None).await;
    world.act(Act::User("two")).await;
    let frames = read_now(&mut reader).await;
    let place = cursor(frames.last().unwrap());
    let world = world.restart().await;
    assert!(ended(&mut reader).await, "a server that ends ends its streams");
    world.act(Act::User("three")).await;
    let more = read_now(&mut open(&world, place).await).await;
    assert_eq!(more, expected(&world, &world.session(), 2).await);
}

/// No turn begins unseen, however soon after the reader was opened.
#[tokio::test(start_paused = true)]
async fn a_turn_that_begins_at_once_is_seen() {
    for round in 0..20_u64 {
        let world = World::start(obliging()).await;
        world.act(Act::User("one")).await;
        let mut reader = open(&world, None).await;
        let (frames, ()) = tokio::join!(
            async {
                tokio::time::sleep(Duration::from_micros(round * 100)).await;
                in_time("for the first frame", reader.next()).await.unwrap().unwrap()
            },
            async { drop(world.begin("two").await) }
        );
        let frames = shown_frames(&frames, None);
        assert!(frames[0].data.starts_with("\"1.1 "), "{frames:?}");
    }
}

/// It is told at once, not when it happens to look.
#[tokio::test(start_paused = true)]
async fn a_reader_is_told_of_the_next_turn() {
    let world = World::start(obliging()).await;
    world.act(Act::User("one")).await;
    let mut reader = open(&world, None).await;
    assert!(timeout(Duration::from_millis(7300), reader.next()).await.is_err());
    let begun = tokio::time::Instant::now();
    let (frames, _) = tokio::join!(reader.next(), world.begin("two"));
    assert!(frames.unwrap().is_some());
    assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_reader_ends_when_its_session_is_deleted() {
    let world = World::start(obliging()).await;
    world.act(Act::User("one")).await;
    let (mut idle, place) = (open(&world, None).await, expected(&world, &world.session(), 0).await);
    let mut other = open(&world, cursor(&place[0])).await;
    world.delete(&world.tenant, &world.session(), None).await.unwrap();
    assert!(ended(&mut idle).await);
    // What it had not read is gone with the session.
    read_now(&mut other).await;
    assert!(ended(&mut other).await);
    let opened = world.read_session(&world.tenant, &world.session(), &SESSION_WIDE, None).await;
    assert!(matches!(opened, Err(OpenError::NotFound)));
    // While a turn runs, or waits.
    let world = World::start(obliging()).await;
    world.act(Act::User("pay")).await;
    let mut reader = open(&world, None).await;
    read_now(&mut reader).await;
    world.delete(&world.tenant, &world.session(), None).await.unwrap();
    let last = read_now(&mut reader).await;
    assert_eq!(last.len(), 2, "the end of the turn: {last:?}");
    assert!(ended(&mut reader).await);
}

#[tokio::test(start_paused = true)]
async fn sessions_of_others_cannot_be_read() {
    let world = World::start(obliging()).await;
    world.act(Act::User("one")).await;
    let opened = world.read_session(&TenantId::mint(), &world.session(), &SESSION_WIDE, None).await;
    assert!(matches!(opened, Err(OpenError::NotFound)));
}

/// The turn that a cursor names was cut off: the reader goes on with what comes next.
#[tokio::test(start_paused = true)]
async fn a_cursor_of_a_turn_that_was_cut_off() {
    let world = World::start(obliging()).await;
    for text in ["one", "two", "three"] {
        world.act(Act::User(text)).await;
    }
    let all = expected(&world, &world.session(), 0).await;
    let first = all[0].turn.clone();
    world.truncate(Cut::Through(first)).await.unwrap();
    let mut reader = open(&world, cursor(all.last().unwrap())).await;
    assert_eq!(read_now(&mut reader).await, []);
    world.act(Act::User("four")).await;
    assert_eq!(read_now(&mut reader).await, expected(&world, &world.session(), 1).await);
}

/// A reader that stands in, or after, turns that are cut off sees those that take their place.
#[tokio::test(start_paused = true)]
async fn a_reader_sees_what_takes_the_place_of_turns_that_were_cut_off() {
    for within in [false, true] {
        let world = World::start(obliging()).await;
        world.act(Act::User("one")).await;
        let mut reader = open(&world, None).await;
        for text in ["two", "three"] {
            world.act(Act::User(text)).await;
            read_now(&mut reader).await;
        }
        let said = world.conversation(&world.tenant, &world.session()).await.unwrap();
        let cut = if within { Cut::Before(said[3].id.clone()) } else { Cut::Through(said[0].id.turn.clone()) };
        world.truncate(cut).await.unwrap();
        assert_eq!(read_now(&mut reader).await, [], "nothing new was said");
        for text in ["four", "five"] {
            world.act(Act::User(text)).await;
        }
        let new = expected(&world, &world.session(), if within { 2 } else { 1 }).await;
        assert_eq!(read_now(&mut reader).await, new);
    }
}

/// The same, with a reader that was not told in time: it looks only after all has happened.
#[tokio::test(start_paused = true)]
async fn a_reader_that_looks_late_sees_what_took_the_place_of_turns_that_were_cut_off() {
    let world = World::start(obliging()).await;
    world.act(Act::User("one")).await;
    let mut reader = open(&world, None).await;
    for text in ["two", "three"] {
        world.act(Act::User(text)).await;
    }
    read_now(&mut reader).await;
    let said = world.conversation(&world.tenant, &world.session()).await.unwrap();
    world.truncate(Cut::Through(said[0].id.turn.clone())).await.unwrap();
    for text in ["four", "five", "six"] {
        world.act(Act::User(text)).await;
    }
    assert_eq!(read_now(&mut reader).await, expected(&world, &world.session(), 1).await);
}

#[tokio::test(start_paused = true)]
async fn turns_under_way_are_known_by_their_clients_names() {
    let world = World::start(obliging()).await;
    let submit = Submit { request: Some("run-1".to_owned()), ..world.message("pay") };
    let started = world.submit(submit).await.unwrap();
    world.transcript(&started).await;
    let (tenant, session) = (world.tenant.clone(), world.session());
    assert_eq!(world.active_requests(&tenant, &session).await.unwrap(), ["run-1"]);
    assert_eq!(world.turn_of_request(&tenant, &session, "run-1").await.unwrap(), Some(started.turn.clone()));
    assert_eq!(world.turn_of_request(&tenant, &session, "run-2").await.unwrap(), None);
    assert_eq!(world.active_requests(&TenantId::mint(), &session).await.unwrap(), [] as [&str; 0]);
    let world = world.restart().await;
    assert_eq!(world.active_requests(&tenant, &session).await.unwrap(), ["run-1"]);
    submitted(&world, world.answers(vec![grant("c1")])).await;
    assert_eq!(world.active_requests(&tenant, &session).await.unwrap(), [] as [&str; 0]);
    assert_eq!(world.turn_of_request(&tenant, &session, "run-1").await.unwrap(), None);
    // One that has no name is known by its own.
    let started = world.begin("pay").await;
    world.transcript(&started).await;
    let own = started.turn.to_string();
    assert_eq!(world.active_requests(&tenant, &session).await.unwrap(), std::slice::from_ref(&own));
    assert_eq!(world.turn_of_request(&tenant, &session, &own).await.unwrap(), Some(started.turn));
}

/// Also where more was cut off than is looked at at a time.
#[tokio::test(start_paused = true)]
async fn a_reader_sees_what_comes_after_a_long_history_that_was_cut_off() {
    let world = World::start(obliging()).await;
    world.act(Act::User("one")).await;
    let mut reader = open(&world, None).await;
    for _ in 0..40 {
        world.act(Act::User("more")).await;
        read_now(&mut reader).await;
    }
    let said = world.conversation(&world.tenant, &world.session()).await.unwrap();
    world.truncate(Cut::Through(said[2].id.turn.clone())).await.unwrap();
    for _ in 0..20 {
        world.act(Act::User("again")).await;
    }
    assert_eq!(read_now(&mut reader).await, expected(&world, &world.session(), 2).await);
    let said = world.conversation(&world.tenant, &world.session()).await.unwrap();
    world.truncate(Cut::Before(said[0].id.clone())).await.unwrap();
    assert_eq!(read_now(&mut reader).await, []);
    world.act(Act::User("anew")).await;
    assert_eq!(read_now(&mut reader).await, expected(&world, &world.session(), 0).await);
}

/// The first turn runs until the gate is open; the others take no time.
fn gated(gate: &Gate) -> Setup {
    let (held, mut calls) = (gate.clone(), 0);
    Setup::with_models([ScriptedModel::thinking("test/one", move |_| {
        calls += 1;
        if calls == 2 { vec![Beat::Gate(held.clone()), stop()] } else { vec![say("Hello."), stop()] }
    })])
}

/// More are queued than are looked at at a time: the reader begins with the turn under way all the same.
#[tokio::test(start_paused = true)]
async fn a_long_queue_does_not_hide_the_turn_under_way() {
    let gate = Gate::closed();
    let world = World::start(gated(&gate)).await;
    world.act(Act::User("one")).await;
    world.begin("two").await;
    for _ in 0..30 {
        world.enqueue("later").await;
    }
    let mut reader = open(&world, None).await;
    gate.open();
    world.idle().await;
    assert_eq!(read_now(&mut reader).await, expected(&world, &world.session(), 1).await);
}

/// A turn that was ended in the queue is over before those that were queued before it have begun: they come first.
#[tokio::test(start_paused = true)]
async fn turns_are_shown_in_their_order() {
    for opened_late in [false, true] {
        let gate = Gate::closed();
        let mut world = World::start(gated(&gate)).await;
        // A store that takes its time, so that readers look in between.
        world.engine = world.setup.start(CrashStore::new(world.store.clone(), None)).await.unwrap();
        world.act(Act::User("one")).await;
        let mut early = open(&world, None).await;
        world.begin("two").await;
        world.enqueue("three").await;
        let four = world.enqueue("four").await;
        world.stop_turn(&four.turn).await.unwrap();
        gate.waiting(1).await;
        let mut reader = if opened_late { open(&world, None).await } else { early };
        let (frames, ()) = tokio::join!(read_now(&mut reader), async { gate.open() });
        world.idle().await;
        assert_eq!(frames, expected(&world, &world.session(), 1).await);
        // To those who come now it is no news.
        early = open(&world, None).await;
        assert_eq!(read_now(&mut early).await, []);
    }
}
