//! Text of which a provider counts many more tokens than we do, and providers that say nothing of an overflow but that it is one.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use everturn_core::{EffectClass, Json, ModelOptions, ToolChoice, submission::Submission};
use everturn_engine::Submit;
use everturn_models::{ModelErrorKind, ModelRequest};

use super::{
    compaction::{estimate, is_summary},
    harness::*,
};

/// A model whose window holds so many of its tokens, of which it counts `percent` for a hundred of ours. It counts how often that
/// was too much.
fn dense(window: u64, percent: u64) -> (Arc<ScriptedModel>, Arc<AtomicUsize>) {
    let overflows = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&overflows);
    let model = ScriptedModel::thinking("test/one", move |request| {
        if estimate(request) * percent / 100 > window {
            counted.fetch_add(1, Ordering::Relaxed);
            return vec![fail(ModelErrorKind::ContextOverflow)];
        }
        vec![say(if is_summary(request) { "They talked." } else { "Yes." }), stop()]
    });
    (model, overflows)
}

/// An agent with so many tools, each of about fifty tokens.
fn with_tools(model: &Arc<ScriptedModel>, tools: usize) -> Setup {
    (0..tools).fold(Setup::with_models([Arc::clone(model)]), |setup, number| {
        let name = format!("tool_{number}_{}", "x".repeat(48));
        setup.trusted(&name, EffectClass::ReadOnly, Behaviour::Dumps("done".to_owned().into()))
    })
}

/// Once it is known how dense a conversation is, it is compacted before the provider has to refuse it.
#[tokio::test(start_paused = true)]
async fn a_dense_conversation_is_compacted_before_it_overflows() {
    for agents_window in [None, Some(8192)] {
        let (model, overflows) = dense(8192, 300);
        let model = model.with_window(8192).with_density(300);
        let setup = with_tools(&model, 10).agent(|agent| agent.context_window = agents_window);
        let world = World::start(setup).await;
        for turn in 0..30 {
            let started = world.begin(&format!("{turn} {}", "word ".repeat(120))).await;
            let transcript = world.transcript(&started).await;
            assert!(transcript.ends_with("completed\n"), "{turn}: {transcript}");
        }
        assert_eq!(overflows.load(Ordering::Relaxed), 0, "{agents_window:?}");
        assert!(model.requests().iter().any(is_summary));
    }
}

/// Where history is short and the tools are many, the tools give way, overflow by overflow, until the message fits.
#[tokio::test(start_paused = true)]
async fn tools_give_way_to_a_window_that_nobody_names() {
    // Most of a request are tools. The first window has room for some of them, the last for hardly any.
    for window in [12_000, 8000, 6000] {
        let (model, overflows) = dense(window, 400);
        let world = World::start(with_tools(&model, 60)).await;
        for turn in 0..6 {
            let started = world.begin(&format!("{turn} {}", "word ".repeat(20))).await;
            let transcript = world.transcript(&started).await;
            assert!(transcript.ends_with("completed\n"), "{window} {turn}: {transcript}");
            assert!(transcript.contains("tools are left out"), "{window} {turn}: {transcript}");
        }
        let overflows = overflows.load(Ordering::Relaxed);
        assert!(overflows <= 6 * 12, "{window}: {overflows} overflows");
        let last = model.requests().pop().unwrap();
        assert!(last.messages.iter().any(|said| format!("{said:?}").contains("5 word")), "{:?}", last.messages);
    }
}

fn names(request: &ModelRequest) -> Vec<&str> {
    request.tools.iter().map(|tool| tool.name.as_str()).collect()
}

/// A tool whose call is asked for is kept before all others.
#[tokio::test(start_paused = true)]
async fn the_tool_of_a_forced_call_stays() {
    let last = format!("tool_59_{}", "x".repeat(48));
    let forced = last.clone();
    let model = ScriptedModel::thinking("test/one", move |request| {
        match request.options.tool_choice.as_ref().is_some_and(ToolChoice::is_forced) {
            true => vec![call(&forced, "{}"), stop()],
            false => vec![say("Done."), stop()],
        }
    });
    let model = model.with_window(2000);
    let world = World::start(with_tools(&model, 60)).await;
    let begin = Submission::Begin(vec![everturn_core::Message::user("go")]);
    let options = ModelOptions { tool_choice: Some(ToolChoice::Named(last.clone())), ..ModelOptions::default() };
    let submit = Submit { options, ..world.submission(begin, Default::default()) };
    let started = world.submit(submit).await.unwrap();
    let transcript = world.transcript(&started).await;
    assert!(transcript.contains("tools are left out"), "{transcript}");
    let requests = model.requests();
    assert!(
        names(&requests[0]).contains(&last.as_str()) && names(&requests[0]).len() < 60,
        "{:?}",
        names(&requests[0])
    );
}

/// A window that a field of the body asks for is the one that conversations are fitted to, and that all calls ask for.
#[tokio::test(start_paused = true)]
async fn a_window_in_the_body_is_fitted_to() {
    let (model, overflows) = dense(1000, 100);
    let setup = Setup::with_models([model.clone()]).agent(|agent| {
        agent.body = Some(Json::parse(r#"{"options":{"num_ctx":1000}}"#).unwrap());
        agent.context_window = Some(100_000);
    });
    let world = World::start(setup).await;
    for turn in 0..20 {
        let started = world.begin(&format!("{turn} {}", "word ".repeat(60))).await;
        assert!(world.transcript(&started).await.ends_with("completed\n"));
    }
    assert_eq!(overflows.load(Ordering::Relaxed), 0);
    assert!(model.requests().iter().any(is_summary));
    assert!(model.requests().iter().all(|request| request.context_window == Some(1000)));
    // The field itself is in the body of summaries too.
    let body = |request: &ModelRequest| request.body.as_ref().map(|body| body.as_str().to_owned());
    assert!(model.requests().iter().all(|request| body(request).unwrap().contains("num_ctx")));
}
