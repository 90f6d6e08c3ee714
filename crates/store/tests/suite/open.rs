//! Files that cannot be opened, and what is said about them.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use everturn_core::{
    Event, Message, ModelOptions, SegmentBuilder, SessionConfig, SessionId, TenantId, Timestamp, TurnId,
};
use everturn_store::{BeginTurn, Command, Durability, NodeId, OpenError, SqliteStore, Start, Store};
use tempfile::TempDir;

use super::child;

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    (directory, path)
}

fn open(path: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(path, Durability::Process)
}

/// The error, which must name the path and say what to do.
#[track_caller]
fn refused(path: &Path, advice: &str) -> OpenError {
    let error = open(path).map(drop).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(path.to_str().unwrap()), "{text}");
    assert!(text.contains(advice), "{text}");
    error
}

async fn fill(path: &Path) {
    let store = open(path).unwrap();
    for _ in 0..50 {
        let mut builder = SegmentBuilder::new(1);
        builder.push(Timestamp(1), &Event::TextDelta("x".repeat(5_000)));
        let begin = BeginTurn {
            tenant: TenantId::local(),
            session: SessionId::mint(),
            expected_version: None,
            config: SessionConfig::default(),
            supersedes: None,
            turn: TurnId::mint(),
            start: Start::Now(NodeId("node".to_owned())),
            segment: builder.take(),
            messages: vec![Message::user("hello")],
            begins_history: false,
            by: None,
            options: ModelOptions::default(),
            writes: Vec::new(),
            key: None,
            at: Timestamp(1),
        };
        store.commit(Arc::new(vec![Command::BeginTurn(Box::new(begin))])).await.unwrap().remove(0).unwrap();
    }
    store.close().await;
}

#[tokio::test]
async fn directories_are_made() {
    let (directory, _) = place();
    let path = directory.path().join("a/b/store.db");
    open(&path).unwrap().close().await;
    assert!(path.exists());
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The database, its companions while it is in use, and the lock.
fn modes(path: &Path) -> Vec<u32> {
    ["", "-wal", "-shm", ".lock"].iter().map(|suffix| mode(Path::new(&format!("{}{suffix}", path.display())))).collect()
}

#[tokio::test]
async fn what_is_made_is_for_this_user_alone() {
    let (directory, _) = place();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = directory.path().join("a/b/store.db");
    fill(&path).await;
    for _ in 0..2 {
        let store = open(&path).unwrap();
        store.sessions(&TenantId::local(), None, 1).await.unwrap();
        assert_eq!(modes(&path), [0o600; 4]);
        store.close().await;
    }
    assert_eq!(mode(&directory.path().join("a")), 0o700);
    assert_eq!(mode(&directory.path().join("a/b")), 0o700);
    assert_eq!(mode(directory.path()), 0o755, "it was there before");
}

/// Somebody may have opened it to a group on purpose; then the companions, without which it cannot be read, follow.
#[tokio::test]
async fn what_was_there_keeps_its_mode() {
    let (directory, path) = place();
    let data = directory.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o750)).unwrap();
    let path = data.join(path.file_name().unwrap());
    for (name, mode) in [("store.db", 0o640), ("store.db.lock", 0o644)] {
        fs::write(data.join(name), b"").unwrap();
        fs::set_permissions(data.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let store = open(&path).unwrap();
    assert_eq!(modes(&path), [0o640, 0o640, 0o640, 0o644]);
    assert_eq!(mode(&data), 0o750);
    store.close().await;
}

#[tokio::test]
async fn an_empty_file_is_a_new_database() {
    let (_directory, path) = place();
    fs::write(&path, b"").unwrap();
    fill(&path).await;
}

#[test]
fn rubbish_is_refused_and_left_alone() {
    let (_directory, path) = place();
    for length in [1, 99, 100, 4096, 100_000_usize] {
        let rubbish: Vec<u8> = (0..length).map(|index| (index * 7 % 251) as u8).collect();
        fs::write(&path, &rubbish).unwrap();
        assert!(matches!(refused(&path, "restore it from a backup"), OpenError::Corrupt { .. }));
        assert_eq!(fs::read(&path).unwrap(), rubbish);
    }
}

#[tokio::test]
async fn a_file_that_was_cut_off_is_refused() {
    let (_directory, path) = place();
    fill(&path).await;
    let whole = fs::read(&path).unwrap();
    for length in [50, 4096, whole.len() / 2, whole.len() - 4096, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        assert!(matches!(refused(&path, "restore it from a backup"), OpenError::Corrupt { .. }), "{length} bytes");
    }
    fs::write(&path, whole).unwrap();
    open(&path).unwrap().close().await;
}

#[tokio::test]
async fn a_page_that_was_overwritten_is_found() {
    let (_directory, path) = place();
    fill(&path).await;
    let whole = fs::read(&path).unwrap();
    let schema = rusqlite::Connection::open(&path).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE rootpage > 0";
    let mut select = schema.prepare(sql).unwrap();
    let roots: Vec<usize> = select.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    assert!(roots.len() > 10);
    for root in roots {
        let mut damaged = whole.clone();
        damaged[(root - 1) * 4096..root * 4096].fill(0xff);
        fs::write(&path, damaged).unwrap();
        assert!(matches!(refused(&path, "restore it from a backup"), OpenError::Corrupt { .. }), "page {root}");
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_both_versions() {
    let (_directory, path) = place();
    fill(&path).await;
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 4711).unwrap();
    let error = refused(&path, "has schema version 4711, this program knows versions up to 2");
    assert!(matches!(error, OpenError::NewerSchema { found: 4711, known: 2, .. }));
}

#[tokio::test]
async fn a_schema_from_before_the_first_release_is_refused_with_both_versions() {
    let (_directory, path) = place();
    fill(&path).await;
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 1).unwrap();
    let error = refused(&path, "has schema version 1, this program knows versions from 2 on");
    assert!(matches!(error, OpenError::OlderSchema { found: 1, oldest: 2, .. }));
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    let (_directory, path) = place();
    for statement in ["CREATE TABLE theirs (x)", "PRAGMA user_version = 1", "PRAGMA application_id = 77"] {
        let _ = fs::remove_file(&path);
        rusqlite::Connection::open(&path).unwrap().execute_batch(statement).unwrap();
        let before = fs::read(&path).unwrap();
        assert!(matches!(refused(&path, "of another program"), OpenError::Foreign { .. }), "{statement}");
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[test]
fn a_place_below_a_file_is_refused() {
    let (directory, _) = place();
    let file = directory.path().join("file");
    fs::write(&file, b"").unwrap();
    let error = open(&file.join("store.db")).map(drop).unwrap_err();
    assert!(error.to_string().contains("choose another place"), "{error}");
    let error = open(directory.path()).map(drop).unwrap_err();
    assert!(error.to_string().contains(directory.path().to_str().unwrap()), "{error}");
}

/// The child of the next test: opens what it may not write. Does nothing by itself.
#[test]
fn opens_what_it_may_not_write() {
    let Some(path) = child::path() else { return };
    let error = open(&path.join("store.db")).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::NotWritable { .. }), "{error:?}");
    assert!(error.to_string().contains("give this user the right to write there"), "{error}");
    let error = open(&path.join("new/store.db")).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::NotWritable { .. }), "{error:?}");
    println!("refused twice");
}

#[test]
fn a_directory_that_cannot_be_written_is_refused() {
    let (directory, _) = place();
    let closed = directory.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    let mut command = child::command("suite::open::opens_what_it_may_not_write", &closed);
    // Whoever is root may write everywhere, and so must become somebody else.
    if fs::write(closed.join("probe"), b"").is_ok() {
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("refused twice"), "{said}");
}

/// The child of the next test: opens what another process has open. Does nothing by itself.
#[test]
fn opens_what_is_in_use() {
    let Some(path) = child::path() else { return };
    assert!(matches!(refused(&path, "stop that one"), OpenError::InUse { .. }));
    println!("refused");
}

#[tokio::test]
async fn a_second_opener_is_refused_until_the_first_is_gone() {
    let (_directory, path) = place();
    let first = open(&path).unwrap();
    assert!(matches!(refused(&path, "in use by another process"), OpenError::InUse { .. }));
    let output = child::command("suite::open::opens_what_is_in_use", &path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("refused"), "{said}");
    first.close().await;
    open(&path).unwrap().close().await;
}
