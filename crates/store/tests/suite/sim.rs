//! The simulated store fails as it is told to.

use std::sync::Arc;

use everturn_core::{SessionConfig, SessionId, TenantId, Timestamp};
use everturn_store::{Command, Fault, NewSession, Receipt, SimStore, Store, StoreError};

fn create() -> (SessionId, Arc<Vec<Command>>) {
    let id = SessionId::mint();
    let config = SessionConfig::default();
    let new = NewSession {
        tenant: TenantId::local(),
        id: id.clone(),
        config,
        title: None,
        shares: None,
        turns: Vec::new(),
        key: None,
        at: Timestamp(1),
    };
    (id, Arc::new(vec![Command::CreateSession(Box::new(new))]))
}

async fn exists(store: &SimStore, id: &SessionId) -> bool {
    store.session(&TenantId::local(), id).await.unwrap().is_some()
}

#[tokio::test]
async fn failures_come_in_the_order_asked_for() {
    let store = SimStore::new();
    store.faults().fail_next(2, Fault::Lost);
    store.faults().fail_next(1, Fault::Kept);
    let (id, batch) = create();
    for is_kept in [false, false, true] {
        assert!(matches!(store.commit(Arc::clone(&batch)).await, Err(StoreError::Unavailable(_))));
        assert_eq!(exists(&store, &id).await, is_kept);
    }
    assert_eq!(store.commit(batch).await, Ok(vec![Ok(Receipt { epoch: 0, version: 1 })]));
}

#[tokio::test]
async fn the_same_seed_gives_the_same_failures() {
    let run = async |seed| {
        let store = SimStore::new();
        store.faults().fail_randomly(seed, 3);
        let mut outcomes = Vec::new();
        for _ in 0..200 {
            let (id, batch) = create();
            let is_told = store.commit(batch).await.is_ok();
            outcomes.push((is_told, exists(&store, &id).await));
        }
        outcomes
    };
    let outcomes = run(7).await;
    assert_eq!(outcomes, run(7).await);
    assert_ne!(outcomes, run(8).await);
    for kind in [(true, true), (false, true), (false, false)] {
        assert!(outcomes.contains(&kind), "{kind:?} never happens");
    }
    assert!(!outcomes.contains(&(true, false)));
}

#[tokio::test]
async fn an_outage_ends() {
    let store = SimStore::new();
    let (id, batch) = create();
    store.faults().outage();
    assert!(store.commit(Arc::clone(&batch)).await.is_err());
    assert!(store.session(&TenantId::local(), &id).await.is_err());
    store.faults().stop();
    assert!(!exists(&store, &id).await);
    assert!(store.commit(batch).await.is_ok());
}

#[tokio::test]
async fn commits_wait_at_the_gate_and_are_lost_in_a_crash() {
    let store = SimStore::new();
    let ((first, one), (second, two)) = (create(), create());
    store.faults().hold();
    let held = |batch| {
        let store = store.clone();
        tokio::spawn(async move { store.commit(batch).await })
    };
    let passing = held(one);
    store.faults().held(1).await;
    assert!(!exists(&store, &first).await);
    store.faults().release();
    assert!(passing.await.unwrap().is_ok());

    store.faults().hold();
    let lost = held(two);
    store.faults().held(1).await;
    let after = store.crash();
    assert_eq!(lost.await.unwrap(), Err(StoreError::Closed));
    assert_eq!(store.session(&TenantId::local(), &first).await, Err(StoreError::Closed));
    assert!(exists(&after, &first).await);
    assert!(!exists(&after, &second).await);
}
