//! What the server looks for by itself, of all tenants: what is due, and what has grown old.

use std::sync::Arc;

use bytes::Bytes;
use everturn_core::{Timestamp, TurnId};

use super::{
    Harness,
    fixture::{
        Talk, accept, append_rest, commit, ended, put, receipt, record, rest, segment, submit, timed, waiting,
        waiting_until,
    },
};
use crate::{Command, DueTurn, RecordKind, Refusal, Store, Write};

/// Those whose time comes first, whoever they belong to; only as long as they wait.
pub async fn due_turns_come_in_the_order_of_their_times(harness: &impl Harness) {
    let mut store = harness.open().await;
    let mut waits = Vec::new();
    for (owner, wake_at) in [("acme", 300), ("evil", 100), ("acme", 200), ("acme", 150), ("acme", i64::MAX)] {
        let (talk, turn) = (Talk::new(owner), TurnId::mint());
        accept(&store, talk.begin(&turn, None, 1)).await;
        accept(&store, append_rest(&turn, 1, segment(2, 1), rest(waiting_until(Some(wake_at)), 1))).await;
        waits.push((talk, turn, wake_at));
    }
    Talk::new("acme").wait(&store, &TurnId::mint()).await;
    accept(&store, Talk::new("acme").begin(&TurnId::mint(), None, 1)).await;
    let expected = |order: &[usize]| -> Vec<DueTurn> {
        let due = order.iter().map(|index| &waits[*index]).map(|(talk, turn, wake_at)| DueTurn {
            tenant: talk.tenant.clone(),
            session: talk.session.clone(),
            turn: turn.clone(),
            wake_at: Timestamp(*wake_at),
        });
        due.collect()
    };
    for is_reopened in [false, true] {
        if is_reopened {
            drop(store);
            store = harness.open().await;
        }
        assert_eq!(store.due(10).await, Ok(expected(&[1, 3, 2, 0, 4])));
        assert_eq!(store.due(2).await, Ok(expected(&[1, 3])));
        assert_eq!(store.due(0).await, Ok(Vec::new()));
    }

    accept(&store, waits[1].0.resume(&waits[1].1, 2, segment(3, 1))).await;
    accept(&store, waits[3].0.end(&waits[3].1, 2, segment(3, 1))).await;
    accept(&store, waits[0].0.delete()).await;
    accept(&store, waits[4].0.replace(&TurnId::mint(), 2, &waits[4].1, segment(3, 1))).await;
    assert_eq!(store.due(10).await, Ok(expected(&[2])));
    // It waits again, for another time or for none.
    accept(&store, append_rest(&waits[1].1, 2, segment(4, 1), rest(waiting_until(Some(400)), 1))).await;
    assert_eq!(store.due(10).await.expect("a list").iter().map(|due| due.wake_at.0).collect::<Vec<_>>(), [200, 400]);
    accept(&store, waits[2].0.resume(&waits[2].1, 2, segment(3, 1))).await;
    accept(&store, append_rest(&waits[2].1, 2, segment(4, 1), rest(waiting(), 1))).await;
    assert_eq!(store.due(10).await.expect("a list").iter().map(|due| due.wake_at.0).collect::<Vec<_>>(), [400]);
}

/// Sessions that have something to do and nothing that keeps them from it.
pub async fn stalled_sessions_are_found(harness: &impl Harness) {
    let mut store = harness.open().await;
    let talks: Vec<Talk> = ["acme", "evil", "acme", "acme"].into_iter().map(Talk::new).collect();
    let names: Vec<[TurnId; 3]> = talks.iter().map(|_| [TurnId::mint(), TurnId::mint(), TurnId::mint()]).collect();
    for (talk, [first, second, third]) in talks.iter().zip(&names) {
        let batch = vec![talk.begin(first, None, 1), talk.queue(second, 1), talk.queue(third, 2)];
        assert!(commit(&store, batch).await.iter().all(Result::is_ok));
    }
    assert_eq!(store.stalled(10).await, Ok(Vec::new()));
    let id = |index: usize| (talks[index].tenant.clone(), talks[index].session.clone());
    accept(&store, append_rest(&names[2][0], 1, segment(2, 1), rest(ended(), 1))).await;
    accept(&store, append_rest(&names[1][0], 1, segment(2, 1), rest(ended(), 1))).await;
    accept(&store, append_rest(&names[0][0], 1, segment(2, 1), rest(waiting(), 1))).await;
    for is_reopened in [false, true] {
        if is_reopened {
            drop(store);
            store = harness.open().await;
        }
        assert_eq!(store.stalled(10).await, Ok(vec![id(1), id(2)]));
        assert_eq!(store.stalled(1).await, Ok(vec![id(1)]));
    }
    accept(&store, talks[0].end(&names[0][0], 4, segment(3, 1))).await;
    accept(&store, talks[1].resume(&names[1][1], 4, segment(1, 1))).await;
    accept(&store, talks[2].end(&names[2][1], 4, segment(1, 1))).await;
    assert_eq!(store.stalled(10).await, Ok(vec![id(0), id(2)]));
    accept(&store, talks[2].end(&names[2][2], 5, segment(1, 1))).await;
    accept(&store, talks[0].delete()).await;
    assert_eq!(store.stalled(10).await, Ok(Vec::new()));
}

/// In all sessions of the tenant: as they are queued, begin, end, are deleted with their session, and after a restart.
pub async fn queued_turns_of_a_tenant_are_counted(harness: &impl Harness) {
    let mut store = harness.open().await;
    let talks: Vec<Talk> = ["acme", "acme", "evil"].into_iter().map(Talk::new).collect();
    let names: Vec<[TurnId; 3]> = talks.iter().map(|_| [TurnId::mint(), TurnId::mint(), TurnId::mint()]).collect();
    let counts = async |store: &Arc<dyn Store>| {
        let mut counts = Vec::new();
        for tenant in ["acme", "evil", "nobody"] {
            counts.push(store.queued_of_tenant(&tenant.parse().expect("a name")).await.expect("a count"));
        }
        counts
    };
    assert_eq!(counts(&store).await, [0, 0, 0]);
    for (talk, [first, second, third]) in talks.iter().zip(&names) {
        let batch = vec![talk.begin(first, None, 1), talk.queue(second, 1), talk.queue(third, 2)];
        assert!(commit(&store, batch).await.iter().all(Result::is_ok));
    }
    for is_reopened in [false, true] {
        if is_reopened {
            drop(store);
            store = harness.open().await;
        }
        assert_eq!(counts(&store).await, [4, 2, 0]);
    }
    // One begins, one is stopped before it has begun.
    accept(&store, append_rest(&names[0][0], 1, segment(2, 1), rest(ended(), 1))).await;
    assert_eq!(counts(&store).await, [4, 2, 0]);
    accept(&store, talks[0].resume(&names[0][1], 4, segment(1, 1))).await;
    assert_eq!(counts(&store).await, [3, 2, 0]);
    accept(&store, talks[0].end(&names[0][2], 5, segment(1, 1))).await;
    assert_eq!(counts(&store).await, [2, 2, 0]);
    accept(&store, talks[1].delete()).await;
    accept(&store, talks[2].delete()).await;
    assert_eq!(counts(&store).await, [0, 0, 0]);
}

/// By the time of their last change; those that have something to do are not among them.
pub async fn idle_sessions_are_found(harness: &impl Harness) {
    let mut store = harness.open().await;
    let talks: Vec<Talk> = ["acme", "evil", "acme", "acme", "acme"].into_iter().map(Talk::new).collect();
    let [never, over, runs, waits, queued] = talks.as_slice() else { unreachable!("five") };
    let (first, running, resting) = (TurnId::mint(), TurnId::mint(), TurnId::mint());
    let batch = vec![
        timed(never.create(), 300),
        timed(over.begin(&first, None, 1), 100),
        timed(append_rest(&first, 1, segment(2, 1), rest(ended(), 1)), 200),
        timed(runs.begin(&running, None, 1), 100),
        timed(waits.begin(&resting, None, 1), 100),
        timed(append_rest(&resting, 1, segment(2, 1), rest(waiting(), 1)), 100),
        timed(queued.create(), 100),
        timed(queued.queue(&TurnId::mint(), 1), 100),
    ];
    assert!(commit(&store, batch).await.iter().all(Result::is_ok));
    let id = |talk: &Talk| (talk.tenant.clone(), talk.session.clone());
    for is_reopened in [false, true] {
        if is_reopened {
            drop(store);
            store = harness.open().await;
        }
        assert_eq!(store.idle_sessions(Timestamp(200), 10).await, Ok(Vec::new()));
        assert_eq!(store.idle_sessions(Timestamp(201), 10).await, Ok(vec![id(over)]));
        assert_eq!(store.idle_sessions(Timestamp(1_000), 10).await, Ok(vec![id(over), id(never)]));
        assert_eq!(store.idle_sessions(Timestamp(1_000), 1).await, Ok(vec![id(over)]));
    }
    // One that was found and is in use by now stays.
    for (talk, before) in [(over, 200), (never, 300), (runs, 1_000), (waits, 1_000), (queued, 1_000)] {
        assert_eq!(submit(&store, talk.delete_if_idle(before)).await, Err(Refusal::Changed));
    }
    // A title is no change; a turn is.
    let title = Write::Title { session: never.session.clone(), title: "still here".to_owned() };
    accept(&store, timed(put(&never.tenant, vec![title]), 900)).await;
    accept(&store, timed(over.begin(&TurnId::mint(), Some(2), 1), 400)).await;
    accept(&store, timed(append_rest(&running, 1, segment(2, 1), rest(ended(), 1)), 250)).await;
    assert_eq!(store.idle_sessions(Timestamp(1_000), 10).await, Ok(vec![id(runs), id(never)]));
    accept(&store, runs.delete_if_idle(251)).await;
    assert_eq!(store.idle_sessions(Timestamp(1_000), 10).await, Ok(vec![id(never)]));
}

/// By their state and the time of their last change.
pub async fn old_records_are_found(harness: &impl Harness) {
    let mut store = harness.open().await;
    let (ours, theirs) = (Talk::new("acme").tenant, Talk::new("evil").tenant);
    let write = |kind, name, state| vec![Write::Record(record(kind, name, None, state, "x"))];
    for (owner, kind, name, at) in [
        (&ours, RecordKind::Document, "a", 300),
        (&theirs, RecordKind::Document, "a", 100),
        (&ours, RecordKind::Document, "b", 200),
        (&ours, RecordKind::Form, "a", 50),
    ] {
        accept(&store, timed(put(owner, write(kind, name, "new")), at)).await;
    }
    let bytes = Bytes::from_static(b"content");
    let (kind, id) = (RecordKind::Document, "b".to_owned());
    accept(&store, timed(put(&ours, vec![Write::Blob { kind, id, part: 0, bytes }]), 900)).await;
    for is_reopened in [false, true] {
        if is_reopened {
            drop(store);
            store = harness.open().await;
        }
        let old = async |before, limit| {
            let rows = store.old_records(RecordKind::Document, "new", Timestamp(before), limit).await.expect("records");
            rows.into_iter().map(|row| (row.tenant, row.record.id, row.updated_at.0)).collect::<Vec<_>>()
        };
        let all = [
            (theirs.clone(), "a".to_owned(), 100),
            (ours.clone(), "b".to_owned(), 200),
            (ours.clone(), "a".to_owned(), 300),
        ];
        for (before, limit, count) in [(100, 10, 0), (101, 10, 1), (1_000, 10, 3), (1_000, 2, 2), (1_000, 0, 0)] {
            assert_eq!(old(before, limit).await, all[..count], "{limit} before {before}");
        }
    }
    accept(&store, timed(put(&ours, write(RecordKind::Document, "b", "changed")), 800)).await;
    for (state, times) in [("new", [100, 300].as_slice()), ("changed", &[800]), ("other", &[])] {
        let rows = store.old_records(RecordKind::Document, state, Timestamp(1_000), 10).await.expect("records");
        assert_eq!(rows.iter().map(|row| row.updated_at.0).collect::<Vec<_>>(), times, "{state}");
    }
}

/// Those that were deleted before a time; the others stay taken.
pub async fn names_of_deleted_sessions_are_forgotten(harness: &impl Harness) {
    let mut store = harness.open().await;
    let (early, late, stranger) = (Talk::new("acme"), Talk::new("acme"), Talk::new("evil"));
    for (talk, at) in [(&early, 100), (&late, 200), (&stranger, 150)] {
        accept(&store, talk.create()).await;
        accept(&store, timed(talk.delete(), at)).await;
        // The time of the deletion is that of the first.
        accept(&store, timed(talk.delete(), 900)).await;
    }
    assert_eq!(submit(&store, Command::ForgetDeleted { before: Timestamp(100) }).await, receipt(0, 0));
    drop(store);
    store = harness.open().await;
    for talk in [&early, &late, &stranger] {
        assert_eq!(submit(&store, talk.create()).await, Err(Refusal::Exists));
    }
    for _ in 0..2 {
        assert_eq!(submit(&store, Command::ForgetDeleted { before: Timestamp(200) }).await, receipt(0, 0));
    }
    assert_eq!(submit(&store, early.delete()).await, Err(Refusal::NotFound));
    assert_eq!(submit(&store, early.create()).await, receipt(0, 1));
    assert_eq!(submit(&store, stranger.begin(&TurnId::mint(), None, 1)).await, receipt(1, 1));
    assert_eq!(submit(&store, late.create()).await, Err(Refusal::Exists));
    assert_eq!(submit(&store, late.delete()).await, receipt(0, 0));
}
