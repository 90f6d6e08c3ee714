//! Servers that answer a conversation that is too long with a fault, a refusal or silence, without a word.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use everturn_core::Json;
use everturn_models::{ModelError, ModelErrorKind, ModelRequest};

use super::{
    compaction::{estimate, is_summary},
    harness::*,
};

/// What the server really has room for, in tokens.
const WINDOW: u64 = 6000;

const FIRST: &str = "first: count the whales of all oceans";

fn opening(request: &ModelRequest) -> String {
    format!("{:?}", request.messages.first())
}

/// A server that fails like this, attempt by attempt, at what is too long for it.
fn failing(kinds: &'static [ModelErrorKind]) -> Arc<ScriptedModel> {
    let mut failures = 0;
    ScriptedModel::thinking("test/one", move |request| {
        if estimate(request) > WINDOW {
            failures += 1;
            let error = ModelError::new(kinds[(failures - 1) % kinds.len()], "Bad Request");
            return vec![Beat::Fail(ModelError { says_nothing: true, ..error })];
        }
        vec![say(&if is_summary(request) { "They counted.".to_owned() } else { "b".repeat(1200) }), stop()]
    })
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_may_be_too_long_is_compacted_and_the_turn_goes_on() {
    use ModelErrorKind::{RateLimited, Rejected, Timeout, Unavailable};
    let kinds: [&[ModelErrorKind]; 4] = [&[Unavailable], &[Unavailable, RateLimited], &[Rejected], &[Timeout]];
    // The window is known, guessed much too large, or told wrong.
    for (kinds, told) in
        kinds.into_iter().flat_map(|kinds| [Some(WINDOW), None, Some(32_000)].map(|told| (kinds, told)))
    {
        let mut model = failing(kinds);
        if let Some(told) = told {
            model = model.with_window(told);
        }
        // Answers of any length are let in by such a server: the reserve for them does not save us.
        let setup = Setup::with_models([model.clone()]).agent(|agent| {
            agent.model_options.max_output_tokens = Some(64);
            agent.body = Some(Json::parse(r#"{"provider":{"data_collection":"deny"}}"#).unwrap());
        });
        let world = World::start(setup).await;
        world.act(Act::User(FIRST)).await;
        for turn in 0..60 {
            let started = world.begin(&format!("{turn} {}", "a".repeat(1200))).await;
            let transcript = world.transcript(&started).await;
            assert!(transcript.ends_with("completed\n"), "{kinds:?} {told:?} {turn}: {transcript}");
        }
        let requests = model.requests();
        // Who may see the words of the conversation counts for summaries and for the question whether the server is well.
        assert!(requests.iter().all(|request| request.body.is_some()), "{kinds:?} {told:?}");
        let own = || requests.iter().filter(|request| !is_summary(request));
        assert!(own().all(|request| opening(request).contains(FIRST)), "{kinds:?} {told:?}: the task was lost");
        // The session knows by then how much the server takes.
        let failed = requests.iter().filter(|request| estimate(request) > WINDOW).count();
        assert!(failed <= 10, "{kinds:?} {told:?}: {failed} of {} calls failed", requests.len());
    }
}

/// A message that is far too long for a server of which nobody knows the window.
#[tokio::test(start_paused = true)]
async fn one_message_that_is_too_long_is_shortened() {
    let model = failing(&[ModelErrorKind::Unavailable]);
    let world = World::start(Setup::with_models([model.clone()])).await;
    let started = world.begin(&format!("begin {} end", "a".repeat(120_000))).await;
    let transcript = world.transcript(&started).await;
    assert!(transcript.ends_with("completed\n"), "{}", transcript.lines().last().unwrap());
    let last = format!("{:?}", model.requests().last().unwrap().messages);
    assert!(last.contains("begin aaa") && last.contains("aaa end"), "both ends are kept");
}

/// A server that is down is blamed for nothing, however long the conversation is, and history stays as it is.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_loses_no_history() {
    let is_down = Arc::new(AtomicBool::new(false));
    let down = Arc::clone(&is_down);
    let model = ScriptedModel::thinking("test/one", move |_| match down.load(Ordering::Relaxed) {
        true => vec![fail(ModelErrorKind::Unavailable)],
        false => vec![say(&"b".repeat(1200)), stop()],
    })
    .with_window(8000);
    let world = World::start(Setup::with_models([model.clone()])).await;
    let speak = async |turn: usize| {
        let started = world.begin(&format!("{turn} {}", "a".repeat(1200))).await;
        world.transcript(&started).await
    };
    for turn in 0..8 {
        speak(turn).await;
    }
    is_down.store(true, Ordering::Relaxed);
    for turn in 8..10 {
        let transcript = speak(turn).await;
        assert!(transcript.contains("failed LLM_PROVIDER_UNAVAILABLE"), "{transcript}");
        assert!(!transcript.contains("compacted"), "{transcript}");
    }
    is_down.store(false, Ordering::Relaxed);
    let transcript = speak(10).await;
    assert!(transcript.ends_with("completed\n") && !transcript.contains("compacted"), "{transcript}");
    let given = format!("{:?}", model.requests().last().unwrap().messages);
    assert!((0..=10).all(|turn| given.contains(&format!("\"{turn} aaa"))), "everything is still there");
}

/// A server that fails now and then is no reason to compact.
#[tokio::test(start_paused = true)]
async fn a_server_that_recovers_in_time_keeps_the_conversation_as_it_is() {
    let mut calls = 0;
    let model = ScriptedModel::thinking("test/one", move |request| {
        calls += 1;
        // The short question is answered, and so is the next call.
        match !is_summary(request) && (6..=10).contains(&calls) {
            true => vec![fail(ModelErrorKind::Unavailable)],
            false => vec![say(&"b".repeat(1200)), stop()],
        }
    });
    let world = World::start(Setup::with_models([model.clone()])).await;
    for turn in 0..7 {
        let started = world.begin(&format!("{turn} {}", "a".repeat(1200))).await;
        let transcript = world.transcript(&started).await;
        assert!(transcript.ends_with("completed\n") && !transcript.contains("compacted"), "{transcript}");
    }
    assert!(
        model.requests().iter().filter(|request| is_summary(request)).count() == 1,
        "it was asked whether it is well"
    );
}

/// A provider that says that it has too much to do says nothing of the conversation.
#[tokio::test(start_paused = true)]
async fn a_busy_provider_has_nothing_compacted() {
    let model = ScriptedModel::thinking("test/one", |request| {
        if request.messages.len() < 5
            && request.messages.first().is_some_and(|first| format!("{first:?}").contains("first"))
        {
            return vec![say(&"b".repeat(8000)), stop()];
        }
        // A short question happens to pass.
        if request.messages.len() == 1 {
            return vec![say("yes"), stop()];
        }
        let error = ModelError::new(ModelErrorKind::Unavailable, "Overloaded");
        vec![Beat::Fail(ModelError { is_busy: true, ..error })]
    });
    let world = World::start(Setup::with_models([model])).await;
    for message in [FIRST, "second"] {
        assert!(world.act(Act::User(message)).await.ends_with("completed\n"));
    }
    let transcript = world.act(Act::User("third")).await;
    assert!(transcript.contains("failed LLM_PROVIDER_UNAVAILABLE"), "{transcript}");
    assert!(!transcript.contains("compacted"), "{transcript}");
}
