//! The end of a process, planned or not, and what the next one makes of what is stored.

use std::time::Duration;

use everturn_core::EffectClass;
use everturn_engine::SubmitError;
use everturn_models::ModelErrorKind;
use expect_test::expect;
use tokio::time::Instant;

use super::harness::*;

#[tokio::test(start_paused = true)]
async fn a_step_that_a_crash_interrupted_is_made_again() {
    let world =
        World::start(Setup::new([vec![think("Hm"), say("Half an ans"), Beat::Silence], vec![say("Whole"), stop()]]))
            .await;
    world.begin("hi").await;
    until(async || world.log().await.len() == 4).await;
    let world = world.restart().await;
    expect![[r#"
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 thinking "Hm"
        4 text "Half an ans"
        5 step restarted after 0, 127+4 tokens: the server stopped while the model was answering
        6 text "Whole"
        7 step finished: Stop, 100+10 tokens: "Whole"
        8 ended, 227+14 tokens: completed
    "#]]
    .assert_eq(&world.rested().await);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_kept_but_never_acknowledged_is_run() {
    let mut world = World::start(Setup::new([vec![say("Hello"), stop()]])).await;
    let dying = CrashStore::new(world.store.clone(), Some(Death { commit: 1, kept: true }));
    let engine = world.setup.start(dying.clone()).await.unwrap();
    let submit = world.message("hi");
    tokio::spawn(async move { engine.submit(submit).await });
    dying.dead().await;
    world = world.restart().await;
    let session = world.sessions(&world.tenant, None, 2).await.unwrap().remove(0).session.id;
    expect![[r#"
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 text "Hello"
        4 step finished: Stop, 100+10 tokens: "Hello"
        5 ended, 100+10 tokens: completed
    "#]]
    .assert_eq(&world.in_session(session).rested().await);
}

#[tokio::test(start_paused = true)]
async fn tools_that_a_crash_interrupted_are_repeated_only_if_they_may_be() {
    let [reading, booking, paying] = [(); 3].map(|()| Gate::closed());
    let setup = Setup::new([
        vec![call("slow_read", "{}"), call("slow_book", "{}"), call("slow_pay", "{}"), call("look", "{}"), stop()],
        vec![say("I see."), stop()],
    ])
    .trusted("slow_read", EffectClass::ReadOnly, Behaviour::Gated(reading.clone()))
    .trusted("slow_book", EffectClass::Idempotent, Behaviour::Gated(booking.clone()))
    .trusted("slow_pay", EffectClass::Effectful, Behaviour::Gated(paying));
    let world = World::start(setup).await;
    world.begin("go").await;
    world.setup.ledger.until_running(3).await;
    // The result of `look` is durable.
    until(async || world.log().await.len() == 12).await;
    let world = world.restart().await;
    world.setup.ledger.until_running(2).await;
    booking.open();
    world.setup.ledger.until_running(1).await;
    reading.open();
    expect![[r#"
        1 turn started in a new session: user: "go"
        2 step 1 with test/one
        3 call c1 slow_read{} (inline)
        4 call c2 slow_book{} (inline)
        5 call c3 slow_pay{} (inline)
        6 call c4 look{} (inline)
        7 step finished: ToolUse, 100+10 tokens: [c1 slow_read{}, c2 slow_book{}, c3 slow_pay{}, c4 look{}]
        8 intent c1 as e1 (ReadOnly)
        9 intent c2 as e2 (Idempotent)
        10 intent c3 as e3 (Effectful)
        11 intent c4 as e4 (ReadOnly)
        12 result c4: "look ran with {}"
        13 result c3 error: "Tool call interrupted: the server stopped while it ran. Whether it had its effect is unknown; check before you call it again"
        14 intent c1 as e1 (ReadOnly)
        15 intent c2 as e2 (Idempotent)
        16 result c2: "slow_book ran with {}"
        17 result c1: "slow_read ran with {}"
        18 step 2 with test/one
        19 text "I see."
        20 step finished: Stop, 100+10 tokens: "I see."
        21 ended, 200+20 tokens: completed
    "#]].assert_eq(&world.rested().await);
    let runs: Vec<_> =
        world.setup.ledger.runs_by_effect().into_iter().map(|((name, _), count)| (name, count)).collect();
    let runs: Vec<_> = runs.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(runs, [("look", 1), ("slow_book", 2), ("slow_pay", 1), ("slow_read", 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_granted_call_that_a_crash_interrupted_is_not_asked_for_again() {
    let gate = Gate::closed();
    let setup = Setup::new([vec![call("transfer", "{}"), stop()], vec![say("Well."), stop()]]).asking(
        "transfer",
        EffectClass::Idempotent,
        Behaviour::Gated(gate.clone()),
    );
    let world = World::start(setup).await;
    world.act(Act::User("go")).await;
    world.submit(world.answers(vec![grant("c1")])).await.unwrap();
    gate.waiting(1).await;
    let world = world.restart().await;
    gate.waiting(1).await;
    gate.open();
    expect![[r#"
        1 turn started in a new session: user: "go"
        2 step 1 with test/one
        3 call c1 transfer{} (asks)
        4 step finished: ToolUse, 100+10 tokens: [c1 transfer{}]
        5 form f1 for c1, approval: "Allow transfer?"
        6 waiting for permission of c1 transfer
        7 resumed: c1 granted
        8 intent c1 as e1 (Idempotent)
        9 intent c1 as e1 (Idempotent)
        10 result c1: "transfer ran with {}"
        11 step 2 with test/one
        12 text "Well."
        13 step finished: Stop, 100+10 tokens: "Well."
        14 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&world.rested().await);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_turn_stays_waiting_and_can_be_answered() {
    let world = World::start(Setup::new([vec![call("weather", "{}"), stop()], vec![say("Sunny."), stop()]])).await;
    let before = world.act(Act::User("weather?")).await;
    let world = world.restart().await;
    assert_eq!(format!("> weather?\n{}", world.rested().await), before);
    expect![[r#"
        > answers
        6 resumed: c1 gave "sun"
        7 step 2 with test/one
        8 text "Sunny."
        9 step finished: Stop, 100+10 tokens: "Sunny."
        10 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&world.act(Act::Answers(vec![result("c1", "sun")])).await);
}

#[tokio::test(start_paused = true)]
async fn a_turn_goes_on_with_the_model_that_it_had_fallen_back_on() {
    let one = ScriptedModel::new("test/one", [vec![fail(ModelErrorKind::Rejected)]]);
    let two = ScriptedModel::new("test/two", [vec![say("Half"), Beat::Silence], vec![say("Whole"), stop()]]);
    let world = World::start(Setup::with_models([one, two.clone()])).await;
    world.begin("hi").await;
    until(async || world.log().await.len() == 5).await;
    let world = world.restart().await;
    expect![[r#"
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 model changed to test/two: provider says Rejected
        4 step restarted after 0, 0+0 tokens: provider says Rejected
        5 text "Half"
        6 step restarted after 0, 127+1 tokens: the server stopped while the model was answering
        7 text "Whole"
        8 step finished: Stop, 100+10 tokens: "Whole"
        9 ended, 227+11 tokens: completed
    "#]]
    .assert_eq(&world.rested().await);
    assert_eq!(two.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_agent_is_gone_ends_and_says_so() {
    let world = World::start(Setup::new([vec![say("Half"), Beat::Silence]])).await;
    world.begin("hi").await;
    until(async || world.log().await.len() == 3).await;
    let mut world = world;
    world.store = world.store.crash();
    let mut other = world.setup.agent.clone();
    other.name = "other".to_owned();
    world.engine = world.setup.start_with(world.store.clone(), vec![other]).await.unwrap();
    expect![[r#"
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 text "Half"
        4 step restarted after 0, 36+1 tokens: the server stopped while the model was answering
        5 step finished: Aborted, 0+0 tokens: ""
        6 ended, 36+1 tokens: failed LLM_PROVIDER_ERROR (for good): agent "tester" is not configured on this server any more
    "#]].assert_eq(&world.rested().await);
    let error = world.submit(world.message("hello?")).await.unwrap_err();
    assert_eq!(error.to_string(), r#"there is no agent "tester"; there are: other"#);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_gone_is_reported() {
    let gate = Gate::closed();
    let setup = Setup::new([vec![call("old", "{}"), stop()], vec![say("Pity."), stop()]]).trusted(
        "old",
        EffectClass::ReadOnly,
        Behaviour::Gated(gate.clone()),
    );
    let mut world = World::start(setup).await;
    world.begin("go").await;
    gate.waiting(1).await;
    world.setup.tools.retain(|tool| tool.spec().name != "old");
    let world = world.restart().await;
    expect![[r#"
        1 turn started in a new session: user: "go"
        2 step 1 with test/one
        3 call c1 old{} (inline)
        4 step finished: ToolUse, 100+10 tokens: [c1 old{}]
        5 intent c1 as e1 (ReadOnly)
        6 result c1 error: "Tool call not run: this server has no tool \"old\" any more"
        7 step 2 with test/one
        8 text "Pity."
        9 step finished: Stop, 100+10 tokens: "Pity."
        10 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&world.rested().await);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_the_step_and_its_tools_finish_and_the_next_start_goes_on() {
    let gate = Gate::closed();
    let setup = Setup::new([
        vec![say("Looking"), Beat::Gate(gate.clone()), call("look", "{}"), stop()],
        vec![say("Found"), stop()],
    ]);
    let world = World::start(setup).await;
    let started = world.begin("hi").await;
    gate.waiting(1).await;
    let mut reader = world.read_leg(&started, &FRAMES);
    let begun = Instant::now();
    let shutdown = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.shutdown(Duration::from_secs(10)).await }
    });
    until(async || world.trouble().is_some()).await;
    assert_eq!(world.trouble().as_deref(), Some("the server is shutting down"));
    let refused = world.submit(world.message("more")).await.unwrap_err();
    assert!(matches!(refused, SubmitError::Refused(_) | SubmitError::ShuttingDown), "{refused:?}");
    world.new_session();
    let refused = world.engine.submit(world.message("another")).await.unwrap_err();
    assert!(matches!(refused, SubmitError::ShuttingDown), "{refused:?}");
    tokio::time::sleep(Duration::from_secs(3)).await;
    gate.open();
    shutdown.await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(4), "the shutdown waited for more than the step");
    let frames = read_all(&mut reader).await;
    assert!(!frames.last().unwrap().closes(), "the stream ended because the server did");

    let world = world.restart_in(started.session.clone()).await;
    expect![[r#"
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 text "Looking"
        4 call c1 look{} (inline)
        5 step finished: ToolUse, 100+10 tokens: ["Looking", c1 look{}]
        6 intent c1 as e1 (ReadOnly)
        7 result c1: "look ran with {}"
        8 step 2 with test/one
        9 text "Found"
        10 step finished: Stop, 100+10 tokens: "Found"
        11 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&world.rested().await);
    let all = all_frames(&world.store, &started.session, &started.turn).await;
    assert!(all.starts_with(&frames));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_beyond_its_grace() {
    let gate = Gate::closed();
    let model = ScriptedModel::new(
        "test/one",
        [
            vec![call("endless", "{}"), stop()],
            vec![say("silent"), Beat::Silence],
            vec![say("Done"), stop()],
            vec![say("Done"), stop()],
        ],
    );
    let setup =
        Setup::with_models([model.clone()]).trusted("endless", EffectClass::ReadOnly, Behaviour::Gated(gate.clone()));
    let world = World::start(setup).await;
    let with_tool = world.begin("one").await;
    gate.waiting(1).await;
    world.new_session();
    let silent = world.begin("two").await;
    until(async || world.log().await.len() == 3).await;
    let mut readers = [world.read_leg(&with_tool, &FRAMES), world.read_leg(&silent, &FRAMES)];

    let begun = Instant::now();
    world.shutdown(Duration::from_secs(5)).await;
    assert!(begun.elapsed() <= Duration::from_secs(6), "{:?}", begun.elapsed());
    assert_eq!((model.under_way(), world.setup.ledger.running()), (0, 0), "work goes on after the shutdown");
    for reader in &mut readers {
        assert!(!read_all(reader).await.last().unwrap().closes());
    }

    let world = world.restart().await;
    gate.open();
    expect![[r#"
        1 turn started in a new session: user: "two"
        2 step 1 with test/one
        3 text "silent"
        4 step restarted after 0, 158+2 tokens: the server stopped while the model was answering
        5 text "Done"
        6 step finished: Stop, 100+10 tokens: "Done"
        7 ended, 258+12 tokens: completed
    "#]]
    .assert_eq(&world.rested().await);
    let world = world.in_session(with_tool.session.clone());
    expect![[r#"
        1 turn started in a new session: user: "one"
        2 step 1 with test/one
        3 call c1 endless{} (inline)
        4 step finished: ToolUse, 100+10 tokens: [c1 endless{}]
        5 intent c1 as e1 (ReadOnly)
        6 intent c1 as e1 (ReadOnly)
        7 result c1: "endless ran with {}"
        8 step 2 with test/one
        9 text "Done"
        10 step finished: Stop, 100+10 tokens: "Done"
        11 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&world.rested().await);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_refused_before_the_crash_used_nothing() {
    let wait = Duration::from_secs(20);
    let scripts = [vec![fail_after(ModelErrorKind::RateLimited, wait)], vec![say("Hello"), stop()]];
    let world = World::start(Setup::new(scripts)).await;
    world.begin("hi").await;
    // The refusal is recorded, and the turn waits to try again.
    until(async || world.log().await.len() == 3).await;
    let world = world.restart().await;
    expect![[r#"
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 step restarted after 1, 0+0 tokens: provider says RateLimited
        4 step restarted after 1, 0+0 tokens: the server stopped while the model was answering
        5 text "Hello"
        6 step finished: Stop, 100+10 tokens: "Hello"
        7 ended, 100+10 tokens: completed
    "#]]
    .assert_eq(&world.rested().await);
}
