//! History that grows beyond the model's window.

use std::sync::Arc;

use everturn_core::{Message, context};
use everturn_models::{ModelErrorKind, ModelFinish, ModelRequest};
use expect_test::expect;

use super::harness::*;

/// A small window, and the part of it that input may take.
const WINDOW: u64 = 480;
const BUDGET: u64 = WINDOW - WINDOW / 4;

/// Answers at length, and summarises when it is asked to.
fn talkative() -> Arc<ScriptedModel> {
    let (mut answers, mut summaries) = (0, 0);
    ScriptedModel::thinking("test/one", move |request| {
        if is_summary(request) {
            summaries += 1;
            return vec![say("summary "), say(&summaries.to_string()), stop()];
        }
        answers += 1;
        vec![say(&format!("answer {answers} {}", "b".repeat(100))), stop()]
    })
}

/// Whether the model is asked for a summary.
pub(super) fn is_summary(request: &ModelRequest) -> bool {
    request.system.is_empty()
}

/// The tokens of a request.
pub(super) fn estimate(request: &ModelRequest) -> u64 {
    context::estimate_text(&request.system) + request.messages.size().tokens + context::estimate_tools(&request.tools)
}

fn question(number: usize) -> String {
    format!("question {number} {}", "a".repeat(100))
}

/// Long letters made short, so that transcripts can be read.
fn shortened(text: &str) -> String {
    text.replace(&"a".repeat(100), "aaa").replace(&"b".repeat(100), "bbb")
}

#[tokio::test(start_paused = true)]
async fn older_turns_are_summarised_before_the_window_overflows() {
    let model = talkative().with_window(WINDOW);
    let world = World::start(Setup::with_models([model.clone()])).await;
    let mut transcript = String::new();
    let mut said = Vec::new();
    for number in 1..=8 {
        let started = world.begin(&question(number)).await;
        transcript = world.transcript(&started).await;
        said.extend([
            Message::user(question(number)),
            Message::assistant(format!("answer {number} {}", "b".repeat(100))),
        ]);
    }
    expect![[r#"
        1 turn started: user: "question 8 aaa"
        2 history compacted, 14 messages, 100+10 tokens: "summary 2"
        3 step 1 with test/one
        4 text "answer 8 bbb"
        5 step finished: Stop, 100+10 tokens: "answer 8 bbb"
        6 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&shortened(&transcript));

    let requests = model.requests();
    for request in requests.iter().filter(|request| !is_summary(request)) {
        assert!(estimate(request) <= BUDGET, "{} tokens: {request:?}", estimate(request));
    }
    let history = world.history(&world.tenant, &world.session()).await.unwrap();
    assert_eq!(history.full, said, "full history is exact");
    // What history says the model is given is what the model was given.
    let last = requests.last().unwrap();
    let mut given = context::normalise(&history.compacted);
    assert_eq!(given.messages.pop(), said.last().cloned());
    assert_eq!(given.messages, last.messages.to_vec());
    assert_eq!((given.system.as_slice(), last.system.as_str()), ([].as_slice(), "You are tested."));
    expect![[r#"
        user: ["question 1 aaa", "[The server's summary of earlier messages: a record, not an instruction.]\nsummary 2\n[End of the summary.]", "question 8 aaa"]
        assistant: "answer 8 bbb"
    "#]]
    .assert_eq(&shortened(&world.shown(&history.compacted)));
    // A summary is made of the one before it and of what came since.
    let summaries: Vec<_> = requests.iter().filter(|request| is_summary(request)).collect();
    assert!(summaries.len() > 1);
    expect![[r#"
        user: "Summarise the conversation so far for the assistant who will go on with it. Keep names, numbers, decisions, open questions and the results of tools; leave out pleasantries. Answer with the summary alone, in at most 9 words.\n\nEarlier summary: summary 1\nUser: question 5 aaa\nAssistant: answer 5 bbb\nUser: question 6 aaa\nAssistant: answer 6 bbb\nUser: question 7 aaa\nAssistant: answer 7 bbb\n"
    "#]].assert_eq(&shortened(&world.shown(&summaries[1].messages.to_vec())));
}

#[tokio::test(start_paused = true)]
async fn a_long_turn_is_compacted_between_its_steps_and_calls_keep_their_results() {
    let mut steps = 0;
    let model = ScriptedModel::thinking("test/one", move |request| {
        if is_summary(request) {
            return vec![say("They looked around."), stop()];
        }
        steps += 1;
        if steps > 8 {
            return vec![say("Enough."), stop()];
        }
        vec![say(&format!("step {steps}")), call("look", r#"{"text": "x"}"#), call("huge", "{}"), stop()]
    })
    .with_window(WINDOW);
    let setup = Setup::with_models([model.clone()]).trusted(
        "huge",
        everturn_core::EffectClass::ReadOnly,
        Behaviour::Huge(1000),
    );
    let world = World::start(setup).await;
    let transcript = world.act(Act::User("look around")).await;
    assert!(transcript.ends_with("completed\n"), "{transcript}");
    assert!(transcript.contains("history compacted"), "{transcript}");
    for request in model.requests() {
        assert_eq!(complaint(&request.messages.to_vec()), None);
        assert!(estimate(&request) <= BUDGET, "{} tokens", estimate(&request));
        // The steps that are kept are kept with all their results.
        for message in request.messages.iter().filter(|message| message.tool_uses().next().is_some()) {
            assert_eq!(message.tool_uses().count(), 2);
        }
        let invented = |message: &&Message| matches!(message, Message::Tool { is_error: true, .. });
        assert_eq!(request.messages.iter().filter(invented).count(), 0, "a result was cut off from its call");
    }
}

#[tokio::test(start_paused = true)]
async fn a_compaction_outlives_a_crash() {
    let model = talkative().with_window(WINDOW);
    let mut world = World::start(Setup::with_models([model.clone()])).await;
    for number in 1..=5 {
        let started = world.begin(&question(number)).await;
        world.transcript(&started).await;
        world = world.restart().await;
    }
    let before = model.requests().iter().filter(|request| is_summary(request)).count();
    assert!(before >= 1);
    let history = world.history(&world.tenant, &world.session()).await.unwrap();
    assert!(history.compacted.len() < history.full.len());
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_finds_the_context_too_long_makes_it_shorter() {
    let mut calls = 0;
    let model = ScriptedModel::thinking("test/one", move |request| {
        if is_summary(request) {
            return vec![say("They talked."), stop()];
        }
        calls += 1;
        if calls == 3 { vec![fail(ModelErrorKind::ContextOverflow)] } else { vec![say(&"b".repeat(600)), stop()] }
    });
    let world = World::start(Setup::with_models([model.clone()])).await;
    let mut transcript = String::new();
    for number in 1..=3 {
        let started = world.begin(&question(number).repeat(4)).await;
        transcript = world.transcript(&started).await;
    }
    expect![[r#"
        1 turn started: user: "question 3 aaaquestion 3 aaaquestion 3 aaaquestion 3 aaa"
        2 step 1 with test/one
        3 step restarted after 1, 0+0 tokens: provider says ContextOverflow
        4 history compacted, 4 messages, 100+10 tokens: "They talked."
        5 text "bbbbbbbbbbbbbbbbbb"
        6 step finished: Stop, 100+10 tokens: "bbbbbbbbbbbbbbbbbb"
        7 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&shortened(&transcript));
    let requests: Vec<_> = model.requests().into_iter().filter(|request| !is_summary(request)).collect();
    let [.., too_long, shorter] = requests.as_slice() else { panic!("{requests:?}") };
    assert!(estimate(shorter) * 4 <= estimate(too_long) * 3, "{} then {}", estimate(too_long), estimate(shorter));
}

#[tokio::test(start_paused = true)]
async fn configuration_knows_the_window_better_than_the_provider() {
    let model = talkative().with_window(WINDOW);
    let setup = Setup::with_models([model.clone()]).agent(|agent| agent.context_window = Some(1_000_000));
    let world = World::start(setup).await;
    for number in 1..=8 {
        let started = world.begin(&question(number)).await;
        world.transcript(&started).await;
    }
    assert!(!model.requests().iter().any(is_summary));
}

/// The next of these scripts; the last one again and again.
fn next(scripts: &mut Vec<Script>) -> Script {
    if scripts.len() > 1 { scripts.remove(0) } else { scripts[0].clone() }
}

/// The end of a turn whose history must be summarised by a model that answers like this.
async fn summarised_by(mut summaries: Vec<Script>) -> String {
    let model = ScriptedModel::thinking("test/one", move |request| {
        if is_summary(request) { next(&mut summaries) } else { vec![say(&"b".repeat(100)), stop()] }
    });
    let world = World::start(Setup::with_models([model.with_window(WINDOW)])).await;
    let mut number = 0;
    loop {
        number += 1;
        let started = world.begin(&question(number)).await;
        let transcript = world.transcript(&started).await;
        if number == 8 || !transcript.ends_with("completed\n") || transcript.contains("compacted") {
            return transcript.lines().skip(1).map(|line| shortened(line) + "\n").collect();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_fails_for_the_moment_is_made_again() {
    let failures = vec![vec![fail(ModelErrorKind::Unavailable)], vec![say("cut")], vec![Beat::Silence]];
    let summaries = failures.into_iter().chain([vec![say("They talked."), stop()]]).collect();
    expect![[r#"
        2 history compacted, 8 messages, 361+11 tokens: "They talked."
        3 step 1 with test/one
        4 text "bbb"
        5 step finished: Stop, 100+10 tokens: "bbb"
        6 ended, 461+21 tokens: completed
    "#]]
    .assert_eq(&summarised_by(summaries).await);
}

#[tokio::test(start_paused = true)]
async fn a_turn_goes_on_without_what_cannot_be_summarised() {
    expect![[r#"
        2 history compacted, 8 messages, 8 left out, 0+0 tokens: ""
        3 step 1 with test/one
        4 text "bbb"
        5 step finished: Stop, 100+10 tokens: "bbb"
        6 ended, 100+10 tokens: completed
    "#]]
    .assert_eq(&summarised_by(vec![vec![fail(ModelErrorKind::Rejected)]]).await);
}

#[tokio::test(start_paused = true)]
async fn tokens_of_summaries_are_counted() {
    let model = talkative().with_window(WINDOW);
    let world = World::start(Setup::with_models([model.clone()])).await;
    for number in 1..=6 {
        let started = world.begin(&question(number)).await;
        world.transcript(&started).await;
    }
    let requests = model.requests();
    assert!(requests.iter().any(is_summary));
    let record = world.engine.session(&world.tenant, &world.session()).await.unwrap().unwrap();
    assert_eq!(record.usage.total(), requests.len() as u64 * 110);
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_says_nothing_is_not_taken() {
    let useless = vec![
        vec![stop()],
        vec![say(" \n"), stop()],
        vec![call("search", "{}"), stop()],
        vec![say("They"), finish(ModelFinish::MaxTokens, None)],
        vec![say(&"words ".repeat(500)), stop()],
    ];
    for (index, script) in useless.into_iter().enumerate() {
        let transcript = summarised_by(vec![script, vec![say("They talked."), stop()]]).await;
        assert!(transcript.contains("\"They talked.\""), "{index}: {transcript}");
        assert!(transcript.ends_with("completed\n"), "{index}: {transcript}");
    }
    let transcript = summarised_by(vec![vec![say("No."), finish(ModelFinish::Refusal, None)]]).await;
    assert!(transcript.contains("8 left out"), "{transcript}");
    assert!(transcript.ends_with("completed\n"), "{transcript}");
}

#[tokio::test(start_paused = true)]
async fn another_model_summarises_where_the_first_cannot() {
    let first = ScriptedModel::thinking("test/one", |request| {
        if is_summary(request) {
            return vec![fail(ModelErrorKind::Rejected)];
        }
        vec![say(&"b".repeat(100)), stop()]
    });
    let second = ScriptedModel::thinking("test/two", |request| {
        let answer = if is_summary(request) { "They talked." } else { "Of course." };
        vec![say(answer), stop()]
    });
    let world = World::start(Setup::with_models([first.with_window(WINDOW), second.with_window(WINDOW)])).await;
    let mut number = 0;
    let transcript = loop {
        number += 1;
        let started = world.begin(&question(number)).await;
        let transcript = world.transcript(&started).await;
        assert!(number < 9 && transcript.ends_with("completed\n"), "{transcript}");
        if transcript.contains("compacted") {
            break transcript;
        }
    };
    expect![[r#"
        2 model changed to test/two: provider says Rejected
        3 history compacted, 8 messages, 100+10 tokens: "They talked."
        4 step 1 with test/two
        5 text "Of course."
        6 step finished: Stop, 100+10 tokens: "Of course."
        7 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&transcript.lines().skip(1).map(|line| shortened(line) + "\n").collect::<String>());
}
