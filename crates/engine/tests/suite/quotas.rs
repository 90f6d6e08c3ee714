//! Quotas: how many turns run at once, and how many tokens are used in a day.

use std::{
    num::{NonZeroU32, NonZeroU64},
    sync::Arc,
};

use everturn_core::{KeyId, Message, Quota, TenantId, submission::OnBusy};
use everturn_engine::{Account, Accounts, QuotaExceeded, Submit, SubmitError, Whose};
use futures_util::future::join_all;

use everturn_store::Store as _;

use super::{
    clocks::{Clocks, with_clock},
    harness::*,
};

fn turns(limit: u32) -> Quota {
    Quota { concurrent_turns: NonZeroU32::new(limit), ..Quota::default() }
}

fn tokens(limit: u64) -> Quota {
    Quota { tokens_per_day: NonZeroU64::new(limit), ..Quota::default() }
}

fn account(key: &str, key_quota: Quota, tenant_quota: Quota) -> Arc<Account> {
    Arc::new(Account { key: Some(key.parse::<KeyId>().unwrap()), key_quota, tenant_quota })
}

/// A message to a new session.
fn message(world: &World, account: &Arc<Account>) -> Submit {
    world.new_session();
    Submit { account: Arc::clone(account), ..world.message("hi") }
}

#[tokio::test(start_paused = true)]
async fn two_keys_race_for_the_turns_of_one_tenant() {
    let gate = Gate::closed();
    let scripts = (0..40).map(|_| vec![Beat::Gate(gate.clone()), say("Hello"), stop()]);
    let world = World::start(Setup::new(scripts)).await;
    let keys = [account("key_1", turns(4), turns(5)), account("key_2", turns(4), turns(5))];
    let submits: Vec<_> = (0..40).map(|n| message(&world, &keys[n % 2])).collect();
    let results = join_all(submits.into_iter().map(|submit| world.engine.submit(submit))).await;
    let (begun, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!(begun.len(), 5);
    for error in refused.into_iter().map(Result::unwrap_err) {
        let SubmitError::Quota(quota @ QuotaExceeded::Turns { whose, limit }) = error else { panic!("{error}") };
        assert_eq!(limit, if whose == Whose::Key { 4 } else { 5 });
        assert_eq!(quota.retry_after().as_secs(), 1);
        assert!(quota.to_string().contains(&format!("this {whose} may have {limit} turns running at once")));
    }
    gate.open();
    for started in begun.into_iter().map(Result::unwrap) {
        leg_of(&world.engine, &started).await;
    }
    // Each gives its place back.
    let next = async || world.engine.submit(message(&world, &keys[0])).await;
    until(async || next().await.is_ok()).await;
    // Other tenants have quotas of their own.
    let other = Submit { tenant: TenantId::mint(), ..message(&world, &keys[0]) };
    world.engine.submit(other).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_has_no_place_and_needs_one_to_go_on() {
    let gate = Gate::closed();
    let scripts = [
        vec![call("weather", "{}"), stop()],
        vec![Beat::Gate(gate.clone()), say("Hello"), stop()],
        vec![say("Sunny"), stop()],
    ];
    let world = World::start(Setup::new(scripts)).await;
    let one = account("key_1", turns(1), Quota::default());
    let waiting = world.submit(message(&world, &one)).await.unwrap();
    world.transcript(&waiting).await;
    let running = world.engine.submit(message(&world, &one)).await.unwrap();
    *world.session_in_view() = Some(waiting.session.clone());
    let answer = || Submit { account: Arc::clone(&one), ..world.answers(vec![result("c1", "sun")]) };
    let refused = world.engine.submit(answer()).await.unwrap_err();
    assert!(matches!(refused, SubmitError::Quota(QuotaExceeded::Turns { whose: Whose::Key, limit: 1 })), "{refused}");
    gate.open();
    leg_of(&world.engine, &running).await;
    // Nothing was lost by the refusal.
    until(async || world.engine.submit(answer()).await.is_ok()).await;
    world.idle().await;
}

/// Everybody may have so many turns at once.
struct Each(u32);

impl Accounts for Each {
    fn account(&self, _: &TenantId, key: Option<&KeyId>) -> Arc<Account> {
        Arc::new(Account { key: key.cloned(), key_quota: Quota::default(), tenant_quota: turns(self.0) })
    }
}

/// Those that were accepted before run when there is room; nobody who comes later is let in first.
#[tokio::test(start_paused = true)]
async fn queued_messages_wait_for_a_place() {
    let gate = Gate::closed();
    let model = ScriptedModel::thinking("test/one", {
        let gate = gate.clone();
        move |request: &everturn_models::ModelRequest| {
            let timed = matches!(request.messages.last(), Some(Message::User { content }) if content.text() == "wait");
            match timed {
                true => vec![call("wait", r#"{"seconds":86400}"#), stop()],
                false => vec![Beat::Gate(gate.clone()), say("Hello"), stop()],
            }
        }
    });
    let setup = Setup::with_models([model.clone()]).builtin("wait").agent_tools();
    let world = World::start(Setup { accounts: Arc::new(Each(2)), ..setup }).await;
    let one = account("key_1", Quota::default(), turns(2));
    let mut sessions = Vec::new();
    for _ in 0..10 {
        world.new_session();
        let submit = Submit { account: Arc::clone(&one), ..world.message("wait") };
        let started = world.submit(submit).await.unwrap();
        world.transcript(&started).await;
        let behind = Submit { on_busy: OnBusy::Enqueue, account: Arc::clone(&one), ..world.message("behind") };
        world.submit(behind).await.unwrap();
        sessions.push(started.session);
    }
    for session in &sessions {
        world.engine.stop(&world.tenant, session, None, None).await.unwrap();
    }
    gate.waiting(2).await;
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(model.under_way(), 2, "no more than two run");
    let refused = world.engine.submit(message(&world, &one)).await.unwrap_err();
    assert!(matches!(refused, SubmitError::Quota(_)), "{refused}");
    gate.open();
    for session in sessions {
        *world.session_in_view() = Some(session);
        world.idle().await;
    }
    assert!(world.engine.submit(message(&world, &one)).await.is_ok());
}

/// Of one request that comes many times at once, one wants a place.
#[tokio::test(start_paused = true)]
async fn repetitions_take_no_places() {
    let gate = Gate::closed();
    let world = World::start(Setup::new([vec![Beat::Gate(gate.clone()), say("Hello"), stop()]])).await;
    let one = account("key_1", turns(3), Quota::default());
    let key = everturn_engine::SubmissionKey { key: "k".to_owned(), fingerprint: "f".to_owned() };
    let submit = Submit { key: Some(key), ..message(&world, &one) };
    let all = join_all((0..10).map(|_| world.engine.submit(submit.clone()))).await;
    let turns: std::collections::BTreeSet<_> = all.into_iter().map(|started| started.unwrap().turn).collect();
    assert_eq!(turns.len(), 1);
    gate.open();
}

#[tokio::test(start_paused = true)]
async fn places_are_taken_again_after_a_crash() {
    let gate = Gate::closed();
    let scripts = (0..3).map(|_| vec![Beat::Gate(gate.clone()), say("Hello"), stop()]);
    let world = World::start(Setup { accounts: Arc::new(Each(1)), ..Setup::new(scripts) }).await;
    let one = account("key_1", turns(1), Quota::default());
    world.engine.submit(message(&world, &one)).await.unwrap();
    let world = world.restart().await;
    gate.waiting(1).await;
    let refused = world.engine.submit(message(&world, &one)).await.unwrap_err();
    assert!(matches!(refused, SubmitError::Quota(_)), "{refused}");
    gate.open();
    until(async || world.engine.submit(message(&world, &one)).await.is_ok()).await;
}

#[tokio::test(start_paused = true)]
async fn tokens_of_a_day_are_used_up_by_all_keys_together() {
    let scripts = (0..6).map(|_| vec![say("Hello"), stop()]);
    let world = World::start(Setup::new(scripts)).await;
    let (one, two) = (account("key_1", tokens(110), tokens(300)), account("key_2", tokens(1000), tokens(300)));
    // Each turn uses 110.
    world.transcript(&world.submit(message(&world, &one)).await.unwrap()).await;
    let refused = world.engine.submit(message(&world, &one)).await.unwrap_err();
    let SubmitError::Quota(quota) = refused else { panic!("{refused}") };
    assert!(matches!(quota, QuotaExceeded::Tokens { whose: Whose::Key, limit: 110, used: 110, .. }), "{quota:?}");
    assert!(quota.retry_after().as_secs() <= 24 * 60 * 60);
    assert!(quota.to_string().starts_with("this key may use 110 tokens a day and has used 110 today"));
    world.transcript(&world.submit(message(&world, &two)).await.unwrap()).await;
    world.transcript(&world.submit(message(&world, &two)).await.unwrap()).await;
    let refused = world.engine.submit(message(&world, &two)).await.unwrap_err();
    assert!(
        matches!(
            refused,
            SubmitError::Quota(QuotaExceeded::Tokens { whose: Whose::Tenant, limit: 300, used: 330, .. })
        ),
        "{refused}"
    );
    // What is queued is a new turn as well; whoever has no bound goes on.
    let queued = Submit { on_busy: OnBusy::Enqueue, ..message(&world, &two) };
    world.engine.submit(queued).await.unwrap_err();
    world.transcript(&world.submit(message(&world, &Arc::default())).await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_repeated_submission_is_answered_whatever_the_quota_says() {
    let gate = Gate::closed();
    let world = World::start(Setup::new([vec![Beat::Gate(gate.clone()), say("Hello"), stop()]])).await;
    let one = account("key_1", turns(1), Quota::default());
    let key = everturn_engine::SubmissionKey { key: "k".to_owned(), fingerprint: "f".to_owned() };
    let submit = Submit { key: Some(key), ..message(&world, &one) };
    let first = world.engine.submit(submit.clone()).await.unwrap();
    let again = world.engine.submit(submit).await.unwrap();
    assert_eq!((first.session, first.turn), (again.session, again.turn));
    gate.open();
}

/// Everybody may use so many tokens a day.
struct Daily(std::sync::atomic::AtomicU64);

impl Accounts for Daily {
    fn account(&self, _: &TenantId, key: Option<&KeyId>) -> Arc<Account> {
        let limit = self.0.load(std::sync::atomic::Ordering::Relaxed);
        Arc::new(Account { key: key.cloned(), key_quota: Quota::default(), tenant_quota: tokens(limit) })
    }
}

/// Messages are accepted while there are tokens left; each of them runs only if there still are.
#[tokio::test(start_paused = true)]
async fn queued_messages_and_timers_wait_for_tokens_of_the_day() {
    let model = ScriptedModel::thinking("test/one", |request| match request.messages.last() {
        Some(Message::User { content }) if content.text() == "wait" => vec![call("wait", r#"{"seconds":60}"#), stop()],
        _ => vec![say("Hello"), stop()],
    });
    let daily = Arc::new(Daily(100.into()));
    let setup = Setup::with_models([model.clone()]).builtin("wait").agent_tools();
    let setup = with_clock(setup, &Clocks::new());
    let world = World::start(Setup { accounts: daily.clone(), ..setup }).await;
    let one = account("key_1", Quota::default(), tokens(100));
    // One step uses 110: what comes after it was accepted before.
    let first = world.submit(Submit { account: Arc::clone(&one), ..world.message("wait") }).await.unwrap();
    world.transcript(&first).await;
    let behind = || Submit { on_busy: OnBusy::Enqueue, account: Arc::default(), ..world.message("behind") };
    let queued = [world.submit(behind()).await.unwrap(), world.submit(behind()).await.unwrap()];
    let beyond = Submit { account: Arc::clone(&one), ..behind() };
    let refused = world.engine.submit(beyond).await.unwrap_err();
    assert!(matches!(refused, SubmitError::Quota(QuotaExceeded::Tokens { .. })), "{refused}");
    let waits = async || {
        let record = world.store.session(&world.tenant, &first.session).await.unwrap().unwrap();
        let last = record.last_turn.unwrap();
        matches!(last.status, everturn_store::TurnStatus::Waiting(wait) if wait.calls.is_empty()).then_some(last.id)
    };
    until(async || waits().await.is_some_and(|turn| turn == first.turn)).await;
    assert_eq!(model.requests().len(), 1, "nobody called the model");
    // Tokens are there again tomorrow.
    tokio::time::sleep(std::time::Duration::from_secs(12 * 60 * 60)).await;
    assert_eq!(model.requests().len(), 1);
    daily.0.store(1000, std::sync::atomic::Ordering::Relaxed);
    tokio::time::sleep(std::time::Duration::from_secs(24 * 60 * 60)).await;
    for started in &queued {
        world.transcript(started).await;
    }
    assert_eq!(model.requests().len(), 4);
}
