//! Sessions whose names the client chose: made where they are not there.

use everturn_core::{SessionId, TenantId, submission::OnBusy, submission::Refused};
use everturn_engine::{SubmissionKey, Submit, SubmitError, Target};
use everturn_store::TurnStatus;

use super::harness::*;

fn name() -> SessionId {
    "thread-1".parse().unwrap()
}

fn named(world: &World, text: &str) -> Submit {
    let target = Target::Named { session: name(), agent: "tester".to_owned() };
    Submit { target, update: world.setup.update.clone(), ..world.message(text) }
}

fn talkative() -> Setup {
    Setup::with_models([ScriptedModel::thinking("test/one", |_| vec![say("Hello."), stop()])])
}

#[tokio::test(start_paused = true)]
async fn a_named_session_is_made_once_and_used_then() {
    let world = World::start(talkative()).await;
    let first = world.submit(named(&world, "one")).await.unwrap();
    assert_eq!(first.session, name());
    assert!(world.transcript(&first).await.starts_with("1 turn started in a new session"));
    let second = world.submit(named(&world, "two")).await.unwrap();
    assert!(world.transcript(&second).await.starts_with("1 turn started: user: \"two\""));
    assert_eq!(world.turns().await, "1 \"one\" completed\n2 \"two\" completed\n");
    // Of another tenant it is another.
    let other = Submit { tenant: TenantId::mint(), ..named(&world, "three") };
    let third = world.engine.submit(other).await.unwrap();
    assert_eq!(leg_of(&world.engine, &third).await.len(), 5);
    assert_eq!(world.turns().await.lines().count(), 2);
}

/// Many at once make one session; those that come second are treated as by any busy session.
#[tokio::test(start_paused = true)]
async fn two_at_once_make_one_session() {
    for on_busy in [OnBusy::Supersede, OnBusy::Enqueue, OnBusy::Reject, OnBusy::Interrupt] {
        let world = World::start(talkative()).await;
        let submit = Submit { on_busy, ..named(&world, "hi") };
        let all = futures_util::future::join_all((0..8).map(|_| world.submit(submit.clone()))).await;
        let taken = all.iter().filter(|outcome| outcome.is_ok()).count();
        assert!(taken >= 1, "{all:?}");
        for error in all.into_iter().filter_map(Result::err) {
            assert!(matches!(error, SubmitError::Refused(Refused::Busy)), "{error:?}");
        }
        world.idle().await;
        assert_eq!(world.sessions(&world.tenant, None, 10).await.unwrap().len(), 1);
        let turns = world.turns().await;
        assert_eq!(turns.lines().count(), taken, "{turns}");
        match on_busy {
            OnBusy::Enqueue | OnBusy::Interrupt => assert_eq!(taken, 8),
            OnBusy::Supersede | OnBusy::Reject => {}
        }
        assert!(turns.contains("completed"), "{turns}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_name_of_a_deleted_session_is_not_given_again() {
    let world = World::start(talkative()).await;
    let first = world.submit(named(&world, "one")).await.unwrap();
    world.transcript(&first).await;
    world.delete(&world.tenant, &name(), None).await.unwrap();
    let error = world.engine.submit(named(&world, "two")).await.unwrap_err();
    assert_eq!(error.to_string(), "session thread-1 was deleted; its name cannot be used again");
    assert!(matches!(error, SubmitError::Deleted { .. }));
    // Somebody else's deletion is not ours.
    let other = Submit { tenant: TenantId::mint(), ..named(&world, "two") };
    assert!(world.engine.submit(other).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_named_submission_that_is_sent_again_has_one_effect() {
    let world = World::start(talkative()).await;
    let key = Some(SubmissionKey { key: "k".to_owned(), fingerprint: "f".to_owned() });
    let submit = Submit { key, ..named(&world, "one") };
    let all = futures_util::future::join_all((0..4).map(|_| world.submit(submit.clone()))).await;
    let turns: std::collections::BTreeSet<_> = all.into_iter().map(|outcome| outcome.unwrap().turn).collect();
    assert_eq!(turns.len(), 1);
    world.idle().await;
    assert_eq!(world.turns().await, "1 \"one\" completed\n");
}

/// A refusal leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn a_named_session_that_is_refused_is_not_made() {
    let world = World::start(talkative()).await;
    let target = Target::Named { session: name(), agent: "nosuch".to_owned() };
    let error = world.engine.submit(Submit { target, ..world.message("hi") }).await.unwrap_err();
    assert!(matches!(error, SubmitError::UnknownAgent { .. }), "{error:?}");
    assert_eq!(world.engine.session(&world.tenant, &name()).await.unwrap(), None);
    // One that is there keeps its agent.
    let first = world.submit(named(&world, "one")).await.unwrap();
    world.transcript(&first).await;
    let target = Target::Named { session: name(), agent: "nosuch".to_owned() };
    let again = world.engine.submit(Submit { target, ..world.message("hi") }).await.unwrap();
    world.transcript(&again).await;
    let record = world.engine.session(&world.tenant, &name()).await.unwrap().unwrap();
    assert_eq!(record.config.agent, "tester");
    assert!(matches!(record.last_turn.unwrap().status, TurnStatus::Ended(_)));
}
