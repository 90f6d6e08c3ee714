//! Tool calls: who answers them, in which order, and what happens when they cannot run.

use everturn_core::{EffectClass, Message, ModelOptions, ToolChoice, submission::Submission};
use everturn_engine::Submit;
use expect_test::expect;

use super::harness::*;

#[tokio::test(start_paused = true)]
async fn a_trusted_tool_runs_inline() {
    let setup =
        Setup::new([vec![say("Looking."), call("look", r#"{"text": "x"}"#), stop()], vec![say("Found it."), stop()]]);
    check(
        setup,
        [Act::User("look for x"), Act::History],
        expect![[r#"
            > look for x
            1 turn started in a new session: user: "look for x"
            2 step 1 with test/one
            3 text "Looking."
            4 call c1 look{"text": "x"} (inline)
            5 step finished: ToolUse, 100+10 tokens: ["Looking.", c1 look{"text": "x"}]
            6 intent c1 as e1 (ReadOnly)
            7 result c1: "look ran with {\"text\": \"x\"}"
            8 step 2 with test/one
            9 text "Found it."
            10 step finished: Stop, 100+10 tokens: "Found it."
            11 ended, 200+20 tokens: completed
            > history
            user: "look for x"
            assistant: ["Looking.", c1 look{"text": "x"}]
            result c1: "look ran with {\"text\": \"x\"}"
            assistant: "Found it."
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn parallel_tools_begin_once_all_intents_are_durable_and_answer_in_call_order() {
    let (first, second) = (Gate::closed(), Gate::closed());
    let setup = Setup::new([
        vec![call("slow_a", "{}"), call("slow_b", "{}"), call("look", "{}"), stop()],
        vec![say("Done."), stop()],
    ])
    .trusted("slow_a", EffectClass::Effectful, Behaviour::Gated(first.clone()))
    .trusted("slow_b", EffectClass::Effectful, Behaviour::Gated(second.clone()));
    let world = World::start(setup).await;
    let (store, early) = (world.store.clone(), std::sync::Arc::new(std::sync::Mutex::new(Vec::new())));
    let seen = std::sync::Arc::clone(&early);
    world.setup.ledger.on_run(move |context| seen.lock().unwrap().push(durable_intents(&store, &context.turn)));

    let started = world.begin("go").await;
    first.waiting(1).await;
    second.waiting(1).await;
    second.open();
    second.waiting(0).await;
    world.setup.ledger.until_running(1).await;
    first.open();
    let transcript = world.transcript(&started).await;

    assert_eq!(*early.lock().unwrap(), [3, 3, 3], "a tool ran before all intents were durable");
    expect![[r#"
        1 turn started in a new session: user: "go"
        2 step 1 with test/one
        3 call c1 slow_a{} (inline)
        4 call c2 slow_b{} (inline)
        5 call c3 look{} (inline)
        6 step finished: ToolUse, 100+10 tokens: [c1 slow_a{}, c2 slow_b{}, c3 look{}]
        7 intent c1 as e1 (Effectful)
        8 intent c2 as e2 (Effectful)
        9 intent c3 as e3 (ReadOnly)
        10 result c3: "look ran with {}"
        11 result c2: "slow_b ran with {}"
        12 result c1: "slow_a ran with {}"
        13 step 2 with test/one
        14 text "Done."
        15 step finished: Stop, 100+10 tokens: "Done."
        16 ended, 200+20 tokens: completed
        > history
        user: "go"
        assistant: [c1 slow_a{}, c2 slow_b{}, c3 look{}]
        result c1: "slow_a ran with {}"
        result c2: "slow_b ran with {}"
        result c3: "look ran with {}"
        assistant: "Done."
    "#]]
    .assert_eq(&(transcript + &world.act(Act::History).await));
}

fn durable_intents(store: &everturn_store::SimStore, turn: &everturn_core::TurnId) -> usize {
    use everturn_store::Store as _;
    use futures_util::FutureExt as _;
    let segments = store.read(turn, 0, usize::MAX).now_or_never().expect("reads do not wait").unwrap();
    let events = segments.iter().flat_map(everturn_core::Segment::events);
    events.filter(|event| event.as_ref().unwrap().kind == everturn_core::Kind::TOOL_INTENDED).count()
}

#[tokio::test(start_paused = true)]
async fn a_mixed_step_shows_all_calls_then_runs_what_it_may_then_waits() {
    let setup = Setup::new([
        vec![call("weather", "{}"), call("weather", "{}"), call("look", "{}"), call("pay", "{}"), stop()],
        vec![say("Done."), stop()],
    ]);
    let answers = vec![grant("c4"), result("c2", "two"), result("c1", "one")];
    check(
        setup,
        [Act::User("go"), Act::Answers(answers), Act::History],
        expect![[r#"
            > go
            1 turn started in a new session: user: "go"
            2 step 1 with test/one
            3 call c1 weather{} (client)
            4 call c2 weather{} (client)
            5 call c3 look{} (inline)
            6 call c4 pay{} (asks)
            7 step finished: ToolUse, 100+10 tokens: [c1 weather{}, c2 weather{}, c3 look{}, c4 pay{}]
            8 intent c3 as e1 (ReadOnly)
            9 result c3: "look ran with {}"
            10 form f4 for c4, approval: "Allow pay?"
            11 waiting for result of c1 weather, result of c2 weather, permission of c4 pay
            > answers
            12 resumed: c4 granted, c2 gave "two", c1 gave "one"
            13 intent c4 as e2 (Effectful)
            14 result c4: "pay ran with {}"
            15 step 2 with test/one
            16 text "Done."
            17 step finished: Stop, 100+10 tokens: "Done."
            18 ended, 200+20 tokens: completed
            > history
            user: "go"
            assistant: [c1 weather{}, c2 weather{}, c3 look{}, c4 pay{}]
            result c3: "look ran with {}"
            result c1: "one"
            result c2: "two"
            result c4: "pay ran with {}"
            assistant: "Done."
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn calls_that_cannot_run_are_answered_at_once() {
    let setup = Setup::new([
        vec![
            call("nosuch", "{}"),
            call("disabled", "{}"),
            call("look", r#"{"text": 1}"#),
            call("pay", r#"{"text": 2}"#),
            bad_call("look", "[1, 2"),
            call("hidden", "{}"),
            stop(),
        ],
        vec![say("Sorry."), stop()],
    ])
    .with_tool("disabled", EffectClass::ReadOnly, Behaviour::Echo)
    .with_tool("hidden", EffectClass::ReadOnly, Behaviour::Echo)
    .agent(|agent| {
        agent.tools.retain(|name| name != "hidden");
        agent.internal_tools = vec!["hidden".to_owned()];
    });
    let ledger = setup.ledger.clone();
    check(setup, [Act::User("go")], expect![[r#"
        > go
        1 turn started in a new session: user: "go"
        2 step 1 with test/one
        3 call c1 nosuch{} (refused: "There is no tool \"nosuch\" in this session")
        4 call c2 disabled{} (refused: "There is no tool \"disabled\" in this session")
        5 call c3 look{"text": 1} (refused: "the input does not fit the tool's schema:\n- at /text: 1 is not of type \"string\"")
        6 call c4 pay{"text": 2} (refused: "the input does not fit the tool's schema:\n- at /text: 2 is not of type \"string\"")
        7 call c5 look{} (refused: "The input of look is not a JSON object: [1, 2")
        8 call c6 hidden{} (inline)
        9 step finished: ToolUse, 100+10 tokens: [c1 nosuch{}, c2 disabled{}, c3 look{"text": 1}, c4 pay{"text": 2}, c5 look{}, c6 hidden{}]
        10 result c1 error: "There is no tool \"nosuch\" in this session"
        11 result c2 error: "There is no tool \"disabled\" in this session"
        12 result c3 error: "the input does not fit the tool's schema:\n- at /text: 1 is not of type \"string\""
        13 result c4 error: "the input does not fit the tool's schema:\n- at /text: 2 is not of type \"string\""
        14 result c5 error: "The input of look is not a JSON object: [1, 2"
        15 intent c6 as e1 (ReadOnly)
        16 result c6: "hidden ran with {}"
        17 step 2 with test/one
        18 text "Sorry."
        19 step finished: Stop, 100+10 tokens: "Sorry."
        20 ended, 200+20 tokens: completed
    "#]]).await;
    assert_eq!(ledger.names(), ["hidden"]);
}

#[tokio::test(start_paused = true)]
async fn tools_that_fail_do_not_end_the_turn() {
    let setup = Setup::new([
        vec![
            call("broken", "{}"),
            call("panicky", "{}"),
            call("rash", "{}"),
            call("huge", "{}"),
            call("endless", "{}"),
            stop(),
        ],
        vec![say("Oh."), stop()],
    ])
    .trusted("broken", EffectClass::Effectful, Behaviour::Fails("no ink"))
    .trusted("panicky", EffectClass::Effectful, Behaviour::Panics)
    .trusted("rash", EffectClass::Effectful, Behaviour::PanicsAtOnce)
    .trusted("huge", EffectClass::Effectful, Behaviour::Huge(5000))
    .trusted("endless", EffectClass::Effectful, Behaviour::Gated(Gate::closed()));
    check(setup, [Act::User("go")], expect![[r#"
        > go
        1 turn started in a new session: user: "go"
        2 step 1 with test/one
        3 call c1 broken{} (inline)
        4 call c2 panicky{} (inline)
        5 call c3 rash{} (inline)
        6 call c4 huge{} (inline)
        7 call c5 endless{} (inline)
        8 step finished: ToolUse, 100+10 tokens: [c1 broken{}, c2 panicky{}, c3 rash{}, c4 huge{}, c5 endless{}]
        9 intent c1 as e1 (Effectful)
        10 intent c2 as e2 (Effectful)
        11 intent c3 as e3 (Effectful)
        12 intent c4 as e4 (Effectful)
        13 intent c5 as e5 (Effectful)
        14 result c1 error: "Error: no ink"
        15 result c2 error: "Error: the tool crashed; this is a fault of the tool"
        16 result c3 error: "Error: the tool crashed; this is a fault of the tool"
        17 result c4: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n[cut: 5000 bytes, the first 100 are shown]"
        18 result c5 error: "Tool call timed out: it gave no sign of life for 30s, which is its limit (`timeout`). Whether it had its effect is unknown; check before you call it again"
        19 step 2 with test/one
        20 text "Oh."
        21 step finished: Stop, 100+10 tokens: "Oh."
        22 ended, 200+20 tokens: completed
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn more_calls_than_one_answer_may_make_are_refused() {
    let calls = (0..70).map(|_| call("look", "{}")).chain([stop()]).collect();
    let setup = Setup::new([calls, vec![say("Many."), stop()]]);
    let ledger = setup.ledger.clone();
    let world = World::start(setup).await;
    let transcript = world.act(Act::User("go")).await;
    assert_eq!(ledger.runs().len(), 64);
    let refused = transcript.lines().filter(|line| line.contains("one answer may make 64 calls at most"));
    // Each is refused when it is called and answered when the step is done.
    assert_eq!(refused.count(), 12);
    assert!(transcript.ends_with("completed\n"), "{transcript}");
}

/// A model that must call one of the application's tools may call the agent's own first, but not for ever.
#[tokio::test(start_paused = true)]
async fn a_forced_call_comes_at_last() {
    let model = ScriptedModel::thinking("test/one", |request| {
        let name = request.tools.first().map_or("none", |tool| tool.name.as_str());
        vec![call(name, r#"{"text": "x"}"#), stop()]
    });
    let setup = Setup::with_models([std::sync::Arc::clone(&model)]);
    let setup = setup.client("ask");
    let world = World::start(setup).await;
    let options = ModelOptions { tool_choice: Some(ToolChoice::Required), ..ModelOptions::default() };
    let begin = world.submission(Submission::Begin(vec![Message::user("go")]), Default::default());
    let started = world.submit(Submit { options, ..begin }).await.unwrap();
    let transcript = world.transcript(&started).await;
    let offered: Vec<_> = model.requests().iter().map(|request| request.tools.len()).collect();
    assert_eq!(offered, [offered[0], offered[0], offered[0], offered[0], offered[0], 2], "{transcript}");
    assert!(model.requests()[5].tools.iter().any(|tool| tool.name == "ask"), "{transcript}");
}
