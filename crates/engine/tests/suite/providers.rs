//! Providers that fail: retries, waits, fallbacks, silence, and what is counted.

use std::time::Duration;

use everturn_core::{FailureCode, Outcome, Phase, Usage};
use everturn_models::{ModelError, ModelErrorKind, ModelEvent, ModelFinish};
use expect_test::expect;
use tokio::time::Instant;

use super::harness::*;

use ModelErrorKind::{Denied, RateLimited, Rejected, Timeout, Unavailable};

/// A turn's transcript, and how long it took.
async fn timed(setup: Setup) -> (String, Duration) {
    let world = World::start(setup).await;
    let begun = Instant::now();
    let transcript = world.act(Act::User("hi")).await;
    (transcript, begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_is_made_again_and_readers_are_told_what_is_void() {
    let setup = Setup::new([
        vec![think("Hm"), say("Half an an"), call("look", "{}"), fail(Unavailable)],
        vec![fail(Timeout)],
        vec![say("Whole"), stop()],
    ]);
    let ledger = setup.ledger.clone();
    let (transcript, elapsed) = timed(setup).await;
    expect![[r#"
        > hi
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 thinking "Hm"
        4 text "Half an an"
        5 call c1 look{} (inline)
        6 step restarted after 1, 127+4 tokens: provider says Unavailable
        7 step restarted after 2, 0+0 tokens: provider says Timeout
        8 text "Whole"
        9 step finished: Stop, 100+10 tokens: "Whole"
        10 ended, 227+14 tokens: completed
    "#]]
    .assert_eq(&transcript);
    assert_eq!(ledger.names(), [] as [&str; 0], "a call of a void attempt ran");
    // Half a second and a second, each with up to one half taken off.
    assert!((750..1500).contains(&elapsed.as_millis()), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn waits_double_within_bounds() {
    for attempts in 1..=4_u32 {
        for _ in 0..20 {
            let failures = (0..attempts).map(|_| vec![fail(Unavailable)]);
            let setup = Setup::new(failures.chain([vec![say("Hello"), stop()]]));
            let (transcript, elapsed) = timed(setup).await;
            assert!(transcript.ends_with("completed\n"), "{transcript}");
            // 0.5 + 1 + 2 + … seconds at most, and half of that at least; timers count whole milliseconds.
            let most = Duration::from_millis(500) * (2_u32.pow(attempts) - 1);
            assert!(elapsed >= most / 2 && elapsed <= most + Duration::from_millis(5), "{attempts}: {elapsed:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_provider_says_how_long_to_wait() {
    let wait = Duration::from_millis(17_250);
    let setup = Setup::new([vec![fail_after(RateLimited, wait)], vec![say("Hello"), stop()]]);
    let (transcript, elapsed) = timed(setup).await;
    expect![[r#"
        > hi
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 step restarted after 1, 0+0 tokens: provider says RateLimited
        4 text "Hello"
        5 step finished: Stop, 100+10 tokens: "Hello"
        6 ended, 100+10 tokens: completed
    "#]]
    .assert_eq(&transcript);
    assert!(elapsed >= wait && elapsed < wait + Duration::from_millis(20), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn there_is_an_end_to_retries() {
    let setup = Setup::new((0..9).map(|_| vec![fail(Unavailable)])).settings(|settings| settings.retries = 2);
    let (transcript, _) = timed(setup).await;
    expect![[r#"
        > hi
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 step restarted after 1, 0+0 tokens: provider says Unavailable
        4 step restarted after 2, 0+0 tokens: provider says Unavailable
        5 step finished: Aborted, 0+0 tokens: ""
        6 ended, 0+0 tokens: failed LLM_PROVIDER_UNAVAILABLE (may be retried): provider says Unavailable
    "#]]
    .assert_eq(&transcript);
}

#[tokio::test(start_paused = true)]
async fn another_model_takes_over_with_retries_of_its_own() {
    let one = ScriptedModel::new("test/one", (0..9).map(|_| vec![say("Tried"), fail(Unavailable)]));
    let two = ScriptedModel::new(
        "test/two",
        [vec![fail(Unavailable)], vec![say("Hello"), stop()], vec![say("Again"), stop()]],
    );
    let setup = Setup::with_models([one.clone(), two]).settings(|settings| settings.retries = 1);
    let world = World::start(setup).await;
    expect![[r#"
        > hi
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 text "Tried"
        4 step restarted after 1, 127+2 tokens: provider says Unavailable
        5 text "Tried"
        6 model changed to test/two: provider says Unavailable
        7 step restarted after 0, 127+2 tokens: provider says Unavailable
        8 step restarted after 1, 0+0 tokens: provider says Unavailable
        9 text "Hello"
        10 step finished: Stop, 100+10 tokens: "Hello"
        11 ended, 354+14 tokens: completed
    "#]]
    .assert_eq(&world.act(Act::User("hi")).await);
    // The next turn begins with the first model again.
    assert!(world.act(Act::User("hi")).await.contains("step 1 with test/one"));
    let tokens = encoded(&world);
    assert!(tokens.contains(r#"everturn_tokens_total{model="test/one",direction="output"} 8"#), "{tokens}");
}

fn encoded(world: &World) -> String {
    let mut registry = prometheus_client::registry::Registry::default();
    world.setup.metrics.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    text.lines().filter(|line| line.starts_with("everturn_tokens_total")).map(|line| format!("{line}\n")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_too_long_goes_to_the_fallback_at_once() {
    let one = ScriptedModel::new("test/one", [vec![fail_after(RateLimited, Duration::from_secs(31))]]);
    let two = ScriptedModel::new("test/two", [vec![say("Hello"), stop()]]);
    let (transcript, elapsed) = timed(Setup::with_models([one, two])).await;
    expect![[r#"
        > hi
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 model changed to test/two: provider says RateLimited
        4 step restarted after 0, 0+0 tokens: provider says RateLimited
        5 text "Hello"
        6 step finished: Stop, 100+10 tokens: "Hello"
        7 ended, 100+10 tokens: completed
    "#]]
    .assert_eq(&transcript);
    assert!(elapsed < Duration::from_millis(20), "{elapsed:?}");
}

/// How a turn fails whose model fails like this, for good.
async fn fails_as(error: ModelError) -> (FailureCode, bool) {
    let setup = Setup::new((0..9).map(|_| vec![Beat::Fail(error.clone())]));
    let world = World::start(setup).await;
    world.act(Act::User("hi")).await;
    match world.state().await.phase {
        Phase::Ended(ended) => match ended.outcome {
            Outcome::Failed { code, retryable, message } => {
                assert_eq!(message, error.message);
                (code, retryable)
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_failure_has_its_code() {
    let error = |kind| ModelError::new(kind, "because");
    let too_long = ModelError { retry_after: Some(Duration::from_secs(24 * 3600 + 1)), ..error(RateLimited) };
    assert_eq!(fails_as(too_long).await, (FailureCode::LlmRateLimited, true));
    assert_eq!(fails_as(error(Unavailable)).await, (FailureCode::LlmProviderUnavailable, true));
    assert_eq!(fails_as(error(Timeout)).await, (FailureCode::LlmRequestTimeout, true));
    assert_eq!(fails_as(error(Denied)).await, (FailureCode::LlmProviderError, false));
    assert_eq!(fails_as(error(Rejected)).await, (FailureCode::LlmRequestRefused, false));
}

#[tokio::test(start_paused = true)]
async fn a_rejected_call_fails_at_once() {
    let (transcript, elapsed) = timed(Setup::new([vec![fail(Rejected)], vec![say("never"), stop()]])).await;
    expect![[r#"
        > hi
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 step finished: Aborted, 0+0 tokens: ""
        4 ended, 0+0 tokens: failed LLM_PROVIDER_ERROR (for good): provider says Rejected
    "#]]
    .assert_eq(&transcript);
    assert!(elapsed < Duration::from_millis(20), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_cut_is_never_taken_for_a_whole_one() {
    let (transcript, _) =
        timed(Setup::new([vec![say("The answer is n")], vec![], vec![say("The answer is yes"), stop()]])).await;
    expect![[r#"
        > hi
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 text "The answer is n"
        4 step restarted after 1, 127+3 tokens: the model's answer ended before it was complete
        5 step restarted after 2, 0+0 tokens: the model's answer ended before it was complete
        6 text "The answer is yes"
        7 step finished: Stop, 100+10 tokens: "The answer is yes"
        8 ended, 227+13 tokens: completed
    "#]]
    .assert_eq(&transcript);
}

#[tokio::test(start_paused = true)]
async fn what_had_arrived_is_kept_when_the_turn_fails_for_good() {
    let setup = Setup::new([vec![think("Hm"), say("Half"), call("weather", "{}"), fail(Rejected)]]);
    check(
        setup,
        [Act::User("hi"), Act::History],
        expect![[r#"
        > hi
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 thinking "Hm"
        4 text "Half"
        5 call c1 weather{} (client)
        6 step finished: Aborted, 127+3 tokens: [thinking "Hm", "Half", c1 weather{}]
        7 result c1 error: "Tool call not run: the turn failed"
        8 ended, 127+3 tokens: failed LLM_PROVIDER_ERROR (for good): provider says Rejected
        > history
        user: "hi"
        assistant: [thinking "Hm", "Half", c1 weather{}]
        result c1 error: "Tool call not run: the turn failed"
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_provider_is_given_up() {
    let setup = Setup::new([vec![say("Well"), Beat::Silence], vec![Beat::Silence], vec![say("Hello"), stop()]]);
    let (transcript, elapsed) = timed(setup).await;
    expect![[r#"
        > hi
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 text "Well"
        4 step restarted after 1, 127+1 tokens: the model was silent for 60s, which is the limit
        5 step finished: Aborted, 0+0 tokens: ""
        6 ended, 127+1 tokens: failed LLM_REQUEST_TIMEOUT (may be retried): the model was silent for 60s, which is the limit
    "#]]
    .assert_eq(&transcript);
    assert!((120..123).contains(&elapsed.as_secs()), "{elapsed:?}");
}

/// Only true silence ends a call: bytes that show nothing are life, however long the model thinks.
#[tokio::test(start_paused = true)]
async fn a_provider_that_sends_pings_is_not_silent() {
    let pings = (0..60).flat_map(|_| [Beat::Pause(Duration::from_secs(59)), Beat::Event(ModelEvent::Alive)]);
    let script: Script = pings.chain([say("42"), stop()]).collect();
    let (transcript, elapsed) = timed(Setup::new([script])).await;
    expect![[r#"
        > hi
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 text "42"
        4 step finished: Stop, 100+10 tokens: "42"
        5 ended, 100+10 tokens: completed
    "#]]
    .assert_eq(&transcript);
    assert_eq!(elapsed.as_secs(), 60 * 59);
}

/// A model that thinks has five minutes for each sign of life, but must begin within one.
#[tokio::test(start_paused = true)]
async fn a_model_that_thinks_has_more_time() {
    let slow: Script = vec![Beat::Pause(Duration::from_secs(290)), say("42"), stop()];
    let model = ScriptedModel::new("test/one", [slow]).that_thinks();
    let (transcript, _) = timed(Setup::with_models([model])).await;
    assert!(transcript.ends_with("completed\n") && !transcript.contains("restarted"), "{transcript}");
    let silent = || vec![Beat::Silence];
    let model = ScriptedModel::new("test/one", [silent(), silent(), silent()]).that_thinks();
    let (transcript, elapsed) = timed(Setup::with_models([model.clone()])).await;
    assert!(transcript.contains("the model was silent for 300s, which is the limit"), "{transcript}");
    assert_eq!(model.requests().len(), 2, "minutes of thinking are paid for twice at most");
    assert!((600..602).contains(&elapsed.as_secs()), "{elapsed:?}");
}

/// A message that a vendor's filter declines is in the way once more, and then left out.
#[tokio::test(start_paused = true)]
async fn a_declined_message_does_not_block_its_session_for_good() {
    let model = ScriptedModel::thinking("test/one", |request| {
        let is_declined = format!("{:?}", request.messages).contains("evil");
        let finished = if is_declined { ModelFinish::Refusal } else { ModelFinish::Stop };
        vec![say("Well."), finish(finished, None)]
    });
    let world = World::start(Setup::with_models([model.clone()])).await;
    let (mut ends, mut told) = (Vec::new(), Vec::new());
    for message in ["good", "evil", "good", "good", "good"] {
        let started = world.begin(message).await;
        let transcript = world.transcript(&started).await;
        told.push(transcript.matches("earlier messages are left out").count());
        ends.push(transcript.trim_end().rsplit(' ').next().unwrap_or_default().to_owned());
    }
    assert_eq!(ends, ["completed", "refused", "refused", "completed", "completed"]);
    assert_eq!(told, [0, 0, 0, 1, 1], "readers know what the model is not given");
    let given = format!("{:?}", model.requests().last().unwrap().messages);
    assert_eq!(given.matches("What was said here was declined").count(), 4, "{given}");
    let shown = world.act(Act::History).await;
    assert!(shown.contains("evil"), "people still see it: {shown}");
}

/// A message that a provider refuses for a reason that nobody knows is left out once it is refused again. One that was denied
/// for want of a key is given to the model when there is one, and so is one that is not refused any more.
#[tokio::test(start_paused = true)]
async fn a_message_that_a_provider_refuses_does_not_block_its_session_for_good() {
    for (kind, ends) in [(Rejected, ["failed", "completed", "completed"]), (Denied, ["failed", "failed", "failed"])] {
        let model = ScriptedModel::thinking("test/one", move |request| {
            match format!("{:?}", request.messages).contains("evil") {
                true => vec![fail(kind)],
                false => vec![say("Well."), stop()],
            }
        });
        let world = World::start(Setup::with_models([model.clone()])).await;
        let mut seen = Vec::new();
        for message in ["evil", "good", "good"] {
            let started = world.begin(message).await;
            let transcript = world.transcript(&started).await;
            seen.push(if transcript.contains("tokens: failed") { "failed" } else { "completed" });
        }
        assert_eq!(seen, ends, "{kind:?}");
        if kind == Rejected {
            let given = |at: usize| format!("{:?}", model.requests()[at].messages).contains("evil");
            assert_eq!([1, 2, 3, 4].map(given), [true, false, true, false], "each turn tries with it first");
        }
    }
}

/// A provider takes a message, and refuses it later, or fails at it: its model was changed. A summary takes the place of the
/// turns up to that one, for good, and tells nothing of it. Where earlier turns are not the reason, nothing changes.
#[tokio::test(start_paused = true)]
async fn history_that_a_provider_takes_no_longer_is_summarised() {
    for (kind, is_summary_refused, refuses_all) in [
        (Rejected, false, false),
        (Rejected, true, false),
        (Rejected, false, true),
        (Unavailable, false, false),
        (Unavailable, false, true),
    ] {
        let mut calls = 0;
        let model = ScriptedModel::thinking("test/one", move |request| {
            calls += 1;
            let is_summary = super::compaction::is_summary(request);
            let has_it = format!("{:?}", request.messages).contains("odd");
            match calls > 4 && (refuses_all || has_it || (is_summary && is_summary_refused)) {
                true => vec![fail(kind)],
                false if is_summary => vec![say("They like tea."), stop()],
                false => vec![say("Well."), stop()],
            }
        });
        let world = World::start(Setup::with_models([model.clone()])).await;
        let mut ends = Vec::new();
        for message in ["tea", "odd", "even", "six", "good", "better", "best"] {
            let started = world.begin(message).await;
            let transcript = world.transcript(&started).await;
            let told = match () {
                () if transcript.contains("earlier messages are summarised: the provider refuses one") => "summarised",
                () if transcript.contains("earlier messages are left out: the provider refuses them") => "left out",
                () => "",
            };
            ends.push((if transcript.contains("tokens: failed") { "failed" } else { "completed" }, told));
        }
        let is_refusal = kind == Rejected;
        let told = if is_summary_refused { "left out" } else { "summarised" };
        let expected = match (refuses_all, is_refusal) {
            (true, _) => [("failed", ""); 3],
            (false, true) => [("completed", told), ("completed", ""), ("completed", "")],
            // The first failure may be a passing one.
            (false, false) => [("failed", ""), ("completed", told), ("completed", "")],
        };
        assert_eq!(ends[4..], expected, "{kind:?} {is_summary_refused} {refuses_all}");
        if refuses_all {
            continue;
        }
        let given = format!("{:?}", model.requests().last().unwrap().messages);
        let stand_in = if is_summary_refused { "4 messages are left out" } else { "They like tea." };
        assert!(given.contains(stand_in) && given.contains("even") && !given.contains("odd"), "{given}");
        assert!(world.act(Act::History).await.contains("odd"), "people still see it");
    }
}

/// A filter begins to decline what it let pass before. Where leaving out the turns that it declined does not help, what is
/// older is summarised.
#[tokio::test(start_paused = true)]
async fn history_that_a_filter_declines_later_is_summarised() {
    let mut calls = 0;
    let model = ScriptedModel::thinking("test/one", move |request| {
        calls += 1;
        match calls > 2 && format!("{:?}", request.messages).contains("odd") {
            true => vec![finish(ModelFinish::Refusal, None)],
            false if super::compaction::is_summary(request) => vec![say("They like tea."), stop()],
            false => vec![say("Well."), stop()],
        }
    });
    let world = World::start(Setup::with_models([model.clone()])).await;
    let mut ends = Vec::new();
    for message in ["odd", "even", "one", "two", "three", "four"] {
        let transcript = world.act(Act::User(message)).await;
        ends.push(transcript.trim_end().rsplit(' ').next().unwrap_or_default().to_owned());
    }
    assert_eq!(ends, ["completed", "completed", "refused", "refused", "completed", "completed"]);
    assert!(!format!("{:?}", model.requests().last().unwrap().messages).contains("odd"));
}

/// A server that says no more of an overflow than that there was no room to answer.
#[tokio::test(start_paused = true)]
async fn an_answer_that_found_no_room_is_an_overflow() {
    let full = vec![finish(ModelFinish::MaxTokens, Some(Usage::of(4096, 0)))];
    let scripts = [full, vec![say("summary"), stop()], vec![say("Hello"), stop()]];
    let model = ScriptedModel::new("test/one", scripts).with_window(100_000);
    let world = World::start(Setup::with_models([model])).await;
    let started = world.begin(&"long ".repeat(2000)).await;
    let transcript = world.transcript(&started).await;
    assert!(transcript.contains("its context window is full") && transcript.ends_with("completed\n"), "{transcript}");
}

/// A model that thinks in secret may spend its whole cap on that, and its provider may not count.
#[tokio::test(start_paused = true)]
async fn an_answer_that_was_thought_away_is_no_overflow() {
    let scripts = [vec![finish(ModelFinish::MaxTokens, None)]];
    let model = ScriptedModel::new("test/one", scripts).with_window(100_000).that_thinks();
    let world = World::start(Setup::with_models([model])).await;
    let started = world.begin(&"long ".repeat(2000)).await;
    let transcript = world.transcript(&started).await;
    assert!(transcript.ends_with("max tokens\n") && !transcript.contains("window is full"), "{transcript}");
}

/// What a provider does not do is told once in a turn, whatever the number of its steps.
#[tokio::test(start_paused = true)]
async fn what_a_model_does_not_take_is_told_once() {
    let notice = || Beat::Event(ModelEvent::Notice("temperature is not sent".to_owned()));
    let setup = Setup::new([vec![notice(), call("look", "{}"), stop()], vec![notice(), say("Done."), stop()]]);
    let (transcript, _) = timed(setup).await;
    expect![[r#"
        > hi
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 news: notifications/message {"data":"temperature is not sent","level":"warning","logger":"model"}
        4 call c1 look{} (inline)
        5 step finished: ToolUse, 100+10 tokens: [c1 look{}]
        6 intent c1 as e1 (ReadOnly)
        7 result c1: "look ran with {}"
        8 step 2 with test/one
        9 text "Done."
        10 step finished: Stop, 100+10 tokens: "Done."
        11 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&transcript);
}

#[tokio::test(start_paused = true)]
async fn a_slow_but_steady_provider_is_not() {
    let pieces = (0..20).flat_map(|n| [Beat::Pause(Duration::from_secs(59)), say(&format!("{n} "))]);
    let (transcript, elapsed) = timed(Setup::new([pieces.chain([stop()]).collect::<Script>()])).await;
    assert!(transcript.ends_with("ended, 100+10 tokens: completed\n"), "{transcript}");
    assert!(!transcript.contains("restarted"), "{transcript}");
    assert_eq!(elapsed.as_secs(), 20 * 59);
}

#[tokio::test(start_paused = true)]
async fn an_endless_answer_is_ended() {
    let piece = "x".repeat(1024 * 1024);
    let input = format!(r#"{{"text": "{piece}"}}"#);
    let afterthoughts = [say("Well")].into_iter().chain((0..20).map(|_| think(&piece)));
    let endless: [Script; 3] = [
        (0..20).map(|_| say(&piece)).collect(),
        afterthoughts.collect(),
        (0..20).map(|_| call("look", &input)).collect(),
    ];
    for script in endless {
        let world = World::start(Setup::new([script])).await;
        let transcript = world.act(Act::User("go")).await;
        assert!(transcript.ends_with("the model's answer is longer than 16777216 bytes, which is the limit\n"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_is_not_blamed_for_the_silence_of_the_store() {
    let (gate, piece) = (Gate::closed(), "x".repeat(1024 * 1024));
    // So much at once that the turn pauses until it is stored.
    let script = vec![Beat::Gate(gate.clone()), say(&piece), Beat::Pause(Duration::from_secs(1)), say("."), stop()];
    let world = World::start(Setup::new([script])).await;
    let started = world.begin("go").await;
    gate.waiting(1).await;
    until(async || world.log().await.len() == 2).await;
    world.store.faults().hold();
    gate.open();
    in_time("for a commit", world.store.faults().held(1)).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    world.store.faults().release();
    let transcript = world.transcript(&started).await.replace(&piece, "xxx");
    expect![[r#"
        1 turn started in a new session: user: "go"
        2 step 1 with test/one
        3 text "xxx"
        4 text "."
        5 step finished: Stop, 100+10 tokens: "xxx."
        6 ended, 100+10 tokens: completed
    "#]]
    .assert_eq(&transcript);
}

#[tokio::test(start_paused = true)]
async fn tokens_are_counted_as_reported_and_estimated_where_nobody_says() {
    let usage = Usage::of(1000, 77);
    let setup = Setup::new([
        vec![say("12345678"), fail(Unavailable)],
        vec![call("look", "{}"), finish(ModelFinish::Stop, Some(usage))],
        vec![say("1234567890123456"), finish(ModelFinish::Stop, None)],
    ]);
    let world = World::start(setup).await;
    // The transcript's numbers are those of the store: see the checks of the session.
    expect![[r#"
        > hi
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 text "12345678"
        4 step restarted after 1, 127+5 tokens: provider says Unavailable
        5 call c1 look{} (inline)
        6 step finished: ToolUse, 1000+77 tokens: [c1 look{}]
        7 intent c1 as e1 (ReadOnly)
        8 result c1: "look ran with {}"
        9 step 2 with test/one
        10 text "1234567890123456"
        11 step finished: Stop, 145+8 tokens: "1234567890123456"
        12 ended, 1272+90 tokens: completed
    "#]]
    .assert_eq(&world.act(Act::User("hi")).await);
    let record = world.engine.session(&world.tenant, &world.session()).await.unwrap().unwrap();
    assert_eq!(record.usage, world.state().await.usage);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_failed_before_it_said_anything_used_nothing() {
    let (transcript, _) = timed(Setup::new([vec![fail(Unavailable)], vec![stop()]])).await;
    assert!(transcript.contains("step restarted after 1, 0+0 tokens"), "{transcript}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_model_fails_the_turn() {
    let (transcript, _) = timed(Setup::new([vec![say("Well"), Beat::Panic]])).await;
    expect![[r#"
        > hi
        1 turn started in a new session: user: "hi"
        2 step 1 with test/one
        3 text "Well"
        4 step finished: Aborted, 127+1 tokens: "Well"
        5 ended, 127+1 tokens: failed INTERNAL (may be retried): the server met a fault while it ran this turn
    "#]]
    .assert_eq(&transcript);
}
