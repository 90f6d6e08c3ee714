//! News of turns for servers outside.

use std::collections::{BTreeMap, BTreeSet};

use everturn_core::{TenantId, submission::OnBusy};
use everturn_engine::{NOTICE_DUE, Notice, NoticeKind, Notices, Submit};
use everturn_models::{ModelErrorKind, ModelFinish};
use everturn_store::{RecordKind, Store as _};
use expect_test::{Expect, expect};

use super::{forms::WHERE, harness::*};

fn wanting(setup: Setup, kinds: &[NoticeKind]) -> Setup {
    let wanted = BTreeMap::from([(TenantId::local(), BTreeSet::from_iter(kinds.iter().copied()))]);
    Setup { notices: Notices::new(wanted), ..setup }
}

async fn check(world: &World, expected: Expect) {
    let rows = world.store.records_of_all(RecordKind::Notice, NOTICE_DUE, None, 100).await.unwrap();
    let line = |row: everturn_store::RecordRow| {
        let notice: Notice = serde_json::from_str(row.record.body.as_str()).unwrap();
        assert!(row.record.session.is_some() && row.record.turn.is_some());
        let forms = notice.forms.len();
        format!("{} {:?} {:?} {forms} forms\n", notice.kind.as_str(), notice.outcome, notice.code)
    };
    expected.assert_eq(&rows.into_iter().map(line).collect::<String>());
}

#[tokio::test(start_paused = true)]
async fn ends_and_questions_are_told_once() {
    let ask = vec![call("request_form", WHERE), stop()];
    let failing = vec![fail(ModelErrorKind::Denied)];
    let scripts = [ask.clone(), vec![say("Done"), stop()], failing, ask.clone(), ask];
    let setup = wanting(Setup::new(scripts).builtin("request_form"), &NoticeKind::ALL);
    let written = setup.notices.written();
    let world = World::start(setup).await;
    world.act(Act::User("ask")).await;
    written.notified().await;
    world.submit(world.form_reply(Some("f1"), r#"{"city":"Oslo"}"#)).await.unwrap();
    world.idle().await;
    world.act(Act::User("fail")).await;
    // A waiting turn whose place another takes, and one that is stopped.
    world.act(Act::User("ask")).await;
    world.submit(Submit { on_busy: OnBusy::Supersede, ..world.message("ask") }).await.unwrap();
    let session = world.session();
    until(async || {
        let record = world.engine.session(&world.tenant, &session).await.unwrap().unwrap();
        matches!(record.last_turn.unwrap().status, everturn_store::TurnStatus::Waiting(_))
    })
    .await;
    world.stop().await.unwrap();
    check(
        &world,
        expect![[r#"
        turn.waiting None None 1 forms
        turn.completed Some("completed") None 0 forms
        turn.failed Some("failed") Some("LLM_PROVIDER_ERROR") 0 forms
        turn.waiting None None 1 forms
        turn.cancelled Some("cancelled") Some("superseded") 0 forms
        turn.waiting None None 1 forms
        turn.cancelled Some("cancelled") Some("user_stop") 0 forms
    "#]],
    )
    .await;
    // They go with the session.
    world.delete(&world.tenant, &session, None).await.unwrap();
    check(&world, expect![[r#""#]]).await;
}

#[tokio::test(start_paused = true)]
async fn only_what_is_wanted_is_told_and_only_of_those_who_want_it() {
    let scripts = [vec![say("Done"), stop()], vec![fail(ModelErrorKind::Rejected)], vec![say("Done"), stop()]];
    let world = World::start(wanting(Setup::new(scripts), &[NoticeKind::Failed])).await;
    world.act(Act::User("one")).await;
    world.act(Act::User("two")).await;
    world.new_session();
    let other = Submit { tenant: TenantId::mint(), ..world.message("three") };
    let started = world.engine.submit(other).await.unwrap();
    leg_of(&world.engine, &started).await;
    check(
        &world,
        expect![[r#"
        turn.failed Some("failed") Some("LLM_PROVIDER_ERROR") 0 forms
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_none_is_a_failure_as_the_api_has_it() {
    let scripts = [ModelFinish::MaxTokens, ModelFinish::Refusal].map(|end| vec![say("So"), finish(end, None)]);
    let world = World::start(wanting(Setup::new(scripts), &NoticeKind::ALL)).await;
    world.act(Act::User("one")).await;
    world.act(Act::User("two")).await;
    check(
        &world,
        expect![[r#"
        turn.failed Some("max_tokens") Some("CONTEXT_OVERFLOW") 0 forms
        turn.failed Some("refused") Some("REFUSED") 0 forms
    "#]],
    )
    .await;
}
