//! What a provider has told of a call's tokens counts, also where the call is not brought to its end.

use std::time::Duration;

use everturn_core::{Day, Event, Timestamp, Usage};
use everturn_models::{ModelErrorKind, ModelEvent, ModelFinish};
use everturn_store::UsageCount;
use expect_test::expect;

use super::harness::*;

/// All that was counted: model calls, tokens read, tokens written.
async fn counted(world: &World) -> (u64, u64, u64) {
    let rows = world.engine.usage(&world.tenant, (Day(i32::MIN), Day(i32::MAX)), None, 100).await.unwrap();
    let mut sum = UsageCount::default();
    for row in rows {
        sum.calls += row.count.calls;
        sum.tokens += row.count.tokens;
    }
    (sum.calls, sum.tokens.input, sum.tokens.output)
}

/// What was counted, which is what the session and its turn say as well.
async fn check_counted(world: &World, expected: (u64, u64, u64)) {
    assert_eq!(counted(world).await, expected);
    let used = Usage::of(expected.1, expected.2);
    assert_eq!(world.state().await.usage, used, "what the turn says");
    let session = world.engine.session(&world.tenant, &world.session()).await.unwrap().unwrap();
    assert_eq!(session.usage, used, "what the session says");
    check_session(&world.store, &world.engine, &world.tenant, &world.session()).await;
}

/// Begins a turn, and waits until the log tells this.
async fn begun(setup: Setup, until_told: &str) -> World {
    let world = World::start(setup).await;
    world.begin("hi").await;
    reaches(&world, until_told).await;
    world
}

async fn reaches(world: &World, told: &str) {
    until(async || world.log().await.iter().any(|(_, event)| format!("{event:?}").contains(told))).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_stopped_has_used_what_was_told() {
    for (script, used) in [
        (vec![told(777, 1), say("Well"), Beat::Silence], (777, 1)),
        // The last word counts, whether or not it was written down.
        (vec![told(777, 1), say("Well"), told(777, 40), say(", so"), Beat::Silence], (777, 40)),
        (vec![told(777, 1), say("Well"), told(777, 4000), say(", so"), Beat::Silence], (777, 4000)),
        // More was written than was told.
        (vec![told(777, 1), say(&"word ".repeat(100)), say("Well, so"), Beat::Silence], (777, 102)),
        // What was not told is guessed.
        (vec![told(0, 30), say("Well, so"), Beat::Silence], (127, 30)),
        (vec![say("Well, so"), Beat::Silence], (127, 2)),
    ] {
        let told = format!("{script:?}");
        let until = if told.contains(", so") { ", so" } else { "Well" };
        let world = begun(Setup::new([script]), until).await;
        world.stop().await.unwrap();
        world.idle().await;
        check_counted(&world, (1, used.0, used.1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cut_has_used_what_was_told() {
    for (script, used) in [
        (vec![told(777, 1), say("Well"), told(777, 33), fail(ModelErrorKind::Unavailable)], (777, 33)),
        // It ends before it is complete.
        (vec![say("Well"), told(163, 78)], (163, 78)),
        // It had been read before it failed.
        (vec![told(777, 0), fail(ModelErrorKind::Unavailable)], (777, 0)),
        (vec![fail(ModelErrorKind::Unavailable)], (0, 0)),
    ] {
        let world = World::start(Setup::new([script, vec![say("So"), stop()]])).await;
        world.act(Act::User("hi")).await;
        check_counted(&world, (2, used.0 + 100, used.1 + 10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_told_of_a_void_attempt_counts_once() {
    let scripts = [vec![told(777, 3), say("Well"), fail(ModelErrorKind::Unavailable)], vec![Beat::Silence]];
    let model = ScriptedModel::new("test/one", scripts);
    let world = begun(Setup::with_models([model.clone()]), "StepRestarted").await;
    model.called(2).await;
    world.stop().await.unwrap();
    world.idle().await;
    // The second attempt was never answered.
    check_counted(&world, (1, 777, 3)).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_crash_ends_has_used_what_was_told() {
    for (script, until, used) in [
        (vec![told(777, 1), say("Well"), Beat::Silence], "Well", (777, 1)),
        // A little more than what is written down is not, for the time being.
        (vec![told(777, 1), say("Well"), told(777, 8), say(", so"), Beat::Silence], ", so", (777, 2)),
        (vec![told(777, 1), say("Well"), told(777, 9), say(", so"), Beat::Silence], ", so", (777, 9)),
        (vec![told(777, 1), say("Well"), told(777, 4000), say(", so"), Beat::Silence], ", so", (777, 4000)),
        // Nothing is said yet, but the input of a call comes.
        (vec![told(777, 1), call_begins(0, "look"), input(0, "{"), Beat::Silence], "StepUsed", (777, 1)),
    ] {
        let world = begun(Setup::new([script, vec![say("Yes"), stop()]]), until).await;
        let session = world.session();
        let world = world.restart_in(session).await;
        world.idle().await;
        check_counted(&world, (2, used.0 + 100, used.1 + 10)).await;
    }
}

#[tokio::test]
async fn a_pause_is_over_once_the_provider_tells_what_it_has_read() {
    let setup = Setup::new([
        vec![fail_after(ModelErrorKind::RateLimited, Duration::from_millis(20))],
        vec![told(777, 1), call_begins(0, "look"), Beat::Silence],
        vec![say("Yes"), stop()],
    ])
    .settings(|settings| settings.retry_max = Duration::from_millis(10));
    let world = begun(setup, "StepUsed").await;
    let session = world.session();
    let world = world.restart_in(session).await;
    world.idle().await;
    check_counted(&world, (3, 877, 11)).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_end_tells_nothing_has_used_what_was_told_before() {
    let script = vec![told(777, 9), say("Yes"), finish(ModelFinish::Stop, None)];
    let world = World::start(Setup::new([script])).await;
    world.act(Act::User("hi")).await;
    check_counted(&world, (1, 777, 9)).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_told_again_and_again_is_seldom_written_down() {
    let mut script = Vec::new();
    for piece in 1..=1000 {
        script.extend([told(777, piece * 3), say("x")]);
    }
    // Calls that are completed by the end of the answer, and what is told with it.
    script.extend([told(778, 9000), call("look", r#"{"text": "x"}"#), stop()]);
    let world = World::start(Setup::new([script, vec![say("Yes"), told(5, 5), stop()]])).await;
    world.act(Act::User("hi")).await;
    let told: Vec<_> = world.log().await.into_iter().filter(|(_, event)| matches!(event, Event::StepUsed(_))).collect();
    expect![[r#"
        3 told 777+3 tokens
        7 told 777+12 tokens
        12 told 777+24 tokens
        18 told 777+39 tokens
        25 told 777+57 tokens
        34 told 777+81 tokens
        45 told 777+111 tokens
        58 told 777+147 tokens
        74 told 777+192 tokens
        94 told 777+249 tokens
        119 told 777+321 tokens
        150 told 777+411 tokens
        188 told 777+522 tokens
        235 told 777+660 tokens
        294 told 777+834 tokens
        367 told 777+1050 tokens
        458 told 777+1320 tokens
        572 told 777+1659 tokens
        714 told 777+2082 tokens
        891 told 777+2610 tokens
    "#]]
    .assert_eq(&world.lines(&told));
    check_counted(&world, (2, 200, 20)).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_told_goes_with_the_deltas() {
    let setup = Setup::new([vec![told(777, 1), say("Well"), stop()]])
        .settings(|settings| settings.retention.deltas = Some(Duration::from_secs(60)));
    let world = World::start(setup).await;
    world.act(Act::User("hi")).await;
    world.clear_once(Timestamp(Timestamp::now().millis() + 120_000)).await.unwrap();
    expect![[r#"
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 2 events dropped
        5 step finished: Stop, 100+10 tokens: "Well"
        6 ended, 100+10 tokens: completed
    "#]]
    .assert_eq(&world.lines(&world.log().await));
    check_counted(&world, (1, 100, 10)).await;
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_is_not_brought_to_its_end_counts_as_well() {
    let long = "b".repeat(400);
    let model = ScriptedModel::thinking("test/one", move |request| {
        if request.system.is_empty() {
            return vec![told(777, 1), say("They"), told(777, 20), Beat::Silence];
        }
        vec![say(&long), stop()]
    });
    let model = model.with_window(480);
    let world = World::start(Setup::with_models([model.clone()])).await;
    let mut turns = 0;
    while !model.requests().iter().any(|request| request.system.is_empty()) {
        assert!(turns < 9, "there is nothing to summarise");
        world.begin(&"a".repeat(100)).await;
        turns += 1;
        model.called(turns).await;
        until(async || model.under_way() == 0 || model.requests().last().is_some_and(|last| last.system.is_empty()))
            .await;
        if model.under_way() == 0 {
            world.rested().await;
        }
    }
    world.stop().await.unwrap();
    world.idle().await;
    let answers = turns as u64 - 1;
    assert_eq!(counted(&world).await, (answers + 1, answers * 100 + 777, answers * 10 + 20));
}

/// The tokens that the log, the session and the sums of usage agree upon.
async fn tokens(world: &World) -> Usage {
    let rows = world.engine.usage(&world.tenant, (Day(i32::MIN), Day(i32::MAX)), None, 100).await.unwrap();
    let mut sum = Usage::default();
    rows.iter().for_each(|row| sum += row.count.tokens);
    let session = world.engine.session(&world.tenant, &world.session()).await.unwrap().unwrap();
    assert_eq!((world.state().await.usage, session.usage), (sum, sum));
    sum
}

#[tokio::test(start_paused = true)]
async fn details_that_were_told_are_kept() {
    let whole = Usage { input: 777, output: 40, cached_input: 700, cache_write: 50, reasoning: 30 };
    let used = |usage| Beat::Event(ModelEvent::Used(usage));
    // Of a call that is complete.
    let complete = finish(ModelFinish::Stop, Some(whole));
    let world = World::start(Setup::new([vec![say("Well"), complete]])).await;
    world.act(Act::User("hi")).await;
    assert_eq!(tokens(&world).await, whole);
    // Of one that was stopped; also where the provider did not tell what it had read.
    let unread = Usage { output: 40, reasoning: 30, ..Usage::default() };
    for (told, expected) in [(whole, whole), (unread, Usage { input: 127, ..unread })] {
        let world = begun(Setup::new([vec![used(told), say("Well, so"), Beat::Silence]]), ", so").await;
        world.stop().await.unwrap();
        world.idle().await;
        assert_eq!(tokens(&world).await, expected);
    }
    // Of one that a crash ended, and the call that took its place.
    let world =
        begun(Setup::new([vec![used(whole), say("Well"), Beat::Silence], vec![say("Yes"), stop()]]), "Well").await;
    let session = world.session();
    let world = world.restart_in(session).await;
    world.idle().await;
    assert_eq!(tokens(&world).await, Usage { input: whole.input + 100, output: whole.output + 10, ..whole });
}
