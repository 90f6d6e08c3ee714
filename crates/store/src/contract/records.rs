//! What lies beside the turns: records and titles.

use std::sync::Arc;

use everturn_core::{Json, TenantId, Timestamp, TurnId};

use super::{
    Harness,
    fixture::{
        Talk, accept, append, append_rest, commit, ended, put, put_if, receipt, record, rest, segment, submit, timed,
        waiting, with_writes,
    },
};
use crate::{Command, Record, RecordFilter, RecordKind, RecordRow, Refusal, Store, Write};

const FORM: RecordKind = RecordKind::Form;

async fn find(store: &Arc<dyn Store>, owner: &TenantId, name: &str) -> Option<RecordRow> {
    store.record(owner, FORM, name).await.expect("a read")
}

fn write(name: &str, says: &str) -> Vec<Write> {
    vec![Write::Record(record(FORM, name, None, "open", says))]
}

fn text(row: &RecordRow) -> String {
    serde_json::from_str(row.record.body.as_str()).expect("a text")
}

/// Whichever it is; also the session that the command creates may be the record's.
pub async fn commands_bring_records_along(harness: &impl Harness) {
    let mut store = harness.open().await;
    let talk = Talk::new("acme");
    let (turn, next) = (TurnId::mint(), TurnId::mint());
    let commands = [
        talk.begin(&turn, None, 1),
        append(&turn, 1, segment(2, 1)),
        append_rest(&turn, 1, segment(3, 1), rest(waiting(), 1)),
        talk.resume(&turn, 2, segment(4, 1)),
        append_rest(&turn, 2, segment(5, 1), rest(waiting(), 1)),
        talk.queue(&next, 4),
        talk.end(&next, 5, segment(1, 1)),
        put(&talk.tenant, Vec::new()),
    ];
    let mut expected = Vec::new();
    for (index, command) in commands.into_iter().enumerate() {
        let says = format!("record {index}");
        let new = Record {
            turn: Some(turn.clone()),
            outcome: Some(Json::empty_object()),
            ..record(FORM, &says, Some(&talk.session), "open", &says)
        };
        let at = 100 + index as i64;
        let title = Write::Title { session: talk.session.clone(), title: says };
        accept(&store, timed(with_writes(command, vec![Write::Record(new.clone()), title]), at)).await;
        expected.push((new, at));
    }
    for is_reopened in [false, true] {
        if is_reopened {
            drop(store);
            store = harness.open().await;
        }
        for (new, at) in &expected {
            let row = find(&store, &talk.tenant, &new.id).await.expect("a record");
            assert_eq!((&row.record, &row.tenant, row.revision), (new, &talk.tenant, 1));
            assert_eq!((row.created_at.0, row.updated_at.0), (*at, *at));
        }
        assert_eq!(talk.read(&store).await.title.as_deref(), Some("record 7"));
        let all = store.records(&talk.tenant, FORM, &RecordFilter::default(), None, 100).await.expect("records");
        assert!(all.iter().map(|row| &row.record).eq(expected.iter().rev().map(|(new, _)| new)));
    }
}

/// Whatever it is refused for, and also when only what it brings along is wrong.
pub async fn refused_commands_write_nothing(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, absent) = (Talk::new("acme"), Talk::new("acme"));
    let (turn, next) = (TurnId::mint(), TurnId::mint());
    talk.wait(&store, &turn).await;
    let refused = [
        talk.begin(&next, Some(2), 1),
        talk.begin(&next, Some(1), 1),
        talk.replace(&next, 2, &turn, segment(9, 1)),
        absent.begin(&next, Some(1), 1),
        talk.queue(&next, 7),
        talk.resume(&turn, 7, segment(3, 1)),
        talk.resume(&turn, 2, segment(9, 1)),
        talk.end(&turn, 7, segment(3, 1)),
        talk.end(&turn, 2, segment(9, 1)),
        append(&turn, 1, segment(3, 1)),
        append(&turn, 7, segment(3, 1)),
        put_if(&talk.tenant, &record(FORM, "x", None, "", ""), Some(1), Vec::new()),
    ];
    for command in refused {
        let verdict = submit(&store, with_writes(command, write("none", "x"))).await;
        assert!(verdict.is_err(), "{verdict:?}");
    }
    let elsewhere = [
        vec![
            Write::Record(record(FORM, "none", None, "", "")),
            Write::Record(record(FORM, "none", Some(&absent.session), "", "")),
        ],
        vec![
            Write::Record(record(FORM, "none", None, "", "")),
            Write::Title { session: absent.session.clone(), title: "x".to_owned() },
        ],
    ];
    for new in elsewhere {
        let commands = [
            talk.replace(&next, 2, &turn, segment(3, 1)),
            Talk::new("acme").begin(&next, None, 1),
            talk.queue(&next, 2),
            talk.resume(&turn, 2, segment(3, 1)),
            talk.end(&turn, 2, segment(3, 1)),
            put(&talk.tenant, Vec::new()),
        ];
        for command in commands {
            assert_eq!(submit(&store, with_writes(command, new.clone())).await, Err(Refusal::NotFound));
        }
    }
    assert_eq!(find(&store, &talk.tenant, "none").await, None);
    assert_eq!((talk.read(&store).await.version, talk.read(&store).await.title), (2, None));
    assert_eq!(store.sessions(&talk.tenant, None, 10).await.expect("a list").len(), 1);

    accept(&store, talk.resume(&turn, 2, segment(3, 1))).await;
    let foreign = vec![Write::Record(record(FORM, "none", Some(&absent.session), "", ""))];
    for command in [append(&turn, 2, segment(4, 1)), append_rest(&turn, 2, segment(4, 1), rest(ended(), 1))] {
        assert_eq!(submit(&store, with_writes(command, foreign.clone())).await, Err(Refusal::NotFound));
    }
    assert_eq!(talk.read_turn(&store, &turn).await.head, 3);
}

/// What was written by others meanwhile stays.
pub async fn recognised_commands_write_once(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let (turn, next) = (TurnId::mint(), TurnId::mint());
    let commands = [
        talk.begin(&turn, None, 1),
        append(&turn, 1, segment(2, 1)),
        append_rest(&turn, 1, segment(3, 1), rest(waiting(), 1)),
        talk.resume(&turn, 2, segment(4, 1)),
        append_rest(&turn, 2, segment(5, 1), rest(waiting(), 1)),
        talk.queue(&next, 4),
        talk.end(&next, 5, segment(1, 1)),
    ];
    for (index, command) in commands.into_iter().enumerate() {
        let name = index.to_string();
        let command = with_writes(command, write(&name, "first"));
        let first = accept(&store, command.clone()).await;
        accept(&store, put(&talk.tenant, write(&name, "second"))).await;
        assert_eq!(accept(&store, command).await, first);
        let row = find(&store, &talk.tenant, &name).await.expect("a record");
        assert_eq!((text(&row).as_str(), row.revision), ("second", 2), "command {index}");
    }
}

/// Place, session, turn and time of creation are those of the first; saying the same is no change.
pub async fn records_are_replaced_in_place(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, other) = (Talk::new("acme"), Talk::new("acme"));
    accept(&store, talk.create()).await;
    accept(&store, other.create()).await;
    let owner = &talk.tenant;
    let first = Record { turn: Some(TurnId::mint()), ..record(FORM, "a", Some(&talk.session), "open", "one") };
    accept(&store, timed(put(owner, vec![Write::Record(first.clone())]), 100)).await;
    accept(&store, timed(put(owner, write("b", "later")), 110)).await;
    let before = find(&store, owner, "a").await.expect("a record");

    let outcome = Some(Json::parse("[1, 2]").expect("JSON"));
    let second =
        Record { turn: None, outcome: outcome.clone(), ..record(FORM, "a", Some(&other.session), "closed", "two") };
    for (at, updated_at) in [(200, 200), (210, 200)] {
        accept(&store, timed(put(owner, vec![Write::Record(second.clone())]), at)).await;
        let row = find(&store, owner, "a").await.expect("a record");
        let expected = Record { session: first.session.clone(), turn: first.turn.clone(), ..second.clone() };
        assert_eq!((row.record, row.revision, row.position), (expected, 2, before.position));
        assert_eq!((row.created_at.0, row.updated_at.0), (100, updated_at));
    }

    // Closing changes state and outcome alone.
    let close = |name: &str, outcome: Option<Json>| {
        let (id, state) = (name.to_owned(), "answered".to_owned());
        vec![Write::Close { kind: FORM, id, state, outcome }]
    };
    for (at, given, revision, updated_at) in
        [(300, None, 3, 300), (310, None, 3, 300), (320, outcome.clone(), 4, 320), (330, outcome.clone(), 4, 320)]
    {
        accept(&store, timed(put(owner, close("a", given.clone())), at)).await;
        let row = find(&store, owner, "a").await.expect("a record");
        assert_eq!((row.record.state.as_str(), &row.record.outcome, text(&row).as_str()), ("answered", &given, "two"));
        assert_eq!((row.revision, row.updated_at.0), (revision, updated_at));
    }
    let remove = |name: &str| vec![Write::Remove { kind: FORM, id: name.to_owned() }];
    accept(&store, put(owner, close("absent", None))).await;
    accept(&store, put(owner, remove("absent"))).await;
    assert_eq!(find(&store, owner, "absent").await, None);

    // Removed and written again it is a new one, for another session.
    accept(&store, put(owner, remove("a"))).await;
    assert_eq!(find(&store, owner, "a").await, None);
    accept(&store, timed(put(owner, vec![Write::Record(second.clone())]), 400)).await;
    let row = find(&store, owner, "a").await.expect("a record");
    assert!(row.position > before.position);
    assert_eq!((row.record, row.revision, row.created_at.0), (second, 1, 400));
}

/// Its revision, or that there is none; all that a command expects must be true.
pub async fn changes_may_expect_a_revision(harness: &impl Harness) {
    let store = harness.open().await;
    let owner = &Talk::new("acme").tenant;
    let a = record(FORM, "a", None, "open", "");
    assert_eq!(submit(&store, put_if(owner, &a, Some(1), write("a", "x"))).await, Err(Refusal::Changed));
    assert_eq!(submit(&store, put_if(owner, &a, None, write("a", "one"))).await, receipt(0, 0));
    assert_eq!(submit(&store, put_if(owner, &a, None, write("a", "x"))).await, Err(Refusal::Changed));
    assert_eq!(submit(&store, put_if(owner, &a, Some(1), write("a", "two"))).await, receipt(0, 0));
    for stale in [None, Some(0), Some(1), Some(3), Some(u64::MAX)] {
        assert_eq!(submit(&store, put_if(owner, &a, stale, write("a", "x"))).await, Err(Refusal::Changed));
    }
    // Within a batch the second sees the first, and a kind is not another.
    let batch = vec![
        put_if(owner, &a, Some(2), write("a", "three")),
        put_if(owner, &a, Some(2), write("a", "x")),
        put_if(owner, &Record { kind: RecordKind::Agent, ..a.clone() }, None, write("b", "one")),
    ];
    assert_eq!(commit(&store, batch).await, [receipt(0, 0), Err(Refusal::Changed), receipt(0, 0)]);
    let Command::Put(mut both) = put_if(owner, &a, Some(3), write("b", "two")) else { unreachable!("a put") };
    both.expects.push(crate::Expect { kind: FORM, id: "b".to_owned(), revision: Some(7) });
    assert_eq!(submit(&store, Command::Put(both.clone())).await, Err(Refusal::Changed));
    both.expects[1].revision = Some(1);
    assert_eq!(submit(&store, Command::Put(both)).await, receipt(0, 0));
    let row = find(&store, owner, "a").await.expect("a record");
    assert_eq!((text(&row).as_str(), row.revision), ("three", 3));
    assert_eq!(find(&store, owner, "b").await.map(|row| row.revision), Some(2));
    // Removed, it is not there any more.
    accept(&store, put_if(owner, &a, Some(3), vec![Write::Remove { kind: FORM, id: "a".to_owned() }])).await;
    assert_eq!(submit(&store, put_if(owner, &a, None, write("a", "new"))).await, receipt(0, 0));
}

/// Newest first, by kind, session and state; one that is there all the time is on exactly one page.
pub async fn records_are_listed_in_pages(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, other) = (Talk::new("acme"), Talk::new("acme"));
    let owner = &talk.tenant;
    accept(&store, talk.create()).await;
    accept(&store, other.create()).await;
    let sessions = [Some(&talk.session), Some(&other.session), None];
    let mut all = Vec::new();
    for number in 0..60 {
        let kind = if number % 5 == 4 { RecordKind::Artifact } else { FORM };
        let state = ["open", "answered"][number % 2];
        let new = record(kind, &number.to_string(), sessions[number % 3], state, "x");
        accept(&store, put(owner, vec![Write::Record(new.clone())])).await;
        accept(&store, put(&Talk::new("evil").tenant, write(&number.to_string(), "theirs"))).await;
        all.push(new);
    }
    all.reverse();
    for session in [None, Some(&talk.session), Some(&other.session)] {
        for state in [None, Some("open"), Some("answered"), Some("other")] {
            let filter = RecordFilter { session: session.cloned(), state: state.map(str::to_owned) };
            let is_wanted = |new: &&Record| {
                new.kind == FORM
                    && (session.is_none() || new.session.as_ref() == session)
                    && state.is_none_or(|state| new.state == state)
            };
            let expected: Vec<&str> = all.iter().filter(is_wanted).map(|new| new.id.as_str()).collect();
            for limit in [1, 3, 100] {
                let (mut seen, mut below) = (Vec::new(), None);
                loop {
                    let page = store.records(owner, FORM, &filter, below, limit).await.expect("a page");
                    let Some(last) = page.last() else { break };
                    assert!(page.len() <= limit && page.windows(2).all(|pair| pair[0].position > pair[1].position));
                    below = Some(last.position);
                    seen.extend(page.into_iter().map(|row| row.record.id));
                    // What is new is not on the pages that follow.
                    let new = record(FORM, "new", session, state.unwrap_or("open"), "x");
                    accept(&store, put(owner, vec![Write::Record(new)])).await;
                }
                assert_eq!(seen, expected, "{filter:?} in pages of {limit}");
                accept(&store, put(owner, vec![Write::Remove { kind: FORM, id: "new".to_owned() }])).await;
            }
        }
    }
    let everything = RecordFilter::default();
    assert_eq!(store.records(owner, FORM, &everything, None, 0).await, Ok(Vec::new()));
    assert_eq!(store.records(owner, FORM, &everything, Some(0), 10).await, Ok(Vec::new()));
    assert_eq!(store.records(owner, FORM, &everything, Some(u64::MAX), 100).await.map(|page| page.len()), Ok(48));
    assert_eq!(store.records(owner, RecordKind::Agent, &everything, None, 10).await, Ok(Vec::new()));
}

/// Not even that of the newest, removed before a restart.
pub async fn record_positions_are_not_given_twice(harness: &impl Harness) {
    let mut store = harness.open().await;
    let owner = Talk::new("acme").tenant;
    let mut last = 0;
    for _ in 0..3 {
        accept(&store, put(&owner, write("a", "x"))).await;
        let position = find(&store, &owner, "a").await.expect("a record").position;
        assert!(position > last, "position {position} after {last}");
        last = position;
        accept(&store, put(&owner, vec![Write::Remove { kind: FORM, id: "a".to_owned() }])).await;
        drop(store);
        store = harness.open().await;
    }
}

/// Neither sees, changes or takes part in what is another's.
pub async fn records_belong_to_a_tenant(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, stranger) = (Talk::new("acme"), Talk::new("evil").tenant);
    accept(&store, talk.create()).await;
    let ours = record(FORM, "a", Some(&talk.session), "open", "ours");
    accept(&store, put(&talk.tenant, vec![Write::Record(ours.clone())])).await;
    assert_eq!(find(&store, &stranger, "a").await, None);
    for session in [None, Some(talk.session.clone())] {
        for state in [None, Some("open".to_owned())] {
            let filter = RecordFilter { session: session.clone(), state };
            assert_eq!(store.records(&stranger, FORM, &filter, None, 10).await, Ok(Vec::new()));
        }
    }
    let (kind, id) = (FORM, "a".to_owned());
    let close = Write::Close { kind, id: id.clone(), state: "closed".to_owned(), outcome: None };
    accept(&store, put(&stranger, vec![close, Write::Remove { kind, id }])).await;
    let title = Write::Title { session: talk.session.clone(), title: "theirs".to_owned() };
    for wrong in [title, Write::Record(ours.clone())] {
        assert_eq!(submit(&store, put(&stranger, vec![wrong])).await, Err(Refusal::NotFound));
    }
    assert_eq!(submit(&store, put_if(&stranger, &ours, Some(1), Vec::new())).await, Err(Refusal::Changed));
    accept(&store, put(&stranger, write("a", "theirs"))).await;
    assert_eq!(find(&store, &talk.tenant, "a").await.map(|row| text(&row)), Some("ours".to_owned()));
    assert_eq!(find(&store, &stranger, "a").await.map(|row| text(&row)), Some("theirs".to_owned()));
    assert_eq!(talk.read(&store).await.title, None);
}

/// Does not change version, place or time, and can be changed again.
pub async fn sessions_have_titles(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, newer) = (Talk::new("acme"), Talk::new("acme"));
    accept(&store, talk.create()).await;
    accept(&store, newer.create()).await;
    let before = store.sessions(&talk.tenant, None, 10).await.expect("a list");
    assert!(before.iter().all(|row| row.session.title.is_none()));
    for name in ["Ferien in Köln", "", "again"] {
        let title = Write::Title { session: talk.session.clone(), title: name.to_owned() };
        accept(&store, timed(put(&talk.tenant, vec![title]), 900)).await;
        let mut expected = before.clone();
        expected[1].session.title = Some(name.to_owned());
        assert_eq!(store.sessions(&talk.tenant, None, 10).await, Ok(expected));
    }
    accept(&store, talk.begin(&TurnId::mint(), Some(1), 1)).await;
    assert_eq!(talk.read(&store).await.title.as_deref(), Some("again"));
    assert_eq!(talk.read(&store).await.updated_at, Timestamp(20));
}
