//! Files give the space of what was deleted back, while they are in use and by `everturn vacuum`.

use std::{path::Path, sync::Arc, time::Duration};

use everturn_core::TurnId;

use super::{
    Durability, OpenError, SqliteStore,
    failure_tests::{Place, large},
};
use crate::{
    Store,
    contract::fixture::{Talk, accept, append, append_rest, assert_log, ended, rest, segment},
};

const MIB: u64 = 1 << 20;

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).expect("the file is there").len()
}

/// A session whose one turn has a log of so many megabytes.
async fn grown(store: &Arc<dyn Store>, megabytes: u64) -> Talk {
    let (talk, turn) = (Talk::new("acme"), TurnId::mint());
    accept(store, talk.begin(&turn, None, 1)).await;
    for seq in 2..2 + megabytes {
        accept(store, append(&turn, 1, large(seq, MIB as usize))).await;
    }
    accept(store, append_rest(&turn, 1, segment(2 + megabytes, 1), rest(ended(), 4))).await;
    talk
}

/// Waits until the file is smaller than this.
async fn shrunk(path: &Path, below: u64) {
    let waits = async {
        while size(path) >= below {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), waits).await;
    assert!(waited.is_ok(), "the file still has {} bytes", size(path));
}

/// Makes a file as older versions did.
async fn without_incremental_vacuum(place: &Place) {
    let store: Arc<dyn Store> = place.open();
    let talk = grown(&store, 1).await;
    drop((store, talk));
    let connection = rusqlite::Connection::open(&place.path).expect("the file is there");
    connection
        .execute_batch("PRAGMA journal_mode = DELETE; PRAGMA auto_vacuum = NONE; VACUUM")
        .expect("the file is there");
    let mode: i64 = connection.pragma_query_value(None, "auto_vacuum", |row| row.get(0)).expect("the file is there");
    assert_eq!(mode, 0);
}

#[tokio::test]
async fn a_file_shrinks_while_it_is_in_use() {
    let place = Place::new();
    let sqlite = place.open();
    let store: Arc<dyn Store> = Arc::clone(&sqlite) as Arc<dyn Store>;
    let (kept, turn) = (Talk::new("acme"), TurnId::mint());
    accept(&store, kept.begin(&turn, None, 1)).await;
    let talk = grown(&store, 20).await;
    accept(&store, append(&turn, 1, segment(2, 3))).await;
    shrunk_log(&sqlite).await;
    let full = size(&place.path);
    assert!(full >= 20 * MIB, "{full}");
    accept(&store, talk.delete()).await;
    shrunk(&place.path, 8 * MIB).await;
    assert!(sqlite.space().bytes() < 8 * MIB && sqlite.space().free_pages() <= 1024, "{:?}", sqlite.space());
    // What is left is whole, and goes on.
    accept(&store, append(&turn, 1, segment(5, 2))).await;
    assert_log(&store, &turn, 6).await;
    drop((store, sqlite));
    let store: Arc<dyn Store> = place.open();
    assert_log(&store, &turn, 6).await;
}

/// Copies the log into the file.
async fn shrunk_log(sqlite: &SqliteStore) {
    let copy = |connection: &rusqlite::Connection| {
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("the log is copied");
    };
    sqlite.on_writer(copy).await.expect("the store works");
}

/// One that never rests between two requests, too.
#[tokio::test]
async fn a_busy_file_shrinks_too() {
    let place = Place::new();
    let sqlite = place.open();
    let store: Arc<dyn Store> = Arc::clone(&sqlite) as Arc<dyn Store>;
    let talk = grown(&store, 20).await;
    accept(&store, talk.delete()).await;
    let (busy, turn) = (Talk::new("acme"), TurnId::mint());
    accept(&store, busy.begin(&turn, None, 1)).await;
    let begun = std::time::Instant::now();
    let (mut seq, mut had_space) = (2, false);
    while !had_space || sqlite.space().bytes() > 8 * MIB {
        accept(&store, append(&turn, 1, segment(seq, 1))).await;
        seq += 1;
        had_space |= sqlite.space().free_pages() > 1024;
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", sqlite.space());
    }
    assert_log(&store, &turn, seq - 1).await;
}

#[tokio::test]
async fn an_old_file_is_converted_by_a_vacuum() {
    let place = Place::new();
    without_incremental_vacuum(&place).await;
    let sqlite = place.open();
    let mode = |connection: &rusqlite::Connection| -> i64 {
        connection.pragma_query_value(None, "auto_vacuum", |row| row.get(0)).unwrap()
    };
    assert_eq!(sqlite.on_writer(mode).await.unwrap(), 0);
    let store: Arc<dyn Store> = Arc::clone(&sqlite) as Arc<dyn Store>;
    let talk = grown(&store, 70).await;
    let kept = grown(&store, 2).await;
    accept(&store, talk.delete()).await;
    drop((store, sqlite));
    let before = size(&place.path);
    assert!(before > 64 * MIB, "written anew when it was closed: {before}");
    let vacuumed = SqliteStore::vacuum(&place.path).unwrap();
    assert_eq!(vacuumed.after, size(&place.path));
    assert!(vacuumed.before >= before && vacuumed.after < 8 * MIB, "{vacuumed:?}");
    let sqlite = place.open();
    assert_eq!(sqlite.on_writer(mode).await.unwrap(), 2);
    assert!(sqlite.session(&kept.tenant, &kept.session).await.unwrap().is_some());
    let again = Arc::clone(&sqlite);
    drop(sqlite);
    let refused = SqliteStore::vacuum(&place.path);
    assert!(matches!(refused, Err(OpenError::InUse { .. })), "{refused:?}");
    drop(again);
}

#[tokio::test]
async fn new_files_can_shrink_from_the_start() {
    let place = Place::new();
    let sqlite = SqliteStore::open(&place.path, Durability::Fsync).unwrap();
    let mode = |connection: &rusqlite::Connection| -> i64 {
        connection.pragma_query_value(None, "auto_vacuum", |row| row.get(0)).unwrap()
    };
    assert_eq!(sqlite.on_writer(mode).await.unwrap(), 2);
}
