//! Statements are planned once, whatever values they are given later.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use everturn_core::{Day, KeyId, Timestamp, TurnId};
use rusqlite::{
    Connection,
    hooks::{AuthAction, AuthContext, Authorization},
};

use super::{SqliteStore, failure_tests::Place, writer::Request};
use crate::{
    NodeId, RecordFilter, RecordKind, Store, Write,
    contract::fixture::{Talk, accept, append, append_rest, ended, put, record, rest, segment, waiting},
};

/// SQLite asks an authorizer while it plans a statement, and at no other time.
fn count_plans(connection: &mut Connection, plans: &Arc<AtomicUsize>) {
    let plans = Arc::clone(plans);
    let count = move |context: AuthContext<'_>| {
        // The beginning and the end of a transaction have no plan.
        if !matches!(context.action, AuthAction::Transaction { .. }) {
            plans.fetch_add(1, Ordering::SeqCst);
        }
        Authorization::Allow
    };
    connection.authorizer(Some(count)).expect("an authorizer");
}

/// Everything that a turn does from its beginning to its end, also that it waits and is queued.
async fn write(store: &Arc<dyn Store>, talk: &Talk) {
    let (first, second, third) = (TurnId::mint(), TurnId::mint(), TurnId::mint());
    talk.wait(store, &first).await;
    accept(store, talk.resume(&first, 2, segment(3, 1))).await;
    accept(store, talk.queue(&second, 3)).await;
    accept(store, append(&first, 2, segment(4, 2))).await;
    accept(store, append_rest(&first, 2, segment(6, 1), rest(ended(), 9))).await;
    accept(store, talk.resume(&second, 5, segment(1, 1))).await;
    accept(store, append_rest(&second, 1, segment(2, 1), rest(waiting(), 9))).await;
    accept(store, talk.replace(&third, 7, &second, segment(3, 1))).await;
    accept(store, append_rest(&third, 1, segment(2, 1), rest(ended(), 9))).await;
    let form = record(RecordKind::Form, talk.session.as_str(), Some(&talk.session), "open", "x");
    accept(store, put(&talk.tenant, vec![Write::Record(form)])).await;
}

/// Every kind of read.
async fn read(store: &Arc<dyn Store>, talk: &Talk, number: u64) {
    let (tenant, session, at) =
        (&talk.tenant, &talk.session, Timestamp(i64::try_from(number).expect("a small number")));
    let (below, limit) = (Some(number), usize::try_from(number).expect("a small number"));
    let key: KeyId = format!("key_{number}").parse().expect("a key id");
    let turns = store.turns(tenant, session).await.expect("turns");
    for turn in &turns {
        store.turn(tenant, session, &turn.id).await.expect("a turn").expect("the turn");
        store.read(&turn.id, 0, 100).await.expect("a log");
    }
    store.session(tenant, session).await.expect("a session").expect("the session");
    store.sessions(tenant, below, limit).await.expect("sessions");
    store.turns_below(tenant, session, below, limit).await.expect("turns");
    store.outlines_below(tenant, session, below, limit).await.expect("outlines");
    store.queued(tenant, session, limit).await.expect("a queue");
    store.message_count(tenant, session).await.expect("a count");
    store.queued_of_tenant(tenant).await.expect("a count");
    store.kept(tenant, session.as_str(), at).await.expect("a key");
    store.due(limit).await.expect("due turns");
    store.stalled(limit).await.expect("sessions");
    store.idle_sessions(at, limit).await.expect("sessions");
    store.old_logs(at, 1, limit).await.expect("turns");
    store.old_records(RecordKind::Form, session.as_str(), at, limit).await.expect("records");
    store.records_of_all(RecordKind::Notice, session.as_str(), below, limit).await.expect("records");
    store.record(tenant, RecordKind::Form, session.as_str()).await.expect("a record").expect("the record");
    store.blob(tenant, RecordKind::Form, session.as_str(), 7).await.expect("a blob");
    store.used_on(tenant, Day(3), Some(&key)).await.expect("usage");
    store.usage(tenant, (Day(1), Day(3)), None, limit).await.expect("usage");
    for session in [None, Some(session)] {
        for state in [None, Some(format!("state {number}"))] {
            let filter = RecordFilter { session: session.cloned(), state };
            store.records(tenant, RecordKind::Form, &filter, below, limit).await.expect("records");
        }
    }
}

#[tokio::test]
async fn statements_are_planned_once() {
    let place = Place::new();
    let sqlite: Arc<SqliteStore> = place.open();
    let store = Arc::clone(&sqlite) as Arc<dyn Store>;
    let (read_plans, write_plans) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    // One read at a time has one connection.
    let plans = Arc::clone(&read_plans);
    let counted = sqlite.readers.read(move |connection| {
        count_plans(connection, &plans);
        Ok(())
    });
    counted.await.expect("a reader");
    let plans = Arc::clone(&write_plans);
    let counted = sqlite.ask(|answer| {
        Request::Run(Box::new(move |connection| {
            count_plans(connection, &plans);
            let _ = answer.send(Ok(()));
        }))
    });
    counted.await.expect("a writer");

    let mut planned = Vec::new();
    for (owner, number) in [("acme", 5), ("globex", 6), ("initech", 9)] {
        let talk = Talk { node: NodeId(format!("node of {owner}")), ..Talk::new(owner) };
        write(&store, &talk).await;
        read(&store, &talk, number).await;
        planned.push((write_plans.swap(0, Ordering::SeqCst), read_plans.swap(0, Ordering::SeqCst)));
    }
    assert!(planned[0].0 > 0 && planned[0].1 > 0, "{planned:?}");
    assert_eq!(planned[1..], [(0, 0), (0, 0)], "statements that were planned anew, when written and when read");
}
