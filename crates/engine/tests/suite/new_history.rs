//! Turns with which history begins anew: what they say is all there is.

use std::sync::Arc;

use everturn_core::{Event, Message, TenantId, Usage, submission::OnBusy, submission::Submission};
use everturn_engine::{Submit, Target};

use super::{compaction::is_summary, harness::*, long_conversations::strict};

/// A message that is all there is.
fn anew(world: &World, messages: &[Message]) -> Submit {
    let submission = Submission::Begin(messages.to_vec());
    Submit { begins_history: true, ..world.submission(submission, Default::default()) }
}

/// The same in a session of its own.
fn in_new_session(world: &World, messages: &[Message]) -> Submit {
    let agent = "tester".to_owned();
    Submit { target: Target::New { agent }, ..anew(world, messages) }
}

fn texts(messages: &[Message]) -> Vec<String> {
    let text = |message: &Message| match message {
        Message::System { content } => content.clone(),
        Message::User { content } | Message::Assistant { content } | Message::Tool { content, .. } => content.text(),
    };
    messages.iter().map(text).collect()
}

/// Answers with the number of the call.
fn counting() -> Arc<ScriptedModel> {
    let mut count = 0;
    ScriptedModel::thinking("test/one", move |_| {
        count += 1;
        vec![say(&format!("answer {count}")), stop()]
    })
}

async fn history(world: &World) -> Vec<String> {
    texts(&world.engine.history(&world.tenant, &world.session()).await.unwrap().full)
}

fn given(model: &ScriptedModel) -> Vec<String> {
    texts(&model.requests().last().unwrap().messages.to_vec())
}

#[tokio::test(start_paused = true)]
async fn history_begins_anew() {
    let model = counting();
    let world = World::start(Setup::with_models([Arc::clone(&model)])).await;
    world.act(Act::User("one")).await;
    let seed = [Message::user("told"), Message::assistant("elsewhere"), Message::user("two")];
    let started = world.submit(anew(&world, &seed)).await.unwrap();
    world.transcript(&started).await;
    assert_eq!(given(&model), ["told", "elsewhere", "two"]);
    assert_eq!(history(&world).await, ["told", "elsewhere", "two", "answer 2"]);
    let said = world.conversation(&world.tenant, &world.session()).await.unwrap();
    let names: Vec<_> = said.iter().map(|said| said.id.to_string().replace(started.turn.as_str(), "t")).collect();
    assert_eq!(names, ["t.u1", "t.u2", "t.u3", "t.a1"]);
    assert_eq!(world.message_count(&world.tenant, &world.session()).await.unwrap(), 4);
    // Also after a restart; and what comes next goes on from there.
    let world = world.restart().await;
    assert_eq!(history(&world).await, ["told", "elsewhere", "two", "answer 2"]);
    world.act(Act::User("three")).await;
    assert_eq!(given(&model), ["told", "elsewhere", "two", "answer 2", "three"]);
    // Nothing is deleted: the turns are all there.
    assert_eq!(world.turns().await.lines().count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_rests_or_crashes_still_begins_history() {
    let model = ScriptedModel::thinking("test/one", |request| match request.messages.last() {
        Some(Message::User { content }) if content.text() == "ask" => vec![call("pay", "{}"), stop()],
        _ => vec![say("Done."), stop()],
    });
    for restarts in [false, true] {
        let world = World::start(Setup::with_models([Arc::clone(&model)])).await;
        world.act(Act::User("one")).await;
        let started = world.submit(anew(&world, &[Message::user("ask")])).await.unwrap();
        assert!(world.transcript(&started).await.contains("waiting for permission"));
        assert_eq!(history(&world).await, ["ask", ""]);
        let world = if restarts { world.restart().await } else { world };
        let leg = world.submit(world.answers(vec![grant("c1")])).await.unwrap();
        assert!(world.transcript(&leg).await.ends_with("completed\n"));
        assert_eq!(given(&model), ["ask", "", "pay ran with {}"], "what was before it stays away");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_within_a_turn_that_begins_history() {
    let gate = Gate::closed();
    let (held, mut calls) = (gate.clone(), 0);
    let model = ScriptedModel::thinking("test/one", move |_| {
        calls += 1;
        if calls == 2 { vec![say("He"), Beat::Gate(held.clone()), stop()] } else { vec![say("Hello."), stop()] }
    });
    let world = World::start(Setup::with_models([Arc::clone(&model)])).await;
    world.act(Act::User("one")).await;
    let started = world.submit(anew(&world, &[Message::user("two")])).await.unwrap();
    gate.waiting(1).await;
    assert_eq!(history(&world).await, ["two"], "while it runs");
    let world = world.restart().await;
    world.end_of(&started.turn).await;
    assert_eq!(given(&model), ["two"]);
    assert_eq!(history(&world).await, ["two", "Hello."]);
}

#[tokio::test(start_paused = true)]
async fn a_queued_turn_begins_history_when_its_turn_comes() {
    let gate = Gate::closed();
    let (held, mut calls) = (gate.clone(), 0);
    let model = ScriptedModel::thinking("test/one", move |_| {
        calls += 1;
        if calls == 1 { vec![Beat::Gate(held.clone()), say("1"), stop()] } else { vec![say("more"), stop()] }
    });
    let world = World::start(Setup::with_models([Arc::clone(&model)])).await;
    world.begin("one").await;
    gate.waiting(1).await;
    world.submit(Submit { on_busy: OnBusy::Enqueue, ..anew(&world, &[Message::user("two")]) }).await.unwrap();
    let third = world.enqueue("three").await;
    // A turn that never began has begun nothing.
    let fourth = Submit { on_busy: OnBusy::Enqueue, ..anew(&world, &[Message::user("four")]) };
    let fourth = world.submit(fourth).await.unwrap();
    world.stop_turn(&fourth.turn).await.unwrap();
    assert_eq!(history(&world).await, ["one"], "what is queued has not been said");
    gate.open();
    world.end_of(&third.turn).await;
    world.idle().await;
    let requests: Vec<_> = model.requests().iter().map(|request| texts(&request.messages.to_vec())).collect();
    assert_eq!(requests[1..], [vec!["two"], vec!["two", "more", "three"]]);
    assert_eq!(history(&world).await, ["two", "more", "three", "more"]);
}

/// A summary of what went before is no part of what is there now.
#[tokio::test(start_paused = true)]
async fn a_compaction_before_it_is_left_behind() {
    let model = ScriptedModel::thinking("test/one", |request| {
        let text =
            if request.system.contains("You are tested") { "word ".repeat(100) } else { "A summary.".to_owned() };
        vec![say(&text), stop()]
    });
    let world =
        World::start(Setup::with_models([Arc::clone(&model)]).agent(|agent| agent.context_window = Some(900))).await;
    for number in 0..8 {
        let text = format!("message {number}");
        let started = world.begin(&text).await;
        world.transcript(&started).await;
    }
    let compacted = world.engine.history(&world.tenant, &world.session()).await.unwrap().value.compacted;
    assert!(texts(&compacted)[0].contains("A summary."), "the history before was compacted");
    let started = world.submit(anew(&world, &[Message::user("anew")])).await.unwrap();
    assert!(world.transcript(&started).await.ends_with("completed\n"));
    let last = model.requests().pop().unwrap();
    assert_eq!(last.system, "You are tested.");
    assert_eq!(texts(&last.messages.to_vec()), ["anew"]);
    // And one that is made afterwards counts from there.
    for number in 0..8 {
        let text = format!("message {number}");
        let started = world.begin(&text).await;
        world.transcript(&started).await;
    }
    let history = world.engine.history(&world.tenant, &world.session()).await.unwrap();
    assert!(texts(&history.compacted)[0].contains("A summary."));
    assert_eq!(texts(&history.full)[0], "anew");
    assert_eq!(history.full.len(), 18);
}

#[tokio::test(start_paused = true)]
async fn a_turn_knows_its_name_and_what_was_used_before() {
    let world = World::start(Setup::with_models([counting()])).await;
    world.act(Act::User("one")).await;
    let request = Some("run-7".to_owned());
    let started = world.submit(Submit { request, ..world.message("two") }).await.unwrap();
    world.transcript(&started).await;
    let begins = async |turn| match world.log_of(turn).await.remove(0) {
        (1, Event::TurnStarted(started)) => started,
        other => panic!("{other:?}"),
    };
    let second = begins(&started.turn).await;
    assert_eq!(second.request.as_deref(), Some("run-7"));
    assert_eq!(second.used_before, Usage::of(100, 10));
    // Also of one that was queued, or begins history: it is what the session has used.
    let third = world.submit(anew(&world, &[Message::user("three")])).await.unwrap();
    world.transcript(&third).await;
    let third = begins(&third.turn).await;
    assert_eq!((third.request, third.used_before), (None, Usage::of(200, 20)));
    assert!(third.begins_history && !second.begins_history);
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_is_sent_whole_each_time_is_summarised_once() {
    let model = strict(2000, |request| {
        let summarises = is_summary(request);
        vec![say(&if summarises { "They talked.".to_owned() } else { "b".repeat(300) })]
    });
    let world = World::start(Setup::with_models([Arc::clone(&model)])).await;
    let summaries = || model.requests().iter().filter(|request| is_summary(request)).count();
    let mut said = Vec::new();
    let mut requests_with_summaries = 0;
    for number in 1..=60 {
        said.push(Message::user(format!("message {number} {}", "a".repeat(300))));
        let before = summaries();
        let started = world.submit(in_new_session(&world, &said)).await.unwrap();
        let transcript = world.transcript(&started).await;
        assert!(transcript.ends_with("completed\n"), "{transcript}");
        requests_with_summaries += usize::from(summaries() > before);
        // As a model that thinks is shown to such an application, which never sends the thoughts back.
        said.push(Message::assistant("b".repeat(300)));
    }
    // Each summary makes room for several messages.
    assert!((3..=15).contains(&requests_with_summaries), "{requests_with_summaries} of 60 requests made a summary");
    let last = texts(&model.requests().pop().unwrap().messages.to_vec()).join("\n");
    assert!(last.contains("They talked.") && last.contains("message 1 ") && last.contains("message 60 "), "{last}");
    // Another tenant that says the same has a summary of its own.
    let before = summaries();
    said.push(Message::user("one more"));
    let stranger = Submit { tenant: TenantId::mint(), ..in_new_session(&world, &said) };
    world.engine.submit(stranger).await.unwrap();
    until(async || summaries() > before).await;
}
