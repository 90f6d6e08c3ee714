//! Ends that somebody brings about: deletion, deadlines.

use std::time::Duration;

use everturn_core::EffectClass;
use everturn_engine::{DeleteError, SubmitError};
use expect_test::expect;
use tokio::time::Instant;

use super::harness::*;

#[tokio::test(start_paused = true)]
async fn deleting_a_session_ends_a_silent_provider_call_at_once() {
    let model = ScriptedModel::new("test/one", [vec![say("Well"), Beat::Silence]]);
    let world = World::start(Setup::with_models([model.clone()])).await;
    let started = world.begin("hi").await;
    until(async || world.log().await.len() == 3).await;
    let begun = Instant::now();
    let (deleted, seen) =
        tokio::join!(world.delete(&world.tenant, &started.session, None), leg_of(&world.engine, &started));
    deleted.unwrap();
    assert!(begun.elapsed() < Duration::from_millis(20), "{:?}", begun.elapsed());
    assert_eq!(model.under_way(), 0, "the call goes on");
    expect![[r#"
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 text "Well"
        4 step finished: Aborted, 127+1 tokens: "Well"
        5 ended, 127+1 tokens: cancelled: SessionDeleted
    "#]]
    .assert_eq(&world.lines(&seen));
    gone(&world).await;
}

#[tokio::test(start_paused = true)]
async fn deleting_a_session_ends_a_running_tool_at_once() {
    let gate = Gate::closed();
    let setup = Setup::new([vec![call("slow", "{}"), call("weather", "{}"), stop()]]).trusted(
        "slow",
        EffectClass::Effectful,
        Behaviour::Gated(gate.clone()),
    );
    let world = World::start(setup).await;
    let started = world.begin("hi").await;
    gate.waiting(1).await;
    let (deleted, seen) =
        tokio::join!(world.delete(&world.tenant, &started.session, None), leg_of(&world.engine, &started));
    deleted.unwrap();
    assert_eq!(world.setup.ledger.running(), 0, "the tool goes on");
    expect![[r#"
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 call c1 slow{} (inline)
        4 call c2 weather{} (client)
        5 step finished: ToolUse, 100+10 tokens: [c1 slow{}, c2 weather{}]
        6 intent c1 as e1 (Effectful)
        7 result c1 error: "Tool call interrupted: the turn was ended while it ran. Whether it had its effect is unknown; check before you call it again"
        8 result c2 error: "Tool call cancelled: the session was deleted"
        9 ended, 100+10 tokens: cancelled: SessionDeleted
    "#]]
    .assert_eq(&world.lines(&seen));
    gone(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiting_session_can_be_deleted() {
    let world = World::start(Setup::new([vec![call("weather", "{}"), stop()]])).await;
    world.act(Act::User("weather?")).await;
    world.delete(&world.tenant, &world.session(), None).await.unwrap();
    gone(&world).await;
}

/// What was deleted is not there, and stays so after a restart.
async fn gone(world: &World) {
    let session = world.session();
    assert_eq!(world.engine.session(&world.tenant, &session).await, Ok(None));
    assert_eq!(world.sessions(&world.tenant, None, 10).await, Ok(vec![]));
    assert_eq!(world.history(&world.tenant, &session).await.unwrap().full, []);
    assert!(matches!(world.submit(world.message("hello?")).await, Err(SubmitError::NotFound)));
    assert!(matches!(world.delete(&world.tenant, &session, None).await, Err(DeleteError::NotFound)));
    let next = world.setup.start(world.store.crash()).await.unwrap();
    assert_eq!(next.session(&world.tenant, &session).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_does_not_wait_for_a_turn_that_cannot_be_ended() {
    let world = World::start(Setup::new([vec![say("Well"), Beat::Silence]])).await;
    let started = world.begin("hi").await;
    until(async || world.log().await.len() == 3).await;
    world.store.faults().outage();
    assert!(matches!(world.delete(&world.tenant, &started.session, None).await, Err(DeleteError::Store(_))));
    world.store.faults().stop();
    world.delete(&world.tenant, &started.session, None).await.unwrap();
    gone(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_takes_too_long_keeps_what_it_has() {
    let setup = Setup::new([vec![think("Hm"), say("Half an an"), call("look", "{}"), Beat::Silence]])
        .agent(|agent| agent.turn_timeout = Duration::from_secs(20));
    let world = World::start(setup).await;
    let begun = Instant::now();
    let mut transcript = world.act(Act::User("hi")).await;
    assert_eq!(begun.elapsed().as_secs(), 20);
    transcript += &world.act(Act::History).await;
    expect![[r#"
        > hi
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 thinking "Hm"
        4 text "Half an an"
        5 call c1 look{} (inline)
        6 step finished: Aborted, 127+4 tokens: [thinking "Hm", "Half an an", c1 look{}]
        7 result c1 error: "Tool call cancelled: the turn took too long"
        8 ended, 127+4 tokens: cancelled: Timeout
        > history
        user: "hi"
        assistant: [thinking "Hm", "Half an an", c1 look{}]
        result c1 error: "Tool call cancelled: the turn took too long"
    "#]]
    .assert_eq(&transcript);
    assert_eq!(world.setup.ledger.names(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_tools_and_answers_their_calls() {
    let setup = Setup::new([vec![call("slow", "{}"), call("look", "{}"), call("weather", "{}"), stop()]])
        .trusted("slow", EffectClass::Effectful, Behaviour::Gated(Gate::closed()))
        .agent(|agent| agent.turn_timeout = Duration::from_secs(20));
    let ledger = setup.ledger.clone();
    check(
        setup,
        [Act::User("hi"), Act::History],
        expect![[r#"
            > hi
            1 turn started in a new session: user: "hi"
            2 step 1 with test/one
            3 call c1 slow{} (inline)
            4 call c2 look{} (inline)
            5 call c3 weather{} (client)
            6 step finished: ToolUse, 100+10 tokens: [c1 slow{}, c2 look{}, c3 weather{}]
            7 intent c1 as e1 (Effectful)
            8 intent c2 as e2 (ReadOnly)
            9 result c2: "look ran with {}"
            10 result c1 error: "Tool call interrupted: the turn was ended while it ran. Whether it had its effect is unknown; check before you call it again"
            11 result c3 error: "Tool call cancelled: the turn took too long"
            12 ended, 100+10 tokens: cancelled: Timeout
            > history
            user: "hi"
            assistant: [c1 slow{}, c2 look{}, c3 weather{}]
            result c1 error: "Tool call interrupted: the turn was ended while it ran. Whether it had its effect is unknown; check before you call it again"
            result c2: "look ran with {}"
            result c3 error: "Tool call cancelled: the turn took too long"
        "#]],
    )
    .await;
    assert_eq!(ledger.running(), 0, "the tool goes on");
}

#[tokio::test(start_paused = true)]
async fn waiting_does_not_count_towards_the_deadline() {
    let setup = Setup::new([vec![call("weather", "{}"), stop()], vec![say("Sunny"), stop()]])
        .agent(|agent| agent.turn_timeout = Duration::from_secs(20));
    let world = World::start(setup).await;
    world.act(Act::User("weather?")).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(world.act(Act::Answers(vec![result("c1", "sun")])).await.ends_with("completed\n"));
}
