//! What happens when the disk, another program or a fault of ours gets in the way.

use std::{path::PathBuf, sync::Arc};

use everturn_core::{Event, Segment, SegmentBuilder, Timestamp, TurnId};
use tempfile::TempDir;

use super::{Durability, SqliteStore};
use crate::{
    Command, RecordKind, Refusal, Store, StoreError, TurnStatus, Write,
    contract::fixture::{
        Talk, accept, append, append_rest, assert_log, ended, node, page, put, record, replace_log, rest, segment,
        submit,
    },
};

pub(super) struct Place {
    _directory: TempDir,
    pub(super) path: PathBuf,
}

impl Place {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("store.db");
        Self { _directory: directory, path }
    }

    pub(super) fn open(&self) -> Arc<SqliteStore> {
        Arc::new(SqliteStore::open(&self.path, Durability::Process).expect("a store"))
    }
}

/// One event of `size` bytes.
pub(super) fn large(first_seq: u64, size: usize) -> Segment {
    let mut builder = SegmentBuilder::new(first_seq);
    builder.push(Timestamp(1), &Event::TextDelta("x".repeat(size)));
    builder.take()
}

#[tokio::test]
async fn a_full_disk_takes_nothing_back_and_passes() {
    let place = Place::new();
    let sqlite = place.open();
    let store: Arc<dyn Store> = Arc::clone(&sqlite) as Arc<dyn Store>;
    let (talk, other) = (Talk::new("acme"), Talk::new("acme"));
    let (turn, new) = (TurnId::mint(), TurnId::mint());
    accept(&store, talk.begin(&turn, None, 1)).await;
    accept(&store, append(&turn, 1, segment(2, 3))).await;

    let limit = |pages: i64| {
        move |connection: &rusqlite::Connection| {
            let sql = format!("PRAGMA max_page_count = {pages}");
            connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
        }
    };
    let pages = sqlite.on_writer(limit(1)).await.unwrap();
    // Everything that a command can do to memory comes before the event that does not fit.
    let batch = Arc::new(vec![
        append(&turn, 1, segment(5, 1)),
        append_rest(&turn, 1, segment(6, 1), rest(ended(), 4)),
        other.begin(&new, None, 2),
        put(&other.tenant, vec![Write::Record(record(RecordKind::Form, "form", Some(&other.session), "open", "x"))]),
        append(&new, 1, large(3, 1 << 20)),
    ]);
    for _ in 0..3 {
        let failed = store.commit(Arc::clone(&batch)).await;
        assert!(matches!(&failed, Err(StoreError::Unavailable(what)) if what.contains("full")), "{failed:?}");
        assert!(failed.unwrap_err().is_retryable());
        assert_log(&store, &turn, 4).await;
        let record = store.turn(&talk.tenant, &talk.session, &turn).await.unwrap().unwrap();
        assert_eq!((record.head, record.status), (4, TurnStatus::Running));
        assert_eq!(store.session(&other.tenant, &other.session).await, Ok(None));
        assert_eq!(page(&store, &new, 0, 100).await, Vec::new());
        assert_eq!(store.record(&other.tenant, RecordKind::Form, "form").await, Ok(None));
    }

    sqlite.on_writer(limit(pages + 100_000)).await.unwrap();
    let verdicts = store.commit(batch).await.unwrap();
    assert!(verdicts.iter().all(Result::is_ok), "{verdicts:?}");
    assert_log(&store, &turn, 6).await;
    assert_eq!(page(&store, &new, 0, 1 << 21).await.len(), 3);
    assert!(store.record(&other.tenant, RecordKind::Form, "form").await.unwrap().is_some());
    drop((store, sqlite));
    let store: Arc<dyn Store> = place.open();
    assert_log(&store, &turn, 6).await;
    let claimed = store.claim(&node("node b"), 10).await.unwrap();
    assert_eq!(claimed.into_iter().map(|claim| (claim.turn, claim.head)).collect::<Vec<_>>(), [(new, 3)]);
}

#[tokio::test]
async fn a_failed_claim_leaves_the_owner_as_it_was() {
    let place = Place::new();
    let sqlite = place.open();
    let store: Arc<dyn Store> = Arc::clone(&sqlite) as Arc<dyn Store>;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    accept(&store, talk.begin(&turn, None, 1)).await;
    let other = rusqlite::Connection::open(&place.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let claimed = store.claim(&node("node b"), 10).await;
    assert!(matches!(claimed, Err(StoreError::Unavailable(_))), "{claimed:?}");
    other.execute_batch("ROLLBACK").unwrap();
    accept(&store, append(&turn, 1, segment(2, 1))).await;
    assert_eq!(store.claim(&node("node b"), 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_locked_database_can_be_read_and_the_lock_passes() {
    let place = Place::new();
    let store: Arc<dyn Store> = place.open();
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    accept(&store, talk.begin(&turn, None, 1)).await;
    let other = rusqlite::Connection::open(&place.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let failed = store.commit(Arc::new(vec![append(&turn, 1, segment(2, 1))])).await;
    assert!(matches!(&failed, Err(StoreError::Unavailable(what)) if what.contains("locked")), "{failed:?}");
    assert_log(&store, &turn, 1).await;
    other.execute_batch("ROLLBACK").unwrap();
    accept(&store, append(&turn, 1, segment(2, 1))).await;
    assert_log(&store, &turn, 2).await;
}

#[tokio::test]
async fn a_reader_that_does_not_end_holds_nobody_up() {
    let place = Place::new();
    let store: Arc<dyn Store> = place.open();
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    accept(&store, talk.begin(&turn, None, 1)).await;
    let other = rusqlite::Connection::open(&place.path).unwrap();
    other.execute_batch("BEGIN; SELECT count(*) FROM turns;").unwrap();
    for seq in 2..200 {
        accept(&store, append(&turn, 1, segment(seq, 1))).await;
    }
    accept(&store, append_rest(&turn, 1, segment(200, 1), rest(ended(), 1))).await;
    assert_log(&store, &turn, 200).await;
}

#[tokio::test]
async fn a_panic_of_the_writer_closes_the_store_and_loses_nothing() {
    let place = Place::new();
    let sqlite = place.open();
    let store: Arc<dyn Store> = Arc::clone(&sqlite) as Arc<dyn Store>;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    accept(&store, talk.begin(&turn, None, 1)).await;
    let panicked = sqlite.on_writer(|_| std::panic::resume_unwind(Box::new("a fault of ours"))).await;
    assert_eq!(panicked, Err::<(), _>(StoreError::Closed));
    let batch: Arc<Vec<Command>> = Arc::new(vec![append(&turn, 1, segment(2, 1))]);
    assert_eq!(store.commit(Arc::clone(&batch)).await, Err(StoreError::Closed));
    assert_eq!(store.claim(&node("node b"), 1).await, Err(StoreError::Closed));
    assert_log(&store, &turn, 1).await;
    drop((store, sqlite));
    let store: Arc<dyn Store> = place.open();
    assert_log(&store, &turn, 1).await;
    assert_eq!(store.commit(batch).await.unwrap().len(), 1);
}

#[tokio::test]
async fn damage_in_a_large_file_is_told_by_the_read_that_meets_it() {
    let place = Place::new();
    let sqlite = place.open();
    let store: Arc<dyn Store> = Arc::clone(&sqlite) as Arc<dyn Store>;
    let (healthy, damaged) = (TurnId::mint(), TurnId::mint());
    let talk = Talk::new("acme");
    for turn in [&healthy, &damaged] {
        let talk = Talk::new("acme");
        accept(&store, talk.begin(turn, None, 1)).await;
        for seq in 2..=6 {
            accept(&store, append(turn, 1, large(seq, 1 << 20))).await;
        }
        accept(&store, append_rest(turn, 1, segment(7, 1), rest(ended(), 1))).await;
    }
    let root: u64 = sqlite
        .on_writer(|connection| {
            let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'chunks'";
            connection.query_row(sql, [], |row| row.get(0)).unwrap()
        })
        .await
        .unwrap();
    drop((store, sqlite));
    let mut file = std::fs::read(&place.path).unwrap();
    let start = usize::try_from((root - 1) * 4096).unwrap();
    file[start..start + 4096].fill(0xa5);
    std::fs::write(&place.path, file).unwrap();

    let store: Arc<dyn Store> = place.open();
    let failed = store.read(&damaged, 0, 100).await;
    assert!(matches!(&failed, Err(StoreError::Corrupt(_))), "{failed:?}");
    assert!(!failed.unwrap_err().is_retryable());
    // What does not touch the damage goes on.
    accept(&store, talk.create()).await;
    assert_eq!(store.sessions(&talk.tenant, None, 10).await.unwrap().len(), 3);
}

#[tokio::test]
async fn the_write_ahead_log_stays_bounded_and_goes_with_the_store() {
    let place = Place::new();
    let sqlite = place.open();
    let store: Arc<dyn Store> = Arc::clone(&sqlite) as Arc<dyn Store>;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    let wal = place.path.with_file_name("store.db-wal");
    accept(&store, talk.begin(&turn, None, 1)).await;
    for seq in 2..1_500 {
        accept(&store, append(&turn, 1, large(seq, 64 * 1024))).await;
        let length = std::fs::metadata(&wal).unwrap().len();
        assert!(length < 96 << 20, "the write-ahead log has {length} bytes after {seq} commits");
    }
    drop(store);
    Arc::into_inner(sqlite).unwrap().close().await;
    assert!(!wal.exists(), "closed in order, the file stands alone");
    let store: Arc<dyn Store> = place.open();
    let record = store.turn(&talk.tenant, &talk.session, &turn).await.unwrap().unwrap();
    assert_eq!(record.head, 1_499);
}

#[tokio::test]
async fn a_silent_turn_does_not_keep_the_log_of_others() {
    let place = Place::new();
    let sqlite = place.open();
    let store: Arc<dyn Store> = Arc::clone(&sqlite) as Arc<dyn Store>;
    let (silent, busy) = (TurnId::mint(), TurnId::mint());
    accept(&store, Talk::new("acme").begin(&silent, None, 3)).await;
    accept(&store, Talk::new("acme").begin(&busy, None, 1)).await;
    let size = async || {
        let sql = "SELECT ifnull(sum(length(bytes)), 0) FROM log";
        sqlite.on_writer(move |connection| connection.query_row(sql, [], |row| row.get::<_, u64>(0)).unwrap()).await
    };
    let mut largest = 0;
    for seq in 2..402 {
        accept(&store, append(&busy, 1, large(seq, 512 * 1024))).await;
        largest = largest.max(size().await.unwrap());
    }
    assert!(largest > 60 << 20, "the silent turn keeps what comes after it, {largest} bytes, at first");
    assert!(largest < 72 << 20, "the log grew to {largest} bytes");
    assert!(size().await.unwrap() < 8 << 20, "once the silent turn was gathered, the log is short");
    assert_log(&store, &silent, 3).await;
    drop((store, sqlite));
    let store: Arc<dyn Store> = place.open();
    assert_log(&store, &silent, 3).await;
    accept(&store, append(&silent, 1, segment(4, 2))).await;
    accept(&store, append(&busy, 1, segment(402, 2))).await;
    assert_log(&store, &silent, 5).await;
    assert_eq!(page(&store, &busy, 401, 100).await.len(), 2);
}

/// Ends a store as a crash would: nothing is put in order.
pub(super) async fn crash(store: Arc<dyn Store>, sqlite: Arc<SqliteStore>) {
    let panicked = sqlite.on_writer(|_| std::panic::resume_unwind(Box::new("a crash"))).await;
    assert_eq!(panicked, Err::<(), _>(StoreError::Closed));
    drop((store, sqlite));
}

pub(super) async fn rows_of_log(sqlite: &SqliteStore) -> u64 {
    let sql = "SELECT count(*) FROM log";
    let count = sqlite.on_writer(move |connection| connection.query_row(sql, [], |row| row.get(0))).await;
    count.expect("a writer").expect("a count")
}

#[tokio::test]
async fn dead_rows_are_not_taken_for_living_ones() {
    let place = Place::new();
    let sqlite = place.open();
    let store: Arc<dyn Store> = Arc::clone(&sqlite) as Arc<dyn Store>;
    let (talk, gone, next) = (Talk::new("acme"), Talk::new("acme"), Talk::new("acme"));
    let (turn, deleted, new) = (TurnId::mint(), TurnId::mint(), TurnId::mint());
    talk.wait(&store, &turn).await;
    accept(&store, talk.resume(&turn, 2, segment(3, 1))).await;
    accept(&store, gone.begin(&deleted, None, 9)).await;
    accept(&store, append_rest(&deleted, 1, segment(10, 1), rest(ended(), 1))).await;
    accept(&store, gone.delete()).await;
    crash(store, sqlite).await;
    let sqlite = place.open();
    let store: Arc<dyn Store> = Arc::clone(&sqlite) as Arc<dyn Store>;
    // It must not get the number that the deleted turn had, whose rows may still be there.
    accept(&store, next.begin(&new, None, 2)).await;
    crash(store, sqlite).await;
    let store: Arc<dyn Store> = place.open();
    assert_log(&store, &turn, 3).await;
    assert_log(&store, &new, 2).await;
    let claimed = store.claim(&node("node b"), 10).await.unwrap();
    assert_eq!(claimed.into_iter().map(|claim| (claim.turn, claim.head)).collect::<Vec<_>>(), [(turn, 3), (new, 2)]);
}

#[tokio::test]
async fn what_was_deleted_leaves_the_log_of_a_store_that_has_nothing_else_to_do() {
    let place = Place::new();
    let mut sqlite = place.open();
    let mut store: Arc<dyn Store> = Arc::clone(&sqlite) as Arc<dyn Store>;
    let running: Vec<TurnId> = (0..100).map(|_| TurnId::mint()).collect();
    let gone: Vec<(Talk, TurnId)> = (0..20).map(|_| (Talk::new("acme"), TurnId::mint())).collect();
    for turn in &running {
        accept(&store, Talk::new("acme").begin(turn, None, 3)).await;
    }
    for (talk, turn) in &gone {
        accept(&store, talk.begin(turn, None, 3)).await;
        accept(&store, append_rest(turn, 1, segment(4, 1), rest(ended(), 1))).await;
    }
    assert_eq!(rows_of_log(&sqlite).await, 120, "the dead lie behind the living");
    // A session, or a part of a log. After a crash nobody knows what they were, and all go.
    for (round, taken_away) in ["session", "events", "anything"].into_iter().enumerate() {
        if round > 0 {
            accept(&store, append(&running[0], 1, segment(3 + round as u64, 1))).await;
        }
        match taken_away {
            "session" => drop(accept(&store, gone[7].0.delete()).await),
            "events" => drop(accept(&store, replace_log(&gone[8].1, vec![segment(1, 4)], 1)).await),
            _ => {
                crash(store, sqlite).await;
                sqlite = place.open();
                store = Arc::clone(&sqlite) as Arc<dyn Store>;
            }
        }
        while rows_of_log(&sqlite).await > 0 {
            tokio::task::yield_now().await;
        }
    }
    assert_log(&store, &running[0], 5).await;
    for turn in &running[1..] {
        assert_log(&store, turn, 3).await;
        accept(&store, append(turn, 1, segment(4, 2))).await;
        assert_log(&store, turn, 5).await;
    }
}

#[tokio::test]
async fn a_commit_whose_caller_went_away_happens_whole_or_not_at_all() {
    let place = Place::new();
    let store: Arc<dyn Store> = place.open();
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    accept(&store, talk.begin(&turn, None, 1)).await;
    let batch = Arc::new(vec![append(&turn, 1, segment(2, 5)), append(&turn, 1, segment(7, 5))]);
    let mut commit = store.commit(Arc::clone(&batch));
    let first_poll = futures_util::poll!(&mut commit);
    drop((first_poll, commit));
    // The next commit comes after it, so it tells what became of the batch.
    match submit(&store, append(&turn, 1, segment(12, 1))).await {
        Ok(_) => assert_log(&store, &turn, 12).await,
        Err(refusal) => assert_eq!(refusal, Refusal::Gap { head: 1, first_seq: 12 }),
    }
}
