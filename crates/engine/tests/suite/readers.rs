//! Readers: any number, from any point, at any pace, during a turn and after it.

use std::{sync::Arc, time::Duration};

use everturn_core::{EffectClass, TenantId};
use everturn_engine::{Cursor, OpenError, Started};
use tokio::time::{Instant, timeout};

use super::harness::*;

/// A turn with everything in it, in two legs.
fn eventful() -> Setup {
    let mut long: Script = (0..40).map(|number| say(&format!("word {number} "))).collect();
    long.extend([call("look", "{}"), call("weather", "{}"), call("nosuch", "{}"), stop()]);
    let cut = vec![think("Hm"), say("Oh"), fail(everturn_models::ModelErrorKind::Unavailable)];
    Setup::new([cut, long, vec![say("All"), say(" done"), stop()]])
}

/// What a reader from this point is shown before its stream ends.
fn expected(all: &[Frame], from: usize) -> &[Frame] {
    let rest = &all[from..];
    let close = rest.iter().position(Frame::closes);
    close.map_or(rest, |close| &rest[..=close])
}

async fn read_from(world: &World, started: &Started, cursor: Cursor) -> Vec<Frame> {
    let reader = world.read_turn(&world.tenant, &started.session, &started.turn, &FRAMES, cursor).await;
    match reader.unwrap() {
        Some(mut reader) => read_all(&mut reader).await,
        None => Vec::new(),
    }
}

/// Reads a turn that is over from after every single frame, and from after every event.
async fn read_from_everywhere(ring_bytes: usize) {
    let world = World::start(eventful().settings(|settings| settings.ring_bytes = ring_bytes)).await;
    let started = world.begin("go").await;
    world.transcript(&started).await;
    let leg = world.submit(world.answers(vec![result("c2", "sun")])).await.unwrap();
    world.transcript(&leg).await;

    let all = all_frames(&world.store, &started.session, &started.turn).await;
    assert!(all.iter().any(|frame| frame.cursor.part == 3), "no event gave three frames");
    assert_eq!(read_from(&world, &started, Cursor::default()).await, expected(&all, 0));
    for (index, frame) in all.iter().enumerate() {
        let seen = read_from(&world, &started, frame.cursor).await;
        assert_eq!(seen, expected(&all, index + 1), "after {:?}", frame.cursor);
        let after_event = all.iter().position(|other| other.cursor.seq > frame.cursor.seq).unwrap_or(all.len());
        let seen = read_from(&world, &started, Cursor::after(frame.cursor.seq)).await;
        assert_eq!(seen, expected(&all, after_event), "after all of {:?}", frame.cursor);
    }
    // The readers that a leg's own request has, later as well: from the tail, or from the store.
    assert_eq!(read_all(&mut world.read_leg(&leg, &FRAMES)).await, expected(&all, first_of_leg(&all, &leg)));
    assert_eq!(read_all(&mut world.read_leg(&started, &FRAMES)).await, expected(&all, 0));
}

fn first_of_leg(all: &[Frame], leg: &Started) -> usize {
    all.iter().position(|frame| frame.cursor.seq >= leg.leg_start).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_turn_can_be_read_from_every_point() {
    read_from_everywhere(256 * 1024).await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_can_be_read_from_every_point_when_the_tail_holds_next_to_nothing() {
    read_from_everywhere(1).await;
}

/// Readers from many points follow a turn while it runs, each at its own pace.
async fn follow_live(ring_bytes: usize) {
    let words = 60;
    let gates: Vec<_> = (0..words).map(|_| Gate::closed()).collect();
    let script = gates.iter().enumerate().flat_map(|(n, gate)| [Beat::Gate(gate.clone()), say(&format!("word {n} "))]);
    let setup = Setup::new([script.chain([stop()]).collect::<Script>()]);
    let world = Arc::new(World::start(setup.settings(|settings| settings.ring_bytes = ring_bytes)).await);
    let started = world.begin("go").await;
    let mut readers = tokio::task::JoinSet::new();
    for (opened, gate) in gates.iter().enumerate() {
        gate.waiting(1).await;
        until(async || world.log().await.len() == opened + 2).await;
        // One joins from the beginning and one from the present end, each time.
        for cursor in [Cursor::default(), Cursor::after(opened as u64 + 2)] {
            let (world, started) = (Arc::clone(&world), started.clone());
            let pause = Duration::from_millis((opened as u64 % 7) * 30);
            readers.spawn(async move {
                let reader = world.read_turn(&world.tenant, &started.session, &started.turn, &FRAMES, cursor).await;
                let (mut reader, mut frames) = (reader.unwrap().expect("the turn runs"), Vec::new());
                while let Some(more) = read_some(&mut reader).await {
                    frames.extend(more);
                    tokio::time::sleep(pause).await;
                }
                (cursor, frames)
            });
        }
        gate.open();
    }
    let mut seen = Vec::new();
    while let Some(reader) = readers.join_next().await {
        seen.push(reader.unwrap());
    }
    let all = all_frames(&world.store, &started.session, &started.turn).await;
    assert_eq!(seen.len(), 2 * words);
    for (cursor, frames) in seen {
        let first = all.iter().position(|frame| frame.cursor.seq > cursor.seq).unwrap();
        assert_eq!(frames, all[first..], "from {cursor:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn live_readers_from_many_points_see_the_same() {
    follow_live(256 * 1024).await;
}

#[tokio::test(start_paused = true)]
async fn live_readers_that_fall_behind_the_tail_see_the_same() {
    follow_live(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_slows_nobody() {
    let setup = Setup::new([(0..200).map(|n| say(&format!("{n} "))).chain([stop()]).collect::<Script>()]);
    let world = World::start(setup.settings(|settings| settings.ring_bytes = 100)).await;
    let started = world.begin("go").await;
    let mut slow = world.read_leg(&started, &FRAMES);
    let mut frames = read_some(&mut slow).await.unwrap();
    let begun = Instant::now();
    let fast = read_all(&mut world.read_leg(&started, &FRAMES)).await;
    assert!(fast.last().unwrap().ends_turn());
    assert!(begun.elapsed() < Duration::from_secs(1), "the turn waited for its slow reader");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    frames.extend(read_all(&mut slow).await);
    assert_eq!(frames, fast);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_back_waits_for_the_next_leg() {
    let world = World::start(eventful()).await;
    let started = world.begin("go").await;
    world.transcript(&started).await;
    let seen = read_from(&world, &started, Cursor::default()).await;
    let last = seen.last().unwrap().cursor;
    let reader = world.read_turn(&world.tenant, &started.session, &started.turn, &FRAMES, last).await;
    let mut reader = reader.unwrap().expect("the turn is not over");
    let waits = timeout(Duration::from_secs(3600), reader.next()).await;
    assert!(waits.is_err(), "nothing more comes while the turn waits");
    let leg = world.submit(world.answers(vec![result("c2", "sun")])).await.unwrap();
    let more = read_all(&mut reader).await;
    assert!(more.last().unwrap().ends_turn());
    assert_eq!(more, read_all(&mut world.read_leg(&leg, &FRAMES)).await);
    assert_eq!(more, read_from(&world, &started, last).await);
}

#[tokio::test(start_paused = true)]
async fn turns_that_are_not_there_and_cursors_that_nobody_was_given() {
    let world = World::start(eventful()).await;
    let started = world.begin("go").await;
    world.transcript(&started).await;
    let open = async |tenant: &TenantId, cursor| {
        let opened = world.read_turn(tenant, &started.session, &started.turn, &FRAMES, cursor).await;
        opened.map(|_| ()).map_err(|error| match error {
            OpenError::NotFound => "not found".to_owned(),
            OpenError::Cursor { head } => format!("the head is {head}"),
            OpenError::Part { cursor } => format!("no part {}", cursor.part),
            OpenError::Read(error) => error.to_string(),
            OpenError::Store(error) => error.to_string(),
        })
    };
    let head = world.log().await.len() as u64;
    assert_eq!(open(&TenantId::mint(), Cursor::default()).await, Err("not found".to_owned()));
    assert_eq!(open(&world.tenant, Cursor::after(head)).await, Ok(()));
    assert_eq!(open(&world.tenant, Cursor::after(head + 1)).await, Err(format!("the head is {head}")));
    assert_eq!(open(&world.tenant, Cursor { seq: 0, part: 1 }).await, Err(format!("the head is {head}")));
    // More parts than the event has.
    assert_eq!(open(&world.tenant, Cursor { seq: head, part: 2 }).await, Ok(()));
    assert_eq!(open(&world.tenant, Cursor { seq: head, part: 3 }).await, Err("no part 3".to_owned()));
    for text in ["", ".", "1.", ".1", "-1", "1.2.3", "x", "99999999999999999999", "1 ", "03", "1.0", "0.3", "1.02"] {
        assert!(text.parse::<Cursor>().is_err(), "{text:?}");
    }
    assert_eq!("17.2".parse(), Ok(Cursor { seq: 17, part: 2 }));
}

#[tokio::test(start_paused = true)]
async fn a_reader_survives_being_dropped_between_waits() {
    let gate = Gate::closed();
    let world = World::start(Setup::new([vec![say("one"), Beat::Gate(gate.clone()), say("two"), stop()]])).await;
    let started = world.begin("go").await;
    let mut reader = world.read_leg(&started, &FRAMES);
    let mut frames = Vec::new();
    // Waiting is given up again and again, as a server does that sends signs of life.
    while let Ok(more) = timeout(Duration::from_secs(5), read_some(&mut reader)).await {
        frames.extend(more.unwrap());
    }
    assert!(timeout(Duration::from_secs(5), reader.next()).await.is_err());
    gate.open();
    frames.extend(read_all(&mut reader).await);
    assert_eq!(frames, all_frames(&world.store, &started.session, &started.turn).await);
}

#[tokio::test(start_paused = true)]
async fn nobody_has_to_read_at_all() {
    let setup = Setup::new([vec![call("book", "{}"), stop()], vec![say("Booked"), stop()]]);
    let world = World::start(setup.trusted("send", EffectClass::Effectful, Behaviour::Echo)).await;
    drop(world.begin("book").await);
    until(async || matches!(world.state().await.phase, everturn_core::Phase::Ended(_))).await;
    assert!(world.rested().await.ends_with("completed\n"));
}
