//! The content of records.

use std::sync::Arc;

use bytes::Bytes;
use everturn_core::TenantId;

use super::{
    Harness,
    fixture::{Talk, accept, put, put_if, receipt, record, submit},
};
use crate::{Command, RecordFilter, RecordKind, Refusal, Store, Write};

const DOCUMENT: RecordKind = RecordKind::Document;

fn document(name: &str) -> Write {
    Write::Record(record(DOCUMENT, name, None, "stored", "a document"))
}

fn blob(name: &str, part: u32, bytes: impl Into<Bytes>) -> Write {
    Write::Blob { kind: DOCUMENT, id: name.to_owned(), part, bytes: bytes.into() }
}

async fn read(store: &Arc<dyn Store>, owner: &TenantId, name: &str, part: u32) -> Option<Bytes> {
    store.blob(owner, DOCUMENT, name, part).await.expect("a read")
}

/// In any order, by one command or several; a part that comes again replaces the one before.
pub async fn records_have_content_in_parts(harness: &impl Harness) {
    let mut store = harness.open().await;
    let owner = &Talk::new("acme").tenant;
    accept(&store, put(owner, vec![document("a"), blob("a", 1, "one"), blob("a", u32::MAX, "last")])).await;
    let stored = async |store: &Arc<dyn Store>| store.stored_bytes(owner).await;
    assert_eq!(stored(&store).await, Ok(7));
    accept(&store, put(owner, vec![blob("a", 0, vec![0, 255, 0])])).await;
    accept(&store, put(owner, vec![blob("a", 1, ""), document("a")])).await;
    accept(&store, put(owner, vec![blob("absent", 0, "x")])).await;
    for is_reopened in [false, true] {
        if is_reopened {
            drop(store);
            store = harness.open().await;
        }
        for (part, expected) in [(0, &[0, 255, 0][..]), (1, b""), (u32::MAX, b"last")] {
            assert_eq!(read(&store, owner, "a", part).await.as_deref(), Some(expected), "part {part}");
        }
        assert_eq!(read(&store, owner, "a", 2).await, None);
        assert_eq!(read(&store, owner, "absent", 0).await, None);
        assert_eq!(read(&store, &Talk::new("evil").tenant, "a", 0).await, None);
        assert_eq!(store.blob(owner, RecordKind::Artifact, "a", 0).await, Ok(None));
        let row = store.record(owner, DOCUMENT, "a").await.expect("a read").expect("a record");
        assert_eq!(row.revision, 1, "content is no change of the record");
        assert_eq!(stored(&store).await, Ok(7), "three bytes came, three were replaced by none");
        assert_eq!(store.stored_bytes(&Talk::new("evil").tenant).await, Ok(0));
    }
    // With the record its content goes; what is written under its name later is another's.
    let remove = Write::Remove { kind: DOCUMENT, id: "a".to_owned() };
    accept(&store, put(owner, vec![remove.clone(), blob("a", 0, "late")])).await;
    assert_eq!(read(&store, owner, "a", 0).await, None);
    assert_eq!(stored(&store).await, Ok(0));
    accept(&store, put(owner, vec![document("a")])).await;
    assert_eq!(read(&store, owner, "a", 0).await, None);
    accept(&store, put(owner, vec![blob("a", 0, "new"), remove, document("a"), blob("a", 1, "newer")])).await;
    assert_eq!(read(&store, owner, "a", 0).await, None);
    assert_eq!(read(&store, owner, "a", 1).await.as_deref(), Some(&b"newer"[..]));
    assert_eq!(stored(&store).await, Ok(5));
}

/// Many parts of a mebibyte, and eight in one.
pub async fn large_content_is_kept(harness: &impl Harness) {
    const PART: usize = 1 << 20;
    let mut store = harness.open().await;
    let owner = &Talk::new("acme").tenant;
    let content = |seed: u8, size: usize| -> Bytes {
        (0..size)
            .map(|index| (index as u8).wrapping_mul(31).wrapping_add(seed).wrapping_add((index >> 12) as u8))
            .collect()
    };
    accept(&store, put(owner, vec![document("whole"), blob("whole", 0, content(9, 8 * PART))])).await;
    accept(&store, put(owner, vec![document("parts")])).await;
    for part in 0..8 {
        accept(&store, put(owner, vec![blob("parts", part, content(part as u8, PART))])).await;
    }
    for is_reopened in [false, true] {
        if is_reopened {
            drop(store);
            store = harness.open().await;
        }
        assert!(read(&store, owner, "whole", 0).await == Some(content(9, 8 * PART)));
        for part in 0..8 {
            assert!(read(&store, owner, "parts", part).await == Some(content(part as u8, PART)), "part {part}");
        }
    }
}

/// Its own, and no others; their names are free again.
pub async fn records_go_with_their_session(harness: &impl Harness) {
    let mut store = harness.open().await;
    let (talk, other) = (Talk::new("acme"), Talk::new("acme"));
    let owner = &talk.tenant;
    accept(&store, talk.create()).await;
    accept(&store, other.create()).await;
    let mut new = Vec::new();
    for (name, session) in [("ours", Some(&talk.session)), ("theirs", Some(&other.session)), ("free", None)] {
        new.push(Write::Record(record(DOCUMENT, name, session, "stored", "a document")));
        new.push(blob(name, 0, name.to_owned()));
    }
    accept(&store, put(owner, new)).await;
    accept(&store, talk.delete()).await;
    for is_reopened in [false, true] {
        if is_reopened {
            drop(store);
            store = harness.open().await;
        }
        assert_eq!(store.record(owner, DOCUMENT, "ours").await, Ok(None));
        assert_eq!(read(&store, owner, "ours", 0).await, None);
        for session in [None, Some(talk.session.clone())] {
            let filter = RecordFilter { session: session.clone(), state: None };
            let rows = store.records(owner, DOCUMENT, &filter, None, 10).await.expect("records");
            let names: Vec<_> = rows.into_iter().map(|row| row.record.id).collect();
            assert_eq!(names, if session.is_some() { vec![] } else { vec!["free", "theirs"] });
        }
        for name in ["theirs", "free"] {
            assert_eq!(read(&store, owner, name, 0).await.as_deref(), Some(name.as_bytes()));
        }
        let late = Write::Record(record(DOCUMENT, "late", Some(&talk.session), "stored", ""));
        assert_eq!(submit(&store, put(owner, vec![late])).await, Err(Refusal::NotFound));
    }
    let again: Command = put_if(owner, &record(DOCUMENT, "ours", None, "", ""), None, vec![document("ours")]);
    assert_eq!(submit(&store, again).await, receipt(0, 0));
    assert_eq!(read(&store, owner, "ours", 0).await, None);
}
