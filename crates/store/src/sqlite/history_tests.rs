//! Forks and truncations, when something gets in the way; and that the tables hold no more than they should.

use std::sync::Arc;

use everturn_core::TurnId;
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{
    SqliteStore,
    failure_tests::{Place, crash, large, rows_of_log},
};
use crate::{
    Command, EndedTurn, Refusal, Store, StoreError,
    contract::fixture::{
        Talk, accept, append, append_rest, assert_log, ended, over, page, receipt, rest, segment, submit,
    },
};

fn both(place: &Place) -> (Arc<SqliteStore>, Arc<dyn Store>) {
    let sqlite = place.open();
    let store = Arc::clone(&sqlite) as Arc<dyn Store>;
    (sqlite, store)
}

/// Fails if rows contradict each other, or belong to nothing.
async fn assert_sound(sqlite: &SqliteStore) {
    const UNSOUND: &[(&str, &str)] = &[
        ("a shared turn has the ordinal that it has", "shared h JOIN turns t ON t.id = h.turn WHERE t.ordinal <> h.ordinal"),
        ("a shared turn has ended", "shared h JOIN turns t ON t.id = h.turn WHERE t.phase <> 3"),
        ("a session does not share with itself", "shared h JOIN turns t ON t.id = h.turn WHERE t.session = h.session"),
        ("a place is taken once", "shared h JOIN turns t ON t.session = h.session AND t.ordinal = h.ordinal"),
        (
            "a session of another tenant shares nothing",
            "shared h JOIN turns t ON t.id = h.turn JOIN sessions a ON a.id = h.session JOIN sessions b ON b.id = t.session
             WHERE a.tenant <> b.tenant",
        ),
        (
            "the last ordinal is the number of turns",
            "sessions s WHERE s.turns <> (SELECT count(*) FROM turns t WHERE t.session = s.id)
                 + (SELECT count(*) FROM shared h WHERE h.session = s.id)",
        ),
        (
            "the turn that was started last is one of the session's",
            "sessions s WHERE s.current <> 0
                 AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.id = s.current AND t.session = s.id)
                 AND NOT EXISTS (SELECT 1 FROM shared h WHERE h.turn = s.current AND h.session = s.id)",
        ),
        (
            "a turn counts its messages",
            "turns t WHERE t.message_count <> json_array_length(t.messages) + (SELECT
                 ifnull(sum(json_array_length('[' || l.messages || ']')), 0) FROM legs l WHERE l.id >> 30 = t.id)",
        ),
        (
            "a leg belongs to a turn that has legs",
            "legs l WHERE NOT EXISTS (SELECT 1 FROM turns t WHERE t.id = l.id >> 30 AND t.has_legs = 1)",
        ),
        (
            "a leg begins where the one before it ends",
            "legs l WHERE l.id & 1073741823 <> (SELECT ifnull(sum(json_array_length('[' || k.messages || ']')), 0)
                 FROM legs k WHERE k.id >> 30 = l.id >> 30 AND k.id < l.id)",
        ),
        (
            "a tenant has as many bytes as are counted",
            "tenants n WHERE ifnull((SELECT bytes FROM storage WHERE tenant = n.id), 0)
                 <> (SELECT ifnull(sum(length(b.bytes)), 0) FROM blobs b JOIN records r ON r.id = b.record
                     WHERE r.tenant = n.id)
                 + (SELECT ifnull(sum(length(c.segments)), 0)
                     FROM chunks c JOIN turns t ON t.id = c.id >> 30 JOIN sessions s ON s.id = t.session
                     WHERE s.tenant = n.id)",
        ),
        ("a chunk belongs to a turn", "chunks c WHERE NOT EXISTS (SELECT 1 FROM turns t WHERE t.id = c.id >> 30)"),
        ("a truncation belongs to a session", "truncations c WHERE c.session NOT IN (SELECT id FROM sessions)"),
    ];
    let job = |connection: &rusqlite::Connection| {
        let count = |from: &str| {
            let sql = format!("SELECT count(*) FROM {from}");
            connection.query_row(&sql, [], |row| row.get::<_, u64>(0)).expect("a count")
        };
        UNSOUND.iter().filter(|(_, from)| count(from) > 0).map(|(rule, _)| *rule).collect::<Vec<_>>()
    };
    assert_eq!(sqlite.on_writer(job).await.expect("a writer"), [""; 0], "rules that do not hold");
}

#[tokio::test]
async fn a_crash_between_batches_takes_nothing_back() {
    let place = Place::new();
    let (mut sqlite, mut store) = both(&place);
    let (parent, fork, twin) = (Talk::new("acme"), Talk::new("acme"), Talk::new("acme"));
    let turns = parent.converse(&store, 4).await;
    let placed = over(&TurnId::mint(), 3);
    // Each is submitted again after the crash, as by somebody who was not told what became of it.
    let batches = [
        (fork.fork(&parent, 9, 3), receipt(0, 1)),
        (twin.fork_with(&fork, 1, 2, vec![over(&TurnId::mint(), 3)]), receipt(0, 1)),
        (parent.truncate_to(9, 1, Some(placed.clone())), receipt(0, 10)),
        (fork.truncate(1, 2), receipt(0, 2)),
        (parent.delete(), receipt(0, 0)),
    ];
    for (command, expected) in batches {
        assert_eq!(submit(&store, command.clone()).await, expected);
        let before = [parent.told(&store).await, fork.told(&store).await, twin.told(&store).await];
        crash(store, sqlite).await;
        (sqlite, store) = both(&place);
        assert_sound(&sqlite).await;
        let after = [parent.told(&store).await, fork.told(&store).await, twin.told(&store).await];
        assert_eq!(after, before);
        assert_eq!(submit(&store, command).await, expected);
    }
    fork.assert_turns(&store, &turns[..2]).await;
    assert_eq!(twin.told(&store).await.turns[..2], fork.told(&store).await.turns);
    assert_eq!(page(&store, &placed.turn, 0, 100).await, Vec::new());
}

#[tokio::test]
async fn a_full_disk_leaves_history_as_it_was() {
    let place = Place::new();
    let (sqlite, store) = both(&place);
    let (parent, fork, new) = (Talk::new("acme"), Talk::new("acme"), Talk::new("acme"));
    let turns = parent.converse(&store, 3).await;
    accept(&store, fork.fork(&parent, 7, 2)).await;
    let limit = |pages: i64| {
        move |connection: &rusqlite::Connection| {
            let sql = format!("PRAGMA max_page_count = {pages}");
            connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
        }
    };
    let pages = sqlite.on_writer(limit(1)).await.unwrap();
    let huge = EndedTurn { segment: large(1, 1 << 20), ..over(&TurnId::mint(), 1) };
    let batch = Arc::new(vec![
        parent.truncate(7, 1),
        new.fork(&fork, 1, 2),
        fork.truncate(1, 0),
        parent.delete(),
        new.truncate_to(1, 1, Some(huge.clone())),
    ]);
    let before = [parent.told(&store).await, fork.told(&store).await];
    for _ in 0..2 {
        let failed = store.commit(Arc::clone(&batch)).await;
        assert!(matches!(&failed, Err(StoreError::Unavailable(what)) if what.contains("full")), "{failed:?}");
        assert_eq!([parent.told(&store).await, fork.told(&store).await], before);
        assert_eq!(store.session(&new.tenant, &new.session).await, Ok(None));
        parent.assert_turns(&store, &turns).await;
        assert_sound(&sqlite).await;
    }
    sqlite.on_writer(limit(pages + 100_000)).await.unwrap();
    let verdicts = store.commit(batch).await.unwrap();
    assert!(verdicts.iter().all(Result::is_ok), "{verdicts:?}");
    assert_sound(&sqlite).await;
    assert_eq!(page(&store, &huge.turn, 0, 1 << 21).await.len(), 1);
    assert_log(&store, &turns[0], 3).await;
    assert_eq!(page(&store, &turns[1], 0, 100).await, Vec::new());
}

/// A turn that was taken away may have been the last in the table, and have rows in `log` still.
#[tokio::test]
async fn a_new_turn_has_nothing_of_one_that_was_taken_away() {
    let place = Place::new();
    let (sqlite, store) = both(&place);
    let (talk, other) = (Talk::new("acme"), Talk::new("acme"));
    // It runs on, and so holds back all that comes after it in the log.
    let running = TurnId::mint();
    accept(&store, other.begin(&running, None, 1)).await;
    let turns = talk.converse(&store, 2).await;
    accept(&store, talk.truncate(5, 1)).await;
    crash(store, sqlite).await;
    let (sqlite, store) = both(&place);
    let new = TurnId::mint();
    accept(&store, talk.begin(&new, Some(6), 1)).await;
    crash(store, sqlite).await;
    let (sqlite, store) = both(&place);
    assert_log(&store, &new, 1).await;
    accept(&store, append_rest(&new, 1, segment(2, 2), rest(ended(), 1))).await;
    talk.assert_turns(&store, &[turns[0].clone(), new]).await;
    assert_eq!(submit(&store, append(&turns[1], 1, segment(4, 1))).await, Err(Refusal::NotFound));
    assert_sound(&sqlite).await;
}

#[tokio::test]
async fn what_was_taken_away_leaves_the_log_of_a_store_that_has_nothing_else_to_do() {
    let place = Place::new();
    let (sqlite, store) = both(&place);
    let (talk, fork) = (Talk::new("acme"), Talk::new("acme"));
    let running = TurnId::mint();
    accept(&store, Talk::new("acme").begin(&running, None, 3)).await;
    talk.converse(&store, 3).await;
    accept(&store, fork.fork(&talk, 7, 2)).await;
    assert!(rows_of_log(&sqlite).await > 3, "the dead lie behind the living");
    // What is handed over is not deleted.
    accept(&store, fork.truncate(1, 1)).await;
    assert!(rows_of_log(&sqlite).await > 3);
    accept(&store, talk.truncate(7, 2)).await;
    while rows_of_log(&sqlite).await > 0 {
        tokio::task::yield_now().await;
    }
    assert_log(&store, &running, 3).await;
}

/// Texts that cannot be read do not matter where nobody asks for them.
#[tokio::test]
async fn messages_are_counted_without_their_texts() {
    let place = Place::new();
    let (sqlite, store) = both(&place);
    let (talk, fork) = (Talk::new("acme"), Talk::new("acme"));
    talk.converse(&store, 3).await;
    accept(&store, fork.fork(&talk, 7, 2)).await;
    let spoil = |connection: &rusqlite::Connection| connection.execute("UPDATE turns SET messages = 'spoilt'", []);
    assert_eq!(sqlite.on_writer(spoil).await.unwrap(), Ok(3));
    assert_eq!(store.message_count(&talk.tenant, &talk.session).await, Ok(6));
    assert_eq!(store.message_count(&fork.tenant, &fork.session).await, Ok(4));
    assert!(matches!(store.turns(&fork.tenant, &fork.session).await, Err(StoreError::Corrupt(_))));
}

/// Whatever sessions do with each other's turns, the tables stay in order.
#[tokio::test]
async fn the_tables_stay_sound() {
    let place = Place::new();
    let (mut sqlite, mut store) = both(&place);
    let mut random = StdRng::seed_from_u64(3);
    let mut talks: Vec<Talk> = Vec::new();
    let mut kept = [0; 5];
    for round in 0..600 {
        let what = random.random_range(0..if talks.is_empty() { 1 } else { 5 });
        let (command, talk) = if what == 0 {
            let talk = Talk::new(["acme", "globex"][round % 2]);
            (talk.import((0..random.random_range(0..4)).map(|_| over(&TurnId::mint(), 2)).collect()), talk)
        } else {
            let index = random.random_range(0..talks.len());
            let talk = talks[index].clone();
            let version = talk.read(&store).await.version;
            let through = random.random_range(0..6);
            match what {
                1 => {
                    let fork = talk.another();
                    (fork.fork(&talk, version, through), fork)
                }
                2 => (talk.truncate(version, through), talk),
                3 if talks.len() > 6 => {
                    talks.remove(index);
                    (talk.delete(), talk)
                }
                _ => {
                    talk.go_on(&store).await;
                    let turn = over(&TurnId::mint(), 1);
                    (talk.truncate_to(version + 2, through, Some(turn)), talk)
                }
            }
        };
        if matches!(command, Command::CreateSession(_)) {
            talks.push(talk);
        }
        accept(&store, command).await;
        kept[what] += 1;
        if round % 20 == 0 {
            assert_sound(&sqlite).await;
        }
        if round % 150 == 149 {
            crash(store, sqlite).await;
            (sqlite, store) = both(&place);
        }
    }
    assert!(kept.iter().all(|count| *count > 50), "{kept:?}");
    assert_sound(&sqlite).await;
    for talk in &talks {
        talk.told(&store).await;
        accept(&store, talk.delete()).await;
    }
    // Nothing is left of the turns.
    assert_sound(&sqlite).await;
    let left = |connection: &rusqlite::Connection| {
        let sql = "SELECT (SELECT count(*) FROM turns) + (SELECT count(*) FROM shared) + (SELECT count(*) FROM chunks)
             + (SELECT count(*) FROM truncations) + (SELECT count(*) FROM sessions)";
        connection.query_row(sql, [], |row| row.get::<_, u64>(0))
    };
    assert_eq!(sqlite.on_writer(left).await.unwrap(), Ok(0));
}
