//! Who submitted a turn, and what is looked for among the records of all tenants.

use std::sync::Arc;

use everturn_core::{Json, KeyId, TurnId};

use super::{
    Harness,
    fixture::{Talk, accept, append_rest, ended, over, put, record, rest, segment, submit, tenant, waiting},
};
use crate::{BeginTurn, Command, Record, RecordKind, RecordRow, Start, Store, Write};

fn key(name: &str) -> Option<KeyId> {
    Some(name.parse().expect("a key id"))
}

/// From its beginning on, wherever the turn goes.
pub async fn turns_know_who_submitted_them(harness: &impl Harness) {
    let mut store = harness.open().await;
    let (talk, fork) = (Talk::new("acme"), Talk::new("acme"));
    let turns: Vec<TurnId> = (0..4).map(|_| TurnId::mint()).collect();
    let by = |begin: Command, name: &str| {
        let Command::BeginTurn(begin) = begin else { unreachable!("a beginning") };
        Command::BeginTurn(Box::new(BeginTurn { by: key(name), ..*begin }))
    };
    let begin = by(talk.begin(&turns[0], None, 1), "key_1");
    accept(&store, begin.clone()).await;
    // The first one counts.
    accept(&store, by(begin, "key_9")).await;
    assert_eq!(talk.read_turn(&store, &turns[0]).await.by, key("key_1"));
    accept(&store, append_rest(&turns[0], 1, segment(2, 1), rest(waiting(), 5))).await;
    accept(&store, by(talk.replace(&turns[1], 2, &turns[0], segment(3, 1)), "key_2")).await;
    let queued = talk.begin_turn(&turns[2], Some(3), 0);
    accept(&store, by(Command::BeginTurn(Box::new(BeginTurn { start: Start::Queued, ..queued })), "key_3")).await;
    accept(&store, append_rest(&turns[1], 1, segment(2, 1), rest(ended(), 5))).await;
    accept(&store, talk.resume(&turns[2], 5, segment(1, 1))).await;
    accept(&store, append_rest(&turns[2], 1, segment(2, 1), rest(ended(), 5))).await;
    accept(&store, talk.begin(&turns[3], Some(7), 1)).await;
    accept(&store, append_rest(&turns[3], 1, segment(2, 1), rest(ended(), 5))).await;
    let imported = over(&TurnId::mint(), 2);
    accept(&store, fork.fork_with(&talk, 9, 4, vec![imported])).await;
    let expected = [key("key_1"), key("key_2"), key("key_3"), None];
    for round in 0..3 {
        if round == 1 {
            drop(store);
            store = harness.open().await;
        }
        if round == 2 {
            accept(&store, talk.delete()).await;
        }
        let told: Vec<_> = fork.told(&store).await.turns.into_iter().map(|turn| turn.by).collect();
        assert_eq!(told[..4], expected);
        assert_eq!(told[4], None);
    }
}

async fn list(store: &Arc<dyn Store>, kind: RecordKind, state: &str, limit: usize) -> Vec<RecordRow> {
    let mut all: Vec<RecordRow> = Vec::new();
    loop {
        let above = all.last().map(|row| row.position);
        let page = store.records_of_all(kind, state, above, limit).await.expect("a page");
        assert!(page.len() <= limit);
        if page.is_empty() {
            assert!(all.is_sorted_by_key(|row| row.position));
            return all;
        }
        all.extend(page);
    }
}

/// Oldest first, each with its owner; whatever the kind.
pub async fn records_of_all_tenants_are_listed(harness: &impl Harness) {
    let mut store = harness.open().await;
    let owners = [Talk::new("acme"), Talk::new("globex"), Talk::new("initech")];
    for talk in &owners {
        accept(&store, talk.create()).await;
    }
    let kinds = [RecordKind::Key, RecordKind::Notice, RecordKind::Form];
    let states = ["active", "revoked"];
    let mut all = Vec::new();
    for number in 0..60 {
        let talk = &owners[number % 3];
        let session = number.is_multiple_of(2).then_some(&talk.session);
        // Names are the same among the tenants.
        let name = (number / 9).to_string();
        let new = record(kinds[number / 3 % 3], &name, session, states[number % 2], &number.to_string());
        if store.record(&talk.tenant, new.kind, &new.id).await.expect("a read").is_none() {
            all.push((talk.tenant.clone(), new.clone()));
        }
        accept(&store, put(&talk.tenant, vec![Write::Record(new)])).await;
    }
    let check = async |store: &Arc<dyn Store>, all: &[(everturn_core::TenantId, Record)]| {
        for kind in kinds {
            for state in states {
                let wanted = |(_, record): &&_| matches!(record, Record { kind: of, state: is, .. } if *of == kind && is == state);
                let expected: Vec<_> = all.iter().filter(wanted).collect();
                for limit in [1, 4, usize::MAX] {
                    let found = list(store, kind, state, limit).await;
                    let found: Vec<_> = found.iter().map(|row| (&row.tenant, &row.record)).collect();
                    let expected: Vec<_> = expected.iter().map(|(owner, record)| (owner, record)).collect();
                    assert_eq!(found, expected, "{kind:?} {state}");
                }
            }
        }
    };
    check(&store, &all).await;
    // One that is closed is another list's, in the same place; one that is removed is nobody's.
    let id = |index: usize, all: &[(_, Record)]| (all[index].1.kind, all[index].1.id.clone());
    let (kind, name) = id(0, &all);
    let close = Write::Close { kind, id: name, state: "revoked".to_owned(), outcome: Some(Json::empty_object()) };
    accept(&store, put(&all[0].0, vec![close])).await;
    (all[0].1.state, all[0].1.outcome) = ("revoked".to_owned(), Some(Json::empty_object()));
    let (kind, name) = id(3, &all);
    accept(&store, put(&all[3].0, vec![Write::Remove { kind, id: name }])).await;
    all.remove(3);
    check(&store, &all).await;
    // Those of a session go with it.
    accept(&store, owners[1].delete()).await;
    all.retain(|(_, record)| record.session.as_ref() != Some(&owners[1].session));
    drop(store);
    store = harness.open().await;
    check(&store, &all).await;

    for kind in kinds {
        assert_eq!(store.records_of_all(kind, "active", None, 0).await, Ok(Vec::new()));
        assert_eq!(store.records_of_all(kind, "active", Some(u64::MAX), 10).await, Ok(Vec::new()));
        assert_eq!(store.records_of_all(kind, "other", None, 10).await, Ok(Vec::new()));
    }
    assert_eq!(store.records_of_all(RecordKind::Permission, "active", None, 10).await, Ok(Vec::new()));
    // What is another's cannot be changed by knowing of it.
    let (kind, name) = id(0, &all);
    assert!(submit(&store, put(&tenant("evil"), vec![Write::Remove { kind, id: name }])).await.is_ok());
    check(&store, &all).await;
}
