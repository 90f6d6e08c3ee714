//! One database under several names.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use everturn_core::TenantId;
use everturn_store::{Durability, OpenError, SqliteStore, Store};
use tempfile::TempDir;

fn open(path: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(path, Durability::Process)
}

/// A folder with `data` for the database, and links to it: to the file from here and from afar, to a link, to the folder.
fn links() -> (TempDir, PathBuf, Vec<PathBuf>) {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("data")).unwrap();
    fs::create_dir_all(at("far/away")).unwrap();
    symlink("data/store.db", at("relative.db")).unwrap();
    symlink(at("data/store.db"), at("far/absolute.db")).unwrap();
    symlink("../../relative.db", at("far/away/twice.db")).unwrap();
    symlink("../data", at("far/folder")).unwrap();
    let names = ["relative.db", "far/absolute.db", "far/away/twice.db", "far/folder/store.db", "data/../data/store.db"];
    let names = names.map(at).to_vec();
    (directory, names[0].with_file_name("data").join("store.db"), names)
}

/// The names of what is in a folder.
fn inside(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_link_leads_to_the_same_database_and_the_same_lock() {
    let (directory, real, names) = links();
    // The first one makes the database; before that, the links lead to nothing.
    for first in &names {
        let store = open(first).unwrap();
        store.sessions(&TenantId::local(), None, 1).await.unwrap();
        for second in names.iter().chain([&real]) {
            let refused = open(second).map(drop).unwrap_err();
            assert!(matches!(refused, OpenError::InUse { .. }), "{first:?}, {second:?}: {refused}");
        }
        assert_eq!(
            inside(&directory.path().join("data")),
            ["store.db", "store.db-shm", "store.db-wal", "store.db.lock"]
        );
        store.close().await;
        assert_eq!(inside(directory.path()), ["data", "far", "relative.db"]);
        assert_eq!(inside(&directory.path().join("far")), ["absolute.db", "away", "folder"]);
    }
}

#[test]
fn links_that_lead_nowhere_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let circle = directory.path().join("circle.db");
    symlink("circle.db", &circle).unwrap();
    let refused = open(&circle).map(drop).unwrap_err().to_string();
    assert!(refused.contains("circle.db") && refused.contains("more than 40 symbolic links"), "{refused}");
}

#[tokio::test]
async fn a_hard_link_is_another_name_and_refused() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (path, other) = (at("store.db"), at("other.db"));
    let first = open(&path).unwrap();
    fs::hard_link(&path, &other).unwrap();
    let refused = || {
        let refused = open(&other).map(drop).unwrap_err();
        assert!(matches!(refused, OpenError::OtherName { names: 2, .. }), "{refused}");
        let text = refused.to_string();
        assert!(text.contains("other.db has 2 names") && text.contains("use the name that has a .lock"), "{text}");
        assert!(!at("other.db.lock").exists(), "so that it is refused again");
    };
    refused();
    refused();
    assert!(matches!(open(&path).map(drop).unwrap_err(), OpenError::InUse { .. }));
    first.close().await;
    // Also while nobody uses it: a crash may have left a log beside the other name.
    refused();
    open(&path).unwrap().close().await;
    fs::copy(&path, at("copy.db")).unwrap();
    open(&at("copy.db")).unwrap().close().await;
    fs::remove_file(&path).unwrap();
    open(&other).unwrap().close().await;
}

/// A whole folder of links shares its lock file too.
#[tokio::test]
async fn a_folder_of_hard_links_is_locked_with_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let (path, other) = (directory.path().join("store.db"), directory.path().join("other/store.db"));
    let first = open(&path).unwrap();
    fs::create_dir(directory.path().join("other")).unwrap();
    for name in ["store.db", "store.db.lock"] {
        fs::hard_link(directory.path().join(name), directory.path().join("other").join(name)).unwrap();
    }
    assert!(matches!(open(&other).map(drop).unwrap_err(), OpenError::InUse { .. }));
    first.close().await;
}
