//! What was deleted is gone from the files, too.

use std::{fs, path::Path, sync::Arc};

use bytes::Bytes;
use everturn_core::{
    Event, Json, Message, ModelOptions, OptionValue, Outcome, Segment, SegmentBuilder, SessionConfig, SessionId,
    TenantId, Timestamp, TurnId, Usage,
};
use everturn_store::{
    Append, BeginTurn, Command, CommandKey, DeleteSession, Durability, NodeId, Put, Receipt, Record, RecordKind,
    ReplaceLog, Rest, SqliteStore, Start, Store, TurnStatus, Write,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// A session with one turn, all of whose content tells its marker.
struct Talk {
    session: SessionId,
    turn: TurnId,
    marker: String,
    head: u64,
}

impl Talk {
    fn new(marker: &str) -> Self {
        Self { session: SessionId::mint(), turn: TurnId::mint(), marker: format!("<{marker}>"), head: 0 }
    }

    /// About `size` bytes.
    fn text(&self, size: usize) -> String {
        self.marker.repeat(size / self.marker.len() + 1)
    }

    fn segment(&mut self, size: usize) -> Segment {
        let mut builder = SegmentBuilder::new(self.head + 1);
        builder.push(Timestamp(1), &Event::TextDelta(self.text(size)));
        self.head += 1;
        builder.take()
    }

    fn begin(&mut self, size: usize, key: Option<CommandKey>, at: i64) -> Command {
        let options = [("language".to_owned(), OptionValue::Plain(self.text(size)))].into();
        Command::BeginTurn(Box::new(BeginTurn {
            tenant: TenantId::local(),
            session: self.session.clone(),
            expected_version: None,
            config: SessionConfig { agent: "demo".to_owned(), options, ..SessionConfig::default() },
            supersedes: None,
            turn: self.turn.clone(),
            start: Start::Now(NodeId("node".to_owned())),
            segment: self.segment(size),
            messages: vec![Message::user(self.text(size))],
            begins_history: false,
            by: None,
            options: ModelOptions::default(),
            writes: Vec::new(),
            key,
            at: Timestamp(at),
        }))
    }

    fn append(&mut self, size: usize, rest: Option<Rest>) -> Command {
        let segment = self.segment(size);
        Command::Append(Append {
            turn: self.turn.clone(),
            epoch: 1,
            segment,
            rest,
            writes: Vec::new(),
            at: Timestamp(2),
        })
    }

    fn end(&mut self, size: usize) -> Command {
        let rest = Rest {
            status: TurnStatus::Ended(Outcome::Completed),
            keeps: 0,
            messages: vec![Message::user(self.text(size)), Message::assistant(self.text(2 * size))],
            usage: Usage::default(),
            compaction: None,
        };
        self.append(size, Some(rest))
    }

    fn delete(&self) -> Command {
        let (tenant, session) = (TenantId::local(), self.session.clone());
        Command::DeleteSession(DeleteSession { tenant, session, idle_before: None, key: None, at: Timestamp(3) })
    }
}

/// A record with content, all of which tells a marker.
fn document(id: &str, session: Option<&SessionId>, text: &str) -> Vec<Write> {
    let kind = RecordKind::Document;
    let body = Json::of(&text).unwrap();
    let (session, outcome) = (session.cloned(), Some(body.clone()));
    let record = Record { kind, id: id.to_owned(), session, turn: None, state: "stored".to_owned(), body, outcome };
    let blob = |part| Write::Blob { kind, id: id.to_owned(), part, bytes: Bytes::from(text.to_owned()) };
    vec![Write::Record(record), blob(0), blob(1)]
}

fn put(writes: Vec<Write>) -> Command {
    let tenant = TenantId::local();
    Command::Put(Box::new(Put { tenant, expects: Vec::new(), writes, key: None, at: Timestamp(2) }))
}

pub(super) fn open(directory: &Path) -> SqliteStore {
    SqliteStore::open(directory.join("store.db"), Durability::Process).unwrap()
}

pub(super) async fn keep(store: &SqliteStore, command: Command) -> Receipt {
    store.commit(Arc::new(vec![command])).await.unwrap().remove(0).unwrap()
}

/// The files that contain a text.
pub(super) fn files_with(directory: &Path, text: &str) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let found = names.filter(|entry| {
        let content = fs::read(entry.path()).unwrap();
        content.windows(text.len()).any(|window| window == text.as_bytes())
    });
    found.map(|entry| entry.file_name().into_string().unwrap()).collect()
}

/// Whether it was gathered or still ran; small, or large enough for pages of its own; with others around it that stay.
#[tokio::test]
async fn no_file_holds_what_was_deleted() {
    for size in [20, 3_000, 200_000] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let store = open(path);
        let (mut early, mut late) = (Talk::new("early"), Talk::new("late"));
        let (mut gathered, mut running) = (Talk::new("gathered"), Talk::new("running"));
        // It runs on, and so holds back all that comes after it in the log.
        keep(&store, early.begin(size, None, 1)).await;
        for talk in [&mut gathered, &mut running, &mut late] {
            keep(&store, talk.begin(size, None, 1)).await;
            keep(&store, talk.append(size, None)).await;
        }
        keep(&store, gathered.end(size)).await;
        keep(&store, late.end(size)).await;
        for talk in [&gathered, &running] {
            assert!(!files_with(path, &talk.marker).is_empty(), "it must be there to be deleted");
            keep(&store, talk.delete()).await;
        }
        keep(&store, early.append(size, None)).await;
        store.close().await;
        for talk in [&gathered, &running] {
            assert_eq!(files_with(path, &talk.marker), [""; 0], "{} at size {size}", talk.marker);
        }
        for talk in [&early, &late] {
            assert_eq!(files_with(path, &talk.marker), ["store.db"]);
        }

        let store = open(path);
        for talk in [&early, &late] {
            let head = store.read(&talk.turn, 0, usize::MAX).await.unwrap().last().map_or(0, Segment::last_seq);
            assert_eq!(head, talk.head);
        }
        keep(&store, early.end(size)).await;
    }
}

/// The records of a session and its title, a record that was removed, and what retention has dropped from a log.
#[tokio::test]
async fn no_file_holds_what_was_removed() {
    for size in [20, 3_000, 200_000] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let store = open(path);
        let (mut early, mut gone, mut kept, mut short) =
            (Talk::new("early"), Talk::new("gone"), Talk::new("kept"), Talk::new("short"));
        // It runs on, and so holds back all that comes after it in the log.
        keep(&store, early.begin(size, None, 1)).await;
        for talk in [&mut gone, &mut kept, &mut short] {
            keep(&store, talk.begin(20, None, 1)).await;
        }
        short.marker = "<dropped>".to_owned();
        keep(&store, short.append(size, None)).await;
        short.marker = "<short>".to_owned();
        for talk in [&mut gone, &mut kept, &mut short] {
            keep(&store, talk.end(20)).await;
        }
        for talk in [&gone, &kept] {
            keep(&store, put(document(&talk.marker, Some(&talk.session), &talk.text(size)))).await;
            let title = Write::Title { session: talk.session.clone(), title: talk.marker.clone() };
            keep(&store, put(vec![title])).await;
        }
        for (id, text) in [("a", "<removed>"), ("b", "<free>")] {
            keep(&store, put(document(id, None, &text.repeat(size / text.len() + 1)))).await;
        }
        for text in ["<gone>", "<removed>", "<dropped>"] {
            assert!(!files_with(path, text).is_empty(), "{text} must be there to be removed");
        }

        keep(&store, gone.delete()).await;
        keep(&store, put(vec![Write::Remove { kind: RecordKind::Document, id: "a".to_owned() }])).await;
        let mut builder = SegmentBuilder::new(1);
        builder.push(Timestamp(1), &Event::Dropped { count: u32::try_from(short.head).unwrap() });
        let replace = ReplaceLog { turn: short.turn.clone(), segments: vec![builder.take()], level: 1 };
        keep(&store, Command::ReplaceLog(Box::new(replace))).await;
        store.close().await;
        for text in ["<gone>", "<removed>", "<dropped>"] {
            assert_eq!(files_with(path, text), [""; 0], "{text} at size {size}");
        }
        for text in ["<kept>", "<free>", "<early>", "<short>"] {
            assert_eq!(files_with(path, text), ["store.db"], "{text}");
        }
    }
}

/// Rows that move between pages leave no copy behind.
#[tokio::test]
async fn deletions_among_many_sessions_leave_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut random = StdRng::seed_from_u64(1);
    let mut store = open(path);
    let (mut running, mut ended, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..2_000 {
        let size = [10, 100, 500, 1_500][random.random_range(0..4)];
        match random.random_range(0..8) {
            0..=2 => {
                let mut talk = Talk::new(&format!("talk {round}"));
                keep(&store, talk.begin(size, None, 1)).await;
                running.push(talk);
            }
            3 | 4 if !running.is_empty() => {
                let index = random.random_range(0..running.len());
                keep(&store, running[index].append(size, None)).await;
            }
            5 if !running.is_empty() => {
                let mut talk = running.swap_remove(random.random_range(0..running.len()));
                keep(&store, talk.end(size)).await;
                ended.push(talk);
            }
            6 => {
                let talks = if random.random() { &mut running } else { &mut ended };
                if !talks.is_empty() {
                    let talk = talks.swap_remove(random.random_range(0..talks.len()));
                    keep(&store, talk.delete()).await;
                    deleted.push(talk);
                }
            }
            _ if random.random_ratio(1, 20) => {
                store.close().await;
                store = open(path);
            }
            _ => {}
        }
    }
    store.close().await;
    assert!(deleted.len() > 40 && ended.len() > 20, "{} deleted, {} ended", deleted.len(), ended.len());
    let file = fs::read(path.join("store.db")).unwrap();
    let text = String::from_utf8_lossy(&file);
    let left: Vec<&str> = deleted.iter().map(|talk| talk.marker.as_str()).filter(|it| text.contains(it)).collect();
    assert_eq!(left, [""; 0]);
    assert!(ended.iter().chain(&running).all(|talk| text.contains(&talk.marker)));
}

/// The same for records that change, grow and go.
#[tokio::test]
async fn removals_among_many_records_leave_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut random = StdRng::seed_from_u64(1);
    let store = open(path);
    let (mut kept, mut removed): (Vec<(String, String)>, _) = (Vec::new(), Vec::new());
    for round in 0..1_500 {
        let size = [1, 10, 20, 60, 150][random.random_range(0..5)];
        match random.random_range(0..5) {
            0 | 1 if !kept.is_empty() => {
                let (id, marker) = kept.swap_remove(random.random_range(0..kept.len()));
                keep(&store, put(vec![Write::Remove { kind: RecordKind::Document, id }])).await;
                removed.push(marker);
            }
            2 if !kept.is_empty() => {
                let (id, marker) = &kept[random.random_range(0..kept.len())];
                keep(&store, put(document(id, None, &marker.repeat(size)))).await;
            }
            _ => {
                let (id, marker) = (round.to_string(), format!("<record {round}>"));
                keep(&store, put(document(&id, None, &marker.repeat(size)))).await;
                kept.push((id, marker));
            }
        }
    }
    store.close().await;
    let file = fs::read(path.join("store.db")).unwrap();
    let text = String::from_utf8_lossy(&file);
    let left: Vec<&String> = removed.iter().filter(|marker| text.contains(marker.as_str())).collect();
    assert_eq!(left, Vec::<&String>::new(), "of {} that were removed", removed.len());
    assert!(kept.iter().all(|(_, marker)| text.contains(marker)));
}

/// Keys that are too old go as new ones come, so there are never many more than those that count.
#[tokio::test]
async fn old_keys_are_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    for (day, count) in [(0, 100), (1, 50), (2, 25)] {
        for number in 0..count {
            let key = format!("day {day}, number {number}");
            let key = CommandKey { key, fingerprint: String::new(), outcome: String::new() };
            keep(&store, Talk::new("any").begin(10, Some(key), 1 + day * CommandKey::KEPT)).await;
        }
    }
    store.close().await;
    let connection = rusqlite::Connection::open(directory.path().join("store.db")).unwrap();
    let sql = "SELECT count(*), min(at) FROM keys";
    let found: (i64, i64) = connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(found, (25, 1 + 2 * CommandKey::KEPT));
}
