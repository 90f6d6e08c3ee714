//! Sessions whose last turns are taken away.

use everturn_core::{Timestamp, TurnId};

use super::{
    Harness,
    fixture::{
        Talk, accept, append, append_rest, ended, key, keyed, over, put, read_all, receipt, record, repeated,
        replace_log, rest, segment, submit, tenant, timed, usage, waiting,
    },
};
use crate::{Command, EndedTurn, RecordKind, Refusal, Write};

/// From every read, also after a restart. The tokens were used all the same, and new turns go on after the last that
/// stayed.
pub async fn the_last_turns_are_taken_away(harness: &impl Harness) {
    let mut store = harness.open().await;
    let (talk, other) = (Talk::new("acme"), Talk::new("acme"));
    let mut turns = talk.converse(&store, 4).await;
    let others = other.converse(&store, 2).await;
    let before = talk.told(&store).await;
    assert_eq!(submit(&store, talk.truncate(9, 2)).await, receipt(0, 10));
    let gone = turns.split_off(2);
    for is_reopened in [false, true] {
        if is_reopened {
            drop(store);
            store = harness.open().await;
        }
        talk.assert_turns(&store, &turns).await;
        talk.assert_without(&store, &gone).await;
        other.assert_turns(&store, &others).await;
        let told = talk.told(&store).await;
        assert_eq!(told.turns, before.turns[..2]);
        let session = told.session.expect("a session");
        assert_eq!((session.version, session.updated_at), (10, Timestamp(65)));
        assert_eq!(session.usage, usage(20));
        for turn in &gone {
            assert_eq!(read_all(&store, turn, 100).await, Vec::new());
            assert_eq!(submit(&store, append(turn, 1, segment(4, 1))).await, Err(Refusal::NotFound));
            assert_eq!(submit(&store, talk.resume(turn, 10, segment(4, 1))).await, Err(Refusal::NotFound));
            assert_eq!(submit(&store, replace_log(turn, vec![segment(1, 3)], 1)).await, Err(Refusal::NotFound));
        }
        let mut logs = store.old_logs(Timestamp(100), 1, 10).await.expect("a list");
        logs.retain(|turn| !others.contains(turn));
        assert_eq!(logs, turns);
    }
    turns.push(talk.go_on(&store).await);
    talk.assert_turns(&store, &turns).await;
    assert_eq!(talk.read(&store).await.usage, usage(25));
}

/// It has ended, and what it used does not count.
pub async fn a_turn_takes_the_place_of_the_last(harness: &impl Harness) {
    let mut store = harness.open().await;
    let talk = Talk::new("acme");
    let mut turns = talk.converse(&store, 3).await;
    for (version, through) in [(7, 2), (8, 1), (9, 0), (10, 1), (11, 5)] {
        let new = EndedTurn { begins_history: version == 9, ..over(&TurnId::mint(), 3) };
        assert_eq!(
            submit(&store, talk.truncate_to(version, through, Some(new.clone()))).await,
            receipt(0, version + 1)
        );
        turns.truncate(usize::try_from(through).expect("a number"));
        turns.push(new.turn.clone());
        if version == 9 {
            drop(store);
            store = harness.open().await;
        }
        talk.assert_turns(&store, &turns).await;
        let found = talk.read_turn(&store, &new.turn).await;
        assert_eq!((found.status, found.messages), (ended(), new.rest.messages));
        assert_eq!((found.created_at, found.rested_at), (new.at, Some(new.at)));
        assert_eq!((found.begins_history, found.usage), (version == 9, new.rest.usage));
        assert_eq!(talk.read(&store).await.usage, usage(15));
    }
    assert_eq!(turns.len(), 3);
    turns.push(talk.go_on(&store).await);
    talk.assert_turns(&store, &turns).await;
}

/// All of them, or none: that is a change of the session, too.
pub async fn a_session_may_keep_all_turns_or_none(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turns = talk.converse(&store, 2).await;
    for (version, through) in [(5, 2), (6, 3), (7, u64::MAX)] {
        assert_eq!(submit(&store, talk.truncate(version, through)).await, receipt(0, version + 1));
        talk.assert_turns(&store, &turns).await;
    }
    for version in [8, 9] {
        assert_eq!(submit(&store, talk.truncate(version, 0)).await, receipt(0, version + 1));
        talk.assert_turns(&store, &[]).await;
        assert_eq!(talk.read(&store).await.last_turn, None);
    }
    let first = talk.go_on(&store).await;
    talk.assert_turns(&store, &[first]).await;
}

/// Also when the session has gone on. One that says anything else is another.
pub async fn truncating_again_is_recognised(harness: &impl Harness) {
    let mut store = harness.open().await;
    let talk = Talk::new("acme");
    let turns = talk.converse(&store, 3).await;
    let new = over(&TurnId::mint(), 3);
    let plain = talk.truncate(7, 2);
    for _ in 0..2 {
        assert_eq!(submit(&store, plain.clone()).await, receipt(0, 8));
    }
    for other in
        [talk.truncate(7, 1), timed(plain.clone(), 66), talk.truncate(6, 2), talk.truncate_to(7, 2, Some(new.clone()))]
    {
        assert_eq!(submit(&store, other).await, Err(Refusal::Changed));
    }
    let placed = keyed(talk.truncate_to(8, 1, Some(new.clone())), &key("k", "cut"), 70);
    for _ in 0..2 {
        assert_eq!(submit(&store, placed.clone()).await, receipt(0, 9));
    }
    assert_eq!(submit(&store, plain.clone()).await, Err(Refusal::Changed), "the other was the last");
    assert_eq!(submit(&store, keyed(plain, &key("k", "x"), 70)).await, repeated("cut"));
    let twin = keyed(talk.truncate_to(8, 1, Some(over(&TurnId::mint(), 3))), &key("l", "x"), 70);
    assert_eq!(submit(&store, twin).await, Err(Refusal::Changed));
    assert_eq!(submit(&store, timed(talk.truncate(8, 1), 70)).await, Err(Refusal::Changed));

    let next = talk.go_on(&store).await;
    drop(store);
    store = harness.open().await;
    assert_eq!(submit(&store, placed.clone()).await, receipt(0, 9));
    talk.assert_turns(&store, &[turns[0].clone(), new.turn, next]).await;
    accept(&store, talk.delete()).await;
    assert_eq!(submit(&store, placed).await, repeated("cut"));
    assert_eq!(submit(&store, talk.truncate(11, 0)).await, Err(Refusal::NotFound));
}

/// A command of the same time that came first is not taken for it.
pub async fn a_truncation_that_came_too_late_is_refused(harness: &impl Harness) {
    let store = harness.open().await;
    let talk = Talk::new("acme");
    let turns = talk.converse(&store, 2).await;
    let next = TurnId::mint();
    accept(&store, timed(talk.begin(&next, Some(5), 1), 65)).await;
    assert_eq!(submit(&store, talk.truncate(5, 1)).await, Err(Refusal::Changed));
    accept(&store, append_rest(&next, 1, segment(2, 2), rest(ended(), 1))).await;
    assert_eq!(submit(&store, talk.truncate(5, 1)).await, Err(Refusal::Changed));
    talk.assert_turns(&store, &[turns[0].clone(), turns[1].clone(), next]).await;
}

/// While a turn runs, waits or is queued, even if it would stay.
pub async fn a_busy_session_is_not_truncated(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, stranger) = (Talk::new("acme"), Talk::new("evil"));
    let turns = talk.converse(&store, 2).await;
    let (current, queued) = (TurnId::mint(), TurnId::mint());
    let refused = async |version: u64| {
        let before = talk.told(&store).await;
        for through in [0, 2, 3, 4] {
            let cut = keyed(talk.truncate(version, through), &key("k", "x"), 65);
            assert_eq!(submit(&store, cut).await, Err(Refusal::Changed));
        }
        assert_eq!(talk.told(&store).await, before);
        assert_eq!(store.kept(&talk.tenant, "k", Timestamp(65)).await, Ok(None));
    };
    refused(4).await;
    refused(6).await;
    accept(&store, talk.begin(&current, Some(5), 1)).await;
    refused(6).await;
    accept(&store, append_rest(&current, 1, segment(2, 1), rest(waiting(), 1))).await;
    refused(7).await;
    accept(&store, talk.queue(&queued, 7)).await;
    accept(&store, talk.end(&current, 8, segment(3, 1))).await;
    refused(9).await;
    accept(&store, talk.end(&queued, 9, segment(1, 1))).await;

    let other = Talk { tenant: tenant("evil"), ..talk.clone() };
    assert_eq!(submit(&store, other.truncate(10, 1)).await, Err(Refusal::NotFound));
    assert_eq!(submit(&store, stranger.truncate(1, 1)).await, Err(Refusal::NotFound));
    // The last turn that a truncated session has is its last, also where that one was never run.
    accept(&store, talk.truncate(10, 4)).await;
    assert_eq!(talk.read(&store).await.last_turn.expect("a turn").id, queued);
    accept(&store, talk.truncate(11, 2)).await;
    talk.assert_turns(&store, &turns).await;
}

/// What came of the turns is the session's, and goes with it.
pub async fn records_stay_when_turns_are_taken_away(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, fork) = (Talk::new("acme"), Talk::new("acme"));
    let turns = talk.converse(&store, 2).await;
    let mut artifact = record(RecordKind::Artifact, "a", Some(&talk.session), "done", "x");
    artifact.turn = Some(turns[1].clone());
    let permission = record(RecordKind::Permission, "p", None, "allowed", "x");
    accept(&store, put(&talk.tenant, vec![Write::Record(artifact.clone()), Write::Record(permission.clone())])).await;
    accept(&store, fork.fork(&talk, 5, 2)).await;
    accept(&store, talk.truncate(5, 1)).await;
    let read = async |kind, id| store.record(&talk.tenant, kind, id).await.expect("a read").map(|row| row.record);
    assert_eq!(read(RecordKind::Artifact, "a").await, Some(artifact.clone()));
    // Those who share the turn have it without its records.
    let filter = crate::RecordFilter { session: Some(fork.session.clone()), state: None };
    assert_eq!(store.records(&fork.tenant, RecordKind::Artifact, &filter, None, 10).await, Ok(Vec::new()));
    accept(&store, fork.delete()).await;
    assert_eq!(read(RecordKind::Artifact, "a").await, Some(artifact));
    accept(&store, talk.delete()).await;
    assert_eq!(read(RecordKind::Artifact, "a").await, None);
    assert_eq!(read(RecordKind::Permission, "p").await, Some(permission));
}

/// It goes by its own time, like every change of a session.
pub async fn a_truncated_session_is_idle_since_then(harness: &impl Harness) {
    let store = harness.open().await;
    let (talk, fork) = (Talk::new("acme"), Talk::new("acme"));
    talk.converse(&store, 1).await;
    accept(&store, timed(fork.fork(&talk, 3, 1), 50)).await;
    let name = |talk: &Talk| (talk.tenant.clone(), talk.session.clone());
    assert_eq!(store.idle_sessions(Timestamp(41), 10).await, Ok(vec![name(&talk)]));
    let Command::TruncateSession(cut) = talk.truncate(3, 0) else { unreachable!("a truncation") };
    accept(&store, Command::TruncateSession(cut)).await;
    assert_eq!(store.idle_sessions(Timestamp(65), 10).await, Ok(vec![name(&fork)]));
    assert_eq!(store.idle_sessions(Timestamp(66), 10).await, Ok(vec![name(&fork), name(&talk)]));
}
