//! Forms: what people are asked, and who answers.

use std::time::Duration;

use everturn_core::{FormKind, TenantId, submission::OnBusy};
use everturn_engine::{FormState, SubmissionKey, Submit, SubmitError};
use everturn_store::RecordFilter;
use expect_test::{Expect, expect};

use super::harness::*;

pub(super) const WHERE: &str = r#"{"kind":"clarify","title":"Where?","schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}"#;

/// A model that makes these calls and then says that it is done.
pub(super) fn asks(calls: &[(&str, &str)]) -> Setup {
    let mut script: Script = calls.iter().map(|(name, input)| call(name, input)).collect();
    script.push(stop());
    Setup::new([script, vec![say("Done."), stop()]]).builtin("request_form")
}

/// The model is asked for something: the turn waits for it.
pub(super) async fn waiting(setup: Setup) -> World {
    let world = World::start(setup).await;
    let transcript = world.act(Act::User("go")).await;
    assert!(transcript.contains("waiting for"), "{transcript}");
    world
}

/// What a submission does, up to the turn's next rest.
pub(super) async fn submitted(world: &World, submit: Submit) -> String {
    match world.submit(submit).await {
        Ok(started) => world.transcript(&started).await,
        Err(error) => world.shortened(format!("refused: {error}\n")),
    }
}

/// The forms of a world after something was submitted to it.
pub(super) async fn check_forms(world: &World, expect: Expect) {
    expect.assert_eq(&world.forms_shown().await);
}

#[tokio::test(start_paused = true)]
async fn a_form_is_asked_and_its_answer_is_the_result() {
    let world = World::start(asks(&[("request_form", WHERE)])).await;
    let mut transcript = world.act(Act::User("go")).await;
    check_forms(
        &world,
        expect![[r#"
        f1 open: "Where?"
    "#]],
    )
    .await;
    let form = world.all_forms().await.remove(0);
    assert_eq!((form.opened.kind, &form.session), (FormKind::Clarify, &world.session()));
    assert_eq!((form.closed_at, form.answer.as_ref()), (None, None));
    assert!(form.opened.expires_at.is_some_and(|at| at > form.created_at), "forms expire");
    transcript += &submitted(&world, world.form_reply(Some("f1"), r#"{"city":"Oslo"}"#)).await;
    transcript += &world.act(Act::History).await;
    expect![[r#"
        > go
        1 turn started in a new session: user: "go"
        2 step 1 with test/one
        3 call c1 request_form{"kind":"clarify","title":"Where?","schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}} (form)
        4 step finished: ToolUse, 100+10 tokens: [c1 request_form{"kind":"clarify","title":"Where?","schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}]
        5 form f1 for c1, clarify: "Where?"
        6 waiting for form of c1 request_form
        7 resumed: c1 answered {"city":"Oslo"}
        8 step 2 with test/one
        9 text "Done."
        10 step finished: Stop, 100+10 tokens: "Done."
        11 ended, 200+20 tokens: completed
        > history
        user: "go"
        assistant: [c1 request_form{"kind":"clarify","title":"Where?","schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}]
        result c1: "{\"city\":\"Oslo\"}"
        assistant: "Done."
    "#]]
    .assert_eq(&transcript);
    check_forms(
        &world,
        expect![[r#"
        f1 answered {"city":"Oslo"}: "Where?"
    "#]],
    )
    .await;
    let form = world.form(&world.tenant, &world.form_id("f1")).await.unwrap().expect("the form is kept");
    assert!(form.closed_at.is_some_and(|at| at >= form.created_at));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_fit_leaves_the_form_open() {
    let world = waiting(asks(&[("request_form", WHERE)])).await;
    let error = world.submit(world.form_reply(Some("f1"), r#"{"city":7}"#)).await.unwrap_err();
    assert!(matches!(&error, SubmitError::FormInvalid { form, .. } if *form == world.form_id("f1")), "{error:?}");
    expect![[r#"refused: the answer does not fit the form f1: at /city: the value is not of type "string""#]]
        .assert_eq(&world.shortened(format!("refused: {error}")));
    check_forms(
        &world,
        expect![[r#"
        f1 open: "Where?"
    "#]],
    )
    .await;
    // Also what the application sends for the same call.
    let refused = submitted(&world, world.answers(vec![result("c1", r#"{"town":"Oslo"}"#)])).await;
    assert!(refused.starts_with("refused: the answer does not fit the form f1: "), "{refused}");
    assert!(submitted(&world, world.form_reply(Some("f1"), r#"{"city":"Oslo"}"#)).await.ends_with("completed\n"));
}

#[tokio::test(start_paused = true)]
async fn a_form_whose_schema_cannot_be_used_is_not_asked() {
    let form = r#"{"kind":"clarify","title":"Where?","schema":{"type":"object","properties":{"a":{"pattern":"("}}}}"#;
    let world = World::start(asks(&[("request_form", form)])).await;
    let transcript = world.act(Act::User("go")).await;
    assert!(transcript.contains("the schema is not valid at /properties/a/pattern"), "{transcript}");
    assert!(transcript.ends_with("completed\n"), "{transcript}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_long_leaves_the_form_open() {
    let setup = asks(&[("request_form", WHERE)]).settings(|settings| settings.form_answer_bytes = 30);
    let world = waiting(setup).await;
    let long = r#"{"city":"xxxxxxxxxxxxxxxxxxxx"}"#;
    let told = "refused: the answer does not fit the form f1: the answer has 31 bytes, at most 30 are allowed";
    assert_eq!(submitted(&world, world.form_reply(Some("f1"), long)).await.trim_end(), told);
    assert_eq!(submitted(&world, world.answers(vec![result("c1", long)])).await.trim_end(), told);
    assert!(submitted(&world, world.form_reply(Some("f1"), r#"{"city":"Oslo"}"#)).await.ends_with("completed\n"));
}

#[tokio::test(start_paused = true)]
async fn a_form_is_answered_once() {
    let world = waiting(asks(&[("request_form", WHERE)])).await;
    let reply = world.form_reply(Some("f1"), r#"{"city":"Oslo"}"#);
    let (one, two) = tokio::join!(world.submit(reply.clone()), world.submit(reply.clone()));
    let refused = match (one, two) {
        (Ok(_), Err(refused)) | (Err(refused), Ok(_)) => refused,
        other => panic!("both or none counted: {other:?}"),
    };
    assert!(matches!(refused, SubmitError::FormClosed { .. }), "{refused:?}");
    world.idle().await;
    let late = world.submit(reply).await.unwrap_err();
    assert_eq!(
        world.shortened(late.to_string()),
        "the form f1 is not open: it was answered before, has expired, or was never asked in this session"
    );
    world.new_session();
    let elsewhere = world.submit(world.form_reply(Some("f1"), r#"{"city":"Oslo"}"#)).await.unwrap_err();
    assert!(matches!(elsewhere, SubmitError::FormClosed { .. }), "{elsewhere:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_sent_again_has_one_effect() {
    let world = waiting(asks(&[("request_form", WHERE)])).await;
    let key = Some(SubmissionKey { key: "k".to_owned(), fingerprint: "Oslo".to_owned() });
    let reply = Submit { key, ..world.form_reply(Some("f1"), r#"{"city":"Oslo"}"#) };
    let first = world.submit(reply.clone()).await.unwrap();
    let again = world.submit(reply.clone()).await.unwrap();
    assert_eq!((&first.turn, first.leg_start), (&again.turn, again.leg_start));
    world.idle().await;
    let late = world.submit(reply).await.unwrap();
    assert_eq!((&first.turn, first.leg_start), (&late.turn, late.leg_start));
    assert_eq!(world.turns().await, "1 \"go\" completed\n");
}

#[tokio::test(start_paused = true)]
async fn a_message_in_plain_words_answers_the_form_that_is_open() {
    let world = waiting(asks(&[("request_form", WHERE)])).await;
    expect![[r#"
        7 resumed: c1 answered {"city":"to Oslo, please"}
        8 step 2 with test/one
        9 text "Done."
        10 step finished: Stop, 100+10 tokens: "Done."
        11 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&submitted(&world, world.form_reply(None, "to Oslo, please")).await);
    // Nothing is open any more: the same is a message like any other.
    let started = world.submit(world.form_reply(None, "to Oslo, please")).await.unwrap();
    assert!(!started.is_resumed());
}

/// The clock on the wall decides, so this takes a few milliseconds of real time.
#[tokio::test]
async fn a_form_that_nobody_answers_expires_and_the_turn_goes_on() {
    let setup = asks(&[("request_form", WHERE), ("pay", "{}")])
        .settings(|settings| settings.form_expiry = Some(Duration::from_millis(5)))
        .settings(|settings| settings.approval_expiry = Some(Duration::from_millis(5)));
    let world = World::start(setup).await;
    let started = world.begin("go").await;
    expect![[r#"
        1 turn started in a new session: user: "go"
        2 step 1 with test/one
        3 call c1 request_form{"kind":"clarify","title":"Where?","schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}} (form)
        4 call c2 pay{} (asks)
        5 step finished: ToolUse, 100+10 tokens: [c1 request_form{"kind":"clarify","title":"Where?","schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}, c2 pay{}]
        6 form f1 for c1, clarify: "Where?"
        7 form f2 for c2, approval: "Allow pay?"
        8 waiting for form of c1 request_form, permission of c2 pay
        9 resumed: c1 expired, c2 expired
        10 result c2 error: "Tool call denied: nobody answered in time"
        11 step 2 with test/one
        12 text "Done."
        13 step finished: Stop, 100+10 tokens: "Done."
        14 ended, 200+20 tokens: completed
    "#]]
    .assert_eq(&world.end_of(&started.turn).await);
    check_forms(
        &world,
        expect![[r#"
        f1 expired: "Where?"
        f2 expired: "Allow pay?"
    "#]],
    )
    .await;
    let late = world.submit(world.form_reply(Some("f1"), r#"{"city":"Oslo"}"#)).await.unwrap_err();
    assert!(matches!(late, SubmitError::FormClosed { .. }), "{late:?}");
    assert_eq!(world.setup.ledger.names(), [] as [&str; 0]);
}

#[tokio::test]
async fn a_form_expires_also_after_a_restart() {
    let setup =
        asks(&[("request_form", WHERE)]).settings(|settings| settings.form_expiry = Some(Duration::from_millis(100)));
    let world = World::start(setup).await;
    let started = world.begin("go").await;
    world.transcript(&started).await;
    let world = world.restart().await;
    assert!(world.end_of(&started.turn).await.contains("resumed: c1 expired"));
}

#[tokio::test(start_paused = true)]
async fn a_form_without_expiry_stays_open() {
    let setup = asks(&[("request_form", WHERE)]).settings(|settings| settings.form_expiry = None);
    let world = waiting(setup).await;
    assert_eq!(world.all_forms().await.remove(0).opened.expires_at, None);
    // People may take their time to allow something, however soon forms expire.
    let expiry = Some(Duration::from_secs(60));
    let setup = asks(&[("pay", "{}"), ("request_form", WHERE)]).settings(|settings| settings.form_expiry = expiry);
    let world = waiting(setup).await;
    let expires: Vec<_> = world.all_forms().await.iter().map(|form| form.opened.expires_at.is_some()).collect();
    assert_eq!(expires, [false, true]);
}

#[tokio::test(start_paused = true)]
async fn a_form_stays_open_over_a_crash() {
    let world = waiting(asks(&[("pay", "{}"), ("request_form", WHERE)])).await;
    let world = world.restart().await;
    check_forms(
        &world,
        expect![[r#"
        f1 open: "Allow pay?"
        f2 open: "Where?"
    "#]],
    )
    .await;
    submitted(&world, world.form_reply(None, "yes")).await;
    let world = world.restart().await;
    assert!(submitted(&world, world.form_reply(Some("f2"), r#"{"city":"Oslo"}"#)).await.ends_with("completed\n"));
    assert_eq!(world.setup.ledger.names(), ["pay"]);
}

/// The process dies with each commit in turn, kept or not: in the end the question is open once, and answerable.
#[tokio::test(start_paused = true)]
async fn a_crash_while_somebody_is_asked() {
    for commit in 1..8 {
        for kept in [false, true] {
            let model = ScriptedModel::thinking("test/one", |request| match request.messages.last() {
                Some(everturn_core::Message::Tool { .. }) => vec![say("Done."), stop()],
                _ => vec![call("pay", "{}"), call("request_form", WHERE), stop()],
            });
            let mut world = World::start(Setup::with_models([model]).builtin("request_form")).await;
            let dying = CrashStore::new(world.store.clone(), Some(Death { commit, kept }));
            world.engine = world.setup.start(dying.clone()).await.unwrap();
            tokio::select! { _ = world.act(Act::User("go")) => {}, () = dying.dead() => {} }
            let sessions = world.sessions(&world.tenant, None, 10).await.unwrap();
            let Some(row) = sessions.first() else { continue };
            let world = world.restart_in(row.session.id.clone()).await;
            world.rested().await;
            assert_eq!(world.all_forms().await.iter().filter(|form| form.state == "open").count(), 2);
            submitted(&world, world.form_reply(None, "yes")).await;
            let transcript = submitted(&world, world.form_reply(None, "Oslo")).await;
            assert!(transcript.ends_with("completed\n"), "{transcript}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_ended_takes_its_questions_back() {
    for on_busy in [OnBusy::Supersede, OnBusy::Interrupt] {
        let world = waiting(asks(&[("pay", "{}"), ("request_form", WHERE)])).await;
        world.submit(Submit { on_busy, ..world.message("never mind") }).await.unwrap();
        world.idle().await;
        check_forms(
            &world,
            expect![[r#"
            f1 cancelled: "Allow pay?"
            f2 cancelled: "Where?"
        "#]],
        )
        .await;
    }
    let world = waiting(asks(&[("pay", "{}"), ("request_form", WHERE)])).await;
    submitted(&world, world.form_reply(None, "yes")).await;
    world.stop().await.unwrap();
    check_forms(
        &world,
        expect![[r#"
        f1 answered {"approved":true}: "Allow pay?"
        f2 cancelled: "Where?"
    "#]],
    )
    .await;
    let late = world.submit(world.form_reply(Some("f2"), r#"{"city":"Oslo"}"#)).await.unwrap_err();
    assert!(matches!(late, SubmitError::FormClosed { .. }), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_form_that_cannot_be_asked_is_refused() {
    let world = World::start(asks(&[("request_form", r#"{"kind":"clarify","title":"Where?"}"#)])).await;
    let transcript = world.act(Act::User("go")).await;
    assert!(transcript.contains(r#"result c1 error: "schema is missing"#), "{transcript}");
    assert!(transcript.ends_with("completed\n"), "{transcript}");
    check_forms(&world, expect![""]).await;
}

#[tokio::test(start_paused = true)]
async fn forms_are_listed_for_those_whose_they_are() {
    let ask = || [vec![call("pay", "{}"), stop()], vec![call("request_form", WHERE), stop()]];
    let setup = Setup::new(ask().into_iter().chain([vec![say("Done."), stop()]])).builtin("request_form");
    let world = World::start(setup).await;
    world.act(Act::User("one")).await;
    let first = world.session();
    world.new_session();
    world.act(Act::User("two")).await;
    let list = async |tenant: &TenantId, filter: RecordFilter, below, limit| {
        let forms = world.forms(tenant, &filter, below, limit).await.unwrap();
        forms.into_iter().map(|form| (form.position, form.opened.title)).collect::<Vec<_>>()
    };
    let all = list(&world.tenant, RecordFilter::default(), None, 10).await;
    let titles: Vec<_> = all.iter().map(|(_, title)| title.as_str()).collect();
    assert_eq!(titles, ["Where?", "Allow pay?"], "newest first");
    assert_eq!(list(&world.tenant, RecordFilter::default(), None, 1).await, all[..1]);
    assert_eq!(list(&world.tenant, RecordFilter::default(), Some(all[0].0), 10).await, all[1..]);
    let of_first = RecordFilter { session: Some(first), state: None };
    assert_eq!(list(&world.tenant, of_first.clone(), None, 10).await, all[1..]);
    assert_eq!(list(&TenantId::mint(), RecordFilter::default(), None, 10).await, []);
    submitted(&world, world.form_reply(None, "Oslo")).await;
    let in_state = |state: FormState| RecordFilter { session: None, state: Some(state.as_str().to_owned()) };
    assert_eq!(list(&world.tenant, in_state(FormState::Answered), None, 10).await, all[..1]);
    assert_eq!(list(&world.tenant, in_state(FormState::Open), None, 10).await, all[1..]);
    // With a session go its forms.
    world.delete(&world.tenant, &world.session(), None).await.unwrap();
    assert_eq!(list(&world.tenant, RecordFilter::default(), None, 10).await, all[1..]);
    assert!(world.form(&TenantId::mint(), &world.form_id("f1")).await.unwrap().is_none());
}
