//! Turns that wait for time: timers, and providers that ask to slow down. The clock on the wall decides, so those that
//! are woken wait for a moment that has passed, or for a few milliseconds.

use std::time::Duration;

use everturn_core::{
    Answer, Event, FailureCode, Outcome, WaitingCall,
    submission::{OnBusy, Refused, Submission},
};
use everturn_engine::{Started, SubmitError};
use everturn_models::ModelErrorKind::RateLimited;
use everturn_store::TurnStatus;
use expect_test::expect;

use super::harness::*;

/// A wait that is over as soon as it begins.
const PAST: &str = r#"{"until": "2020-01-01T00:00:00Z"}"#;
/// One that is never over, as far as tests are concerned.
const DAY: &str = r#"{"seconds": 86400}"#;
const MOMENT: &str = r#"{"seconds": 0.005}"#;

fn waits(calls: &[(&str, &str)]) -> Setup {
    let mut script: Script = calls.iter().map(|(name, input)| call(name, input)).collect();
    script.push(stop());
    Setup::new([script, vec![say("Time is up."), stop()]]).builtin("wait")
}

#[tokio::test]
async fn a_turn_waits_for_a_while_and_goes_on() {
    let world = World::start(waits(&[("wait", MOMENT)])).await;
    let started = world.begin("later").await;
    expect![[r#"
        1 turn started in a new session: user: "later"
        2 step 1 with test/one
        3 call c1 wait{"seconds": 0.005} (inline)
        4 step finished: ToolUse, 100+10 tokens: [c1 wait{"seconds": 0.005}]
        5 intent c1 as e1 (ReadOnly)
        6 timer c1 set
        7 waiting for timer of c1 wait
        8 resumed: c1 elapsed
        9 result c1: "The wait is over."
        10 step 2 with test/one
        11 text "Time is up."
        12 step finished: Stop, 100+10 tokens: "Time is up."
        13 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&world.end_of(&started.turn).await);
    let log = world.log_of(&started.turn).await;
    let (mut set, mut waited) = (None, None);
    for (_, event) in &log {
        match event {
            Event::TimerSet { from, wake_at, .. } => set = Some(wake_at.millis() - from.millis()),
            Event::ToolFinished { duration_ms, .. } => waited = Some(*duration_ms),
            _ => {}
        }
    }
    assert_eq!(set, Some(5));
    assert!(waited.is_some_and(|waited| waited >= 5), "woken too early: {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_until_a_moment_that_has_passed_is_over_at_once() {
    let world = World::start(waits(&[("wait", PAST)])).await;
    let started = world.begin("later").await;
    assert!(world.end_of(&started.turn).await.ends_with("completed\n"));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_gives_its_slot_back() {
    let model = ScriptedModel::thinking("test/one", |request| match request.messages.first() {
        Some(everturn_core::Message::User { content }) if content.text() == "later" => vec![call("wait", DAY), stop()],
        _ => vec![say("At once."), stop()],
    });
    let setup = Setup::with_models([model]).builtin("wait").settings(|settings| settings.concurrent_turns = 1);
    let world = World::start(setup).await;
    world.act(Act::User("later")).await;
    world.new_session();
    assert!(world.act(Act::User("now")).await.ends_with("completed\n"));
}

#[tokio::test]
async fn a_timer_elapses_after_a_restart() {
    let world = World::start(waits(&[("wait", r#"{"seconds": 0.1}"#)])).await;
    let started = world.begin("later").await;
    world.transcript(&started).await;
    let world = world.restart().await;
    assert!(world.end_of(&started.turn).await.contains("resumed: c1 elapsed"));
}

#[tokio::test]
async fn a_timer_that_elapsed_while_no_server_ran_is_over_at_the_next_start() {
    let world = World::start(waits(&[("wait", r#"{"seconds": 0.05}"#)])).await;
    let started = world.begin("later").await;
    world.transcript(&started).await;
    let mut world = world;
    world.engine.shutdown(Duration::ZERO).await;
    world.store = world.store.crash();
    tokio::time::sleep(Duration::from_millis(60)).await;
    world.engine = world.setup.start(world.store.clone()).await.unwrap();
    assert!(world.end_of(&started.turn).await.ends_with("completed\n"));
}

/// The process dies with each commit in turn, kept or not: the timer is set once, and the turn ends.
#[tokio::test(start_paused = true)]
async fn a_crash_at_every_point_of_a_wait() {
    for commit in 1..14 {
        for kept in [false, true] {
            let model = ScriptedModel::thinking("test/one", |request| match request.messages.last() {
                Some(everturn_core::Message::Tool { .. }) => vec![say("Time is up."), stop()],
                _ => vec![call("wait", PAST), stop()],
            });
            let mut world = World::start(Setup::with_models([model]).builtin("wait")).await;
            let dying = CrashStore::new(world.store.clone(), Some(Death { commit, kept }));
            world.engine = world.setup.start(dying.clone()).await.unwrap();
            let talk = async {
                world.begin("later").await;
                world.idle().await;
            };
            tokio::select! { () = talk => {}, () = dying.dead() => {} }
            let sessions = world.sessions(&world.tenant, None, 10).await.unwrap();
            let Some(row) = sessions.first() else { continue };
            let world = world.restart_in(row.session.id.clone()).await;
            world.idle().await;
            let transcript = world.stored().await;
            assert!(transcript.ends_with("completed\n"), "commit {commit}, kept: {kept}\n{transcript}");
            assert_eq!(transcript.matches("timer c1 set").count(), 1, "{transcript}");
            assert_eq!(transcript.matches("resumed: c1 elapsed").count(), 1, "{transcript}");
        }
    }
}

/// The application is waited for first; nobody takes the turn up in between, since it could do nothing.
#[tokio::test(start_paused = true)]
async fn a_timer_beside_a_tool_of_the_application() {
    let world = World::start(waits(&[("wait", PAST), ("weather", "{}"), ("wait", DAY)])).await;
    let started = world.begin("later").await;
    world.transcript(&started).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.turns().await, "1 \"later\" waiting\n");
    let refused = world.submit(world.answers(vec![result("c1", "now!")])).await.unwrap_err();
    assert_eq!(world.shortened(refused.to_string()), "tool call c1 (wait) is a timer; it needs no answer");
    world.submit(world.answers(vec![result("c2", "sun")])).await.unwrap();
    until(async || world.log().await.len() == 16).await;
    expect![[r#"
        1 turn started in a new session: user: "later"
        2 step 1 with test/one
        3 call c1 wait{"until": "2020-01-01T00:00:00Z"} (inline)
        4 call c2 weather{} (client)
        5 call c3 wait{"seconds": 86400} (inline)
        6 step finished: ToolUse, 100+10 tokens: [c1 wait{"until": "2020-01-01T00:00:00Z"}, c2 weather{}, c3 wait{"seconds": 86400}]
        7 intent c1 as e1 (ReadOnly)
        8 intent c3 as e2 (ReadOnly)
        9 timer c1 set
        10 timer c3 set
        11 waiting for timer of c1 wait, result of c2 weather, timer of c3 wait
        12 resumed: c2 gave "sun"
        13 waiting for timer of c1 wait, timer of c3 wait
        14 resumed: c1 elapsed
        15 result c1: "The wait is over."
        16 waiting for timer of c3 wait
    "#]]
    .assert_eq(&world.rest_of(&started.turn).await);
}

#[tokio::test(start_paused = true)]
async fn a_wait_may_need_permission() {
    let mut setup = waits(&[("wait", PAST)]);
    for tool in setup.update.tools.iter_mut().flatten() {
        tool.trust = false;
    }
    let world = World::start(setup).await;
    let started = world.begin("later").await;
    world.transcript(&started).await;
    world.submit(world.answers(vec![grant("c1")])).await.unwrap();
    expect![[r#"
        1 turn started in a new session: user: "later"
        2 step 1 with test/one
        3 call c1 wait{"until": "2020-01-01T00:00:00Z"} (asks)
        4 step finished: ToolUse, 100+10 tokens: [c1 wait{"until": "2020-01-01T00:00:00Z"}]
        5 form f1 for c1, approval: "Allow wait?"
        6 waiting for permission of c1 wait
        7 resumed: c1 granted
        8 intent c1 as e1 (ReadOnly)
        9 timer c1 set
        10 waiting for timer of c1 wait
        11 resumed: c1 elapsed
        12 result c1: "The wait is over."
        13 step 2 with test/one
        14 text "Time is up."
        15 step finished: Stop, 100+10 tokens: "Time is up."
        16 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&world.end_of(&started.turn).await);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_cannot_be_is_refused() {
    for input in ["{}", r#"{"seconds": 1, "until": "2020-01-01T00:00:00Z"}"#, r#"{"until": "9999-01-01T00:00:00Z"}"#] {
        let world = World::start(waits(&[("wait", input)])).await;
        let transcript = world.act(Act::User("later")).await;
        assert!(transcript.contains("result c1 error"), "{transcript}");
        assert!(transcript.ends_with("completed\n"), "{transcript}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_message_takes_the_place_of_a_wait() {
    let world = World::start(waits(&[("wait", DAY)])).await;
    let started = world.begin("later").await;
    world.transcript(&started).await;
    assert!(world.act(Act::User("never mind")).await.ends_with("completed\n"));
    let transcript = world.end_of(&started.turn).await;
    assert!(
        transcript.contains(r#"result c1 error: "Tool call skipped: the user sent a new message""#),
        "{transcript}"
    );
}

/// Public clients of AAP send a permission for every call without a result.
#[tokio::test(start_paused = true)]
async fn a_permission_for_a_timer_does_not_refuse_the_answers_beside_it() {
    let world = World::start(waits(&[("wait", DAY), ("pay", "{}")])).await;
    let started = world.begin("later").await;
    let waiting_for = async |started: &Started| match leg_of(&world.engine, started).await.pop() {
        Some((_, Event::Waiting(wait))) => wait.calls,
        other => panic!("{other:?}"),
    };
    let permit = |calls: &[WaitingCall]| {
        let permit = |call: &WaitingCall| Answer::Permission { call_id: call.id.clone(), granted: true, reason: None };
        world.submission(Submission::Answers(calls.iter().map(permit).collect()), Default::default())
    };
    let calls = waiting_for(&started).await;
    assert_eq!(calls.len(), 2);
    let started = world.engine.submit(permit(&calls)).await.expect("the timer needs no answer");
    let left = waiting_for(&started).await;
    assert_eq!(left, calls[..1]);
    let refused = world.engine.submit(permit(&left)).await.unwrap_err();
    assert!(matches!(refused, SubmitError::Refused(Refused::AnswerForTimer { .. })), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn messages_wait_behind_a_wait() {
    let scripts = [vec![call("wait", PAST), stop()], vec![say("Time is up."), stop()], vec![say("Next."), stop()]];
    let world = World::start(Setup::new(scripts).builtin("wait")).await;
    world.begin("later").await;
    let next = world.send("next", OnBusy::Enqueue).await.unwrap();
    world.end_of(&next.turn).await;
    assert_eq!(world.turns().await, "1 \"later\" completed\n2 \"next\" completed\n");
}

/// A provider that asks for a longer pause than a turn waits for at work.
fn limited(wait: Duration, then: Script) -> Setup {
    Setup::new([vec![fail_after(RateLimited, wait)], then])
        .settings(|settings| settings.retry_max = Duration::from_millis(10))
}

#[tokio::test]
async fn a_provider_that_asks_to_slow_down_for_long_is_waited_for_at_rest() {
    let world = World::start(limited(Duration::from_millis(20), vec![say("Hello"), stop()])).await;
    let started = world.begin("hi").await;
    expect![[r#"
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 step restarted after 1, 0+0 tokens: provider says RateLimited
        4 waiting for the provider
        5 resumed
        6 text "Hello"
        7 step finished: Stop, 100+10 tokens: "Hello"
        8 ended, 100+10 tokens: completed
    "#]]
    .assert_eq(&world.end_of(&started.turn).await);
}

#[tokio::test]
async fn a_pause_for_the_provider_survives_a_restart() {
    let world = World::start(limited(Duration::from_millis(100), vec![say("Hello"), stop()])).await;
    let started = world.begin("hi").await;
    world.transcript(&started).await;
    let world = world.restart().await;
    assert!(world.end_of(&started.turn).await.ends_with("completed\n"));
}

/// What the attempt after a pause has said is void when a crash cuts it off, and is said to be.
#[tokio::test]
async fn a_crash_after_a_pause_voids_what_was_said_since() {
    let scripts = [
        vec![fail_after(RateLimited, Duration::from_millis(20))],
        vec![say("Half an ans"), Beat::Silence],
        vec![say("Whole"), stop()],
    ];
    let setup = Setup::new(scripts).settings(|settings| settings.retry_max = Duration::from_millis(10));
    let world = World::start(setup).await;
    let started = world.begin("hi").await;
    until(async || world.log().await.len() == 6).await;
    let world = world.restart().await;
    expect![[r#"
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 step restarted after 1, 0+0 tokens: provider says RateLimited
        4 waiting for the provider
        5 resumed
        6 text "Half an ans"
        7 step restarted after 1, 127+3 tokens: the server stopped while the model was answering
        8 text "Whole"
        9 step finished: Stop, 100+10 tokens: "Whole"
        10 ended, 227+13 tokens: completed
    "#]]
    .assert_eq(&world.end_of(&started.turn).await);
}

#[tokio::test]
async fn a_short_wait_for_the_provider_is_made_at_work() {
    let world = World::start(limited(Duration::from_millis(5), vec![say("Hello"), stop()])).await;
    expect![[r#"
        > hi
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 step restarted after 1, 0+0 tokens: provider says RateLimited
        4 text "Hello"
        5 step finished: Stop, 100+10 tokens: "Hello"
        6 ended, 100+10 tokens: completed
    "#]]
    .assert_eq(&world.act(Act::User("hi")).await);
}

/// However short the waits that it asks for: they would come to seconds, and a limit lasts for minutes.
#[tokio::test]
async fn a_provider_that_asks_to_slow_down_again_and_again_is_waited_for_at_rest() {
    let limited = (0..4).map(|_| vec![fail_after(RateLimited, Duration::from_millis(5))]);
    let setup = Setup::new(limited.chain([vec![say("Hello"), stop()]])).settings(|settings| {
        settings.retry_max = Duration::from_millis(10);
        settings.retries = 2;
    });
    let world = World::start(setup).await;
    let started = world.begin("hi").await;
    expect![[r#"
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 step restarted after 1, 0+0 tokens: provider says RateLimited
        4 step restarted after 2, 0+0 tokens: provider says RateLimited
        5 step restarted after 3, 0+0 tokens: provider says RateLimited
        6 waiting for the provider
        7 resumed
        8 step restarted after 4, 0+0 tokens: provider says RateLimited
        9 waiting for the provider
        10 resumed
        11 text "Hello"
        12 step finished: Stop, 100+10 tokens: "Hello"
        13 ended, 100+10 tokens: completed
    "#]]
    .assert_eq(&world.end_of(&started.turn).await);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_asks_for_no_time_is_not_asked_again_at_once() {
    let limited = (0..4).map(|_| vec![fail_after(RateLimited, Duration::ZERO)]);
    let setup = Setup::new(limited.chain([vec![say("Hello"), stop()]]));
    let world = World::start(setup).await;
    let begun = tokio::time::Instant::now();
    let transcript = world.act(Act::User("hi")).await;
    assert!(transcript.ends_with("completed\n"), "{transcript}");
    // Half of 0.5, 1, 2 and 4 seconds at least.
    assert!(begun.elapsed() >= Duration::from_millis(3750), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_provider_is_not_waited_for_again_and_again() {
    let scripts = (0..9).map(|_| vec![fail_after(RateLimited, Duration::from_millis(2))]);
    let setup = Setup::new(scripts).settings(|settings| {
        settings.retry_max = Duration::from_millis(1);
        settings.pause_max = Duration::from_millis(10);
        settings.retries = 3;
    });
    let world = World::start(setup).await;
    let started = world.begin("hi").await;
    let transcript = world.end_of(&started.turn).await;
    assert_eq!(transcript.matches("waiting for the provider").count(), 7, "{transcript}");
    let TurnStatus::Ended(Outcome::Failed { code, retryable, .. }) = world.turn_record(&started.turn).await.status
    else {
        panic!("{transcript}");
    };
    assert_eq!((code, retryable), (FailureCode::LlmRateLimited, true));
}

/// Another model is asked before anybody waits for long.
#[tokio::test(start_paused = true)]
async fn a_pause_is_made_only_where_there_is_nobody_else_to_ask() {
    let hour = Duration::from_secs(3600);
    let one = ScriptedModel::new("test/one", [vec![fail_after(RateLimited, hour)]]);
    let two = ScriptedModel::new("test/two", [vec![say("Hello"), stop()]]);
    let world = World::start(Setup::with_models([one, two])).await;
    let transcript = world.act(Act::User("hi")).await;
    assert!(transcript.contains("model changed to test/two") && transcript.ends_with("completed\n"), "{transcript}");
}
