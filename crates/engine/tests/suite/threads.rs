//! The same promises on several threads, where nothing is orderly.

use std::sync::Arc;

use everturn_core::{Answer, Event, submission::Submission};
use everturn_engine::{Cursor, Started, Submit, Target};

use super::harness::*;

/// Reads a turn to its end, coming back after every stream that ends and every so many pieces.
async fn read_to_the_end(world: &World, started: &Started, patience: usize) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    while !frames.last().is_some_and(Frame::ends_turn) {
        let cursor = frames.last().map_or(Cursor::default(), |frame| frame.cursor);
        let reader = world.read_turn(&world.tenant, &started.session, &started.turn, &FRAMES, cursor).await;
        let mut reader = reader.unwrap().expect("the turn has not been read to its end");
        for _ in 0..patience {
            match read_some(&mut reader).await {
                Some(more) => frames.extend(more),
                None => break,
            }
        }
        tokio::task::yield_now().await;
    }
    frames
}

/// Begins a turn, answers it twice over as soon as it waits, and reads it all the while.
async fn converse(world: Arc<World>, submit: Submit) {
    let started = world.engine.submit(submit.clone()).await.unwrap();
    let readers: Vec<_> = [1, 3, usize::MAX]
        .map(|patience| {
            let (world, started) = (Arc::clone(&world), started.clone());
            tokio::spawn(async move { read_to_the_end(&world, &started, patience).await })
        })
        .into();
    let events = leg_of(&world.engine, &started).await;
    let Some((_, Event::Waiting(wait))) = events.last() else { panic!("{events:?}") };
    let answers =
        wait.calls.iter().map(|call| Answer::Permission { call_id: call.id.clone(), granted: true, reason: None });
    let answers = Submit {
        target: Target::Existing(started.session.clone()),
        update: Default::default(),
        submission: Submission::Answers(answers.collect()),
        ..submit
    };
    let (one, two) = tokio::join!(
        tokio::spawn({
            let (engine, answers) = (world.engine.clone(), answers.clone());
            async move { engine.submit(answers).await }
        }),
        tokio::spawn({
            let (engine, answers) = (world.engine.clone(), answers);
            async move { engine.submit(answers).await }
        })
    );
    assert!(one.unwrap().is_ok() != two.unwrap().is_ok(), "one answer counts");
    for reader in readers {
        let frames = reader.await.unwrap();
        assert_eq!(frames, all_frames(&world.store, &started.session, &started.turn).await);
    }
    check_session(&world.store, &world.engine, &world.tenant, &started.session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_conversations_on_four_threads() {
    let model = ScriptedModel::thinking("test/one", |request| match request.messages.len() {
        1 => vec![think("Hm"), say("Looking "), say("for it"), call("look", "{}"), call("pay", "{}"), stop()],
        _ => vec![say("All "), say("done"), stop()],
    });
    let setup = Setup::with_models([model]).settings(|settings| settings.ring_bytes = 300);
    let world = Arc::new(World::start(setup).await);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..200 {
        tasks.spawn(converse(Arc::clone(&world), world.message(&format!("message {number}"))));
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    let rows = world.sessions(&world.tenant, None, 1000).await.unwrap();
    assert_eq!(rows.len(), 200);
    assert!(rows.iter().all(|row| row.session.last_turn.as_ref().unwrap().status.is_ended()));
    let runs = world.setup.ledger.runs_by_effect();
    assert_eq!(runs.len(), 400);
    assert!(runs.values().all(|count| *count == 1), "a tool ran twice");
}
