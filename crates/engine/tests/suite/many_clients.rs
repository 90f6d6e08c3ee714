//! Many clients that use one session at once.

use std::time::Duration;

use everturn_core::{CancelReason, Message, Outcome, submission::OnBusy};
use everturn_engine::{Cursor, Cut, Engine, Submit, SubmitError};
use everturn_store::TurnStatus;
use futures_util::future::{join, join_all};

use super::harness::*;

const CLIENTS: usize = 50;

/// A session in which a turn takes so long.
async fn busy(turn: Duration) -> World {
    busy_over(turn).await.0
}

/// The same, with the store.
async fn busy_over(turn: Duration) -> (World, CrashStore) {
    let model = ScriptedModel::thinking("test/one", move |_| vec![say("Well"), Beat::Pause(turn), say("."), stop()]);
    let setup = Setup::with_models([model]).settings(|settings| settings.session_queue = 2 * CLIENTS);
    let mut world = World::start(setup).await;
    // A store whose commits take time, so that clients collide.
    world.engine.shutdown(Duration::ZERO).await;
    let store = CrashStore::new(world.store.clone(), None);
    world.engine = world.setup.start(store.clone()).await.expect("the store works");
    world.act(Act::User("hi")).await;
    (world, store)
}

fn message(world: &World, number: usize, on_busy: OnBusy) -> Submit {
    Submit { on_busy, ..world.message(&format!("message {number}")) }
}

/// How the session's turns have ended.
async fn outcomes(world: &World) -> Vec<Outcome> {
    let turns = world.engine.turns_below(&world.tenant, &world.session(), None, 10 * CLIENTS).await.unwrap();
    let outcome = |status| match status {
        TurnStatus::Ended(outcome) => outcome,
        other => panic!("a turn has not ended: {other:?}"),
    };
    turns.value.into_iter().map(|turn| outcome(turn.status)).collect()
}

#[tokio::test(start_paused = true)]
async fn all_messages_are_taken_and_answered_and_forks_succeed_meanwhile() {
    let world = busy(Duration::from_millis(2)).await;
    let engine: &Engine = &world.engine;
    let client = async |number: usize| {
        for _ in 0..2 {
            engine.submit(message(&world, number, OnBusy::Enqueue)).await.expect("a message is taken");
        }
    };
    let forks = async {
        for _ in 0..CLIENTS {
            let fork = engine.fork(&world.tenant, &world.session(), Cut::Nothing, None).await;
            fork.expect("a session that is used can be forked");
        }
    };
    join(join_all((0..CLIENTS).map(client)), forks).await;
    world.idle().await;
    let outcomes = outcomes(&world).await;
    assert_eq!(outcomes.len(), 1 + 2 * CLIENTS);
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Completed), "{outcomes:?}");
}

#[tokio::test(start_paused = true)]
async fn messages_that_come_together_are_kept_together_and_in_order() {
    let world = busy(Duration::from_secs(1)).await;
    world.engine.submit(message(&world, 0, OnBusy::Enqueue)).await.unwrap();
    let begun = tokio::time::Instant::now();
    let client = |number| world.engine.submit(message(&world, number, OnBusy::Enqueue));
    for accepted in join_all((1..=CLIENTS).map(client)).await {
        accepted.expect("a message is taken");
    }
    // A commit takes a millisecond, and is not made for each of them.
    assert!(begun.elapsed() < Duration::from_millis(10), "{:?}", begun.elapsed());
    let turns = world.engine.turns_below(&world.tenant, &world.session(), None, CLIENTS).await.unwrap();
    let said: Vec<_> = turns.value.into_iter().rev().map(|turn| turn.messages).collect();
    assert_eq!(said, (1..=CLIENTS).map(|number| vec![Message::user(format!("message {number}"))]).collect::<Vec<_>>());
    world.idle().await;
    assert_eq!(outcomes(&world).await, vec![Outcome::Completed; CLIENTS + 2]);
}

/// Each turn begins in the commit that ends the one before it, from memory. Their readers wait from memory, too.
#[tokio::test(start_paused = true)]
async fn nothing_is_read_between_the_turns_of_a_queue() {
    let (world, store) = busy_over(Duration::from_millis(10)).await;
    world.engine.submit(message(&world, 0, OnBusy::Enqueue)).await.unwrap();
    store.asked();
    let client = async |number| {
        let started = world.engine.submit(message(&world, number, OnBusy::Enqueue)).await.expect("a message is taken");
        let (session, cursor) = (&started.session, Cursor::default());
        let reader = world.engine.read_turn(&world.tenant, session, &started.turn, &PATIENT, cursor).await.unwrap();
        read_all(&mut reader.expect("the turn is not over")).await
    };
    for frames in join_all((1..=CLIENTS).map(client)).await {
        assert!(frames.last().is_some_and(Frame::ends_turn), "{frames:?}");
    }
    let asked = store.asked();
    // The end of the last one looks whether there is more.
    assert_eq!((asked.reads, asked.begun_with_ends, asked.refused_with_ends), (2, CLIENTS, 0), "{asked:?}");
    // One for the messages, and for each turn: the text before its pause, and its end with the beginning of the next.
    assert!(asked.commits <= 2 * CLIENTS + 5, "{asked:?}");
    world.idle().await;
    assert_eq!(outcomes(&world).await, vec![Outcome::Completed; CLIENTS + 2]);
    world.check(&world.session()).await;
}

/// Some are stopped while they are queued, and one changes the settings: the others run all the same, in order.
#[tokio::test(start_paused = true)]
async fn a_queue_that_changes_is_worked_off() {
    let (world, store) = busy_over(Duration::from_millis(10)).await;
    let mut turns = Vec::new();
    for number in 0..12 {
        let mut submit = message(&world, number, OnBusy::Enqueue);
        submit.update.titled = number == 6;
        turns.push(world.engine.submit(submit).await.unwrap().turn);
    }
    for stopped in [1, 2, 7, 11] {
        world.stop_turn(&turns[stopped]).await.unwrap();
    }
    world.idle().await;
    let stopped = Outcome::Cancelled { reason: CancelReason::UserStop };
    let expected =
        (0..12).rev().map(|number| if [1, 2, 7, 11].contains(&number) { &stopped } else { &Outcome::Completed });
    assert!(outcomes(&world).await[..12].iter().eq(expected));
    assert!(world.engine.session(&world.tenant, &world.session()).await.unwrap().unwrap().config.titled);
    let asked = store.asked();
    assert!(asked.begun_with_ends >= 4 && asked.refused_with_ends >= 1, "{asked:?}");
    world.check(&world.session()).await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_takes_as_many_as_it_may_and_no_more() {
    let world = busy(Duration::from_secs(1)).await;
    let client = |number| world.engine.submit(message(&world, number, OnBusy::Enqueue));
    let outcomes = join_all((0..3 * CLIENTS).map(client)).await;
    let limit = 2 * CLIENTS;
    // The first of them runs: nothing did when it came.
    assert!(outcomes[..=limit].iter().all(Result::is_ok), "{outcomes:?}");
    let is_full =
        |outcome: &Result<_, _>| matches!(outcome, Err(SubmitError::QueueFull { limit: told }) if *told == limit);
    assert!(outcomes[limit + 1..].iter().all(is_full), "{outcomes:?}");
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_ends_what_came_before_it() {
    let world = busy(Duration::from_secs(1)).await;
    let begun = tokio::time::Instant::now();
    let client = |number| {
        let on_busy = if number == CLIENTS { OnBusy::Interrupt } else { OnBusy::Enqueue };
        world.engine.submit(message(&world, number, on_busy))
    };
    for accepted in join_all((0..=CLIENTS).map(client)).await {
        accepted.expect("a message is taken");
    }
    // At once: there is no second interrupt so soon.
    assert!(begun.elapsed() < Duration::from_millis(250), "{:?}", begun.elapsed());
    world.idle().await;
    let outcomes = outcomes(&world).await;
    assert_eq!(outcomes[0], Outcome::Completed);
    let superseded = Outcome::Cancelled { reason: CancelReason::Superseded };
    assert_eq!(outcomes[1..=CLIENTS], vec![superseded; CLIENTS]);
}

#[tokio::test(start_paused = true)]
async fn interrupts_leave_turns_that_get_somewhere() {
    let world = busy(Duration::from_millis(100)).await;
    let begun = tokio::time::Instant::now();
    let client = |number| world.engine.submit(message(&world, number, OnBusy::Interrupt));
    for accepted in join_all((0..CLIENTS).map(client)).await {
        accepted.expect("an interrupt is taken");
    }
    world.idle().await;
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let outcomes = outcomes(&world).await;
    assert_eq!(outcomes.len(), 1 + CLIENTS);
    let completed = outcomes.iter().filter(|outcome| **outcome == Outcome::Completed).count();
    assert!(completed > CLIENTS / 3, "{completed} of {CLIENTS}: {outcomes:?}");
}
