//! Views that look at where a turn stands, or show the conversation: from every point the same as from the start.

use std::{sync::Arc, time::Duration};

use everturn_core::{Message, TurnId, submission::Submission};
use everturn_engine::{Cursor, Started, Submit, TurnReader};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use super::harness::*;

/// A script that says and does a few things, by chance.
fn random_script(rng: &mut StdRng, last: bool) -> Script {
    let mut script = Vec::new();
    if rng.random() {
        script.push(think("Hm."));
    }
    for _ in 0..rng.random_range(0..5) {
        script.push(say(["Well, ", "I think ", "so. "][rng.random_range(0..3)]));
        if rng.random_ratio(1, 3) {
            script.push(Beat::Pause(Duration::from_millis(rng.random_range(0..20))));
        }
    }
    if rng.random_ratio(1, 5) {
        script.push(fail(everturn_models::ModelErrorKind::Unavailable));
        return script;
    }
    if !last {
        script.extend((0..rng.random_range(1..4)).map(|_| call("look", "{}")));
    }
    script.push(stop());
    script
}

/// A model that goes on for a few steps in every turn.
fn random_model(seed: u64) -> Arc<ScriptedModel> {
    let mut rng = StdRng::seed_from_u64(seed);
    ScriptedModel::thinking("test/one", move |request| {
        let last = request.messages.iter().rev().take_while(|m| !matches!(m, Message::User { .. })).count() > 6;
        random_script(&mut rng, last)
    })
}

async fn read_on(reader: &mut TurnReader, turn: &TurnId) -> Vec<Shown> {
    let mut frames = Vec::new();
    while let Some(bytes) = in_time("for frames", reader.next()).await.unwrap() {
        frames.extend(shown_frames(&bytes, Some(turn)));
    }
    frames
}

async fn open(world: &World, started: &Started, cursor: Cursor) -> Option<TurnReader> {
    let opened = world.read_turn(&world.tenant, &started.session, &started.turn, &STANDING, cursor).await;
    opened.unwrap()
}

async fn expected(world: &World, started: &Started) -> Vec<Shown> {
    shown_in_log(&world.store, &world.engine, &world.tenant, &started.session, &started.turn).await
}

/// What comes after a cursor, of all frames.
fn suffix(all: &[Shown], cursor: Cursor) -> &[Shown] {
    let seen = |frame: &Shown| {
        let Cursor { seq, part } = frame.cursor;
        seq < cursor.seq || (seq == cursor.seq && (cursor.part == 0 || (part > 0 && part <= cursor.part)))
    };
    &all[all.iter().take_while(|frame| seen(frame)).count()..]
}

/// A world with a turn before the one that is read, which may begin history.
async fn begun(seed: u64) -> (Arc<World>, Started) {
    let mut rng = StdRng::seed_from_u64(seed);
    let ring_bytes = [1, 200, 1000, 256 * 1024][rng.random_range(0..4)];
    let setup = Setup::with_models([random_model(rng.random())]).settings(|settings| {
        settings.ring_bytes = ring_bytes;
        settings.retry_base = Duration::ZERO;
    });
    let world = World::start(setup).await;
    let first = world.begin("before").await;
    world.end_of(&first.turn).await;
    let submission = Submission::Begin(vec![Message::user("seed"), Message::assistant("ed"), Message::user("go")]);
    let request = rng.random::<bool>().then(|| "run-1".to_owned());
    let begins_history = rng.random_ratio(1, 4);
    let submit = Submit { begins_history, request, ..world.submission(submission, Default::default()) };
    let started = world.submit(submit).await.unwrap();
    (Arc::new(world), started)
}

#[test]
fn every_cursor_gives_the_rest_of_what_the_start_gives() {
    for seed in 0..16 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (world, started) = begun(seed).await;
            // Live ones that come and go, from where somebody else stood.
            let mut rng = StdRng::seed_from_u64(seed);
            let mut live = tokio::task::JoinSet::new();
            for _ in 0..6 {
                let (world, started, mut rng) =
                    (Arc::clone(&world), started.clone(), StdRng::seed_from_u64(rng.random()));
                live.spawn(async move { follow(&world, &started, &mut rng).await });
            }
            let live = live.join_all().await;
            world.end_of(&started.turn).await;
            let all = expected(&world, &started).await;
            for frames in live {
                assert_eq!(frames, all, "a live reader of seed {seed}");
            }
            // Every cursor that there is, of a turn that is over; the tail may still be there.
            let mut cursors = vec![Cursor::default()];
            cursors.extend(all.iter().map(|frame| frame.cursor));
            let head = world.turn_record(&started.turn).await.head;
            cursors.extend((1..=head).map(Cursor::after));
            for cursor in cursors {
                let frames = match open(&world, &started, cursor).await {
                    Some(mut reader) => read_on(&mut reader, &started.turn).await,
                    None => Vec::new(),
                };
                assert_eq!(frames, suffix(&all, cursor), "seed {seed} after {cursor:?}");
            }
        });
    }
}

/// Reads a turn to its end over several connections, each from the last cursor, which may be within an event.
async fn follow(world: &World, started: &Started, rng: &mut StdRng) -> Vec<Shown> {
    let mut frames: Vec<Shown> = Vec::new();
    loop {
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..30))).await;
        let cursor = last(&frames);
        let Some(mut reader) = open(world, started, cursor).await else { return frames };
        let mut patience = if rng.random() { rng.random_range(1..6) } else { usize::MAX };
        while patience > 0 {
            let next = tokio::time::timeout(Duration::from_millis(rng.random_range(1..40)), reader.next()).await;
            // Waiting is given up, and goes on.
            let Ok(next) = next else { continue };
            let Some(bytes) = next.unwrap() else {
                if world.turn_record(&started.turn).await.status.is_ended() && cursor == last(&frames) {
                    return frames;
                }
                break;
            };
            let mut more = shown_frames(&bytes, Some(&started.turn));
            patience = patience.saturating_sub(more.len());
            if patience == 0 {
                more.truncate(rng.random_range(0..=more.len()));
            }
            frames.extend(more);
            tokio::time::sleep(Duration::from_millis(rng.random_range(0..10))).await;
        }
    }
}

fn last(frames: &[Shown]) -> Cursor {
    frames.last().map(|frame| frame.cursor).unwrap_or_default()
}

/// Some read live from the tail, some from the store, and all share what the first of them made.
#[tokio::test(start_paused = true)]
async fn readers_that_share_a_tail_see_the_same() {
    let words = 30;
    let gates: Vec<_> = (0..words).map(|_| Gate::closed()).collect();
    let script = gates.iter().enumerate().flat_map(|(n, gate)| [Beat::Gate(gate.clone()), say(&format!("word {n} "))]);
    let script: Script = script.chain([stop()]).collect();
    for ring_bytes in [1, 150, 256 * 1024] {
        let world = World::start(Setup::new([script.clone()]).settings(|s| s.ring_bytes = ring_bytes)).await;
        gates.iter().for_each(Gate::close);
        let started = world.begin("go").await;
        let mut readers = Vec::new();
        let mut seen: Vec<(Cursor, Vec<Shown>)> = Vec::new();
        for (index, gate) in gates.iter().enumerate() {
            gate.waiting(1).await;
            until(async || world.log().await.len() == index + 2).await;
            for cursor in [Cursor::default(), Cursor::after(index as u64 / 2), Cursor::after(index as u64 + 2)] {
                readers.push(open(&world, &started, cursor).await.expect("it runs"));
                seen.push((cursor, Vec::new()));
            }
            gate.open();
            // Some read as they go, some fall behind.
            for (at, (reader, (_, frames))) in readers.iter_mut().zip(&mut seen).enumerate() {
                if at % 3 != 1 {
                    let next = tokio::time::timeout(Duration::from_millis(5), reader.next()).await;
                    if let Ok(next) = next {
                        frames.extend(shown_frames(&next.unwrap().expect("it runs"), Some(&started.turn)));
                    }
                }
            }
        }
        for (reader, (_, frames)) in readers.iter_mut().zip(&mut seen) {
            frames.extend(read_on(reader, &started.turn).await);
        }
        let all = expected(&world, &started).await;
        for (cursor, frames) in seen {
            assert_eq!(frames, suffix(&all, cursor), "from {cursor:?} with a ring of {ring_bytes}");
        }
    }
}

/// What a reader is told of the conversation is what it has seen of it.
#[tokio::test(start_paused = true)]
async fn a_reader_knows_the_conversation_as_far_as_it_has_seen_it() {
    let gate = Gate::closed();
    let scripts = [vec![call("look", "{}"), stop()], vec![say("I"), Beat::Gate(gate.clone()), say(" see."), stop()]];
    let world = World::start(Setup::new(scripts)).await;
    let started = world.begin("go").await;
    gate.waiting(1).await;
    until(async || world.stored().await.contains("text \"I\"")).await;
    let head = world.log().await.len() as u64;
    let at = async |seq| {
        let reader = open(&world, &started, Cursor::after(seq)).await.expect("it runs");
        world.shown(&reader.conversation().await.unwrap().iter().map(|said| said.message.clone()).collect::<Vec<_>>())
    };
    assert_eq!(at(1).await, "user: \"go\"\n");
    let whole = "user: \"go\"\nassistant: [c1 look{}]\nresult c1: \"look ran with {}\"\nassistant: \"I\"\n";
    assert_eq!(at(head).await, whole);
    gate.open();
    let mut reader = open(&world, &started, Cursor::after(head)).await.expect("it runs");
    read_on(&mut reader, &started.turn).await;
    let said = reader.conversation().await.unwrap();
    assert_eq!(said.last().unwrap().message, Message::assistant("I see."));
}

/// A log that retention has shortened is read from every point as well.
#[tokio::test(start_paused = true)]
async fn a_shortened_log_can_be_read_from_every_point() {
    let scripts = [vec![say("I "), say("look."), call("look", "{}"), stop()], vec![say("I "), say("see."), stop()]];
    let setup = Setup::new(scripts).settings(|settings| {
        settings.retention.deltas = Some(Duration::ZERO);
        settings.retention.interval = Duration::from_secs(1);
    });
    let world = World::start(setup).await;
    let started = world.begin("go").await;
    world.end_of(&started.turn).await;
    let is_dropped = |(_, event): &(u64, everturn_core::Event)| matches!(event, everturn_core::Event::Dropped { .. });
    until(async || world.log_of(&started.turn).await.iter().any(is_dropped)).await;
    let all = expected(&world, &started).await;
    assert!(all.last().is_some_and(|frame| frame.data.contains("I see.")), "{all:?}");
    for seq in 0..world.turn_record(&started.turn).await.head {
        let mut reader = open(&world, &started, Cursor::after(seq)).await.expect("there is more");
        let frames = read_on(&mut reader, &started.turn).await;
        assert_eq!(frames, suffix(&all, Cursor::after(seq)), "after {seq}");
    }
}
