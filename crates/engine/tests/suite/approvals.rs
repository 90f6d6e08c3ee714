//! Approvals: people allow tools to run, one after the other, by whichever door.

use everturn_core::{EffectClass, FormKind};
use everturn_engine::SubmitError;
use expect_test::expect;

use super::{
    forms::{WHERE, asks, check_forms, submitted, waiting},
    harness::*,
};

#[tokio::test(start_paused = true)]
async fn an_approval_takes_yes_and_no() {
    for (words, expected) in [("Yes!", "resumed: c1 granted\n"), ("no", "resumed: c1 denied\n")] {
        let world = waiting(asks(&[("pay", "{}")])).await;
        let unclear = world.submit(world.form_reply(None, "perhaps?")).await.unwrap_err();
        assert!(matches!(unclear, SubmitError::FormInvalid { .. }), "{unclear:?}");
        let transcript = submitted(&world, world.form_reply(None, words)).await;
        assert!(transcript.contains(expected), "{transcript}");
    }
    let world = waiting(asks(&[("pay", r#"{"text":"10 kr"}"#)])).await;
    let form = world.all_forms().await.remove(0);
    assert_eq!(form.opened.kind, FormKind::Approval);
    assert_eq!(form.opened.description.as_deref(), Some(r#"Input: {"text":"10 kr"}"#));
    let transcript = submitted(&world, world.form_reply(Some("f1"), r#"{"approved":false,"reason":"too dear"}"#)).await;
    expect![[r#"
        7 resumed: c1 denied (too dear)
        8 result c1 error: "Tool call denied: too dear"
        9 step 2 with test/one
        10 text "Done."
        11 step finished: Stop, 100+10 tokens: "Done."
        12 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&transcript);
    check_forms(
        &world,
        expect![[r#"
        f1 answered {"approved":false,"reason":"too dear"}: "Allow pay?"
    "#]],
    )
    .await;
    assert_eq!(world.setup.ledger.names(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_was_allowed_runs_at_once_and_the_rest_is_waited_for() {
    let world = waiting(asks(&[("pay", r#"{"text":"one"}"#), ("pay", r#"{"text":"two"}"#)])).await;
    let mut transcript = submitted(&world, world.form_reply(Some("f1"), r#"{"approved":true}"#)).await;
    assert_eq!(world.setup.ledger.names(), ["pay"]);
    check_forms(
        &world,
        expect![[r#"
        f1 answered {"approved":true}: "Allow pay?"
        f2 open: "Allow pay?"
    "#]],
    )
    .await;
    let refused = world.submit(world.form_reply(Some("f1"), r#"{"approved":true}"#)).await.unwrap_err();
    assert!(matches!(refused, SubmitError::FormClosed { .. }), "{refused:?}");
    transcript += &submitted(&world, world.form_reply(None, "yes")).await;
    expect![[r#"
        9 resumed: c1 granted
        10 intent c1 as e1 (Effectful)
        11 result c1: "pay ran with {\"text\":\"one\"}"
        12 waiting for permission of c2 pay
        13 resumed: c2 granted
        14 intent c2 as e2 (Effectful)
        15 result c2: "pay ran with {\"text\":\"two\"}"
        16 step 2 with test/one
        17 text "Done."
        18 step finished: Stop, 100+10 tokens: "Done."
        19 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&transcript);
}

/// Applications that cannot show forms treat them as any tool of the server's.
#[tokio::test(start_paused = true)]
async fn a_form_can_be_allowed_or_denied_as_a_tool() {
    let denied = waiting(asks(&[("request_form", WHERE)])).await;
    let transcript = submitted(&denied, denied.answers(vec![deny("c1", Some("not now"))])).await;
    assert!(transcript.contains(r#"result c1 error: "Tool call denied: not now""#), "{transcript}");
    check_forms(
        &denied,
        expect![[r#"
        f1 cancelled: "Where?"
    "#]],
    )
    .await;
    let allowed = waiting(asks(&[("request_form", WHERE)])).await;
    let transcript = submitted(&allowed, allowed.answers(vec![grant("c1")])).await;
    assert!(transcript.contains("the application cannot show forms: ask it in your answer"), "{transcript}");
    assert!(transcript.ends_with("completed\n"), "{transcript}");
}

/// Whoever knows the calls answers them, whoever knows the forms answers those; it is the same question.
#[tokio::test(start_paused = true)]
async fn one_question_has_two_doors() {
    let world = waiting(asks(&[("pay", "{}"), ("request_form", WHERE)])).await;
    let transcript = submitted(&world, world.answers(vec![grant("c1"), result("c2", r#"{"city": "Oslo"}"#)])).await;
    assert!(transcript.ends_with("completed\n"), "{transcript}");
    check_forms(
        &world,
        expect![[r#"
        f1 answered {"approved":true}: "Allow pay?"
        f2 answered {"city": "Oslo"}: "Where?"
    "#]],
    )
    .await;

    let world = waiting(asks(&[("pay", "{}"), ("request_form", WHERE)])).await;
    submitted(&world, world.form_reply(Some("f1"), r#"{"approved":true}"#)).await;
    let refused = submitted(&world, world.answers(vec![grant("c1"), result("c2", "Oslo")])).await;
    assert_eq!(refused, "refused: tool call c1 was answered before; an answer counts once\n");
    let transcript = submitted(&world, world.answers(vec![result("c2", "Oslo")])).await;
    assert!(transcript.contains(r#"resumed: c2 answered {"city":"Oslo"}"#), "{transcript}");
    check_forms(
        &world,
        expect![[r#"
        f1 answered {"approved":true}: "Allow pay?"
        f2 answered {"city":"Oslo"}: "Where?"
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn some_answers_go_before_the_others() {
    let world = waiting(asks(&[("pay", "{}"), ("weather", "{}")])).await;
    let mut transcript = submitted(&world, world.some_answers(vec![grant("c1")])).await;
    transcript += &submitted(&world, world.some_answers(vec![result("c2", "sun")])).await;
    expect![[r#"
        8 resumed: c1 granted
        9 intent c1 as e1 (Effectful)
        10 result c1: "pay ran with {}"
        11 waiting for result of c2 weather
        12 resumed: c2 gave "sun"
        13 step 2 with test/one
        14 text "Done."
        15 step finished: Stop, 100+10 tokens: "Done."
        16 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&transcript);
}

/// A tool that was allowed is cut off; the question that is still open goes with the turn.
#[tokio::test(start_paused = true)]
async fn a_stop_while_an_allowed_tool_runs_closes_the_other_question() {
    let gate = Gate::closed();
    let setup =
        asks(&[("slow", "{}"), ("pay", "{}")]).asking("slow", EffectClass::Effectful, Behaviour::Gated(gate.clone()));
    let world = waiting(setup).await;
    let started = world.submit(world.form_reply(Some("f1"), r#"{"approved":true}"#)).await.unwrap();
    gate.waiting(1).await;
    check_session(&world.store, &world.engine, &world.tenant, &world.session()).await;
    // The other one is open: its answer waits until the tool has run.
    let (engine, reply) = (world.engine.clone(), world.form_reply(Some("f2"), r#"{"approved":true}"#));
    let waits = tokio::spawn(async move { engine.submit(reply).await });
    let closed = world.submit(world.form_reply(Some("f1"), r#"{"approved":true}"#)).await.unwrap_err();
    assert!(matches!(closed, SubmitError::FormClosed { .. }), "{closed:?}");
    assert!(!waits.is_finished());
    world.stop().await.unwrap();
    let late = waits.await.unwrap().unwrap_err();
    assert!(matches!(late, SubmitError::FormClosed { .. }), "{late:?}");
    let transcript = world.transcript(&started).await;
    assert!(transcript.ends_with("cancelled: UserStop\n"), "{transcript}");
    check_forms(
        &world,
        expect![[r#"
        f1 answered {"approved":true}: "Allow slow?"
        f2 cancelled: "Allow pay?"
    "#]],
    )
    .await;
}
