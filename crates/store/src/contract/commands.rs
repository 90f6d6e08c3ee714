//! Commands: order, refusals, repetition, versions, epochs.

use everturn_core::{SessionId, TurnId};

use super::{
    Harness,
    fixture::{
        Talk, accept, append, append_rest, assert_log, commit, config, ended, read_all, receipt, rest, segment, submit,
        usage, waiting,
    },
};
use crate::{Refusal, TurnStatus};

/// A batch may create a session, begin its turn, write to it and end it.
pub async fn commands_see_those_before_them(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let (turn, next) = (TurnId::mint(), TurnId::mint());
    let batch = vec![
        talk.create(),
        talk.begin(&turn, Some(1), 1),
        append(&turn, 1, segment(2, 2)),
        append_rest(&turn, 1, segment(4, 1), rest(waiting(), 5)),
        talk.resume(&turn, 3, segment(5, 1)),
        append_rest(&turn, 2, segment(6, 1), rest(ended(), 6)),
        talk.begin(&next, Some(5), 3),
        append(&next, 1, segment(4, 1)),
    ];
    let expected = vec![
        receipt(0, 1),
        receipt(1, 2),
        receipt(1, 0),
        receipt(1, 3),
        receipt(2, 4),
        receipt(2, 5),
        receipt(1, 6),
        receipt(1, 0),
    ];
    assert_eq!(commit(&store, batch).await, expected);
    assert_log(&store, &turn, 6).await;
    assert_log(&store, &next, 4).await;
}

/// Refused commands between others change nothing.
pub async fn refusals_do_not_hinder_others(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, absent) = (Talk::new("acme"), Talk::new("acme"));
    let turn = TurnId::mint();
    let batch = vec![
        absent.delete(),
        talk.begin(&turn, None, 1),
        append(&turn, 9, segment(2, 1)),
        append(&turn, 1, segment(2, 1)),
        append(&turn, 1, segment(9, 1)),
        absent.begin(&TurnId::mint(), Some(1), 1),
        append(&TurnId::mint(), 1, segment(1, 1)),
        append(&turn, 1, segment(3, 1)),
    ];
    let expected = vec![
        Err(Refusal::NotFound),
        receipt(1, 1),
        Err(Refusal::Fenced),
        receipt(1, 0),
        Err(Refusal::Gap { head: 2, first_seq: 9 }),
        Err(Refusal::NotFound),
        Err(Refusal::NotFound),
        receipt(1, 0),
    ];
    assert_eq!(commit(&store, batch).await, expected);
    assert_log(&store, &turn, 3).await;
    assert_eq!(store.sessions(&talk.tenant, None, 10).await.expect("a list").len(), 1);
}

/// No command, no verdict.
pub async fn an_empty_batch_is_fine(harness: &impl Harness) {
    let store = harness.open().await;
    assert_eq!(commit(&store, Vec::new()).await, Vec::new());
}

/// A name is given once, by whichever command.
pub async fn a_session_is_begun_once(harness: &impl Harness) {
    let store = harness.open().await;
    let (created, begun) = (Talk::new("acme"), Talk::new("acme"));
    accept(&store, created.create()).await;
    assert_eq!(submit(&store, created.begin(&TurnId::mint(), None, 1)).await, Err(Refusal::Exists));
    accept(&store, begun.begin(&TurnId::mint(), None, 1)).await;
    assert_eq!(submit(&store, begun.create()).await, Err(Refusal::Exists));
    assert_eq!(submit(&store, begun.begin(&TurnId::mint(), None, 1)).await, Err(Refusal::Exists));
}

/// A turn's name cannot be used in another session, nor by another tenant.
pub async fn a_turn_belongs_to_one_session(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, other, stranger) = (Talk::new("acme"), Talk::new("acme"), Talk::new("evil"));
    let turn = TurnId::mint();
    talk.wait(&store, &turn).await;
    assert_eq!(submit(&store, other.begin(&turn, None, 1)).await, Err(Refusal::Exists));
    assert_eq!(submit(&store, stranger.begin(&turn, None, 1)).await, Err(Refusal::Exists));
    accept(&store, other.create()).await;
    assert_eq!(submit(&store, other.resume(&turn, 1, segment(3, 1))).await, Err(Refusal::NotFound));
    let replace = other.replace(&TurnId::mint(), 1, &turn, segment(3, 1));
    assert_eq!(submit(&store, replace).await, Err(Refusal::NotFound));
    assert_log(&store, &turn, 2).await;
}

/// Commands name the version that they were decided upon.
pub async fn stale_versions_are_refused(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    talk.wait(&store, &turn).await;
    for version in [0, 1, 3, u64::MAX] {
        let begin = talk.replace(&TurnId::mint(), version, &turn, segment(3, 1));
        assert_eq!(submit(&store, begin).await, Err(Refusal::Changed), "version {version}");
        let resume = talk.resume(&turn, version, segment(3, 1));
        assert_eq!(submit(&store, resume).await, Err(Refusal::Changed), "version {version}");
    }
    assert_eq!(submit(&store, talk.resume(&turn, 2, segment(3, 1))).await, receipt(2, 3));
}

/// A session has at most one turn that has not ended; a waiting one must be named to be replaced.
pub async fn one_turn_at_a_time(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    accept(&store, talk.begin(&turn, None, 1)).await;
    let next = TurnId::mint();
    assert_eq!(submit(&store, talk.begin(&next, Some(1), 1)).await, Err(Refusal::Changed));
    let replace = talk.replace(&next, 1, &turn, segment(2, 1));
    assert_eq!(submit(&store, replace).await, Err(Refusal::Changed));
    accept(&store, append_rest(&turn, 1, segment(2, 1), rest(waiting(), 5))).await;
    assert_eq!(submit(&store, talk.begin(&next, Some(2), 1)).await, Err(Refusal::Changed));
    accept(&store, talk.replace(&next, 2, &turn, segment(3, 1))).await;
    let replace = talk.replace(&TurnId::mint(), 3, &turn, segment(4, 1));
    assert_eq!(submit(&store, replace).await, Err(Refusal::Changed));
}

/// No gap, no overlap, whichever command brings the events.
pub async fn appends_must_follow_the_log(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    let mut begin = talk.begin_turn(&turn, None, 1);
    begin.segment = segment(2, 1);
    let begin = crate::Command::BeginTurn(Box::new(begin));
    assert_eq!(submit(&store, begin).await, Err(Refusal::Gap { head: 0, first_seq: 2 }));
    assert_eq!(store.session(&talk.tenant, &talk.session).await, Ok(None));

    accept(&store, talk.begin(&turn, None, 3)).await;
    for (first_seq, count) in [(5, 1), (3, 2), (100, 1), (u64::MAX - 5, 2)] {
        let gap = Err(Refusal::Gap { head: 3, first_seq });
        assert_eq!(submit(&store, append(&turn, 1, segment(first_seq, count))).await, gap);
        let end = append_rest(&turn, 1, segment(first_seq, count), rest(ended(), 1));
        assert_eq!(submit(&store, end).await, gap);
    }
    accept(&store, append_rest(&turn, 1, segment(4, 1), rest(waiting(), 1))).await;
    let gap = Err(Refusal::Gap { head: 4, first_seq: 6 });
    assert_eq!(submit(&store, talk.resume(&turn, 2, segment(6, 1))).await, gap);
    let replace = talk.replace(&TurnId::mint(), 2, &turn, segment(6, 1));
    assert_eq!(submit(&store, replace).await, gap);
    assert_log(&store, &turn, 4).await;
}

/// An append with another epoch, lower or higher, is fenced off.
pub async fn appends_need_the_epoch(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    talk.wait(&store, &turn).await;
    accept(&store, talk.resume(&turn, 2, segment(3, 1))).await;
    for epoch in [0, 1, 3, u64::MAX] {
        assert_eq!(submit(&store, append(&turn, epoch, segment(4, 1))).await, Err(Refusal::Fenced));
        let end = append_rest(&turn, epoch, segment(4, 1), rest(ended(), 1));
        assert_eq!(submit(&store, end).await, Err(Refusal::Fenced));
    }
    assert_eq!(submit(&store, append(&turn, 2, segment(4, 1))).await, receipt(2, 0));
    assert_log(&store, &turn, 4).await;
}

/// Neither to a waiting one nor to one that is over.
pub async fn nothing_is_appended_to_a_resting_turn(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    talk.wait(&store, &turn).await;
    assert_eq!(submit(&store, append(&turn, 1, segment(3, 1))).await, Err(Refusal::Changed));
    accept(&store, talk.resume(&turn, 2, segment(3, 1))).await;
    accept(&store, append_rest(&turn, 2, segment(4, 1), rest(ended(), 1))).await;
    assert_eq!(submit(&store, append(&turn, 2, segment(5, 1))).await, Err(Refusal::Changed));
    assert_eq!(submit(&store, talk.resume(&turn, 4, segment(5, 1))).await, Err(Refusal::Changed));
    assert_log(&store, &turn, 4).await;
}

/// One command ends the waiting turn and begins the next.
pub async fn a_new_turn_takes_the_place_of_a_waiting_one(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let (turn, next) = (TurnId::mint(), TurnId::mint());
    talk.wait(&store, &turn).await;
    let replace = talk.replace(&next, 2, &turn, segment(3, 2));
    for _ in 0..2 {
        assert_eq!(submit(&store, replace.clone()).await, receipt(1, 3));
    }
    let turns = store.turns(&talk.tenant, &talk.session).await.expect("turns");
    let [old, new] = turns.as_slice() else { panic!("two turns, not {turns:?}") };
    let end = rest(ended(), 7);
    assert_eq!((&old.status, old.head, &old.messages), (&ended(), 4, &end.messages));
    assert_eq!((&old.compaction, old.usage, old.ordinal), (&end.compaction, end.usage, 1));
    assert_eq!((&new.id, &new.status, new.head, new.ordinal), (&next, &TurnStatus::Running, 1, 2));
    let session = store.session(&talk.tenant, &talk.session).await.expect("a read").expect("a session");
    assert_eq!((session.version, session.usage), (3, end.usage));
    assert_eq!(session.last_turn.expect("a turn").id, next);
    assert_log(&store, &turn, 4).await;
    assert_log(&store, &next, 1).await;
    assert_eq!(submit(&store, append(&turn, 1, segment(5, 1))).await, Err(Refusal::Changed));
}

/// Waiting and going on may happen again and again; every owner has a higher epoch.
pub async fn a_waiting_turn_goes_on(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    talk.wait(&store, &turn).await;
    let (mut head, mut version) = (2, 2);
    for epoch in 2..6 {
        let record = store.turn(&talk.tenant, &talk.session, &turn).await.expect("a read").expect("a turn");
        assert_eq!((record.status, record.head), (waiting(), head));
        let resume = talk.resume(&turn, version, segment(head + 1, 1));
        assert_eq!(submit(&store, resume).await, receipt(epoch, version + 1));
        let record = store.turn(&talk.tenant, &talk.session, &turn).await.expect("a read").expect("a turn");
        assert_eq!((record.status, record.head), (TurnStatus::Running, head + 1));
        accept(&store, append(&turn, epoch, segment(head + 2, 2))).await;
        let pause = append_rest(&turn, epoch, segment(head + 4, 1), rest(waiting(), epoch));
        assert_eq!(submit(&store, pause).await, receipt(epoch, version + 2));
        (head, version) = (head + 4, version + 2);
        assert_log(&store, &turn, head).await;
    }
}

/// A rest tells the usage of the whole turn, so a turn that rests twice does not count twice.
pub async fn usage_is_counted_once(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let (turn, next) = (TurnId::mint(), TurnId::mint());
    talk.wait(&store, &turn).await;
    accept(&store, talk.resume(&turn, 2, segment(3, 1))).await;
    accept(&store, append_rest(&turn, 2, segment(4, 1), rest(ended(), 11))).await;
    accept(&store, talk.begin(&next, Some(4), 1)).await;
    accept(&store, append_rest(&next, 1, segment(2, 1), rest(ended(), 100))).await;
    let session = store.session(&talk.tenant, &talk.session).await.expect("a read").expect("a session");
    assert_eq!(session.usage, usage(111));
    let usages: Vec<_> =
        store.turns(&talk.tenant, &talk.session).await.expect("turns").into_iter().map(|turn| turn.usage).collect();
    assert_eq!(usages, [usage(11), usage(100)]);
}

/// The settings are those of the last command that gave any; names and times are kept.
pub async fn settings_change_with_commands(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    let steps = [
        (talk.create(), "created", 10),
        (talk.begin(&turn, Some(1), 1), "begun", 20),
        (append_rest(&turn, 1, segment(2, 1), rest(waiting(), 1)), "begun", 40),
        (talk.resume(&turn, 3, segment(3, 1)), "resumed", 50),
    ];
    for (command, agent, updated) in steps {
        accept(&store, command).await;
        let session = store.session(&talk.tenant, &talk.session).await.expect("a read").expect("a session");
        assert_eq!((session.created_at.0, session.updated_at.0), (10, updated));
        assert_eq!(session.config, config(agent));
        assert_eq!((session.id, session.tenant), (talk.session.clone(), talk.tenant.clone()));
    }
}

/// Reads of what is not there are empty; commands on it are refused.
pub async fn what_does_not_exist_is_not_found(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turn = TurnId::mint();
    assert_eq!(store.session(&talk.tenant, &SessionId::mint()).await, Ok(None));
    assert_eq!(store.sessions(&talk.tenant, None, 10).await, Ok(Vec::new()));
    assert_eq!(store.turns(&talk.tenant, &talk.session).await, Ok(Vec::new()));
    assert_eq!(store.turn(&talk.tenant, &talk.session, &turn).await, Ok(None));
    assert_eq!(read_all(&store, &turn, 100).await, Vec::new());
    assert_eq!(submit(&store, append(&turn, 1, segment(1, 1))).await, Err(Refusal::NotFound));
    assert_eq!(submit(&store, talk.begin(&turn, Some(1), 1)).await, Err(Refusal::NotFound));
    assert_eq!(submit(&store, talk.resume(&turn, 1, segment(1, 1))).await, Err(Refusal::NotFound));
    accept(&store, talk.create()).await;
    assert_eq!(submit(&store, talk.resume(&turn, 1, segment(1, 1))).await, Err(Refusal::NotFound));
}
