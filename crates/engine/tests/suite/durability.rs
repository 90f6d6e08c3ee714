//! What the store does to turns: slow, failing, failing after all was kept, taken over by another owner.

use std::{sync::Arc, time::Duration};

use everturn_core::{EffectClass, TenantId, submission::Refused};
use everturn_engine::{Engine, SubmitError};
use everturn_store::Fault;
use expect_test::expect;
use tokio::time::{Instant, timeout};

use super::harness::*;

/// Longer than anybody takes who does not wait for something that the test holds back.
const LONG: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn nobody_sees_an_event_before_its_commit_returned() {
    let gate = Gate::closed();
    let world = World::start(Setup::new([vec![say("seen"), Beat::Gate(gate.clone()), say("unseen"), stop()]])).await;
    let started = world.begin("hi").await;
    let mut reader = world.read_leg(&started, &FRAMES);
    let mut frames = Vec::new();
    while !frames.iter().any(|frame: &Frame| frame.data.contains("seen")) {
        frames.extend(read_some(&mut reader).await.expect("the turn runs"));
    }

    world.store.faults().hold();
    gate.open();
    world.store.faults().held(1).await;
    assert!(timeout(LONG, reader.next()).await.is_err(), "a reader saw what was not durable");
    let late = world.read_turn(&world.tenant, &started.session, &started.turn, &FRAMES, Default::default()).await;
    let mut late = late.unwrap().expect("the turn runs");
    assert_eq!(read_some(&mut late).await.unwrap().len(), 1);
    assert_eq!(read_some(&mut late).await.unwrap().len(), frames.len() - 1);
    assert!(timeout(LONG, late.next()).await.is_err(), "a late reader saw what was not durable");

    world.store.faults().release();
    frames.extend(read_all(&mut reader).await);
    assert_eq!(frames, all_frames(&world.store, &started.session, &started.turn).await);
    assert!(frames.last().unwrap().ends_turn());
}

#[tokio::test(start_paused = true)]
async fn a_submission_is_durable_before_it_is_acknowledged() {
    let world = World::start(Setup::new([vec![say("Hello"), stop()]])).await;
    world.store.faults().hold();
    let submit = world.submit(world.message("hi"));
    tokio::pin!(submit);
    assert!(timeout(LONG, &mut submit).await.is_err(), "acknowledged before it was durable");
    world.store.faults().release();
    submit.await.unwrap();
    world.rested().await;
}

/// The transcript of a turn that goes through a time of failing commits.
async fn stalled(fault: Fault) -> String {
    let gate = Gate::closed();
    let setup = Setup::new([
        vec![say("one"), Beat::Gate(gate.clone()), say("two"), call("pay_now", "{}"), stop()],
        vec![say("three"), stop()],
    ])
    .trusted("pay_now", EffectClass::Effectful, Behaviour::Echo);
    let world = World::start(setup).await;
    let started = world.begin("hi").await;
    gate.waiting(1).await;
    until(async || world.log().await.len() == 3).await;

    world.store.faults().fail_next(6, fault);
    gate.open();
    until(async || world.trouble().is_some()).await;
    let asked = Instant::now();
    world.new_session();
    let refused = world.submit(world.message("another")).await.unwrap_err();
    assert_eq!(asked.elapsed(), Duration::ZERO, "a submission waited for a store that does not work");
    assert!(matches!(refused, SubmitError::Store(_)), "{refused:?}");
    assert_eq!(refused.to_string(), "the store is unavailable: simulated");

    let transcript = world.transcript(&started).await;
    assert_eq!(world.trouble(), None);
    assert_eq!(world.setup.ledger.names(), ["pay_now"]);
    let sessions = world.sessions(&world.tenant, None, 10).await.unwrap();
    assert_eq!(sessions.len(), 1, "a refused submission left something behind");
    transcript
}

#[tokio::test(start_paused = true)]
async fn a_turn_stalls_while_commits_fail_and_goes_on_as_if_nothing_had_happened() {
    let transcript = stalled(Fault::Lost).await;
    expect![[r#"
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 text "one"
        4 text "two"
        5 call c1 pay_now{} (inline)
        6 step finished: ToolUse, 100+10 tokens: ["onetwo", c1 pay_now{}]
        7 intent c1 as e1 (Effectful)
        8 result c1: "pay_now ran with {}"
        9 step 2 with test/one
        10 text "three"
        11 step finished: Stop, 100+10 tokens: "three"
        12 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&transcript);
    assert_eq!(stalled(Fault::Kept).await, transcript, "commits that failed but were kept");
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_everything_passes() {
    let gate = Gate::closed();
    let world = World::start(Setup::new([vec![say("one"), Beat::Gate(gate.clone()), say("two"), stop()]])).await;
    let started = world.begin("hi").await;
    gate.waiting(1).await;
    world.store.faults().outage();
    gate.open();
    until(async || world.trouble().is_some()).await;
    assert_eq!(world.trouble().as_deref(), Some("the store is unavailable: simulated"));
    assert!(world.submit(world.message("more")).await.is_err());
    assert!(world.engine.session(&world.tenant, &started.session).await.is_err());
    tokio::time::sleep(Duration::from_secs(120)).await;
    world.store.faults().stop();
    let transcript = world.transcript(&started).await;
    assert!(transcript.ends_with("completed\n"), "{transcript}");
    assert_eq!(world.trouble(), None);
}

/// Damage stops the turn that it hits. Others in the same commit go on, and so does the server.
#[tokio::test(start_paused = true)]
async fn a_damaged_turn_stops_nobody_else() {
    let gate = Gate::closed();
    let script = || vec![say("one"), Beat::Gate(gate.clone()), say("two"), stop()];
    let scripts = (0..5).map(|_| script()).chain([vec![say("fine"), stop()]]);
    let world = World::start(Setup::new(scripts)).await;
    let mut turns = Vec::new();
    for _ in 0..5 {
        world.new_session();
        turns.push(world.begin("hi").await);
    }
    gate.waiting(5).await;
    until(async || world.log_of(&turns[4].turn).await.len() == 3).await;
    world.store.faults().damage(&turns[2].turn);
    world.store.faults().hold();
    gate.open();
    world.store.faults().held(1).await;
    world.store.faults().release();
    for (number, started) in turns.iter().enumerate().filter(|(number, _)| *number != 2) {
        let transcript = world.transcript(started).await;
        assert!(transcript.ends_with("completed\n"), "{number}: {transcript}");
    }
    assert_eq!(world.trouble(), None);
    world.new_session();
    assert!(world.act(Act::User("hi")).await.ends_with("completed\n"));
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_commit_was_lost_leaves_nothing() {
    let world = World::start(Setup::new([vec![say("Hello"), stop()]])).await;
    world.store.faults().fail_next(1, Fault::Lost);
    let error = world.submit(world.message("hi")).await.unwrap_err();
    assert_eq!(error.to_string(), "the store is unavailable: simulated");
    assert_eq!(world.sessions(&world.tenant, None, 10).await, Ok(vec![]));
    // The store is tried again by the next one.
    assert!(world.act(Act::User("hi")).await.ends_with("completed\n"));
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_commit_failed_but_was_kept_is_run() {
    let world = World::start(Setup::new([vec![say("Hello"), stop()]])).await;
    world.store.faults().fail_next(1, Fault::Kept);
    assert!(world.submit(world.message("hi")).await.is_err());
    until(async || {
        let rows = world.sessions(&world.tenant, None, 10).await.unwrap();
        rows.len() == 1 && rows[0].session.last_turn.as_ref().unwrap().status.is_ended()
    })
    .await;
    let row = world.sessions(&world.tenant, None, 10).await.unwrap().remove(0);
    check_session(&world.store, &world.engine, &world.tenant, &row.session.id).await;
    let history = world.history(&world.tenant, &row.session.id).await.unwrap();
    expect![[r#"
        user: "hi"
        assistant: "Hello"
    "#]]
    .assert_eq(&world.shown(&history.full));
}

#[tokio::test(start_paused = true)]
async fn answers_whose_commit_failed_but_were_kept_take_the_turn_up() {
    let world = World::start(Setup::new([vec![call("weather", "{}"), stop()], vec![say("Sunny"), stop()]])).await;
    world.act(Act::User("weather?")).await;
    world.store.faults().fail_next(1, Fault::Kept);
    assert!(world.submit(world.answers(vec![result("c1", "sun")])).await.is_err());
    let again = world.submit(world.answers(vec![result("c1", "sun")])).await.unwrap_err();
    assert!(matches!(again, SubmitError::Refused(Refused::Busy | Refused::AlreadyAnswered(_))), "{again:?}");
    assert!(world.rested().await.ends_with("completed\n"));
}

#[tokio::test(start_paused = true)]
async fn a_fenced_owner_stops() {
    let gate = Gate::closed();
    let model = ScriptedModel::new(
        "test/one",
        [vec![say("old"), Beat::Gate(gate.clone()), say("owner"), Beat::Silence], vec![say("new owner"), stop()]],
    );
    let world = World::start(Setup::with_models([model.clone()])).await;
    let started = world.begin("hi").await;
    gate.waiting(1).await;
    until(async || world.log().await.len() == 3).await;

    let other = world.setup.start(world.store.clone()).await.unwrap();
    model.called(2).await;
    gate.open();
    // The old owner learns of it with its next commit: its streams end, without what it said last.
    let seen = leg_of(&world.engine, &started).await;
    assert_eq!(seen.len(), 3);
    other.shutdown(Duration::from_secs(1)).await;
    expect![[r#"
         1 turn started in a new session: user: "hi"
         2 step 1 with test/one
         3 text "old"
         4 step restarted after 0, 127+1 tokens: the server stopped while the model was answering
         5 text "new owner"
         6 step finished: Stop, 100+10 tokens: "new owner"
         7 ended, 227+11 tokens: completed
    "#]]
    .assert_eq(&world.rested().await);
    // Its call to the provider ends once the provider is silent for too long, at the latest.
    until(async || model.under_way() == 0).await;
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn of_two_messages_to_one_session_one_is_taken() {
    let world = World::start(Setup::new([vec![say("Hello"), stop()], vec![say("Yes"), stop()]])).await;
    world.act(Act::User("hi")).await;
    let (one, two) = tokio::join!(world.engine.submit(world.message("one")), world.engine.submit(world.message("two")));
    only_one(one, two);
    assert!(world.rested().await.ends_with("completed\n"));
}

#[tokio::test(start_paused = true)]
async fn of_two_answers_to_one_call_one_counts() {
    let setup = Setup::new([vec![call("pay", "{}"), stop()], vec![say("Paid"), stop()]]);
    let world = World::start(setup).await;
    world.act(Act::User("pay")).await;
    let (one, two) = tokio::join!(
        world.engine.submit(world.answers(vec![grant("c1")])),
        world.engine.submit(world.answers(vec![grant("c1")]))
    );
    only_one(one, two);
    assert!(world.rested().await.ends_with("completed\n"));
    assert_eq!(world.setup.ledger.names(), ["pay"]);
}

fn only_one<T: std::fmt::Debug>(one: Result<T, SubmitError>, two: Result<T, SubmitError>) {
    match (one, two) {
        (Ok(_), Err(error)) | (Err(error), Ok(_)) => {
            assert!(matches!(error, SubmitError::Refused(Refused::Busy)), "{error:?}");
        }
        both => panic!("{both:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_turns_are_queued_then_refused() {
    let gate = Gate::closed();
    let scripts = (0..3).map(|_| vec![Beat::Gate(gate.clone()), say("Hello"), stop()]);
    let setup = Setup::new(scripts).settings(|settings| {
        settings.concurrent_turns = 1;
        settings.queued_turns = 1;
        settings.queue_timeout = Duration::from_secs(10);
    });
    let world = World::start(setup).await;
    let begun = Instant::now();
    let first = world.submit(world.message("first")).await.unwrap();
    world.new_session();
    let (second, third) = tokio::join!(world.engine.submit(world.message("second")), async {
        tokio::task::yield_now().await;
        let refused = world.engine.submit(world.message("third")).await;
        (refused, begun.elapsed())
    });
    let (third, waited) = third;
    assert_eq!(waited, Duration::ZERO, "the queue was full, but the third one waited");
    assert_eq!(begun.elapsed(), Duration::from_secs(10), "the second one waits as long as it may");
    for refused in [second, third] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, SubmitError::Overloaded { limit: 1 }), "{refused:?}");
    }

    let queued = tokio::spawn({
        let (engine, submit) = (world.engine.clone(), world.message("fourth"));
        async move { engine.submit(submit).await }
    });
    tokio::task::yield_now().await;
    gate.open();
    world.transcript(&first).await;
    let fourth = queued.await.unwrap().unwrap();
    world.transcript(&fourth).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiting_turn_takes_no_slot() {
    let setup = Setup::new([vec![call("weather", "{}"), stop()], vec![say("Hello"), stop()]])
        .settings(|settings| (settings.concurrent_turns, settings.queued_turns) = (1, 0));
    let world = World::start(setup).await;
    world.act(Act::User("weather?")).await;
    world.new_session();
    assert!(world.act(Act::User("hi")).await.ends_with("completed\n"));
}

#[tokio::test(start_paused = true)]
async fn a_submission_runs_although_its_caller_went_away() {
    let world = World::start(Setup::new([vec![say("Hello"), stop()]])).await;
    world.store.faults().hold();
    let submit = tokio::spawn({
        let (engine, submit) = (world.engine.clone(), world.message("hi"));
        async move { engine.submit(submit).await }
    });
    world.store.faults().held(1).await;
    submit.abort();
    assert!(submit.await.unwrap_err().is_cancelled());
    world.store.faults().release();
    until(async || ended(&world.engine, &world.tenant).await == 1).await;
}

/// How many sessions have a last turn that has ended.
async fn ended(engine: &Engine, tenant: &TenantId) -> usize {
    let rows = engine.sessions(tenant, None, 100).await.unwrap();
    let last = rows.iter().filter_map(|row| row.session.last_turn.as_ref());
    last.filter(|turn| turn.status.is_ended()).count()
}

#[tokio::test(start_paused = true)]
async fn a_hundred_sessions_at_once() {
    let model = ScriptedModel::thinking("test/one", |request| match request.messages.len() {
        1 => vec![say("Looking"), call("look", "{}"), call("pay", "{}"), stop()],
        _ => vec![say("Done"), stop()],
    });
    let world = Arc::new(World::start(Setup::with_models([model])).await);
    world.store.faults().fail_randomly(1, 10);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..100 {
        let (world, submit) = (Arc::clone(&world), world.message(&format!("message {number}")));
        tasks.spawn(async move {
            let started = loop {
                match world.engine.submit(submit.clone()).await {
                    Ok(started) => break started,
                    Err(SubmitError::Store(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
                    Err(error) => panic!("{error}"),
                }
            };
            let events = leg_of(&world.engine, &started).await;
            assert!(matches!(events.last(), Some((_, everturn_core::Event::Waiting(_)))), "{events:?}");
            started.session
        });
    }
    while let Some(session) = tasks.join_next().await {
        check_session(&world.store, &world.engine, &world.tenant, &session.unwrap()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_times_out_while_its_end_waits_for_the_store_ends_once() {
    let (first, second) = (Gate::closed(), Gate::closed());
    let script = vec![Beat::Gate(first.clone()), say("Hel"), Beat::Gate(second.clone()), say("lo"), stop()];
    let setup = Setup::new([script]).agent(|agent| agent.turn_timeout = Duration::from_secs(5));
    let world = World::start(setup).await;
    let started = world.begin("hi").await;
    first.waiting(1).await;
    world.store.faults().hold();
    first.open();
    // One commit is under way; the rest of the turn, its end included, waits for the next one.
    in_time("for a commit", world.store.faults().held(1)).await;
    second.open();
    tokio::time::sleep(LONG).await;
    world.store.faults().release();
    expect![[r#"
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 text "Hel"
        4 text "lo"
        5 step finished: Stop, 100+10 tokens: "Hello"
        6 ended, 100+10 tokens: completed
    "#]]
    .assert_eq(&world.transcript(&started).await);
}
