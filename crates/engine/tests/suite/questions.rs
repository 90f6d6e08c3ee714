//! What a tool asks a person while it runs: the turn keeps running, and the tool goes on with the answer.

use std::time::Duration;

use everturn_core::{EffectClass, Json, TenantId, submission::OnBusy};
use everturn_engine::{SubmissionKey, Submit, SubmitError};
use everturn_tools::{Question, Reply, ToolContext};
use expect_test::expect;

use super::{forms::check_forms, harness::*};

pub(super) fn question(title: &str) -> Question {
    let schema = r#"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}"#;
    Question { title: title.to_owned(), description: None, schema: Json::parse(schema).unwrap() }
}

/// Asks so many questions, one after the other, and tells what it was answered.
pub(super) fn asks(count: usize) -> Behaviour {
    Behaviour::does(move |ToolContext { reporter, .. }| async move {
        let mut told = String::new();
        for number in 1..=count {
            told += &match reporter.ask(question(&format!("Where {number}?"))).await {
                Reply::Accepted(answer) => answer.as_str().trim_start_matches(r#"{"city":"#).replace('}', " "),
                Reply::Declined => "declined ".to_owned(),
                Reply::Cancelled => "cancelled ".to_owned(),
            };
        }
        told
    })
}

/// A model that calls the tools of these names, which ask as often; then it says that it is done.
pub(super) fn asking(tools: &[(&str, EffectClass, usize)]) -> Setup {
    let setup = Setup::with_models([ScriptedModel::thinking("test/one", {
        let script: Script = tools.iter().map(|(name, ..)| call(name, "{}")).chain([stop()]).collect();
        move |request| match request.messages.last() {
            Some(everturn_core::Message::Tool { .. }) => vec![say("Done."), stop()],
            _ => script.clone(),
        }
    })]);
    tools.iter().fold(setup, |setup, (name, effect, count)| setup.trusted(name, *effect, asks(*count)))
}

/// A turn is begun, and so many forms are open in it.
pub(super) async fn asked(world: &World, open: usize) -> everturn_engine::Started {
    let started = world.begin("go").await;
    opened(world, open).await;
    started
}

/// Waits until so many forms are open; the turn runs meanwhile.
pub(super) async fn opened(world: &World, count: usize) {
    until(async || world.all_forms().await.iter().filter(|form| form.state == "open").count() == count).await;
    // So that calls have names.
    world.stored().await;
}

fn is_closed<T: std::fmt::Debug>(outcome: Result<T, SubmitError>) {
    let error = outcome.unwrap_err();
    assert!(matches!(error, SubmitError::FormClosed { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_while_the_turn_runs() {
    let world = World::start(asking(&[("plan", EffectClass::ReadOnly, 2)])).await;
    let started = asked(&world, 1).await;
    assert_eq!(world.turns().await, "1 \"go\" running\n");
    let form = world.all_forms().await.remove(0);
    assert_eq!((&form.session, &form.turn), (&started.session, &started.turn));
    assert_eq!(form.opened.form_id, world.form_id("f1.1"));
    let answered = world.submit(world.form_reply(Some("f1.1"), r#"{"city":"Oslo"}"#)).await.unwrap();
    assert_eq!(answered.turn, started.turn);
    opened(&world, 1).await;
    // In plain words, by somebody who need not know what is asked.
    let answered = world.submit(world.form_reply(None, "Bergen")).await.unwrap();
    assert_eq!(answered.turn, started.turn);
    expect![[r#"
        1 turn started in a new session: user: "go"
        2 step 1 with test/one
        3 call c1 plan{} (inline)
        4 step finished: ToolUse, 100+10 tokens: [c1 plan{}]
        5 intent c1 as e1 (ReadOnly)
        6 form f1.1 for c1, clarify: "Where 1?"
        7 form f1.1 closed: {"city":"Oslo"}
        8 form f1.2 for c1, clarify: "Where 2?"
        9 form f1.2 closed: {"city":"Bergen"}
        10 result c1: "\"Oslo\" \"Bergen\" "
        11 step 2 with test/one
        12 text "Done."
        13 step finished: Stop, 100+10 tokens: "Done."
        14 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&world.transcript(&started).await);
    check_forms(
        &world,
        expect![[r#"
        f1.1 answered {"city":"Oslo"}: "Where 1?"
        f1.2 answered {"city":"Bergen"}: "Where 2?"
    "#]],
    )
    .await;
    assert_eq!(world.turns().await, "1 \"go\" completed\n", "no answer was taken for a message");
}

/// The leg that the answer is told of begins where the answer counts.
#[tokio::test(start_paused = true)]
async fn whoever_answers_can_read_what_comes_of_it() {
    let world = World::start(asking(&[("plan", EffectClass::ReadOnly, 1)])).await;
    asked(&world, 1).await;
    let answered = world.submit(world.form_reply(Some("f1.1"), r#"{"city":"Oslo"}"#)).await.unwrap();
    let leg = world.transcript(&answered).await;
    assert!(leg.starts_with("7 form f1.1 closed: {\"city\":\"Oslo\"}\n8 result c1"), "{leg}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_fit_leaves_the_question_open() {
    let world = World::start(asking(&[("plan", EffectClass::ReadOnly, 1)])).await;
    let started = asked(&world, 1).await;
    let error = world.submit(world.form_reply(Some("f1.1"), r#"{"city":7}"#)).await.unwrap_err();
    expect![[r#"the answer does not fit the form f1.1: at /city: the value is not of type "string""#]]
        .assert_eq(&world.shortened(error.to_string()));
    assert_eq!(world.forms_shown().await, "f1.1 open: \"Where 1?\"\n");
    // Of somebody else's, or of another session, it is not open at all.
    let reply = world.form_reply(Some("f1.1"), r#"{"city":"Oslo"}"#);
    let elsewhere = Submit { tenant: TenantId::mint(), ..reply.clone() };
    assert!(matches!(world.engine.submit(elsewhere).await, Err(SubmitError::NotFound)));
    world.new_session();
    let other = world.begin("other").await;
    is_closed(world.engine.submit(world.form_reply(Some("f1.1"), r#"{"city":"Oslo"}"#)).await);
    let elsewhere = Submit { target: everturn_engine::Target::Existing(other.session), ..reply.clone() };
    is_closed(world.engine.submit(elsewhere).await);
    world.engine.submit(reply).await.unwrap();
    let world = world.in_session(started.session);
    assert!(world.end_of(&started.turn).await.contains(r#"result c1: "\"Oslo\" ""#));
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_once() {
    let world = World::start(asking(&[("plan", EffectClass::ReadOnly, 1), ("slow", EffectClass::ReadOnly, 1)])).await;
    let started = asked(&world, 2).await;
    let reply = |city: &str| world.form_reply(Some("f1.1"), &format!(r#"{{"city":"{city}"}}"#));
    let (one, two, three) = (reply("Oslo"), reply("Bergen"), reply("Moss"));
    let outcomes = tokio::join!(world.submit(one), world.submit(two), world.submit(three));
    let outcomes = [outcomes.0, outcomes.1, outcomes.2];
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
    outcomes.into_iter().filter(Result::is_err).for_each(is_closed);
    let kept = world.all_forms().await.remove(0).answer.unwrap();
    // Late, while the turn still runs.
    is_closed(world.submit(reply("Voss")).await);
    world.submit(world.form_reply(Some("f2.1"), r#"{"city":"Rome"}"#)).await.unwrap();
    let transcript = world.transcript(&started).await;
    assert!(transcript.contains(&format!("form f1.1 closed: {}\n", kept.as_str())), "{transcript}");
    is_closed(world.submit(reply("Voss")).await);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_sent_again_counts_once() {
    let world = World::start(asking(&[("plan", EffectClass::ReadOnly, 2)])).await;
    let started = asked(&world, 1).await;
    let key = Some(SubmissionKey { key: "k".to_owned(), fingerprint: "Oslo".to_owned() });
    let reply = Submit { key, ..world.form_reply(None, "Oslo") };
    let first = world.submit(reply.clone()).await.unwrap();
    opened(&world, 1).await;
    let again = world.submit(reply).await.unwrap();
    assert_eq!((&first.turn, first.leg_start), (&again.turn, again.leg_start));
    assert_eq!(world.forms_shown().await.lines().last(), Some("f1.2 open: \"Where 2?\""));
    world.submit(world.form_reply(None, "Bergen")).await.unwrap();
    assert!(world.transcript(&started).await.ends_with("completed\n"));
}

#[tokio::test(start_paused = true)]
async fn two_tools_ask_at_once() {
    let world = World::start(asking(&[("plan", EffectClass::ReadOnly, 1), ("map", EffectClass::ReadOnly, 1)])).await;
    let started = asked(&world, 2).await;
    // Plain words answer what was asked first.
    world.submit(world.form_reply(None, "Oslo")).await.unwrap();
    opened(&world, 1).await;
    assert_eq!(world.forms_shown().await, "f1.1 answered {\"city\":\"Oslo\"}: \"Where 1?\"\nf2.1 open: \"Where 1?\"\n");
    world.submit(world.form_reply(None, "Rome")).await.unwrap();
    let transcript = world.transcript(&started).await;
    assert!(transcript.contains(r#"result c1: "\"Oslo\" ""#), "{transcript}");
    assert!(transcript.contains(r#"result c2: "\"Rome\" ""#), "{transcript}");
}

/// People are asked one thing after the other, whatever the tool does.
#[tokio::test(start_paused = true)]
async fn a_tool_that_asks_two_things_at_once() {
    let both = Behaviour::does(|ToolContext { reporter, .. }| async move {
        let (first, second) = (question("Whence?"), question("Whither?"));
        let (first, second) = tokio::join!(reporter.ask(first), reporter.ask(second));
        format!("{first:?} {second:?}")
    });
    let script = |request: &everturn_models::ModelRequest| match request.messages.last() {
        Some(everturn_core::Message::Tool { .. }) => vec![say("Done."), stop()],
        _ => vec![call("plan", "{}"), stop()],
    };
    let setup = Setup::with_models([ScriptedModel::thinking("test/one", script)]);
    let world = World::start(setup.trusted("plan", EffectClass::ReadOnly, both)).await;
    let started = asked(&world, 1).await;
    world.submit(world.form_reply(Some("f1.1"), r#"{"city":"Oslo"}"#)).await.unwrap();
    opened(&world, 1).await;
    world.submit(world.form_reply(Some("f1.2"), r#"{"city":"Rome"}"#)).await.unwrap();
    let transcript = world.transcript(&started).await;
    let told = r#"Accepted({\"city\":\"Oslo\"}) Accepted({\"city\":\"Rome\"})"#;
    assert!(transcript.contains(told) && transcript.ends_with("completed\n"), "{transcript}");
}

/// One call may ask a bounded number of things.
#[tokio::test(start_paused = true)]
async fn a_call_that_asks_too_much_is_not_heard() {
    let setup = Setup::new([vec![call("many", "{}"), stop()], vec![say("Done."), stop()]]);
    let world = World::start(setup.trusted("many", EffectClass::ReadOnly, asks(21))).await;
    let started = asked(&world, 1).await;
    for number in 1..=20 {
        opened(&world, 1).await;
        let form = format!("f1.{number}");
        world.submit(world.form_reply(Some(&form), r#"{"city":"x"}"#)).await.unwrap();
    }
    let transcript = world.transcript(&started).await;
    assert!(transcript.contains(r#"\"x\" cancelled ""#), "{transcript}");
    assert_eq!(world.all_forms().await.len(), 20);
}

#[tokio::test(start_paused = true)]
async fn nobody_answers_in_time() {
    let setup = asking(&[("plan", EffectClass::ReadOnly, 1)]);
    let world = World::start(setup.settings(|settings| settings.question_patience = Duration::from_secs(1000))).await;
    let begun = tokio::time::Instant::now();
    let started = asked(&world, 1).await;
    let form = world.all_forms().await.remove(0);
    let patience = form.opened.expires_at.unwrap().millis() - form.created_at.millis();
    assert!((999_000..=1_000_000).contains(&patience), "people are told when: {patience}");
    let transcript = world.transcript(&started).await;
    // Longer than the tool may take: a person's time is not its time.
    assert!(begun.elapsed() >= Duration::from_secs(1000), "{:?}", begun.elapsed());
    assert!(transcript.contains("form f1.1 closed: nobody\n8 result c1: \"cancelled \"\n"), "{transcript}");
    assert_eq!(world.forms_shown().await, "f1.1 expired: \"Where 1?\"\n");
    is_closed(world.submit(world.form_reply(Some("f1.1"), r#"{"city":"Oslo"}"#)).await);
}

/// The answer is a sign of life. Its own time in all goes on with it, from where it stood.
#[tokio::test(start_paused = true)]
async fn a_tool_has_its_time_before_and_after_it_asks() {
    let slow = Behaviour::does(async |ToolContext { reporter, .. }| {
        let progress = || reporter.notify("notifications/progress", Json::empty_object());
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(25)).await;
            progress();
        }
        reporter.ask(question("Where?")).await;
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_secs(25)).await;
            progress();
        }
        "ready".to_owned()
    });
    let setup = Setup::new([vec![call("slow", "{}"), stop()], vec![say("Done."), stop()]]);
    let world = World::start(setup.trusted("slow", EffectClass::ReadOnly, slow)).await;
    let started = asked(&world, 1).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    world.submit(world.form_reply(None, "Oslo")).await.unwrap();
    let answered = tokio::time::Instant::now();
    let transcript = world.transcript(&started).await;
    assert!(transcript.contains("result c1 error: \"Tool call timed out: it took 120s in all"), "{transcript}");
    let after = answered.elapsed();
    assert!((Duration::from_secs(44)..Duration::from_secs(46)).contains(&after), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_ended_takes_what_its_tools_ask_back() {
    for on_busy in [None, Some(OnBusy::Interrupt)] {
        let world = World::start(asking(&[("plan", EffectClass::ReadOnly, 1)])).await;
        let started = asked(&world, 1).await;
        match on_busy {
            None => world.stop().await.unwrap(),
            Some(on_busy) => drop(world.send("never mind", on_busy).await.unwrap()),
        }
        assert!(world.rest_of(&started.turn).await.contains("cancelled: "), "ended");
        assert_eq!(world.all_forms().await[0].state, "cancelled");
        is_closed(world.submit(world.form_reply(Some("f1.1"), r#"{"city":"Oslo"}"#)).await);
    }
}

/// Who says that the turn is to be ended does not answer it, whatever they say.
#[tokio::test(start_paused = true)]
async fn words_that_end_the_turn_are_no_answer() {
    let world = World::start(asking(&[("plan", EffectClass::ReadOnly, 1)])).await;
    let first = asked(&world, 1).await;
    let words = Submit { on_busy: OnBusy::Interrupt, ..world.form_reply(None, "Oslo") };
    let second = world.submit(words).await.unwrap();
    assert_ne!(first.turn, second.turn);
    assert_eq!(world.forms_shown().await.lines().next(), Some("f1.1 cancelled: \"Where 1?\""));
}
