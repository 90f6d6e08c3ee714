//! Commands that callers have given a key.

use std::sync::Arc;

use everturn_core::{Timestamp, TurnId};

use super::{
    Harness,
    fixture::{
        Talk, accept, append_rest, assert_log, commit, ended, key, keyed, put, put_if, receipt, record, repeated, rest,
        segment, submit, waiting,
    },
};
use crate::{CommandKey, RecordKind, Refusal, Store, Write};

async fn assert_no_session(store: &Arc<dyn Store>, talk: &Talk) {
    assert_eq!(store.session(&talk.tenant, &talk.session).await, Ok(None));
}

/// Whatever it says, and before anything else is looked at: it is told what the first one said and gave.
pub async fn a_repeated_key_is_refused(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, other, waits) = (Talk::new("acme"), Talk::new("acme"), Talk::new("acme"));
    let (turn, waiting_turn) = (TurnId::mint(), TurnId::mint());
    waits.wait(&store, &waiting_turn).await;
    accept(&store, keyed(talk.begin(&turn, None, 1), &key("k", "first"), 100)).await;
    for says in ["first", "second"] {
        let again = [
            other.begin(&TurnId::mint(), None, 1),
            other.begin(&TurnId::mint(), Some(7), 1),
            other.begin(&turn, None, 1),
            other.resume(&TurnId::mint(), 1, segment(1, 1)),
            talk.begin(&TurnId::mint(), None, 1),
            talk.begin(&TurnId::mint(), Some(9), 1),
            talk.resume(&turn, 1, segment(2, 1)),
            waits.resume(&waiting_turn, 2, segment(3, 1)),
            waits.replace(&TurnId::mint(), 2, &waiting_turn, segment(3, 1)),
        ];
        for command in again {
            assert_eq!(submit(&store, keyed(command, &key("k", says), 200)).await, repeated("first"));
        }
    }
    assert_no_session(&store, &other).await;
    assert_eq!(store.turns(&talk.tenant, &talk.session).await.expect("turns").len(), 1);
    let session = store.session(&waits.tenant, &waits.session).await.expect("a read").expect("a session");
    assert_eq!(session.version, 2);
    assert_log(&store, &waiting_turn, 2).await;

    // A resumption keeps its key as well, and another key is no repetition.
    let resume = waits.resume(&waiting_turn, 2, segment(3, 1));
    accept(&store, keyed(resume, &key("l", "resumption"), 200)).await;
    let begin = other.begin(&TurnId::mint(), None, 1);
    assert_eq!(submit(&store, keyed(begin, &key("l", "beginning"), 200)).await, repeated("resumption"));
    accept(&store, keyed(other.begin(&TurnId::mint(), None, 1), &key("m", "beginning"), 200)).await;
}

/// The rules are the same for all of them: the key is kept with the command, and comes before all but its recognition.
pub async fn every_command_may_have_a_key(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, other) = (Talk::new("acme"), Talk::new("acme"));
    let (turn, next) = (TurnId::mint(), TurnId::mint());
    let owner = &talk.tenant;
    talk.wait(&store, &turn).await;
    accept(&store, talk.queue(&next, 2)).await;
    let write = |says| vec![Write::Record(record(RecordKind::Agent, "a", None, "", says))];
    let kept = [
        ("put", put(owner, write("one"))),
        ("end", talk.end(&turn, 3, segment(3, 1))),
        ("end queued", talk.end(&next, 4, segment(1, 1))),
        ("delete", talk.delete()),
    ];
    for (name, command) in kept {
        let command = keyed(command, &key(name, name), 100);
        accept(&store, command.clone()).await;
        assert_eq!(store.kept(owner, name, Timestamp(100)).await, Ok(Some(key(name, name))));
        // The very same is recognised, but for a put, which says itself that it was kept.
        let again = submit(&store, command).await;
        if name == "put" {
            assert_eq!(again, repeated("put"));
        } else {
            assert!(again.is_ok(), "{name}: {again:?}");
        }
        for other in [
            put(owner, write("two")),
            put_if(owner, &record(RecordKind::Agent, "a", None, "", ""), Some(9), Vec::new()),
            other.end(&turn, 1, segment(1, 1)),
            other.delete(),
            other.begin(&TurnId::mint(), None, 1),
            other.resume(&turn, 1, segment(1, 1)),
        ] {
            assert_eq!(submit(&store, keyed(other, &key(name, "other"), 200)).await, repeated(name));
        }
    }
    let row = store.record(owner, RecordKind::Agent, "a").await.expect("a read").expect("a record");
    assert_eq!(row.revision, 1);
    assert_no_session(&store, &other).await;

    // The first that anybody hears of a tenant may be a put; and what is refused keeps no key.
    let stranger = &Talk::new("evil").tenant;
    let absent = put_if(stranger, &record(RecordKind::Agent, "a", None, "", ""), Some(1), Vec::new());
    assert_eq!(submit(&store, keyed(absent, &key("k", "refused"), 100)).await, Err(Refusal::Changed));
    let delete = Talk { tenant: stranger.clone(), ..other.clone() }.delete();
    assert_eq!(submit(&store, keyed(delete, &key("k", "refused"), 100)).await, Err(Refusal::NotFound));
    assert_eq!(store.kept(stranger, "k", Timestamp(100)).await, Ok(None));
    accept(&store, keyed(put(stranger, Vec::new()), &key("k", "kept"), 100)).await;
    assert_eq!(store.kept(stranger, "k", Timestamp(100)).await, Ok(Some(key("k", "kept"))));
    // A deletion that is recognised needs no key, and keeps none.
    assert_eq!(submit(&store, keyed(talk.delete(), &key("new", "x"), 300)).await, receipt(0, 0));
    assert_eq!(store.kept(owner, "new", Timestamp(300)).await, Ok(None));
}

/// The time is that of the commands; one that is earlier than the first is a repetition too.
pub async fn keys_count_for_a_day(harness: &impl Harness) {
    let store = harness.open().await;
    let owner = Talk::new("acme").tenant;
    let first = 5 * CommandKey::KEPT;
    let begin = |at, says: &str| keyed(Talk::new("acme").begin(&TurnId::mint(), None, 1), &key("k", says), at);
    accept(&store, begin(first, "one")).await;
    for at in [first - CommandKey::KEPT, first - 1, first, first + 1, first + CommandKey::KEPT - 1] {
        assert_eq!(submit(&store, begin(at, "two")).await, repeated("one"), "at {at}");
        assert_eq!(store.kept(&owner, "k", Timestamp(at)).await, Ok(Some(key("k", "one"))), "at {at}");
    }
    let second = first + CommandKey::KEPT;
    assert_eq!(store.kept(&owner, "k", Timestamp(second)).await, Ok(None));
    accept(&store, begin(second, "two")).await;
    assert_eq!(submit(&store, begin(second + CommandKey::KEPT - 1, "three")).await, repeated("two"));
    accept(&store, begin(second + CommandKey::KEPT, "three")).await;
    assert_eq!(store.sessions(&owner, None, 10).await.expect("a list").len(), 3);
}

/// Keys are as durable as the commands that carry them.
pub async fn keys_survive_a_restart(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, other) = (Talk::new("acme"), Talk::new("acme"));
    let turn = TurnId::mint();
    accept(&store, keyed(talk.begin(&turn, None, 1), &key("k", "begin"), 100)).await;
    accept(&store, append_rest(&turn, 1, segment(2, 1), rest(waiting(), 1))).await;
    accept(&store, keyed(talk.resume(&turn, 2, segment(3, 1)), &key("l", "resume"), 100)).await;
    drop(store);
    let store = harness.open().await;
    for (name, says) in [("k", "begin"), ("l", "resume")] {
        let begin = keyed(other.begin(&TurnId::mint(), None, 1), &key(name, "other"), 200);
        assert_eq!(submit(&store, begin).await, repeated(says));
        assert_eq!(store.kept(&talk.tenant, name, Timestamp(200)).await, Ok(Some(key(name, says))));
    }
    assert_no_session(&store, &other).await;
}

/// Whoever submits the very same command again is given its receipt, not a refusal.
pub async fn resubmission_comes_before_repetition(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let (turn, next) = (TurnId::mint(), TurnId::mint());
    let begin = keyed(talk.begin(&turn, None, 1), &key("k", "begin"), 100);
    for _ in 0..2 {
        assert_eq!(submit(&store, begin.clone()).await, receipt(1, 1));
    }
    accept(&store, append_rest(&turn, 1, segment(2, 1), rest(waiting(), 1))).await;
    let resume = keyed(talk.resume(&turn, 2, segment(3, 1)), &key("l", "resume"), 100);
    for _ in 0..2 {
        assert_eq!(submit(&store, resume.clone()).await, receipt(2, 3));
    }
    // Another answer at the same version is not the same command.
    let other = keyed(talk.resume(&turn, 2, segment(3, 2)), &key("l", "other"), 100);
    assert_eq!(submit(&store, other).await, repeated("resume"));
    accept(&store, append_rest(&turn, 2, segment(4, 1), rest(waiting(), 1))).await;
    let replace = keyed(talk.replace(&next, 4, &turn, segment(5, 1)), &key("m", "replace"), 100);
    for _ in 0..2 {
        assert_eq!(submit(&store, replace.clone()).await, receipt(1, 5));
    }
    assert_eq!(submit(&store, begin).await, receipt(1, 1));
    assert_log(&store, &turn, 5).await;
}

/// The second sees the first; both submitted again have no second effect.
pub async fn a_key_counts_within_its_batch(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, other) = (Talk::new("acme"), Talk::new("acme"));
    let batch = vec![
        keyed(talk.begin(&TurnId::mint(), None, 1), &key("k", "one"), 100),
        keyed(other.begin(&TurnId::mint(), None, 1), &key("k", "two"), 100),
    ];
    for _ in 0..2 {
        assert_eq!(commit(&store, batch.clone()).await, [receipt(1, 1), repeated("one")]);
    }
    assert_no_session(&store, &other).await;
}

/// Neither does a repetition replace the key or prolong its time.
pub async fn refused_commands_keep_no_key(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    let mut gap = talk.begin_turn(&turn, None, 1);
    gap.segment = segment(2, 1);
    let refused = [
        (talk.begin(&turn, Some(1), 1), Refusal::NotFound),
        (talk.resume(&turn, 1, segment(1, 1)), Refusal::NotFound),
        (crate::Command::BeginTurn(Box::new(gap)), Refusal::Gap { head: 0, first_seq: 2 }),
    ];
    for (command, refusal) in refused {
        assert_eq!(submit(&store, keyed(command, &key("k", "refused"), 100)).await, Err(refusal));
        assert_eq!(store.kept(&talk.tenant, "k", Timestamp(100)).await, Ok(None));
    }
    accept(&store, keyed(talk.begin(&turn, None, 1), &key("k", "kept"), 100)).await;
    for command in [talk.begin(&TurnId::mint(), Some(1), 1), talk.resume(&turn, 1, segment(2, 1))] {
        assert_eq!(submit(&store, keyed(command, &key("l", "refused"), 100)).await, Err(Refusal::Changed));
    }
    assert_eq!(store.kept(&talk.tenant, "l", Timestamp(100)).await, Ok(None));

    let begin = || Talk::new("acme").begin(&TurnId::mint(), None, 1);
    let later = 100 + CommandKey::KEPT;
    assert_eq!(submit(&store, keyed(begin(), &key("k", "again"), later - 1)).await, repeated("kept"));
    accept(&store, keyed(begin(), &key("k", "new"), later)).await;
}

/// What one tenant calls its commands means nothing to another.
pub async fn keys_belong_to_a_tenant(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, stranger) = (Talk::new("acme"), Talk::new("evil"));
    accept(&store, keyed(talk.begin(&TurnId::mint(), None, 1), &key("k", "ours"), 100)).await;
    assert_eq!(store.kept(&stranger.tenant, "k", Timestamp(100)).await, Ok(None));
    accept(&store, keyed(stranger.begin(&TurnId::mint(), None, 1), &key("k", "theirs"), 100)).await;
    for (talk, says) in [(&talk, "ours"), (&stranger, "theirs")] {
        let again = Talk { session: Talk::new("acme").session, ..talk.clone() };
        let begin = keyed(again.begin(&TurnId::mint(), None, 1), &key("k", "again"), 100);
        assert_eq!(submit(&store, begin).await, repeated(says));
        assert_eq!(store.kept(&talk.tenant, "k", Timestamp(100)).await, Ok(Some(key("k", says))));
    }
}

/// A command whose session was deleted does not run again, not even when it is the very same.
pub async fn keys_outlive_their_session(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    let begin = keyed(talk.begin(&turn, None, 1), &key("k", "begin"), 100);
    accept(&store, begin.clone()).await;
    accept(&store, append_rest(&turn, 1, segment(2, 1), rest(ended(), 1))).await;
    accept(&store, talk.delete()).await;
    let other = Talk::new("acme");
    let again = keyed(other.begin(&TurnId::mint(), None, 1), &key("k", "again"), 100);
    assert_eq!(submit(&store, again).await, repeated("begin"));
    assert_eq!(submit(&store, begin).await, repeated("begin"));
    assert_no_session(&store, &other).await;
    assert_no_session(&store, &talk).await;
}
