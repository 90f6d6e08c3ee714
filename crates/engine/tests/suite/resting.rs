//! Readers of turns that rest, or have not begun: they wait, and see what comes.

use std::{sync::Arc, time::Duration};

use everturn_core::submission::OnBusy;
use everturn_engine::{Cursor, Projection, Started, Submit, TurnReader};
use everturn_store::Fault;
use tokio::{task::JoinHandle, time::timeout};

use super::harness::*;

const PAST: &str = r#"{"until": "2020-01-01T00:00:00Z"}"#;

fn asks() -> Setup {
    Setup::new([vec![say("Hm."), call("pay", "{}"), stop()], vec![say("Done."), stop()], vec![say("Next."), stop()]])
}

async fn open(world: &World, turn: &Started, projection: &'static dyn Projection, cursor: Cursor) -> TurnReader {
    let reader = world.read_turn(&world.tenant, &turn.session, &turn.turn, projection, cursor).await;
    reader.unwrap().expect("the turn is not over")
}

/// Reads to the end of the stream, beside the test.
fn reading(mut reader: TurnReader) -> JoinHandle<Vec<Frame>> {
    tokio::spawn(async move { read_all(&mut reader).await })
}

/// A turn that waits, with a reader that has seen all of it and one that begins.
async fn waiting(setup: Setup) -> (World, Started, [JoinHandle<Vec<Frame>>; 2]) {
    let world = World::start(setup).await;
    let started = world.begin("go").await;
    world.transcript(&started).await;
    let head = Cursor::after(world.log().await.len() as u64);
    let late = reading(open(&world, &started, &PATIENT, head).await);
    let early = reading(open(&world, &started, &PATIENT, Cursor::default()).await);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!late.is_finished() && !early.is_finished(), "a stream ended while its turn waits");
    (world, started, [late, early])
}

/// Both readers saw all that came, to the end.
async fn saw_the_end(world: &World, started: &Started, readers: [JoinHandle<Vec<Frame>>; 2]) -> Vec<Frame> {
    let all = all_frames(&world.store, &started.session, &started.turn).await;
    let [late, early] = readers;
    let late = in_time("for a reader", late).await.unwrap();
    assert!(!late.is_empty() && all.ends_with(&late), "{late:?}");
    assert_eq!(in_time("for a reader", early).await.unwrap(), all);
    assert!(all.last().unwrap().ends_turn());
    late
}

#[tokio::test(start_paused = true)]
async fn a_form_is_answered() {
    let (world, started, readers) = waiting(asks()).await;
    world.submit(world.form_reply(None, "yes")).await.unwrap();
    world.idle().await;
    let late = saw_the_end(&world, &started, readers).await;
    assert!(late[0].data.contains("Resumed"), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_form_is_answered_after_a_restart() {
    let world = World::start(asks()).await;
    let started = world.begin("go").await;
    world.transcript(&started).await;
    let stream = reading(open(&world, &started, &PATIENT, Cursor::default()).await);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let world = world.restart_in(started.session.clone()).await;
    let seen = in_time("for the server to end", stream).await.unwrap();
    assert!(seen.last().unwrap().closes() && !seen.last().unwrap().ends_turn(), "its streams end with the server");
    let rest = reading(open(&world, &started, &PATIENT, seen.last().unwrap().cursor).await);
    world.submit(world.form_reply(None, "yes")).await.unwrap();
    world.idle().await;
    let all = all_frames(&world.store, &started.session, &started.turn).await;
    assert_eq!([seen, rest.await.unwrap()].concat(), all);
}

#[tokio::test(start_paused = true)]
async fn answers_come_one_after_the_other() {
    let script = vec![call("pay", "{}"), call("pay", "{}"), call("weather", "{}"), stop()];
    let (world, started, readers) = waiting(Setup::new([script, vec![say("Done."), stop()]])).await;
    for _ in 0..2 {
        let leg = world.submit(world.form_reply(None, "yes")).await.unwrap();
        world.transcript(&leg).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(readers.iter().all(|reader| !reader.is_finished()));
    }
    world.submit(world.answers(vec![result("c3", "sun")])).await.unwrap();
    world.idle().await;
    saw_the_end(&world, &started, readers).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_stays_open_over_a_timer() {
    let scripts = [
        vec![call("wait", PAST), stop()],
        vec![say("Time is up."), call("pay", "{}"), stop()],
        vec![say("Done."), stop()],
    ];
    let world = World::start(Setup::new(scripts).builtin("wait")).await;
    let started = world.begin("go").await;
    // The stream of the request itself: not ended by a wait that ends by itself, but by one that somebody must end.
    let seen = read_all(&mut world.read_leg(&started, &ASKING)).await;
    assert_eq!(seen.iter().filter(|frame| frame.closes()).count(), 2, "{seen:?}");
    assert!(seen.last().unwrap().data.contains("Permission"));
    assert_eq!(seen, all_frames(&world.store, &started.session, &started.turn).await);
    // One that ends with every rest ends with the first.
    let seen = read_all(&mut world.read_leg(&started, &FRAMES)).await;
    assert_eq!(seen.iter().filter(|frame| frame.closes()).count(), 1, "{seen:?}");
    world.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_pauses_is_shown_what_came_since() {
    let world = World::start(asks()).await;
    let started = world.begin("go").await;
    world.transcript(&started).await;
    let seen = read_all(&mut open(&world, &started, &PAUSING, Cursor::default()).await).await;
    assert!(seen.last().unwrap().closes(), "it ends where the turn rests");
    world.submit(world.form_reply(None, "yes")).await.unwrap();
    world.idle().await;
    let seen = read_all(&mut open(&world, &started, &PAUSING, Cursor::default()).await).await;
    assert_eq!(seen, all_frames(&world.store, &started.session, &started.turn).await, "it goes on to the end");
}

#[tokio::test(start_paused = true)]
async fn a_queued_turn_begins() {
    let gate = Gate::closed();
    let scripts = [vec![Beat::Gate(gate.clone()), stop()], vec![say("Two."), stop()], vec![say("Three."), stop()]];
    let world = World::start(Setup::new(scripts)).await;
    world.begin("one").await;
    gate.waiting(1).await;
    let queued = [world.enqueue("two").await, world.enqueue("three").await];
    let mut readers = Vec::new();
    for started in &queued {
        readers.push((started, reading(open(&world, started, &PATIENT, Cursor::default()).await)));
        readers.push((started, reading(open(&world, started, &FRAMES, Cursor::default()).await)));
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(readers.iter().all(|(_, reader)| !reader.is_finished()));
    gate.open();
    world.idle().await;
    for (started, reader) in readers {
        let seen = in_time("for a reader", reader).await.unwrap();
        assert_eq!(seen, all_frames(&world.store, &started.session, &started.turn).await);
        assert!(seen[0].data.contains("TurnStarted") && seen.last().unwrap().ends_turn());
    }
}

#[tokio::test(start_paused = true)]
async fn a_queued_turn_begins_after_a_restart() {
    let scripts = [vec![call("weather", "{}"), stop()], vec![say("Sunny."), stop()], vec![say("Two."), stop()]];
    let world = World::start(Setup::new(scripts)).await;
    world.act(Act::User("one")).await;
    let two = world.enqueue("two").await;
    let world = world.restart().await;
    let reader = reading(open(&world, &two, &PATIENT, Cursor::default()).await);
    world.submit(world.answers(vec![result("c1", "sun")])).await.unwrap();
    world.idle().await;
    assert_eq!(reader.await.unwrap(), all_frames(&world.store, &two.session, &two.turn).await);
}

#[tokio::test(start_paused = true)]
async fn the_session_is_deleted() {
    let (world, started, readers) = waiting(asks()).await;
    let queued = world.enqueue("two").await;
    let behind = reading(open(&world, &queued, &PATIENT, Cursor::default()).await);
    let before = all_frames(&world.store, &started.session, &started.turn).await;
    world.delete(&world.tenant, &started.session, None).await.unwrap();
    let [late, early] = readers;
    for (reader, known) in [(late, &[][..]), (early, &before), (behind, &[])] {
        let seen = in_time("for a reader", reader).await.unwrap();
        assert!(seen.starts_with(known) && seen.len() == known.len() + 2, "{seen:?}");
        assert!(seen.last().unwrap().ends_turn() && seen.last().unwrap().data.contains("SessionDeleted"), "{seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_turn_is_stopped() {
    let (world, started, readers) = waiting(asks()).await;
    let queued = world.enqueue("two").await;
    let behind = reading(open(&world, &queued, &PATIENT, Cursor::default()).await);
    world.stop_turn(&queued.turn).await.unwrap();
    assert_eq!(
        in_time("for a reader", behind).await.unwrap(),
        all_frames(&world.store, &queued.session, &queued.turn).await
    );
    world.stop().await.unwrap();
    let late = saw_the_end(&world, &started, readers).await;
    assert!(late.last().unwrap().data.contains("UserStop"), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn another_turn_takes_its_place() {
    for on_busy in [OnBusy::Supersede, OnBusy::Interrupt] {
        let (world, started, readers) = waiting(asks()).await;
        world.submit(Submit { on_busy, ..world.message("else") }).await.unwrap();
        let late = saw_the_end(&world, &started, readers).await;
        assert!(late.last().unwrap().data.contains("Superseded"), "{late:?}");
    }
}

/// The store failed, but kept the end all the same: whoever sent it is told of the failure, those who read of the end.
#[tokio::test(start_paused = true)]
async fn an_end_that_was_kept_although_its_commit_failed_is_shown() {
    for end in ["stop", "supersede", "delete"] {
        let (world, started, readers) = waiting(asks()).await;
        world.store.faults().fail_next(1, Fault::Kept);
        let session = started.session.clone();
        let failed = match end {
            "stop" => world.stop().await.map_err(|error| error.to_string()),
            "supersede" => world.submit(world.message("else")).await.map(drop).map_err(|error| error.to_string()),
            _ => world.delete(&world.tenant, &session, None).await.map_err(|error| error.to_string()),
        };
        assert!(failed.is_err(), "{end}: the failure is told");
        for reader in readers {
            let seen = in_time("for a reader", reader).await.unwrap();
            assert!(seen.last().unwrap().ends_turn(), "{end}: {seen:?}");
        }
        if end != "delete" {
            world.idle().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_that_was_lost_is_not_shown() {
    let (world, started, readers) = waiting(asks()).await;
    world.store.faults().fail_next(2, Fault::Lost);
    world.stop().await.unwrap_err();
    world.delete(&world.tenant, &started.session, None).await.unwrap_err();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(readers.iter().all(|reader| !reader.is_finished()), "nothing has ended");
    world.submit(world.form_reply(None, "yes")).await.unwrap();
    world.idle().await;
    saw_the_end(&world, &started, readers).await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_their_streams() {
    let (world, started, readers) = waiting(asks()).await;
    world.shutdown(Duration::from_secs(1)).await;
    for reader in readers {
        let seen = in_time("for a reader", reader).await.unwrap();
        assert!(seen.last().is_none_or(|frame| !frame.ends_turn()), "{seen:?}");
    }
    // Who comes later is shown what there is.
    let seen = read_all(&mut open(&world, &started, &PATIENT, Cursor::default()).await).await;
    assert_eq!(seen, all_frames(&world.store, &started.session, &started.turn).await);
}

/// Readers that come at every moment between the rest and the end see all that comes after them.
#[tokio::test(start_paused = true)]
async fn readers_come_at_every_moment() {
    let gate = Gate::closed();
    let scripts =
        [vec![say("Hm."), call("pay", "{}"), stop()], vec![say("Well"), Beat::Gate(gate.clone()), say("."), stop()]];
    let world = Arc::new(World::start(Setup::new(scripts)).await);
    let started = world.begin("go").await;
    world.transcript(&started).await;
    let rest = world.log().await.len() as u64;
    let mut readers = Vec::new();
    for _ in 0..20 {
        readers.push(reading(open(&world, &started, &PATIENT, Cursor::after(rest)).await));
    }
    // Those that give up leave no trace.
    for _ in 0..600 {
        drop(open(&world, &started, &PATIENT, Cursor::default()).await);
    }
    world.store.faults().hold();
    let answering = tokio::spawn({
        let (engine, submit) = (world.engine.clone(), world.form_reply(None, "yes"));
        async move { engine.submit(submit).await }
    });
    world.store.faults().held(1).await;
    for _ in 0..20 {
        readers.push(reading(open(&world, &started, &PATIENT, Cursor::after(rest)).await));
    }
    world.store.faults().release();
    answering.await.unwrap().unwrap();
    gate.waiting(1).await;
    for _ in 0..20 {
        readers.push(reading(open(&world, &started, &PATIENT, Cursor::after(rest)).await));
    }
    gate.open();
    let all = all_frames_at_end(&world, &started).await;
    let first = all.iter().position(|frame| frame.cursor.seq > rest).unwrap();
    for reader in readers {
        assert_eq!(in_time("for a reader", reader).await.unwrap(), all[first..]);
    }
    let over =
        world.read_turn(&world.tenant, &started.session, &started.turn, &PATIENT, all.last().unwrap().cursor).await;
    assert!(read_all(&mut over.unwrap().expect("the last frame is one of two")).await.is_empty());
    let over = Cursor::after(all.last().unwrap().cursor.seq);
    assert!(world.read_turn(&world.tenant, &started.session, &started.turn, &PATIENT, over).await.unwrap().is_none());
}

async fn all_frames_at_end(world: &World, started: &Started) -> Vec<Frame> {
    world.idle().await;
    all_frames(&world.store, &started.session, &started.turn).await
}

/// On several threads, where a turn's end may come before its rest is put away: nobody waits for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_is_forgotten_on_four_threads() {
    let model = ScriptedModel::thinking("test/one", |request| match request.messages.last() {
        Some(everturn_core::Message::User { content }) if content.text().starts_with("go") => {
            vec![call("weather", "{}"), stop()]
        }
        _ => vec![say("Done."), stop()],
    });
    let world = Arc::new(World::start(Setup::with_models([model])).await);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..300 {
        let (world, submit) = (Arc::clone(&world), world.message(&format!("go {number}")));
        tasks.spawn(async move {
            let started = world.engine.submit(submit.clone()).await.unwrap();
            let reader = open(&world, &started, &PATIENT, Cursor::default()).await;
            let reader = reading(reader);
            // As soon as it is seen to rest, something happens to it.
            read_all(&mut world.read_leg(&started, &FRAMES)).await;
            let (tenant, session) = (world.tenant.clone(), started.session.clone());
            let target = everturn_engine::Target::Existing(session.clone());
            let next = Submit { target, ..submit };
            match number % 4 {
                0 => drop(world.engine.submit(next).await.unwrap()),
                1 => world.engine.stop(&tenant, &session, None, None).await.unwrap(),
                2 => world.engine.delete(&tenant, &session, None).await.unwrap(),
                _ => drop(world.engine.submit(Submit { on_busy: OnBusy::Interrupt, ..next }).await.unwrap()),
            }
            let seen = timeout(Duration::from_secs(60), reader).await.expect("a reader was forgotten").unwrap();
            assert!(seen.last().unwrap().ends_turn(), "{seen:?}");
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
}
