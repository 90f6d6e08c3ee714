//! What a tool asks, when the process or the store does not hold.

use std::{cell::Cell, time::Duration};

use everturn_core::EffectClass;
use everturn_engine::{SubmissionKey, Submit, SubmitError};
use everturn_store::Fault;
use expect_test::expect;

use super::{
    forms::check_forms,
    harness::*,
    questions::{asked, asking, opened},
};

#[tokio::test(start_paused = true)]
async fn a_tool_that_may_be_repeated_asks_again_after_a_crash() {
    for effect in [EffectClass::ReadOnly, EffectClass::Idempotent] {
        let world = World::start(asking(&[("plan", effect, 1)])).await;
        let started = asked(&world, 1).await;
        let world = world.restart().await;
        until(async || world.stored().await.matches("form f1.1 for c1").count() == 2).await;
        opened(&world, 1).await;
        world.submit(world.form_reply(None, "Oslo")).await.unwrap();
        let transcript = world.end_of(&started.turn).await;
        assert!(transcript.contains(r#"result c1: "\"Oslo\" ""#), "{transcript}");
        check_forms(
            &world,
            expect![[r#"
            f1.1 answered {"city":"Oslo"}: "Where 1?"
        "#]],
        )
        .await;
        let runs: Vec<_> = world.setup.ledger.runs_by_effect().into_values().collect();
        assert_eq!(runs, [2], "the same effect, twice");
    }
}

/// Whoever answers before the tool has asked again is not kept waiting for a turn that waits for this very answer.
#[tokio::test(start_paused = true)]
async fn an_answer_may_come_before_the_tool_asks_again() {
    let world = World::start(asking(&[("plan", EffectClass::ReadOnly, 1)])).await;
    let started = asked(&world, 1).await;
    let world = world.restart().await;
    let begun = tokio::time::Instant::now();
    loop {
        match world.submit(world.form_reply(Some("f1.1"), r#"{"city":"Oslo"}"#)).await {
            Ok(answered) => break assert_eq!(answered.turn, started.turn),
            // Between the question of before and that of now.
            Err(SubmitError::FormClosed { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(world.end_of(&started.turn).await.ends_with("completed\n"));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_may_not_be_repeated_asks_no_more_after_a_crash() {
    let world = World::start(asking(&[("plan", EffectClass::Effectful, 1)])).await;
    let started = asked(&world, 1).await;
    let world = world.restart().await;
    let transcript = world.end_of(&started.turn).await;
    let told =
        "7 form f1.1 closed: nobody\n8 result c1 error: \"Tool call interrupted: the server stopped while it ran.";
    assert!(transcript.contains(told), "{transcript}");
    assert_eq!(world.forms_shown().await, "f1.1 cancelled: \"Where 1?\"\n");
    let late = world.submit(world.form_reply(Some("f1.1"), r#"{"city":"Oslo"}"#)).await.unwrap_err();
    assert!(matches!(late, SubmitError::FormClosed { .. }), "{late:?}");
}

/// The process dies with each commit in turn, kept or not, while somebody answers: in the end the turn is over, the tool had
/// one answer, and the form is closed.
#[tokio::test(start_paused = true)]
async fn a_crash_while_somebody_answers() {
    let asked_again = Cell::new(0);
    for commit in 1..14 {
        for kept in [false, true] {
            for effect in [EffectClass::ReadOnly, EffectClass::Effectful] {
                let mut world = World::start(asking(&[("plan", effect, 2)])).await;
                let dying = CrashStore::new(world.store.clone(), Some(Death { commit, kept }));
                world.engine = world.setup.start(dying.clone()).await.unwrap();
                let talk = async {
                    let started = world.begin("go").await;
                    for _ in 0..2 {
                        opened(&world, 1).await;
                        world.submit(world.form_reply(None, "Oslo")).await.unwrap();
                    }
                    world.transcript(&started).await;
                };
                tokio::select! { () = talk => {}, () = dying.dead() => {} }
                let sessions = world.sessions(&world.tenant, None, 10).await.unwrap();
                let Some(row) = sessions.first() else { continue };
                let turn = row.session.last_turn.clone().unwrap().id;
                let world = world.restart_in(row.session.id.clone()).await;
                until(async || {
                    let forms = world.all_forms().await;
                    if let Some(form) = forms.iter().find(|form| form.state == "open") {
                        asked_again.set(asked_again.get() + 1);
                        let reply = everturn_engine::Reply {
                            form: Some(form.opened.form_id.clone()),
                            value: everturn_core::Json::parse(r#"{"city":"Oslo"}"#).unwrap(),
                        };
                        let reply =
                            Submit::reply(world.tenant.clone(), Default::default(), world.session(), reply, None);
                        // It may be about to be closed.
                        let _ = world.engine.submit(reply).await;
                    }
                    world.turn_record(&turn).await.status.is_ended()
                })
                .await;
                let transcript = world.end_of(&turn).await;
                assert!(transcript.ends_with("completed\n"), "{transcript}");
                assert!(world.all_forms().await.iter().all(|form| form.state != "open"));
                let runs = world.setup.ledger.runs_by_effect().into_values().max().unwrap_or(0);
                assert!(runs <= if effect == EffectClass::Effectful { 1 } else { 2 }, "{runs}");
            }
        }
    }
    assert!(asked_again.get() > 10, "{asked_again:?}");
}

/// The store fails, but has kept the answer: with a key it is known to count; without one nobody knows, and it does.
#[tokio::test(start_paused = true)]
async fn an_answer_that_was_kept_although_its_commit_failed_reaches_the_tool() {
    let key = || SubmissionKey { key: "k".to_owned(), fingerprint: "Oslo".to_owned() };
    for key in [Some(key()), None] {
        let world = World::start(asking(&[("plan", EffectClass::ReadOnly, 1)])).await;
        let started = asked(&world, 1).await;
        let reply = Submit { key, ..world.form_reply(Some("f1.1"), r#"{"city":"Oslo"}"#) };
        world.store.faults().fail_next(1, Fault::Kept);
        match world.submit(reply.clone()).await {
            Ok(answered) => assert_eq!(answered.turn, started.turn),
            Err(error) => assert!(matches!(error, SubmitError::Store(_)) && reply.key.is_none(), "{error:?}"),
        }
        let transcript = world.transcript(&started).await;
        assert!(transcript.contains(r#"result c1: "\"Oslo\" ""#), "{transcript}");
        assert_eq!(world.forms_shown().await, "f1.1 answered {\"city\":\"Oslo\"}: \"Where 1?\"\n");
    }
}

/// The answer comes in time, and the time is over while it is being kept: it counts all the same.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_being_kept_is_not_too_late() {
    let setup = asking(&[("plan", EffectClass::ReadOnly, 1)]);
    let world = World::start(setup.settings(|settings| settings.question_patience = Duration::from_secs(10))).await;
    let started = asked(&world, 1).await;
    world.store.faults().hold();
    let reply = world.form_reply(Some("f1.1"), r#"{"city":"Oslo"}"#);
    let (outcome, ()) = tokio::join!(world.submit(reply), async {
        world.store.faults().held(1).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        world.store.faults().release();
    });
    outcome.unwrap();
    let transcript = world.transcript(&started).await;
    assert!(transcript.contains(r#"result c1: "\"Oslo\" ""#), "{transcript}");
    assert_eq!(world.forms_shown().await, "f1.1 answered {\"city\":\"Oslo\"}: \"Where 1?\"\n");
}

/// The store fails and keeps nothing: the question stays open.
#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_can_be_given_again() {
    let world = World::start(asking(&[("plan", EffectClass::ReadOnly, 1)])).await;
    let started = asked(&world, 1).await;
    world.store.faults().fail_next(1, Fault::Lost);
    let reply = world.form_reply(Some("f1.1"), r#"{"city":"Oslo"}"#);
    let failed = world.submit(reply.clone()).await.unwrap_err();
    assert!(matches!(failed, SubmitError::Store(_)), "{failed:?}");
    world.submit(reply).await.unwrap();
    assert!(world.transcript(&started).await.contains(r#"result c1: "\"Oslo\" ""#));
}

/// A shutdown leaves the question to the next start.
#[tokio::test(start_paused = true)]
async fn a_question_outlives_a_shutdown() {
    let mut world = World::start(asking(&[("plan", EffectClass::ReadOnly, 1)])).await;
    let started = asked(&world, 1).await;
    world.engine.shutdown(Duration::from_millis(10)).await;
    world.engine = world.setup.start(world.store.clone()).await.unwrap();
    until(async || world.stored().await.matches("form f1.1 for c1").count() == 2).await;
    world.submit(world.form_reply(None, "Oslo")).await.unwrap();
    assert!(world.end_of(&started.turn).await.ends_with("completed\n"));
}
